"""Neighbours under public facts: minimal sets of records whose change, all at once, keeps every fact."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

from blowfishdb.audit.definitions import Record, holds
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.values import CountFact, Fact, MarginalFact, RangeFact

Pair = tuple[Record | None, Record | None]
Told = tuple[int, ...]
MOST_PAIRS = 60
"""Among more different changes than this, sets of three are not looked for."""
MOST_SETS = 1500


def signatures(domain: Domain, facts: Sequence[Fact], vertices: Sequence[Record | None]) -> list[Told]:
    """What each fact counts of each record; a marginal has an entry for every combination of values that occurs."""
    columns: list[list[int]] = []
    for fact in facts:
        if isinstance(fact, MarginalFact):
            own = [None if v is None else tuple(v[name] for name in fact.attributes) for v in vertices]
            columns += [[int(cell == wanted) for cell in own] for wanted in sorted({c for c in own if c is not None})]
        elif isinstance(fact, CountFact | RangeFact):
            columns.append([int(v is not None and holds(fact.condition, domain, v) is True) for v in vertices])
        else:
            columns.append([int(v is not None) for v in vertices])
    return [tuple(column[place] for column in columns) for place in range(len(vertices))]


def minimal_sets(
    domain: Domain,
    facts: Sequence[Fact],
    vertices: Sequence[Record | None],
    most: int,
    place: Callable[[Record | None], Hashable],
) -> list[tuple[Pair, ...]]:
    """Sets of up to `most` changes that cancel in every fact while no part of them does.

    Under facts any two records count as joined: the policy's own graph gives no benefit there.
    """
    told = signatures(domain, facts, vertices)
    different: dict[Hashable, tuple[Told, Pair]] = {}
    for i, j in itertools.permutations(range(len(vertices)), 2):
        step = tuple(b - a for a, b in zip(told[i], told[j], strict=True))
        key = (place(vertices[i]), place(vertices[j]), step)
        if key[0] != key[1] or any(step):
            different.setdefault(key, (step, (vertices[i], vertices[j])))
    steps = list(different.values())
    found = [(pair,) for step, pair in steps if not any(step)]
    moving = [(step, pair) for step, pair in steps if any(step)]
    by_step: dict[Told, list[int]] = defaultdict(list)
    for number, (step, _) in enumerate(moving):
        by_step[step].append(number)
    sized: list[Iterator[tuple[int, ...]]] = [_pairs(moving, by_step)] if most >= 2 else []
    if most >= 3 and len(moving) <= MOST_PAIRS:
        sized.append(_triples(moving, by_step))
    listed = [
        tuple(moving[number][1] for number in chosen) for chosen in itertools.islice(itertools.chain(*sized), MOST_SETS)
    ]
    return [*found, *listed]


def _pairs(moving: list[tuple[Told, Pair]], by_step: dict[Told, list[int]]) -> Iterator[tuple[int, ...]]:
    for first, (step, _) in enumerate(moving):
        for second in by_step.get(_minus(step), ()):
            if second >= first:
                yield first, second


def _triples(moving: list[tuple[Told, Pair]], by_step: dict[Told, list[int]]) -> Iterator[tuple[int, ...]]:
    for first, second in itertools.combinations_with_replacement(range(len(moving)), 2):
        both = tuple(a + b for a, b in zip(moving[first][0], moving[second][0], strict=True))
        if any(both):
            for third in by_step.get(_minus(both), ()):
                if third >= second:
                    yield first, second, third


def _minus(step: Told) -> Told:
    return tuple(-entry for entry in step)
