"""Sums over modes of products of one factor per axis, for all queries of a part at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blowfishdb.model.arrays import Floats, Ints


def along_axes(maps: Sequence[Floats | Ints], values: Floats) -> Floats:
    """The Kronecker product of the maps times a vector or a matrix of columns."""
    rest = values.shape[1:]
    block = values.reshape(*(each.shape[1] for each in maps), *rest)
    return np.ascontiguousarray(mapped(block, maps)).reshape(-1, *rest)


def mapped(table: Floats, maps: Sequence[Floats | Ints]) -> Floats:
    """The table with each of its first axes mapped by its own matrix."""
    for axis, each in enumerate(maps):
        table = np.moveaxis(np.tensordot(each, table, axes=(1, axis)), 0, axis)
    return table


def summed_by_query(table: Floats, factors: Sequence[Floats], index: Ints | None) -> Floats:
    """For each query the sum over all modes of table times the factors; index None: every combination of rows."""
    if index is None:
        return along_axes(factors, table.reshape(-1))
    first = np.tensordot(factors[0][index[:, 0]], table, axes=(1, 0))
    for axis in range(1, len(factors)):
        first = np.einsum("ql,ql...->q...", factors[axis][index[:, axis]], first)
    return np.asarray(first)


def summed_over_queries(factors: Sequence[Floats], index: Ints | None) -> Floats:
    """For each combination of modes the sum over the queries of the factors."""
    if index is None:
        table = np.ones(())
        for factor in factors:
            table = np.multiply.outer(table, factor.sum(axis=0))
        return table
    table = factors[0][index[:, 0]]
    for axis in range(1, len(factors) - 1):
        table = np.einsum("q...,ql->q...l", table, factors[axis][index[:, axis]])
    return np.asarray(np.tensordot(table, factors[-1][index[:, -1]], axes=(0, 0)))
