"""Chooses the rows and weights of a product measurement by expected error under the certificate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from blowfishdb.mechanisms.products import (
    SHARPNESS,
    AxisChoice,
    AxisModes,
    AxisRows,
    CoarseLevel,
    Corrections,
    Levels,
    ProductPart,
    ProductRows,
    candidate_levels,
    component_level,
    covariance_table,
    improved_weights,
    smooth_level,
    summed_by_query,
    summed_over_queries,
)
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import AxisGraph, CellGraph, Factor, GridGraph, axis_graphs
from blowfishdb.model.numbers import Floats, Ints

AXIS_SHARES = np.linspace(0.02, 0.98, 49)
AXIS_SWEEPS = 3
STARTS = (1.0, 0.4)
"""What the other axes are taken to lose at first: at 1 nothing is gained by sparing an edge, so try less too."""

AxesMoved = tuple[AxisGraph | None, ...]


def ways_to_move(graph: CellGraph) -> list[AxesMoved]:
    """How one record may move: a graph for each axis that moves, None for each that stays."""
    if not graph.has_value_edges:
        return []
    options = [_factor_ways(factor) for factor in graph.factors]
    if graph.composition == "record":
        return [tuple(itertools.chain(*choice)) for choice in itertools.product(*options)]
    still: list[AxesMoved] = [(None,) * len(each[0]) for each in options]
    return [
        tuple(itertools.chain(*still[:place], way, *still[place + 1 :]))
        for place, each in enumerate(options)
        for way in each
    ]


def _factor_ways(factor: Factor) -> list[AxesMoved]:
    """A joint L1 threshold is taken as all of it along one axis, or an equal part along each."""
    if not isinstance(factor, GridGraph) or factor.metric != "l1":
        return [axis_graphs(factor)]
    axes = range(len(factor.shape))
    ways: list[AxesMoved] = [
        tuple(factor.axis_within(axis, factor.theta) if axis == moving else None for axis in axes) for moving in axes
    ]
    part = factor.theta // len(axes)
    return ways + ([tuple(factor.axis_within(axis, part) for axis in axes)] if part else [])


def axis_components(graph: CellGraph) -> list[Ints]:
    """Component labels of each axis; a component of the cells is a product of these, or a part of one."""
    return [axis.components() for factor in graph.factors for axis in axis_graphs(factor)]


@dataclass(frozen=True, eq=False)
class Choices:
    """The coarse levels that may be chosen on each axis (None: cells alone), and how records move.

    `moves[way, axis]` is 1 where a way moves an axis. `totals` are rows per axis whose products are exact: its
    components, or nothing where a record can leave its own.
    """

    levels: Sequence[Sequence[CoarseLevel | None]]
    ways: Sequence[AxesMoved]
    moves: Floats
    leaves: bool
    shape: tuple[int, ...]
    totals: tuple[Ints, ...]

    @staticmethod
    def of(graph: CellGraph) -> Choices:
        """Axes alike share their levels, whose spectra are costly."""
        ways, shape, leaves = ways_to_move(graph), graph.shape, bool(graph.to_zero.any())
        moves = np.array([[g is not None and g.edge_count > 0 for g in way] for way in ways], dtype=np.float64)
        components = axis_components(graph)
        levels: dict[tuple[int, bytes], list[CoarseLevel | None]] = {}
        for size, labels in zip(shape, components, strict=True):
            if (size, labels.tobytes()) not in levels:
                levels[size, labels.tobytes()] = [None, *(candidate_levels(size, labels) if size > 1 else [])]
        listed = [levels[size, labels.tobytes()] for size, labels in zip(shape, components, strict=True)]
        is_closed = graph.has_value_edges and not leaves
        totals = tuple(component_level(labels).blocks for labels in components) if is_closed else ()
        return Choices(listed, ways, moves.reshape(-1, len(shape)), leaves, shape, totals)

    def moved(self, axis: int, level: CoarseLevel | None) -> Floats:
        """The share of the weight of a level (None: the cells) that each way moves; 0 where the axis stays."""
        if level is None:
            return self.moves[:, axis]
        if (axis, level) not in self._moved:
            graphs = {id(way[axis]): way[axis] for way in self.ways}
            shares = {name: 0.0 if graph is None else level.edge_share(graph) for name, graph in graphs.items()}
            self._moved[axis, level] = np.array([shares[id(way[axis])] for way in self.ways])
        return self._moved[axis, level]

    @cached_property
    def _moved(self) -> dict[tuple[int, CoarseLevel], Floats]:
        return {}


def choose_axes(parts: Sequence[ProductPart], choices: Choices) -> tuple[AxisChoice, ...]:
    """The cells and a coarse level for each axis, weights included, with the least expected error found."""
    return min((_descend(parts, choices, start) for start in STARTS), key=lambda result: result[0])[1]


def _descend(parts: Sequence[ProductPart], choices: Choices, start: float) -> tuple[float, tuple[AxisChoice, ...]]:
    """The summed variance for unit 1 at epsilon 1, and the choice on each axis; others lose `start` at first."""
    chosen = [AxisChoice(size, None, 0.0) for size in choices.shape]
    lost = choices.moves * start
    values = [[_row_variances(c, rows) for c, rows in zip(chosen, part.rows, strict=True)] for part in parts]
    error = math.inf
    for _ in range(AXIS_SWEEPS):
        before = error
        for axis in range(len(choices.shape)):
            counts = [part.shares(variances, axis) for part, variances in zip(parts, values, strict=True)]
            weighted = [(part.rows[axis], count) for part, count in zip(parts, counts, strict=True)]
            error, chosen[axis], lost[:, axis] = _best_on(axis, weighted, choices, lost)
            for part, variances in zip(parts, values, strict=True):
                variances[axis] = _row_variances(chosen[axis], part.rows[axis])
        if error > 0.999 * before:
            break
    return error, tuple(chosen)


def _best_on(
    axis: int, weighted: Sequence[tuple[AxisRows, Floats]], choices: Choices, lost: Floats
) -> tuple[float, AxisChoice, Floats]:
    """The error, the choice for one axis and what it loses; each row counts by its queries' other variances."""
    trace = float(sum(count @ rows.squares for rows, count in weighted))
    energies = [rows.energies(count) for rows, count in weighted]
    others = np.prod(1 - np.delete(lost, axis, axis=1), axis=1)[:, None]
    # Products over many axes must stay below the limit of exact sums.
    grain = 2 ** min(6, 18 // len(choices.shape))
    tried = []
    for level in choices.levels[axis]:
        shares, spread = np.zeros(1), np.array([trace])
        if level is not None:
            vectors = level.spectrum[1]
            summed = np.sum([energy(vectors) for energy in energies], axis=0)
            shares, spread = AXIS_SHARES, level.total_variances(summed, trace, AXIS_SHARES)
        losses = choices.moves[:, axis, None] * (1 - shares * (1 - choices.moved(axis, level)[:, None]))
        # The worst loss when all column norms are 1 and each way keeps these parts of the weight.
        worst: Floats = 2 * (1 - others * (1 - losses)).max(axis=0, initial=0.0)
        error = (np.maximum(worst, 1.0) if choices.leaves else worst) ** 2 * spread
        place = int(np.argmin(error))
        choice = AxisChoice(choices.shape[axis], level, float(shares[place]), grain)
        tried.append((float(error[place]), choice, losses[:, place]))
    return min(tried, key=lambda one: one[0])


def _row_variances(choice: AxisChoice, rows: AxisRows) -> Floats:
    """The least-squares variance of each row when the column norm of the axis is 1."""
    fine, coarse = choice.weights
    norm = fine + (0 if choice.level is None else coarse * choice.level.height)
    return rows.quadratic(choice.covariance) * norm**2


AXES = 2
MOST_TOTALS = 16
"""With other numbers of axes or more exact totals, weights stay products and least squares goes axis by axis."""

TABLE_QUERIES = 1000
"""Longer lists of queries are judged by an even choice of this many."""

TABLE_SWEEPS = 2
GRAIN = 64
LEAST = (0.0, 0.003, 0.03)
"""Combinations with less than this part of the largest weight are left out, where that helps."""

LEAST_CELLS = 0.01
"""The cells keep this part of the largest weight, so that least squares stays well conditioned."""

TABLE_SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
MIXED = (0.0, 0.5, 1.0)
"""What is tried first: shares of the coarse level, the same on all axes, and how much of the mixed products is kept."""


@dataclass(frozen=True, eq=False)
class LevelTable:
    """The modes of each axis, and a whole weight for each combination of levels that is worth measuring.

    `ratio` is the expected squared error to that of the best product. `wide` are products of rows of other levels.
    """

    axes: tuple[AxisModes, ...]
    weights: dict[Levels, int]
    ratio: float
    wide: ProductRows | None = None


@dataclass(frozen=True, eq=False)
class _AxisCase:
    """One choice for an axis with what its rows lose and what the queries weigh on its modes."""

    modes: AxisModes
    lost: Floats
    seen: list[list[Floats]]


def choose_table(parts: Sequence[ProductPart], choices: Choices, product: tuple[AxisChoice, ...]) -> LevelTable | None:
    """The best table found in the neighbourhood of a product; None where tables do not apply."""
    if len(choices.shape) != AXES or math.prod(map(len, choices.totals)) > MOST_TOTALS:
        return None
    search = _TableSearch(_samples(parts, TABLE_QUERIES), choices)
    cases: list[list[_AxisCase]] = []
    for axis, levels in enumerate(choices.levels):
        totals = choices.totals[axis] if choices.totals else None
        energies = [_query_energies(part.rows[axis], totals) for part, _ in search.samples]
        cases.append([])
        for modes in (AxisModes(choices.shape[axis], level) for level in levels):
            lost = [choices.moved(axis, level) for level in (None, modes.level)][: len(modes.grams)]
            cases[-1].append(_AxisCase(modes, np.stack(lost, axis=1), [energy(modes) for energy in energies]))
    return search.best(cases, product)


def _samples(parts: Sequence[ProductPart], most: int, listed: bool = False) -> list[tuple[ProductPart, float]]:
    """An even choice of at most `most` queries of each part, and how many queries each of them stands for."""
    samples = [part.sample(most, listed) for part in parts]
    return [(sample, part.count / max(sample.count, 1)) for part, sample in zip(parts, samples, strict=True)]


def _query_energies(rows: AxisRows, totals: Ints | None) -> Callable[[AxisModes], list[Floats]]:
    """What gives the products within every mode of each row with itself, with its averages, and of these alone.

    Averages are those over the components of the axis, which the exact totals tell.
    """
    if totals is None:
        return lambda modes: [modes.energies(rows)]
    blocks = totals.astype(np.float64)
    averages = blocks.T @ (blocks / blocks.sum(axis=1, keepdims=True))
    whole = rows.quadratic(averages)[:, None]

    def energies(modes: AxisModes) -> list[Floats]:
        plain, averaged = rows.times(modes.vectors), rows.times(averages @ modes.vectors)
        crossed = (plain * averaged, averaged * averaged)
        return [modes.energies(rows), *(np.hstack([whole - c.sum(axis=1, keepdims=True), c]) for c in crossed)]

    return energies


@dataclass(frozen=True, eq=False)
class _TableSearch:
    """Descent over the axes' levels for the sampled queries, each of which stands for several."""

    samples: Sequence[tuple[ProductPart, float]]
    given: Choices

    def best(self, cases: Sequence[Sequence[_AxisCase]], product: Sequence[AxisChoice]) -> LevelTable | None:
        """Improves each axis in turn from the product, then the weights together."""
        chosen = [
            next(case for case in options if case.modes.level is choice.level)
            for options, choice in zip(cases, product, strict=True)
        ]
        shares = [
            [1 - choice.share, choice.share][: len(c.modes.grams)] for c, choice in zip(chosen, product, strict=True)
        ]
        weights = _row_products([np.array([share]) for share in shares])
        known = float(self._errors(chosen, weights)[0])
        if known == 0.0:
            return None
        for _ in range(TABLE_SWEEPS):
            before = chosen
            for axis, options in enumerate(cases):
                tried = [[*chosen[:axis], case, *chosen[axis + 1 :]] for case in options]
                chosen = min(tried, key=lambda some: float(self._errors(some, _patterns(some)).min()))
            if chosen == before:
                break
        weights = self._polished(chosen)
        ratio = float(self._errors(chosen, weights[None, :])[0]) / known
        return LevelTable(tuple(case.modes for case in chosen), _whole(chosen, weights), ratio)

    def _polished(self, chosen: Sequence[_AxisCase]) -> Floats:
        """The weights with the least error found from the best of the patterns."""
        patterns = _patterns(chosen)
        start = patterns[int(np.argmin(self._errors(chosen, patterns)))]
        sizes, gains, losses = self._terms(chosen)
        logs = np.log(np.maximum(start / start.max(), 1e-4))
        for sharpness in SHARPNESS:
            logs = np.array(improved_weights(logs, gains, sizes, losses, sharpness)[1])
        polished = np.exp(logs - logs.max())
        polished[0] = max(polished[0], LEAST_CELLS)
        cells = np.arange(polished.size) == 0
        tried = np.stack([start, *(np.where((polished >= least) | cells, polished, 0.0) for least in LEAST)])
        return np.asarray(tried[int(np.argmin(self._errors(chosen, tried)))])

    def _errors(self, chosen: Sequence[_AxisCase], weights: Floats) -> Floats:
        """The summed variance at loss 1 for each row of weights; columns of norm 1 for weight 1."""
        sizes, gains, losses = self._terms(chosen)
        return np.asarray((weights**2 @ gains.T) ** -1 @ sizes * (weights @ losses.T).max(axis=1) ** 2)

    def _terms(self, chosen: Sequence[_AxisCase]) -> tuple[Floats, Floats, Floats]:
        """What the queries weigh on each combination of modes, how well each product sees it, what each one loses.

        Queries are taken less their averages over the components, whose totals are exact.
        """
        sizes = np.zeros(math.prod(case.modes.grams.shape[1] for case in chosen))
        for place, (part, shown) in enumerate(self.samples):
            terms = zip(*(case.seen[place] for case in chosen), strict=True)
            for sign, term in zip((1.0, -2.0, 1.0), terms, strict=False):
                sizes += sign * shown * summed_over_queries(term, part.index).reshape(-1)
        gains = reduce(lambda a, b: np.asarray(np.kron(a, b), np.float64), [case.modes.grams.T for case in chosen])
        losses = 2 * (1 - _row_products([1 - case.lost for case in chosen]))
        if self.given.leaves:
            losses = np.concatenate([losses, np.ones((1, losses.shape[1]))])
        return np.maximum(sizes, 0.0), gains, losses


def _row_products(factors: Sequence[Floats]) -> Floats:
    """In each row all products of one entry per factor."""
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1]), factors)


