"""Problems on one axis and a dense oracle, shared by the tests of the one-dimensional mechanisms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy.linalg import null_space

from blowfishdb.mechanisms.axis import EstimatingStrategy
from blowfishdb.model.graphs import CellGraph, Presence, WindowGraph
from blowfishdb.model.numbers import Floats
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Rows, Sparse, Stacked
from blowfishdb.plan.certificate import Certificate, calibrate, certify
from blowfishdb.plan.plan import Plan, Problem
from tests.plan.reference import reference_loss


def threshold(cells: int, theta: int, presence: Presence = "public", workload: Rows | None = None) -> Problem:
    """All ranges, or another workload, where values up to theta apart are hidden from each other."""
    reach = np.minimum(np.arange(cells) + theta, cells - 1)
    return axis_problem(reach, np.empty(0, dtype=np.int64), np.zeros(cells, dtype=np.bool_), presence, workload)


def axis_problem(reach, universal, outside, presence: Presence, workload: Rows | None = None) -> Problem:
    graph = CellGraph((WindowGraph(reach, universal),), "record", outside, presence)
    return Problem(graph, workload or AllRanges(graph.cells))


@st.composite
def problems(draw: st.DrawFn, most: int = 24) -> Problem:
    """Irregular windows, universal vertices, cells to leave from, every presence and workload; never without edges."""
    cells = draw(st.integers(1, most))
    steps = draw(st.lists(st.integers(0, 4), min_size=cells, max_size=cells))
    universal_vertex = draw(st.sampled_from(["none", "last", "middle"])) if cells > 2 else "none"
    universal = {"none": [], "last": [cells - 1], "middle": [cells // 2]}[universal_vertex]
    reach = np.maximum.accumulate(np.minimum(np.arange(cells) + np.array(steps), cells - 1))
    for place in universal:
        reach[:place] = np.minimum(reach[:place], place - 1)
        reach[place] = place
    outside = np.zeros(cells, dtype=np.bool_)
    if draw(st.booleans()):
        outside[draw(st.integers(0, cells - 1)) :] = True
    presence = draw(st.sampled_from(["public", "public", "secret", "only"]))
    problem = axis_problem(reach, np.array(universal, dtype=np.int64), outside, presence, draw(workloads(cells)))
    assume(problem.graph.edges().size > 0)
    return problem


@st.composite
def workloads(draw: st.DrawFn, cells: int) -> Rows:
    kind = draw(st.sampled_from(["identity", "prefix", "all ranges", "intervals", "sparse", "stacked"]))
    bounds = draw(st.lists(st.tuples(st.integers(0, cells), st.integers(0, cells)), min_size=1, max_size=8))
    pairs = np.sort(np.array(bounds), axis=1)
    given = Intervals(cells, pairs[:, 0], pairs[:, 1])
    entries = draw(st.lists(st.integers(-3, 3), min_size=3 * cells, max_size=3 * cells))
    sparse = Sparse(np.array(entries).reshape(3, cells))
    return {
        "identity": Identity(cells),
        "prefix": Prefix(cells),
        "all ranges": AllRanges(cells),
        "intervals": given,
        "sparse": sparse,
        "stacked": Stacked((Identity(cells), given, sparse)),
    }[kind]


def dense_decoder(strategy: EstimatingStrategy, variances: Floats) -> tuple[Floats, Floats]:
    """The least-squares maps from noisy and exact rows to cells, by whitened rows on the exact rows' null space."""
    plan = strategy.plan(Fraction(1))
    cells = strategy.problem.graph.cells
    noisy = np.concatenate([np.zeros((0, cells)), *(part.rows.dense() for part in plan.parts)])
    exact = np.zeros((0, cells)) if plan.exact is None else plan.exact.dense().astype(np.float64)
    free = null_space(exact) if exact.size else np.eye(cells)
    whitener = 1.0 / np.sqrt(variances)
    noisy_map = free @ np.linalg.pinv(whitener[:, None] * noisy @ free) * whitener
    exact_map = (np.eye(cells) - noisy_map @ noisy) @ np.linalg.pinv(exact)
    return noisy_map, exact_map


def certified_error(strategy: EstimatingStrategy, epsilon: Fraction = Fraction(1)) -> tuple[float, Certificate]:
    """The total expected squared error with continuous Laplace noise at the certified epsilon, and the certificate."""
    plan, certificate = calibrate(strategy.plan(Fraction(1)), strategy.problem.graph, epsilon)
    assert isinstance(plan, Plan)
    return strategy.total_variance(2.0 * (float(plan.unit) / plan.weights) ** 2), certificate


def check_strategy(strategy: EstimatingStrategy) -> None:
    """The certificate is the true loss, exact data comes back exactly, and the predicted error is the dense one."""
    graph, workload = strategy.problem.graph, strategy.problem.workload
    plan = strategy.plan(Fraction(1))
    certificate = certify(plan, graph)
    assert certificate.epsilon == reference_loss(plan, graph)
    assert certify(plan.with_unit(Fraction(1, 2)), graph).epsilon == 2 * certificate.epsilon
    spread = 2.0 * (2.0**24 / plan.weights) ** 2
    counts = (np.arange(graph.cells) * 7) % 5
    measured = np.concatenate([part.rows.dot(counts) for part in plan.parts]).astype(np.float64)
    exact = np.empty(0) if plan.exact is None else plan.exact.dot(counts).astype(np.float64)
    np.testing.assert_allclose(strategy.decode(measured, exact, spread), workload.dot(counts), atol=1e-6)
    decoder = workload.dense() @ dense_decoder(strategy, spread)[0]
    expected = (decoder**2) @ spread
    np.testing.assert_allclose(strategy.answer_variances(spread), expected, atol=1e-6 * max(1.0, expected.max()))
