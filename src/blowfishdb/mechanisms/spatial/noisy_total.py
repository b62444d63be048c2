"""How many records there are, as far as a grid needs to know it: exactly where it is public, else at a small share."""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.spatial.bucket_counts import bucket_counts
from blowfishdb.mechanisms.spatial.record_cuts import noise_unit
from blowfishdb.mechanisms.spatial.tree_estimate import NodeViews
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, Reply

TOTAL_SHARE = Fraction(1, 20)


def total_share(graph: CellGraph) -> Fraction:
    """The part of epsilon that the number of records takes."""
    return Fraction(0) if np.all(graph.components() == 0) else TOTAL_SHARE


def ask_total(problem: Problem, allowance: Allowance) -> Generator[Ask, Reply, NodeViews]:
    """The view of the whole grid, to start a tree with."""
    everything = np.zeros(problem.graph.cells, dtype=np.int64)
    asked = bucket_counts(problem.graph, everything, allowance)
    values, variances = asked.read((yield asked.ask))
    return NodeViews(values, variances)


def records_per_noise(records: float, graph: CellGraph, epsilon: Fraction) -> float:
    """The number of records in units of the noise scale that a count has at this epsilon; never negative."""
    return max(records, 0.0) / noise_unit(graph, epsilon)
