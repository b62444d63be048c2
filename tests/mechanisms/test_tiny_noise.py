"""Intervals by variances alone hold where noise is so small that whole numbers show: continuous noise counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.mechanisms.data_aware.dawa_transform import DawaTransform
from blowfishdb.mechanisms.data_aware.kdtree import Cells
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.workload import Identity
from blowfishdb.noise.distribution import pmf, variance
from blowfishdb.plan.plan import Problem
from tests.mechanisms.spatial_cases import full, run, window

CELLS, BETA = 16, 0.05
LINE = CellGraph((window(CELLS, 1),), "record", np.array(False), "public")


@pytest.mark.parametrize(
    ("mechanism", "graph", "epsilon", "scale", "terms"),
    [(DawaTransform(), LINE, 4, 1 / 4, 2), (Cells(), full((CELLS,)), 7, 2 / 7, 1)],
    ids=["sums", "cells"],
)
def test_an_interval_holds_a_step_of_one_where_that_is_likely(
    mechanism: DataAware, graph: CellGraph, epsilon: int, scale: float, terms: int
) -> None:
    law = pmf(scale, np.arange(-60, 61))
    moved = 1.0 - float(law[60] if terms == 1 else law @ law)
    assert moved > BETA, "more often than beta a cell is off by one or more"
    found = run(mechanism, Problem(graph, Identity(CELLS)), Fraction(epsilon), np.full(CELLS, 100))
    assert np.all(noise_widths(found.variances, BETA).per_answer[1:-1] >= 1.0)
    discrete = np.array([terms * float(variance(scale))])
    assert noise_widths(discrete, BETA).per_answer[0] < 1.0, "the variance of whole-number noise is not enough"
