"""Irregular bins in PostgreSQL: bytes tell the bin of most numbers, and a search that of the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Bins, bins, domain
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.sources import open_source, postgres
from blowfishdb.sources.irregular import BYTE_CELLS, ROUND, UNTOLD, ByteCells, byte_cells
from tests.effort import effort
from tests.sources.tables import EDGE_LISTS

NUMBERS = st.floats(-1e300, 1e300) | st.floats(-10, 10) | st.integers(-1000, 1000).map(float)
TINY = float(np.nextafter(0.0, 1.0))
SPECIAL = [-math.inf, -1e308, -1.0, -TINY, -0.0, 0.0, TINY, 1e-300, 1.0, 1e308, math.inf]
SEED = 18


def product_first(cells: ByteCells, numbers: Floats) -> Floats:
    """The cells of numbers within the range, as PostgreSQL 15 and before work them out."""
    return np.trunc(cells.count * (numbers - cells.low) / (cells.high - cells.low) + 1)


def quotient_first(cells: ByteCells, numbers: Floats) -> Floats:
    """The same as later versions do, which let no number within the range reach the cell beyond."""
    quotient = (numbers - cells.low) / (cells.high - cells.low)
    return np.minimum(np.trunc(cells.count * quotient), cells.count - 1) + 1


def around(edges: Floats) -> Floats:
    """The edges and the doubles next to them, numbers between them, and numbers that may lie anywhere."""
    beside = np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), (edges[1:] / 2 + edges[:-1] / 2)
    return np.concatenate([edges, *beside, SPECIAL])


def check_bytes(cells: ByteCells, edges: Floats, way: Callable[[ByteCells, Floats], Floats]) -> Ints:
    """Bytes that tell how many edges lie at or below tell it rightly; those of all edges do not tell."""
    values = around(edges)
    inside = (values >= cells.low) & (values < cells.high)
    place = np.where(values < cells.low, 0, cells.count + 1)
    place[inside] = way(cells, values[inside]).astype(np.int64)
    told = np.frombuffer(cells.numbers, dtype=np.uint8)[place].astype(np.int64)
    assert np.all(told[: edges.size] == UNTOLD)
    below = told + ROUND * np.searchsorted(cells.rounds, values, side="right")
    assert np.all((told == UNTOLD) | (below == np.searchsorted(edges, values, side="right")))
    return told


@effort(200)
@given(st.lists(NUMBERS, min_size=2, max_size=600, unique=True), st.floats(-1e6, 1e6), st.floats(1e-9, 1e9))
def test_bytes_tell_the_edges_at_or_below(numbers: list[float], shift: float, scale: float) -> None:
    edges = np.unique(np.array(numbers) * min(scale, 1e-9 if max(map(abs, numbers)) > 1e200 else scale) + shift)
    cells = byte_cells(edges) if edges.size > 1 else None
    if cells is not None:
        for way in (product_first, quotient_first):
            check_bytes(cells, edges, way)


@pytest.mark.parametrize("low", [0.0, -5.0, 0.1, 1e6, 1e13, -1e13])
def test_bytes_of_edges_that_lie_on_ends_of_cells(low: float) -> None:
    ends = np.append(np.arange(253) * (BYTE_CELLS // 256), BYTE_CELLS - 2)
    edges = low + ends / (BYTE_CELLS - 2) * 100
    cells = byte_cells(edges)
    assert cells is not None
    for way in (product_first, quotient_first):
        told = check_bytes(cells, edges, way)
        between = told[3 * edges.size : -len(SPECIAL)]
        assert np.array_equal(between, np.arange(1, edges.size))
        assert told[-1] == edges.size and told[-len(SPECIAL)] == 0


@pytest.mark.parametrize("size", [255, 256, 257, 511, 512, 513, 1023])
def test_bytes_begin_anew_after_so_many_edges(size: int) -> None:
    edges = np.sort(np.random.default_rng(size).uniform(-50, 50, size))
    cells = byte_cells(edges)
    assert cells is not None
    assert cells.rounds.tolist() == [edges[number - 1] for number in (256, 512, 768) if number <= size]
    for way in (product_first, quotient_first):
        told = check_bytes(cells, edges, way)
        assert np.mean(told[3 * edges.size : -len(SPECIAL)] != UNTOLD) > 0.8


def test_edges_have_no_bytes_where_most_numbers_would_be_searched_for() -> None:
    powers, unequal = (np.array(EDGE_LISTS[name])[100:300] for name in ("powers", "unequal"))
    assert byte_cells(unequal) is not None
    assert byte_cells(powers * 1e-290) is None
    assert byte_cells(np.geomspace(1e-6, 1e6, 200)) is None
    assert byte_cells(np.arange(1024.0)) is None and byte_cells(np.arange(1023.0)) is not None
    assert byte_cells(np.array([-1.7e308, 0, 1.7e308])) is None and byte_cells(np.array([TINY, 2 * TINY])) is None


psycopg = pytest.importorskip("psycopg")
FINE = np.sort(np.random.default_rng(SEED).uniform(-50, 50, 1000))
FAR = np.concatenate([FINE[:300], np.geomspace(51, 1e9, 200)])
"""Edges of which most would share a cell."""


@pytest.fixture(scope="module")
def url(postgres_server: str) -> str:
    """Tables of doubles and of decimals with all that is awkward, and NULL and NaN twice."""
    values = np.concatenate([around(FINE), around(FAR), np.random.default_rng(SEED).normal(0, 40, 2000)])
    with psycopg.connect(postgres_server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE byte_cells (x double precision, d numeric(12, 4))")
        rows = [(float(x), round(float(x), 4) if abs(x) < 1e7 else "NaN") for x in values]
        rows += [(math.nan, "NaN"), (math.nan, None), (None, None), (None, "0")]
        cursor.executemany("INSERT INTO byte_cells VALUES (%s, %s)", rows)
    return f"{postgres_server}#byte_cells"


def counted(url: str, column: str, attribute: Bins) -> tuple[list[int], str]:
    cells = compile_cells(domain({column: attribute}), Policy(), [column])
    count = open_source(url).prepare(cells)
    return count.run().tolist(), count.sql  # type: ignore[attr-defined]


CUTS = {"one round": FINE[::5], "two": FINE[::2], "four": FINE, "search": FAR, "two edges": FINE[[0, 99]]}


@pytest.mark.postgres
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("column", ["x", "d"])
def test_every_number_is_in_its_bin(url: str, name: str, column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute = bins(edges=CUTS[name].tolist(), outside="cell", null="cell")
    ours, sql = counted(url, column, attribute)
    rounds = {"one round": 0, "two": 1, "four": 3}
    assert sql.count("GET_BYTE") == (name in rounds) and sql.count(" * 256") == rounds.get(name, 0)
    monkeypatch.setattr(postgres, "LISTED_FROM", math.inf)
    searched, sql = counted(url, column, attribute)
    assert "GET_BYTE" not in sql
    assert ours == searched
    if column == "x":
        with psycopg.connect(url.partition("#")[0]) as connection:
            rows = connection.execute("SELECT x FROM byte_cells").fetchall()
        cells = compile_cells(domain({"x": attribute}), Policy(), ["x"])
        values = np.array([math.nan if x is None else x for (x,) in rows])
        places = cells.cell_of({"x": attribute.encode(values)})
        assert ours == np.bincount(places, minlength=len(ours)).tolist()


def shifted(numbers: bytes) -> bytes:
    return numbers[:1] + numbers[:-1]


def last_one_off(numbers: bytes) -> bytes:
    return numbers[:-1] + bytes([numbers[-1] - 1])


@pytest.mark.postgres
@pytest.mark.parametrize("planted", [shifted, last_one_off])
def test_a_byte_that_is_one_off_is_noticed(
    url: str, planted: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of the last cell: numbers above all edges have a byte as well."""
    attribute = bins(edges=CUTS["two"].tolist(), outside="cell", null="cell")
    right, _ = counted(url, "x", attribute)

    def wrong(edges: Floats) -> ByteCells | None:
        cells = byte_cells(edges)
        assert cells is not None
        return replace(cells, numbers=planted(cells.numbers))

    monkeypatch.setattr(postgres, "byte_cells", wrong)
    ours, _ = counted(url, "x", attribute)
    assert ours != right and sum(ours) == sum(right)
