"""What a set of linear queries over the cells can do, however it is stored."""

from __future__ import annotations

from typing import Protocol

from blowfishdb.model.arrays import Ints, Numbers


class Rows(Protocol):
    """An integer matrix, queries by cells, that is rarely written out.

    `dot` and `transpose_dot` take a vector or a matrix of column vectors and keep its dtype (int64 stays exact).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        ...

    def dot(self, cells: Numbers) -> Numbers:
        """The answers to every query."""
        ...

    def transpose_dot(self, answers: Numbers) -> Numbers:
        """The transposed matrix times the given vector(s)."""
        ...

    def dense(self) -> Ints:
        """The matrix itself; refused with TooLarge when it would not fit in memory."""
        ...

    def column_norms(self, weights: Ints) -> Ints:
        """For each cell, the sum over the rows of weight times absolute entry, exact."""
        ...

    def fingerprint(self) -> bytes:
        """Bytes that determine the matrix, for digests."""
        ...