def _patterns(chosen: Sequence[_AxisCase]) -> Floats:
    """Weights to begin with: products of equal shares, with the products of cells and coarse rows thinned or not."""
    shares = np.array([[1 - share, share] for share in TABLE_SHARES])
    counts = [len(case.modes.grams) for case in chosen]
    products = _row_products([shares[:, :count] for count in counts])
    is_pure = np.array([len(set(levels)) == 1 for levels in itertools.product(*map(range, counts))])
    return np.concatenate([products * np.where(is_pure, 1.0, part) for part in MIXED])


def _whole(chosen: Sequence[_AxisCase], weights: Floats) -> dict[Levels, int]:
    """Whole weights of the rows of each combination; a coarse row is `height` times as high as a cell."""
    heights = [[1, *([] if case.modes.level is None else [case.modes.level.height])] for case in chosen]
    combinations = list(itertools.product(*(range(len(height)) for height in heights)))
    each = weights / [
        math.prod(height[at] for height, at in zip(heights, levels, strict=True)) for levels in combinations
    ]
    scaled = np.round(GRAIN * each / each[each > 0].min())
    return {levels: int(weight) for levels, weight in zip(combinations, scaled, strict=True) if weight > 0}


WIDE_QUERIES = 500
MOST_ROWS = 400
MIXED_SIZES = (0.9, 1.15)
"""Spacings that are tried for the mixed products; no move spares these, so their ramps are short."""

