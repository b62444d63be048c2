"""Random small policies and plans, with the policy written a second time as a plain predicate on pairs of cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from blowfishdb.model.graphs import ZERO, CellGraph, CliqueGraph, EdgeGraph, Factor, GridGraph, WindowGraph
from blowfishdb.model.workload import Identity, Intervals, Prefix, Rows, Sparse, total
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

NONE = np.array([], dtype=np.int64)
Joined = Callable[[tuple[int, ...], tuple[int, ...]], bool]


@dataclass(frozen=True)
class FactorCase:
    """A factor and, independently, which of its cells it joins."""

    factor: Factor
    shape: tuple[int, ...]
    joined: Joined


@dataclass(frozen=True)
class GraphCase:
    """A cell graph and the list of its edges made from the definition alone."""

    graph: CellGraph
    edges: list[tuple[int, int]]


@st.composite
def window_cases(draw: st.DrawFn, largest: int = 5) -> FactorCase:
    size = draw(st.integers(1, largest))
    universal = draw(st.integers(0, size - 1)) if draw(st.booleans()) else 0
    plain = size - universal
    steps = draw(st.lists(st.integers(0, largest), min_size=plain, max_size=plain))
    reach = np.minimum(np.maximum.accumulate(np.arange(plain) + np.array(steps, dtype=np.int64)), plain - 1)
    whole = np.concatenate([reach, np.arange(plain, size)])

    def joined(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
        low, high = min(one[0], two[0]), max(one[0], two[0])
        return high >= plain or high <= reach[low]

    return FactorCase(WindowGraph(whole, np.arange(plain, size)), (size,), joined)


@st.composite
def edge_list_cases(draw: st.DrawFn, largest: int = 5) -> FactorCase:
    size = draw(st.integers(1, largest))
    pairs = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=6))
    chosen = {frozenset(pair) for pair in pairs}
    graph = EdgeGraph(size, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    return FactorCase(graph, (size,), lambda one, two: frozenset((one[0], two[0])) in chosen)


@st.composite
def clique_cases(draw: st.DrawFn, largest: int = 5) -> FactorCase:
    labels = draw(st.lists(st.integers(0, 2), min_size=1, max_size=largest))
    graph = CliqueGraph(np.array(labels))
    return FactorCase(graph, (len(labels),), lambda one, two: labels[one[0]] == labels[two[0]])


@st.composite
def grid_cases(draw: st.DrawFn) -> FactorCase:
    metric = draw(st.sampled_from(["l1", "l2", "linf"]))
    theta = draw(st.integers(0, 4))
    lows, highs = [], []
    for _ in range(2):
        marks = np.cumsum(draw(st.lists(st.integers(0, 2), min_size=2, max_size=6)))
        pairs = marks[: len(marks) // 2 * 2].reshape(-1, 2)
        lows.append(pairs[:, 0])
        highs.append(pairs[:, 1])

    def joined(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
        gaps = [
            max(0, int(low[b] - high[a]), int(low[a] - high[b]))
            for low, high, a, b in zip(lows, highs, one, two, strict=True)
        ]
        if metric == "l2":
            return sum(g * g for g in gaps) <= theta * theta
        return (sum(gaps) if metric == "l1" else max(gaps)) <= theta

    graph = GridGraph(tuple(lows), tuple(highs), theta, metric, (NONE, NONE))
    return FactorCase(graph, graph.shape, joined)


axis_cases = st.one_of(window_cases(), edge_list_cases(), clique_cases())


@st.composite
def graph_cases(draw: st.DrawFn, factors: st.SearchStrategy[FactorCase], most: int = 2) -> GraphCase:
    chosen = draw(st.lists(factors, min_size=1, max_size=most))
    composition = draw(st.sampled_from(["record", "attribute"]))
    presence = draw(st.sampled_from(["public", "public", "secret", "only"]))
    shape = tuple(size for case in chosen for size in case.shape)
    cells = math.prod(shape)
    outside = np.array(draw(st.lists(st.booleans(), min_size=cells, max_size=cells)))
    if draw(st.booleans()):
        outside[:] = False
    graph = CellGraph(tuple(case.factor for case in chosen), composition, outside, presence)
    return GraphCase(graph, edges_by_definition(chosen, composition, presence, outside))


def edges_by_definition(
    chosen: list[FactorCase], composition: str, presence: str, outside: np.ndarray
) -> list[tuple[int, int]]:
    shapes = [case.shape for case in chosen]
    whole = list(itertools.product(*(np.ndindex(*shape) for shape in shapes)))
    edges = []
    for u, v in itertools.combinations(range(len(whole)), 2):
        moved = [a != b for a, b in zip(whole[u], whole[v], strict=True)]
        allowed = all(not m or c.joined(a, b) for m, c, a, b in zip(moved, chosen, whole[u], whole[v], strict=True))
        if presence != "only" and allowed and (composition == "record" or sum(moved) == 1):
            edges.append((u, v))
    return edges + [(u, ZERO) for u in range(len(whole)) if presence != "public" or outside[u]]


@st.composite
def measurements(draw: st.DrawFn, cells: int, zero_one: bool = False) -> Measurement:
    kinds = ["identity", "prefix", "intervals", "total"] + ([] if zero_one else ["sparse"])
    kind = draw(st.sampled_from(kinds))
    rows: Rows
    if kind == "identity":
        rows = Identity(cells)
    elif kind == "prefix":
        rows = Prefix(cells)
    elif kind == "total":
        rows = total(cells)
    elif kind == "intervals":
        ends = draw(st.lists(st.tuples(st.integers(0, cells), st.integers(0, cells)), min_size=1, max_size=5))
        low, high = np.array([min(e) for e in ends]), np.array([max(e) for e in ends])
        rows = Intervals(cells, low, high)
    else:
        entries = st.lists(st.integers(-3, 3), min_size=cells, max_size=cells)
        rows = Sparse(np.array(draw(st.lists(entries, min_size=1, max_size=4)), dtype=np.int64))
    weights = draw(st.lists(st.integers(1, 9), min_size=rows.shape[0], max_size=rows.shape[0]))
    return Measurement(rows, np.array(weights))


@st.composite
def plans(draw: st.DrawFn, graph: CellGraph) -> Plan:
    unit = Fraction(draw(st.integers(1, 20)), draw(st.integers(1, 20)))
    parts: list[Measurement | KroneckerMeasurement] = []
    for _ in range(draw(st.integers(1, 2))):
        if len(graph.shape) > 1 and draw(st.booleans()):
            parts.append(KroneckerMeasurement(tuple(draw(measurements(size)) for size in graph.shape)))
        else:
            parts.append(draw(measurements(graph.cells)))
    return Plan(unit, tuple(parts))
