"""The demonstration paper's claims: epsilon by threshold, projected policies, questions within a budget."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

import blowfishdb as bf
from blowfishdb.accuracy.quote import Quote, quote
from blowfishdb.engine.compile import compile_query
from blowfishdb.errors import InvalidInput
from blowfishdb.mechanisms import optimized
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Kind, Query
from blowfishdb.plan.certificate import certify
from papers.charts import COARSE, legend_below, lines, plain, simple_ticks
from papers.data import generator
from papers.experiment import (
    Case,
    Picture,
    Procedure,
    Result,
    Row,
    Settings,
    Table,
    Verdict,
    distinct,
    how_it_holds,
    matching,
    number,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The public domain of the Adult table that the demonstration's experiments ask about; no data is read.

ROWS = 48_842
BETA = 0.05


def domain() -> Domain:
    """Four numbers of a person; NULL counts as the least value, so that no further cell is needed."""
    return bf.domain(
        {
            "age": bf.integers(17, 90, null=17),
            "hours": bf.integers(1, 99, null=1),
            "education": bf.integers(1, 16, null=1),
            "capital_loss": bf.integers(0, 4356, null=0),
        }
    )


def cheapest(policy: Policy, query: Query, alpha: float, mechanisms: dict[str, Mechanism] | None = None) -> Quote:
    """The least epsilon at which all answers are within alpha with probability 0.95, and the plan that keeps it."""
    problem = compile_query(domain(), policy, query).problem
    return quote(problem, alpha, BETA, MECHANISMS if mechanisms is None else mechanisms).best


# Figure 3: the epsilon that an accuracy costs, by the threshold of the policy.

COLUMN, VALUES = "capital_loss", 4357
ALPHA = 100.0
KINDS: dict[Kind, str] = {"histogram": "histogram", "cdf": "cumulative histogram", "ranges": "all ranges"}
THRESHOLDS_MUCH = 1.5
SAME = 1.02
"""Prices that differ by less are the same: plans are found by search."""
THRESHOLDS_CLAIM = (
    "For a fixed accuracy a narrower threshold costs less epsilon, for histograms and cumulative histograms."
)


def thresholds_cases(settings: Settings) -> list[Case]:
    """Each kind of question at each threshold; the number of values means the full graph."""
    some: tuple[int, ...] = (1, 10, 100, 1000, VALUES)
    thetas = settings.pick((1, VALUES), some, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, VALUES))
    kinds = settings.pick(("histogram", "cdf"), tuple(KINDS), tuple(KINDS))
    return [(kind, theta) for kind in kinds for theta in thetas]


def thresholds_measure(settings: Settings, case: Case) -> list[Row]:
    """The least epsilon, and the mechanism that reaches it."""
    del settings
    kind = next(each for each in KINDS if each == case[0])
    theta = int(str(case[1]))
    policy = Policy() if theta >= VALUES else Policy({COLUMN: bf.threshold(theta)})
    best = cheapest(policy, bf.query(kind, COLUMN), ALPHA)
    return [{"question": KINDS[kind], "theta": theta, "epsilon": float(best.epsilon), "mechanism": best.mechanism}]


def thresholds_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    words = f"all answers within {ALPHA:g} people with probability {1 - BETA:g}"
    table = Table("epsilon", f"Least epsilon by threshold, capital loss, {words}", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {kind: matching(rows, question=kind) for kind in KINDS.values()}
        lines(axes, {k: [(number(r, "theta"), number(r, "epsilon")) for r in each] for k, each in own.items() if each})
        plain(axes, f"θ in dollars ({VALUES} is the full graph)", "least ε", words, log_x=True, log_y=True)
        simple_ticks(axes, COARSE)
        legend_below(figure, axes)

    title = "BlowfishDB demonstration, Figure 3: ε by threshold for a fixed accuracy, capital loss"
    return Result(
        (table,),
        (Picture("epsilon", title, "without noise: prices read no data", draw, (7.0, 4.2)),),
        thresholds_judge(rows),
    )


def thresholds_judge(rows: Sequence[Row]) -> Verdict:
    """Whether a narrower threshold never costs more, and whether most thresholds save something, by kind of query."""
    prices = {kind: _by_theta(rows, kind) for kind in KINDS.values() if matching(rows, question=kind)}
    rise = max(narrow / wide for own in prices.values() for narrow, wide in pairwise(own.values()))
    savings = {kind: list(own.values())[-1] / next(iter(own.values())) for kind, own in prices.items()}
    useful = {kind: _cheaper(own) for kind, own in prices.items()}
    said = "; ".join(
        f"{kind}: {savings[kind]:.3g} times less at one step, cheaper than the full graph at {len(useful[kind])} of "
        f"{len(own) - 1} thresholds" + (f", up to θ = {useful[kind][-1]:g}" if useful[kind] else "")
        for kind, own in prices.items()
    )
    never = "is never more expensive" if rise <= 1 else f"is more expensive by {100 * (rise - 1):.1f} % at most"
    why = f"A narrower threshold {never}. {said[0].upper()}{said[1:]}."
    if len(useful.get(KINDS["histogram"], ())) < (len(next(iter(prices.values()))) - 1) / 2:
        why += " Any move between two cells changes two counts of a histogram, however near they are."
    mostly = [
        savings[kind] >= THRESHOLDS_MUCH and len(useful[kind]) >= (len(own) - 1) / 2 for kind, own in prices.items()
    ]
    return Verdict(THRESHOLDS_CLAIM, how_it_holds([rise <= SAME, *mostly]), why)


def _by_theta(rows: Sequence[Row], kind: str) -> dict[float, float]:
    """The price of one kind of question by threshold, narrowest first."""
    return dict(sorted((number(row, "theta"), number(row, "epsilon")) for row in matching(rows, question=kind)))


def _cheaper(own: dict[float, float]) -> list[float]:
    """The thresholds at which a question is clearly cheaper than under the full graph, which is the last."""
    *narrow, (_, full) = own.items()
    return [theta for theta, price in narrow if price * SAME < full]


THRESHOLDS_PROCEDURE = Procedure(thresholds_cases, thresholds_measure, thresholds_conclude)


# Section 3: a policy that is projected on the cells of a question, against the policy on the whole domain.

ASKED, THETA = 8, 2
"""The question is a cumulative histogram of one attribute with so many values, under this threshold."""
STATIC, PROJECTED, ENGINE = "whole policy, as a matrix", "projected policy, as a matrix", "BlowfishDB's engine"
PROJECTIONS_MUCH = 10.0
PROJECTIONS_CLAIM = (
    "A projected policy gives the accuracy and privacy of the whole one, and saves much time and memory."
)


def projections_cases(settings: Settings) -> list[Case]:
    """Ever more values of an attribute that is not asked about; the whole policy only as long as it fits."""
    others = settings.pick((1, 4), (1, 4, 16, 64), (1, 2, 4, 8, 16, 32, 64, 128))
    beyond = settings.pick((1000,), (10**3, 10**5), (10**3, 10**4, 10**5, 10**6))
    whole = [(method, other) for other in others for method in (STATIC, PROJECTED, ENGINE)]
    return [*whole, *((method, other) for other in beyond for method in (PROJECTED, ENGINE))]


def table_with(other: int) -> tuple[Domain, Policy]:
    """One attribute that is asked about and one that is not, which move one at a time (Definition 3.2)."""
    domain = bf.domain({"asked": bf.integers(1, ASKED, null=1), "other": bf.integers(1, other, null=1)})
    policy = {"asked": bf.threshold(THETA), "other": bf.threshold(1)}
    return domain, Policy(policy, composition="attribute")


def projections_measure(settings: Settings, case: Case) -> list[Row]:
    """Seconds and peak memory of getting ready to answer, and the expected error of an answer at epsilon 1."""
    del settings
    method, other = str(case[0]), int(str(case[1]))
    work = {STATIC: whole_policy, PROJECTED: projected_policy, ENGINE: engine}[method]
    domain, policy = table_with(other)
    work(*table_with(1))
    start = time.process_time()
    error = work(domain, policy)
    seconds = time.process_time() - start
    peak = peak_megabytes(lambda: work(domain, policy))
    return [{"method": method, "values": ASKED * other, "error": error, "seconds": seconds, "peak_mb": peak}]


def peak_megabytes(work: Callable[[], object]) -> float:
    """The most memory that the work holds at once, beyond what was held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def whole_policy(domain: Domain, policy: Policy) -> float:
    """The demonstration's transformation on every value of the domain."""
    graph = compile_cells(domain, policy, ["asked", "other"]).graph
    cumulative = np.repeat(np.tril(np.ones((ASKED, ASKED))), graph.cells // ASKED, axis=1)
    return transformed_error(graph, cumulative)


def projected_policy(domain: Domain, policy: Policy) -> float:
    """The same on the cells of the question."""
    graph = compile_cells(domain, policy, ["asked"]).graph
    return transformed_error(graph, np.tril(np.ones((ASKED, ASKED))))


def transformed_error(graph: CellGraph, workload: Floats) -> float:
    """The root mean squared error at epsilon 1 when the transformed workload W P is measured itself.

    P has a row for each vertex but the last and a column for each edge. The transformed data are found with its
    pseudo-inverse, as the demonstration does; the noise of an answer has the scale of the largest column of W P.
    """
    incidence = incidence_matrix(graph.value_edges(), graph.cells)
    reduced = workload[:, :-1] - workload[:, -1:]
    transformed = reduced @ incidence
    counts = np.ones(graph.cells - 1)
    if not np.allclose(incidence @ (np.linalg.pinv(incidence) @ counts), counts):
        raise InvalidInput("the policy does not join all values: its matrix has no right inverse")
    return float(np.sqrt(2.0) * np.abs(transformed).sum(axis=0).max())


def incidence_matrix(edges: Ints, cells: int) -> Floats:
    """P of the appendix: 1 and -1 in the rows of an edge's ends, without the row of the last vertex."""
    matrix = np.zeros((cells, len(edges)))
    matrix[edges[:, 0], np.arange(len(edges))] = 1.0
    matrix[edges[:, 1], np.arange(len(edges))] = -1.0
    return matrix[:-1]


def engine(domain: Domain, policy: Policy) -> float:
    """The root mean squared error at epsilon 1 of an optimised and certified plan, compiled from the question."""
    problem = compile_query(domain, policy, bf.query("cdf", "asked")).problem
    strategy = optimized.propose(problem)
    plan = strategy.plan(Fraction(1))
    scales = float(certify(plan, problem.graph).epsilon) / plan.weights
    return float(np.sqrt(strategy.answer_variances(2.0 * scales**2).mean()))


def projections_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("costs", "Time and memory of getting ready, by size of the domain", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own = {method: matching(rows, method=method) for method in distinct(rows, "method")}
        for axes, column, words in zip(
            panels, ("seconds", "peak_mb"), ("CPU seconds", "peak memory (MB)"), strict=True
        ):
            lines(axes, {m: [(number(r, "values"), max(number(r, column), 1e-4)) for r in o] for m, o in own.items()})
            plain(axes, "values of the domain", words, log_x=True, log_y=True)
        legend_below(figure, panels[0])

    title = "BlowfishDB demonstration, section 3: whole policy against projected policy, cumulative histogram"
    return Result((table,), (Picture("costs", title, "one run each", draw, (8.8, 3.9)),), projections_judge(rows))


def projections_judge(rows: Sequence[Row]) -> Verdict:
    """Whether both give the same error, and how much the largest whole policy that was tried costs more."""
    pairs = [(row, _partner(rows, row)) for row in matching(rows, method=STATIC)]
    same = all(abs(number(one, "error") / number(two, "error") - 1) < 1e-9 for one, two in pairs)
    whole, small = max(pairs, key=lambda pair: number(pair[0], "values"))
    faster = number(whole, "seconds") / max(number(small, "seconds"), 1e-4)
    leaner = number(whole, "peak_mb") / number(small, "peak_mb")
    largest = max(matching(rows, method=ENGINE), key=lambda row: number(row, "values"))
    better = number(small, "error") / number(largest, "error")
    why = (
        f"At {number(whole, 'values'):,.0f} values the whole policy takes {faster:,.0f} times the time and "
        f"{leaner:,.0f} times the memory, {'at the same' if same else 'and not at the same'} error; compiled "
        f"symbolically, a question on {number(largest, 'values'):,.0f} values is ready in "
        f"{number(largest, 'seconds'):.2g} CPU seconds, and an optimised plan has {better:.3g} times less "
        "error than the transformed workload."
    )
    return Verdict(PROJECTIONS_CLAIM, how_it_holds([same, faster >= PROJECTIONS_MUCH, leaner >= PROJECTIONS_MUCH]), why)


def _partner(rows: Sequence[Row], row: Row) -> Row:
    return matching(rows, method=PROJECTED, values=number(row, "values"))[0]


PROJECTIONS_PROCEDURE = Procedure(projections_cases, projections_measure, projections_conclude)


# Section 1: how many questions of an exploration a budget answers, against a standard system for DP such as APEx.

ACCURACIES = (0.004, 0.01)
"""Answers within so many of all rows."""
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)
ORDERS = 200
"""Explorations: orders in which the same questions are asked."""
BUDGETS_MUCH = 1.2
BUDGETS_CLAIM = (
    "Analysts can ask more questions within a budget than under a standard system for differential privacy (APEx)."
)

STEPS = {"age": 5, "hours": 5, "education": 1, "capital_loss": 100}
NEAR = {name: bf.threshold(theta) for name, theta in STEPS.items()}


@dataclass(frozen=True)
class System:
    """A policy, the mechanisms that compete, and whether each attribute has an account of its own."""

    policy: Policy
    mechanisms: Mapping[str, Mechanism]
    by_attribute: bool = False


APEX, PLAIN, THRESHOLDS, APART = (
    "APEx-like, DP",
    "BlowfishDB, DP",
    "BlowfishDB, thresholds",
    "BlowfishDB, thresholds, one attribute at a time",
)
SYSTEMS = {
    APEX: System(Policy(), {name: MECHANISMS[name] for name in ("identity", "hierarchy")}),
    PLAIN: System(Policy(), MECHANISMS),
    THRESHOLDS: System(Policy(NEAR), MECHANISMS),
    APART: System(Policy(NEAR, composition="attribute"), MECHANISMS, by_attribute=True),
}
"""APEx translates an accuracy into the cheaper of a Laplace and a hierarchical mechanism."""


def questions(settings: Settings) -> dict[str, Query]:
    """The prototype's templates at two granularities: histograms, cumulative histograms, and pairs of attributes."""
    widths = {"age": (1, 5), "hours": (1, 10), "education": (1, 2), "capital_loss": (20, 200)}
    some = {name: widths[name] for name in settings.pick(("age",), tuple(widths), tuple(widths))}
    queries: dict[str, Query] = {}
    for name, each in some.items():
        for width in each:
            binned = bf.col(name).bins(width) if width > 1 else name
            queries[f"histogram of {name} by {width}"] = bf.query("histogram", binned)
            queries[f"cumulative {name} by {width}"] = bf.query("cdf", binned)
    for one, two in settings.pick(
        (), (("age", "hours"), ("education", "hours")), (("age", "hours"), ("age", "education"))
    ):
        axes = [bf.col(name).bins(widths[name][1]) for name in (one, two)]
        queries[f"{one} by {two}"] = bf.query("histogram2d", axes)
    return queries


def budgets_cases(settings: Settings) -> list[Case]:
    """Each question under each system at each accuracy."""
    shares = settings.pick(ACCURACIES[1:], ACCURACIES, ACCURACIES)
    return [(system, name, share) for name in questions(settings) for system in SYSTEMS for share in shares]


def budgets_measure(settings: Settings, case: Case) -> list[Row]:
    """What the question costs."""
    name, asked, share = str(case[0]), str(case[1]), float(str(case[2]))
    system, question = SYSTEMS[name], questions(settings)[asked]
    best = cheapest(system.policy, question, share * ROWS, dict(system.mechanisms))
    touched = " ".join(axis.attribute for axis in question.axes)
    return [
        {
            "system": name,
            "question": asked,
            "within": share * ROWS,
            "attributes": touched,
            "epsilon": float(best.epsilon),
            "mechanism": best.mechanism,
        }
    ]


def budgets_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    answered = answered_rows(settings, rows)
    total = len(matching(rows, system=APEX))
    tables = (
        Table("answered", f"Questions answered of {total}, mean over {ORDERS} orders", tuple(answered)),
        Table("prices", "What each question costs under each system", tuple(rows)),
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {system: matching(answered, system=system) for system in distinct(answered, "system")}
        lines(axes, {s: [(number(r, "budget"), number(r, "answered")) for r in each] for s, each in own.items()})
        axes.set_xscale("log", base=2)
        plain(axes, "budget ε", f"questions answered of {total}")
        axes.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
        legend_below(figure, axes, columns=2)

    title = f"BlowfishDB demonstration: questions answered within a budget, Adult's domain, β = {BETA:g}"
    return Result(
        tables,
        (Picture("answered", title, f"mean of {ORDERS:,} orders of the questions", draw, (7.2, 4.6)),),
        budgets_judge(answered, total),
    )


def answered_rows(settings: Settings, rows: Sequence[Row]) -> list[Row]:
    """For each system and budget the mean number of questions that are answered, over random orders."""
    counted: list[Row] = []
    for name, system in SYSTEMS.items():
        own = matching(rows, system=name)
        for budget in BUDGETS:
            draw = generator(settings.seed, "exploration")
            orders = [draw.permutation(len(own)) for _ in range(ORDERS)]
            counts = [answered([own[place] for place in order], budget, system.by_attribute) for order in orders]
            counted.append({"system": name, "budget": budget, "answered": float(np.mean(counts))})
    return counted


def answered(queries: Sequence[Row], budget: float, by_attribute: bool) -> int:
    """How many are answered in this order; one that is too expensive is refused, and the next is asked.

    With one attribute moving at a time, a release costs the attributes it reads, and the largest account counts.
    """
    spent: dict[str, float] = {}
    count = 0
    for row in queries:
        accounts = str(row["attributes"]).split() if by_attribute else ["all"]
        if all(spent.get(name, 0.0) + number(row, "epsilon") <= budget for name in accounts):
            for name in accounts:
                spent[name] = spent.get(name, 0.0) + number(row, "epsilon")
            count += 1
    return count


def budgets_judge(rows: Sequence[Row], total: int) -> Verdict:
    """Whether thresholds answer more at every budget that is not enough for all, and how much is due to mechanisms."""
    short = [b for b in BUDGETS if 0 < _answered(rows, APEX, b) < total]
    gains = {name: [_answered(rows, name, b) / _answered(rows, APEX, b) for b in short] for name in SYSTEMS}
    more = bool(short) and all(gain >= 1.0 for gain in gains[THRESHOLDS])
    much = bool(short) and float(np.mean(gains[THRESHOLDS])) >= BUDGETS_MUCH
    means = {name: float(np.mean(each)) if each else 1.0 for name, each in gains.items()}
    why = (
        f"On average over the budgets thresholds answer {means[THRESHOLDS]:.3g} times as many questions as the "
        f"APEx-like system, and better mechanisms alone, without any policy, {means[PLAIN]:.3g} times as many; with "
        f"one attribute moving at a time and an account for each it is {means[APART]:.3g} times, but a record that "
        "changes in several attributes then loses the sum over them."
    )
    return Verdict(BUDGETS_CLAIM, how_it_holds([more, much]), why)


def _answered(rows: Sequence[Row], system: str, budget: float) -> float:
    (row,) = matching(rows, system=system, budget=budget)
    return number(row, "answered")


BUDGETS_PROCEDURE = Procedure(budgets_cases, budgets_measure, budgets_conclude)
