"""Blowfish paper, sections 4 and 8: neighbours under public constraints, and parallel composition."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from operator import mul

import pytest

from papers.blowfish.sensitivities import (
    Constraint,
    Joined,
    Values,
    are_neighbours,
    changes,
    histogram_distance,
    histogram_sensitivity,
    secrets,
    worlds,
)


def complete(one: int, two: int) -> bool:
    return one != two


def next_to(one: int, two: int) -> bool:
    return abs(one - two) == 1


def differ_in_one_bit(one: int, two: int) -> bool:
    return (one ^ two).bit_count() == 1


def literal_neighbours(one: Values, two: Values, possible: Iterable[Values], joined: Joined) -> bool:
    """Definition 4.1 to the letter: the first table itself may be the one that differs in fewer secrets."""
    told, changed = secrets(one, two, joined), changes(one, two)
    return bool(told) and not any(
        between < told or (between == told and changes(one, third) < changed)
        for third in possible
        for between in [secrets(one, third, joined)]
    )


def graver_norm(columns: Sequence[Sequence[int]], largest: int = 3) -> int:
    """g of the sound bound: the largest L1 norm of a minimal way in which signature changes cancel."""

    def cancels(vector: Sequence[int]) -> bool:
        rows = zip(*columns, strict=True)
        return any(vector) and all(sum(map(mul, vector, row)) == 0 for row in rows)

    kernel = list(filter(cancels, itertools.product(range(-largest, largest + 1), repeat=len(columns))))

    def inside(small: Sequence[int], big: Sequence[int]) -> bool:
        return all(s * b >= 0 and abs(s) <= abs(b) for s, b in zip(small, big, strict=True))

    minimal = [v for v in kernel if not any(w != v and inside(w, v) for w in kernel)]
    return max([2, *(sum(map(abs, v)) for v in minimal)])


def signature_differences(cells: int, counts: Sequence[Constraint]) -> list[tuple[int, ...]]:
    """Differences of the cells' signatures, one of each pair of opposite signs."""
    signatures = {tuple(int(count(cell)) for count in counts) for cell in range(cells)}
    differences = {tuple(b - a for a, b in zip(one, two, strict=True)) for one in signatures for two in signatures}
    return sorted(d for d in differences if d > tuple([0] * len(counts)))


def longest_walk(cells: int, counts: Sequence[Constraint], joined: Joined) -> int:
    """max(alpha, xi) of Theorem 8.2: the longest simple cycle, or simple path from v+ to v-, of its policy graph."""
    source, sink = "v+", "v-"
    arcs: set[tuple[object, object]] = {(source, sink)}
    for a, b in itertools.permutations(range(cells), 2):
        if joined(a, b):
            lowered = [q for q, count in enumerate(counts) if count(a) and not count(b)]
            lifted = [q for q, count in enumerate(counts) if count(b) and not count(a)]
            assert len(lowered) <= 1 and len(lifted) <= 1
            if lowered or lifted:
                arcs.add((*(lowered or [source]), *(lifted or [sink])))
    longest = 0
    for size in range(1, len(counts) + 1):
        for middle in itertools.permutations(range(len(counts)), size):
            steps = set(itertools.pairwise(middle))
            if steps | {(source, middle[0]), (middle[-1], sink)} <= arcs:
                longest = max(longest, size + 1)
            if size > 1 and steps | {(middle[-1], middle[0])} <= arcs:
                longest = max(longest, size)
    return max(longest, 1)


def in_range(low: int, high: int) -> Constraint:
    return lambda cell: low <= cell < high


def bit(position: int) -> Constraint:
    return lambda cell: bool(cell >> position & 1)


def test_definition_4_1_read_literally_has_no_neighbours_at_all() -> None:
    everything = list(itertools.product(range(3), repeat=2))
    pairs = list(itertools.permutations(everything, 2))
    assert not any(literal_neighbours(a, b, everything, complete) for a, b in pairs)
    repaired = {pair for pair in pairs if are_neighbours(pair[0], pair[1], everything, complete)}
    assert repaired == {pair for pair in pairs if len(changes(*pair)) == 2}


