"""The policy graph written out record by record, from the definitions alone, and its projection on cells.

Nothing here uses the graphs, projections or filters that answers are made with: it is what those are compared with.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.calendar import SECONDS, Duration, periods_of_days
from blowfishdb.model.domain import Attribute, Bins, Dates, Domain, Integers, Timestamps
from blowfishdb.model.domain.timestamps import find_zone
from blowfishdb.model.graphs.families import Custom, Family, Full, Line, Partition, Public, Threshold
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import (
    Atom,
    Axis,
    Both,
    Comparison,
    Either,
    IsNull,
    Member,
    Negation,
    Predicate,
)

Record = dict[str, int]
Cell = tuple[int, ...]
OUTSIDE = "outside"


def codes(attribute: Attribute) -> list[int]:
    """Every value and special cell of an attribute, by its code."""
    return [*range(attribute.size), *(slot.code for slot in attribute.slots)]


def interval(attribute: Attribute, code: int) -> tuple[Fraction, Fraction]:
    """Where a declared value lies: one point, or a bin."""
    if isinstance(attribute, Bins):
        return attribute.edge(code), attribute.edge(code + 1)
    if isinstance(attribute, Integers):
        return Fraction(attribute.low + code), Fraction(attribute.low + code)
    return Fraction(code), Fraction(code)


def gap(attribute: Attribute, one: int, two: int) -> Fraction:
    """How far two declared values lie apart at least, in the attribute's own units."""
    (a, b), (c, d) = interval(attribute, one), interval(attribute, two)
    return max(Fraction(0), a - d, c - b)


def hub_or_public(attribute: Attribute, one: int, two: int) -> bool | None:
    """Whether special cells decide: True joined, False not, None when both are declared values."""
    special = {slot.code: slot.public for slot in attribute.slots}
    return not any(special[code] for code in (one, two) if code in special) if {one, two} & set(special) else None


def joined(family: Family, attribute: Attribute, one: int, two: int) -> bool:
    """Whether an edge of the attribute's own graph joins two different codes."""
    if isinstance(family, Public):
        return False
    special = hub_or_public(attribute, one, two)
    if special is not None:
        return special
    if isinstance(family, Full):
        return True
    if isinstance(family, Line):
        return abs(one - two) == 1
    if isinstance(family, Threshold):
        return within(family.theta, attribute, one, two)
    if isinstance(family, Custom):
        pairs = {frozenset(attribute.locate(v) for v in edge) for edge in family.edges}
        return frozenset((one, two)) in pairs
    return same_block(family, attribute, one, two)


def within(theta: Fraction | Duration, attribute: Attribute, one: int, two: int) -> bool:
    """Whether two declared values lie at most theta apart: some moment of one from some moment of the other."""
    if isinstance(attribute, Timestamps):
        span = theta if isinstance(theta, Duration) else Duration(int(theta), attribute.by)
        if soon(span, attribute, one, two):
            return True
    if isinstance(theta, Fraction):
        return gap(attribute, one, two) <= theta
    if isinstance(attribute, Dates | Timestamps) and theta.unit == attribute.by:
        return abs(one - two) <= theta.amount
    first, second = min(one, two), max(one, two)
    if isinstance(attribute, Dates):
        ends = attribute.starts(np.array([first + 1, second]))
        return int(ends[1]) - (int(ends[0]) - 1) <= theta.amount * {"day": 1, "week": 7}[theta.unit]
    if isinstance(attribute, Timestamps):
        return (second - first - 1) * SECONDS[attribute.by] <= theta.amount * SECONDS[theta.unit]
    return False


def soon(theta: Duration, attribute: Timestamps, one: int, two: int) -> bool:
    """Whether the first or last moments of two periods are instants at most theta apart."""
    span = datetime.timedelta(seconds=theta.amount * SECONDS[theta.unit])
    pairs = itertools.product(instants(attribute, one), instants(attribute, two))
    return any(abs(first - second) <= span for first, second in pairs)


def instants(attribute: Timestamps, code: int) -> list[datetime.datetime]:
    """When the clock of the zone shows the first and the last moment of a period: once, twice, or never."""
    begin = datetime.datetime.fromisoformat(attribute.moment(code))
    found, clock = [], find_zone(attribute.zone)
    for shown in (begin, begin + datetime.timedelta(microseconds=attribute.step - 1)):
        for fold in (0, 1):
            instant = shown.replace(tzinfo=clock, fold=fold).astimezone(datetime.UTC)
            if instant.astimezone(clock).replace(tzinfo=None) == shown:
                found.append(instant)
    return found


def same_block(family: Partition, attribute: Attribute, one: int, two: int) -> bool:
    """Whether one block of a partition holds both values."""
    if family.cuts:
        cuts = [attribute.below(cut) for cut in family.cuts]
        return not any(min(one, two) < cut <= max(one, two) for cut in cuts)
    return any({one, two} <= {attribute.locate(v) for v in block} for block in family.blocks)


def moves(domain: Domain, policy: Policy, one: Record, two: Record) -> bool:
    """Whether one edge of the whole policy leads from one record to another."""
    if policy.presence == "only" or one == two:
        return False
    changed, alone = [], set(domain.names)
    for grid in policy.joint:
        alone -= set(grid.attributes)
        gaps = []
        for name in grid.attributes:
            attribute, a, b = domain[name], one[name], two[name]
            special = hub_or_public(attribute, a, b) if a != b else None
            if special is False:
                return False
            gaps.append(Fraction(0) if a == b or special else gap(attribute, a, b))
        size = {"l1": sum(gaps), "linf": max(gaps), "l2": sum(g * g for g in gaps)}[grid.metric]
        if size > (grid.theta**2 if grid.metric == "l2" else grid.theta):
            return False
        changed.append(any(one[name] != two[name] for name in grid.attributes))
    for name in alone:
        if one[name] != two[name] and not joined(policy.family(name), domain[name], one[name], two[name]):
            return False
        changed.append(one[name] != two[name])
    return policy.composition == "record" or sum(changed) == 1


