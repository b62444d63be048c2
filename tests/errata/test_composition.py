"""Demonstration paper: attribute composition is not DP, bins are joined as sets, a filter has an outside cell."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from scipy.sparse import csr_array

from blowfishdb.errors import InfiniteLoss
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import categorical, domain, integers
from blowfishdb.model.graphs import ZERO, CellGraph, WindowGraph
from blowfishdb.model.policy import Policy, full, line, public, threshold
from blowfishdb.model.predicate import col
from blowfishdb.model.workload import Identity, Prefix, Sparse, marginals, total
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan

NO_UNIVERSAL = np.array([], dtype=np.int64)
ONES = np.array(1, dtype=np.int64)


def windows(cells: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), NO_UNIVERSAL)


def full_graphs(attributes: int, values: int, composition: Literal["record", "attribute"]) -> CellGraph:
    axes = tuple(windows(values, values) for _ in range(attributes))
    return CellGraph(axes, composition, np.zeros(values**attributes, dtype=np.bool_), "public")


@pytest.mark.parametrize("attributes", [1, 2, 3, 4])
def test_full_graphs_composed_by_attribute_leave_the_record_d_times_the_loss(attributes: int) -> None:
    shape = (2,) * attributes
    plan = Plan(Fraction(2), (Measurement(marginals(shape, [(j,) for j in range(attributes)]), ONES),))
    assert certify(plan, full_graphs(attributes, 2, "attribute")).epsilon == 1
    assert certify(plan, full_graphs(attributes, 2, "record")).epsilon == attributes


def test_record_composition_of_full_graphs_is_the_complete_graph() -> None:
    pairs = {(int(u), int(v)) for u, v in full_graphs(2, 3, "record").value_edges()}
    assert pairs == set(itertools.combinations(range(9), 2))


def test_bins_joined_by_their_centres_forget_the_move_across_the_border() -> None:
    theta, bins = 5, [(0, 9), (10, 19)]
    centres = [Fraction(low + high, 2) for low, high in bins]
    assert abs(centres[0] - centres[1]) > theta
    by_centres = CellGraph((windows(2, 0),), "record", np.zeros(2, dtype=np.bool_), "public")
    histogram = Plan(Fraction(1), (), exact=Identity(2))
    assert certify(histogram, by_centres).epsilon == 0
    table = domain({"age": integers(0, 19, null=0)})
    as_sets = compile_cells(table, Policy({"age": threshold(theta)}), [col("age").bins(10)]).graph
    with pytest.raises(InfiniteLoss):
        certify(histogram, as_sets)
    assert certify(Plan(Fraction(2), (Measurement(Identity(2), ONES),)), as_sets).epsilon == 1


def test_projection_joins_every_pair_of_bins_that_some_pair_of_values_joins() -> None:
    edges = [0, 1, 4, 5, 11, 13, 20]
    owner = np.searchsorted(np.array(edges), np.arange(20), side="right") - 1
    table = domain({"age": integers(0, 19, null=0)})
    for theta in (1, 2, 3, 7):
        projected = compile_cells(table, Policy({"age": threshold(theta)}), [col("age").bins(edges=edges)]).graph
        wanted = {
            (int(owner[u]), int(owner[v]))
            for u in range(20)
            for v in range(u + 1, min(20, u + theta + 1))
            if owner[u] != owner[v]
        }
        assert {(int(u), int(v)) for u, v in projected.value_edges()} == wanted


STATES = categorical(["NC", "VA", "MD"], null_public=True, outside_public=True)
PEOPLE = domain({"age": integers(0, 4, null=0), "state": STATES})


def test_a_filter_without_its_outside_cell_would_publish_a_secret_count_exactly() -> None:
    count = Plan(Fraction(1), (), exact=total(1))
    forgotten = CellGraph((windows(1, 0),), "record", np.zeros(1, dtype=np.bool_), "public")
    assert certify(count, forgotten).epsilon == 0
    real = compile_cells(PEOPLE, Policy({"age": line(), "state": full()}), where=col("state") == "NC").graph
    with pytest.raises(InfiniteLoss):
        certify(count, real)
    assert certify(Plan(Fraction(1), (Measurement(total(1), ONES),)), real).epsilon == 1


def test_a_filter_on_a_secret_attribute_makes_every_prefix_change_at_once() -> None:
    ordered = Plan(Fraction(1), (Measurement(Prefix(5), ONES),))
    secret = compile_cells(PEOPLE, Policy({"age": line(), "state": full()}), ["age"], col("state") == "NC").graph
    harmless = compile_cells(PEOPLE, Policy({"age": line(), "state": public()}), ["age"], col("state") == "NC").graph
    certificate = certify(ordered, secret)
    assert (certificate.epsilon, certificate.witness) == (5, (0, ZERO))
    assert certify(ordered, harmless).epsilon == 1


def test_secret_presence_joins_the_composed_graph_and_makes_prefixes_dear() -> None:
    ordered = Plan(Fraction(1), (Measurement(Prefix(5), ONES),))
    inside = np.zeros(5, dtype=np.bool_)
    assert certify(ordered, CellGraph((windows(5, 1),), "record", inside, "public")).epsilon == 1
    assert certify(ordered, CellGraph((windows(5, 1),), "record", inside, "secret")).epsilon == 5
    histogram = Plan(Fraction(1), (Measurement(Identity(5), ONES),))
    assert certify(histogram, CellGraph((windows(5, 1),), "record", inside, "secret")).epsilon == 2
    assert certify(histogram, CellGraph((windows(5, 1),), "record", inside, "only")).epsilon == 1


def test_k_rows_per_person_multiply_the_loss() -> None:
    ordered = Plan(Fraction(1), (Measurement(Prefix(5), ONES),))
    graph = CellGraph((windows(5, 1),), "record", np.zeros(5, dtype=np.bool_), "public", rows_per_person=3)
    assert certify(ordered, graph).epsilon == 3


def test_truncating_after_the_filter_turns_one_step_into_a_jump() -> None:
    """One person with two rows, at most one kept; values 0..6 on a line, the filter keeps 1..6, the sum is asked."""
    before, after = [0, 6], [1, 6]
    table = domain({"v": integers(0, 6, null=0)})
    graph = compile_cells(table, Policy({"v": line()}), ["v"], col("v") >= 1).graph
    row = [list(range(7 - graph.cells, 7))]
    sum_of_values = Plan(Fraction(1), (Measurement(Sparse(csr_array(np.array(row))), ONES),))
    certified = certify(sum_of_values, graph).epsilon

    def filter_first(rows: list[int]) -> int:
        return sum([value for value in rows if value >= 1][:1])

    def truncate_first(rows: list[int]) -> int:
        return sum(value for value in rows[:1] if value >= 1)

    assert certified == 1
    assert abs(truncate_first(before) - truncate_first(after)) == 1
    assert abs(filter_first(before) - filter_first(after)) == 5