ONE_RANGE = [in_range(0, 2)]


def test_corollary_8_3_forgets_one_edge_of_the_path() -> None:
    claimed = 2 * max(len(ONE_RANGE), 1)
    assert histogram_sensitivity(4, 2, ONE_RANGE, complete) == 4 > claimed
    assert 2 * longest_walk(4, ONE_RANGE, complete) == 4
    assert histogram_sensitivity(4, 3, ONE_RANGE, complete) == 4
    assert 2 * graver_norm(signature_differences(4, ONE_RANGE)) == 4


MARGINS = [bit(0), lambda cell: not bit(0)(cell), bit(1), lambda cell: not bit(1)(cell)]


def test_theorem_8_5_fails_for_two_margins_of_a_cube() -> None:
    claimed = 2 * 2
    one, two = (0b000, 0b010, 0b001, 0b111), (0b110, 0b101, 0b011, 0b100)
    possible = next(group for group in worlds(8, 4, MARGINS) if one in group)
    assert two in possible
    assert are_neighbours(one, two, possible, differ_in_one_bit)
    assert histogram_distance(one, two) == 8 > claimed
    assert 2 * longest_walk(8, MARGINS, differ_in_one_bit) == claimed
    assert 2 * min(len(one), graver_norm(signature_differences(8, MARGINS))) == 8


TWO_RANGES = [in_range(0, 2), in_range(5, 7)]


def test_theorem_8_6_fails_for_two_ranges_that_no_edge_joins() -> None:
    claimed = 2 * (1 + 1)
    one, two = (0, 2, 5), (6, 1, 3)
    possible = next(group for group in worlds(8, 3, TWO_RANGES) if one in group)
    assert two in possible
    assert are_neighbours(one, two, possible, next_to)
    assert histogram_distance(one, two) == 6 > claimed
    assert 2 * longest_walk(8, TWO_RANGES, next_to) == claimed
    atoms = [range(2), range(5, 7), [2, 3, 4, 7]]
    assert 2 * sum(len(atom) >= 2 for atom in atoms) == 6
    assert 2 * graver_norm(signature_differences(8, TWO_RANGES)) == 6


@pytest.mark.parametrize("joined", [complete, next_to])
@pytest.mark.parametrize("records", [2, 3])
def test_sound_bounds_hold_over_all_tables(joined: Joined, records: int) -> None:
    for counts in ([in_range(0, 2)], [in_range(0, 1)], [in_range(0, 2), in_range(3, 5)]):
        bound = 2 * min(records, graver_norm(signature_differences(5, counts)))
        assert histogram_sensitivity(5, records, counts, joined) <= bound


def test_theorem_4_3_accepts_a_split_that_costs_two_epsilon() -> None:
    """Two records of {0, 1}, one of which is 1 for certain; each is published with noise of scale 1/epsilon.

    The empty sets of constraints are disjoint subsets of Q that affect only their own part, as the theorem asks.
    """
    possible = [(0, 1), (1, 0)]
    assert are_neighbours(possible[0], possible[1], possible, complete)
    ratio = Fraction(1, 3)

    def chance(answer: Values, table: Values) -> Fraction:
        return (Fraction(1) / 4) * ratio ** sum(abs(a - v) for a, v in zip(answer, table, strict=True))

    answers = list(itertools.product(range(-4, 6), repeat=2))
    worst = max(chance(answer, possible[0]) / chance(answer, possible[1]) for answer in answers)
    assert worst == (1 / ratio) ** 2 > 1 / ratio
    unconstrained = max(chance(answer, (0, 0)) / chance(answer, (0, 1)) for answer in answers)
    assert unconstrained == 1 / ratio
