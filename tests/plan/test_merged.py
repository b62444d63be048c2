"""Plans over buckets lose exactly as much on the merged graph as their expansion does on the cells."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.errors import PlanError
from blowfishdb.model.graphs import CellGraph, EdgeGraph, WindowGraph
from blowfishdb.model.workload import Sparse
from blowfishdb.plan import program
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import bucket_count, merge_counts, merge_graph
from tests.effort import effort

NO_UNIVERSAL = np.empty(0, dtype=np.int64)


@st.composite
def merging(draw: st.DrawFn) -> tuple[CellGraph, np.ndarray, np.ndarray]:
    """A small graph, buckets of its cells, and whole-number rows over the buckets."""
    size = draw(st.integers(2, 7))
    if draw(st.booleans()):
        reach = np.maximum.accumulate([draw(st.integers(cell, size - 1)) for cell in range(size)])
        factor: WindowGraph | EdgeGraph = WindowGraph(reach, NO_UNIVERSAL)
    else:
        pairs = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=8))
        factor = EdgeGraph(size, np.array([p for p in pairs if p[0] != p[1]], dtype=np.int64).reshape(-1, 2))
    outside = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    presence = draw(st.sampled_from(["public", "secret", "only"]))
    graph = CellGraph((factor,), "record", outside, presence, draw(st.integers(1, 2)))
    if draw(st.booleans()):
        labels = np.concatenate(
            [[0], np.cumsum(draw(st.lists(st.integers(0, 1), min_size=size - 1, max_size=size - 1)))]
        )
    else:
        labels = np.array(draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size)))
    buckets = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    rows = draw(st.integers(1, 3))
    count = int(buckets.max()) + 1
    entries = draw(st.lists(st.integers(-3, 3), min_size=rows * count, max_size=rows * count))
    return graph, buckets, np.array(entries, dtype=np.int64).reshape(rows, count)


def plan(rows: np.ndarray) -> Plan:
    return Plan(Fraction(1), (Measurement(Sparse(csr_array(rows)), np.array(1)),))


@effort(40)
@given(merging())
def test_the_loss_on_buckets_is_the_loss_on_cells(case: tuple[CellGraph, np.ndarray, np.ndarray]) -> None:
    graph, buckets, rows = case
    assert certify(plan(rows), merge_graph(graph, buckets)).epsilon == certify(plan(rows[:, buckets]), graph).epsilon


@given(merging(), st.lists(st.integers(0, 9), min_size=7, max_size=7))
def test_counts_of_buckets_are_sums_of_cells(case: tuple[CellGraph, np.ndarray, np.ndarray], counts: list[int]) -> None:
    graph, buckets, _ = case
    own = np.array(counts[: graph.cells], dtype=np.int64)
    expected = [int(own[buckets == bucket].sum()) for bucket in range(int(buckets.max()) + 1)]
    assert merge_counts(own, buckets).tolist() == expected


def test_buckets_out_of_order_on_a_line_are_joined_as_their_cells_are() -> None:
    graph = CellGraph((WindowGraph(np.array([1, 2, 3, 3]), NO_UNIVERSAL),), "record", np.array(False), "public")
    assert merge_graph(graph, np.array([0, 1, 0, 2])).value_edges().tolist() == [[0, 1], [0, 2]]
    assert merge_graph(graph, np.array([0, 1, 1, 2])).value_edges().tolist() == [[0, 1], [1, 2]]


def test_a_graph_with_too_many_edges_joins_every_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LISTED_EDGES", 1)
    chain = EdgeGraph(4, np.array([[0, 1], [1, 2], [2, 3]]))
    graph = CellGraph((chain,), "record", np.array(False), "public")
    assert merge_graph(graph, np.array([0, 1, 2, 2])).value_edges().tolist() == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize("buckets", [[0, 1], [0, 2, 2], [-1, 0, 1], [0, 0, 5]])
def test_bad_buckets_are_refused(buckets: list[int]) -> None:
    with pytest.raises(PlanError):
        bucket_count(3, np.array(buckets))


@given(
    st.sampled_from(["record", "attribute"]), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 99)
)
def test_buckets_of_a_grid_are_joined_as_their_cells_are(
    composition: Literal["record", "attribute"], rows: int, columns: int, complete: bool, seed: int
) -> None:
    reach = np.full(columns, columns - 1) if complete else np.arange(columns)
    factors = WindowGraph(np.full(rows, rows - 1), NO_UNIVERSAL), WindowGraph(reach, NO_UNIVERSAL)
    graph = CellGraph(factors, composition, np.array(False), "public")
    labels = np.random.default_rng(seed).integers(0, 4, rows * columns)
    buckets = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    found = {tuple(edge) for edge in merge_graph(graph, buckets).value_edges().tolist()}
    pairs = np.sort(buckets[graph.value_edges()], axis=1).tolist()
    assert found == {tuple(pair) for pair in pairs if pair[0] != pair[1]}
