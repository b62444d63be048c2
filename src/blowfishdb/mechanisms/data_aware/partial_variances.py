"""What noise on buckets does to answers over cells when every bucket's total is shared out evenly."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.hat_solver import HatSolver
from blowfishdb.mechanisms.entries import chosen_rows
from blowfishdb.mechanisms.one_axis.estimator import Estimator, covariance_dot
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import as_intervals

ENTRIES_AT_ONCE = 2**22
"""Queries that are not ranges are written out in portions of this many entries."""


def answer_variances(buckets: Buckets, estimator: Estimator, workload: Rows, variances: Floats) -> Floats:
    """The variance of each answer's noise, `variances` being those of the noisy rows."""
    spans = as_intervals(workload)
    if spans is None:
        return _variances_of_rows(buckets, estimator, workload, variances)
    low, high = buckets.parts_before(spans.low), buckets.parts_before(spans.high)
    if isinstance(estimator, HatSolver):
        return estimator.partial_variances(low, high, variances)
    return _by_whole_buckets(estimator, low, high, variances)


def _by_whole_buckets(
    estimator: Estimator, low: tuple[Ints, Floats], high: tuple[Ints, Floats], variances: Floats
) -> Floats:
    """A range is a part of one bucket, whole buckets, and a part of another: six variances give all covariances."""
    (first, before), (last, until) = low, high
    apart = last > first
    inner = np.where(apart, first + 1, last)
    ranges = ((first, inner), (inner, last), (last, last + 1), (first, last), (inner, last + 1), (first, last + 1))
    starts = np.concatenate([pair[0] for pair in ranges])
    ends = np.concatenate([pair[1] for pair in ranges])
    left, whole, right, left_whole, whole_right, every = np.split(
        estimator.range_variances(starts, ends, variances), len(ranges)
    )
    rest = 1.0 - before
    found = (
        rest**2 * left
        + whole
        + until**2 * right
        + rest * (left_whole - left - whole)
        + until * (whole_right - whole - right)
        + rest * until * (every - left_whole - whole_right + whole)
    )
    return np.maximum(np.where(apart, found, (until - before) ** 2 * right), 0.0)


def _variances_of_rows(buckets: Buckets, estimator: Estimator, workload: Rows, variances: Floats) -> Floats:
    found = np.empty(workload.shape[0])
    portion = max(1, ENTRIES_AT_ONCE // buckets.cells)
    for start in range(0, found.size, portion):
        queries = np.arange(start, min(start + portion, found.size))
        rows = np.add.reduceat(chosen_rows(workload, queries), buckets.starts, axis=1) / buckets.lengths
        found[queries] = np.einsum("ij,ji->i", rows, covariance_dot(estimator, rows.T, variances))
    return np.maximum(found, 0.0)
