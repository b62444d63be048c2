"""The thesis: histograms under the line policy, its algorithms, and the split of epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms.data_aware import DataAware, Script
from blowfishdb.mechanisms.data_aware.buckets import Buckets, measured_by_policy
from blowfishdb.mechanisms.data_aware.dawa import Dawa, DawaTransform
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingTransform
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Allowance, Program, StageRequest
from papers.baselines.noise import line, noisy, one_record, release
from papers.baselines.printed_dawa import GivenBuckets, PrintedDawa, PrintedPartition, l1_partition, published_starts
from papers.charts import dots, legend_below, lines, plain, width_for
from papers.data import generator, histogram
from papers.dawa.inputs import names, paper_histogram
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
    geometric_mean,
    how_it_holds,
    matching,
    mean_and_error,
    number,
    one,
    trials_of,
    without,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# DAWA + Transformed as the thesis has it: DAWA's buckets, then running sums of them under the line policy.

SELECT, MEASURE = "partition", "buckets"


@dataclass(frozen=True)
class PrintedTransform:
    """`select_share` of epsilon on the paper's partition, with the noise that moves need; the rest on running sums."""

    select_share: Fraction = Fraction(1, 2)

    @property
    def name(self) -> str:
        return "dawa + transformed as printed"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """Partition and measurement."""
        del problem
        select = epsilon * self.select_share
        return Program(self.name, (Allowance(SELECT, select), Allowance(MEASURE, epsilon - select)))

    def script(self, problem: Problem, program: Program) -> Script:
        """Both stages."""
        graph = problem.graph
        select, measure = (allowance.epsilon for allowance in program.allowances)
        inner = l1_partition(graph.cells, graph, select, candidates="powers", penalty=Fraction(0), one_sided=False)
        starts = yield StageRequest(SELECT, PrintedPartition(inner, 1 / measure))
        return (yield from _transformed(problem, np.asarray(starts), measure))


@dataclass(frozen=True, eq=False)
class GivenTransform:
    """Running sums of buckets that somebody else has chosen."""

    starts: Ints

    @property
    def name(self) -> str:
        return "given buckets, transformed"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage."""
        del problem
        return Program(self.name, (Allowance(MEASURE, epsilon),))

    def script(self, problem: Problem, program: Program) -> Script:
        """The measurement."""
        return _transformed(problem, self.starts, program.epsilon)


def _transformed(problem: Problem, starts: Ints, epsilon: Fraction) -> Script:
    buckets = Buckets(problem.graph.cells, starts)
    return measured_by_policy(problem, buckets.of_cells, [Allowance(MEASURE, epsilon)])


# The algorithms of the thesis on the line policy: counts and epsilon in, every cell's estimate out.
#
# Algorithms for differential privacy get half of epsilon, because a move is one record less and one more.

Cells = Callable[[Ints, Fraction], Floats]

LAPLACE, DAWA, SUMS, BOTH = "Laplace", "DAWA, sound", "Transformed + Laplace", "DAWA + Transformed, sound"
DAWA_PUBLISHED = "DAWA, published noise (not private)"
BOTH_PUBLISHED = "DAWA + Transformed, published noise (not private)"
OURS_DAWA, OURS, MATCHING = "dawa (BlowfishDB)", "dawa-transform (BlowfishDB)", "Matching + Transformed, sound"
MATCHING_PRINTED, OURS_MATCHING = (
    "Matching + Transformed, thesis' noise (not private)",
    "matching-transform (BlowfishDB)",
)
QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)


def laplace(counts: Ints, epsilon: Fraction) -> Floats:
    """Noise on every cell; a move changes two."""
    return noisy(counts, 2 / epsilon)


def running_sums(counts: Ints, epsilon: Fraction) -> Floats:
    """Noise on every running sum but the last, which is public; a move to the next value changes one."""
    exact = np.cumsum(counts)
    sums = np.concatenate([[0.0], noisy(exact[:-1], 1 / epsilon), [float(exact[-1])]])
    return np.asarray(np.diff(sums))


def on_the_line(mechanism: DataAware, counts: Ints, epsilon: Fraction) -> Floats:
    """A mechanism that is certified against the line policy itself."""
    return release(mechanism, Problem(line(counts.size), Identity(counts.size)), epsilon, counts).cells


def at_half(mechanism: DataAware, counts: Ints, epsilon: Fraction) -> Floats:
    """A mechanism for one record more or less."""
    return release(mechanism, Problem(one_record(counts.size), Identity(counts.size)), epsilon / 2, counts).cells


def dawa_published(counts: Ints, epsilon: Fraction, share: Fraction = QUARTER) -> Floats:
    """DAWA with the published code's partition, at half of epsilon."""
    half = epsilon / 2
    starts = published_starts(counts, half * share, half * (1 - share))
    return at_half(GivenBuckets(starts), counts, epsilon * (1 - share))


