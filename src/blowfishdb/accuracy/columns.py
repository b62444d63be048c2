"""What the columns of a table are promised: rows by the box of all of them, means and shares by their own noise.

The intervals of an answer divide beta in the same way (docs/proofs/joint.md, "Quotients promised beforehand").
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from blowfishdb.accuracy.candidates import Candidate, ColumnsGuarantee, QuotientColumn, least_passing
from blowfishdb.accuracy.tails import REFERENCE_BETA, ExactTails, Pairs
from blowfishdb.mechanisms.strategy import NO_VARIABLE
from blowfishdb.model.aggregates import AggregateTable, BlockRows, block_alphas, column_alpha
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats
from blowfishdb.noise import distribution

PAIRED = {"mean": ("sum", "count"), "sum": ("sum", "count"), "share": ("part", "whole")}
"""The blocks whose quotient, or weighted sum, a column is."""
FEWEST = 2
"""The number of records from which on the noise of a quotient itself is quoted."""
ONE_MEAN = ColumnsGuarantee((1, 1), (), 1.0, (QuotientColumn(0, (0, 1), (1.0, 1.0), 1),))
"""The promise for a single mean: both of its rows are in one unit."""


def columns_of(table: AggregateTable) -> ColumnsGuarantee | None:
    """How columns are bounded, and promised their tolerances where they have any, else what equal shares of beta give.

    None where no column is a quotient. They are to be kept `together` where another column is read off several rows.
    """
    pairs = {
        place: (roles[PAIRED[one.function][0]], roles[PAIRED[one.function][1]])
        for place, (one, roles) in enumerate(zip(table.aggregates, table.places, strict=True))
        if set(PAIRED.get(one.function, [""])) <= set(roles) and len(set(roles.values())) > 1
    }
    if not pairs:
        return None
    others = [place for place in range(len(table.aggregates)) if place not in pairs]
    boxed = tuple(sorted({block for place in others for block in table.places[place].values()}))
    factors = {place: _factors(table, place, blocks) for place, blocks in pairs.items()}
    if all(one.tolerance is not None for one in table.aggregates):
        wanted = block_alphas(
            [table.aggregates[place] for place in others],
            [table.places[place] for place in others],
            table.blocks,
            table.size,
        )
        reach = min(
            (
                wanted[block] * table.blocks[block].multiplier / table.alpha
                for block in boxed
                if not table.blocks[block].is_exact
            ),
            default=math.inf,
        )
        reaches = {place: _tolerated(table, place) / table.alpha for place in pairs}
    else:
        reach = 1.0
        reaches = {place: part * sum(factors[place]) for place, part in _parts(table, pairs, factors, boxed).items()}
    quotients = tuple(
        QuotientColumn(
            place,
            blocks,
            factors[place],
            table.blocks[blocks[0]].rows.shape[0],
            None if _divisor(table, place) is None else reaches[place],
        )
        for place, blocks in pairs.items()
    )
    sizes = tuple(block.rows.shape[0] for block in table.blocks)
    together = any(len(set(table.places[place].values())) > 1 for place in others)
    return ColumnsGuarantee(sizes, boxed, reach, quotients, together)


def promised_columns(table: AggregateTable) -> ColumnsGuarantee | None:
    """The same; None also where a quotient is taken over a single record, and the box of all rows is promised."""
    columns = columns_of(table)
    is_single = table.size is not None and table.size < FEWEST
    if (
        columns is not None
        and is_single
        and any(table.aggregates[one.column].function != "sum" for one in columns.quotients)
    ):
        return None
    return columns


ROUNDED = 1e-9
"""How far above what was asked a promise may end, by the way there and back in floats alone."""


def column_alphas(table: AggregateTable, alpha: float) -> list[float | None]:
    """How far off each column is at most where a plan keeps `alpha`.

    None for means, spreads and shares where no size is given, or where so small a group may be empty.
    """
    columns = promised_columns(table)
    quotients = {} if columns is None else {one.column: one for one in columns.quotients}
    box = alpha if columns is None else columns.reach * alpha
    alphas: list[float | None] = []
    for place, one in enumerate(table.aggregates):
        if place in quotients:
            reach, divisor = quotients[place].reach, _divisor(table, place)
            alphas.append(
                None if reach is None or divisor is None else reach * alpha / divisor + _rounding(table, place)
            )
        else:
            alphas.append(column_alpha(one, _roles(table, place), box, table.size))
        known, asked = alphas[-1], float(one.tolerance or 0)
        if known is not None and asked < known <= asked * (1 + ROUNDED):
            alphas[-1] = asked
    return alphas


def _roles(table: AggregateTable, place: int) -> dict[str, BlockRows]:
    return {role: table.blocks[block] for role, block in table.places[place].items()}


def usual_error(table: AggregateTable, rmse: float) -> float | None:
    """The typical error of the first column where rows have the given one; of quotients that of the largest."""
    columns = promised_columns(table)
    first = None if columns is None else next((one for one in columns.quotients if one.column == 0), None)
    if first is None:
        return column_alpha(table.aggregates[0], _roles(table, 0), rmse, table.size)
    divisor = _divisor(table, 0)
    return None if divisor is None else math.hypot(*first.factors) * rmse / divisor


def _factors(table: AggregateTable, place: int, blocks: tuple[int, int]) -> tuple[float, float]:
    """What an error of the rows of both blocks counts for in a quotient times its divisor, at the largest ratio."""
    first, second = (table.blocks[block] for block in blocks)
    match table.aggregates[place].function:
        case "mean":
            most = float(first.spread)
        case "sum":
            most = abs(first.offset) + first.inside
        case _:
            most = 1.0
    return float(first.step) / first.multiplier, 0.0 if second.is_exact else most / second.multiplier


def _divisor(table: AggregateTable, place: int) -> float | None:
    """By what an error of a quotient times its divisor is divided for that of the column; None without a size."""
    one, roles = table.aggregates[place], table.places[place]
    if one.function == "sum":
        return float(table.blocks[roles["sum"]].scale)
    if table.size is None:
        return None
    return table.size / one.times if one.function == "share" else float(table.size) * table.blocks[roles["sum"]].scale


def _tolerated(table: AggregateTable, place: int) -> float:
    """How far off a quotient times its divisor may be for its column to keep its tolerance."""
    tolerance = float(table.aggregates[place].tolerance or 0) - _rounding(table, place)
    return tolerance * (_divisor(table, place) or 0.0)


def _rounding(table: AggregateTable, place: int) -> float:
    """How far off a mean is because values are rounded to the cells."""
    if table.aggregates[place].function != "mean":
        return 0.0
    total = table.blocks[table.places[place]["sum"]]
    return total.coarse / total.scale


def _parts(
    table: AggregateTable,
    pairs: Mapping[int, tuple[int, int]],
    factors: Mapping[int, tuple[float, float]],
    boxed: Sequence[int],
) -> dict[int, float]:
    """For each quotient about the part of what the box of its rows allows that its own noise keeps to."""
    noisy = [0 if block.is_exact else block.rows.shape[0] for block in table.blocks]
    rows = sum(noisy[block] for block in boxed)
    if rows == 0 or any(block.block.is_running for block in table.blocks):
        return dict.fromkeys(pairs, 1.0)
    groups = sum(table.blocks[first].rows.shape[0] for first, _ in pairs.values())
    share = 1.0 / (groups + rows)
    left = (1.0 - rows / sum(noisy)) / groups
    is_fair = left >= FAIR * share
    box = -math.log((1.0 / sum(noisy) if is_fair else share) * REFERENCE_BETA)
    each = -math.log((left if is_fair else share) * REFERENCE_BETA)
    parts = {}
    for place in pairs:
        small, large = sorted(factors[place])
        # The tail of two, solved for alpha: of sizes that are alike, or that are not (docs/proofs/accuracy.md).
        apart = -math.log1p(-((small / large) ** 2)) if small < large else math.inf
        more = min(apart, math.log1p((each + 1.0) / 2.0))
        parts[place] = min(1.0, large * (each + more) / ((small + large) * box))
    return parts


def own_scales(candidate: Candidate) -> Floats | None:
    """The scale of each answer's noise variable, where no two answers share one; 0 for exact answers."""
    direct = candidate.strategy.direct
    if direct is None:
        return None
    noisy = direct[direct != NO_VARIABLE]
    if int(np.bincount(noisy).max(initial=0)) > 1:
        return None
    return np.where(direct == NO_VARIABLE, 0.0, candidate.scales(Fraction(1))[direct])


