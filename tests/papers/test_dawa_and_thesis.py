"""The experiments of the DAWA paper and the thesis: they run, and their verdicts follow their own numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet
from matplotlib.figure import Figure

from papers import thesis
from papers.dawa import inputs, partitions, rectangles, stages
from papers.dawa.inputs import EASY
from papers.experiment import Row, Settings
from papers.experiments import chosen
from papers.thesis import JUMPING

pytestmark = pytest.mark.nightly

TINY = Settings("tiny")
NAMES = [one.name for one in chosen(("dawa", "thesis"))]
Feed = Callable[[Row], float]


@cache
def measured(name: str) -> tuple[Row, ...]:
    """The rows of a tiny run."""
    (experiment,) = chosen((name,))
    procedure = experiment.procedure()
    return tuple(row for case in procedure.cases(TINY) for row in procedure.measure(TINY, case))


def by_name(figures: dict[str, float]) -> Feed:
    """Always the same figure for an algorithm; 1 for those that are not named."""
    return lambda row: figures.get(str(row["algorithm"]), 1.0)


def both_stages(dawa_alone: float, easy: float, hard: float, laplace: float) -> Feed:
    def feed(row: Row) -> float:
        if row["algorithm"] == stages.ISOLATED_GREEDY:
            return easy if row["set"] in EASY else hard
        return by_name({stages.BOTH: dawa_alone, stages.ISOLATED_LAPLACE: laplace})(row)

    return feed


def weights(greedy: float, others: float, laplace: float) -> Feed:
    def feed(row: Row) -> float:
        if row["algorithm"] == stages.SECOND_LAPLACE:
            return laplace if row["workload"] == "identity" else others
        return {stages.SECOND_GREEDY: greedy}.get(str(row["algorithm"]), others)

    return feed


def maps(small: float, large: float) -> Feed:
    """Rivals' errors at the smallest epsilon and at the others, where DAWA has 1."""

    def feed(row: Row) -> float:
        return (small if row["epsilon"] == 0.01 else large) if row["algorithm"] in rectangles.RIVALS else 1.0

    return feed


def matchings(laplace: float, income: float, jumping: float, sums: float) -> Feed:
    """Errors of the others, where matching has 1."""

    def feed(row: Row) -> float:
        other = jumping if row["set"] == JUMPING else income
        figures = {thesis.LAPLACE: laplace, thesis.DAWA: other, thesis.BOTH: other, thesis.SUMS: sums}
        return figures.get(str(row["algorithm"]), 1.0)

    return feed


def shares(falling: str, rising: str) -> Feed:
    def feed(row: Row) -> float:
        share = float(str(row["share"]))
        return {falling: 1 / share, rising: share}.get(str(row["algorithm"]), 1.0)

    return feed


