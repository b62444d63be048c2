"""Selections: their exact laws on few cells, and the loss of one that ran."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.report import CheckLine, Losses, amount, judged
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingPartition
from blowfishdb.mechanisms.data_aware.partition import (
    l1_gate,
    l1_refinement,
    range_refinement,
    worst_bucket,
)
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.graphs import CellGraph, Presence, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.noise.sampler import sample, sample_geometric, sample_words
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import WORD_BITS, RefinementNoise, SelectionStage

SelectionOutcome = tuple[int, ...]
REMAINDER = 1e-5
"""The chance of the noise of each item that is not enumerated; it counts against a violation."""


def selection_law(
    stage: SelectionStage, counts: Sequence[int], scales: Sequence[float], words: int = 0
) -> dict[SelectionOutcome, float]:
    """The chance of each outcome; together they fall short of 1 by what was left out.

    The item with the most noise is not gone through: as its noise grows the outcome changes once at most.
    """
    limits = [math.ceil(-scale * math.log(REMAINDER)) for scale in scales]
    chances = [
        -math.expm1(-1.0 / scale) * np.exp(-np.arange(most + 1) / scale)
        for scale, most in zip(scales, limits, strict=True)
    ]
    swept = int(np.argmax(scales))
    swept_law = NoiseLaw(scales[swept], two_sided=False)
    others = [place for place in range(len(scales)) if place != swept]
    table = np.array(counts, dtype=np.int64)
    tie = np.arange(1, words + 1, dtype=np.int64) * 7919
    law: dict[SelectionOutcome, float] = defaultdict(float)
    draws = np.zeros(len(scales), dtype=np.int64)

    def outcome(value: int) -> SelectionOutcome:
        draws[swept] = value
        return tuple(int(part) for part in stage.choose(table, np.concatenate([draws, tie])))

    def differs(first: SelectionOutcome, value: int) -> bool:
        return outcome(value) != first

    for values in itertools.product(*(range(limits[place] + 1) for place in others)):
        draws[others] = values
        chance = math.prod(float(chances[place][value]) for place, value in zip(others, values, strict=True))
        if chance < REMAINDER * REMAINDER:
            continue
        first, last = outcome(0), outcome(limits[swept])
        beyond = 0.0 if first == last else swept_law.at_least(_least(partial(differs, first)))
        law[first] += chance * (1.0 - beyond)
        law[last] += chance * beyond
    return dict(law)


def worst_ratio(one: dict[SelectionOutcome, float], two: dict[SelectionOutcome, float]) -> float:
    """A certain lower bound of the largest log-ratio of an outcome's chances, either way round."""
    missing = [1.0 - sum(law.values()) + 1e-12 for law in (one, two)]
    worst = 0.0
    for first, second, left_out in ((one, two, missing[1]), (two, one, missing[0])):
        for outcome, chance in first.items():
            if chance > 10 * left_out:
                worst = max(worst, math.log(chance / (second.get(outcome, 0.0) + left_out)))
    return worst


FAR = 2**40
"""Noise that decides every comparison of the audit's small tables."""
MOST_ITEMS = 512
MOST_OWN = 40
HAIR = 1e-6
SLACK = 2e-6
"""Room for the rounding of logarithms and of shares."""


@dataclass(frozen=True, eq=False)
class Selected:
    """A selection that ran: its noise by item with the scales that were drawn, and what won."""

    stage: SelectionStage
    counts: Ints
    draws: Ints
    scales: Floats
    one_sided: bool
    winner: Ints

    def wins(self, counts: Ints, draws: Ints) -> bool:
        """Whether the same candidate wins on these counts with this noise."""
        return np.array_equal(self.stage.choose(counts, draws), self.winner)


class WrongSign(Exception):
    """More noise made a candidate lose, where it must only help it."""


