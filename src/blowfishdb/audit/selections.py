"""Exact laws of the selections on few cells and all neighbours, and what publishing a selection cost."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.report import Line, amount, judged
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingPartition
from blowfishdb.mechanisms.data_aware.partition import l1_gate, l1_refinement, worst_bucket
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.model.graphs import CellGraph, Presence, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.noise.sampler import sample, sample_geometric, sample_words
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import WORD_BITS, RefinementNoise, Selection

Outcome = tuple[int, ...]
REMAINDER = 1e-5
"""The chance of the noise of each item that is not enumerated; it counts against a violation."""


def selection_law(
    stage: Selection, counts: Sequence[int], scales: Sequence[float], words: int = 0
) -> dict[Outcome, float]:
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
    law: dict[Outcome, float] = defaultdict(float)
    draws = np.zeros(len(scales), dtype=np.int64)

    def outcome(value: int) -> Outcome:
        draws[swept] = value
        return tuple(int(part) for part in stage.choose(table, np.concatenate([draws, tie])))

    def differs(first: Outcome, value: int) -> bool:
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


def worst_ratio(one: dict[Outcome, float], two: dict[Outcome, float]) -> float:
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

    stage: Selection
    counts: Ints
    draws: Ints
    scales: Floats
    one_sided: bool
    winner: Ints

    @property
    def is_refinement(self) -> bool:
        return isinstance(self.stage.noise, RefinementNoise)

    def wins(self, counts: Ints, draws: Ints) -> bool:
        """Whether the same candidate wins on these counts with this noise."""
        return np.array_equal(self.stage.choose(counts, draws), self.winner)


class WrongSign(Exception):
    """More noise made a candidate lose, where it must only help it."""


def selection_loss(ran: Selected, other: Ints, enough: float = 0.0) -> float:
    """A bound on log P(winner | counts) / P(winner | other counts), either way round, given the rest of the noise.

    The first choice of items that costs no more than `enough` is taken; otherwise the cheapest of all.
    """
    if ran.is_refinement:
        return abs(_log_chance(ran, ran.counts) - _log_chance(ran, other))
    own = _own_items(ran)
    sets: list[tuple[int, ...]] = [(item,) for item in own]
    sets += list(itertools.combinations(own, 2))
    least = math.inf
    for items in sets:
        least = min(least, _loss_of(ran, other, items))
        if least <= enough:
            return least
    # Where not all of its items were tried, not finding a proof shows nothing.
    return enough if len(own) == MOST_OWN else least


def _loss_of(ran: Selected, other: Ints, items: tuple[int, ...]) -> float:
    """What raising these items costs; infinite where raising them without end does not make the winner win."""
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
    own = [item for item in order if ran.wins(ran.counts, _with(ran.draws, item, FAR))]
    if not own:
        raise WrongSign("no item's noise helps the candidate it belongs to")
    decisive = [item for item in own if not ran.wins(ran.counts, _with(ran.draws, item, -FAR))]
    return (decisive or own)[:MOST_OWN]


def _least(is_enough: Callable[[int], bool]) -> int:
    """The least level that is enough, when all above it are; at least -FAR. Searched from 0 outwards."""
    step = 1
    if is_enough(0):
        high = 0
        while step < FAR and is_enough(high - step):
            high, step = high - step, 2 * step
        low = high - step
    else:
        low = 0
        while step < FAR and not is_enough(low + step):
            low, step = low + step, 2 * step
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


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

"""What a bucket pays, in noise scales: the first shows most where noise is right, the second where it is half."""


def window_graph(reach: Ints, presence: Presence = "public") -> CellGraph:
    """Cells in a row, each joined to those after it up to its reach."""
    return CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), presence)


def line_graph(cells: int, presence: Presence = "public") -> CellGraph:
    """Cells in a row, each joined to the next; or rows that may only vanish."""
    return window_graph(np.minimum(np.arange(cells) + 1, cells - 1), presence)


def neighbours_of(counts: Sequence[int], presence: Presence) -> Iterator[tuple[int, ...]]:
    """The tables that one record's step along the line, or its vanishing, makes of this one."""
    for cell, number in enumerate(counts):
        if number == 0:
            continue
        for target in (None,) if presence == "only" else (cell - 1, cell + 1):
            moved = list(counts)
            moved[cell] -= 1
            if target is not None:
                if not 0 <= target < len(counts):
                    continue
                moved[target] += 1
            yield tuple(moved)


