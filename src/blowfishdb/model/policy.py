"""What is hidden: one graph per attribute, how they compose, whether presence is hidden, and whose rows count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import get_args

from blowfishdb.errors import PolicyError
from blowfishdb.model.cellgraph import Composition, Presence
from blowfishdb.model.constraint_atoms import as_constraints, check_constraints
from blowfishdb.model.constraints import Constraint
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers, is_storable
from blowfishdb.model.families import Family, Full, Grid, Public, ValueGraph, value_graph

FULL = Full()


@dataclass(frozen=True)
class Row:
    """Each row is protected on its own."""


@dataclass(frozen=True)
class Person:
    """All rows of one id are protected together: the first `at_most` of them count, in the order of `order_by`.

    The order must not depend on what is protected: a row key, or a public attribute.
    """

    id: str
    at_most: int
    order_by: str

    def __post_init__(self) -> None:
        if not self.id or not self.order_by:
            raise PolicyError("a person needs the id column and the row key that orders the rows")
        if not is_storable(self.id) or not is_storable(self.order_by):
            raise PolicyError("the id column and the row key hold no character that no engine takes in a statement")
        if isinstance(self.at_most, bool) or not isinstance(self.at_most, int) or self.at_most < 1:
            raise PolicyError(f"at_most is a whole number of rows, at least 1, not {self.at_most!r}")


ROW = Row()


def person(id: str, *, at_most: int, order_by: str) -> Person:
    """Protects up to `at_most` rows of each person together."""
    return Person(id, at_most, order_by)


@dataclass(frozen=True, init=False)
class Policy:
    """The secrets of one table. Attributes that are not named are full().

    composition "record": one record may change every attribute by one step at once; with full() everywhere this is
    differential privacy. "attribute": exactly one attribute changes; over d attributes a whole record then costs up
    to d times epsilon. presence "public": the number of rows is known; "secret": it is hidden as well; "only":
    nothing but presence is hidden (classical add/remove differential privacy). `constraints` are counts of the whole
    table that are public already; texts such as "marginal(sex, state)" or "count(age < 18) = 120" are parsed.
    """

    attributes: Mapping[str, Family]
    composition: Composition
    presence: Presence
    unit: Row | Person
    joint: tuple[Grid, ...]
    constraints: tuple[Constraint, ...]

    def __init__(
        self,
        attributes: Mapping[str, Family] = MappingProxyType({}),
        composition: Composition = "record",
        presence: Presence = "public",
        unit: Row | Person = ROW,
        joint: Iterable[Grid] = (),
        constraints: Iterable[str | Constraint] = (),
    ) -> None:
        parsed = as_constraints(constraints)
        for name, value in (
            ("attributes", MappingProxyType(dict(attributes))),
            ("composition", composition),
            ("presence", presence),
            ("unit", unit),
            ("joint", tuple(joint)),
            ("constraints", parsed),
        ):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name, family in self.attributes.items():
            if not isinstance(family, get_args(Family)):
                raise PolicyError(f"{name} needs a family such as full(), threshold(5) or public(), not {family!r}")
        if any(not isinstance(grid, Grid) for grid in self.joint):
            raise PolicyError("joint is a list of grid([...], theta)")
        if self.composition not in get_args(Composition):
            raise PolicyError(f"composition is 'record' or 'attribute', not {self.composition!r}")
        if self.presence not in get_args(Presence):
            raise PolicyError(f"presence is 'public', 'secret' or 'only', not {self.presence!r}")
        if not isinstance(self.unit, Row | Person):
            raise PolicyError("the unit is ROW or person('id', at_most=..., order_by=...)")
        jointly = [name for grid in self.joint for name in grid.attributes]
        for name in jointly:
            if jointly.count(name) > 1 or name in self.attributes:
                raise PolicyError(f"{name} is in a joint threshold and cannot have another graph")

    @property
    def rows_per_person(self) -> int:
        return self.unit.at_most if isinstance(self.unit, Person) else 1

    def grid_of(self, name: str) -> Grid | None:
        """The joint threshold an attribute belongs to."""
        return next((grid for grid in self.joint if name in grid.attributes), None)

    def family(self, name: str) -> Family:
        """The family of an attribute that is in no joint threshold."""
        return self.attributes.get(name, FULL)

    def graph(self, domain: Domain, name: str) -> ValueGraph:
        """The graph on an attribute's declared values; its special cells are joined to all of them unless public."""
        attribute = domain.find(name, PolicyError)
        known = self._graphs.get(name)
        if known is None or known[0] is not attribute:
            try:
                known = attribute, value_graph(self.family(name), attribute)
            except PolicyError as error:
                raise PolicyError(f"{name}: {error}") from None
            self._graphs[name] = known
        return known[1]

    @cached_property
    def _graphs(self) -> dict[str, tuple[Attribute, ValueGraph]]:
        """The graphs asked for last, each with its attribute: a long list of pairs takes a while to look up."""
        return {}

    def factors(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """The given attributes, those of one joint threshold together, by first appearance."""
        groups: dict[object, list[str]] = {}
        for name in names:
            groups.setdefault(self.grid_of(name) or name, []).append(name)
        return tuple(tuple(group) for group in groups.values())

    def applied(self, domain: Domain) -> Domain:
        """The domain with the special cells of public() attributes declared public: those attributes hide nothing."""
        return Domain(
            tuple(
                (name, attribute.with_public_cells() if isinstance(self.family(name), Public) else attribute)
                for name, attribute in domain.attributes
            )
        )

    def check(self, domain: Domain) -> None:
        """Refuses a policy that does not fit the domain, or constraints that cannot all be true."""
        if self.constraints:
            check_constraints(self.applied(domain), self.constraints)
        for name in self.attributes:
            self.graph(domain, name)
        for grid in self.joint:
            for name in grid.attributes:
                if not isinstance(domain.find(name, PolicyError), Integers | Bins):
                    raise PolicyError(f"{name}: a joint threshold needs integers or numeric bins")
        if isinstance(self.unit, Person):
            if self._is_hidden(self.unit.order_by, domain):
                raise PolicyError(
                    f"rows of a person are ordered by {self.unit.order_by}, which is protected: "
                    "name a row key outside the domain, or declare the attribute public()"
                )
            if self._is_hidden(self.unit.id, domain):
                raise PolicyError(
                    f"people are told apart by {self.unit.id}, which is protected: a row that moved to another person "
                    "would push rows of theirs out. Leave it out of the domain, or declare it public()"
                )

    def _is_hidden(self, name: str, domain: Domain) -> bool:
        is_public = isinstance(self.family(name), Public) and self.grid_of(name) is None
        return name in domain and not is_public
