"""Workloads made of workloads: products over several attributes, unions, marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import WorkloadError
from blowfishdb.model.arrays import Ints, Numbers
from blowfishdb.model.encoding import encode
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload.inputs import (
    as_columns,
    as_weights,
    check_cells,
    check_exact,
    written_out,
)
from blowfishdb.model.workload.line import Identity, total

LinearMap: TypeAlias = Callable[[Numbers], Numbers]


@dataclass(frozen=True, eq=False)
class Kronecker:
    """Every product of one row per factor, over the product of their cells; both in row-major order."""

    factors: tuple[Rows, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise WorkloadError("a product needs at least one factor")

    @property
    def shape(self) -> tuple[int, int]:
        return math.prod(f.shape[0] for f in self.factors), math.prod(f.shape[1] for f in self.factors)

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        return self._along_each_axis(columns, 1, [factor.dot for factor in self.factors])

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        return self._along_each_axis(columns, 0, [factor.transpose_dot for factor in self.factors])

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        """|A x B| = |A| x |B|; the factors' column_norms must take matrices of columns too."""
        columns = as_weights(weights, self.shape[0])
        return self._along_each_axis(columns, 0, [factor.column_norms for factor in self.factors])

    def fingerprint(self) -> bytes:
        return encode(("product", *(factor.fingerprint() for factor in self.factors)))

    def _along_each_axis(self, columns: Numbers, side: int, maps: Sequence[LinearMap]) -> Numbers:
        """Applies one map per axis, those that shrink most first: the arrays in between stay small."""
        rest = columns.shape[1:]
        block = columns.reshape(*(factor.shape[side] for factor in self.factors), *rest)
        growth = [factor.shape[1 - side] / max(1, factor.shape[side]) for factor in self.factors]
        for axis in np.argsort(growth, kind="stable"):
            front = np.moveaxis(block, axis, 0)
            mapped = maps[axis](front.reshape(front.shape[0], math.prod(front.shape[1:])))
            block = np.moveaxis(mapped.reshape(mapped.shape[0], *front.shape[1:]), 0, axis)
        return np.ascontiguousarray(block).reshape(self.shape[1 - side], *rest)


@dataclass(frozen=True, eq=False)
class Stacked:
    """The rows of every part, one part after the other, over the same cells."""

    parts: tuple[Rows, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise WorkloadError("a union needs at least one part")
        sizes = sorted({part.shape[1] for part in self.parts})
        if len(sizes) != 1:
            raise WorkloadError(f"all parts of a union are over the same cells, not {sizes}")

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        return np.concatenate([part.dot(columns) for part in self.parts])

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        return self._summed(columns, [part.transpose_dot for part in self.parts])

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        columns = as_weights(weights, self.shape[0])
        return self._summed(columns, [part.column_norms for part in self.parts])

    def fingerprint(self) -> bytes:
        return encode(("union", *(part.fingerprint() for part in self.parts)))

    def _summed(self, columns: Numbers, maps: Sequence[LinearMap]) -> Numbers:
        result = np.zeros((self.shape[1], *columns.shape[1:]), dtype=columns.dtype)
        start = 0
        for part, each in zip(self.parts, maps, strict=True):
            stop = start + part.shape[0]
            piece = each(columns[start:stop])
            if piece.dtype.kind == "i" and piece.size:
                check_exact(np.array([np.abs(result).max(), np.abs(piece).max()]))
            result += piece
            start = stop
        return result


def marginals(shape: Sequence[int], subsets: Sequence[Sequence[int]]) -> Stacked:
    """For each subset of the axes the counts of every combination of their cells, whatever the other axes."""
    sizes = tuple(check_cells(size) for size in shape)
    parts = []
    for subset in subsets:
        chosen = set(subset)
        if len(chosen) != len(subset) or not chosen <= set(range(len(sizes))):
            raise WorkloadError(f"a marginal names distinct axes below {len(sizes)}, not {tuple(subset)}")
        factors = (Identity(size) if axis in chosen else total(size) for axis, size in enumerate(sizes))
        parts.append(Kronecker(tuple(factors)))
    return Stacked(tuple(parts))


def all_marginals(shape: Sequence[int], ways: int) -> Stacked:
    """Every marginal over exactly `ways` axes, subsets in lexicographic order."""
    if not 0 <= ways <= len(shape):
        raise WorkloadError(f"marginals are over 0 to {len(shape)} axes, not {ways}")
    return marginals(shape, list(itertools.combinations(range(len(shape)), ways)))
