"""Declarations and questions at random, each so small that every two of its records can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from blowfishdb.audit.neighbours import Setting
from blowfishdb.model.cellgraph import Composition, Presence
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers, bins, categorical, integers
from blowfishdb.model.graphs.families import Family, custom, full, grid, line, partition, public, threshold
from blowfishdb.model.graphs.grid import Metric
from blowfishdb.model.policy import ROW, Person, Policy, Row, person
from blowfishdb.model.predicate import Axis, Both, Column, Either, Negation, Predicate

SIZES: dict[int, tuple[int, int]] = {1: (4, 14), 2: (3, 6), 3: (2, 3)}
"""How many values an attribute has, at least and at most, by the number of attributes."""
COMPOSITIONS: tuple[Composition, ...] = ("record", "attribute")
PRESENCES: tuple[Presence, ...] = ("public", "public", "public", "secret", "only")
METRICS: tuple[Metric, ...] = ("l1", "l2", "linf")
UNITS: tuple[Row | Person, ...] = (ROW, ROW, ROW, person("who", at_most=2, order_by="nr"))
FACTS = ("marginal(x)", "count(x < 2)", "range(x, 1, 2)")
Option = TypeVar("Option")


def one_of(random: np.random.Generator, options: Sequence[Option]) -> Option:
    """One of the options, all as likely."""
    return options[int(random.integers(len(options)))]


def made_up(random: np.random.Generator, *, numeric: bool = False) -> Setting:
    """A domain of one to three attributes, a policy on it and a question; with `numeric`, about columns of numbers."""
    number = int(random.integers(1, 3 if numeric else 4))
    names = ("x", "y", "z")[:number]
    declared = Domain(tuple((name, _attribute(random, number, numeric=numeric)) for name in names))
    policy = made_up_policy(random, declared, with_facts=not numeric)
    asked = names if numeric else names[: int(random.integers(0 if number > 1 else 1, number + 1))]
    axes = tuple(Axis(name) if numeric else _axis(random, name, declared[name]) for name in asked)
    where = _condition(random, declared) if random.random() < 0.5 else None
    return Setting(declared, policy, axes, where, by_value=numeric)


def made_up_places(random: np.random.Generator) -> Setting:
    """Places on a map: two columns of uneven bins under one joint threshold, which is shared out among them."""
    declared = Domain(
        tuple(
            (name, bins(edges=[0, *np.cumsum(random.integers(1, 9, size=6)).tolist()], null=0)) for name in ("x", "y")
        )
    )
    theta, metric = int(random.integers(17, 33)), one_of(random, METRICS)
    policy = Policy(joint=[grid(["x", "y"], theta, metric)], presence=one_of(random, PRESENCES))
    return Setting(declared, policy, (Axis("x"), Axis("y")), None)


def made_up_policy(random: np.random.Generator, declared: Domain, *, with_facts: bool) -> Policy:
    """A policy on the domain; some protect people, some know facts."""
    numbers = [name for name in declared.names if isinstance(declared[name], Integers | Bins)]
    is_joint = len(numbers) > 1 and random.random() < 0.5
    joint = [grid(numbers[:2], _theta(random), one_of(random, METRICS))] if is_joint else []
    own = {name: _family(random, declared[name]) for name in declared.names if not is_joint or name not in numbers[:2]}
    is_short = len(declared.names) == 1 and isinstance(declared["x"], Integers)
    tied = with_facts and is_short and random.random() < 0.25
    return Policy(
        own,
        one_of(random, COMPOSITIONS),
        one_of(random, PRESENCES),
        ROW if tied else one_of(random, UNITS),
        joint,
        [one_of(random, FACTS)] if tied else [],
    )


def _attribute(random: np.random.Generator, number: int, *, numeric: bool) -> Attribute:
    low, high = SIZES[number]
    size = int(random.integers(low, high + 1))
    is_public, has_null, has_outside = (bool(random.random() < 0.4) for _ in range(3))
    kind = one_of(random, ("integers", "bins") if numeric else ("integers", "bins", "categorical"))
    values = [f"v{place}" for place in range(size)]
    edges = [0, *np.cumsum(random.integers(1, 4, size=size)).tolist()]
    null_public, outside_public = is_public and has_null, is_public and has_outside
    if kind == "categorical":
        null, other = "cell" if has_null else "v0", "cell" if has_outside else "v0"
        return categorical(values, null=null, outside=other, null_public=null_public, outside_public=outside_public)
    nothing, beyond = "cell" if has_null else 0, "cell" if has_outside else "clamp"
    if kind == "bins":
        return bins(edges=edges, null=nothing, outside=beyond, null_public=null_public, outside_public=outside_public)
    return integers(0, size - 1, null=nothing, outside=beyond, null_public=null_public, outside_public=outside_public)


def _theta(random: np.random.Generator, *, whole: bool = False) -> str:
    """A distance, whole or not."""
    return one_of(random, ("1", "2", "3", "5") if whole else ("1", "2", "2.5", "3", "4.3", "6"))


def _family(random: np.random.Generator, attribute: Attribute) -> Family:
    options: list[Family] = [full(), public()]
    if isinstance(attribute, Categorical):
        values = list(attribute.values)
        cut = int(random.integers(1, len(values)))
        options += [
            partition([values[::2], values[1::2]]),
            custom([(values[0], values[-1]), (values[cut - 1], values[cut])]),
        ]
    else:
        near = threshold(_theta(random, whole=isinstance(attribute, Integers)))
        options += [line(), near, near]
    if isinstance(attribute, Integers):
        first, second = int(random.integers(attribute.size - 1)), int(random.integers(1, attribute.size))
        options += [partition(cuts=[second]), custom([(first, attribute.high), (0, second)])]
    return one_of(random, options)


def _axis(random: np.random.Generator, name: str, attribute: Attribute) -> Axis:
    """The values themselves, or groups of them; some leave values out."""
    if isinstance(attribute, Integers) and random.random() < 0.5:
        inner = int(random.integers(1, attribute.size))
        return one_of(
            random,
            (Axis(name, width=2), Axis(name, edges=(0, inner, attribute.size)), Axis(name, edges=(1, inner + 1))),
        )
    return Axis(name)


def _condition(random: np.random.Generator, declared: Domain) -> Predicate:
    """One comparison, or two of them put together."""
    first, second = _comparison(random, declared), _comparison(random, declared)
    return one_of(random, (first, Both(first, second), Either(first, second), Negation(Both(first, second))))


def _comparison(random: np.random.Generator, declared: Domain) -> Predicate:
    name = one_of(random, declared.names)
    attribute, column = declared[name], Column(name)
    options: tuple[Predicate, ...] = (column.is_null(), Negation(column.is_null()))
    if isinstance(attribute, Categorical):
        value = one_of(random, attribute.values)
        options = (column == value, column.isin([value, attribute.values[0]]), Negation(column == value))
    elif isinstance(attribute, Bins):
        edge = attribute.edge(int(random.integers(1, attribute.size)))
        options = (column < edge, column >= edge, Negation(column < edge))
    elif isinstance(attribute, Integers):
        number = int(random.integers(1, attribute.size))
        options += (column < number, column <= number - 1, column >= number, column == number)
    return one_of(random, options)
