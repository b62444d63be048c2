"""The Hilbert order visits every cell once, step by step, and boxes become the runs that brute force finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware.regions import HilbertCurve, block_tree, box_cover
from tests.effort import effort
from tests.mechanisms.spatial_cases import random_boxes


def steps(curve: HilbertCurve) -> np.ndarray:
    first, second = np.divmod(curve.cell_at, curve.shape[1])
    return np.abs(np.diff(first)) + np.abs(np.diff(second))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (8, 8), (64, 64), (16, 4), (4, 32), (1, 9), (256, 256)])
def test_every_step_leads_to_a_neighbour_where_whole_squares_fit(shape: tuple[int, int]) -> None:
    curve = HilbertCurve(shape)
    assert np.array_equal(np.sort(curve.positions), np.arange(curve.cells))
    assert np.all(steps(curve) == 1)


@given(st.tuples(st.integers(1, 20), st.integers(1, 20)))
@effort(60)
def test_it_is_a_bijection_on_every_grid(shape: tuple[int, int]) -> None:
    curve = HilbertCurve(shape)
    assert np.array_equal(curve.positions[curve.cell_at], np.arange(curve.cells))


def test_aligned_stretches_of_a_power_of_four_are_squares() -> None:
    first, second = np.divmod(HilbertCurve((64, 64)).cell_at, 64)
    for side in (2, 4, 8, 16):
        for axis in (first, second):
            block = axis.reshape(-1, side * side)
            assert np.all(block.max(axis=1) - block.min(axis=1) == side - 1)


@given(st.tuples(st.integers(1, 20), st.integers(1, 20)), st.integers(0, 1000))
@effort(80)
def test_runs_of_a_box_equal_brute_force(shape: tuple[int, int], seed: int) -> None:
    curve = HilbertCurve(shape)
    boxes = random_boxes(shape, 12, seed)
    query, low, high = curve.runs(boxes)
    found = []
    for index, row in enumerate(boxes.dense()[:, curve.cell_at]):
        edge = np.diff(np.concatenate([[0], row, [0]]))
        found += [(index, a, b) for a, b in zip(np.flatnonzero(edge == 1), np.flatnonzero(edge == -1), strict=True)]
    assert list(zip(query.tolist(), low.tolist(), high.tolist(), strict=True)) == found


@given(st.tuples(st.integers(2, 12), st.integers(2, 12)), st.integers(0, 1000))
@effort(40)
def test_a_box_covers_as_many_cells_of_a_stretch_as_there_are(shape: tuple[int, int], seed: int) -> None:
    curve = HilbertCurve(shape)
    boxes = random_boxes(shape, 6, seed)
    tree = block_tree(curve, np.arange(curve.cells))
    cover = box_cover(tree, boxes)
    rows = boxes.dense()[:, curve.cell_at]
    query, node = (part.reshape(-1) for part in np.indices((6, tree.nodes)))
    summed = np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))
    brute = summed[query, tree.high[node, 0]] - summed[query, tree.low[node, 0]]
    assert np.array_equal(cover(query, node), brute)


def random_blocks(places: int, seed: int) -> np.ndarray:
    """Where the buckets of a random refinement start."""
    rng = np.random.default_rng(seed)
    starts: list[int] = []

    def refine(start: int, size: int) -> None:
        if start >= places:
            return
        if size == 1 or rng.random() < 0.5:
            starts.append(start)
            return
        for part in range(4):
            refine(start + part * size // 4, size // 4)

    refine(0, 4 ** max(1, int(np.ceil(np.log(places) / np.log(4) - 1e-9))))
    return np.array(starts)


@given(st.integers(1, 300), st.integers(0, 1000))
@effort(80)
def test_blocks_that_were_kept_are_the_leaves_of_their_tree(places: int, seed: int) -> None:
    starts = random_blocks(places, seed)
    tree = block_tree(HilbertCurve((places, 1)), starts)
    assert np.array_equal(tree.low[tree.leaves, 0], starts)
    below = np.bincount(tree.parent[1:], weights=tree.areas[1:], minlength=tree.nodes)
    inner = np.flatnonzero(~tree.is_leaf)
    assert np.array_equal(below[inner], tree.areas[inner])
    assert np.all(np.bincount(tree.parent[1:], minlength=1) <= 4)


def test_a_curve_needs_two_axes() -> None:
    with pytest.raises(PlanError):
        HilbertCurve((3, 0))