def selection_lines(*, quick: bool) -> Iterator[Line]:
    """Every kind of selection under moves and under vanishing rows."""
    presences: tuple[Presence, ...] = ("public", "only")
    for presence in presences:
        graph3, graph2 = line_graph(3, presence), line_graph(2, presence)
        movement = "moves" if presence == "public" else "vanishing rows"
        yield _by_law(f"matching of 2 cells, {movement}", _matching(2, graph2), _tables(2, quick=False), presence)
        if not quick or presence == "public":
            yield _by_law(f"matching of 3 cells, {movement}", _matching(3, graph3), _tables(3, quick=True), presence)
        gate, allowed = gate_of(16, presence, 4 * EPSILON)
        yield _drawn(f"gate of 16 cells, {movement}", gate, presence, allowed, quick=quick)
        graph16, third = line_graph(16, presence), EPSILON / 3
        wide = l1_gate(16, graph16, third, block=4, cap=100, share=0.1)
        yield _drawn(f"gate of 16 cells with a high cap, {movement}", wide, presence, third, quick=quick)
        refinement = l1_refinement(16, graph16, third)
        yield _drawn(f"refinement of 16 cells, {movement}", refinement, presence, third, quick=quick)
        bound = worst_bucket(16, np.zeros(1, dtype=np.int64), graph16, third)
        yield _drawn(f"worst bucket of 16 cells, {movement}", bound, presence, third, quick=quick)
        yield _for_people(movement, presence, {"gate": gate, "refinement": refinement, "worst bucket": bound})


def _for_people(movement: str, presence: Presence, stages: dict[str, Any]) -> Line:
    """Three rows a person must cost three times as much, since all of them may change at once."""
    graph = line_graph(16, presence)
    wrong = [
        f"the {name} costs {amount(stage.epsilon(replace(graph, rows_per_person=3)))}, not three times its price"
        for name, stage in stages.items()
        if stage.epsilon(replace(graph, rows_per_person=3)) < 3 * stage.epsilon(graph)
    ]
    return judged(
        "exact", f"selections for people, {movement}", "price", wrong, "that of all rows of a person", len(stages)
    )


