from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.strategy import chosen_rows, column_energies, squared
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Kronecker, Prefix, Rectangles, Sparse, Stacked, marginals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Problem
from tests.effort import effort
from tests.mechanisms.axis_problems import axis_problems
from tests.mechanisms.linear_checks import check_direct, check_linear, check_terms


def line(cells: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(cells) + 1, cells - 1), np.array([], dtype=np.int64))


@effort(120)
@given(axis_problems(), st.integers(0, 2**32))
def test_linear_algebra_on_one_axis(problem, seed):
    strategy = identity.propose(problem)
    coefficients = check_linear(strategy, problem, np.random.default_rng(seed))
    check_direct(strategy, coefficients)
    check_terms(strategy, coefficients)


def test_two_axes_and_products():
    graph = CellGraph((line(3), line(4)), "record", np.array(False), "public")
    boxes = Rectangles((3, 4), np.array([[0, 0], [1, 2]]), np.array([[2, 4], [3, 3]]))
    signed = Kronecker((Sparse(csr_array([[1, -1, 2]])), Prefix(4)))
    for workload in (boxes, signed, marginals((3, 4), [(0,), (1,)]), Stacked((boxes, signed))):
        problem = Problem(graph, workload)
        strategy = identity.propose(problem)
        check_terms(strategy, check_linear(strategy, problem, np.random.default_rng(1)))


def test_moving_a_record_between_cells_costs_two():
    problem = Problem(CellGraph((line(5),), "record", np.array(False), "public"), Identity(5))
    plan = identity.propose(problem).plan(Fraction(4))
    assert certify(plan, problem.graph).epsilon == Fraction(2, 4)


def test_cells_without_edges_are_exact_and_free():
    reach = np.array([0, 2, 2, 3])
    graph = CellGraph((WindowGraph(reach, np.array([], dtype=np.int64)),), "record", np.array(False), "public")
    strategy = identity.propose(Problem(graph, Identity(4)))
    assert strategy.roots.tolist() == [0, 3]
    assert strategy.direct.tolist() == [-1, 0, 1, -1]
    joined = CellGraph(graph.factors, "record", np.array([True, False, False, False]), "public")
    assert identity.propose(Problem(joined, Identity(4))).roots.tolist() == [3]
    public = CellGraph((WindowGraph(np.arange(4), np.array([], dtype=np.int64)),), "record", np.array(False), "public")
    plan = identity.propose(Problem(public, Identity(4))).plan(Fraction(1))
    assert plan.parts == () and certify(plan, public).epsilon == 0


def test_entries_of_all_ranges_are_read_without_listing_them():
    ranges = AllRanges(7)
    np.testing.assert_array_equal(column_energies(ranges), ranges.dense().sum(axis=0))
    np.testing.assert_array_equal(chosen_rows(ranges, np.arange(28)), ranges.dense())
    assert column_energies(AllRanges(10**6)).shape == (10**6,)
    matrix = Sparse(csr_array(np.array([[2, -3], [0, 1]])))
    np.testing.assert_array_equal(squared(matrix).dense(), matrix.dense() ** 2)