def holds(predicate: Predicate | None, domain: Domain, record: Record) -> bool | None:
    """Three-valued truth of a condition for one record."""
    if predicate is None:
        return True
    if isinstance(predicate, Negation):
        inner = holds(predicate.inner, domain, record)
        return None if inner is None else not inner
    if isinstance(predicate, Both | Either):
        both = [holds(part, domain, record) for part in (predicate.first, predicate.second)]
        decisive = isinstance(predicate, Either)
        if decisive in both:
            return decisive
        return None if None in both else not decisive
    return atom_holds(predicate, domain[predicate.attribute], record[predicate.attribute])


def atom_holds(atom: Atom, attribute: Attribute, code: int) -> bool | None:
    """Three-valued truth of one comparison."""
    names = {slot.code: slot.name for slot in attribute.slots}
    if isinstance(atom, Comparison | Member):
        if names.get(code) == "NULL":
            return None
        if isinstance(atom, Member):
            return code in [attribute.index_of(value) for value in atom.values]
        if atom.op == "==":
            return code == attribute.index_of(atom.value)
        if code in names:
            return None
        if isinstance(attribute, Dates | Timestamps):
            return (
                code < attribute.below(atom.value) if atom.op == "<" else _beside(atom.op, attribute, atom.value, code)
            )
        low, high = interval(attribute, code)
        bound = Fraction(str(atom.value)) if isinstance(attribute, Bins | Integers) else attribute.index_of(atom.value)
        if isinstance(attribute, Bins):
            return {"<": high <= bound, ">=": low >= bound}[atom.op]
        return {"<": low < bound, "<=": low <= bound, ">": low > bound, ">=": low >= bound}[atom.op]
    return names.get(code) == ("NULL" if isinstance(atom, IsNull) else "outside")


def _beside(op: str, attribute: Attribute, value: object, code: int) -> bool:
    """A comparison of periods other than <."""
    below, up_to = attribute.below, attribute.up_to
    return {">=": lambda: code >= below(value), "<=": lambda: code < up_to(value), ">": lambda: code >= up_to(value)}[
        op
    ]()


def group_of(axis: Axis, attribute: Attribute, code: int) -> int | None:
    """The number of the group a code belongs to, None when it is left out."""
    if code >= attribute.size:
        return 10**6 + code
    if axis.groups:
        for number, (_, values) in enumerate(axis.groups):
            if code in [attribute.index_of(value) for value in values]:
                return number
        return None
    if axis.edges:
        cuts = [attribute.below(edge) for edge in axis.edges]
        return next((k for k in range(len(cuts) - 1) if cuts[k] <= code < cuts[k + 1]), None)
    if axis.unit is not None:
        return period_of(axis.unit, attribute, code)
    if axis.width is None:
        return code
    step = Fraction(str(axis.width)) / (attribute.width or 1) if isinstance(attribute, Bins) else axis.width
    return int(code // Fraction(str(step)))


def period_of(unit: str, attribute: Attribute, code: int) -> int:
    """The number of the calendar period that a day or moment falls into."""
    if isinstance(attribute, Timestamps) and unit in SECONDS and unit != "week":
        return (attribute.first_period + code) * SECONDS[attribute.by] // SECONDS[unit]
    days = attribute.days(np.array([code])) if isinstance(attribute, Timestamps) else None
    if isinstance(attribute, Dates):
        days = attribute.starts(np.array([code]))
    if days is None:
        raise QueryError(f"{unit} is no group of an attribute without dates")
    return int(periods_of_days(days, unit)[0])


@dataclass(frozen=True)
class Truth:
    """The projection as the definitions give it."""

    cell_of: dict[tuple[int, ...], Cell | None]
    edges: set[frozenset[Cell]]
    leaving: set[Cell]


def records(domain: Domain) -> Iterator[Record]:
    """Every record of the domain."""
    for combination in itertools.product(*(codes(domain[name]) for name in domain)):
        yield dict(zip(domain.names, combination, strict=True))


def project(
    domain: Domain,
    policy: Policy,
    axes: list[Axis],
    where: Predicate | None,
    neighbours: Callable[[Domain, Policy, Record, Record], bool] = moves,
) -> Truth:
    """The cells, the edges between them and the cells that a record can leave, by going through all pairs."""
    everyone = list(records(domain))
    placed: dict[tuple[int, ...], Cell | None] = {}
    for record in everyone:
        groups = [group_of(axis, domain[axis.attribute], record[axis.attribute]) for axis in axes]
        counts = holds(where, domain, record) is True and None not in groups
        placed[tuple(record.values())] = tuple(g for g in groups if g is not None) if counts else None
    edges, leaving = set(), set()
    for one, two in itertools.combinations(everyone, 2):
        if neighbours(domain, policy, one, two):
            a, b = placed[tuple(one.values())], placed[tuple(two.values())]
            if a is not None and b is not None and a != b:
                edges.add(frozenset((a, b)))
            leaving |= {cell for cell in (a, b) if cell is not None and None in (a, b)}
    return Truth(placed, edges, leaving)