def selection_loss(ran: Selected, other: Ints, enough: float = 0.0) -> float:
    """A bound on log P(winner | counts) / P(winner | other counts), either way round, given the rest of the noise.

    The first choice of items that costs no more than `enough` is taken; otherwise the cheapest of all.
    """
    if isinstance(ran.stage.noise, RefinementNoise):
        return abs(_log_chance(ran, ran.counts) - _log_chance(ran, other))
    mine = _own_items(ran)
    least = math.inf
    for items in itertools.chain(itertools.combinations(mine, 1), itertools.combinations(mine, 2)):
        least = min(least, _loss_of(ran, other, items))
        if least <= enough:
            return least
    # Where not all of its items were tried, not finding a proof shows nothing.
    return enough if len(mine) == MOST_OWN else least


def _loss_of(ran: Selected, other: Ints, items: tuple[int, ...]) -> float:
    """The cost of raising these items; infinite where raising them without end does not make the winner win."""
    scales = ran.scales[list(items)]
    shares = scales / float(scales.max())
    if not ran.wins(other, _raised(ran.draws, items, shares, FAR)):
        return math.inf

    def wins_at(counts: Ints, level: int) -> bool:
        return ran.wins(counts, _raised(ran.draws, items, shares, level))

    levels = [_least(partial(wins_at, counts)) for counts in (ran.counts, other)]
    if ran.one_sided and len(items) == 1:
        # Noise below 0 never occurs, so it need not be told apart.
        levels = [max(level, -int(ran.draws[items[0]])) for level in levels]
    return float(
        sum(_shift(share, abs(levels[1] - levels[0])) / scale for share, scale in zip(shares, scales, strict=True))
    )


def _shift(share: float, level: int) -> int:
    """The item's part of a level, in whole steps; a hair is left for the rounding of shares."""
    return math.ceil(share * level - HAIR * abs(level) - HAIR)


def _raised(draws: Ints, items: tuple[int, ...], shares: Floats, level: int) -> Ints:
    changed = draws.copy()
    for item, share in zip(items, shares.tolist(), strict=True):
        changed[item] += _shift(share, level)
    return changed


def _with(draws: Ints, item: int, value: int) -> Ints:
    changed = draws.copy()
    changed[item] = value
    return changed


def _own_items(ran: Selected) -> list[int]:
    """The items that the winner consists of: it wins however much noise they get, and loses where they get too little.

    Where none decides, because all candidates share it or none is near, the first condition has to do.
    """
    order = np.argsort(-ran.scales, kind="stable")[:MOST_ITEMS].tolist()
    items = [item for item in order if ran.wins(ran.counts, _with(ran.draws, item, FAR))]
    if not items:
        raise WrongSign("no item's noise helps the candidate it belongs to")
    decisive = [item for item in items if not ran.wins(ran.counts, _with(ran.draws, item, -FAR))]
    return (decisive or items)[:MOST_OWN]


def _least(is_enough: Callable[[int], bool]) -> int:
    """The least level that is enough, when all above it are; at least -FAR. Searched from 0 outwards."""
    is_below, place, step = is_enough(0), 0, 1
    side = -1 if is_below else 1
    while step < FAR and is_enough(place + side * step) == is_below:
        place, step = place + side * step, 2 * step
    low, high = sorted((place, place + side * step))
    return low + 1 + bisect_left(range(low + 1, high), True, key=is_enough)


def _log_chance(ran: Selected, counts: Ints) -> float:
    """The log of the chance of the outcome: a product over the items whose noise matters for it."""
    decided = ran.draws.copy()
    sides: dict[int, int] = {}
    for item in range(ran.draws.size):
        up = ran.wins(ran.counts, _with(ran.draws, item, FAR))
        down = ran.wins(ran.counts, _with(ran.draws, item, -FAR))
        if up != down:
            sides[item] = 1 if up else -1
            decided[item] = FAR if up else -FAR
    if not ran.wins(counts, decided):
        return -math.inf

    def wins_with(item: int, side: int, value: int) -> bool:
        return ran.wins(counts, _with(decided, item, side * value))

    total = 0.0
    for item, side in sides.items():
        limit = _least(partial(wins_with, item, side))
        # The noise is symmetric, so both sides ask for P(noise >= limit).
        total += NoiseLaw(float(ran.scales[item])).log_at_least(limit)
    return total


