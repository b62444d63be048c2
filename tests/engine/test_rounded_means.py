"""Means by groups of very many values: rounded to fewer cells, within intervals that cover it, else refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.columns import column_alphas
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model import aggregates
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.cells import middles
from blowfishdb.model.groups import AxisCells
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import query

DOMAIN = bf.domain(
    {
        "ward": bf.categorical(["a", "b"], null="a", outside="a"),
        "cost": bf.integers(100, 999, null=100),
        "price": bf.bins(0, 225, width="0.25", null=0),
    }
)
VALUES = {"cost": np.arange(100, 1000), "price": np.arange(900) / 4 + 0.125}
MEAN = Aggregate("mean", ("cost",))


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits that a small table exceeds."""
    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "MOST_CELLS", 1000)
        patched.setattr(aggregates, "COARSE_CELLS", 60)
        yield


def compiled(*columns: Aggregate, rows: int | None = None) -> Compiled:
    return compile_query(DOMAIN, bf.Policy(), query("table", "ward", aggregates=columns, rows=rows))


def is_held(table: Compiled, one: Aggregate, counts: np.ndarray) -> bool:
    """Whether the true means of two groups lie in their intervals, for noise of next to nothing."""
    cells = np.zeros(table.problem.graph.cells, dtype=np.int64)
    index = np.broadcast_to(np.arange(900), counts.shape), np.broadcast_to(np.arange(2)[:, None], counts.shape)
    np.add.at(cells, table.cells.cell_of({one.factors[0]: index[0], "ward": index[1]}), counts)
    best = quotes_for(table, accuracy_target(epsilon=10**6)).best
    answer = PlanRelease(table, best).answer(cells)
    scale, more = one.affine[0] if one.affine else (1, 0)
    values = float(scale) * VALUES[one.factors[0]] + float(more)
    true = (counts * values).sum(axis=1) / counts.sum(axis=1)
    return bool(np.all((answer.bounds.low <= true) & (true <= answer.bounds.high)))


def uneven(size: int) -> np.ndarray:
    """Records at the low end of every bin: as far from the middles as can be."""
    width = -(-900 // size)
    counts = np.zeros((2, 900), dtype=np.int64)
    counts[:, ::width] = 500
    return counts


@pytest.mark.parametrize(
    "one",
    [
        MEAN,
        Aggregate("mean", ("price",)),
        Aggregate("mean", ("cost",), affine=((Fraction(-3, 2), Fraction(5)),)),
    ],
)
def test_intervals_cover_the_rounding(one: Aggregate) -> None:
    table = compiled(one)
    assert table.table is not None
    (name,) = one.factors
    size = table.cells.layout[name].plain
    assert table.problem.graph.cells <= 90
    assert table.table.blocks[0].coarse > 0
    assert is_held(table, one, uneven(size))


def test_intervals_without_the_rounding_would_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_middles(name: str, axis: AxisCells) -> tuple[Ints, Ints, Fraction]:
        numbers, inside, unit = middles(name, axis)
        return numbers, 0 * inside, unit

    monkeypatch.setattr(aggregates, "middles", by_middles)
    table = compiled(MEAN)
    assert not is_held(table, MEAN, uneven(table.cells.layout["cost"].plain))


def test_a_promised_tolerance_has_room_for_the_rounding() -> None:
    exact, rounded = (
        compiled(replace(MEAN, tolerance=tolerance), rows=1000) for tolerance in (Fraction(20), Fraction(60))
    )
    for table, tolerance in ((exact, 20), (rounded, 60)):
        assert table.table is not None
        quote = quotes_for(table, accuracy_target(alpha=1)).best
        (alpha,) = column_alphas(table.table, quote.alpha)
        assert alpha is not None
        assert table.table.blocks[0].coarse / table.table.blocks[0].scale < alpha <= tolerance
    with pytest.raises(QueryError, match=r"rounded values, which can move it by up to 14\.5"):
        compiled(replace(MEAN, tolerance=Fraction(14)), rows=1000)


def test_answers_say_so() -> None:
    table = compiled(MEAN, Aggregate("count"))
    best = quotes_for(table, accuracy_target(epsilon=1)).best
    answer = PlanRelease(table, best).answer(np.full(table.problem.graph.cells, 9))
    assert "mean_cost is of rounded values, each off by at most" in answer.consistent.note


@pytest.mark.parametrize("function", ["sum", "stddev"])
def test_what_is_no_mean_is_refused_before_rows_are_made(
    function: aggregates.Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates._Builder, "rows", None)
    with pytest.raises(TooLarge, match="AVG"):
        compiled(Aggregate(function, ("cost",)))


def test_groups_of_their_own_are_never_rounded() -> None:
    with pytest.raises(TooLarge):
        compile_query(DOMAIN, bf.Policy(), query("table", ["price", "cost"], aggregates=[Aggregate("mean", ("cost",))]))
