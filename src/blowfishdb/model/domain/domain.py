"""The declared table: an ordered list of named attributes, never inferred from data and never written out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from blowfishdb.errors import DomainError, InvalidInput, QueryError
from blowfishdb.model.domain.base import Attribute, is_storable
from blowfishdb.model.domain.categorical import categorical
from blowfishdb.model.numbers import suggest


@dataclass(frozen=True)
class Domain:
    """What a record may be: one value of every attribute."""

    attributes: tuple[tuple[str, Attribute], ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute")
        for name, attribute in self.attributes:
            if not isinstance(name, str) or not name:
                raise DomainError(f"the name of an attribute is a non-empty text, not {name!r}")
            if not is_storable(name):
                raise DomainError(f"the name {name!r} holds a character that no engine takes in a statement")
            if not isinstance(attribute, Attribute):
                raise DomainError(f"{name} must be declared as integers, bins, dates, timestamps or categorical")
        if len(set(self.names)) != len(self.names):
            raise DomainError("every attribute has a name of its own")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    @property
    def size(self) -> int:
        """How many different records there can be, special cells included."""
        return math.prod(attribute.total_size for _, attribute in self.attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Attribute:
        return self.find(name)

    def find(self, name: str, error: type[InvalidInput] = QueryError) -> Attribute:
        """The attribute of that name, or an error that names the nearest one."""
        for known, attribute in self.attributes:
            if known == name:
                return attribute
        raise error(f"there is no attribute {name!r}; {suggest(name, self.names)}")

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of the named attributes alone, in the given order."""
        return Domain(tuple((name, self.find(name, DomainError)) for name in names))


def domain(attributes: Mapping[str, Attribute | Sequence[str]]) -> Domain:
    """A domain from names and attributes; a plain list of texts stands for a categorical attribute."""
    declared = []
    for name, attribute in attributes.items():
        declared.append((name, attribute if isinstance(attribute, Attribute) else categorical(attribute)))
    return Domain(tuple(declared))
