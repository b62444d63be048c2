"""Neighbouring tables from the definitions alone: a record moves, appears or vanishes, or a set that facts tie does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.audit.definitions import Record, codes, group_of, holds, moves
from blowfishdb.audit.fact_changes import minimal_sets, signatures
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.values import MarginalFact, RowsFact
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate, atoms

Place = Hashable
"""Where the question counts a record: its groups, or None where it does not count."""
MOST_RECORDS = 64
"""Up to this many different records all pairs of them are tried; beyond, a sample with the ends of every attribute."""


@dataclass(frozen=True)
class Change:
    """What differs between two neighbouring tables: these records become those; None is absence."""

    before: tuple[Record | None, ...]
    after: tuple[Record | None, ...]


@dataclass(frozen=True, eq=False)
class Setting:
    """What is declared and asked: enough to say which records exist, where they count, and which moves are hidden."""

    domain: Domain
    policy: Policy
    axes: tuple[Axis, ...]
    where: Predicate | None
    by_value: bool = False

    @cached_property
    def applied(self) -> Domain:
        """The domain with the special cells of public attributes declared public."""
        return self.policy.applied(self.domain)

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The attributes that the question or a public fact looks at."""
        named = [axis.attribute for axis in self.axes] + [atom.attribute for atom in atoms(self.where)]
        for fact in self.policy.facts:
            if isinstance(fact, MarginalFact):
                named += fact.attributes
            elif not isinstance(fact, RowsFact):
                named += [atom.attribute for atom in atoms(fact.condition)]
        return tuple(name for name in self.domain.names if name in named)

    def is_complete(self, everyone: Sequence[Record]) -> bool:
        """Whether these are all records over the attributes that matter."""
        return len(everyone) == math.prod(self.applied[name].total_size for name in self.used)

    def place(self, record: Record | None) -> Place:
        """The groups of a record, or None; by the values themselves where no groups are asked for."""
        if record is None or holds(self.where, self.applied, record) is not True:
            return None
        if self.by_value:
            own = tuple(record[axis.attribute] for axis in self.axes)
            sizes = [self.domain[axis.attribute].size for axis in self.axes]
            return own if all(code < size for code, size in zip(own, sizes, strict=True)) else None
        groups = tuple(group_of(axis, self.applied[axis.attribute], record[axis.attribute]) for axis in self.axes)
        return None if None in groups else groups


def sample_records(setting: Setting, random: np.random.Generator, most: int = MOST_RECORDS) -> list[Record]:
    """All records over the attributes that matter, or a sample of them; other attributes stay at their first value."""
    own = {name: codes(setting.applied[name]) for name in setting.used} if setting.applied.size <= 10**5 else {}
    still = dict.fromkeys(setting.domain.names, 0)
    if own and int(np.prod([len(listed) for listed in own.values()], dtype=object)) <= most:
        combinations: Iterable[tuple[int, ...]] = itertools.product(*own.values())
        return [{**still, **dict(zip(own, chosen, strict=True))} for chosen in combinations]
    if not setting.used:
        return [still]
    found = {_key(record): record for record in _corners(setting, still, random, most)}
    return list(found.values())


def _corners(setting: Setting, still: Record, random: np.random.Generator, most: int) -> list[Record]:
    """Ends, special cells and random values of every attribute, mixed; then the values beside them."""
    ends: dict[str, list[int]] = {}
    for name in setting.used:
        attribute = setting.applied[name]
        special = [slot.code for slot in attribute.slots]
        inner = [int(random.integers(attribute.size)) for _ in range(4)]
        ends[name] = [0, attribute.size - 1, *inner, *special]
    found = []
    for _ in range(most // 2):
        record = {**still, **{name: int(random.choice(ends[name])) for name in ends}}
        found.append(record)
        name = setting.used[int(random.integers(len(setting.used)))]
        partner = far_partner(setting, record, name, random)
        found.append({**record, name: partner})
    return found


def far_partner(setting: Setting, record: Record, name: str, random: np.random.Generator) -> int:
    """The furthest value of one attribute that one hidden step reaches, among some that are tried."""
    attribute, here = setting.applied[name], record[name]
    tried = [int(code) for code in random.integers(0, attribute.size, 8)]
    steps = [here + side * 2**power for power in range(attribute.size.bit_length()) for side in (1, -1)]
    options = [code for code in (*tried, *steps) if 0 <= code < attribute.size and code != here]
    reached = [code for code in options if moves(setting.applied, setting.policy, record, {**record, name: code})]
    if not reached:
        return here
    furthest: int = max(reached, key=lambda code: abs(code - here))
    side = 1 if furthest > here else -1
    while 0 <= furthest + side < attribute.size and moves(
        setting.applied, setting.policy, record, {**record, name: furthest + side}
    ):
        furthest += side
    return furthest


def _key(record: Record) -> tuple[int, ...]:
    return tuple(record.values())


def changes(setting: Setting, everyone: Sequence[Record], most_together: int = 3) -> list[Change]:
    """One change for every pair of places that a hidden move joins, and sets of changes where facts tie records."""
    if setting.policy.facts and _facts_bind(setting, everyone):
        hidden = setting.policy.presence != "public"
        vertices: list[Record | None] = [*everyone, *([None] if hidden else [])]
        sets = minimal_sets(setting.applied, setting.policy.facts, vertices, most_together, setting.place)
        return [Change(tuple(before for before, _ in pairs), tuple(after for _, after in pairs)) for pairs in sets]
    found: dict[frozenset[Place], Change] = {}
    placed = [(record, setting.place(record)) for record in everyone]
    for (one, here), (two, there) in itertools.combinations(placed, 2):
        ends = frozenset((here, there))
        if len(ends) == 2 and ends not in found and moves(setting.applied, setting.policy, one, two):
            found[ends] = Change((one,), (two,))
    listed = list(found.values())
    if setting.policy.presence != "public":
        counted = {setting.place(one): one for one in everyone if setting.place(one) is not None}
        listed += [Change((one,), (None,)) for one in counted.values()]
    return listed


def _facts_bind(setting: Setting, everyone: Sequence[Record]) -> bool:
    """Whether a hidden change of one record changes a fact."""
    told = signatures(setting.applied, setting.policy.facts, [*everyone, None])
    if setting.policy.presence != "public" and any(entries != told[-1] for entries in told):
        return True
    return any(
        told[i] != told[j] and moves(setting.applied, setting.policy, everyone[i], everyone[j])
        for i, j in itertools.combinations(range(len(everyone)), 2)
    )
