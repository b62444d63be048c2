"""The arithmetic of equal steps: exact on every double, and a formula that is not gets refused."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ibis.backends.sql.compilers.duckdb import compiler

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Bins, Integers, bins, domain, integers
from blowfishdb.model.policy import ROW, Policy
from blowfishdb.sources import keys
from blowfishdb.sources import steps as module
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName
from blowfishdb.sources.sqlite import SQLite
from blowfishdb.sources.steps import EvenSteps, exact_double, grid_of, stepping
from tests.effort import effort

DUCKDB = duckdb.connect()


def run(expression: object, values: list[float]) -> list[float]:
    """What DuckDB makes of the expression for each double."""
    sql = compiler.to_sqlglot(expression).sql(dialect="duckdb")
    DUCKDB.execute("CREATE OR REPLACE TABLE doubles (place INTEGER, x DOUBLE)")
    DUCKDB.executemany("INSERT INTO doubles VALUES (?, ?)", list(enumerate(values)))
    return [row[0] for row in DUCKDB.execute(sql).fetchall()]


def steps(grid: EvenSteps, values: list[float]) -> list[int]:
    table = ibis.table({"place": "int32", "x": "float64"}, name="doubles")
    way = stepping(grid)
    assert way is not None
    shown = table.select("place", step=way.number(table.x)).order_by("place").select("step")
    return [int(step) for step in way.steps(np.array(run(shown, values)))]


@st.composite
def declared(draw: st.DrawFn) -> Bins | Integers:
    if draw(st.booleans()):
        low = draw(st.integers(-(10**6), 10**6))
        return integers(low, low + draw(st.integers(0, 500)))
    width = Fraction(draw(st.integers(1, 1000)), draw(st.sampled_from([1, 2, 3, 7, 10, 100, 1000, 1024])))
    start = Fraction(draw(st.integers(-(10**6), 10**6)), draw(st.sampled_from([1, 3, 10, 64, 1000])))
    if draw(st.booleans()):
        start = width * draw(st.integers(-1000, 1000))
    count = draw(st.integers(1, 200))
    return bins(start, start + count * width, width=width)


@effort(20)
@given(attribute=declared(), step=st.integers(1, 9), data=st.data())
def test_steps_agree_with_the_declared_values(attribute: Bins | Integers, step: int, data: st.DataObject) -> None:
    grid = grid_of(attribute, step)
    edges = [float(grid.edge(index)) for index in range(grid.count + 1)]
    chosen = data.draw(st.lists(st.sampled_from(edges), min_size=1, max_size=8))
    values = [*chosen, *(math.nextafter(edge, side) for edge in chosen for side in (-math.inf, math.inf))]
    inside = [value for value in values if edges[0] <= value < float(_end(attribute))]
    if inside:
        index, _, _ = attribute.read(np.array(inside))
        assert steps(grid, inside) == list(index // step)


def _end(attribute: Bins | Integers) -> Fraction:
    return attribute.edge(attribute.size) if isinstance(attribute, Bins) else Fraction(attribute.high + 1)


def test_a_formula_that_misses_an_edge_is_not_used() -> None:
    # 0.29 * 100 is 28.999999999999996 in doubles, so multiplying cannot serve hundredths.
    hundredths = grid_of(bins(0, 1, width="0.01"), 1)
    formulas = [formula for formula, _ in module._candidates(hundredths)]
    assert formulas[0](np.array([0.29]))[0] == 28
    assert steps(hundredths, [0.29, math.nextafter(0.29, 0), 0.57, 0.58]) == [29, 28, 57, 58]


def test_without_the_proof_the_wrong_formula_would_count_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.np, "array_equal", lambda a, b: True)
    assert steps(grid_of(bins(0, 1, width="0.01"), 1), [0.29]) == [28]


def test_a_quotient_that_underflows_at_zero_is_not_used() -> None:
    # -5e-324 / 10 is -0.0 in doubles: dividing would put the number into the step above zero.
    tens = grid_of(bins(-100, 100, width=10), 1)
    assert module._candidates(tens)[0][0](np.array([-5e-324]))[0] == 0
    assert steps(tens, [-5e-324, 0.0, 5e-324]) == [9, 10, 10]


def test_bins_too_fine_for_doubles_have_no_arithmetic() -> None:
    assert stepping(EvenSteps(1, 3, 7, 2**52)) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
@effort(60)
def test_literals_are_the_very_double(number: float) -> None:
    sql = compiler.to_sqlglot(exact_double(Fraction(number)).name("x")).sql(dialect="duckdb")
    assert DUCKDB.execute(sql).fetchall() == [(number,)]


@given(st.fractions(-1000, 1000, max_denominator=10**6))
@effort(60)
def test_fractions_are_rounded_to_the_nearest_double(number: Fraction) -> None:
    sql = compiler.to_sqlglot(exact_double(number).name("x")).sql(dialect="duckdb")
    assert DUCKDB.execute(sql).fetchall() == [(float(number),)]


def test_numbers_of_sqlite_next_to_the_largest_exact_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As doubles they would be those, which are declared."""
    monkeypatch.setattr(keys, "CHOICE_LIMIT", 0)
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as database, database:
        database.execute("CREATE TABLE t (x BIGINT)")
        database.executemany("INSERT INTO t VALUES (?)", [(-(2**53) - 1,), (-(2**53),), (2**53,), (2**53 + 1,)])
    for low, high in ((-(2**53), -(2**53) + 1), (2**53 - 1, 2**53)):
        cells = compile_cells(domain({"x": integers(low, high, null=low, outside="cell")}), Policy(), ["x"], None)
        counts = IbisSource(SQLite(tmp_path / "rows.sqlite"), TableName("t")).prepare(cells, ROW).run(None)
        assert counts.tolist() == ([1, 0, 3] if low < 0 else [0, 1, 3])


