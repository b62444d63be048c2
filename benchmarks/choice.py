"""Error of what `auto` and the default choose for an epsilon, against the best mechanism of the preview's list.

Policy x workload x epsilon x table. `ours` is the RMSE of what `auto` runs, which knows the number of records where it
is public; `other` is the least one of its list:
data-independent mechanisms, whose expected error is known, and the data-aware one that `auto` names, which is run. The
default promises its accuracy, so its list has the data-independent ones only. The last rows have the worst ratios.
Tables are made up; --real takes the histograms and grids of the folder given with --data instead. --audit takes the
tables, policies and questions of `blowfish audit` and grids of 16 x 16 under local policies: there every listed
mechanism is simulated, and the price of an accuracy is compared with the least that any mechanism asks for it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks import synthetic
from benchmarks.harness import Row, Work, progress, read_histograms
from benchmarks.tuning import seeded_run
from blowfishdb.accuracy.candidates import CertifiedCandidate, certified_strategy
from blowfishdb.accuracy.quote import expected_rmse
from blowfishdb.audit.cases import battery
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.program import choose, program_release
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Family, Policy, grid, line, partition, threshold
from blowfishdb.model.query import Query, query
from blowfishdb.plan.plan import EdgePlan

EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
NAMES = ("x", "y")
BOXES = 200
TRIALS = 3
SIDES = (16, 64)
CELLS = (64, 1024)
HEAPED = 3
LARGEST_LOCAL = 4096
"""Local policies on larger grids keep a quote waiting for minutes."""


@dataclass(frozen=True)
class Choices:
    """What runs by default and by `auto`, and the expected RMSE of every data-independent mechanism that serves."""

    compiled: Compiled
    epsilon: Fraction
    default: str
    errors: Mapping[str, float]
    is_counted: bool

    def auto(self, counts: Ints) -> str:
        """What `auto` runs on this table."""
        rows = int(counts.sum()) if self.is_counted else None
        return choose(self.compiled, accuracy_target(epsilon=self.epsilon), rows).mechanism or self.default

    def ratios(self, counts: Ints, trials: int = TRIALS) -> tuple[float, float, float, str]:
        """The default's error over the least data-independent one, auto's over the least of its own list; and that."""
        errors, auto = dict(self.errors), self.auto(counts)
        if auto not in errors:
            errors[auto] = measured_error(self.compiled, self.epsilon, auto, counts, trials)
        best = min(errors, key=lambda name: errors[name])
        if errors[best] == 0.0:
            return 1.0, 1.0, 0.0, best
        default = errors[self.default] / min(self.errors.values())
        return default, errors[auto] / errors[best], errors[best], best


def run(data: Path | None) -> Iterator[Row]:
    """Made-up tables."""
    del data
    yield from _rows(list(made_up()), EPSILONS)


def run_with(arguments: Sequence[str]) -> Work:
    """With --real, the folder's tables; with --epsilon, one epsilon."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks choice")
    parser.add_argument("--real", action="store_true", help="the histograms and grids of --data")
    parser.add_argument("--audit", action="store_true", help="the tables, policies and questions of an audit")
    parser.add_argument("--epsilon", type=Fraction, action="append", help="one epsilon; may be repeated")
    parser.add_argument("--sides", type=int, nargs="*", default=list(SIDES), help="cells along each side of grids")
    parser.add_argument("--cells", type=int, nargs="*", default=list(CELLS), help="cells of histograms")
    options = parser.parse_args(arguments)
    epsilons = tuple(options.epsilon or EPSILONS)

    def work(data: Path | None) -> Iterator[Row]:
        if options.audit:
            yield from _audit_rows(list(audited()), tuple(options.epsilon or AUDIT_EPSILONS))
            return
        tables = real(data, options.cells, options.sides) if options.real else made_up(options.cells, options.sides)
        yield from _rows(list(tables), epsilons)

    return work


def _rows(tables: Sequence[tuple[str, Ints]], epsilons: Sequence[Fraction]) -> Iterator[Row]:
    worst = {"default": (0.0, ""), "auto": (0.0, "")}
    shapes = dict.fromkeys(counts.shape for _, counts in tables)
    with progress("choices", len(shapes) * len(epsilons)) as done:
        for place, (shape, epsilon) in enumerate((shape, epsilon) for shape in shapes for epsilon in epsilons):
            alike = [(name, counts) for name, counts in tables if counts.shape == shape]
            for case, compiled, policy in problems(shape):
                both = choices(compiled, policy, epsilon)
                for name, counts in alike:
                    default, auto, least, best = both.ratios(counts)
                    ratios = (default, auto)
                    label = f"{'x'.join(map(str, shape))} {case}, epsilon {float(epsilon):g}, {name}"
                    worst = {who: max(worst[who], (ratio, label)) for who, ratio in zip(worst, ratios, strict=True)}
                    note = f"auto {both.auto(counts)}, best {best}; default {both.default}, ratio {default:.3g}"
                    yield Row(label, auto * least, least, auto, note=note)
            done(place + 1)
    for who, (ratio, label) in worst.items():
        yield Row(f"worst of {who}", ratio=ratio, note=label)