def both_published(counts: Ints, epsilon: Fraction, share: Fraction = HALF) -> Floats:
    """The published code's partition at half of its share, then running sums of buckets."""
    starts = published_starts(counts, epsilon * share / 2, epsilon * (1 - share))
    return on_the_line(GivenTransform(starts), counts, epsilon * (1 - share))


def matching_printed(counts: Ints, epsilon: Fraction) -> Floats:
    """Matching with the thesis' noise: half of what moves need, so half of epsilon selects as if it were all of it."""
    return on_the_line(
        MatchingTransform(rounds=1, select_share=Fraction(2, 3), caution=Fraction(0)), counts, 3 * epsilon / 2
    )


ALGORITHMS: dict[str, Cells] = {
    LAPLACE: laplace,
    DAWA: partial(at_half, PrintedDawa()),
    SUMS: running_sums,
    BOTH: partial(on_the_line, PrintedTransform()),
    DAWA_PUBLISHED: dawa_published,
    BOTH_PUBLISHED: both_published,
    OURS_DAWA: partial(on_the_line, Dawa()),
    OURS: partial(on_the_line, DawaTransform()),
}
MATCHINGS: dict[str, Cells] = {
    MATCHING: partial(on_the_line, MatchingTransform(rounds=1, caution=Fraction(0))),
    MATCHING_PRINTED: matching_printed,
    OURS_MATCHING: partial(on_the_line, MatchingTransform()),
}


def squared_error(algorithm: Cells, counts: Ints, epsilon: Fraction) -> float:
    """The mean squared error of a cell in one release."""
    return float(np.mean((algorithm(counts, epsilon) - counts) ** 2))


# Figure 4: the squared error of a cell under the line policy, seven histograms.

HISTOGRAMS_EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))


def histograms_cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in ALGORITHMS for data in names(settings)]


def histograms_measure(settings: Settings, case: Case) -> list[Row]:
    """The error at every epsilon."""
    name, data = str(case[0]), str(case[1])
    table = paper_histogram(settings, data)
    rows: list[Row] = []
    for epsilon in HISTOGRAMS_EPSILONS:

        def trial(place: int, epsilon: Fraction = epsilon) -> float:
            del place
            return squared_error(ALGORITHMS[name], table.counts, epsilon)

        head: Row = {"epsilon": float(epsilon), "data": table.label, "algorithm": name}
        rows.append({**head, **mean_and_error(trial, settings.pick(1, 2, 15))})
    return rows