BlockNoise: TypeAlias = tuple[tuple[float, int], ...]
"""The different scales of the noise of a block's rows, 0 for exact ones, each with the number of rows."""


def block_noise(sizes: Sequence[int], scales: Floats | None) -> list[BlockNoise] | None:
    """The noise of each block, where each row has a variable to itself."""
    if scales is None:
        return None
    pieces = [np.unique(piece, return_counts=True) for piece in np.split(scales, np.cumsum(sizes)[:-1])]
    return [tuple(zip(values.tolist(), counts.tolist(), strict=True)) for values, counts in pieces]


def paired_noise(columns: ColumnsGuarantee, noise: Sequence[BlockNoise] | None) -> dict[int, Pairs]:
    """The noise of each quotient, of those whose blocks have noise of one scale each."""
    pairs: dict[int, Pairs] = {}
    if noise is None:
        return pairs
    for place, one in enumerate(columns.quotients):
        first, second = (noise[block] for block in one.blocks)
        if len(first) == len(second) == 1 and first[0][0] > 0:
            pairs[place] = Pairs(np.array([one.factors]), np.array([first[0][0], second[0][0]]))
    return pairs


@dataclass(frozen=True)
class Division:
    """The quotients that are bounded by their own noise, the probability left for each of their groups, and the box.

    Rows that are read off by themselves are within `wide`.
    """

    quotients: frozenset[int]
    each: float
    wide: float


