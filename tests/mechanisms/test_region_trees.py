"""Cut boxes part the grid; least squares and variances over them equal the dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError
from blowfishdb.inference.least_squares import EmptyRule, Tree, TreeSolver, combined
from blowfishdb.mechanisms.data_aware.regions import (
    EMPTY_RULE,
    NodeViews,
    RegionTree,
    answer_variances,
    cut,
    halvings,
    leaf_bound,
    least_squares,
    not_negative,
    tree_finding,
    whole,
)
from blowfishdb.model.workload import Identity, Kronecker, Sparse
from blowfishdb.plan.plan import Problem
from papers.baselines.spatial import halving_levels, product_tree
from tests.effort import effort
from tests.mechanisms.spatial_cases import full, random_boxes

SHAPES = st.one_of(
    st.tuples(st.integers(1, 40)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6)),
)


def grown(shape: tuple[int, ...], seed: int) -> RegionTree:
    """A tree cut twice at random."""
    rng = np.random.default_rng(seed)
    tree = whole(shape)
    for _ in range(2):
        chosen = tree.leaves[rng.random(tree.leaves.size) < 0.7]
        tree = cut(tree, chosen, rng.integers(1, 5, (chosen.size, len(shape))))
    return tree


def some_views(tree: RegionTree, seed: int, *, exact_total: bool) -> NodeViews:
    """Every leaf and some other nodes measured, with all kinds of noise."""
    rng = np.random.default_rng(seed)
    views = NodeViews.none(tree.nodes)
    for nodes in (tree.leaves, tree.leaves[::2], np.flatnonzero(rng.random(tree.nodes) < 0.5)):
        views = views.add(nodes, rng.normal(0, 50, nodes.size), rng.uniform(0.5, 9, nodes.size))
    return views.with_total(7.0) if exact_total else views


def leaf_rows(tree: RegionTree) -> np.ndarray:
    """Which leaves each node holds."""
    low, high = tree.low[tree.leaves], tree.high[tree.leaves]
    inside = (tree.low[:, None] <= low[None]) & (high[None] <= tree.high[:, None])
    return np.all(inside, axis=2).astype(np.float64)


@given(SHAPES, st.integers(0, 10_000))
@effort(60)
def test_cut_boxes_part_the_grid(shape: tuple[int, ...], seed: int) -> None:
    tree = grown(shape, seed)
    assert np.array_equal(np.bincount(tree.labels, minlength=tree.leaves.size), tree.areas[tree.leaves])
    inner = np.flatnonzero(~tree.is_leaf)
    below = np.bincount(tree.parent[1:], weights=tree.areas[1:], minlength=tree.nodes)
    assert np.array_equal(below[inner], tree.areas[inner])
    assert np.all(np.bincount(tree.parent[1:], minlength=1) <= 2 ** len(shape))


def test_pieces_are_nearly_equal_and_never_smaller_than_a_cell() -> None:
    tree = cut(whole((10, 3)), np.array([0]), np.array([[4, 9]]))
    size = (tree.high - tree.low)[tree.leaves]
    assert sorted(set(size[:, 0])) == [2, 3]
    assert set(size[:, 1]) == {1}
    assert tree.leaves.size == 12


def test_the_longest_axis_is_halved_first() -> None:
    pieces = halvings(np.array([[0, 0], [0, 0]]), np.array([[64, 8], [3, 1]]), 4)
    assert pieces.tolist() == [[16, 1], [3, 1]]


def test_only_leaves_are_cut() -> None:
    tree = cut(whole((4,)), np.array([0]), np.array([[2]]))
    with pytest.raises(PlanError, match="leaf"):
        cut(tree, np.array([0]), np.array([[2]]))


@given(SHAPES, st.integers(0, 10_000), st.booleans())
@effort(60)
def test_least_squares_equals_the_dense_solution(shape: tuple[int, ...], seed: int, exact_total: bool) -> None:
    tree = grown(shape, seed)
    views = some_views(tree, seed, exact_total=exact_total)
    rows = leaf_rows(tree)
    known = np.isfinite(views.variances)
    spread = np.maximum(views.variances[known], 1e-6)
    normal = (rows[known].T / spread) @ rows[known]
    dense = np.linalg.solve(normal, (rows[known].T / spread) @ views.values[known])
    estimate = least_squares(tree, views)
    assert np.allclose(estimate.values[tree.leaves], dense, atol=1e-3)
    assert np.allclose(rows @ estimate.values[tree.leaves], estimate.values)


@given(SHAPES, st.integers(0, 10_000), st.booleans())
@effort(60)
def test_variances_equal_the_dense_covariance(shape: tuple[int, ...], seed: int, exact_total: bool) -> None:
    tree = grown(shape, seed)
    views = some_views(tree, seed, exact_total=exact_total)
    boxes = random_boxes(shape, 20, seed)
    rows = leaf_rows(tree)
    known = np.isfinite(views.variances)
    spread = np.maximum(views.variances[known], 1e-6)
    covariance = np.linalg.inv((rows[known].T / spread) @ rows[known])
    weights = np.stack([np.bincount(tree.labels, row, tree.leaves.size) for row in boxes.dense()])
    weights /= tree.areas[tree.leaves]
    dense = np.einsum("ij,jk,ik->i", weights, covariance, weights)
    estimate = least_squares(tree, views)
    assert np.allclose(answer_variances(boxes, estimate, views), dense, atol=1e-3)
    assert np.all(leaf_bound(boxes, tree, views) >= dense - 1e-6)


def test_queries_of_every_kind_get_a_variance() -> None:
    shape = (6, 5)
    tree = grown(shape, 3)
    views = some_views(tree, 3, exact_total=False)
    estimate = least_squares(tree, views)
    cells = answer_variances(Kronecker((Identity(6), Identity(5))), estimate, views)
    assert np.allclose(cells, answer_variances(Identity(30), estimate, views))
    scattered = Sparse(np.eye(30, dtype=np.int64)[::2] * 3)
    assert np.all(answer_variances(scattered, estimate, views) >= 9 * cells[::2] - 1e-9)


def test_views_of_one_count_are_weighted_by_their_precision() -> None:
    first, second = np.array([10.0, 10, 10, 10]), np.array([20.0, 20, 20, 20])
    mean, spread = combined(first, np.array([1.0, np.inf, 0.0, 3.0]), second, np.array([1.0, 4.0, 2.0, 0.0]))
    assert mean.tolist() == [15.0, 20.0, 10.0, 20.0]
    assert spread.tolist() == [0.5, 4.0, 0.0, 0.0]


def test_an_unmeasured_leaf_is_refused() -> None:
    tree = whole((3,))
    with pytest.raises(PlanError, match="measured"):
        least_squares(tree, NodeViews.none(1))


@given(st.tuples(st.integers(1, 17), st.integers(1, 9)))
@effort(30)
def test_halving_levels_end_at_the_cells(shape: tuple[int, int]) -> None:
    tree = product_tree(shape, halving_levels(shape))
    assert tree.leaves.size == shape[0] * shape[1]
    assert np.array_equal(tree.labels, np.arange(tree.leaves.size))
    inner = np.flatnonzero(~tree.is_leaf)
    below = np.bincount(tree.parent[1:], weights=tree.areas[1:], minlength=tree.nodes)
    assert np.array_equal(below[inner], tree.areas[inner])


def test_broken_trees_are_refused() -> None:
    box = np.array([[0], [0]]), np.array([[4], [2]])
    for low, high, parent in (
        (*box, np.array([-1, 1])),
        (*box, np.array([0, 0])),
        (box[0], np.array([[4], [0]]), np.array([-1, 0])),
        (box[0][:1], box[1], np.array([-1, 0])),
    ):
        with pytest.raises(PlanError):
            RegionTree((4,), low, high, parent)


NEVER_EMPTY = EmptyRule(0.0, 0.0, 0.0)


@given(SHAPES, st.integers(0, 10_000))
@effort(60)
def test_counts_without_negative_ones_add_up_and_are_the_nearest(shape: tuple[int, ...], seed: int) -> None:
    tree = grown(shape, seed)
    estimate = least_squares(tree, some_views(tree, seed, exact_total=False))
    inner = np.flatnonzero(~tree.is_leaf)
    found = not_negative(estimate, NEVER_EMPTY).values
    for each in (found, not_negative(estimate).values):
        assert each.min() >= 0
        below = np.bincount(tree.parent[1:], weights=each[1:], minlength=tree.nodes)
        assert below[inner] == pytest.approx(each[inner], abs=1e-6)
    below_of = np.empty(tree.nodes)
    below_of[np.concatenate(tree.levels[0])] = np.concatenate(estimate.solver.below)
    for node in inner[:5]:
        children = np.flatnonzero(tree.parent == node)
        # At the nearest point what was moved, per variance, is the same for all that stay above 0, and less elsewhere.
        moved = (found[children] - estimate.values[children]) / below_of[children]
        above = found[children] > 1e-6
        if np.any(above):
            assert np.ptp(moved[above]) == pytest.approx(0, abs=1e-6)
            assert np.all(moved >= moved[above].min() - 1e-6)


def test_counts_that_are_positive_stay_as_they_are() -> None:
    tree = grown((8, 8), 3)
    views = NodeViews.none(tree.nodes).add(tree.leaves, np.full(tree.leaves.size, 5.0), np.ones(tree.leaves.size))
    estimate = least_squares(tree, views)
    assert not_negative(estimate).values == pytest.approx(estimate.values)


def test_exact_counts_stay_exact() -> None:
    tree = cut(whole((4,)), np.array([0]), np.array([[2]]))
    views = NodeViews.none(3).add(np.array([0, 1, 2]), np.array([2.0, 7.0, -9.0]), np.array([1.0, 0.0, 1.0]))
    assert not_negative(least_squares(tree, views)).values[1:].tolist() == [7.0, 0.0]


def parts(*counts: float, exact: int = 0) -> list[float]:
    """What becomes of the counts of one region's parts, each with a variance of 100; the first ones may be exact."""
    solver = TreeSolver(
        Tree((np.zeros(len(counts), dtype=np.int64),), 1),
        (np.where(np.arange(len(counts)) < exact, 0.0, 100.0), np.full(1, np.inf)),
    )
    return solver.not_negative([np.array(counts, dtype=np.float64), np.array([sum(counts)])], EMPTY_RULE)[0].tolist()


