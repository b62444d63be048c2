"""What a workload refuses: shapes that make no sense, fractions, and sums that could wrap around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.sparse import csr_array

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.workload import (
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
    total,
)


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
