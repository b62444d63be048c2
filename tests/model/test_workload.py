"""Every workload equals the matrix that its definition spells out, and what makes no sense is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.workload import (
    WIDE_COLUMNS,
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rectangles,
    Rows,
    Sparse,
    Stacked,
    all_marginals,
    as_intervals,
    marginals,
    sums_before,
    total,
)
from tests.effort import effort

Case = tuple[Rows, np.ndarray[Any, np.dtype[np.int64]]]


def matrix(rows: list[list[int]], cells: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(rows, dtype=np.int64).reshape(-1, cells)


def identity(cells: int) -> Case:
    return Identity(cells), matrix([[int(c == i) for c in range(cells)] for i in range(cells)], cells)


def prefix(cells: int) -> Case:
    return Prefix(cells), matrix([[int(c <= i) for c in range(cells)] for i in range(cells)], cells)


def all_ranges(cells: int) -> Case:
    pairs = [(low, high) for low in range(cells) for high in range(low + 1, cells + 1)]
    return AllRanges(cells), matrix([[int(a <= c < b) for c in range(cells)] for a, b in pairs], cells)


def whole(cells: int) -> Case:
    return total(cells), matrix([[1] * cells], cells)


@st.composite
def bounds(draw: Callable[..., Any], cells: int) -> tuple[int, int]:
    low = draw(st.integers(0, cells))
    return low, draw(st.integers(low, cells))


@st.composite
def intervals(draw: Callable[..., Any], cells: int) -> Case:
    pairs = draw(st.lists(bounds(cells), min_size=1, max_size=6))
    rows = Intervals(cells, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    return rows, matrix([[int(a <= c < b) for c in range(cells)] for a, b in pairs], cells)


@st.composite
def rectangles(draw: Callable[..., Any], grid: tuple[int, ...]) -> Case:
    boxes = draw(st.lists(st.tuples(*(bounds(size) for size in grid)), min_size=1, max_size=5))
    low = np.array([[a for a, _ in box] for box in boxes])
    high = np.array([[b for _, b in box] for box in boxes])
    places = list(itertools.product(*(range(size) for size in grid)))
    written = [
        [int(all(a <= c < b for c, (a, b) in zip(place, box, strict=True))) for place in places] for box in boxes
    ]
    return Rectangles(grid, low, high), matrix(written, len(places))


@st.composite
def predicates(draw: Callable[..., Any], cells: int) -> Case:
    row = st.lists(st.integers(-3, 3), min_size=cells, max_size=cells)
    written = matrix(draw(st.lists(row, min_size=1, max_size=5)), cells)
    return Sparse(csr_array(written)), written


def simple(cells: int) -> st.SearchStrategy[Case]:
    ready = st.sampled_from([identity, prefix, all_ranges, whole]).map(lambda make: make(cells))
    return st.one_of(ready, intervals(cells), predicates(cells), rectangles((cells,)))


@st.composite
def products(draw: Callable[..., Any]) -> Case:
    parts = draw(st.lists(st.integers(1, 4).flatmap(simple), min_size=1, max_size=3))
    written = np.ones((1, 1), dtype=np.int64)
    for _, own in parts:
        written = np.array([[a * b for a in r for b in s] for r in written.tolist() for s in own.tolist()])
    return Kronecker(tuple(rows for rows, _ in parts)), written


@st.composite
def unions(draw: Callable[..., Any]) -> Case:
    cells = draw(st.integers(1, 6))
    parts = draw(st.lists(simple(cells), min_size=1, max_size=4))
    written = [row for _, own in parts for row in own.tolist()]
    return Stacked(tuple(rows for rows, _ in parts)), matrix(written, cells)


grids = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
cases = st.one_of(st.integers(1, 9).flatmap(simple), grids.flatmap(rectangles), products(), unions())


@effort(100)
@given(cases, st.sampled_from([None, 0, 1, 3]), st.booleans(), st.integers(0, 2**32))
def test_every_method_equals_the_dense_form(case: Case, width: int | None, real: bool, seed: int) -> None:
    rows, written = case
    queries, cells = written.shape
    tail = () if width is None else (width,)
    draw = np.random.default_rng(seed)

    def values(length: int) -> np.ndarray[Any, Any]:
        drawn = draw.integers(-(10**9), 10**9, (length, *tail))
        return drawn / 1024 if real else drawn

    x, y = values(cells), values(queries)
    assert rows.shape == written.shape
    assert np.array_equal(rows.dense(), written)
    # Numerators stay far below 2^53, so the multiples of 1/1024 are added exactly too.
    for ours, theirs in ((rows.dot(x), written @ x), (rows.transpose_dot(y), written.T @ y)):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    weights = draw.integers(1, 10**9, (queries, *tail))
    norms = rows.column_norms(weights)
    assert norms.dtype == np.int64
    assert np.array_equal(norms, np.abs(written).T @ weights)


@effort(40)
@given(cases, cases)
def test_fingerprints_tell_matrices_apart(one: Case, two: Case) -> None:
    (rows, written), (others, other) = one, two
    assert rows.fingerprint() == rows.fingerprint()
    if rows.fingerprint() == others.fingerprint():
        assert np.array_equal(written, other)


@given(cases)
def test_intervals_are_recognised_and_nothing_else_is(case: Case) -> None:
    rows, written = case
    seen = as_intervals(rows)
    if seen is not None:
        assert np.array_equal(seen.dense(), written)
    is_plain = not isinstance(rows, Kronecker | Rectangles) and not (
        isinstance(rows, Stacked) and any(isinstance(part, Kronecker) for part in rows.parts)
    )
    if is_plain:
        edges = np.diff(np.pad(written, ((0, 0), (1, 1))), axis=1)
        binary = bool(np.all((written == 0) | (written == 1)))
        assert (seen is not None) == (binary and bool(np.all((edges == 1).sum(axis=1) <= 1)))


@given(grids, st.data())
def test_marginals_sum_over_the_other_axes(grid: tuple[int, ...], data: st.DataObject) -> None:
    ways = data.draw(st.integers(0, len(grid)))
    cube = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 100, grid)
    subsets = list(itertools.combinations(range(len(grid)), ways))
    parts = [cube.sum(axis=tuple(a for a in range(len(grid)) if a not in s)).reshape(-1) for s in subsets]
    assert np.array_equal(all_marginals(grid, ways).dot(cube.reshape(-1)), np.concatenate(parts))
    assert np.array_equal(marginals(grid, subsets).dot(cube.reshape(-1)), np.concatenate(parts))


def test_a_product_of_a_huge_domain_has_a_shape_without_being_written_out() -> None:
    rows = all_marginals((1000,) * 6, 1)
    assert rows.shape == (6000, 10**18)


def test_a_million_intervals_over_a_million_cells() -> None:
    size = 10**6
    start = np.arange(size)
    rows = Intervals(size, start // 2, start // 2 + size // 2)
    answers = rows.dot(np.ones(size, dtype=np.int64))
    assert np.all(answers == size // 2)
    assert int(rows.transpose_dot(np.ones(size, dtype=np.int64)).sum()) == size * (size // 2)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.bool_])
def test_narrow_whole_numbers_are_widened_before_they_are_summed(kind: type[np.generic]) -> None:
    ones = np.ones(300, dtype=kind)
    answers = Prefix(300).dot(ones)
    assert answers.dtype == np.int64
    assert answers[-1] == 300


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_running_sums_of_many_columns_are_those_of_each_column_to_the_last_bit(kind: type, rows: int) -> None:
    drawn = np.random.default_rng(3).normal(0.0, 1e6, (rows, WIDE_COLUMNS)).astype(kind)
    found = sums_before(drawn)
    assert found.shape == (rows + 1, WIDE_COLUMNS) and found.dtype == kind
    for column in (0, 1, WIDE_COLUMNS - 1):
        assert found[:, column].tobytes() == sums_before(drawn[:, column].copy()).tobytes()
    low, high = np.triu_indices(rows + 1, k=1)
    for kept in (np.arange(low.size), np.flatnonzero(low == 0)):
        ranges = Intervals(rows, low[kept], high[kept]).dot(drawn)
        assert ranges.tobytes() == (found[high[kept]] - found[low[kept]]).tobytes()


def broken_csr() -> csr_array:
    matrix = csr_array(np.array([[1, 0], [0, 1]]))
    matrix.indices[0] = 7
    return matrix


BAD: dict[str, Callable[[], object]] = {
    "no cells": lambda: Identity(0),
    "negative cells": lambda: Prefix(-3),
    "half a cell": lambda: AllRanges(2.5),
    "interval backwards": lambda: Intervals(5, np.array([3]), np.array([2])),
    "interval past the end": lambda: Intervals(5, np.array([3]), np.array([6])),
    "interval before the start": lambda: Intervals(5, np.array([-1]), np.array([2])),
    "intervals of unequal number": lambda: Intervals(5, np.array([1, 2]), np.array([3])),
    "fractional interval": lambda: Intervals(5, np.array([0.5]), np.array([2.0])),
    "unsigned bound that does not fit": lambda: Intervals(5, np.array([0]), np.array([2**63], dtype=np.uint64)),
    "no axis": lambda: Rectangles((), np.empty((1, 0), dtype=int), np.empty((1, 0), dtype=int)),
    "box of another dimension": lambda: Rectangles((2, 3), np.array([[0]]), np.array([[1]])),
    "box outside": lambda: Rectangles((2, 3), np.array([[0, 0]]), np.array([[3, 2]])),
    "box backwards": lambda: Rectangles((2, 3), np.array([[1, 0]]), np.array([[0, 2]])),
    "fractions": lambda: Sparse(csr_array(np.array([[0.5]]))),
    "a vector": lambda: Sparse(np.array([1, 2])),
    "no matrix": lambda: Sparse("rows"),
    "a column that is not there": lambda: Sparse(broken_csr()),
    "no factor": lambda: Kronecker(()),
    "no part": lambda: Stacked(()),
    "different cells": lambda: Stacked((Identity(2), Identity(3))),
    "unknown axis": lambda: marginals((2, 3), [(2,)]),
    "an axis twice": lambda: marginals((2, 3), [(1, 1)]),
    "too many ways": lambda: all_marginals((2, 3), 3),
    "no marginal": lambda: marginals((2, 3), []),
}


@pytest.mark.parametrize("name", BAD)
def test_senseless_rows_are_refused(name: str) -> None:
    with pytest.raises(WorkloadError):
        BAD[name]()


ROWS: list[Rows] = [
    Identity(3),
    Prefix(3),
    AllRanges(3),
    total(3),
    Rectangles((3,), np.array([[0]]), np.array([[2]])),
    Sparse(csr_array(np.array([[1, 2, -1]]))),
    Kronecker((Prefix(3),)),
    Stacked((Prefix(3), total(3))),
]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: type(rows).__name__)
def test_input_of_another_length_or_kind_is_refused(rows: Rows) -> None:
    queries, cells = rows.shape
    for bad in (
        np.ones(cells + 1),
        np.ones((cells, 1, 1)),
        np.array(["a"] * cells),
        np.ones(cells, dtype=complex),
    ):
        with pytest.raises(WorkloadError):
            rows.dot(bad)
    with pytest.raises(WorkloadError):
        rows.transpose_dot(np.ones(queries + 1))
    with pytest.raises(WorkloadError):
        rows.column_norms(np.ones(queries))


@pytest.mark.parametrize("rows", ROWS[1:], ids=lambda rows: type(rows).__name__)
@pytest.mark.parametrize("large", [2**62, -(2**62), -(2**63)])
def test_sums_that_could_wrap_around_are_refused(rows: Rows, large: int) -> None:
    queries, cells = rows.shape
    with pytest.raises(TooLarge):
        rows.dot(np.full(cells, large))
    with pytest.raises(TooLarge):
        rows.transpose_dot(np.full(queries, large))
    with pytest.raises(TooLarge):
        rows.column_norms(np.full(queries, 2**62))


def test_large_entries_count_towards_the_limit() -> None:
    rows = Sparse(csr_array(np.array([[2**40, 0], [0, -(2**40)]])))
    assert rows.dot(np.array([2**18, 2**18])).tolist() == [2**58, -(2**58)]
    with pytest.raises(TooLarge):
        rows.dot(np.array([2**22, 0]))
    with pytest.raises(TooLarge):
        Sparse(csr_array(np.array([[2**62]])))


def test_parts_that_fit_alone_may_not_fit_together() -> None:
    rows = Stacked((Identity(1),) * 3)
    with pytest.raises(TooLarge):
        rows.transpose_dot(np.full(3, 2**61))


def test_matrices_and_ranges_beyond_the_limit_are_refused() -> None:
    with pytest.raises(TooLarge):
        Identity(10**5).dense()
    with pytest.raises(TooLarge):
        AllRanges(10**5).dot(np.zeros(10**5))
    with pytest.raises(TooLarge):
        AllRanges(10**5).intervals()
    with pytest.raises(TooLarge):
        Rectangles((1,) * 11, np.zeros((1, 11), dtype=int), np.ones((1, 11), dtype=int))
    assert as_intervals(AllRanges(10**5)) is None
    assert total(10**6).dense().shape == (1, 10**6)


def test_values_do_not_change_after_they_are_made() -> None:
    low = np.array([0, 1])
    rows = Intervals(3, low, np.array([2, 3]))
    before = rows.fingerprint()
    low[0] = 1
    assert rows.fingerprint() == before
    with pytest.raises(ValueError, match="read-only"):
        rows.low[0] = 1
    with pytest.raises(FrozenInstanceError):
        rows.cells = 4
    sparse = Sparse(csr_array(np.array([[1, 2]])))
    with pytest.raises(ValueError, match="read-only"):
        sparse.matrix.data[0] = 5


def test_answers_are_never_views_of_the_input() -> None:
    counts = np.arange(4)
    for rows in (Identity(4), Prefix(4), Kronecker((Identity(2), Identity(2)))):
        rows.dot(counts)[0] = 99
        rows.transpose_dot(counts)[0] = 99
    assert counts.tolist() == [0, 1, 2, 3]