EPSILON = Fraction(6)
"""Large, so that noise is small and can be enumerated; the formulas under test are those of every epsilon."""
NONE = np.empty(0, dtype=np.int64)
TABLES: dict[int, list[tuple[int, ...]]] = {
    2: list(itertools.product((0, 1, 2, 4), repeat=2)),
    3: [(2, 2, 0), (0, 0, 2)],
}
"""Tables to begin with, by the number of cells; those of three cells have the worst neighbours."""


def window_graph(reach: Ints, presence: Presence = "public") -> CellGraph:
    """Cells in a row, each joined to those after it up to its reach."""
    return CellGraph((WindowGraph(reach, NONE),), "record", np.array(False), presence)


def line_graph(cells: int, presence: Presence = "public") -> CellGraph:
    """Cells in a row, each joined to the next; or rows that may only vanish."""
    return window_graph(np.minimum(np.arange(cells) + 1, cells - 1), presence)


def neighbours_of(counts: Sequence[int] | Ints, presence: Presence) -> Iterator[tuple[int, ...]]:
    """The tables that one record's step along the line, or its vanishing, makes of this one."""
    unit = np.eye(len(counts) + 1, dtype=np.int64)[:, :-1]
    for cell in np.flatnonzero(counts).tolist():
        # The last of the unit vectors is 0: there a record vanishes.
        beside = [target for target in (cell - 1, cell + 1) if 0 <= target < len(counts)]
        for target in [-1] if presence == "only" else beside:
            yield tuple((np.asarray(counts) - unit[cell] + unit[target]).tolist())


def selection_checks(*, quick: bool) -> dict[str, Callable[[], CheckLine]]:
    """Every kind of selection under moves and under vanishing rows, by the subject of its line."""
    checks: dict[str, Callable[[], CheckLine]] = {}
    presences: tuple[Presence, ...] = ("public", "only")
    for presence in presences:
        movement, graph, third = (
            "moves" if presence == "public" else "vanishing rows",
            line_graph(16, presence),
            EPSILON / 3,
        )
        for cells in (2,) if quick and presence == "only" else (2, 3):
            name, stage = f"matching of {cells} cells, {movement}", _matching(line_graph(cells, presence))
            checks[name] = partial(_by_law, name, stage, TABLES[cells][: 1 if quick and cells == 3 else None], presence)
        gate, allowed = gate_of(presence, 4 * EPSILON)
        refinement = l1_refinement(16, graph, third)
        bound = worst_bucket(16, np.zeros(1, dtype=np.int64), graph, third)
        drawn: dict[str, tuple[SelectionStage, Fraction]] = {
            "gate of 16 cells": (gate, allowed),
            "gate of 16 cells with a high cap": (l1_gate(16, graph, third, block=4, cap=100, share=0.1), third),
            "gate of 16 cells for ranges": (l1_gate(16, graph, third, 8, cap=100, share=0.1, running=True), third),
            "refinement of 16 cells": (refinement, third),
            "refinement of 16 cells for ranges": (range_refinement(16, graph, third), third),
            "worst bucket of 16 cells": (bound, third),
        }
        for label, (selection, spent) in drawn.items():
            name = f"{label}, {movement}"
            checks[name] = partial(_drawn, name, selection, presence, spent, quick=quick)
        stages = {"gate": gate, "refinement": refinement, "worst bucket": bound}
        checks[f"selections for people, {movement}"] = partial(_for_people, movement, presence, stages)
    return checks


def _for_people(movement: str, presence: Presence, stages: dict[str, Any]) -> CheckLine:
    """Three rows a person must cost three times as much, since all of them may change at once."""
    alone = line_graph(16, presence)
    three = replace(alone, rows_per_person=3)
    wrong = [
        f"the {name} costs {amount(stage.epsilon(three))}, not three times its price"
        for name, stage in stages.items()
        if stage.epsilon(three) < 3 * stage.epsilon(alone)
    ]
    return judged(f"selections for people, {movement}", "price", wrong, "that of all rows of a person", len(stages))