FAIR = 0.5
"""Quotients get at least this part of an equal share of beta: else the box is made wider for them."""


def divide(
    columns: ColumnsGuarantee,
    noise: Sequence[BlockNoise] | None,
    tail: Mapping[int, Callable[[float], float]],
    wide: float,
    beta: float,
) -> Division:
    """How beta is divided between the rows read off the box and the groups of the quotients.

    `wide` is the box of all rows; what the rows that need it leave of beta is for the quotients, and where that is too
    little all get equal shares. A quotient that would be bounded less well than by the box goes back to it. Nothing
    here depends on what was measured.
    """
    chosen = frozenset(tail)
    while chosen and noise is not None:
        others = {block for place, one in enumerate(columns.quotients) if place not in chosen for block in one.blocks}
        boxed = [row for block in others | set(columns.boxed) for row in noise[block] if row[0] > 0]
        groups = sum(columns.quotients[place].count for place in chosen)
        row, each = wide, (beta - _beyond(boxed, wide)) / groups
        share = beta / (groups + sum(count for _, count in boxed))
        if each < FAIR * share:
            row, each = _box(boxed, beta - groups * share), share
        narrow = frozenset(
            place for place in chosen if each > 0 and tail[place](sum(columns.quotients[place].factors) * wide) <= each
        )
        if narrow == chosen:
            return Division(chosen, each, row)
        chosen = narrow
    return Division(frozenset(), 0.0, wide)


def _beyond(boxed: Sequence[tuple[float, int]], wide: float) -> float:
    """A bound on the probability that some row is off by more than a whole number."""
    # P(|X| > w) = 2 q^(w + 1) / (1 + q) <= q^w for whole w, with q = exp(-1 / scale).
    return sum(count * math.exp(-wide / scale) for scale, count in boxed)


def _box(boxed: Sequence[tuple[float, int]], beta: float) -> float:
    """The least whole number that some row exceeds with probability at most beta."""
    high = 1
    while _beyond(boxed, high) > beta:
        high *= 2
    return float(bisect_left(range(high), True, key=lambda wide: _beyond(boxed, wide) <= beta))


