"""The k-means figures: the paper's iteration, tiny runs, and verdicts that other numbers would turn."""

from __future__ import annotations

import numpy as np
import pytest

from blowfishdb.analysis.kmeans import cluster
from papers.blowfish import kmeans
from papers.blowfish.clusters import noisy_lloyd, objective, point_set, policy_of, prepared, printed_sensitivity
from papers.experiment import Experiment, Row, Settings, Value
from papers.experiments import EXPERIMENTS
from tests.papers.drawing import tiny_result

pytestmark = pytest.mark.nightly

TINY = Settings("tiny")


def row(data: str, policy: str, epsilon: float, printed: float, ours: float, noiseless: float = 1.0) -> Row:
    found: dict[str, Value] = {"data": data, "policy": policy, "epsilon": epsilon, "noiseless": noiseless}
    for name, value in (("printed", printed), ("ours", ours)):
        found |= {name: value, f"{name}_low": value, f"{name}_high": value}
    return found


def test_without_noise_the_printed_iteration_is_lloyds() -> None:
    points = point_set(TINY, "synthetic", 3)
    centers = noisy_lloyd(*points.weighted, points.ends, 4, 1.0, 0.0, seed=1)
    best = objective(points, cluster(*points.weighted, 4, seed=0).centers)
    assert best <= objective(points, centers) * (1 + 1e-9) < 3 * best


def test_more_noise_makes_worse_centres() -> None:
    points = point_set(TINY, "synthetic", 3)
    loud, soft = (
        np.mean([objective(points, noisy_lloyd(*points.weighted, points.ends, 4, eps, 8.0, seed=s)) for s in range(10)])
        for eps in (0.05, 50.0)
    )
    assert loud > 2 * soft


def test_printed_sensitivities_are_those_of_lemma_6_1() -> None:
    points = point_set(TINY, "skin01")
    assert printed_sensitivity(points, "full", "") == 2 * 3 * 255
    assert printed_sensitivity(points, "theta", "32") == 64
    assert printed_sensitivity(points, "attribute", "") == 2 * 255
    assert printed_sensitivity(points, "partition", "5") == 2 * 3 * 51


def test_our_release_costs_exactly_epsilon_under_every_policy() -> None:
    points = point_set(TINY, "skin01")
    for kind, value in (("full", ""), ("theta", "32"), ("attribute", "")):
        assert prepared(points, policy_of(points, kind, value), "0.5").epsilon == pytest.approx(0.5)
    assert prepared(points, policy_of(points, "cells", ""), "0.5").epsilon == 0


K_MEANS = [one for one in EXPERIMENTS if one.name.startswith("blowfish-figure-1")]


@pytest.mark.parametrize("experiment", K_MEANS, ids=lambda one: one.name)
def test_tiny_runs_end_with_a_verdict(experiment: Experiment) -> None:
    assert tiny_result(experiment.procedure()).pictures


@pytest.mark.parametrize(
    ("laplace", "full", "theta", "holds"), [(80, 4, 1.5, "yes"), (10, 1.5, 1.2, "partly"), (2, 6, 6, "no")]
)
def test_thresholds_are_judged_by_the_sound_mechanism(laplace: float, full: float, theta: float, holds: str) -> None:
    rows = [row("synthetic", "full graph", 0.1, laplace, full), row("synthetic", "θ = 1", 0.1, 1.0, theta)]
    assert kmeans.thresholds_judge(rows).holds == holds


@pytest.mark.parametrize(
    ("ours", "holds"), [((2.0, 1.5, 1.2), "yes"), ((1.0, 1.0, 1.0), "partly"), ((0.9, 0.9, 9.0), "no")]
)
def test_sizes_are_judged_by_gain_and_order(ours: tuple[float, float, float], holds: str) -> None:
    rows = []
    for data, theta in zip(("skin", "skin10", "skin01"), ours, strict=True):
        full = 0.8 if holds == "no" else 2.5 if holds == "yes" else 1.0
        printed = {"skin": 3.0, "skin10": 4.0, "skin01": 5.0}[data]
        rows += [row(data, "full graph", 0.1, printed, full), row(data, "θ = 128", 0.1, 1.0, theta)]
    assert kmeans.sizes_judge(kmeans.gains_of(rows)).holds == holds


@pytest.mark.parametrize(
    ("printed", "ours", "large", "holds"), [(10, 10, 1.0, "yes"), (3, 1, 1.1, "partly"), (1, 1, 3.0, "no")]
)
def test_attributes_are_judged_by_small_and_large_sets(printed: float, ours: float, large: float, holds: str) -> None:
    rows = [row("synthetic", "full graph", 0.1, printed, ours), row("synthetic", "one attribute at a time", 0.1, 1, 1)]
    rows += [row("tweets (stand-in)", "full graph", 0.1, large, large)]
    rows += [row("tweets (stand-in)", "one attribute at a time", 0.1, 1.0, 1.0)]
    assert kmeans.attributes_judge(rows).holds == holds


@pytest.mark.parametrize(
    ("block", "cell", "holds"), [(1.1, 1.0, "yes"), (1.3, 1.0, "partly"), (1.9, 1.0, "partly"), (1.9, 1.3, "no")]
)
def test_partitions_are_judged_against_the_laplace_mechanism(block: float, cell: float, holds: str) -> None:
    rows = [row("tweets", "full graph", 1, 1.5, 1.2), row("tweets", "4 blocks", 1, 1.4, block)]
    rows += [row("tweets", "each cell by itself", 1, 1.2, cell)]
    assert kmeans.partitions_judge(rows).holds == holds