def choices(compiled: Compiled, policy: Policy, epsilon: Fraction) -> Choices:
    """Both choices, with the errors of those of no shortlist too."""
    errors = {name: expected_rmse(candidate, epsilon) for name, candidate in listed_candidates(compiled).items()}
    default = quotes_for(compiled, accuracy_target(epsilon=epsilon)).best.mechanism
    return Choices(compiled, epsilon, default, errors, policy.presence == "public")


def measured_error(compiled: Compiled, epsilon: Fraction, mechanism: str, counts: Ints, trials: int) -> float:
    """The RMSE of a data-aware mechanism over some releases with seeded noise."""
    release = program_release(compiled, accuracy_target(epsilon=epsilon, mechanism=mechanism))
    problem, flat = compiled.problem, np.ascontiguousarray(counts.reshape(-1))
    truth = problem.workload.dot(flat)
    findings = (seeded_run(release.mechanism.script(problem, release.program), flat, seed) for seed in range(trials))
    return math.sqrt(np.mean([np.mean((finding.answers - truth) ** 2) for finding in findings]))


def problems(shape: tuple[int, ...]) -> Iterator[tuple[str, Compiled, Policy]]:
    """Every policy with every workload over so many cells."""
    names = NAMES[: len(shape)]
    declared = domain({name: integers(0, size - 1, null=0) for name, size in zip(names, shape, strict=True)})
    for policy_name, policy in policies(shape).items():
        for workload_name, asked in workloads(shape).items():
            yield f"{policy_name}, {workload_name}", compile_query(declared, policy, asked), policy


def policies(shape: tuple[int, ...]) -> Mapping[str, Policy]:
    """Full domain, presence alone, and local policies: lines, thresholds, blocks, and on grids one step of L1."""
    names = NAMES[: len(shape)]
    families: dict[str, Family] = {
        "line": line(),
        "threshold 4": threshold(4),
        "blocks of 4": partition(cuts=list(range(4, max(shape), 4))),
    }
    listed = {"full": Policy(), "only": Policy(presence="only")}
    if math.prod(shape) <= LARGEST_LOCAL or len(shape) == 1:
        listed |= {what: Policy(dict.fromkeys(names, family)) for what, family in families.items()}
        if len(shape) > 1:
            listed["L1 grid 1"] = Policy(joint=[grid(names, 1, "l1")])
    return listed


def workloads(shape: tuple[int, ...]) -> Mapping[str, Query]:
    """A histogram, random boxes with uniform ends, and on one axis running counts."""
    names = NAMES[: len(shape)]
    draw = np.random.default_rng(synthetic.SEED)
    ends = np.stack([np.sort(draw.integers(0, size, (BOXES, 2)), axis=1) for size in shape], axis=1)
    boxes = [tuple((int(low), int(high) + 1) for low, high in box) for box in ends]
    listed = {"histogram": query("histogram", names), "boxes": query("ranges", names, boxes=boxes)}
    return listed if len(shape) > 1 else {**listed, "cdf": query("cdf", names)}


def made_up(cells: Sequence[int] = CELLS, sides: Sequence[int] = SIDES) -> Iterator[tuple[str, Ints]]:
    """Synthetic tables with few and many records."""
    for one in synthetic.histograms((10**4, 10**6)):
        for size in cells:
            yield f"{one.kind} {one.records:.0e}", joined(one.counts, (size,))
    for table in synthetic.grids((10**4, 10**6)):
        for side in sides:
            name, counts = f"{table.kind} {int(table.counts.sum()):.0e}", joined(table.counts, (side, side))
            yield from ((name, counts), (f"{name} heaped", heaped(counts)))


def heaped(counts: Ints) -> Ints:
    """The counts of every HEAPED columns on the first of them, as where values are rounded."""
    starts = np.arange(0, counts.shape[1], HEAPED)
    lattice = np.zeros_like(counts)
    lattice[:, starts] = np.add.reduceat(counts, starts, axis=1)
    return lattice


def real(data: Path | None, cells: Sequence[int], sides: Sequence[int]) -> Iterator[tuple[str, Ints]]:
    """The tables of the folder, joined to so many cells."""
    for name, counts in read_histograms(data, "histograms_1d").items():
        yield from ((name, joined(counts, (size,))) for size in cells)
    for name, counts in read_histograms(data, "histograms_2d").items():
        yield from ((name, joined(counts, (side, side))) for side in sides)


def joined(counts: Ints, shape: tuple[int, ...]) -> Ints:
    """The counts over neighbouring cells added up to that many along each axis."""
    for axis, size in enumerate(shape):
        starts = np.arange(size) * counts.shape[axis] // size
        counts = np.add.reduceat(counts, starts, axis=axis)
    return counts


