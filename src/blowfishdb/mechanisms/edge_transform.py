"""Spanning tree and edge transform: sums beyond every edge of a tree inside the policy graph, or noise on its edges.

Of the noise on edges, only the answers' share is ever published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array, hstack
from scipy.sparse.csgraph import breadth_first_order

from blowfishdb.errors import Declined, TooLarge
from blowfishdb.mechanisms.products import as_boxes
from blowfishdb.mechanisms.strategy import ForestStrategy, Strategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO, WindowGraph
from blowfishdb.model.numbers import Bools, Floats, Ints, as_ints, consecutive
from blowfishdb.model.workload import Intervals, Rectangles, Rows, Sparse
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import EdgePlan, Problem

SPANNING_TREE = "spanning-tree"
EDGES = 4_000_000
CELLS = 250_000
LINE_CELLS = 4096
"""Longer ordered axes belong to the mechanisms that never list edges."""
ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class Forest:
    """A spanning forest of the cells and, as the last vertex, of the one that no row counts.

    `order` lists the vertices so that parents come before children; roots are their own parents.
    """

    parent: Ints
    order: Ints

    @cached_property
    def depth(self) -> Ints:
        """Steps from each vertex up to its root, by doubling."""
        depth, above = (~self.is_root).astype(np.int64), self.parent
        while not np.array_equal(above, above[above]):
            depth, above = depth + depth[above], above[above]
        return depth

    @property
    def is_root(self) -> Bools:
        return np.asarray(self.parent == np.arange(self.parent.size))

    @cached_property
    def runs(self) -> tuple[Ints, Ints] | None:
        """The first cell and one past the last of every subtree, where all subtrees are runs of cells."""
        low = np.arange(self.parent.size)
        high, size = low + 1, np.ones(self.parent.size, dtype=np.int64)
        for vertex in self.order[::-1]:
            above = self.parent[vertex]
            if above != vertex:
                low[above], high[above] = min(low[above], low[vertex]), max(high[above], high[vertex])
                size[above] += size[vertex]
        return (low, high) if np.array_equal(high - low, size) else None

    def distances(self, edges: Ints) -> Ints:
        """Steps along the tree between the ends of each edge; both ends must lie in the same tree."""
        jumps = [self.parent]
        while (1 << len(jumps)) <= int(self.depth.max(initial=0)):
            jumps.append(jumps[-1][jumps[-1]])
        first, second = edges[:, 0].copy(), edges[:, 1].copy()
        deeper = self.depth[first] < self.depth[second]
        first[deeper], second[deeper] = second[deeper], first[deeper]
        gap = self.depth[first] - self.depth[second]
        for level, jump in enumerate(jumps):
            first = np.where((gap >> level) & 1, jump[first], first)
        for jump in reversed(jumps):
            apart = jump[first] != jump[second]
            first, second = np.where(apart, jump[first], first), np.where(apart, jump[second], second)
        meeting = np.where(first == second, first, self.parent[first])
        return np.asarray(self.depth[edges[:, 0]] + self.depth[edges[:, 1]] - 2 * self.depth[meeting])


def grow(vertices: int, edges: Ints, first_roots: Ints) -> Forest:
    """Breadth-first trees over the edges, from the given roots first, then from the lowest vertex left."""
    ones = np.ones(2 * edges.shape[0], dtype=np.int8)
    ends = (np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]]))
    adjacency = csr_array(coo_array((ones, ends), shape=(vertices, vertices)))
    parent, seen, orders = np.arange(vertices), np.zeros(vertices, dtype=np.bool_), []
    isolated = np.diff(adjacency.indptr) == 0
    seen[isolated] = True
    orders.append(np.flatnonzero(isolated))
    for root in (*first_roots, *range(vertices)):
        if not seen[root]:
            order, above = breadth_first_order(adjacency, root, directed=False)
            parent[order[1:]] = above[order[1:]]
            seen[order] = True
            orders.append(order)
    return Forest(parent.astype(np.int64), np.concatenate(orders).astype(np.int64))


def propose_spanning_tree(problem: Problem) -> ForestStrategy:
    """Serves any policy whose edges can be listed, with the tree of least stretch among a few."""
    edges = listed_edges(SPANNING_TREE, problem)
    return tree_strategy(SPANNING_TREE, problem, best_forest(problem.graph.cells, edges))


def listed_edges(mechanism: str, problem: Problem) -> Ints:
    """All edges of the policy with the vertex that no row counts written as the number of cells."""
    graph = problem.graph
    if len(graph.factors) == 1 and isinstance(graph.factors[0], WindowGraph) and graph.cells > LINE_CELLS:
        raise Declined(mechanism, "a long ordered axis is left to 'ordered' and 'optimized', which list no edges")
    if graph.cells > CELLS:
        raise Declined(mechanism, f"there are {graph.cells:,} cells, more than {CELLS:,}")
    bound = graph.value_edge_bound + graph.cells
    if bound > EDGES:
        raise Declined(mechanism, f"the policy may have {bound:,} edges, more than {EDGES:,}")
    edges = graph.edges()
    if edges.shape[0] == 0:
        raise Declined(mechanism, "the policy has no edges: every answer is exact")
    return np.where(edges == ZERO, graph.cells, edges)


def best_forest(cells: int, edges: Ints) -> Forest:
    """The forest of least stretch among the path in order and breadth-first trees from several centres."""
    follow = np.arange(cells - 1)
    path = np.stack([follow, follow + 1], axis=1)
    keys = edges.min(axis=1) * (cells + 1) + edges.max(axis=1)
    # The edges of the path in order that the graph has span its components whenever they number the same.
    own_path = path[np.isin(path[:, 0] * (cells + 1) + path[:, 1], keys)]
    first = grow(cells + 1, edges, np.array([cells]))
    candidates = [first]
    ordered = grow(cells + 1, own_path, np.empty(0, dtype=np.int64))
    if int(ordered.is_root.sum()) == int(first.is_root.sum()):
        candidates.append(ordered)
    degree = np.bincount(edges.reshape(-1), minlength=cells + 1)
    middle = first.order[int(np.argsort(first.depth[first.order], kind="stable")[first.order.size // 2])]
    for centre in dict.fromkeys([int(degree.argmax()), int(middle), int(first.order[-1]), cells // 2]):
        candidates.append(grow(cells + 1, edges, np.array([cells, centre])))
    return min(candidates, key=lambda forest: (int(forest.distances(edges).max()), int(forest.depth.sum())))


def tree_strategy(mechanism: str, problem: Problem, forest: Forest) -> ForestStrategy:
    """The strategy that measures the cells below every edge of the forest, all with the same weight."""
    if forest.runs is None and int(forest.depth.sum()) > ENTRIES:
        raise Declined(mechanism, "the sums below the edges of the tree have too many entries")
    is_root = forest.is_root[:-1]
    rows, totals = (subtrees(forest, np.flatnonzero(chosen)) for chosen in (~is_root, is_root))
    return ForestStrategy(mechanism, problem, forest.parent[:-1], rows, totals)


def subtrees(forest: Forest, tops: Ints) -> Rows | None:
    """Rows that count the cells below the given ones, plain intervals where all subtrees are runs; None for none."""
    cells = forest.parent.size - 1
    if not tops.size:
        return None
    if forest.runs is not None:
        low, high = forest.runs
        return Intervals(cells, low[tops], high[tops])
    member, above = np.arange(cells), np.arange(cells)
    rows, columns = [above], [member]
    while member.size:
        climbs = forest.parent[above] != above
        member, above = member[climbs], forest.parent[above[climbs]]
        rows.append(above)
        columns.append(member)
    row, column = np.concatenate(rows), np.concatenate(columns)
    place = np.full(cells + 1, -1)
    place[tops] = np.arange(tops.size)
    inside = place[row] >= 0
    ones = np.ones(int(inside.sum()), dtype=np.int64)
    return Sparse(csr_array(coo_array((ones, (place[row[inside]], column[inside])), shape=(tops.size, cells))))


FINE_WEIGHT = 256
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class LineTree:
    """Nested blocks over a line of `length` edges, from single edges (sizes[0] = 1) to the coarsest level."""

    length: int
    sizes: tuple[int, ...]

    @cached_property
    def counts(self) -> Ints:
        """How many blocks each level has; the last one of a level may be short."""
        return np.array([-(-self.length // size) for size in self.sizes])

    @property
    def offsets(self) -> Ints:
        """The number of blocks on the levels before each."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])

    @cached_property
    def blocks_of(self) -> Ints:
        """For each edge of the line its block on every level."""
        edge = np.arange(self.length)[:, None]
        return np.asarray(edge // np.array(self.sizes) + self.offsets)

    def prefixes(self, costs: Floats) -> csr_array:
        """For each k the first k edges as a signed sum of blocks, the cheapest where a block costs its level's cost.

        A place on one level is reached from the coarser border before it, or back from the one after it. Differences of
        two prefixes cancel most of the coarsest blocks, so those are not counted.
        """
        levels = len(self.sizes)
        cost = np.zeros(int(self.counts[-1]) + 1)
        goes_up = [np.zeros(0, dtype=np.bool_)] * levels
        for level in range(levels - 2, -1, -1):
            fan = self.sizes[level + 1] // self.sizes[level]
            at = np.arange(int(self.counts[level]) + 1)
            before = np.minimum(at // fan, self.counts[level + 1])
            after = np.minimum(-(-at // fan), self.counts[level + 1])
            end = np.minimum(after * fan, self.counts[level])
            down, up = cost[before] + (at - before * fan) * costs[level], cost[after] + (end - at) * costs[level]
            goes_up[level] = up < down
            cost = np.minimum(up, down)
        prefix, at = np.arange(self.length + 1), np.arange(self.length + 1)
        rows, columns, signs = [], [], []
        for level in range(levels):
            if level + 1 < levels:
                fan = self.sizes[level + 1] // self.sizes[level]
                target = np.where(goes_up[level][at], -(-at // fan), at // fan)
                border = np.minimum(target * fan, self.counts[level])
            else:
                target = border = np.zeros_like(at)
            first, length = np.minimum(border, at), np.abs(at - border)
            rows.append(np.repeat(prefix, length))
            columns.append(consecutive(self.offsets[level] + first, length))
            signs.append(np.repeat(np.where(border <= at, 1, -1), length))
            at = target
        entries = (np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns)))
        return csr_array(coo_array(entries, shape=(self.length + 1, int(self.counts.sum()))), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Sides:
    """Runs [low, high) on lines of parallel edges; each side of a box is one, with its sign."""

    box: Ints
    line: Ints
    low: Ints
    high: Ints
    sign: Ints


def sides_across(boxes: Rectangles, axis: int) -> Sides:
    """The sides that moves along `axis` cross: line k separates places k and k + 1 of that axis."""
    other = 1 - axis
    near, far = boxes.low[:, axis], boxes.high[:, axis]
    filled = (near < far) & (boxes.low[:, other] < boxes.high[:, other])
    every = np.arange(boxes.shape[0])
    # A move to the next place adds to the box where the box begins, so the row falls by one along the edge (u, v).
    begins, ends = every[filled & (near > 0)], every[filled & (far < boxes.grid[axis])]
    box = np.concatenate([begins, ends])
    return Sides(
        box,
        np.concatenate([near[begins] - 1, far[ends] - 1]),
        boxes.low[box, other],
        boxes.high[box, other],
        np.repeat([-1, 1], [begins.size, ends.size]),
    )


@dataclass(frozen=True, eq=False)
class LineFamily:
    """One tree, with whole level weights, on every line that moves along an axis cross, and the boxes' decoder.

    `error` is the summed error of the sides when each edge may lose 1.
    """

    lines: int
    tree: LineTree
    weights: Ints
    decoder: csr_array
    error: float


def choose_family(boxes: Rectangles, axis: int) -> LineFamily:
    """The tree and weights with the least summed error of the sides when each edge may lose 1."""
    length, sides = boxes.grid[1 - axis], sides_across(boxes, axis)
    fits = [_fitted(LineTree(length, sizes), sides) for sizes in candidate_sizes(length)]
    error, tree, weights, runs = min(fits, key=lambda fit: fit[0])
    lines, width = max(boxes.grid[axis] - 1, 0), int(tree.counts.sum())
    per_side = np.diff(runs.indptr)
    row = np.repeat(sides.box, per_side)
    column = np.repeat(sides.line * width, per_side) + runs.indices
    value = np.repeat(sides.sign, per_side) * runs.data
    decoder = csr_array(coo_array((value, (row, column)), shape=(boxes.shape[0], lines * width)), dtype=np.int64)
    return LineFamily(lines, tree, weights, decoder, error)


def candidate_sizes(length: int) -> list[tuple[int, ...]]:
    """Block sizes of the levels: single edges alone, two levels, and three where the line is long."""
    two = [(1, fan) for fan in (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48) if fan < length]
    three = [(1, a, a * b) for a in (4, 6, 8, 12) for b in (4, 6, 8, 12) if 2 * a * b < length]
    return [(1,), *two, *(three if length > 128 else [])]


def _fitted(tree: LineTree, sides: Sides) -> tuple[float, LineTree, Ints, csr_array]:
    """The summed error at loss 1, the tree, whole level weights, and every side as a signed sum of its blocks."""
    levels = np.repeat(np.arange(len(tree.sizes)), tree.counts)
    used: Floats = np.ones(len(tree.sizes))
    for _ in range(ROUNDS):
        prefixes = tree.prefixes(_shares(used) ** -2.0)
        runs = csr_array(prefixes[sides.high] - prefixes[sides.low])
        runs.eliminate_zeros()
        squares = runs.data.astype(np.float64) ** 2
        used = np.asarray(np.bincount(levels[runs.indices], squares, len(tree.sizes)), dtype=np.float64)
    shares = _shares(used)
    weights = np.maximum(1, np.round(FINE_WEIGHT * shares / shares.max())).astype(np.int64)
    error = float((used / weights.astype(np.float64) ** 2).sum() * float(weights.sum()) ** 2)
    return error, tree, weights, runs


def _shares(used: Floats) -> Floats:
    """Shares of one loss that minimise sum used / share^2: proportional to the cube roots."""
    roots = np.cbrt(np.maximum(used, 1e-6 * max(float(used.max()), 1e-300)))
    return np.asarray(roots / roots.sum())


def line_strategy(families: Sequence[LineFamily], shape: tuple[int, ...], steps: csr_array) -> csr_array:
    """Noise variables by policy edges: every unit step of an edge's route adds its blocks, with the step's sign."""
    starts, parts = [0, (shape[0] - 1) * shape[1]], []
    for axis, family in enumerate(families):
        place, line = np.arange(shape[1 - axis]), np.arange(family.lines)
        block = family.tree.blocks_of
        width = int(family.tree.counts.sum())
        row = line[:, None, None] * width + block[None, place, :]
        unit = starts[axis] + line[:, None] * shape[1 - axis] + place[None, :]
        column = np.broadcast_to(unit[:, :, None], row.shape)
        ones = np.ones(row.size, dtype=np.int64)
        size = (family.lines * width, steps.shape[0])
        parts.append(csr_array(coo_array((ones, (row.reshape(-1), column.reshape(-1))), shape=size)) @ steps)
    return csr_array(hstack([csr_array(part).T for part in parts]).T)


def unit_steps(edges: Ints, shape: tuple[int, ...]) -> csr_array:
    """Unit steps by policy edges: each edge (u, v) goes along axis 0 at u's column, then along axis 1 at v's row.

    Step (r, c) -> (r + 1, c) is number r * columns + c; step (r, c) -> (r, c + 1) follows them as c * rows + r.
    """
    rows, columns = shape
    first_row, first_column = np.divmod(edges[:, 0], columns)
    last_row, last_column = np.divmod(edges[:, 1], columns)
    down, across = np.abs(last_row - first_row), np.abs(last_column - first_column)
    edge = np.arange(edges.shape[0])
    at_row = consecutive(np.minimum(first_row, last_row), down)
    at_column = consecutive(np.minimum(first_column, last_column), across)
    step = np.concatenate(
        [
            at_row * columns + np.repeat(first_column, down),
            (rows - 1) * columns + at_column * rows + np.repeat(last_row, across),
        ]
    )
    sign = np.concatenate(
        [np.repeat(np.sign(last_row - first_row), down), np.repeat(np.sign(last_column - first_column), across)]
    )
    owner = np.concatenate([np.repeat(edge, down), np.repeat(edge, across)])
    size = ((rows - 1) * columns + (columns - 1) * rows, edges.shape[0])
    return csr_array(coo_array((sign, (step, owner)), shape=size), dtype=np.int64)


def sides_by_steps(boxes: Rectangles) -> csr_array:
    """Boxes by unit steps: how much each box falls along every unit step; only its sides are not 0."""
    parts = []
    for axis in (0, 1):
        sides, length = sides_across(boxes, axis), boxes.grid[1 - axis]
        run = sides.high - sides.low
        column = consecutive(sides.line * length + sides.low, run)
        size = (boxes.shape[0], max(boxes.grid[axis] - 1, 0) * length)
        parts.append(coo_array((np.repeat(sides.sign, run), (np.repeat(sides.box, run), column)), shape=size))
    return csr_array(hstack(parts), dtype=np.int64)


NAME = "edge-transform"
ROUTE_STEPS = 4_000_000
PROOF_ENTRIES = 1_000_000_000
"""The certificate compares every answer with every edge."""


@dataclass(frozen=True, eq=False)
class EdgeStrategy(Strategy):
    """Noise variables over the policy's edges: `strategy` (variables by edges) and `decoder` (answers by variables)."""

    problem: Problem
    edges: Ints
    strategy: csr_array
    decoder: csr_array
    weights: Ints

    mechanism = NAME
    steady_scale = 0
    """The answers combine the noise in one way at every level."""

    @property
    def loss(self) -> int:
        """The largest weighted column norm of the strategy: the plan's loss at unit 1."""
        return int((abs(self.strategy).T @ self.weights).max(initial=0))

    def plan(self, unit: Fraction) -> EdgePlan:
        return EdgePlan(unit, self.problem.workload, self.edges, self.strategy, self.decoder, self.weights)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        del exact, variances
        return np.asarray(self.decoder @ measured)

    def answer_variances(self, variances: Floats) -> Floats:
        return np.asarray(self.decoder.power(2) @ np.asarray(variances, dtype=np.float64))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        return np.asarray(self.decoder[queries].toarray(), dtype=np.float64)


def propose(problem: Problem) -> EdgeStrategy | ForestStrategy:
    """Serves any policy whose edges can be listed; for a forest it measures the flow over every edge as a row."""
    edges = listed_edges(NAME, problem)
    cells = problem.graph.cells
    if edges.shape[0] <= cells:
        forest = best_forest(cells, edges)
        if edges.shape[0] == int((~forest.is_root).sum()):
            return tree_strategy(NAME, problem, forest)
    compared = problem.workload.shape[0] * edges.shape[0]
    if compared > PROOF_ENTRIES:
        raise Declined(NAME, f"its proof would compare {compared:,} entries, more than {PROOF_ENTRIES:,}")
    strategies = [choice for choice in (on_lines(problem), on_single_edges(problem)) if choice is not None]
    if not strategies:
        raise Declined(NAME, "the answers change along too many edges")
    return min(strategies, key=_expected_error)


def _expected_error(strategy: EdgeStrategy) -> float:
    return strategy.total_variance(strategy.weights.astype(np.float64) ** -2) * strategy.loss**2


def on_single_edges(problem: Problem) -> EdgeStrategy | None:
    """One noise variable for each edge; None where the answers have too many entries."""
    edges = problem.graph.edges()
    boxes = grid_boxes(problem)
    try:
        decoder = _falls(problem, edges) if boxes is None else sides_by_steps(boxes) @ unit_steps(edges, boxes.grid)
    except TooLarge:
        return None
    if decoder.nnz > ENTRIES:
        return None
    decoder = csr_array(decoder, dtype=np.int64)
    decoder.eliminate_zeros()
    identity = csr_array(eye_array(edges.shape[0], dtype=np.int64))
    return EdgeStrategy(problem, edges, identity, decoder, as_ints(np.ones(edges.shape[0], dtype=np.int64)))


def _falls(problem: Problem, edges: Ints) -> csr_array:
    """Answers by edges: how much each answer falls when one record moves along each edge."""
    cells, edge = problem.graph.cells, np.arange(edges.shape[0])
    counted = edges[:, 1] != ZERO
    row = np.concatenate([edges[:, 0], edges[counted, 1]])
    column = np.concatenate([edge, edge[counted]])
    sign = np.concatenate([np.ones(edge.size, dtype=np.int64), np.full(int(counted.sum()), -1)])
    incidence = csr_array(coo_array((sign, (row, column)), shape=(cells, edge.size)))
    return csr_array(csr_array(sparse_columns(problem.workload)) @ incidence)


def grid_boxes(problem: Problem) -> Rectangles | None:
    """The workload as boxes over two axes from which no record can leave; None otherwise."""
    graph = problem.graph
    if len(graph.shape) != 2 or min(graph.shape) < 2 or graph.to_zero.any():
        return None
    return as_boxes(problem.workload, graph.shape)


def on_lines(problem: Problem) -> EdgeStrategy | None:
    """Trees over the lines of unit steps that box sides lie on; longer edges are routed along unit steps."""
    boxes = grid_boxes(problem)
    if boxes is None:
        return None
    edges, shape = problem.graph.edges(), boxes.grid
    steps = unit_steps(edges, shape)
    if steps.nnz > ROUTE_STEPS:
        return None
    families = [choose_family(boxes, axis) for axis in (0, 1)]
    scales = _balance([family.error for family in families], [int(f.weights.sum()) for f in families], steps, shape)
    weights = np.concatenate(
        [
            np.tile(np.repeat(family.weights * scale, family.tree.counts), family.lines)
            for family, scale in zip(families, scales, strict=True)
        ]
    )
    decoder = csr_array(hstack([family.decoder for family in families]), dtype=np.int64)
    return EdgeStrategy(problem, edges, line_strategy(families, shape, steps), decoder, as_ints(weights))


def _balance(errors: list[float], norms: list[int], steps: csr_array, shape: tuple[int, ...]) -> tuple[int, int]:
    """Whole factors for the weights of the two families.

    Where no edge steps along both axes each family may lose as much as the other; otherwise the two losses add up, and
    cube roots of the errors share them best.
    """
    split = (shape[0] - 1) * shape[1]
    along = [np.diff(part.tocsc().indptr) > 0 for part in (steps[:split], steps[split:])]
    wanted = np.ones(2)
    if np.any(along[0] & along[1]):
        wanted = np.cbrt(np.maximum(errors, 1e-9 * max(errors, default=1.0)))
    factors = wanted / np.array(norms)
    whole = np.maximum(1, np.round(64 * factors / factors.max())).astype(np.int64)
    return int(whole[0]), int(whole[1])