RIVALS = dict.fromkeys(inputs.RIVALS, 10.0)
COSTS = {
    "yes": {partitions.PHP: 100.0},
    "partly": {partitions.PHP: 100.0, partitions.EVERY: 10.0, partitions.SUBSET: 10.0},
    "no": {partitions.EVERY: 10.0, partitions.SUBSET: 100.0, partitions.PHP: 100.0},
}
FED: list[tuple[str, str, str, Feed]] = [
    ("dawa-table-1", "buckets", "yes", lambda row: float(str(row["printed"])) * 1.3),
    ("dawa-table-1", "buckets", "partly", lambda row: 30.0),
    ("dawa-table-1", "buckets", "no", lambda row: float(str(row["printed"])) * 5),
    ("dawa-figure-3", "error", "yes", by_name(RIVALS)),
    ("dawa-figure-3", "error", "partly", by_name(dict.fromkeys(inputs.RIVALS, 2.0))),
    ("dawa-figure-3", "error", "no", by_name(dict.fromkeys(inputs.RIVALS, 0.5))),
    ("dawa-figure-4", "error", "yes", both_stages(1, 10, 1, 10)),
    ("dawa-figure-4", "error", "partly", both_stages(1, 1, 1, 10)),
    ("dawa-figure-4", "error", "no", both_stages(10, 1, 1, 1)),
    *(("dawa-figure-5", "cost", holds, by_name(figures)) for holds, figures in COSTS.items()),
    ("dawa-figure-6", "error", "yes", weights(1, 2, 1)),
    ("dawa-figure-6", "error", "partly", weights(1, 2, 2)),
    ("dawa-figure-6", "error", "no", weights(10, 1, 1)),
    ("dawa-figure-7", "error", "yes", maps(10, 2)),
    ("dawa-figure-7", "error", "partly", maps(2, 10)),
    ("dawa-figure-7", "error", "no", maps(0.1, 0.2)),
    ("thesis-figure-4", "error", "yes", by_name({thesis.DAWA: 10, thesis.SUMS: 10})),
    ("thesis-figure-4", "error", "partly", by_name({thesis.DAWA: 10, thesis.SUMS: 0.5})),
    ("thesis-figure-4", "error", "no", by_name({thesis.BOTH: 10})),
    ("thesis-figure-5", "error", "yes", matchings(2, 0.5, 2, 0.5)),
    ("thesis-figure-5", "error", "partly", matchings(2, 0.5, 0.5, 0.5)),
    ("thesis-figure-5", "error", "no", matchings(0.5, 0.5, 0.5, 0.5)),
    ("thesis-splits", "error", "yes", shares(thesis.BOTH, thesis.DAWA)),
    ("thesis-splits", "error", "partly", shares("none", thesis.DAWA)),
    ("thesis-splits", "error", "no", shares(thesis.DAWA, thesis.BOTH)),
]


LONG = ("dawa-figure-6", "dawa-figure-7", "thesis-figure-4", "thesis-figure-5", "thesis-splits")
"""Experiments that take seconds even when they are tiny: by night."""


def unless_long(name: str, *values: object) -> ParameterSet:
    marks = (pytest.mark.nightly,) if name in LONG else ()
    return pytest.param(name, *values, marks=marks, id="-".join([name, *map(str, values[1:2])]))


@pytest.mark.parametrize(("name", "column", "holds", "feed"), [unless_long(*one) for one in FED])
def test_the_verdict_follows_the_numbers(name: str, column: str, holds: str, feed: Feed) -> None:
    rows: Sequence[Row] = [{**row, column: feed(row)} for row in measured(name)]
    (experiment,) = chosen((name,))
    verdict = experiment.procedure().conclude(TINY, rows).verdict
    assert verdict.holds == holds
    assert verdict.why.endswith(".")


def test_every_verdict_was_fed() -> None:
    assert {(name, holds) for name, _, holds, _ in FED} == {
        (name, holds) for name in NAMES for holds in ("yes", "partly", "no")
    }


@pytest.mark.parametrize("name", [unless_long(name) for name in NAMES])
def test_a_tiny_run_has_tables_and_figures_that_can_be_drawn(name: str) -> None:
    (experiment,) = chosen((name,))
    result = experiment.procedure().conclude(TINY, measured(name))
    assert any("(stand-in)" in table.csv() for table in result.tables)
    for picture in result.pictures:
        assert picture.title.startswith(("DAWA ", "Thesis"))
        figure = Figure(figsize=picture.size)
        picture.draw(figure)
        assert all(axes.get_ylabel() or axes.get_shared_y_axes().get_siblings(axes) for axes in figure.axes)
        assert len(figure.legends) == 1


@pytest.mark.parametrize("name", [unless_long(name) for name in NAMES])
def test_what_is_not_private_is_called_so(name: str) -> None:
    """Algorithms that look at counts without enough noise may be shown, but never without saying so."""
    shown = {str(row["algorithm"]) for row in measured(name) if "algorithm" in row}
    unsound = {each for each in shown if "published" in each or "thesis' noise" in each or "optimal" in each}
    assert all("not private" in each for each in unsound)
