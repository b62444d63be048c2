"""The definitions that all is audited against: policy graphs, neighbours, constraints, record by record."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import QueryError
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import SECONDS, Dates, Duration, Timestamps, find_zone
from blowfishdb.model.constraints import (
    Constraint,
    CountConstraint,
    MarginalConstraint,
    RangeConstraint,
    RowsConstraint,
)
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Custom, Family, Full, Joint, Line, Partition, Policy, Public, Threshold
from blowfishdb.model.predicate import Atom, Axis, Both, Comparison, Either, IsNull, Member, Negation, Predicate, atoms
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

Record = dict[str, int]


def codes(attribute: Attribute) -> list[int]:
    """Every value and special cell of an attribute, by its code."""
    return [*range(attribute.size), *(slot.code for slot in attribute.slots)]


def interval(attribute: Attribute, code: int) -> tuple[Fraction, Fraction]:
    """The ends of a declared value: one point, or a bin."""
    if isinstance(attribute, Bins):
        return attribute.edge(code), attribute.edge(code + 1)
    if isinstance(attribute, Integers):
        return Fraction(attribute.low + code), Fraction(attribute.low + code)
    return Fraction(code), Fraction(code)


def gap(attribute: Attribute, one: int, two: int) -> Fraction:
    """The least distance of two declared values, in units of the attribute."""
    (a, b), (c, d) = interval(attribute, one), interval(attribute, two)
    return max(Fraction(0), a - d, c - b)


def universal_or_public(attribute: Attribute, one: int, two: int) -> bool | None:
    """Whether special cells decide: True joined, False not, None when both are declared values."""
    special = {slot.code: slot.public for slot in attribute.slots}
    return not any(special[code] for code in (one, two) if code in special) if {one, two} & set(special) else None


def joined(family: Family, attribute: Attribute, one: int, two: int) -> bool:
    """Whether an edge of the attribute's graph joins two different codes."""
    if isinstance(family, Public):
        return False
    special = universal_or_public(attribute, one, two)
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
        after_first, begin_of_second = begin_of(attribute, first + 1), begin_of(attribute, second)
        return (begin_of_second - after_first).days + 1 <= theta.amount * {"day": 1, "week": 7}[theta.unit]
    if isinstance(attribute, Timestamps):
        return (second - first - 1) * SECONDS[attribute.by] <= theta.amount * SECONDS[theta.unit]
    return False


def soon(theta: Duration, attribute: Timestamps, one: int, two: int) -> bool:
    """Whether the first or last moments of two periods are instants at most theta apart."""
    span = datetime.timedelta(seconds=theta.amount * SECONDS[theta.unit])
    pairs = itertools.product(instants(attribute, one), instants(attribute, two))
    return any(abs(first - second) <= span for first, second in pairs)


MONTHS = {"month": 1, "quarter": 3, "year": 12}