SIZES, RAMPS = (0.75, 1.0, 1.25, 1.6), (1.0, 1.5, 2.0)
"""Spacings that are tried for the wide rows, and heights of their ramps as parts of the spacing."""

SCALES = (0.8, 1.2, 1.45)
"""How the weights of the mixed products are scaled in the end."""

WIDE_SHARES = np.geomspace(0.3, 3.0, 10)
"""Column norms of the wide rows that are tried, as parts of that of the products of coarse rows which they replace."""

WORTH = 0.995


def with_wide_rows(parts: Sequence[ProductPart], choices: Choices, table: LevelTable) -> LevelTable:
    """The table as it is, or with wide rows for its products of coarse rows; tables without mixed products stay."""
    levels = [axis.level for axis in table.axes if axis.level is not None]
    if not {(0, 1), (1, 0), (1, 1)} <= table.weights.keys():
        return table
    search = _WideSearch(_samples(parts, WIDE_QUERIES, listed=True), choices)
    norm = table.weights[1, 1] * math.prod(level.height for level in levels)
    known = search.error(table)
    if known <= 0.0:
        return table
    resized = [[_resized(axis, size, ramp) for axis in table.axes] for size, ramp in itertools.product(SIZES, RAMPS)]
    tried = [wide for wide in (levels, *resized) if math.prod(len(level.blocks) for level in wide) <= MOST_ROWS]
    if not tried:
        return table
    bare = min((_mixed(table, size) for size in MIXED_SIZES), key=lambda one: search.widened(one, tried[0], norm)[0])
    best, levels = min(((search.widened(bare, wide, norm), wide) for wide in tried), key=lambda one: one[0][0])
    for scale in SCALES:
        whole = {at: round(weight * (scale if any(at) else 1.0)) for at, weight in bare.weights.items()}
        best = min(best, search.widened(replace(bare, weights=whole), levels, norm), key=lambda one: one[0])
    error, chosen = best
    return replace(chosen, ratio=table.ratio * error / known) if error < WORTH * known else table


