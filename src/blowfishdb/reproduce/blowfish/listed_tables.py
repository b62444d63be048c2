"""Neighbours under public facts by Definition 4.1 of the Blowfish paper, on domains so small that tables are listed.

Read literally the definition has no neighbours, because the first table itself lies between any two. Here the table
between must differ from the first in some secret.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product

Values = tuple[int, ...]
"""One table: the value of each person."""
Joined = Callable[[int, int], bool]
"""Whether the policy hides two values from each other."""
Fact = Callable[[int], bool]
"""Whether a value counts for a public count."""


def worlds(cells: int, records: int, facts: Sequence[Fact]) -> list[list[Values]]:
    """All tables of so many records, those together of which the facts say the same."""
    found: dict[Values, list[Values]] = defaultdict(list)
    for table in product(range(cells), repeat=records):
        found[tuple(sum(map(fact, table)) for fact in facts)].append(table)
    return list(found.values())


def are_neighbours(one: Values, two: Values, possible: Iterable[Values], joined: Joined) -> bool:
    """Whether no possible table differs from the first in fewer secrets, or in the same with fewer changes."""
    told, changed = secrets(one, two, joined), changes(one, two)
    if not told:
        return False
    for third in possible:
        between = secrets(one, third, joined)
        if between and between < told:
            return False
        if between == told and changes(one, third) < changed:
            return False
    return True


def histogram_sensitivity(cells: int, records: int, facts: Sequence[Fact], joined: Joined) -> int:
    """The largest L1 distance between the histograms of two neighbouring tables of so many records."""
    largest = 0
    for possible in worlds(cells, records, facts):
        for one, two in permutations(possible, 2):
            apart = histogram_distance(one, two)
            if apart > largest and are_neighbours(one, two, possible, joined):
                largest = apart
    return largest


def pair_distance(one: Values, two: Values, cells: int, facts: Sequence[Fact], joined: Joined) -> int:
    """The same for one pair alone: 0 when they are no neighbours, else a lower bound of the sensitivity."""
    possible = next(world for world in worlds(cells, len(one), facts) if one in world)
    is_pair = two in possible and are_neighbours(one, two, possible, joined)
    return histogram_distance(one, two) if is_pair else 0


def histogram_distance(one: Values, two: Values) -> int:
    """How much the counts of all values change, summed."""
    return sum(abs(one.count(value) - two.count(value)) for value in {*one, *two})


def secrets(one: Values, two: Values, joined: Joined) -> frozenset[tuple[int, int, int]]:
    """Who changes along an edge of the policy, from what to what."""
    return frozenset((who, a, b) for who, (a, b) in enumerate(zip(one, two, strict=True)) if joined(a, b))


def changes(one: Values, two: Values) -> frozenset[tuple[int, int]]:
    """Who has which value in one of the tables alone."""
    both = zip(one, two, strict=True)
    return frozenset((who, value) for who, (a, b) in enumerate(both) if a != b for value in (a, b))
