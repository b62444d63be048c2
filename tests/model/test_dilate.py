"""Dilation reaches every neighbour of a mask on every kind of graph, and nothing else where it is exact."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.model.graphs import CliqueGraph, ConstraintMoves, EdgeGraph, Factor, WindowGraph
from blowfishdb.model.numbers import Bools
from blowfishdb.model.projection import dilate

SIZE = 12


def graphs(rng: np.random.Generator) -> list[Factor]:
    """One of each kind."""
    reach = np.maximum.accumulate(np.minimum(np.arange(SIZE) + rng.integers(0, 4, SIZE), SIZE - 1))
    ends = rng.integers(0, SIZE, (8, 2))
    return [
        WindowGraph(reach, np.empty(0, dtype=np.int64)),
        WindowGraph(np.arange(SIZE), np.array([3, 7])),
        CliqueGraph(rng.integers(0, 5, SIZE)),
        EdgeGraph(SIZE, ends[ends[:, 0] != ends[:, 1]]),
    ]


def by_edges(graph: Factor, mask: Bools) -> Bools:
    found = mask.copy()
    for one, two in graph.edges().tolist():
        found[one] |= mask[two]
        found[two] |= mask[one]
    return found


@given(st.integers(0, 10**6))
def test_it_is_what_the_edges_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((SIZE, 3)) < 0.25
    for graph in graphs(rng):
        assert np.array_equal(dilate(graph, mask), by_edges(graph, mask)), graph


@given(st.integers(0, 10**6))
def test_merged_groups_hold_the_buckets_of_all_their_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.choice(SIZE, rng.integers(1, 6), replace=False) for _ in range(4)]
    starts = np.concatenate([[0], np.cumsum([group.size for group in groups])])
    with_zero = rng.random(4) < 0.5
    whole = ConstraintMoves("atoms", starts, np.concatenate(groups), with_zero, np.arange(1, 5), 3)
    buckets = np.unique(rng.integers(0, 5, SIZE), return_inverse=True)[1]
    merged = whole.merged(buckets)
    found = [set(part.tolist()) for part in np.split(merged.members, merged.starts[1:-1])] if merged.groups else []
    wanted = [
        (set(buckets[group].tolist()), bool(zero), times)
        for group, zero, times in zip(groups, with_zero, range(1, 5), strict=True)
        if len(set(buckets[group].tolist())) + zero >= 2
    ]
    assert list(zip(found, merged.with_zero.tolist(), merged.times.tolist(), strict=True)) == wanted
    assert merged.most == 3


def test_a_block_is_reached_whole() -> None:
    mask = np.zeros((SIZE, 1), dtype=np.bool_)
    mask[0] = True
    found = dilate(CliqueGraph(np.arange(SIZE) % 3), mask)[:, 0]
    assert found.tolist() == [place % 3 == 0 for place in range(SIZE)]
