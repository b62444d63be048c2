"""The partitioning paper's experiments: its kd-trees, tiny runs of every figure, and verdicts that can turn."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from blowfishdb.model.workload import Rectangles
from papers.baselines.spatial import KdThresholds, hierarchical_kdtree, printed_kdtree
from papers.data import generator
from papers.experiment import Experiment, Row, Settings
from papers.experiments import chosen
from papers.partitioning import cells, census, kdtrees, learning
from papers.partitioning.census import HIERARCHICAL, OURS, PRINTED, Boxed, interactive, rectangles
from tests.papers.drawing import tiny_result

TINY = Settings("tiny")
FINE = partial(printed_kdtree, thresholds=KdThresholds(0.0, 0.0))


@pytest.mark.parametrize("answers", [FINE, partial(hierarchical_kdtree, height=9), interactive])
def test_with_hardly_any_noise_the_answers_are_right(answers: Boxed) -> None:
    counts = np.arange(48) ** 2
    boxes = rectangles(TINY, (6, 8), 20, 0)
    assert answers(counts, Fraction(1000), boxes) == pytest.approx(boxes.dot(counts), abs=1.0)


def test_each_stage_of_the_printed_kd_tree_has_half_of_the_budget() -> None:
    """One box is never cut when the thresholds are loose: its noise has scale 2 / epsilon."""
    whole = Rectangles((4, 4), np.array([[0, 0]]), np.array([[4, 4]]))
    loose = KdThresholds(1e9, 1e9)
    off = [abs(printed_kdtree(np.full(16, 100), Fraction(1, 5), whole, loose)[0] - 1600) for _ in range(400)]
    # The mean of 400 exponential sizes is this far off with chance 1e-10.
    assert np.mean(off) == pytest.approx(10.0, rel=0.35)


def test_queries_of_the_interactive_model_share_the_budget() -> None:
    counts = np.full(64, 50)
    boxes = rectangles(TINY, (8, 8), 40, 1)
    off = np.abs(np.array([interactive(counts, Fraction(1), boxes) for _ in range(50)]) - boxes.dot(counts))
    # The mean of 2,000 exponential sizes is this far off with chance 1e-11.
    assert off.mean() == pytest.approx(40.0, rel=0.16)


@pytest.mark.parametrize("experiment", chosen(("partitioning",)), ids=lambda one: one.name)
@pytest.mark.sampled(3)
def test_tiny_runs_end_with_a_verdict(experiment: Experiment) -> None:
    assert tiny_result(experiment.procedure()).pictures


def test_averages_of_counts() -> None:
    counts = np.array([[0.0, 1.0, -5.0], [2.0, 1.0, -5.0]])
    assert census.averages(counts).tolist() == [18.0, 17.5, 17.5]


def test_a_tree_cuts_by_what_tells_most_about_the_label() -> None:
    counts = np.zeros((2, 3, 2))
    counts[:, 0, 0] = counts[:, 1, 1] = counts[:, 2, 0] = 10
    counts[1, 0, 1] = 1
    labels = learning.tree_labels(counts, 1)
    assert labels.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert learning.share_right(labels, counts.astype(np.int64)) == pytest.approx(60 / 61)
    assert np.all(learning.tree_labels(counts, 0) == 0)


def test_both_learners_find_the_parity_without_noise() -> None:
    draw = generator(0, "test")
    secret, counts = learning.drawn_records(draw, 20_000)
    assert learning.best_parity(counts.astype(np.float64)) == secret
    assert learning.eliminated(draw, counts.astype(np.float64), 20_000) == secret


@pytest.mark.parametrize(("actual", "average", "holds"), [(100, 62, "yes"), (100, 120, "partly"), (14_000, 120, "no")])
def test_cells_are_judged_by_bound_and_average(actual: float, average: float, holds: str) -> None:
    row: Row = {"alpha": 0.05, "average": average, "actual": actual, "certified": 90, "exact": 2340, "lemma_41": 15202}
    assert cells.judge([row]).holds == holds


@pytest.mark.parametrize(("offs", "holds"), [((0.1, 0.2), "yes"), ((3.0, 0.2), "partly"), ((3.0, 9.0), "no")])
def test_averages_are_judged_by_how_many_are_near(offs: tuple[float, float], holds: str) -> None:
    rows: list[Row] = [
        {"method": "cells", "alpha": alpha, "people": 9, "original": 40.0, "released": 40.0 + off}
        for alpha, off in zip((0.05, 1.0), offs, strict=True)
    ]
    assert census.judge(rows).holds == holds


@pytest.mark.parametrize(("best", "holds"), [((13, 12), "yes"), ((13, 4), "partly"), ((4, 4), "no")])
def test_heights_are_judged_by_the_best_one(best: tuple[int, int], holds: str) -> None:
    rows: list[Row] = [{"algorithm": OURS, "height": 0, "absolute": 1.0, "relative": 1.0}]
    rows += [
        {"algorithm": HIERARCHICAL, "height": h, "absolute": 1 + abs(h - best[0]), "relative": 1 + abs(h - best[1])}
        for h in range(2, 16)
    ]
    assert kdtrees.heights_judge(rows).holds == holds


@pytest.mark.parametrize(("far", "holds"), [((9.0, 9.0), "yes"), ((9.0, 1.1), "partly"), ((1.1, 1.1), "no")])
def test_thresholds_are_judged_by_how_far_the_error_moves(far: tuple[float, float], holds: str) -> None:
    rows: list[Row] = [
        {"algorithm": PRINTED, "xi_0": xi_0, "xi_1": "none", "absolute": a, "relative": r}
        for xi_0, a, r in ((100.0, 1.0, 1.0), (1000.0, *far))
    ]
    rows.append({"algorithm": OURS, "xi_0": 0.0, "xi_1": "none", "absolute": 1.0, "relative": 1.0})
    assert kdtrees.thresholds_judge(rows).holds == holds


@pytest.mark.parametrize(("printed", "holds"), [((1.0, 0.5), "yes"), ((1.0, 9.0), "partly"), ((9.0, 9.5), "no")])
def test_alphas_are_judged_by_every_rival(printed: tuple[float, float], holds: str) -> None:
    rows: list[Row] = [
        {"algorithm": name, "alpha": 0.1, "absolute": a, "relative": r}
        for name, a, r in (
            ("cells", 2.0, 2.0),
            ("hierarchical kd-tree", 3.0, 3.0),
            (PRINTED, *printed),
            (OURS, 1.0, 1.0),
            ("adaptive tree (BlowfishDB)", 1.0, 1.0),
        )
    ]
    assert kdtrees.alphas_judge(rows).holds == holds


def query_rows(absolute: float, relative: float) -> list[Row]:
    rows: list[Row] = [
        {"algorithm": kdtrees.INTERACTIVE, "queries": count, "absolute": float(count), "relative": float(count)}
        for count in (1, 2, 5, 10, 20)
    ]
    return rows + [
        {"algorithm": name, "queries": 0, "absolute": absolute, "relative": relative} for name in (PRINTED, OURS)
    ]


def test_where_the_curves_cross() -> None:
    rows = query_rows(3.0, 100.0)
    assert kdtrees.crossing(rows, "absolute", PRINTED) == pytest.approx(3.0)
    assert kdtrees.crossing(rows, "relative", PRINTED) is None


@pytest.mark.parametrize(("levels", "holds"), [((3.0, 7.0), "yes"), ((15.0, 7.0), "partly"), ((99.0, 99.0), "no")])
def test_queries_are_judged_by_the_crossing(levels: tuple[float, float], holds: str) -> None:
    assert kdtrees.queries_judge(query_rows(*levels)).holds == holds


@pytest.mark.parametrize(("at_bound", "holds"), [((1.0, 1.0), "yes"), ((1.0, 0.2), "partly"), ((0.5, 0.2), "no")])
def test_parities_are_judged_at_the_stated_number(at_bound: tuple[float, float], holds: str) -> None:
    rows: list[Row] = [
        {"records": 100 * share, "share_of_stated": share, "all_parities": a, "elimination": e}
        for share, a, e in ((0.5, 0.0, 0.0), (1.0, *at_bound))
    ]
    verdict = learning.parities_judge(rows)
    assert verdict.holds == holds and ("at no number tried" in verdict.why) == (holds != "yes")


@pytest.mark.parametrize(("right", "holds"), [((0.8, 0.82), "yes"), ((0.7, 0.82), "partly"), ((0.7, 0.75), "no")])
def test_decision_trees_are_judged_by_exact_counts_and_majority(right: tuple[float, float], holds: str) -> None:
    rows: list[Row] = [
        {"method": name, "alpha": alpha, "right": share}
        for name, alpha, share in (
            (learning.EXACT, 0.0, 0.825),
            (learning.MAJORITY, 0.0, 0.76),
            ("cells", 0.01, right[0]),
            ("cells", 1.0, right[1]),
        )
    ]
    assert learning.trees_judge(rows).holds == holds
