"""Policies over several axes, and what every strategy over them must satisfy, checked against dense algebra."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from blowfishdb.model.graphs import CellGraph, CliqueGraph, EdgeGraph, GridGraph, WindowGraph
from blowfishdb.model.workload import Identity, Kronecker, Prefix, Rectangles, Stacked, all_marginals, marginals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate, certify
from blowfishdb.plan.plan import KroneckerMeasurement, Plan, Problem

NONE = np.array([], dtype=np.int64)


def window(cells: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NONE)


def grid(shape: tuple[int, ...], theta: int = 1, metric: str = "l1") -> GridGraph:
    places = tuple(np.arange(size) for size in shape)
    return GridGraph(places, places, theta, metric, (NONE,) * len(shape))


def policy(factors, composition="record", presence="public", outside=False) -> CellGraph:
    return CellGraph(tuple(factors), composition, np.array([outside]), presence)


def random_boxes(shape: tuple[int, ...], count: int, seed: int) -> Rectangles:
    corners = np.random.default_rng(seed).integers(0, np.array(shape) + 1, size=(2, count, len(shape)))
    return Rectangles(shape, corners.min(axis=0), corners.max(axis=0))


@st.composite
def axis_graphs(draw: st.DrawFn, cells: int):
    kind = draw(st.sampled_from(["window", "window", "cliques", "edges"]))
    if kind == "window":
        return window(cells, draw(st.integers(0, cells)))
    if kind == "cliques":
        return CliqueGraph(np.array(draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells))))
    ends = st.tuples(st.integers(0, cells - 1), st.integers(0, cells - 1))
    return EdgeGraph(cells, np.array(draw(st.lists(ends, max_size=6)), dtype=np.int64).reshape(-1, 2))


@st.composite
def product_graphs(draw: st.DrawFn, axes: int, most: int) -> CellGraph:
    shape = tuple(draw(st.integers(1, most)) for _ in range(axes))
    if axes == 2 and draw(st.booleans()):
        factors = [grid(shape, draw(st.integers(0, 3)), draw(st.sampled_from(["l1", "l2", "linf"])))]
    else:
        factors = [draw(axis_graphs(size)) for size in shape]
    presence = draw(st.sampled_from(["public", "public", "secret", "only"]))
    return policy(factors, draw(st.sampled_from(["record", "attribute"])), presence, draw(st.booleans()))


@st.composite
def product_problems(draw: st.DrawFn, axes: int = 2, most: int = 4) -> Problem:
    graph = draw(product_graphs(axes, most))
    shape = graph.shape
    workload = draw(
        st.sampled_from(
            [
                Identity(graph.cells),
                random_boxes(shape, 5, 1),
                Kronecker(tuple(Prefix(size) for size in shape)),
                all_marginals(shape, 1),
                Stacked((random_boxes(shape, 3, 2), marginals(shape, [tuple(range(axes)), ()]))),
            ]
        )
    )
    return Problem(graph, workload)


def dense_rows(plan: Plan) -> np.ndarray:
    parts = [np.zeros((0, plan.cells), dtype=np.int64)]
    for part in plan.parts:
        factors = part.factors if isinstance(part, KroneckerMeasurement) else (part,)
        rows = np.ones((1, 1), dtype=np.int64)
        for factor in factors:
            rows = np.kron(rows, factor.rows.dense())
        parts.append(rows)
    return np.concatenate(parts)


def brute_loss(plan: Plan, graph: CellGraph) -> int:
    """The greatest loss over the listed edges at unit 1; the vertex no row counts is the last column."""
    rows = np.concatenate([dense_rows(plan), np.zeros((len(plan.weights), 1), dtype=np.int64)], axis=1)
    edges = graph.edges()
    return int((plan.weights @ np.abs(rows[:, edges[:, 0]] - rows[:, edges[:, 1]])).max(initial=0))


def check_cells_strategy(strategy, problem: Problem, seed: int) -> None:
    """Unbiased, linear, variances as claimed even for little noise, certificate equal to brute force."""
    unit = Fraction(int(strategy.plan(Fraction(1)).weights.max()), 2)
    plan = strategy.plan(unit)
    rows, workload = dense_rows(plan), problem.workload.dense()
    exact = plan.exact.dense() if plan.exact is not None else np.zeros((0, plan.cells), dtype=np.int64)
    variances = variance(float(unit) / plan.weights)
    table = np.random.default_rng(seed).integers(0, 50, (plan.cells, 3)).astype(float)
    answers = strategy.decode(rows @ table, exact @ table, variances)
    np.testing.assert_allclose(answers, workload @ table, atol=1e-7)
    np.testing.assert_allclose(strategy.decode(rows @ table[:, 0], exact @ table[:, 0], variances), answers[:, 0])
    cells = strategy.estimate_cells(rows @ table, exact @ table, variances)
    np.testing.assert_allclose(workload @ cells, answers, atol=1e-7)
    decoder = strategy.decode(np.eye(len(rows)), np.zeros((len(exact), len(rows))), variances)
    np.testing.assert_allclose(strategy.coefficients(np.arange(len(workload)), variances), decoder, atol=1e-9)
    expected = decoder**2 @ variances
    np.testing.assert_allclose(strategy.answer_variances(variances), expected, atol=1e-7, rtol=1e-7)
    np.testing.assert_allclose(strategy.total_variance(variances), expected.sum(), atol=1e-6)
    certificate = certify(plan, problem.graph)
    assert certificate.epsilon == Fraction(brute_loss(plan, problem.graph)) / unit


def rmse(strategy, problem: Problem) -> float:
    """The predicted error at epsilon 1."""
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    spread = strategy.total_variance(variance(float(plan.unit) / plan.weights))
    return float(np.sqrt(spread / problem.workload.shape[0]))


def discrete_laplace(rng: np.random.Generator, scales: np.ndarray, samples: int) -> np.ndarray:
    stop = -np.expm1(-1 / scales)[:, None]
    size = (scales.size, samples)
    return (rng.geometric(stop, size) - rng.geometric(stop, size)).astype(float)


def check_prediction(strategy, problem: Problem, epsilon: Fraction, seed: int) -> None:
    """Simulated errors are as large as predicted, also where noise is far from continuous; 10 % off would be seen."""
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, epsilon)
    scales = float(plan.unit) / plan.weights
    noise = discrete_laplace(np.random.default_rng(seed), scales, 6000)
    known = plan.exact if isinstance(plan, Plan) else None
    exact = np.zeros((0 if known is None else known.shape[0], 6000))
    errors = strategy.decode(noise, exact, variance(scales))
    predicted = strategy.answer_variances(variance(scales))
    check_mean_squares(errors, predicted)
    for wrong in (predicted * 1.21, predicted / 1.21):
        with pytest.raises(AssertionError):
            check_mean_squares(errors, wrong)


def check_mean_squares(errors: np.ndarray, predicted: np.ndarray) -> None:
    """Mean squares over samples agree with the prediction."""
    seen = (errors**2).mean(axis=1)
    np.testing.assert_allclose(seen.sum(), predicted.sum(), rtol=0.06)
    np.testing.assert_allclose(seen, predicted, rtol=0.25, atol=1e-9)
