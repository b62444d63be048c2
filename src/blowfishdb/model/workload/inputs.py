"""Checked input for linear queries: vectors or columns, whole numbers that cannot wrap."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np

from blowfishdb.errors import TooLarge, WorkloadError
from blowfishdb.model.arrays import SAFE_SUM, Ints, Numbers, as_ints
from blowfishdb.model.rows import Rows

DENSE_LIMIT = 2**25
"""Entries of a matrix that may be written out (256 MiB of int64)."""


def check_cells(cells: SupportsIndex) -> int:
    """The number of cells as a plain positive int."""
    try:
        count = operator.index(cells)
    except TypeError:
        raise WorkloadError(f"the number of cells is a whole number, not {cells!r}") from None
    if count < 1:
        raise WorkloadError(f"a workload is over at least one cell, not {count}")
    return count


def whole_numbers(values: object, what: str) -> Ints:
    """A frozen int64 copy, or a WorkloadError that names what was wrong."""
    raw = np.asarray(values)
    if raw.size and raw.dtype.kind not in "iu":
        raise WorkloadError(f"{what} are whole numbers, not {raw.dtype}")
    if raw.dtype == np.uint64 and raw.size and int(raw.max()) >= SAFE_SUM:
        raise WorkloadError(f"{what} are too large for exact arithmetic")
    return as_ints(raw)


def as_columns(values: Numbers, length: int) -> Numbers:
    """The input as int64 (from any whole type) or float64, of shape (length,) or (length, k)."""
    columns = np.asarray(values)
    if columns.ndim not in (1, 2) or columns.shape[0] != length:
        raise WorkloadError(f"{length} numbers, or {length} rows of them, are expected, not shape {columns.shape}")
    if columns.dtype.kind == "f":
        return columns.astype(np.float64, copy=False)
    if columns.dtype.kind == "b":
        return columns.astype(np.int64)
    if columns.dtype == np.int64:
        return columns
    return whole_numbers(columns, "counts and answers that are not floats")


def as_weights(values: Numbers, length: int) -> Ints:
    """Weights as int64, of shape (length,) or (length, k)."""
    columns = as_columns(values, length)
    if columns.dtype.kind != "i":
        raise WorkloadError("weights are whole numbers: their sums must be exact")
    return columns


def check_exact(columns: Numbers, factor: int = 1) -> None:
    """Refuses whole numbers whose sums, with coefficients up to `factor`, could wrap around in int64.

    Only results need to fit: int64 arithmetic is exact modulo 2^64, so wrapping on the way is harmless. The
    bound is summed in floats; their rounding is far below the distance from the limit to the largest int64.
    """
    if columns.dtype.kind != "i" or columns.size == 0:
        return
    bound = float(np.abs(columns.astype(np.float64)).sum(axis=0).max()) * factor
    if bound >= SAFE_SUM:
        raise TooLarge("sum of absolute values", int(bound), SAFE_SUM, "Use smaller numbers, or floats.")


def written_out(rows: Rows) -> Ints:
    """The dense matrix of implicit rows, unless it is too large."""
    queries, cells = rows.shape
    if queries * cells > DENSE_LIMIT:
        advice = "Use dot and transpose_dot, which never write the matrix out."
        raise TooLarge("entries of a dense workload", queries * cells, DENSE_LIMIT, advice)
    if queries < cells:
        return rows.transpose_dot(np.eye(queries, dtype=np.int64)).T
    return rows.dot(np.eye(cells, dtype=np.int64))
