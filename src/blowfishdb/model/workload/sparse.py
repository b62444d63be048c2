"""Arbitrary whole-number queries, stored as a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import WorkloadError
from blowfishdb.model.arrays import Ints, Numbers
from blowfishdb.model.encoding import encode
from blowfishdb.model.workload.inputs import (
    as_columns,
    as_weights,
    check_cells,
    check_exact,
    whole_numbers,
    written_out,
)


@dataclass(frozen=True, eq=False)
class Sparse:
    """The rows of a matrix of whole numbers; a dense or another sparse matrix is converted."""

    matrix: csr_array

    def __post_init__(self) -> None:
        try:
            matrix = csr_array(self.matrix, copy=True)
            matrix.check_format(full_check=True)
        except (TypeError, ValueError, IndexError) as problem:
            raise WorkloadError(f"predicates are the rows of a matrix: {problem}") from None
        if matrix.ndim != 2:
            raise WorkloadError("predicates are the rows of a matrix, not one vector")
        check_cells(matrix.shape[1])
        if matrix.dtype.kind != "b":
            whole_numbers(matrix.data, "entries of predicates")
        matrix = matrix.astype(np.int64)
        check_exact(matrix.data)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def dot(self, cells: Numbers) -> Numbers:
        columns = as_columns(cells, self.shape[1])
        check_exact(columns, self._largest)
        return np.asarray(self.matrix @ columns)

    def transpose_dot(self, answers: Numbers) -> Numbers:
        columns = as_columns(answers, self.shape[0])
        check_exact(columns, self._largest)
        return np.asarray(self.matrix.T @ columns)

    def dense(self) -> Ints:
        return written_out(self)

    def column_norms(self, weights: Ints) -> Ints:
        columns = as_weights(weights, self.shape[0])
        check_exact(columns, self._largest)
        return np.asarray(abs(self.matrix).T @ columns)

    def fingerprint(self) -> bytes:
        arrays = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
        return encode(("sparse", self.shape, *(array.astype(np.int64) for array in arrays)))

    @property
    def _largest(self) -> int:
        return int(np.abs(self.matrix.data).max()) if self.matrix.nnz else 1