def histograms_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether DAWA + Transformed beats DAWA everywhere, and does well against the transform alone."""
    del settings
    data = distinct(rows, "data")
    epsilons = list(dict.fromkeys(number(row, "epsilon") for row in rows))

    def ratios(above: str, below: str) -> list[float]:
        return [
            one(rows, "error", data=each, epsilon=epsilon, algorithm=above)
            / one(rows, "error", data=each, epsilon=epsilon, algorithm=below)
            for each in data
            for epsilon in epsilons
        ]

    gains, published, ours = ratios(DAWA, BOTH), ratios(DAWA_PUBLISHED, BOTH_PUBLISHED), ratios(OURS_DAWA, OURS)
    alone = geometric_mean(ratios(SUMS, BOTH))
    verdict = Verdict(
        "DAWA + Transformed performs very well on histograms and always has a lower error than DAWA.",
        how_it_holds([all(gain > 1 for gain in gains), alone > 1]),
        f"In sound form it beats DAWA in {_wins(gains)} cases (geometric mean {geometric_mean(gains):.2f} times less "
        f"error) and has {1 / alone:.2f} times the error of the transform alone; with the published code's noise, "
        f"which is not private, it beats DAWA in {_wins(published)}, and our dawa-transform beats our dawa in "
        f"{_wins(ours)} ({geometric_mean(ours):.1f} times less error).",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(epsilons), 1, sharex=True)
        for axes, epsilon in zip(panels, epsilons, strict=True):
            plain(axes, "", "mean squared error", f"epsilon = {epsilon:g}", log_y=True)
            series = {
                name: [one(rows, "error", data=each, epsilon=epsilon, algorithm=name) for each in data]
                for name in ALGORITHMS
            }
            dots(axes, data, series)
        legend_below(figure, axes, 3)

    title = "Thesis Figure 4: squared error of a cell, line policy"
    return Result(
        (Table("errors", "Mean squared error of a cell, line policy", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (width_for(data, 9.0), 9.6)),),
        verdict,
    )


def _wins(gains: Sequence[float]) -> str:
    return f"{sum(gain > 1 for gain in gains)} of {len(gains)}"


HISTOGRAMS_PROCEDURE = Procedure(histograms_cases, histograms_measure, histograms_conclude)


# Figure 5: matching against the other algorithms, on half of Income and on counts that jump from cell to cell.

MATCHED_EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))
INCOME, JUMPING = "INCOME", "jumping counts (simulated)"
CELLS = 2048
HIGHEST = 10_000
SHOWN = {name: ALGORITHMS[name] for name in (LAPLACE, DAWA, SUMS, BOTH)} | MATCHINGS


def matched_cases(settings: Settings) -> list[Case]:
    """One per algorithm, histogram and epsilon, slow ones first."""
    del settings
    names = sorted(SHOWN, key=lambda name: name not in MATCHINGS)
    return [(name, data, str(epsilon)) for name in names for data in (INCOME, JUMPING) for epsilon in MATCHED_EPSILONS]


def matched_measure(settings: Settings, case: Case) -> list[Row]:
    """The squared error of a cell."""
    name, data, epsilon = str(case[0]), str(case[1]), Fraction(str(case[2]))
    label, counts = half_domain(settings, data)

    def trial(place: int) -> float:
        del place
        return squared_error(SHOWN[name], counts, epsilon)

    head: Row = {"epsilon": float(epsilon), "data": label, "set": data, "algorithm": name}
    return [{**head, **mean_and_error(trial, settings.pick(1, 3, 15))}]


def half_domain(settings: Settings, data: str) -> tuple[str, Ints]:
    """The label and the counts: the lower half of Income, or counts that know nothing of their neighbours."""
    cells = settings.pick(64, CELLS, CELLS)
    if data == INCOME:
        table = histogram(settings, INCOME)
        return f"half of {table.label}", table.counts[: min(cells, table.counts.size // 2)].copy()
    return JUMPING, generator(settings.seed, JUMPING).integers(0, HIGHEST, cells)


def matched_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether matching beats Laplace alone on Income, and all but the plain transform on jumping counts."""
    del settings
    epsilons = list(dict.fromkeys(number(row, "epsilon") for row in rows))

    def ratio(data: str, other: str) -> float:
        return geometric_mean(
            one(rows, "error", set=data, epsilon=epsilon, algorithm=other)
            / one(rows, "error", set=data, epsilon=epsilon, algorithm=MATCHING)
            for epsilon in epsilons
        )

    income = {name: ratio(INCOME, name) for name in (LAPLACE, DAWA, SUMS, BOTH)}
    jumping = {name: ratio(JUMPING, name) for name in (LAPLACE, DAWA, SUMS, BOTH)}
    printed, ours = ([ratio(data, name) for data in (INCOME, JUMPING)] for name in (MATCHING_PRINTED, OURS_MATCHING))
    verdict = Verdict(
        "Matching + Transformed is only better than Laplace on real data; on simulated jumping counts it beats all but "
        "Transformed + Laplace.",
        how_it_holds(
            [
                income[LAPLACE] > 1 and max(income[DAWA], income[SUMS], income[BOTH]) < 1,
                min(jumping[LAPLACE], jumping[DAWA], jumping[BOTH]) > 1 and jumping[SUMS] < 1,
            ]
        ),
        f"Error of {_list(income)} over that of Matching + Transformed with the noise that moves need, geometric means "
        f"over epsilon, on Income: {_figures(income)}; on jumping counts: {_figures(jumping)}; with the thesis' noise, "
        f"half of that and not private, it has {printed[0]:.2f} and {printed[1]:.2f} times its error, our "
        f"matching-transform {ours[0]:.2f} and {ours[1]:.2f}.",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        groups = [f"{epsilon:g}" for epsilon in epsilons]
        for place, (axes, data) in enumerate(zip(panels, distinct(rows, "data"), strict=True)):
            plain(axes, "epsilon", "" if place else "mean squared error of a cell", data, log_y=True)
            series = {
                name: [one(rows, "error", data=data, epsilon=epsilon, algorithm=name) for epsilon in epsilons]
                for name in SHOWN
            }
            dots(axes, groups, series)
        legend_below(figure, axes, 3)

    title = "Thesis Figure 5: matching, squared error of a cell, line policy"
    return Result(
        (Table("errors", "Mean squared error of a cell, line policy", without(rows, "set")),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.8)),),
        verdict,
    )


