"""Graphs on cells against their definitions, pair by pair, and the neighbours of masks."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.graphs import (
    ZERO,
    AxisGraph,
    CellGraph,
    CliqueGraph,
    ConstraintMoves,
    EdgeGraph,
    Factor,
    GridGraph,
    WindowGraph,
    factor_shape,
)
from blowfishdb.model.numbers import Bools
from blowfishdb.model.projection import dilate
from tests.effort import effort

Pairs = set[tuple[int, int]]
NONE = np.empty(0, dtype=np.int64)


@st.composite
def windows(draw: st.DrawFn, most: int = 7) -> WindowGraph:
    plain, universal = draw(st.integers(0, most)), draw(st.integers(0, 2))
    if plain + universal == 0:
        plain = 1
    steps = draw(st.lists(st.integers(0, plain - 1), min_size=plain, max_size=plain)) if plain else []
    reach = np.maximum.accumulate(np.maximum(np.array(steps, dtype=np.int64), np.arange(plain)))
    return WindowGraph(
        np.concatenate([reach, np.arange(plain, plain + universal)]), np.arange(plain, plain + universal)
    )


@st.composite
def listed(draw: st.DrawFn, most: int = 7) -> EdgeGraph:
    size = draw(st.integers(1, most))
    ends = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=10))
    return EdgeGraph(size, np.array(pairs, dtype=np.int64).reshape(-1, 2))


def cliques(most: int = 7) -> st.SearchStrategy[CliqueGraph]:
    return st.lists(st.integers(0, 3), min_size=1, max_size=most).map(lambda labels: CliqueGraph(np.array(labels)))


def axis_graphs(most: int = 7) -> st.SearchStrategy[AxisGraph]:
    return st.one_of(windows(most), listed(most), cliques(most))


@st.composite
def grids(draw: st.DrawFn, most: int = 4) -> GridGraph:
    lows, highs, universal = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        plain, special = draw(st.integers(1, most)), draw(st.integers(0, 1))
        edges = np.cumsum(draw(st.lists(st.integers(1, 3), min_size=2 * plain, max_size=2 * plain)))
        lows.append(np.concatenate([edges[0::2], np.zeros(special, dtype=np.int64)]))
        highs.append(np.concatenate([edges[1::2], np.zeros(special, dtype=np.int64)]))
        universal.append(np.arange(plain, plain + special))
    metric = draw(st.sampled_from(["l1", "l2", "linf"]))
    return GridGraph(tuple(lows), tuple(highs), draw(st.integers(0, 6)), metric, tuple(universal))


def defined(graph: AxisGraph, u: int, v: int) -> bool:
    """Whether the definition joins two different cells."""
    if isinstance(graph, WindowGraph):
        return u in graph.universal or v in graph.universal or max(u, v) <= graph.reach[min(u, v)]
    if isinstance(graph, CliqueGraph):
        return bool(graph.labels[u] == graph.labels[v])
    assert isinstance(graph, EdgeGraph)
    return [min(u, v), max(u, v)] in graph.pairs.tolist()


def grid_defined(graph: GridGraph, u: int, v: int) -> bool:
    gaps = []
    for axis, (a, b) in enumerate(zip(np.unravel_index(u, graph.shape), np.unravel_index(v, graph.shape), strict=True)):
        low, high, universal = graph.lows[axis], graph.highs[axis], graph.universal[axis]
        apart = (
            0 if a == b or a in universal or b in universal else max(0, int(low[a] - high[b]), int(low[b] - high[a]))
        )
        gaps.append(apart)
    size = {"l1": sum(gaps), "linf": max(gaps), "l2": sum(g * g for g in gaps)}[graph.metric]
    return size <= (graph.theta**2 if graph.metric == "l2" else graph.theta)


def distances(size: int, pairs: Pairs, start: int) -> dict[int, int]:
    near: dict[int, set[int]] = {u: set() for u in range(-1, size)}
    for u, v in pairs:
        near[u].add(v)
        near[v].add(u)
    found, waiting = {start: 0}, deque([start])
    while waiting:
        u = waiting.popleft()
        for v in near[u] - set(found):
            found[v] = found[u] + 1
            waiting.append(v)
    return found


def as_pairs(edges: np.ndarray) -> Pairs:
    return {(int(u), int(v)) for u, v in edges}


@effort(60)
@given(axis_graphs())
def test_axis_graphs_follow_their_definition(graph: AxisGraph) -> None:
    wanted = {(u, v) for u, v in itertools.combinations(range(graph.size), 2) if defined(graph, u, v)}
    edges = graph.edges()
    assert as_pairs(edges) == wanted
    assert edges.tolist() == sorted(edges.tolist())
    assert graph.edge_count == len(wanted) == len(edges)
    first, second = (grid.reshape(-1) for grid in np.indices((graph.size, graph.size)))
    joined = graph.joined(first, second)
    assert all(
        bool(j) == (u == v or (min(u, v), max(u, v)) in wanted) for u, v, j in zip(first, second, joined, strict=True)
    )
    labels = graph.components()
    assert [int(label) for label in dict.fromkeys(labels.tolist())] == list(range(int(labels.max()) + 1))
    for u in range(graph.size):
        reached = distances(graph.size, wanted, u)
        for v in range(graph.size):
            assert graph.distance(u, v) == reached.get(v)
            assert (labels[u] == labels[v]) == (v in reached)


@effort(45)
@given(grids())
def test_joint_grids_follow_their_definition(graph: GridGraph) -> None:
    wanted = {(u, v) for u, v in itertools.combinations(range(graph.size), 2) if grid_defined(graph, u, v)}
    edges = graph.edges()
    assert as_pairs(edges) == wanted
    assert edges.tolist() == sorted(edges.tolist())
    assert len(wanted) <= graph.edge_count_bound
    first, second = (index.reshape(-1) for index in np.indices((graph.size, graph.size)))
    joined = graph.joined(first, second)
    assert all(
        bool(j) == (u == v or (min(u, v), max(u, v)) in wanted) for u, v, j in zip(first, second, joined, strict=True)
    )
    labels = graph.components()
    for u in range(graph.size):
        reached = distances(graph.size, wanted, u)
        assert all((labels[u] == labels[v]) == (v in reached) for v in range(graph.size))


@effort(45)
@given(st.data())
def test_products_follow_their_definition(data: st.DataObject) -> None:
    factors = tuple(
        data.draw(st.lists(axis_graphs(4) | grids(2).filter(lambda g: g.size <= 6), min_size=1, max_size=2))
    )
    size = int(np.prod([np.prod(factor_shape(f)) for f in factors]))
    outside = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    composition = data.draw(st.sampled_from(["record", "attribute"]))
    presence = data.draw(st.sampled_from(["public", "secret", "only"]))
    graph = CellGraph(factors, composition, np.array(outside), presence)
    sizes = [factor.size for factor in factors]
    wanted: Pairs = set()
    for u, v in itertools.combinations(range(size), 2):
        ends = list(zip(np.unravel_index(u, sizes), np.unravel_index(v, sizes), strict=True))
        moved = [
            (grid_defined(f, a, b) if isinstance(f, GridGraph) else defined(f, a, b))
            for f, (a, b) in zip(factors, ends, strict=True)
            if a != b
        ]
        if all(moved) and (composition == "record" or len(moved) == 1) and presence != "only":
            wanted.add((u, v))
    assert as_pairs(graph.value_edges()) == wanted
    assert len(wanted) <= graph.value_edge_bound
    to_zero = {u for u in range(size) if presence != "public" or outside[u]}
    assert as_pairs(graph.edges()) == wanted | {(u, ZERO) for u in to_zero}
    labels = graph.components()
    everything = wanted | {(u, ZERO) for u in to_zero}
    for u in range(size):
        reached = distances(size, everything, u)
        assert (labels[u] == ZERO) == (ZERO in reached)
        assert all((labels[u] == labels[v]) == (v in reached) for v in range(size))


@pytest.mark.parametrize(
    ("reach", "universal"),
    [
        ([], []),
        ([0, 0], []),
        ([1, 2], []),
        ([2, 1, 2], []),
        ([1, 1], [1]),
        ([0, 1], [1, 0]),
        ([0, 1], [2]),
        ([1, 1, 2], [0]),
    ],
)
def test_windows_that_contradict_themselves_are_refused(reach: list[int], universal: list[int]) -> None:
    with pytest.raises(PolicyError):
        WindowGraph(np.array(reach, dtype=np.int64), np.array(universal, dtype=np.int64))


def test_bad_listed_graphs_and_grids_are_refused() -> None:
    with pytest.raises(PolicyError):
        EdgeGraph(2, np.array([[0, 2]]))
    with pytest.raises(TooLarge):
        EdgeGraph(10**9, np.empty((0, 2), dtype=np.int64))
    with pytest.raises(PolicyError):
        CliqueGraph(NONE)
    with pytest.raises(PolicyError):
        GridGraph((np.array([1]),), (np.array([0]),), 1, "l1", (NONE,))
    with pytest.raises(PolicyError):
        GridGraph((np.array([0]),), (np.array([0]),), -1, "l1", (NONE,))
    with pytest.raises(TooLarge):
        GridGraph((np.array([0, 2**40]),), (np.array([0, 2**40]),), 1, "l2", (NONE,))
    with pytest.raises(PolicyError):
        GridGraph((np.array([3, 0]),), (np.array([3, 0]),), 1, "l1", (NONE,)).edges()


def test_bad_cell_graphs_are_refused() -> None:
    one = WindowGraph(np.array([0]), NONE)
    with pytest.raises(PolicyError):
        CellGraph((), "record", np.array(False), "public")
    with pytest.raises(PolicyError):
        CellGraph((one,), "both", np.array(False), "public")  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        CellGraph((one,), "record", np.array(False), "hidden")  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        CellGraph((one,), "record", np.array(False), "public", rows_per_person=0)


def test_a_digest_tells_graphs_apart() -> None:
    line = WindowGraph(np.array([1, 2, 2]), NONE)
    graphs = [
        CellGraph((line,), "record", np.array(False), "public"),
        CellGraph((line,), "attribute", np.array(False), "public"),
        CellGraph((line,), "record", np.array([True, False, False]), "public"),
        CellGraph((line,), "record", np.array(False), "secret"),
        CellGraph((line,), "record", np.array(False), "public", rows_per_person=2),
        CellGraph((WindowGraph(np.array([2, 2, 2]), NONE),), "record", np.array(False), "public"),
    ]
    assert len({graph.digest() for graph in graphs}) == len(graphs)


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