AUDIT_EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
AUDIT_TRIALS = 4000
"""The RMSE of a Laplace variable is known to 2 % then: the deviation of its square is 2.2 times its mean."""
ALPHAS = (5, 50)
COUNTED_KINDS = ("histogram", "histogram2d", "cdf", "ranges", "marginals", "count", "linear")
"""Questions that several mechanisms answer; the others have one each."""
GRIDS = {
    "full": Policy(),
    "threshold 1": Policy({"x": threshold(1), "y": threshold(1)}),
    "line x line": Policy({"x": line(), "y": line()}),
    "blocks of 4": Policy(dict.fromkeys("xy", partition(cuts=[4, 8, 12]))),
    "L1 grid 1": Policy(joint=[grid("xy", 1, "l1")]),
}


def audited() -> Iterator[tuple[str, Compiled]]:
    """Every problem of the audit's battery, each one once, and small grids under local policies.

    No table is needed: on so few cells both choices are data-independent, and their error is that of the noise.
    """
    seen = set()
    for case in battery(quick=False):
        if case.query.kind in COUNTED_KINDS:
            compiled = compile_query(case.domain, case.policy, case.query)
            if (fingerprint := compiled.problem.fingerprint()) not in seen:
                seen.add(fingerprint)
                yield case.name, compiled
    sixteen = domain({name: integers(0, 15, null=0) for name in NAMES})
    for name, policy in GRIDS.items():
        for workload, asked in workloads((16, 16)).items():
            yield f"16 x 16, {name}, {workload}", compile_query(sixteen, policy, asked)


def _audit_rows(problems: Sequence[tuple[str, Compiled]], epsilons: Sequence[Fraction]) -> Iterator[Row]:
    worst = {"default and auto, by epsilon": (0.0, ""), "default, by accuracy": (0.0, "")}
    by_epsilon, by_accuracy = worst
    with progress("audited problems", len(problems)) as done:
        for place, (name, compiled) in enumerate(problems):
            for epsilon in epsilons:
                errors, default = simulated_errors(compiled, epsilon, AUDIT_TRIALS)
                row = _compared(f"{name}, epsilon {float(epsilon):g}", errors, default)
                worst[by_epsilon] = max(worst[by_epsilon], (row.ratio or 0.0, row.case))
                yield row
            for alpha in ALPHAS:
                prices, default = prices_of(compiled, alpha)
                row = _compared(f"{name}, within {alpha}", prices, default)
                worst[by_accuracy] = max(worst[by_accuracy], (row.ratio or 0.0, row.case))
                yield row
            done(place + 1)
    for who, (ratio, label) in worst.items():
        yield Row(f"worst of {who}", ratio=ratio, note=label)


def _compared(case: str, amounts: Mapping[str, float], default: str) -> Row:
    best = min(amounts, key=lambda name: amounts[name])
    ratio = amounts[default] / amounts[best] if amounts[best] > 0 else 1.0
    return Row(case, amounts[default], amounts[best], ratio, note=f"default {default}, best {best}")


def simulated_errors(compiled: Compiled, epsilon: Fraction, trials: int) -> tuple[Mapping[str, float], str]:
    """The RMSE of every listed mechanism over simulated releases, and what runs by default, which `auto` must run too.

    ValueError where `auto` would run anything else: that depends on data, and is measured on tables.
    """
    target = accuracy_target(epsilon=epsilon)
    errors = {
        name: simulated_error(candidate, epsilon, trials) for name, candidate in listed_candidates(compiled).items()
    }
    if (auto := choose(compiled, target, None).mechanism) is not None:
        raise ValueError(f"auto runs {auto}")
    return errors, quotes_for(compiled, target).best.mechanism


def listed_candidates(compiled: Compiled) -> Mapping[str, CertifiedCandidate]:
    """Every data-independent mechanism that serves the problem, those of no shortlist too."""
    candidates = {}
    for name, propose in MECHANISMS.items():
        with suppress(BlowfishError):
            candidates[name] = certified_strategy(compiled.problem, propose(compiled.problem))
    return candidates


def simulated_error(candidate: CertifiedCandidate, epsilon: Fraction, trials: int) -> float:
    """The RMSE of the answers over so many draws of the noise, from a fixed seed; no table changes it."""
    if candidate.is_exact:
        return 0.0
    plan, _ = candidate.at(epsilon)
    draw = np.random.default_rng(synthetic.SEED)
    stops = -np.expm1(-plan.weights / float(plan.unit))[:, None]
    shape = (plan.weights.size, trials)
    noise = draw.geometric(stops, shape) - draw.geometric(stops, shape)
    if isinstance(plan, EdgePlan):
        return math.sqrt(np.mean((plan.decoder @ noise) ** 2))
    exact = np.zeros((candidate.exact_rows, trials))
    return math.sqrt(np.mean(candidate.strategy.decode(noise.astype(float), exact, candidate.variances(epsilon)) ** 2))


def prices_of(compiled: Compiled, alpha: int) -> tuple[Mapping[str, float], str]:
    """The epsilon that each mechanism asks for an accuracy when it is named, and what runs by default."""
    prices = {}
    for name in MECHANISMS:
        with suppress(BlowfishError):
            prices[name] = float(quotes_for(compiled, accuracy_target(alpha=alpha, mechanism=name)).best.epsilon)
    best = quotes_for(compiled, accuracy_target(alpha=alpha)).best
    prices[best.mechanism] = float(best.epsilon)
    return prices, best.mechanism