GRIDS = [
    EvenSteps(0, 1, 5, 500),
    EvenSteps(0, 1, 10, 1000),
    EvenSteps(-500, 1, 10, 1000),
    EvenSteps(1, 2, 20, 100),
    EvenSteps(0, 1, 100, 100),
    EvenSteps(0, 7, 10, 300),
    EvenSteps(0, 1, 3, 300),
    EvenSteps(10_000, 1, 10, 500),
]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_two_roundings_tell_both_sides_of_every_edge(grid: EvenSteps) -> None:
    way = stepping(grid)
    assert way is not None and way.numbers is not None
    edges = grid.edge_doubles()
    sides = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
    truth = [np.searchsorted(edges, side, side="right") - 1 for side in sides]
    assert steps(grid, np.concatenate(sides).tolist()) == np.concatenate(truth).tolist()


def test_one_of_the_two_roundings_alone_would_count_wrongly() -> None:
    grid = EvenSteps(0, 1, 5, 500)
    way = stepping(grid)
    assert way is not None and way.added is not None
    edges = grid.edge_doubles()
    table = ibis.table({"place": "int32", "x": "float64"}, name="doubles")
    for part in (way.lead(table.x), way.added(table.x, table.x)):
        shown = table.select("place", step=part).order_by("place").select("step")
        at, before = (np.array(run(shown, side.tolist())) for side in (edges, np.nextafter(edges, -np.inf)))
        assert np.any(at == before)


@pytest.mark.parametrize("grid", [*GRIDS, EvenSteps(-4, 1, 4, 8), EvenSteps(-7, 3, 10**7, 40_000)], ids=str)
def test_leads_tell_what_lies_beyond_the_ends(grid: EvenSteps) -> None:
    way = stepping(grid)
    assert way is not None
    low, high = grid.edge_doubles()[[0, -1]].tolist()
    beyond = [math.inf, 1e300, 1e19]
    inside = [low, math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    below = [math.nextafter(low, -math.inf), low - 1, *(-value for value in beyond)]
    above = [high, math.nextafter(high, math.inf), high + 1, *beyond]
    table = ibis.table({"place": "int32", "x": "float64"}, name="doubles")
    numbers = way.within(table.x, way.lead(table.x), nan=True)
    shown = table.select("place", number=numbers).order_by("place").select("number")
    values = run(shown, [*inside, *below, *above])
    places = way.steps(np.array(values, dtype=np.float64))
    assert places[:3].tolist() == [0, 0, grid.count - 1]
    assert np.all(places[3:8] < 0) and np.all(places[8:] >= grid.count)
    assert run(shown, [math.nan]) == [None]
