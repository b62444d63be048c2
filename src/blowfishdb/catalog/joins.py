"""Joins as a curator declares them, which tables they protect, and the people behind the rows of a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blowfishdb.errors import CatalogError
from blowfishdb.model.domain import Domain, integers
from blowfishdb.model.policy import Person, Policy, public
from blowfishdb.sources.base import Join
from blowfishdb.sources.ibis_source import IbisSource

PEOPLE = ".people"
"""What follows a dataset's name where its people are asked about, not their rows."""
ROWS = "rows"
FEWEST_ROWS = 100
HINT = "write TABLE on FOREIGN_KEY = KEY gives COLUMN, NAME = COLUMN"
WORDS = re.compile(
    r"\s*(?P<table>\S+)\s+on\s+(?P<foreign_key>[^=]+?)\s*=\s*(?P<key>[^=]+?)\s+gives\s+(?P<given>.+?)\s*", re.IGNORECASE
)


def read_join(words: str) -> Join:
    """The join that the words declare: `patients on patient = id gives age, sex = gender`."""
    parts = WORDS.fullmatch(words)
    if parts is None:
        raise CatalogError(f"{words[:80]!r} is no join; {HINT}")
    attributes: dict[str, str] = {}
    for item in parts["given"].split(","):
        name, _, column = (side.strip() for side in item.partition("="))
        if not name or name in attributes:
            raise CatalogError(f"a join names each attribute that it gives once; {HINT}")
        attributes[name] = column or name
    return Join(parts["table"], parts["foreign_key"], parts["key"], attributes)


def join_words(join: Join) -> str:
    """The words that declare a join."""
    given = ", ".join(name if name == column else f"{name} = {column}" for name, column in join.attributes.items())
    return f"{join.table} on {join.foreign_key} = {join.key} gives {given}"


def write_join(join: Join) -> dict[str, Any]:
    """The table of a join in the configuration."""
    keys = {"table": join.table, "foreign_key": join.foreign_key, "key": join.key}
    return {**keys, "attributes": dict(join.attributes)}


def is_protected(join: Join, policy: Policy) -> bool:
    """Whether a joined table belongs to the people of a dataset, so that it is protected with their rows."""
    return isinstance(policy.unit, Person) and join.foreign_key == policy.unit.id


@dataclass(frozen=True)
class TableRoles:
    """The identities of the tables that a dataset reads: those it protects, and those it takes to be public."""

    main: str
    protected: Mapping[str, str]
    public: Mapping[str, str]

    def clash(self, other: TableRoles) -> str | None:
        """A table that both protect, each in an account of its own, or that one protects and the other does not."""
        mine, theirs = set(self.protected), set(other.protected)
        twice = sorted(mine & (theirs | set(other.public)) | theirs & set(self.public))
        named = {**other.public, **other.protected, **self.public, **self.protected}
        return named[twice[0]] if self.main != other.main and twice else None


def table_roles(policy: Policy, source: IbisSource) -> TableRoles:
    """What a dataset takes each of its tables to be."""
    main = source.identity()
    protected, public = {main: "its own table"}, dict[str, str]()
    for join, identity in source.joined_identities():
        (protected if is_protected(join, policy) else public)[identity] = join.table
    return TableRoles(main, protected, public)


def of_people(name: str, domain: Domain, policy: Policy, joins: Sequence[Join]) -> tuple[Domain, Policy]:
    """What is declared of the people of a dataset: the number of their rows, and what is joined by their id.

    One record stands for one person. The number of a person's rows changes only where the person comes or goes.
    """
    unit = policy.unit
    if not isinstance(unit, Person):
        raise CatalogError(f"{name} protects rows, not people: only a policy with a person has {PEOPLE[1:]}")
    given = {one for join in _of_person(joins, unit) for one in join.attributes if one in domain}
    grids = [grid for grid in policy.joint if given >= set(grid.attributes)]
    apart = {name for grid in policy.joint if grid not in grids for name in grid.attributes}
    attributes = {name: domain[name] for name in domain if name in given - apart}
    if ROWS in attributes:
        raise CatalogError(f"{name}: people cannot be asked about while a joined attribute is called {ROWS}")
    families = {name: policy.family(name) for name in attributes if policy.grid_of(name) is None}
    number = integers(1, max(FEWEST_ROWS, 10 * unit.at_most), null=1)
    people = Policy({**families, ROWS: public()}, composition=policy.composition, presence=policy.presence, joint=grids)
    return Domain(((ROWS, number), *attributes.items())), people


def _of_person(joins: Sequence[Join], unit: Person) -> list[Join]:
    """The tables found by the id of a person, and those found by them."""
    of_person: list[Join] = []
    for join in joins:
        if join.foreign_key == unit.id or any(other.gives(join) for other in of_person):
            of_person.append(join)
    return of_person