def begin_of(attribute: Dates | Timestamps, code: int) -> datetime.datetime:
    """The first moment of a declared period, by Python's own calendar."""
    if isinstance(attribute, Timestamps):
        step, midnight = SECONDS[attribute.by], datetime.datetime.combine(attribute.start.date(), datetime.time())
        periods = (attribute.start - midnight).seconds // step + code
        return midnight + datetime.timedelta(seconds=periods * step)
    start = datetime.datetime.combine(attribute.start, datetime.time())
    if attribute.by not in MONTHS:
        days, behind = (7, start.weekday()) if attribute.by == "week" else (1, 0)
        return start + datetime.timedelta(days=code * days - behind)
    length = MONTHS[attribute.by]
    months = (start.year * 12 + start.month - 1) // length * length + code * length
    return datetime.datetime(months // 12, months % 12 + 1, 1)


def instants(attribute: Timestamps, code: int) -> list[datetime.datetime]:
    """When the clock of the zone shows the first and the last moment of a period: once, twice, or never."""
    begin = begin_of(attribute, code)
    moments, clock = [], find_zone(attribute.zone)
    for shown in (begin, begin + datetime.timedelta(seconds=attribute.step, microseconds=-1)):
        for fold in (0, 1):
            instant = shown.replace(tzinfo=clock, fold=fold).astimezone(datetime.UTC)
            if instant.astimezone(clock).replace(tzinfo=None) == shown:
                moments.append(instant)
    return moments


def same_block(family: Partition, attribute: Attribute, one: int, two: int) -> bool:
    """Whether one block of a partition holds both values."""
    if family.cuts:
        cuts = [attribute.below(cut) for cut in family.cuts]
        return not any(min(one, two) < cut <= max(one, two) for cut in cuts)
    return any({one, two} <= {attribute.locate(v) for v in block} for block in family.blocks)


def combinations_joined(joint: Joint, domain: Domain, one: Record, two: Record) -> bool:
    """Whether a block or a pair has a combination that each record may stand for, hidden NULL for any value."""
    choices: list[list[list[int]]] = [[], []]
    for name in joint.attributes:
        attribute, codes = domain[name], (one[name], two[name])
        public = {slot.code for slot in attribute.slots if slot.public}
        if codes[0] != codes[1] and public & set(codes):
            return False
        for side, code in enumerate(codes):
            choices[side].append([code] if code < attribute.size else list(range(attribute.size)))
    first, second = (set(itertools.product(*side)) for side in choices)
    groups = [
        {tuple(domain[name].locate(value) for name, value in zip(joint.attributes, one, strict=True)) for one in group}
        for group in joint.groups
    ]
    return bool(first & second) or any(first & group and second & group for group in groups)


def moves(domain: Domain, policy: Policy, one: Record, two: Record) -> bool:
    """Whether one edge of the whole policy leads from one record to another."""
    if policy.presence == "only" or one == two:
        return False
    changed, alone = [], set(domain.names)
    for grid in policy.joint:
        alone -= set(grid.attributes)
        changed.append(any(one[name] != two[name] for name in grid.attributes))
        if isinstance(grid, Joint):
            if changed[-1] and not combinations_joined(grid, domain, one, two):
                return False
            continue
        gaps = []
        for name in grid.attributes:
            attribute, a, b = domain[name], one[name], two[name]
            special = universal_or_public(attribute, a, b) if a != b else None
            if special is False:
                return False
            gaps.append(Fraction(0) if a == b or special else gap(attribute, a, b))
        size = {"l1": sum(gaps), "linf": max(gaps), "l2": sum(g * g for g in gaps)}[grid.metric]
        if size > (grid.theta**2 if grid.metric == "l2" else grid.theta):
            return False
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
            return _time_holds(atom, attribute, code)
        low, high = interval(attribute, code)
        bound = Fraction(str(atom.value)) if isinstance(attribute, Bins | Integers) else attribute.index_of(atom.value)
        if isinstance(attribute, Bins):
            return {"<": high <= bound, ">=": low >= bound}[atom.op]
        return {"<": low < bound, "<=": low <= bound, ">": low > bound, ">=": low >= bound}[atom.op]
    return names.get(code) == ("NULL" if isinstance(atom, IsNull) else "outside")


def _time_holds(atom: Comparison, attribute: Dates | Timestamps, code: int) -> bool:
    """Whether a period lies before or after a day or a moment, by Python's own calendar where that is one."""
    value = atom.value
    with suppress(ValueError):
        value = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(value, datetime.date):
        end = attribute.below(value) if atom.op in ("<", ">=") else attribute.up_to(value)
        return code < end if atom.op.startswith("<") else code >= end
    is_moment = isinstance(value, datetime.datetime)
    bound = value if is_moment else datetime.datetime.combine(value, datetime.time())
    if atom.op in ("<=", ">"):
        bound += datetime.timedelta(days=1)
    return begin_of(attribute, code + 1) <= bound if atom.op.startswith("<") else begin_of(attribute, code) >= bound


def members(attribute: Attribute, values: Iterable[object]) -> Iterator[int]:
    """The codes of the values of a named group, some of which may be names of special cells."""
    names = {slot.name: slot.code for slot in attribute.slots}
    for value in values:
        if value in names and not (isinstance(attribute, Categorical) and value in attribute.values):
            yield names[str(value)]
        elif isinstance(attribute, Bins):
            yield next(code for code in range(attribute.size) if attribute.edge(code) == Fraction(str(value)))
        elif isinstance(attribute, Timestamps):
            begin = datetime.datetime.fromisoformat(str(value))
            yield next(code for code in range(attribute.size) if begin_of(attribute, code) == begin)
        else:
            yield attribute.index_of(value)


def group_of(axis: Axis, attribute: Attribute, code: int) -> int | None:
    """The number of the group a code belongs to, None when it is left out."""
    named = [number for number, (_, values) in enumerate(axis.groups) if code in {*members(attribute, values)}]
    if named or (axis.groups and code < attribute.size):
        return named[0] if named else None
    if code >= attribute.size:
        return 10**6 + code
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
    """The number of the calendar period that a day or moment falls into, by Python's own calendar."""
    if not isinstance(attribute, Dates | Timestamps):
        raise QueryError(f"{unit} is no group of an attribute without dates")
    begin = begin_of(attribute, code)
    if unit in MONTHS:
        return (begin.year * 12 + begin.month - 1) // MONTHS[unit]
    # The first day of the calendar was a Monday.
    return (begin - datetime.datetime.min) // datetime.timedelta(**{f"{unit}s": 1})


def records(domain: Domain) -> Iterator[Record]:
    """Every record of the domain."""
    for combination in itertools.product(*(codes(domain[name]) for name in domain)):
        yield dict(zip(domain.names, combination, strict=True))


RecordPair = tuple[Record | None, Record | None]
Told = tuple[int, ...]
MOST_PAIRS = 60
"""Among more different changes than this, sets of three are not looked for."""
MOST_SETS, MOST_TOGETHER = 1500, 3


def signatures(domain: Domain, constraints: Sequence[Constraint], vertices: Sequence[Record | None]) -> list[Told]:
    """For each record the counts of each constraint; a marginal has one for every combination that occurs."""
    columns: list[list[int]] = []
    for constraint in constraints:
        if isinstance(constraint, MarginalConstraint):
            cells = [None if v is None else tuple(v[name] for name in constraint.attributes) for v in vertices]
            columns += [
                [int(cell == wanted) for cell in cells] for wanted in sorted({c for c in cells if c is not None})
            ]
        elif isinstance(constraint, CountConstraint | RangeConstraint):
            columns.append([int(v is not None and holds(constraint.condition, domain, v) is True) for v in vertices])
        else:
            columns.append([int(v is not None) for v in vertices])
    return [tuple(column[place] for column in columns) for place in range(len(vertices))]


def minimal_sets(
    domain: Domain,
    constraints: Sequence[Constraint],
    vertices: Sequence[Record | None],
    most: int,
    place: Callable[[Record | None], Hashable],
) -> list[tuple[RecordPair, ...]]:
    """Sets of up to `most` changes that cancel in every constraint while no part of them does.

    Under constraints any two records count as joined: the policy's own graph gives no benefit there.
    """
    told = signatures(domain, constraints, vertices)
    different: dict[Hashable, tuple[Told, RecordPair]] = {}
    for i, j in itertools.permutations(range(len(vertices)), 2):
        step = tuple(b - a for a, b in zip(told[i], told[j], strict=True))
        key = (place(vertices[i]), place(vertices[j]), step)
        if key[0] != key[1] or any(step):
            different.setdefault(key, (step, (vertices[i], vertices[j])))
    steps = list(different.values())
    single = [(pair,) for step, pair in steps if not any(step)]
    moving = [(step, pair) for step, pair in steps if any(step)]
    cancelling = itertools.islice(_cancelling([step for step, _ in moving], most), MOST_SETS)
    return [*single, *(tuple(moving[number][1] for number in chosen) for chosen in cancelling)]


def _cancelling(steps: Sequence[Told], most: int) -> Iterator[tuple[int, ...]]:
    """Two or three of the steps that add up to nothing, no two of three doing so; each set once, by its numbers."""
    by_opposite: dict[Told, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        by_opposite[tuple(-entry for entry in step)].append(number)
    for first, step in enumerate(steps if most >= 2 else ()):
        yield from ((first, second) for second in by_opposite[step] if second >= first)
    if most >= 3 and len(steps) <= MOST_PAIRS:
        for first, second in itertools.combinations_with_replacement(range(len(steps)), 2):
            both = tuple(a + b for a, b in zip(steps[first], steps[second], strict=True))
            if any(both):
                yield from ((first, second, third) for third in by_opposite.get(both, ()) if third >= second)


CellStep = tuple[int, int]
"""The cells that a record leaves and enters; -1 where it does not count."""


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """The rows of a plan by cell, zeros in the last line for what does not count, and the noise of the rows."""

    columns: Ints
    weights: Ints
    unit: Fraction

    @classmethod
    def of(cls, plan: Plan) -> NoisyRows:
        """The measured rows of a plan, written out densely."""
        rows = np.concatenate([dense_rows(part) for part in plan.parts])
        return cls(np.pad(rows.T, ((0, 1), (0, 0))), plan.weights, plan.unit)

    def losses(self, changes: Sequence[Sequence[CellStep]]) -> list[Fraction]:
        """The loss of each change; all its steps happen at once."""
        moved = np.zeros((len(changes), self.columns.shape[1]), dtype=np.int64)
        for turn in range(max(map(len, changes), default=0)):
            # Changes of fewer records than others stay where they are.
            ends = np.array([steps[turn] if turn < len(steps) else (0, 0) for steps in changes])
            moved += self.columns[ends[:, 1]] - self.columns[ends[:, 0]]
        return [Fraction(int(loss)) / self.unit for loss in np.abs(moved) @ self.weights]


def dense_rows(part: Measurement | KroneckerMeasurement) -> Ints:
    """The rows of one part of a plan as a matrix, one column per cell."""
    factors = part.factors if isinstance(part, KroneckerMeasurement) else (part,)
    return np.asarray(functools.reduce(np.kron, [factor.rows.dense() for factor in factors]), dtype=np.int64)


RecordPlace = Hashable
"""The groups in which a query counts a record; None where it does not count."""
MOST_RECORDS = 64
"""Up to this many different records all pairs of them are tried; beyond, a sample with the ends of every attribute."""


@dataclass(frozen=True)
class Change:
    """The records in which two neighbouring tables differ, before and after; None is absence."""

    before: tuple[Record | None, ...]
    after: tuple[Record | None, ...]


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The neighbours of one query under one policy: which records exist, where they count, which moves are hidden."""

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
        """The attributes that the question or a public constraint looks at."""
        named = [axis.attribute for axis in self.axes] + [atom.attribute for atom in atoms(self.where)]
        for constraint in self.policy.constraints:
            if isinstance(constraint, MarginalConstraint):
                named += constraint.attributes
            elif not isinstance(constraint, RowsConstraint):
                named += [atom.attribute for atom in atoms(constraint.condition)]
        return tuple(name for name in self.domain.names if name in named)

    @property
    def most_rows(self) -> int:
        """The number of rows, where a constraint gives it; otherwise more than change together anywhere."""
        given = [c.value for c in self.policy.constraints if isinstance(c, RowsConstraint) and c.value is not None]
        return min(given, default=10**6)

    def is_complete(self, everyone: Sequence[Record]) -> bool:
        """Whether these are all records over the attributes that matter."""
        return len(everyone) == math.prod(self.applied[name].total_size for name in self.used)

    def place(self, record: Record | None) -> RecordPlace:
        """The groups of a record, or None; by the values themselves where no groups are asked for."""
        if record is None or holds(self.where, self.applied, record) is not True:
            return None
        if self.by_value:
            values = tuple(record[axis.attribute] for axis in self.axes)
            sizes = [self.domain[axis.attribute].size for axis in self.axes]
            return values if all(code < size for code, size in zip(values, sizes, strict=True)) else None
        groups = tuple(group_of(axis, self.applied[axis.attribute], record[axis.attribute]) for axis in self.axes)
        return None if None in groups else groups


def sample_records(adjacency: Adjacency, random: np.random.Generator, most: int = MOST_RECORDS) -> list[Record]:
    """All records over the attributes that matter, or a sample of them; other attributes stay at their first value."""
    applied, still = adjacency.applied, dict.fromkeys(adjacency.domain.names, 0)
    if applied.size <= 10**5 and math.prod(applied[name].total_size for name in adjacency.used) <= most:
        combinations = itertools.product(*(codes(applied[name]) for name in adjacency.used))
        return [{**still, **dict(zip(adjacency.used, chosen, strict=True))} for chosen in combinations]
    if not adjacency.used:
        return [still]
    different = {tuple(record.values()): record for record in _corners(adjacency, still, random, most)}
    return list(different.values())


def _corners(adjacency: Adjacency, still: Record, random: np.random.Generator, most: int) -> Iterator[Record]:
    """Ends, special cells and random values of every attribute, mixed; then the values beside them."""
    ends: dict[str, list[int]] = {}
    for name in adjacency.used:
        attribute = adjacency.applied[name]
        inner = [int(random.integers(attribute.size)) for _ in range(4)]
        ends[name] = [0, attribute.size - 1, *inner, *(slot.code for slot in attribute.slots)]
    for _ in range(most // 2):
        record = {**still, **{name: int(random.choice(ends[name])) for name in ends}}
        yield record
        name = adjacency.used[int(random.integers(len(adjacency.used)))]
        yield {**record, name: _far_partner(adjacency, record, name, random)}


def _far_partner(adjacency: Adjacency, record: Record, name: str, random: np.random.Generator) -> int:
    """The furthest value of one attribute that one hidden step reaches, among some that are tried."""
    size, here = adjacency.applied[name].size, record[name]

    def is_hidden(code: int) -> bool:
        return 0 <= code < size and moves(adjacency.applied, adjacency.policy, record, {**record, name: code})

    tried = [int(code) for code in random.integers(0, size, 8)]
    steps = [here + side * 2**power for power in range(size.bit_length()) for side in (1, -1)]
    furthest = max((c for c in (*tried, *steps) if is_hidden(c)), key=lambda code: abs(code - here), default=here)
    if furthest != here:
        side = 1 if furthest > here else -1
        while is_hidden(furthest + side):
            furthest += side
    return furthest


def changes(adjacency: Adjacency, everyone: Sequence[Record]) -> list[Change]:
    """One change for every two places that a hidden move joins, and sets of changes where constraints tie records."""
    if adjacency.policy.constraints and _constraints_bind(adjacency, everyone):
        hidden = adjacency.policy.presence != "public"
        vertices: list[Record | None] = [*everyone, *([None] if hidden else [])]
        most = MOST_TOGETHER if hidden else min(MOST_TOGETHER, adjacency.most_rows)
        sets = minimal_sets(adjacency.applied, adjacency.policy.constraints, vertices, most, adjacency.place)
        return [Change(tuple(before for before, _ in pairs), tuple(after for _, after in pairs)) for pairs in sets]
    by_places: dict[frozenset[RecordPlace], Change] = {}
    placed = [(record, adjacency.place(record)) for record in everyone]
    for (one, here), (two, there) in itertools.combinations(placed, 2):
        ends = frozenset((here, there))
        if len(ends) == 2 and ends not in by_places and moves(adjacency.applied, adjacency.policy, one, two):
            by_places[ends] = Change((one,), (two,))
    listed = list(by_places.values())
    if adjacency.policy.presence != "public":
        counted = {adjacency.place(one): one for one in everyone if adjacency.place(one) is not None}
        listed += [Change((one,), (None,)) for one in counted.values()]
    return listed


def all_changes(adjacency: Adjacency, everyone: Sequence[Record]) -> list[Change]:
    """Every hidden change, also such as one query does not see."""
    if adjacency.policy.constraints:
        return changes(adjacency, everyone)
    pairs = itertools.combinations(everyone, 2)
    listed = [Change((one,), (two,)) for one, two in pairs if moves(adjacency.applied, adjacency.policy, one, two)]
    if adjacency.policy.presence != "public":
        listed += [Change((one,), (None,)) for one in everyone]
    return listed


def _constraints_bind(adjacency: Adjacency, everyone: Sequence[Record]) -> bool:
    """Whether a hidden change of one record changes what a constraint counts."""
    told = signatures(adjacency.applied, adjacency.policy.constraints, [*everyone, None])
    if adjacency.policy.presence != "public" and any(entries != told[-1] for entries in told):
        return True
    return any(
        told[i] != told[j] and moves(adjacency.applied, adjacency.policy, everyone[i], everyone[j])
        for i, j in itertools.combinations(range(len(everyone)), 2)
    )
