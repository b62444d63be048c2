"""The partitioning paper's kd-tree as it is printed: half of epsilon on the cells, half on the boxes cut from them.

Private for one record more or less. Its answers use the counts of the boxes alone; the cells only show where to cut.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.spatial.kd_cuts import KdThresholds, kd_tree
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.reproduce.baselines.drawing import noisy


def printed_kdtree(counts: Ints, epsilon: Fraction, boxes: Rectangles, thresholds: KdThresholds) -> Floats:
    """Answers to the boxes, each cell having its share of the noisy count around it."""
    cells = noisy(counts, 2 / epsilon).reshape(boxes.grid)
    labels = kd_tree(cells, thresholds.choose).labels
    inside = np.bincount(labels)
    totals = noisy(np.bincount(labels, weights=counts).astype(np.int64), 2 / epsilon)
    return np.asarray(boxes.dot((totals / inside)[labels]))