@dataclass(frozen=True, eq=False)
class ColumnTails:
    """Whether the columns of a table keep what is promised, where each row has a noise variable to itself.

    They do where all rows are within the box that `every` has, or where beta is divided as for the intervals of the
    answer. A quotient is off by what the sum of both of its variables is, or its divisor comes out below 1 while the
    other number is off by more.
    """

    every: ExactTails
    columns: ColumnsGuarantee

    def least_epsilon(self, alpha: float, beta: float) -> Fraction:
        """The least grid epsilon that keeps the promise."""
        guess = self.every.candidate.plan.unit / Fraction(max(alpha, 1.0))
        return least_passing(lambda epsilon: self.holds(epsilon, alpha, beta), guess)

    def holds(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether this epsilon keeps the promise."""
        return self._keeps(float(self.every.candidate.plan.unit / epsilon), beta)(alpha)

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least whole alpha that holds at this epsilon."""
        return self._least(float(self.every.candidate.plan.unit / epsilon), beta)

    def price(self, beta: float) -> float:
        """alpha times epsilon where noise is so large that rounding does not matter."""
        candidate = self.every.candidate
        return self._least(candidate.coarse_unit, beta) * float(candidate.plan.unit) / candidate.coarse_unit

    def beyond(self, place: int, unit: float, far: float) -> float:
        """A bound on the probability that a quotient is off by more than `far` over its divisor."""
        one, pair = self.columns.quotients[place], self._pairs[place]
        both = pair.tail(far, unit)
        first, second = (unit * scale for scale in pair.scales.tolist())
        if second == 0 or one.factors[1] == 0:
            return both
        alone, half = (
            float(distribution.tail(scale, at))
            for scale, at in ((first, far / one.factors[0]), (second, far / (2.0 * one.factors[1])))
        )
        return both + alone * half / 4.0

    def _least(self, unit: float, beta: float) -> float:
        keeps = self._keeps(unit, beta)
        high = 1
        while not keeps(high):
            high *= 2
        return float(bisect_left(range(high), True, key=keeps))

    def _keeps(self, unit: float, beta: float) -> Callable[[float], bool]:
        """Whether an alpha is kept at this noise; a larger one is as well."""
        columns = self.columns
        wide = self.every.within(unit, beta)
        if columns.together:
            noise = self._noise and [tuple((unit * scale, count) for scale, count in block) for block in self._noise]
            tail = {place: partial(pair.tail, unit=unit) for place, pair in self._pairs.items()}
            division = divide(columns, noise, tail, wide, beta)
        else:
            division = Division(frozenset(self._pairs), beta, self._widest_row(unit, beta))

        def keeps(alpha: float) -> bool:
            if wide <= columns.box * alpha:
                return True
            if columns.boxed and division.wide > columns.reach * alpha:
                return False
            return all(
                self.beyond(place, unit, one.reach * alpha) <= division.each
                if place in division.quotients
                else self._noisy_factors(one) * max(wide, division.wide) <= one.reach * alpha
                for place, one in enumerate(columns.quotients)
                if one.reach is not None
            )

        return keeps

    def _widest_row(self, unit: float, beta: float) -> float:
        """How far off a single row of the boxed blocks is at most."""
        rows = np.zeros(sum(self.columns.sizes), dtype=np.bool_)
        starts = np.cumsum([0, *self.columns.sizes])
        for block in self.columns.boxed:
            rows[starts[block] : starts[block + 1]] = True
        noisy = self.every.direct[rows & (self.every.direct != NO_VARIABLE)]
        weights = np.unique(self.every.candidate.weights[noisy])
        return float(distribution.quantile(unit / weights, beta).max(initial=0))

    def _noisy_factors(self, one: QuotientColumn) -> float:
        """What all noise of a quotient counts for; that of exact blocks is none."""
        return sum(
            factor
            for factor, block in zip(one.factors, one.blocks, strict=True)
            if self._noise is None or any(scale > 0 for scale, _ in self._noise[block])
        )

    @cached_property
    def _pairs(self) -> dict[int, Pairs]:
        return paired_noise(self.columns, self._noise)

    @cached_property
    def _noise(self) -> list[BlockNoise] | None:
        """The noise of each block at unit 1."""
        candidate = self.every.candidate
        scales = own_scales(candidate)
        return block_noise(self.columns.sizes, None if scales is None else scales / float(candidate.plan.unit))