def test_a_little_beside_much_is_taken_for_nothing() -> None:
    assert parts(1000, 9, -8, 5, 7) == [1013, 0, 0, 0, 0]
    # Together they are too clear for noise, they are too large a part, or one of them is clear by itself.
    assert parts(1000, 19, 8, 15, 17) == [1000, 19, 8, 15, 17]
    assert parts(100, 9, 2, 5, 7) == [100, 9, 2, 5, 7]
    assert parts(1000, 41, 1, 2, 3) == [1003, 44, 0, 0, 0]


def test_what_is_taken_for_nothing_needs_a_count_that_is_free_to_make_up_for_it() -> None:
    assert parts(1000, 9, 2, exact=1) == [1000, 9, 2]
    assert parts(9, 2, 5) == [9, 2, 5]


def test_a_finding_says_how_far_each_answer_was_moved_to_keep_counts_from_being_negative() -> None:
    shape = (8, 8)
    tree = grown(shape, 3)
    views = some_views(tree, 3, exact_total=False)
    problem = Problem(full(shape), random_boxes(shape, 30))
    found, linear = tree_finding(problem, tree, views), least_squares(tree, views).cells
    assert linear.min() < 0 <= found.cells.min()
    assert found.adjusted is not None and found.adjusted.max() > 1
    assert found.adjusted == pytest.approx(np.abs(found.answers - problem.workload.dot(linear)))