def _matching(graph: CellGraph) -> MatchingPartition:
    ones = np.ones(graph.cells, dtype=np.int64)
    loss = MatchingPartition(ones, Fraction(1), Fraction(2**24)).epsilon(graph) * 2**24
    return MatchingPartition(ones, Fraction(1), loss / EPSILON)


def item_scales(stage: SelectionStage) -> list[float]:
    """The scale of the noise of every item, as it would be drawn."""
    noise = stage.noise
    pairs = zip(noise.weights.tolist(), noise.sizes.tolist(), strict=True)
    return [float(noise.unit / weight) for weight, size in pairs for _ in range(size)]


def drawn_noise(stage: SelectionStage, times: int) -> Ints:
    """Noise as the engine draws it for a stage, a line for each time: that of every item, then words for ties."""
    noise = stage.noise
    draw = sample_geometric if noise.one_sided else sample
    classes = zip(noise.weights.tolist(), noise.sizes.tolist(), strict=True)
    by_class = [draw(noise.unit, weight, size * times).reshape(times, size) for weight, size in classes]
    words = sample_words(noise.tie_words * int(noise.sizes.sum()) * times, WORD_BITS).reshape(times, -1)
    return np.concatenate([*by_class, words], axis=1)


def gate_of(presence: Presence, epsilon: Fraction) -> tuple[Any, Fraction]:
    """The stage with which dawa begins on 16 cells, and what it may spend."""
    problem = Problem(line_graph(16, presence), Identity(16))
    mechanism = DATA_AWARE["dawa"]
    program = mechanism.program(problem, epsilon)
    return next(mechanism.script(problem, program)).stage, program.allowances[0].epsilon


def _by_law(subject: str, stage: Any, tables: Sequence[tuple[int, ...]], presence: Presence) -> CheckLine:
    """The largest ratio of any outcome between any two neighbouring tables, against epsilon."""
    scales = item_scales(stage)

    @cache
    def law(counts: tuple[int, ...]) -> dict[SelectionOutcome, float]:
        return selection_law(stage, counts, scales, stage.noise.tie_words * len(scales))

    losses = Losses(SLACK)
    for counts in tables:
        for moved in neighbours_of(counts, presence):
            ratio = worst_ratio(law(counts), law(moved))
            losses.compare(f"log-ratio of an outcome on {counts} and {moved}", ratio, EPSILON)
    return _line(subject, "every outcome", losses, EPSILON)


def _line(subject: str, check: str, losses: Losses, claimed: Fraction) -> CheckLine:
    summary = f"largest log-ratio {amount(losses.worst)} of {amount(claimed)}"
    return judged(subject, check, losses.violations, summary, losses.tried)


def _drawn(subject: str, stage: Any, presence: Presence, epsilon: Fraction, *, quick: bool) -> CheckLine:
    """The loss of outcomes that were drawn, on tables that are even, uneven, steep or have a peak.

    For gates and refinements it is their exact ratio, also where everything or nothing is cut, however rare; for a
    winner among items, that given the noise of the others.
    """
    cells, losses = np.arange(stage.cells), Losses(SLACK)
    for counts in (cells // 9 + 3, 9 * (cells % 2), 40 * (cells == 3), cells):
        for moved in list(neighbours_of(counts, presence))[:: 3 if quick else 1]:
            for ran in _runs(stage, counts, 2 if quick else 6):
                losses.compare("log-ratio of an outcome", selection_loss(ran, np.array(moved)), epsilon)
    return _line(subject, "outcomes that were drawn", losses, epsilon)


def _runs(stage: SelectionStage, counts: Ints, times: int) -> Iterator[Selected]:
    scales, one_sided = np.array(item_scales(stage)), stage.noise.one_sided
    drawn = list(drawn_noise(stage, times))
    if isinstance(stage.noise, RefinementNoise):
        drawn += [np.full(scales.size, FAR), np.full(scales.size, -FAR)]
    for draws in drawn:
        yield Selected(stage, counts, draws, scales, one_sided, stage.choose(counts, draws))