def _mixed(table: LevelTable, size: float) -> LevelTable:
    """The table without products of coarse rows, the mixed ones with another spacing and the same column norms."""
    axes = tuple(AxisModes(axis.cells, _resized(axis, size, 1.0)) for axis in table.axes)
    weights = {(0, 0): float(table.weights[0, 0])}
    for at, place in (((1, 0), 0), ((0, 1), 1)):
        heights = [level.height for level in (table.axes[place].level, axes[place].level) if level is not None]
        weights[at] = table.weights[at] * heights[0] / heights[1]
    return replace(table, axes=axes, weights={at: max(1, round(weight)) for at, weight in weights.items()})


def _resized(axis: AxisModes, size: float, ramp: float) -> CoarseLevel:
    """Blocks with another spacing: the fullest row of a level sums to its spacing times its height."""
    level = axis.level_rows[-1]
    spacing = int(level.sum(axis=1).max()) / int(level.sum(axis=0).max())
    new = max(1, round(size * spacing))
    return smooth_level(axis.cells, new, max(1, round(ramp * new)))


@dataclass(frozen=True, eq=False)
class _WideSearch:
    """Expected errors of tables over the sampled queries, at loss 1."""

    samples: Sequence[tuple[ProductPart, float]]
    given: Choices

    @property
    def exact(self) -> list[ProductRows]:
        """The exact totals as one group of products, or nothing."""
        return [ProductRows(self.given.totals, None)] if self.given.totals else []

    def error(self, table: LevelTable) -> float:
        """Without wide rows."""
        plain, system, squares = self._terms(table, self.exact)
        taken = float(np.sum(np.linalg.inv(system) * squares)) if self.exact else 0.0
        return (plain - taken) * float(self._losses(table).max()) ** 2

    def widened(self, bare: LevelTable, wide: Sequence[CoarseLevel], norm: float) -> tuple[float, LevelTable]:
        """The least error with the given wide levels over their weight, and that table."""
        height = math.prod(level.height for level in wide)
        rows = tuple(level.blocks for level in wide)
        plain, system, squares = self._terms(bare, [*self.exact, ProductRows(rows, 1)])
        base, lost = self._losses(bare), self._lost(wide)
        measured = np.arange(len(system)) >= sum(group.count for group in self.exact)
        best, best_weight = math.inf, 1
        for weight in sorted({max(1, round(share * norm / height)) for share in WIDE_SHARES}):
            weighted = system + np.diag(np.where(measured, weight**-2.0 - 1.0, 0.0))
            error = plain - float(np.sum(np.linalg.inv(weighted) * squares))
            error *= float((base + weight * lost).max()) ** 2
            best, best_weight = min((best, best_weight), (error, weight))
        return best, replace(bare, wide=ProductRows(rows, best_weight))

    def _terms(self, table: LevelTable, groups: Sequence[ProductRows]) -> tuple[float, Floats, Floats]:
        """The summed variance without corrections, their system, and the summed squares of what they see."""
        covariance = covariance_table(table.axes, table.weights)
        corrections = Corrections(table.axes, tuple(groups))
        plain, squares = 0.0, np.zeros((corrections.count,) * 2)
        for sample, shown in self.samples:
            energies = [axis.energies(rows) for axis, rows in zip(table.axes, sample.rows, strict=True)]
            plain += shown * float(summed_by_query(covariance, energies, sample.index).sum())
            if groups and sample.index is not None:
                seen = corrections.seen(covariance, corrections.crossed(sample.rows), sample.index)
                squares += shown * (seen @ seen.T)
        return plain, corrections.system(covariance) if groups else squares, squares

    def _losses(self, table: LevelTable) -> Floats:
        """What each way loses of the table, and what leaving does where a record can."""
        return np.asarray(
            sum(
                weight * self._lost([axis.level if at else None for axis, at in zip(table.axes, levels, strict=True)])
                for levels, weight in table.weights.items()
            )
        )

    def _lost(self, levels: Sequence[CoarseLevel | None]) -> Floats:
        """For products of rows of these levels, of weight 1: the loss of each way, then that of leaving."""
        stays = np.prod([1 - self.given.moved(axis, level) for axis, level in enumerate(levels)], axis=0)
        height = math.prod(1 if level is None else level.height for level in levels)
        return np.append(2 * (1 - stays), 1.0 if self.given.leaves else 0.0) * height
