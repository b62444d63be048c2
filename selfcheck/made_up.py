"""Made-up domains, policies, constraints, queries and plans, each small enough to compare every two records."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from blowfishdb.audit.cases import COMPOSITIONS, METRICS
from blowfishdb.audit.definitions import Adjacency, begin_of
from blowfishdb.model.calendar import NESTS, Dates, Timestamps, dates, timestamps
from blowfishdb.model.constraints import (
    Constraint,
    count_constraint,
    marginal_constraint,
    range_constraint,
    rows_constraint,
    without_values,
)
from blowfishdb.model.domain import CELL, Attribute, Bins, Categorical, Domain, Integers, bins, categorical, integers
from blowfishdb.model.graphs import AxisGraph, CliqueGraph, EdgeGraph, Presence, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import (
    ROW,
    Family,
    Person,
    Policy,
    Row,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    person,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Both, Column, Either, Negation, Predicate
from blowfishdb.model.query import Kind, Query, query
from blowfishdb.model.workload import Identity, Intervals, Prefix, Rows, Sparse
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan

SIZES: dict[int, tuple[int, int]] = {1: (4, 14), 2: (3, 6), 3: (2, 3)}
"""The least and the largest number of values of an attribute, by the number of attributes."""
PRESENCES: tuple[Presence, ...] = ("public", "secret", "only")
PUBLIC: tuple[Presence, ...] = ("public", "public")
"""Presence is public more often than not."""
UNITS: tuple[Row | Person, ...] = (ROW, *(person("who", at_most=most, order_by="nr") for most in (1, 2, 5)))
Option = TypeVar("Option")


def one_of(random: np.random.Generator, options: Sequence[Option]) -> Option:
    """One of the options, all as likely."""
    return options[int(random.integers(len(options)))]


def made_up(random: np.random.Generator, *, numeric: bool = False) -> Adjacency:
    """A domain of one to three attributes, a policy on it and a query; with `numeric`, about columns of numbers."""
    number = int(random.integers(1, 3 if numeric else 4))
    names = ("x", "y", "z")[:number]
    declared = Domain(tuple((name, _attribute(random, number, numeric=numeric)) for name in names))
    policy = made_up_policy(random, declared)
    grouped = names if numeric else names[: int(random.integers(0 if number > 1 else 1, number + 1))]
    axes = tuple(Axis(name) if numeric else made_up_axis(random, name, declared[name]) for name in grouped)
    where = made_up_condition(random, declared) if random.random() < 0.5 else None
    return Adjacency(declared, policy, axes, where, by_value=numeric)


def made_up_places(random: np.random.Generator) -> Adjacency:
    """Places on a map: two columns of uneven bins under one joint threshold, which is shared out among them."""
    edges = [[Fraction(int(edge), 2) for edge in np.cumsum(random.integers(1, 17, size=7))] for _ in range(2)]
    declared = Domain(
        tuple((name, bins(edges=ends, null=ends[0])) for name, ends in zip(("x", "y"), edges, strict=True))
    )
    # Some places lie just as far apart as is hidden.
    theta, metric = edges[0][int(random.integers(3, 7))] - edges[0][1], one_of(random, METRICS)
    policy = Policy(joint=[grid(["x", "y"], theta, metric)], presence=one_of(random, (*PUBLIC, *PRESENCES)))
    where = made_up_condition(random, declared) if random.random() < 0.5 else None
    return Adjacency(declared, policy, (Axis("x"), Axis("y")), where)


def made_up_combinations(random: np.random.Generator) -> Adjacency:
    """Two columns whose combinations are hidden in blocks or in pairs, a third, and mostly a filter."""
    sizes = [int(size) for size in random.integers(2, 5, size=2)]
    specials = [one_of(random, (("cell", False), ("cell", True), (0, False), (0, False))) for _ in range(3)]
    declared = Domain(
        tuple(
            (name, integers(0, size - 1, null=null, null_public=is_public))
            for name, size, (null, is_public) in zip(("x", "y", "z"), (*sizes, 2), specials, strict=True)
        )
    )
    combinations = list(itertools.product(*map(range, sizes)))
    labels = random.integers(0, int(random.integers(2, 5)), size=len(combinations))
    blocks = [[combinations[place] for place in np.flatnonzero(labels == label)] for label in np.unique(labels)]
    pairs = [(one_of(random, combinations), one_of(random, combinations)) for _ in range(int(random.integers(1, 6)))]
    family = partition(blocks) if random.random() < 0.5 else custom(pairs)
    beside: tuple[Family, ...] = (full(), public())
    policy = Policy(
        {"z": one_of(random, beside)},
        one_of(random, COMPOSITIONS),
        one_of(random, (*PUBLIC, *PRESENCES)),
        joint=[joint(["x", "y"], family)],
    )
    grouped = [name for name in declared.names if random.random() < 0.6]
    axes = tuple(made_up_axis(random, name, declared[name]) for name in grouped)
    where = made_up_condition(random, declared) if random.random() < 0.8 else None
    return Adjacency(declared, policy, axes, where)


MOST_TIED = 16
"""Different records up to which sets that change together are gone through."""


def made_up_ties(random: np.random.Generator) -> Adjacency:
    """A few values of one or two attributes, and public constraints that tie their records together."""
    number = int(random.integers(1, 3))
    sizes = [int(random.integers(3, 7))] if number == 1 else [int(random.integers(2, 4)), int(random.integers(2, 4))]
    declared = Domain(
        tuple(
            (name, integers(0, size - 1, null=one_of(random, ("cell", 0, 0, 0)), null_public=False))
            for name, size in zip(("x", "y"), sizes, strict=False)
        )
    )
    families: tuple[Family, ...] = (full(), full(), line(), public())
    chosen = {name: one_of(random, families) for name in declared.names}
    composition, presence = one_of(random, COMPOSITIONS), one_of(random, (*PUBLIC, "secret"))
    constraints = made_up_constraints(random, declared)
    names = declared.names if random.random() < 0.5 else declared.names[:1]
    axes = tuple(made_up_axis(random, name, declared[name]) if random.random() < 0.3 else Axis(name) for name in names)
    where = made_up_condition(random, declared) if random.random() < 0.5 else None
    if number == 2 and len(constraints) == 1:
        # Two marginals: one of a column with a single value, which says no more than the number of rows, or with two.
        declared = Domain((*declared.attributes, ("z", integers(0, sizes[0] % 2, null=0))))
        constraints = [marginal_constraint("y"), marginal_constraint("z")]
    policy = Policy(chosen, composition, presence, constraints=constraints)
    return Adjacency(declared, policy, axes, where)


def made_up_policy(random: np.random.Generator, declared: Domain) -> Policy:
    """A policy on the domain without constraints; some protect people."""
    numbers = [name for name in declared.names if isinstance(declared[name], Integers | Bins)]
    is_joint = len(numbers) > 1 and random.random() < 0.5
    grids = [grid(numbers[:2], _theta(random), one_of(random, METRICS))] if is_joint else []
    families = {
        name: made_up_family(random, declared[name])
        for name in declared.names
        if not is_joint or name not in numbers[:2]
    }
    presence = one_of(random, (*PUBLIC, *PRESENCES))
    return Policy(families, one_of(random, COMPOSITIONS), presence, one_of(random, UNITS), grids)


def made_up_constraints(random: np.random.Generator, declared: Domain) -> list[Constraint]:
    """One to three constraints, some of them with a number; they may overlap, and may be too many to be priced."""
    options: list[Constraint] = []
    for _ in range(3):
        name, value = one_of(random, declared.names), one_of(random, (None, None, 1, 2))
        attribute = declared[name]
        low, high = sorted(int(end) for end in random.integers(0, attribute.size, size=2))
        options += [
            count_constraint(made_up_condition(random, declared), value),
            range_constraint(name, low, high, value),
            marginal_constraint(name),
        ]
    options += [rows_constraint(one_of(random, (None, 1, 2, 3))), marginal_constraint(*declared.names)]
    chosen = [one_of(random, options) for _ in range(one_of(random, (1, 2, 2, 2, 3, 3)))]
    return list({without_values(constraint): constraint for constraint in chosen}.values())


def _attribute(random: np.random.Generator, number: int, *, numeric: bool) -> Attribute:
    low, high = SIZES[number]
    size = int(random.integers(low, high + 1))
    is_public, has_null, has_outside = (bool(random.random() < chance) for chance in (0.3, 0.5, 0.5))
    kinds = ("integers", "bins") if numeric else ("integers", "integers", "bins", "categorical", "dates", "timestamps")
    kind = one_of(random, kinds)
    values = [f"v{place}" for place in range(size)]
    parts = one_of(random, (1, 2))
    edges = [Fraction(edge, parts) for edge in (0, *np.cumsum(random.integers(1, 4, size=size)).tolist())]
    null_public, outside_public = is_public and has_null, is_public and has_outside
    if kind == "categorical":
        null, other = "cell" if has_null else "v0", "cell" if has_outside else "v0"
        return categorical(values, null=null, outside=other, null_public=null_public, outside_public=outside_public)
    if kind in ("dates", "timestamps"):
        return made_up_times(random, size, in_days=kind == "dates")
    nothing, beyond = "cell" if has_null else 0, "cell" if has_outside else "clamp"
    if kind == "bins":
        return bins(edges=edges, null=nothing, outside=beyond, null_public=null_public, outside_public=outside_public)
    return integers(0, size - 1, null=nothing, outside=beyond, null_public=null_public, outside_public=outside_public)


DAYS = {"day": 1, "week": 7, "month": 31, "quarter": 92}
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York")


def made_up_times(random: np.random.Generator, size: int, *, in_days: bool) -> Dates | Timestamps:
    """Some periods from a day around the end of a month on, or around a change of the clock."""
    if in_days:
        by = one_of(random, tuple(DAYS))
        first = datetime.date(2023, 10, 20) + datetime.timedelta(days=int(random.integers(150)))
        last = first + datetime.timedelta(days=DAYS[by] * (size - 1))
        return dates(first, last, by, null=first.isoformat())
    night = one_of(random, (datetime.datetime(2024, 3, 30, 21), datetime.datetime(2024, 4, 6, 22)))
    by, step = one_of(random, (("hour", datetime.timedelta(hours=1)), ("day", datetime.timedelta(days=1))))
    return timestamps(night, night + size * step, by, zone=one_of(random, ZONES), null=night.isoformat())


def _theta(random: np.random.Generator, *, whole: bool = False) -> str:
    """A distance, whole or not."""
    return one_of(random, ("1", "2", "3", "5") if whole else ("1", "2", "2.5", "3", "4.3", "6"))


def made_up_family(random: np.random.Generator, attribute: Attribute) -> Family:
    """A graph on the attribute."""
    options: list[Family] = [full(), public()]
    if attribute.size == 1:
        return one_of(random, options)
    match attribute:
        case Categorical():
            values = list(attribute.values)
            cut = int(random.integers(1, len(values)))
            options += [
                partition([values[::2], values[1::2]]),
                custom([(values[0], values[-1]), (values[cut - 1], values[cut])]),
            ]
        case Dates() | Timestamps():
            options += [line(), *(threshold(_span(random, attribute)) for _ in range(3))]
        case _:
            near = threshold(_theta(random, whole=isinstance(attribute, Integers)))
            options += [line(), near, near]
    if isinstance(attribute, Integers):
        first, second = int(random.integers(attribute.size - 1)), int(random.integers(1, attribute.size))
        pairs = random.integers(0, attribute.size, size=(4, 2)).tolist()
        listed = [(int(one), int(two)) for one, two in pairs if one != two]
        labels = random.integers(0, 3, size=attribute.size)
        scattered = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
        options += [
            partition(cuts=[second]),
            *[partition(scattered)] * 2,
            custom([(first, attribute.high), (0, second)]),
        ]
        options += [custom(listed)] if listed else []
    return one_of(random, options)


def _span(random: np.random.Generator, attribute: Dates | Timestamps) -> str:
    """A length of time: some periods, or just as long as two periods lie apart, or a little less."""
    first, second = sorted(int(place) for place in random.integers(0, attribute.size, size=2))
    apart = begin_of(attribute, max(second, first + 1)) - begin_of(attribute, first + 1)
    if random.random() < 0.3:
        return f"{int(random.integers(1, 4))} {attribute.by}s"
    if isinstance(attribute, Dates):
        return f"{max(1, apart.days + int(random.integers(0, 2)))} days"
    minutes = int(apart.total_seconds()) // 60
    return f"{max(1, minutes + one_of(random, (-60, -1, 0, 10)))} minutes"


def made_up_axis(random: np.random.Generator, name: str, attribute: Attribute) -> Axis:
    """The values themselves, or groups of them; some leave values out."""
    if random.random() < 0.5:
        return Axis(name)
    if isinstance(attribute, Dates | Timestamps) and NESTS[attribute.by]:
        return Axis(name, unit=one_of(random, NESTS[attribute.by]))
    if isinstance(attribute, Integers) and attribute.size > 1:
        inner = int(random.integers(1, attribute.size))
        edges = (0, inner, attribute.size), (1, inner + 1)
        named = _named_groups(name, attribute, range(attribute.low, attribute.low + attribute.size))
        return one_of(random, (Axis(name, width=2), *(Axis(name, edges=ends) for ends in edges), named))
    return _named_groups(name, attribute, attribute.values) if isinstance(attribute, Categorical) else Axis(name)


def _named_groups(name: str, attribute: Attribute, values: Sequence[object]) -> Axis:
    """Every other value together with NULL and outside, and the rest."""
    groups = {"some": [*values[::2], *(slot.name for slot in attribute.slots)], "others": values[1::2]}
    return Column(name).groups({label: members for label, members in groups.items() if members})


def made_up_axis_graph(random: np.random.Generator, size: int) -> AxisGraph:
    """A graph of any kind on the cells of an axis: windows, cliques, listed edges."""
    index, pairs = np.arange(size), random.integers(0, size, size=(int(random.integers(1, 5)), 2))
    reach = np.maximum.accumulate(np.minimum(index + random.integers(0, 3, size=size), size - 1))
    last = np.arange(max(1, size - int(random.integers(1, 3))), size)
    beside = np.where(np.isin(index, last), index, np.minimum(reach, (last[0] if last.size else size) - 1))
    options: tuple[AxisGraph, ...] = (
        WindowGraph(reach, np.empty(0, dtype=np.int64)),
        WindowGraph(beside, last),
        CliqueGraph(random.integers(0, 3, size=size)),
        EdgeGraph(size, pairs),
    )
    return one_of(random, options)


def made_up_query(random: np.random.Generator, declared: Domain) -> Query:
    """A count or a histogram of one or two attributes, filtered or not."""
    names = [name for name in declared.names if random.random() < 0.6][:2]
    kinds: tuple[Kind, ...] = ("count", "histogram", "histogram2d")
    where = made_up_condition(random, declared) if random.random() < 0.6 else None
    return query(kinds[len(names)], tuple(made_up_axis(random, name, declared[name]) for name in names), where)


def made_up_condition(random: np.random.Generator, declared: Domain) -> Predicate:
    """One comparison, or two of them put together: of two attributes, where the domain has two."""
    names = random.permutation(np.array(declared.names, dtype=object)).tolist()
    first, second = _comparison(random, declared, names[0]), _comparison(random, declared, names[-1])
    both, either = Both(first, second), Either(first, second)
    return one_of(random, (first, both, either, Negation(both), Negation(either)))


def _comparison(random: np.random.Generator, declared: Domain, name: str) -> Predicate:
    attribute, column = declared[name], Column(name)
    options: tuple[Predicate, ...] = ()
    if attribute.null == CELL:
        options = column.is_null(), Negation(column.is_null())
    match attribute:
        case Categorical():
            value = one_of(random, attribute.values)
            options += (column == value, column.isin([value, attribute.values[0]]), Negation(column == value))
        case Bins():
            edge = attribute.edge(int(random.integers(1, attribute.size)))
            options += (column < edge, column >= edge, Negation(column < edge))
        case Dates() | Timestamps():
            moment = begin_of(attribute, int(random.integers(1, max(2, attribute.size))))
            start = moment.date() if isinstance(attribute, Dates) else moment
            options += (column < start, column >= start, Negation(column < start))
        case Integers():
            number = attribute.low + int(random.integers(1, max(2, attribute.size)))
            options += (column < number, column <= number - 1, column >= number, column == number)
    return one_of(random, options)


def made_up_buckets(random: np.random.Generator, cells: int) -> Ints:
    """Runs of cells, or any sets of them."""
    steps = random.integers(0, 2, size=cells)
    steps[0] = 0
    runs = np.cumsum(steps)
    return np.asarray(random.permutation(runs) if random.random() < 0.4 else runs, dtype=np.int64)


def made_up_part(random: np.random.Generator, shape: tuple[int, ...]) -> Measurement | KroneckerMeasurement:
    """Rows over the cells, or products of rows over each axis: of trees, of other rows, or of both."""
    if len(shape) == 1 or random.random() < 0.2:
        return _rows(random, math.prod(shape))
    # Products of trees are certified in a way of their own, products of other rows by a bound.
    kinds = one_of(random, ((True, True), (False, False), (True, False)))
    return KroneckerMeasurement(
        tuple(
            Measurement(_levels(random, size), np.ones(1, int)) if one_of(random, kinds) else _rows(random, size)
            for size in shape
        )
    )


def _rows(random: np.random.Generator, cells: int) -> Measurement:
    """Rows of one of the kinds that have a certificate of their own."""
    ends = np.sort(random.integers(0, cells + 1, size=(int(random.integers(1, 6)), 2)), axis=1)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    ends = ends[ends[:, 1] <= cells] if np.any(ends[:, 1] <= cells) else np.array([[0, cells]])
    peak = np.minimum(np.arange(cells), int(random.integers(1, cells + 1)))
    options: tuple[Callable[[], Rows], ...] = (
        lambda: Identity(cells),
        lambda: Prefix(cells),
        lambda: Intervals(cells, np.zeros(1, int), np.full(1, cells)),
        lambda: Intervals(cells, ends[:, 0], ends[:, 1]),
        lambda: _levels(random, cells),
        lambda: Sparse(np.stack([peak + 1, peak[::-1]])),
        lambda: Sparse(random.integers(-2, 4, size=(3, cells))),
        lambda: Sparse(random.integers(0, 2, size=(2, cells))),
        lambda: Sparse(random.integers(0, 4, size=(1, cells))),
    )
    rows = one_of(random, options)()
    return Measurement(rows, random.integers(1, 6, size=rows.shape[0]) if random.random() < 0.5 else np.ones(1, int))


def _levels(random: np.random.Generator, cells: int) -> Intervals:
    """Several divisions of the axis into runs, as in a tree."""
    low, high = list[int](), list[int]()
    for _ in range(int(random.integers(1, 4))):
        cuts = [0, *sorted(set(random.integers(1, cells, size=2).tolist())), cells] if cells > 1 else [0, 1]
        low += cuts[:-1]
        high += cuts[1:]
    return Intervals(cells, np.array(low), np.array(high))


def measured_once(rows: Rows) -> Plan:
    """The plan that measures each of the rows with noise of scale 1."""
    return Plan(Fraction(1), (Measurement(rows, np.ones(1, dtype=np.int64)),))
