"""Rows that correct a least-squares estimate over two axes: exact totals, and coarse rows with modes of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.products.axis_modes import AxisModes
from blowfishdb.mechanisms.products.axis_rows import AxisRows
from blowfishdb.mechanisms.products.mode_sums import along_axes
from blowfishdb.model.arrays import Floats, Ints

CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class ProductRows:
    """All products of one row per axis, each measured with the same weight; None: exact."""

    rows: tuple[Ints, ...]
    weight: int | None

    @property
    def count(self) -> int:
        return math.prod(len(rows) for rows in self.rows)


Crossed = list[tuple[Floats, ...]]
"""For each group and axis: queries' rows by the group's rows by modes."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """Groups of product rows R in order. With S the covariance before, they add S R'(V + R S R')^-1 (h - R x) to x.

    S is a table over pairs of modes, and so is every other quadratic form here. V is 1 / weight^2.
    """

    axes: tuple[AxisModes, ...]
    groups: tuple[ProductRows, ...]

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)

    def measured_variances(self, values: Sequence[float]) -> Floats:
        """One value for each row from one for each group."""
        return np.repeat(np.asarray(values, dtype=np.float64), [group.count for group in self.groups])

    def system(self, table: Floats) -> Floats:
        """V + R S R' for weights as they are and S the given table."""
        own = [0.0 if group.weight is None else float(group.weight) ** -2 for group in self.groups]
        return self.between(table) + np.diag(self.measured_variances(own))

    def between(self, table: Floats) -> Floats:
        """R T R' for the quadratic form T with the given table."""
        blocks = []
        for one in self.groups:
            line = []
            for other in self.groups:
                first, second = (axis.between(a, b) for axis, a, b in zip(self.axes, one.rows, other.rows, strict=True))
                both = np.einsum("aAn,bBn->abAB", np.tensordot(first, table, axes=(2, 0)), second, optimize=True)
                line.append(both.reshape(one.count, other.count))
            blocks.append(line)
        return np.block(blocks)

    def crossed(self, rows: Sequence[AxisRows]) -> Crossed:
        """What queries with the given rows on each axis share with every row, mode by mode."""
        return [
            tuple(axis.with_rows(own, each) for axis, own, each in zip(self.axes, rows, group.rows, strict=True))
            for group in self.groups
        ]

    def seen(self, table: Floats, crossed: Crossed, index: Ints) -> Floats:
        """R T q for each query q, given as its row on each axis: corrections by queries."""
        found = []
        for first, second in crossed:
            step = max(1, CHUNK // (first.shape[1] * max(second.shape[1], table.shape[1])))
            pieces = [np.empty((0, first.shape[1] * second.shape[1]))]
            for start in range(0, len(index), step):
                own, other = index[start : start + step].T
                half = first[own] @ table
                pieces.append(np.matmul(half, second[other].transpose(0, 2, 1)).reshape(len(own), -1))
            found.append(np.concatenate(pieces))
        return np.concatenate(found, axis=1).T

    def squares(self, one: Floats, other: Floats, crossed: Crossed) -> Floats:
        """The sum over all combinations of the queries' rows of (R T q)(R T' q)', T and T' given by their tables."""
        blocks = []
        for first in crossed:
            line = []
            for second in crossed:
                left, right = (
                    np.einsum("qam,qAM->amAM", a, b, optimize=True) for a, b in zip(first, second, strict=True)
                )
                half = np.einsum("mn,amAM,MN->aAnN", one, left, other, optimize=True)
                both = np.einsum("aAnN,bnBN->abAB", half, right, optimize=True)
                line.append(both.reshape(both.shape[0] * both.shape[1], -1))
            blocks.append(line)
        return np.block(blocks)

    def measure(self, cells: Floats) -> Floats:
        """R times a vector or a matrix of columns."""
        return np.concatenate([along_axes(group.rows, cells) for group in self.groups])

    def give_back(self, values: Floats) -> Floats:
        """R' times a vector or a matrix of columns."""
        starts = np.cumsum([group.count for group in self.groups])[:-1]
        pieces = zip(self.groups, np.split(values, starts), strict=True)
        return np.asarray(sum(along_axes([rows.T for rows in group.rows], piece) for group, piece in pieces))
