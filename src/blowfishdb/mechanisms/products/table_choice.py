"""Chooses coarse levels and a weight for every combination of levels, by expected error under the policy's loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from blowfishdb.mechanisms.products.axis_levels import AxisChoice, CoarseLevel, component_level
from blowfishdb.mechanisms.products.axis_modes import AxisModes
from blowfishdb.mechanisms.products.axis_rows import AxisRows
from blowfishdb.mechanisms.products.choice import AxisOption, Choices, axis_components
from blowfishdb.mechanisms.products.corrections import ProductRows
from blowfishdb.mechanisms.products.level_table import Levels
from blowfishdb.mechanisms.products.marginal_weights import SHARPNESS, improved_weights
from blowfishdb.mechanisms.products.mode_sums import summed_over_queries
from blowfishdb.mechanisms.products.queries import ProductPart
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph

AXES = 2
MOST_TOTALS = 16
"""With other numbers of axes or more exact totals, weights stay products and least squares goes axis by axis."""

QUERIES = 1000
"""Longer lists of queries are judged by an even choice of this many."""

SWEEPS = 2
GRAIN = 64
LEAST = (0.0, 0.003, 0.03)
"""Combinations with less than this part of the largest weight are left out, where that helps."""

LEAST_CELLS = 0.01
"""The cells keep this part of the largest weight, so that least squares stays well conditioned."""

SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
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
    """One option of an axis with what its rows lose and what the queries weigh on its modes."""

    modes: AxisModes
    lost: Floats
    seen: list[list[Floats]]


def choose_table(
    parts: Sequence[ProductPart], graph: CellGraph, choices: Choices, product: tuple[AxisChoice, ...]
) -> LevelTable | None:
    """The best table found in the neighbourhood of a product; None where tables do not apply."""
    components = axis_components(graph)
    is_closed = graph.has_value_edges and not choices.leaves
    totals = math.prod(int(labels.max()) + 1 for labels in components)
    if len(choices.shape) != AXES or (is_closed and totals > MOST_TOTALS):
        return None
    samples = [part.sample(QUERIES) for part in parts]
    shown = [part.count / max(sample.count, 1) for part, sample in zip(parts, samples, strict=True)]
    search = _Search(samples, shown, choices)
    cases = []
    for axis, options in enumerate(choices.options):
        rows = [_QueryRows.of(part.rows[axis], components[axis] if is_closed else None) for part in samples]
        cases.append([search.case(axis, option, rows) for option in options])
    at = [_place(options, choice.level) for options, choice in zip(choices.options, product, strict=True)]
    return search.best(cases, at, [choice.share for choice in product])


def _place(options: Sequence[AxisOption], level: CoarseLevel | None) -> int:
    return next(place for place, option in enumerate(options) if option.level is level)


@dataclass(frozen=True, eq=False)
class _QueryRows:
    """Rows of queries along one axis, and their averages over its components, which the exact totals tell."""

    rows: AxisRows
    averages: Floats | None
    known: Floats | None

    @staticmethod
    def of(rows: AxisRows, labels: Ints | None) -> _QueryRows:
        if labels is None:
            return _QueryRows(rows, None, None)
        blocks = component_level(labels).blocks.astype(np.float64)
        averages = blocks.T @ (blocks / blocks.sum(axis=1, keepdims=True))
        return _QueryRows(rows, averages, rows.quadratic(averages)[:, None])

    def energies(self, modes: AxisModes) -> list[Floats]:
        """Products within every mode of each row with itself, with its averages, and of these with themselves."""
        own = modes.energies(self.rows)
        if self.averages is None or self.known is None:
            return [own]
        seen, kept = self.rows.times(modes.vectors), self.rows.times(self.averages @ modes.vectors)
        crossed = (seen * kept, kept * kept)
        return [own, *(np.hstack([self.known - both.sum(axis=1, keepdims=True), both]) for both in crossed)]


@dataclass(frozen=True, eq=False)
class _Search:
    """Descent over the axes' options; each query of part i stands for `shown[i]` queries."""

    parts: Sequence[ProductPart]
    shown: Sequence[float]
    given: Choices

    def case(self, axis: int, option: AxisOption, rows: Sequence[_QueryRows]) -> _AxisCase:
        """What one option of an axis means for the queries of every part."""
        modes = AxisModes(self.given.shape[axis], option.level)
        lost = np.stack([self.given.moves[:, axis], option.moved][: len(modes.grams)], axis=1)
        return _AxisCase(modes, lost, [own.energies(modes) for own in rows])

    def best(
        self, cases: Sequence[Sequence[_AxisCase]], at: Sequence[int], shares: Sequence[float]
    ) -> LevelTable | None:
        """Improves each axis in turn from the product with options `at` and these shares, then the weights together."""
        chosen = [own[place] for own, place in zip(cases, at, strict=True)]
        pairs = zip(chosen, shares, strict=True)
        product = _row_products([np.array([[1 - share, share][: len(case.modes.grams)]]) for case, share in pairs])
        known = float(self._errors(chosen, product)[0])
        if known == 0.0:
            return None
        for _ in range(SWEEPS):
            before = chosen
            for axis, own in enumerate(cases):
                tried = [[*chosen[:axis], case, *chosen[axis + 1 :]] for case in own]
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
        found = np.exp(logs - logs.max())
        found[0] = max(found[0], LEAST_CELLS)
        cells = np.arange(found.size) == 0
        tried = np.stack([start, *(np.where((found >= least) | cells, found, 0.0) for least in LEAST)])
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
        for place, (part, shown) in enumerate(zip(self.parts, self.shown, strict=True)):
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
    shares = np.array([[1 - share, share] for share in SHARES])
    counts = [len(case.modes.grams) for case in chosen]
    products = _row_products([shares[:, :count] for count in counts])
    is_pure = np.array([len(set(levels)) == 1 for levels in itertools.product(*map(range, counts))])
    return np.concatenate([products * np.where(is_pure, 1.0, kept) for kept in MIXED])


def _whole(chosen: Sequence[_AxisCase], weights: Floats) -> dict[Levels, int]:
    """Whole weights of the rows of each combination; a coarse row is `height` times as high as a cell."""
    heights = [[1, *([] if case.modes.level is None else [case.modes.level.height])] for case in chosen]
    combinations = list(itertools.product(*(range(len(own)) for own in heights)))
    each = weights / [math.prod(own[at] for own, at in zip(heights, levels, strict=True)) for levels in combinations]
    scaled = np.round(GRAIN * each / each[each > 0].min())
    return {levels: int(weight) for levels, weight in zip(combinations, scaled, strict=True) if weight > 0}