def _tables(cells: int, *, quick: bool) -> list[tuple[int, ...]]:
    """Tables to begin with; on three cells the quick ones are those with the worst neighbours."""
    if quick and cells == 3:
        return [(2, 2, 0), (0, 0, 2)]
    values = (0, 1, 3) if quick else (0, 1, 2, 4)
    listed = list(itertools.product(values, repeat=cells))
    return listed[:: max(1, len(listed) // (7 if quick else 40))]


def _matching(cells: int, graph: CellGraph) -> MatchingPartition:
    ones = np.ones(cells, dtype=np.int64)
    loss = MatchingPartition(ones, Fraction(1), Fraction(2**24)).epsilon(graph) * 2**24
    return MatchingPartition(ones, Fraction(1), loss / EPSILON)


def item_scales(stage: Selection) -> list[float]:
    """The scale of the noise of every item, as it would be drawn."""
    noise = stage.noise
    pairs = zip(noise.weights.tolist(), noise.sizes.tolist(), strict=True)
    return [float(noise.unit / weight) for weight, size in pairs for _ in range(size)]


def drawn_noise(stage: Selection, times: int) -> Ints:
    """Noise as the engine draws it for a stage, a line for each time: that of every item, then words for ties."""
    noise = stage.noise
    draw = sample_geometric if noise.one_sided else sample
    classes = zip(noise.weights.tolist(), noise.sizes.tolist(), strict=True)
    by_class = [draw(noise.unit, weight, size * times).reshape(times, size) for weight, size in classes]
    words = sample_words(noise.tie_words * int(noise.sizes.sum()) * times, WORD_BITS).reshape(times, -1)
    return np.concatenate([*by_class, words], axis=1)


def gate_of(cells: int, presence: Presence, epsilon: Fraction) -> tuple[Any, Fraction]:
    """The stage with which dawa begins, and what it may spend."""
    problem = Problem(line_graph(cells, presence), Identity(cells))
    mechanism = DATA_AWARE["dawa"]
    program = mechanism.program(problem, epsilon)
    return next(mechanism.script(problem, program)).stage, program.allowances[0].epsilon


def _by_law(subject: str, stage: Any, tables: list[tuple[int, ...]], presence: Presence) -> Line:
    """The largest ratio of any outcome between any two neighbouring tables, against epsilon."""
    known: dict[tuple[int, ...], dict[Outcome, float]] = {}
    scales = item_scales(stage)
    words = stage.noise.tie_words * len(scales)

    def law(counts: tuple[int, ...]) -> dict[Outcome, float]:
        if counts not in known:
            known[counts] = selection_law(stage, counts, scales, words)
        return known[counts]

    worst, tried = 0.0, 0
    violations: list[str] = []
    for counts in tables:
        for moved in neighbours_of(counts, presence):
            ratio = worst_ratio(law(counts), law(moved))
            worst, tried = max(worst, ratio), tried + 1
            if ratio > float(EPSILON) + SLACK:
                violations.append(f"an outcome is e^{amount(ratio)} times likelier on {counts} than on {moved}")
    summary = f"largest log-ratio {amount(worst)} of {amount(EPSILON)}"
    return judged("exact", subject, "every outcome", violations, summary, tried)


def _drawn(subject: str, stage: Any, presence: Presence, epsilon: Fraction, *, quick: bool) -> Line:
    """The loss of outcomes that were drawn, on tables that are even, uneven, steep or have a peak.

    For gates and refinements it is their exact ratio, also where everything or nothing is cut, however rare; for a
    winner among items, that given the noise of the others.
    """
    shapes: list[Callable[[int], int]] = [
        lambda i: i // 9 + 3,
        lambda i: 9 * (i % 2),
        lambda i: 40 * (i == 3),
        lambda i: i,
    ]
    worst, tried = 0.0, 0
    violations: list[str] = []
    for shape in shapes:
        counts = tuple(shape(i) for i in range(stage.cells))
        listed = list(neighbours_of(counts, presence))
        for moved in listed[:: 2 if quick else 1]:
            for ran in _runs(stage, np.array(counts, dtype=np.int64), 2 if quick else 6):
                loss = selection_loss(ran, np.array(moved, dtype=np.int64))
                worst, tried = max(worst, loss), tried + 1
                if loss > float(epsilon) + SLACK:
                    given = "" if ran.is_refinement else "given the noise of the others "
                    violations.append(f"{given}an outcome is e^{amount(loss)} times likelier on one of two neighbours")
    summary = f"largest log-ratio {amount(worst)} of {amount(epsilon)}"
    return judged("exact", subject, "outcomes that were drawn", violations, summary, tried)


def _runs(stage: Selection, counts: Ints, times: int) -> Iterator[Selected]:
    scales, one_sided = np.array(item_scales(stage)), stage.noise.one_sided
    drawn = list(drawn_noise(stage, times))
    if isinstance(stage.noise, RefinementNoise):
        drawn += [np.full(scales.size, FAR), np.full(scales.size, -FAR)]
    for draws in drawn:
        yield Selected(stage, counts, draws, scales, one_sided, stage.choose(counts, draws))
