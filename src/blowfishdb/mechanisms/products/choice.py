"""Chooses the rows of every axis of a product measurement together, by expected error under the policy's loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.products.axis_levels import AxisChoice, CoarseLevel, candidate_levels
from blowfishdb.mechanisms.products.axis_rows import AxisRows
from blowfishdb.mechanisms.products.queries import ProductPart
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph, Factor
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.grid import GridGraph

SHARES = np.linspace(0.02, 0.98, 49)
SWEEPS = 3
STARTS = (1.0, 0.4)
"""What the other axes are taken to lose at first: at 1 nothing is gained by sparing an edge, so try less too."""

Way = tuple[AxisGraph | None, ...]


def ways_to_move(graph: CellGraph) -> list[Way]:
    """How one record may move: a graph for each axis that moves, None for each that stays."""
    if not graph.has_value_edges:
        return []
    options = [_factor_ways(factor) for factor in graph.factors]
    if graph.composition == "record":
        return [tuple(itertools.chain(*choice)) for choice in itertools.product(*options)]
    still: list[Way] = [(None,) * len(each[0]) for each in options]
    return [
        tuple(itertools.chain(*still[:place], way, *still[place + 1 :]))
        for place, each in enumerate(options)
        for way in each
    ]


def _factor_ways(factor: Factor) -> list[Way]:
    """A joint L1 threshold is taken as all of it along one axis, or an equal part along each."""
    if not isinstance(factor, GridGraph):
        return [(factor,)]
    axes = range(len(factor.shape))
    if factor.metric != "l1":
        return [tuple(factor.axis_within(axis, factor.theta) for axis in axes)]
    ways: list[Way] = [
        tuple(factor.axis_within(axis, factor.theta) if axis == moving else None for axis in axes) for moving in axes
    ]
    part = factor.theta // len(axes)
    return ways + ([tuple(factor.axis_within(axis, part) for axis in axes)] if part else [])


def axis_components(graph: CellGraph) -> list[Ints]:
    """Component labels of each axis; a component of the cells is a product of these."""
    labels: list[Ints] = []
    for factor in graph.factors:
        if not isinstance(factor, GridGraph):
            labels.append(factor.components())
        else:
            labels += [factor.axis_within(axis, factor.theta).components() for axis in range(len(factor.shape))]
    return labels


@dataclass(frozen=True, eq=False)
class AxisOption:
    """One coarse level of an axis (None: cells alone), and the share of it that each way moves."""

    level: CoarseLevel | None
    moved: Floats


@dataclass(frozen=True, eq=False)
class Choices:
    """What may be chosen on each axis, and how records move: `moves[way, axis]` is 1 where a way moves an axis."""

    options: Sequence[Sequence[AxisOption]]
    ways: Sequence[Way]
    moves: Floats
    leaves: bool
    shape: tuple[int, ...]

    def moved(self, axis: int, level: CoarseLevel | None) -> Floats:
        """The share of the weight of a level (None: the cells) that each way moves."""
        return self.moves[:, axis] if level is None else _moved(axis, level, self.ways)

    @staticmethod
    def of(graph: CellGraph) -> Choices:
        ways = ways_to_move(graph)
        moves = np.array([[g is not None and g.edge_count > 0 for g in way] for way in ways], dtype=np.float64)
        shape = graph.shape
        return Choices(_options(graph, ways), ways, moves.reshape(-1, len(shape)), bool(graph.to_zero.any()), shape)


def choose_axes(parts: Sequence[ProductPart], choices: Choices) -> tuple[AxisChoice, ...]:
    """The cells and a coarse level for each axis, weights included, with the least expected error found."""
    search = _Search(parts, choices)
    return min((search.descend(start) for start in STARTS), key=lambda found: found[0])[1]


def _options(graph: CellGraph, ways: Sequence[Way]) -> list[list[AxisOption]]:
    """The options of every axis; axes alike share their levels, whose spectra are costly."""
    levels: dict[tuple[int, bytes], list[CoarseLevel]] = {}
    result = []
    for axis, (size, labels) in enumerate(zip(graph.shape, axis_components(graph), strict=True)):
        key = (size, labels.tobytes())
        if key not in levels:
            levels[key] = candidate_levels(size, labels) if size > 1 else []
        options = [AxisOption(None, np.zeros(len(ways)))]
        result.append(options + [AxisOption(level, _moved(axis, level, ways)) for level in levels[key]])
    return result


def _moved(axis: int, level: CoarseLevel, ways: Sequence[Way]) -> Floats:
    """The share of a level that each way moves; 0 where the axis stays."""
    known = {id(own): own for own in (way[axis] for way in ways) if own is not None}
    shares = {name: level.edge_share(own) for name, own in known.items()}
    return np.array([shares.get(id(way[axis]), 0.0) for way in ways])


@dataclass(frozen=True, eq=False)
class _Search:
    """Coordinate descent over the axes."""

    parts: Sequence[ProductPart]
    given: Choices

    def descend(self, start: float) -> tuple[float, tuple[AxisChoice, ...]]:
        """The summed variance for unit 1 at epsilon 1, and the choices; `start` is what other axes lose at first."""
        choices = [AxisChoice(size, None, 0.0) for size in self.given.shape]
        lost = self.given.moves * start
        values = [[_row_variances(c, rows) for c, rows in zip(choices, p.rows, strict=True)] for p in self.parts]
        error = math.inf
        for _ in range(SWEEPS):
            before = error
            for axis in range(len(self.given.shape)):
                error, choices[axis], lost[:, axis] = self._best_on(axis, values, lost)
                for part, known in zip(self.parts, values, strict=True):
                    known[axis] = _row_variances(choices[axis], part.rows[axis])
            if error > 0.999 * before:
                break
        return error, tuple(choices)

    def _best_on(self, axis: int, values: list[list[Floats]], lost: Floats) -> tuple[float, AxisChoice, Floats]:
        """The error, the choice for one axis and what it loses; each row counts by its queries' other variances."""
        rows = [part.rows[axis] for part in self.parts]
        counts = [part.shares(known, axis) for part, known in zip(self.parts, values, strict=True)]
        trace = float(sum(count @ own.squares() for own, count in zip(rows, counts, strict=True)))
        energies = [own.energies(count) for own, count in zip(rows, counts, strict=True)]
        kept = np.prod(1 - np.delete(lost, axis, axis=1), axis=1)[:, None]
        # Products over many axes must stay below the limit of exact sums.
        grain = 2 ** min(6, 18 // len(self.given.shape))
        found = []
        for option in self.given.options[axis]:
            level, shares, spread = option.level, np.zeros(1), np.array([trace])
            if level is not None:
                vectors = level.spectrum[1]
                summed = np.sum([energy(vectors) for energy in energies], axis=0)
                shares, spread = SHARES, level.total_variances(summed, trace, SHARES)
            own_loss = self.given.moves[:, axis, None] * (1 - shares * (1 - option.moved[:, None]))
            error = _loss(kept * (1 - own_loss), self.given.leaves) ** 2 * spread
            place = int(np.argmin(error))
            choice = AxisChoice(self.given.shape[axis], level, float(shares[place]), grain)
            found.append((float(error[place]), choice, own_loss[:, place]))
        return min(found, key=lambda one: one[0])


def _loss(kept: Floats, leaves: bool) -> Floats:
    """The worst loss when all column norms are 1 and each way keeps the given part of the weight."""
    value: Floats = 2 * (1 - kept).max(axis=0, initial=0.0)
    return np.maximum(value, 1.0) if leaves else value


def _row_variances(choice: AxisChoice, rows: AxisRows) -> Floats:
    """The least-squares variance of each row when the column norm of the axis is 1."""
    fine, coarse = choice.weights
    norm = fine + (0 if choice.level is None else coarse * choice.level.height)
    return rows.quadratic(choice.covariance) * norm**2
