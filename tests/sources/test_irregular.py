"""Irregular edges: the grid that holds them, the cells that part them, and what a cell without its edge would do."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, domain
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import col
from blowfishdb.sources import keys, open_source
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.irregular import GRID_LIMIT, EdgeCells, common_grid, edge_cells
from tests.effort import effort
from tests.sources.tables import EDGE_LISTS

LARGEST = 2**50
NUMBERS = st.floats(-1e300, 1e300) | st.floats(-10, 10)


def around(edges: Floats) -> Floats:
    """The edges and the doubles next to them, without what lies beyond the ends."""
    numbers = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    inside: Floats = numbers[(numbers >= edges[0]) & (numbers < edges[-1])]
    return inside


def bins_by_cells(cells: EdgeCells, numbers: Floats) -> Ints:
    """What an engine and the proxy make of the numbers, without either."""
    distance = numbers - cells.start
    for _ in range(cells.roots):
        distance = np.sqrt(distance)
    cell = np.floor(distance * cells.factor).astype(np.int64)
    assert cell.min() >= 0 and cell.max() < cells.count
    met = np.array([numbers >= table[cell] for table in cells.tables]).sum(axis=0)
    place = np.where(met == len(cells.tables), ~(cell + 1), cell + 1 + met * cells.count)
    return cells.edges_below(place.astype(np.float64)).astype(np.int64)


@effort(100)
@given(st.lists(NUMBERS, min_size=9, max_size=60, unique=True))
def test_a_number_is_compared_with_the_edges_of_its_cell_alone(numbers: list[float]) -> None:
    edges = np.unique(np.array(numbers) + 0.0)
    cells = edge_cells(edges[0], edges[1:])
    if cells is not None:
        values = np.append(around(edges), edges[-1])
        assert np.array_equal(bins_by_cells(cells, values), np.searchsorted(edges[1:], values, side="right"))


def edges_by_entries(cells: EdgeCells, edges: Floats, numbers: Floats) -> Ints:
    """What an engine makes of numbers which are not NaN, where casts end at the largest whole number."""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = numbers - cells.start
        for _ in range(cells.roots):
            distance = np.sqrt(distance)
        scaled = np.trunc(distance * cells.factor)
    cell = np.clip(np.nan_to_num(scaled, nan=0.0, posinf=2**31 - 1, neginf=-(2**31)), -(2**31), 2**31 - 1).astype(int)
    is_cell = (cell >= 0) & (cell < cells.count)
    entry = cells.entries()[np.clip(cell, 0, cells.count - 1)]
    before = np.where(entry < 0, ~entry, entry)
    padded = np.append(edges, np.full(len(cells.tables), np.inf))
    met = before.copy()
    for place in range(len(cells.tables)):
        met += (entry < 0) & (met == before + place) & (numbers >= padded[before + place])
    return np.where(is_cell, met, np.where(numbers < edges[0], 0, edges.size))


@effort(100)
@given(st.lists(NUMBERS, min_size=9, max_size=60, unique=True))
def test_entries_of_cells_tell_all_edges_at_or_below(numbers: list[float]) -> None:
    edges = np.unique(np.array(numbers) + 0.0)
    cells = edge_cells(float(edges[0]), edges, is_listed=True)
    if cells is not None:
        beyond = [-np.inf, -1e305, np.nextafter(edges[0], -np.inf), edges[-1], 1e305, np.inf]
        values = np.concatenate([around(edges), beyond])
        wanted = np.searchsorted(edges, values, side="right")
        assert np.array_equal(edges_by_entries(cells, edges, values), wanted)


@effort(100)
@given(st.lists(NUMBERS, min_size=9, max_size=60, unique=True), st.integers(1, 40))
def test_streamed_numbers_are_counted_by_the_edges_at_or_below_them(numbers: list[float], piece: int) -> None:
    edges = np.unique(np.array(numbers) + 0.0)
    cells = edge_cells(edges[0], edges[1:])
    if cells is not None:
        values = np.concatenate([around(edges), np.nextafter(edges[[0, -1]], [-np.inf, np.inf]), [np.nan, np.inf]])
        below, counts = cells.tally(np.split(values, range(piece, values.size, piece)))
        wanted = np.searchsorted(edges[1:], values, side="right") - (values < edges[0])
        # The last edge and what lies above it are the same to a bin.
        last = edges.size - 1
        ours = np.repeat(np.minimum(below, last), counts)
        expected = np.where(np.isnan(values), np.nan, np.minimum(wanted, last))
        assert np.array_equal(np.sort(ours), np.sort(expected), equal_nan=True)


def test_places_beyond_the_cells_lie_outside() -> None:
    cells = edge_cells(0.0, np.arange(1.0, 20.0))
    assert cells is not None
    assert np.array_equal(cells.edges_below(np.array([0.0, -1.0, np.nan])), [-1.0, np.inf, np.nan], equal_nan=True)


@pytest.mark.parametrize("name", ["powers", "unequal"])
def test_usual_edges_have_cells(name: str) -> None:
    edges = np.array(EDGE_LISTS[name])
    cells = edge_cells(edges[0], edges[1:])
    assert cells is not None
    assert len(cells.tables) <= 4


def test_listed_cells_are_bent_only_where_that_spares_comparisons() -> None:
    squares, powers = np.linspace(0, 10, 500) ** 2, np.array(EDGE_LISTS["powers"])
    straight, bent = (edge_cells(edges[0], edges, is_listed=True) for edges in (squares, powers))
    assert straight is not None and bent is not None
    assert straight.roots == 0 and len(straight.tables) <= 3
    assert bent.roots > 0 and len(bent.tables) == 1


def test_edges_that_are_too_close_to_part_have_no_cells() -> None:
    edges = np.array([0.0, *(1 + np.arange(40) * 2.0**-52), 1e200])
    assert edge_cells(edges[0], edges[1:]) is None


def test_decimal_edges_lie_on_one_grid() -> None:
    grid = common_grid([Fraction(n) for n in ("0.1", "0.3", "0.9", "1.5")], LARGEST)
    assert grid is not None
    assert (grid.start, grid.width, grid.scale) == (1, 2, 10)
    assert grid.below.tolist() == [1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("end", [Fraction(GRID_LIMIT + 1), Fraction(2**51, 3), Fraction(1, 2**51), Fraction(0.1)])
def test_edges_without_a_grid_of_few_steps(end: Fraction) -> None:
    assert common_grid(sorted([Fraction(0), Fraction(1), end]), LARGEST) is None


def counted(folder: Path, edges: list[float]) -> tuple[Ints, Ints]:
    """The rows in each bin as DuckDB counts them, and as Python does."""
    column = bins(edges=edges, outside="cell")
    values = around(np.array(edges)).tolist()
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE TABLE t (x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    cells = compile_cells(domain({"x": column}), Policy(), ["x"])
    wanted = np.bincount(cells.cell_of({"x": column.encode(np.array(values))}), minlength=math.prod(cells.graph.shape))
    return open_source(f"duckdb:///{folder / 'rows.duckdb'}#t").prepare(cells).run(), wanted


@pytest.fixture(params=[True, False], ids=["streamed", "in the engine"])
def is_streamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """DuckDB as it counts where few cores are, and where many are."""
    monkeypatch.setattr(DuckDB, "streams", request.param)
    return bool(request.param)


@pytest.mark.usefixtures("is_streamed")
def test_a_cell_that_forgets_its_edge_counts_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = EDGE_LISTS["powers"][::20]
    ours, wanted = counted(tmp_path, edges)
    assert ours.tolist() == wanted.tolist()

    def forgetful(low: float, later: Floats) -> EdgeCells | None:
        cells = edge_cells(low, later)
        assert cells is not None
        first = cells.tables[0].copy()
        first[np.flatnonzero(np.isfinite(first))[3]] = np.inf
        return dataclasses.replace(cells, tables=(first, *cells.tables[1:]))

    monkeypatch.setattr(keys, "edge_cells", forgetful)
    ours, wanted = counted(tmp_path, edges)
    assert ours.tolist() != wanted.tolist()


@pytest.mark.usefixtures("is_streamed")
def test_what_no_bin_holds_is_counted_beside_the_bins(tmp_path: Path) -> None:
    edges = EDGE_LISTS["unequal"]
    values = [None, math.nan, math.inf, -math.inf, *np.nextafter(edges, -np.inf), *edges, *np.nextafter(edges, np.inf)]
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t (x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    column = bins(edges=edges, outside="cell", null="cell")
    cells = compile_cells(domain({"x": column}), Policy(), ["x"])
    places = cells.cell_of({"x": column.encode(np.array([math.nan if v is None else v for v in values]))})
    source = open_source(f"duckdb:///{tmp_path / 'rows.duckdb'}#t")
    assert source.prepare(cells).run().tolist() == np.bincount(places, minlength=math.prod(cells.graph.shape)).tolist()
    filtered = compile_cells(domain({"x": column}), Policy(), ["x"], col("x") < edges[10])
    assert source.prepare(filtered).run().sum() == sum(edges[0] <= v < edges[10] for v in values if v is not None)


def test_five_hundred_edges_are_not_grouped_by_the_numbers_themselves(tmp_path: Path, is_streamed: bool) -> None:
    """Every number would be a group."""
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE t (x DOUBLE)")
    source = open_source(f"duckdb:///{tmp_path / 'rows.duckdb'}#t")
    for name in ("powers", "unequal", "decimal"):
        cells = compile_cells(domain({"x": bins(edges=EDGE_LISTS[name])}), Policy(), ["x"])
        sql = source.prepare(cells).sql  # type: ignore[attr-defined]
        assert "SMALLINT" in sql or (is_streamed and "GROUP BY" not in sql)