def _list(parts: dict[str, float]) -> str:
    return "; ".join(parts)


def _figures(ratios: dict[str, float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios.values())


MATCHED_PROCEDURE = Procedure(matched_cases, matched_measure, matched_conclude)


# The study of epsilon_1: which part of epsilon should find the buckets, with and without the transform.

SPLITS_EPSILONS = (Fraction(1, 100), Fraction(1, 10))
SHARES = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
SPLITS_OURS = "dawa-transform, buckets first (BlowfishDB)"
FORMS: dict[str, Callable[[Fraction], Cells]] = {
    DAWA: lambda share: partial(at_half, PrintedDawa(select_share=share)),
    BOTH: lambda share: partial(on_the_line, PrintedTransform(share)),
    DAWA_PUBLISHED: lambda share: partial(dawa_published, share=share),
    BOTH_PUBLISHED: lambda share: partial(both_published, share=share),
    SPLITS_OURS: lambda share: partial(on_the_line, DawaTransform(share, sums_first=False)),
}


def splits_cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in FORMS for data in names(settings)]


def splits_measure(settings: Settings, case: Case) -> list[Row]:
    """The squared error of a cell for each share and epsilon."""
    name, data = str(case[0]), str(case[1])
    table = paper_histogram(settings, data)
    rows: list[Row] = []
    for epsilon in SPLITS_EPSILONS:
        for share in SHARES:
            algorithm = FORMS[name](share)

            def trial(place: int, algorithm: Cells = algorithm, epsilon: Fraction = epsilon) -> float:
                del place
                return squared_error(algorithm, table.counts, epsilon)

            head: Row = {
                "epsilon": float(epsilon),
                "share": float(share),
                "data": table.label,
                "algorithm": name,
            }
            rows.append({**head, **mean_and_error(trial, settings.pick(1, 1, 8))})
    return rows


def splits_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether DAWA prefers a quarter and DAWA + Transformed a half."""
    del settings
    means = {
        (name, share): geometric_mean(number(row, "error") for row in matching(rows, algorithm=name, share=share))
        for name in FORMS
        for share in map(float, SHARES)
    }
    gains = {name: means[name, 0.25] / means[name, 0.5] for name in FORMS}
    verdict = Verdict(
        "DAWA does better with a quarter of epsilon for the partition, DAWA + Transformed with a half.",
        how_it_holds([gains[DAWA] < 1, gains[BOTH] > 1]),
        "The error with a quarter over that with a half (geometric mean over histograms and epsilon) is "
        f"{gains[DAWA]:.2f} for DAWA and {gains[BOTH]:.2f} for DAWA + Transformed in sound form, "
        f"{gains[DAWA_PUBLISHED]:.2f} and {gains[BOTH_PUBLISHED]:.2f} with the published code's noise (not private), "
        f"and {gains[SPLITS_OURS]:.2f} for our dawa-transform with buckets first.",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(SPLITS_EPSILONS), sharey=True)
        for place, (axes, epsilon) in enumerate(zip(panels, map(float, SPLITS_EPSILONS), strict=True)):
            label = "" if place else "squared error, geometric mean over histograms"
            plain(axes, "share of epsilon for the partition", label, f"epsilon = {epsilon:g}", log_y=True)
            lines(
                axes,
                {name: [(share, _mean(rows, name, share, epsilon)) for share in map(float, SHARES)] for name in FORMS},
            )
        legend_below(figure, axes, 2)

    title = "Thesis, section 6: the part of epsilon that finds the buckets"
    return Result(
        (Table("errors", "Mean squared error of a cell by share, line policy", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.8)),),
        verdict,
    )


def _mean(rows: Sequence[Row], name: str, share: float, epsilon: float) -> float:
    matches = matching(rows, algorithm=name, share=share, epsilon=epsilon)
    return geometric_mean(number(row, "error") for row in matches)


SPLITS_PROCEDURE = Procedure(splits_cases, splits_measure, splits_conclude)
