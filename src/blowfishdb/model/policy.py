"""What is hidden: the families a curator writes, the graph each makes of an attribute, and how they compose."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias, cast, get_args

import numpy as np

from blowfishdb.errors import DomainError, PolicyError, TooLarge
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import MARGIN, SECONDS, Dates, Duration, Readings, Timestamps, parse_duration
from blowfishdb.model.constraints import Constraint, as_constraints, check_constraints
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers, is_storable
from blowfishdb.model.graphs import CliqueGraph, Composition, EdgeGraph, Metric, Presence
from blowfishdb.model.numbers import Ints, as_ints, exact, show


class ValueWindow(ABC):
    """A graph on an attribute's values 0 .. size-1: value i is joined to i+1 .. reach(i), which never decreases."""

    size: int

    @abstractmethod
    def reach(self, index: Ints) -> Ints:
        """The last value that each of the given values is joined to, or the value itself."""

    @abstractmethod
    def distance(self, first: int, second: int) -> int | None:
        """Number of steps between two values; None when no path joins them."""

    def part_of(self, index: Ints) -> Ints:
        """The number of the connected part that holds each value."""
        return np.zeros_like(index)

    @property
    def part_count(self) -> int:
        """How many connected parts there are; as many as values where nothing is joined."""
        return 1


@dataclass(frozen=True)
class StepWindow(ValueWindow):
    """Value i is joined to i+1 .. i+step: public (0), line (1), threshold, full (size - 1)."""

    size: int
    step: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.step < 0:
            raise PolicyError("a window needs at least one value and a step that is not negative")
        object.__setattr__(self, "step", min(self.step, self.size - 1))

    def reach(self, index: Ints) -> Ints:
        return np.minimum(np.asarray(index) + self.step, self.size - 1)

    def distance(self, first: int, second: int) -> int | None:
        gap = abs(first - second)
        if gap and not self.step:
            return None
        return -(-gap // self.step) if gap else 0

    def part_of(self, index: Ints) -> Ints:
        return np.zeros_like(index) if self.step else index

    @property
    def part_count(self) -> int:
        return 1 if self.step else self.size


@dataclass(frozen=True, eq=False)
class ListedWindow(ValueWindow):
    """The values from starts[k] until starts[k + 1] are joined to all later ones up to ends[k]."""

    size: int
    starts: Ints
    ends: Ints

    def __post_init__(self) -> None:
        starts, ends = as_ints(self.starts), as_ints(self.ends)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "ends", ends)
        nexts = np.append(starts[1:], self.size)
        if not starts.size or starts.size != ends.size or starts[0] != 0 or np.any(nexts <= starts):
            raise PolicyError("windows must begin at the first value, increase and lie within the attribute")
        if np.any(ends + 1 < nexts) or np.any(ends >= self.size) or np.any(np.diff(ends) < 0):
            raise PolicyError("windows must end within the attribute, at or after each value, and never decrease")

    def run(self, index: Ints) -> Ints:
        """The place in `starts` and `ends` of each value."""
        if self.starts.size == self.size:
            # Every value is a run of its own.
            return np.asarray(index)
        return np.searchsorted(self.starts, index, side="right") - 1

    def reach(self, index: Ints) -> Ints:
        return np.asarray(self.ends[self.run(index)], dtype=np.int64)

    def distance(self, first: int, second: int) -> int | None:
        place, last = min(first, second), max(first, second)
        steps = 0
        while place < last:
            ahead = int(self.ends[self.run(np.array(place))])
            if ahead == place:
                return None
            place, steps = ahead, steps + 1
        return steps

    @cached_property
    def _parts(self) -> Ints:
        return np.cumsum(np.append(False, self.ends[:-1] < self.starts[1:]))

    def part_of(self, index: Ints) -> Ints:
        return self._parts[self.run(index)]

    @property
    def part_count(self) -> int:
        return int(self._parts[-1]) + 1


LOOKAHEAD = 4096
"""Values around a change of the clock whose windows are worked out at a time."""


@dataclass(frozen=True, eq=False)
class ClockWindow(ValueWindow):
    """Value i is joined to the values up to `step` after it, and to those with an instant `within` seconds of one of i.

    Value i is the readings [begin + i * unit, begin + (i + 1) * unit) of the clock.
    """

    size: int
    step: int
    begin: int
    unit: int
    within: int
    clock: Readings

    def reach(self, index: Ints) -> Ints:
        index = np.asarray(index, dtype=np.int64)
        ends = self.clock.before(self.begin + (index + 1) * self.unit)
        near = (self.clock.latest(ends + self.within) - self.begin) // self.unit
        return np.minimum(np.maximum(index + self.step, near), self.size - 1)

    @property
    def longest(self) -> int:
        """At least as many values as any window reaches ahead."""
        spread = int(self.clock.offsets.max() - self.clock.offsets.min())
        return min(self.step + 1 + spread // self.unit, self.size - 1)

    def same(self, other: ClockWindow) -> bool:
        """Whether the other window, on the same values, joins the same ones."""
        return (self.step, self.within) == (other.step, other.within)

    def distance(self, first: int, second: int) -> int:
        """Steps between two values: by equal steps away from changes of the clock, window by window near them."""
        place, last = min(first, second), max(first, second)
        count = 0
        begins, ends = self._near_changes()
        while place < last:
            zone = int(np.searchsorted(ends, place, side="right"))
            following = max(int(begins[zone]), place) if zone < begins.size else last
            even = -(-(min(last, following) - place) // self.step)
            if even:
                # Every one of these steps is an edge, so that no distance is ever said to be too short.
                place, count = place + even * self.step, count + even
                continue
            start = place
            windows = self.reach(np.arange(start, min(start + LOOKAHEAD, self.size))).tolist()
            while place < last and place - start < len(windows):
                place, count = windows[place - start], count + 1
        return count

    def _near_changes(self) -> tuple[Ints, Ints]:
        """Runs of values, in order, outside of which every window has `step` values."""
        lows, highs = self.clock.starts[1:], self.clock.ends[:-1]
        jumps = highs - lows
        begins = (lows - jumps - self.within - self.begin) // self.unit - 2
        ends = (highs + jumps - self.begin) // self.unit + 2
        return np.minimum.accumulate(begins[::-1])[::-1], np.maximum.accumulate(ends)


ValueGraph: TypeAlias = ValueWindow | CliqueGraph | EdgeGraph


@dataclass(frozen=True)
class Full:
    """Any two values are hidden from each other."""


@dataclass(frozen=True)
class Public:
    """No value is hidden."""


@dataclass(frozen=True)
class Line:
    """Each value is hidden from the next one."""


@dataclass(frozen=True)
class Threshold:
    """Values at most theta apart are hidden from each other; theta is in the attribute's own units."""

    theta: Fraction | Duration

    def __post_init__(self) -> None:
        amount = self.theta.amount if isinstance(self.theta, Duration) else self.theta
        if amount <= 0:
            raise PolicyError("theta must be positive; to hide nothing, declare the attribute public()")


@dataclass(frozen=True)
class Partition:
    """Values of one block are hidden from each other: lists of values, or the cut points of an ordered attribute."""

    blocks: tuple[tuple[object, ...], ...] = ()
    cuts: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.blocks) == bool(self.cuts):
            raise PolicyError("a partition has either blocks of values or cut points")


@dataclass(frozen=True)
class Custom:
    """Exactly the listed pairs of values are hidden from each other."""

    edges: tuple[tuple[object, object], ...]


NO_PAIRS = Custom(())
"""No two values are hidden from each other; NULL is hidden among them unless it is public."""


@dataclass(frozen=True)
class Grid:
    """Records whose named numeric attributes are jointly at most theta apart are hidden from each other."""

    attributes: tuple[str, ...]
    theta: Fraction
    metric: Metric

    def __post_init__(self) -> None:
        if len(self.attributes) < 2 or len(set(self.attributes)) != len(self.attributes):
            raise PolicyError("a joint threshold names two or more different attributes")
        if self.theta <= 0:
            raise PolicyError("theta must be positive; to hide nothing, declare the attributes public()")
        if self.metric not in ("l1", "l2", "linf"):
            raise PolicyError(f"the metric is 'l1', 'l2' or 'linf', not {self.metric!r}")


Family: TypeAlias = Full | Public | Line | Threshold | Partition | Custom

MOST_COMBINATIONS = 2**14
"""Combinations of values that a listed graph over several attributes is about, at most."""


@dataclass(frozen=True)
class Joint:
    """A graph on combinations of values, one value of each named attribute: blocks of them, or listed pairs."""

    attributes: tuple[str, ...]
    family: Partition | Custom

    def __post_init__(self) -> None:
        if len(self.attributes) < 2 or len(set(self.attributes)) != len(self.attributes):
            raise PolicyError("a joint graph names two or more different attributes")
        if not isinstance(self.family, Partition | Custom) or (isinstance(self.family, Partition) and self.family.cuts):
            raise PolicyError("a joint graph is a partition() into listed blocks, or custom() pairs")
        for combination in itertools.chain(*self.groups):
            if not isinstance(combination, tuple) or len(combination) != len(self.attributes):
                raise PolicyError(f"{combination!r} is not a combination of one value for each of {self.words}")

    @property
    def words(self) -> str:
        """The attributes, as a sentence names them."""
        return f"{', '.join(self.attributes[:-1])} and {self.attributes[-1]}"

    @property
    def groups(self) -> tuple[tuple[tuple[object, ...], ...], ...]:
        """The blocks, or the pairs."""
        groups = self.family.blocks if isinstance(self.family, Partition) else self.family.edges
        return cast(tuple[tuple[tuple[object, ...], ...], ...], groups)


@dataclass(frozen=True, eq=False)
class Cover:
    """Groups of combinations that are hidden from each other: line i puts the combination codes[i] into groups[i].

    Every combination is in a group, if only on its own. Two combinations are joined exactly where they share a group.
    """

    codes: Ints
    groups: Ints


@checked(PolicyError)
def full() -> Full:
    """Hides every value of the attribute from every other: what differential privacy does."""
    return Full()


@checked(PolicyError)
def public() -> Public:
    """Hides nothing about the attribute."""
    return Public()


@checked(PolicyError)
def line() -> Line:
    """Hides each value from its neighbours in the declared order."""
    return Line()


@checked(PolicyError)
def threshold(theta: object) -> Threshold:
    """Hides values at most theta apart: a number in the attribute's units, or a duration such as '7 days'."""
    if isinstance(theta, str) and any(letter.isalpha() for letter in theta):
        return Threshold(parse_duration(theta, PolicyError))
    return Threshold(exact(theta, "theta", PolicyError))


@checked(PolicyError)
def partition(blocks: Iterable[Iterable[object]] | None = None, *, cuts: Iterable[object] | None = None) -> Partition:
    """Hides values within each block: lists that cover all values, or cut points (each begins a new block)."""
    listed = tuple(tuple(block) for block in blocks) if blocks is not None else ()
    return Partition(blocks=listed, cuts=tuple(cuts) if cuts is not None else ())


@checked(PolicyError)
def custom(edges: Iterable[Sequence[object]]) -> Custom:
    """Hides exactly the listed pairs of values from each other."""
    pairs = []
    for edge in edges:
        if isinstance(edge, str) or len(edge) != 2:
            raise PolicyError(f"an edge is a pair of values, not {edge!r}")
        pairs.append((edge[0], edge[1]))
    return Custom(tuple(pairs))


@checked(PolicyError)
def grid(attributes: Iterable[str], theta: object, metric: Metric = "l2") -> Grid:
    """Hides records whose named attributes are jointly at most theta apart in the l1, l2 or linf metric."""
    return Grid(tuple(attributes), exact(theta, "theta", PolicyError), metric)


@checked(PolicyError)
def joint(attributes: Iterable[str], family: Partition | Custom) -> Joint:
    """Hides combinations of values of several attributes: within blocks, or in exactly the listed pairs."""
    if not isinstance(family, Partition | Custom):
        raise PolicyError("a joint graph is a partition() into listed blocks, or custom() pairs")
    lists = family.blocks if isinstance(family, Partition) else family.edges
    tuples = tuple(tuple(tuple(one) if isinstance(one, list) else one for one in group) for group in lists)
    whole = isinstance(family, Partition) and not family.cuts
    listed = Partition(tuples) if whole else family if isinstance(family, Partition) else custom(tuples)
    return Joint(tuple(attributes), listed)


def _cover(graph: Joint, attributes: Sequence[Attribute]) -> Cover:
    sizes = [attribute.size for attribute in attributes]
    count = math.prod(sizes)
    if count > MOST_COMBINATIONS:
        advice = "Declare wider bins or fewer values, or a joint threshold."
        raise TooLarge(f"combinations of {graph.words}", count, MOST_COMBINATIONS, advice)
    codes = np.array(
        [
            [_locate(attribute, value) for attribute, value in zip(attributes, combination, strict=True)]
            for group in graph.groups
            for combination in group
        ],
        dtype=np.int64,
    ).reshape(-1, len(sizes))
    groups = np.repeat(np.arange(len(graph.groups)), [len(group) for group in graph.groups])
    if isinstance(graph.family, Custom):
        # A pair and each combination by itself: what NULL may stand for is joined to itself.
        everyone = np.stack(np.unravel_index(np.arange(count), sizes), axis=1)
        return Cover(np.concatenate([codes, everyone]), np.append(groups, len(graph.groups) + np.arange(count)))
    flat, times = np.unique(np.ravel_multi_index(tuple(codes.T), sizes), return_counts=True)
    if np.any(times > 1):
        place = np.unravel_index(flat[times > 1][0], sizes)
        twice = ", ".join(str(one.value_at(int(code))) for one, code in zip(attributes, place, strict=True))
        raise PolicyError(f"{graph.words}: the combination {twice} is in two blocks or twice in one")
    if flat.size < count:
        raise PolicyError(
            f"{graph.words}: the blocks name {flat.size:,} combinations of {count:,}; name the rest as well, if only "
            "as one more block"
        )
    return Cover(codes, groups)


def value_graph(family: Family, attribute: Attribute) -> ValueGraph:
    """The graph on the attribute's declared values; PolicyError where the family does not fit."""
    if isinstance(family, Full):
        return StepWindow(attribute.size, attribute.size - 1)
    if isinstance(family, Public) or family == NO_PAIRS:
        return StepWindow(attribute.size, 0)
    if isinstance(family, Line):
        if not attribute.ordered:
            raise PolicyError("line() needs an ordered attribute; declare it ordered, or use custom()")
        return StepWindow(attribute.size, 1)
    if isinstance(family, Threshold):
        return _threshold(family.theta, attribute)
    if isinstance(family, Custom):
        pairs = [[_locate(attribute, value) for value in edge] for edge in family.edges]
        return EdgeGraph(attribute.size, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    return _cut(family, attribute) if family.cuts else _blocks(family, attribute)


def _locate(attribute: Attribute, value: object) -> int:
    try:
        return attribute.locate(value)
    except DomainError as error:
        raise PolicyError(str(error)) from None


def _cut(family: Partition, attribute: Attribute) -> ListedWindow:
    if not attribute.ordered:
        raise PolicyError("cut points need an ordered attribute; list the blocks instead")
    try:
        starts = [0, *(attribute.below(cut) for cut in family.cuts)]
    except DomainError as error:
        raise PolicyError(f"a cut point of the partition does not fit: {error}") from None
    if any(a >= b for a, b in zip(starts, [*starts[1:], attribute.size], strict=True)):
        raise PolicyError("cut points must increase and leave at least one value on each side")
    return _runs(attribute.size, np.array(starts, dtype=np.int64))


def _runs(size: int, starts: Ints) -> ListedWindow:
    """The graph that joins all values of each run."""
    return ListedWindow(size, starts, np.append(starts[1:], size) - 1)


def _blocks(family: Partition, attribute: Attribute) -> ListedWindow | CliqueGraph:
    listed = sum(len(block) for block in family.blocks)
    if attribute.size > listed:
        raise PolicyError(
            f"the blocks name {listed} values of {attribute.size}; name the rest as well"
            + (", or give cut points" if attribute.ordered else "")
        )
    labels = np.full(attribute.size, -1, dtype=np.int64)
    for label, block in enumerate(family.blocks):
        for value in block:
            index = _locate(attribute, value)
            if labels[index] >= 0:
                raise PolicyError(f"the value {value!r} is in two blocks or twice in one")
            labels[index] = label
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    if starts.size == np.unique(labels).size:
        return _runs(attribute.size, starts)
    return CliqueGraph(labels)


def _threshold(theta: Fraction | Duration, attribute: Attribute) -> ValueWindow:
    if isinstance(theta, Duration) and not isinstance(attribute, Dates | Timestamps):
        raise PolicyError(f"a threshold of {theta} fits dates only; give a number")
    if isinstance(attribute, Bins) and isinstance(theta, Fraction):
        return _bins_within(theta, attribute)
    if isinstance(attribute, Dates) and isinstance(theta, Duration):
        return _dates_within(theta, attribute)
    if isinstance(attribute, Timestamps):
        return _timestamps_within(theta, attribute)
    if isinstance(attribute, Categorical) and not attribute.ordered:
        raise PolicyError("threshold() needs an ordered attribute; declare it ordered, or use partition()")
    if not isinstance(theta, Fraction) or theta.denominator != 1:
        unit = attribute.by if isinstance(attribute, Dates) else "step"
        raise PolicyError(f"theta is a number of whole {unit}s here: {theta} does not fit")
    return StepWindow(attribute.size, int(theta))


def _bins_within(theta: Fraction, attribute: Bins) -> StepWindow | ListedWindow:
    """Bins are joined by the distance of the sets: from the right edge of one to the left edge of the other."""
    if attribute.width is not None:
        return StepWindow(attribute.size, 1 + theta // attribute.width)
    ends, last = np.empty(attribute.size, dtype=np.int64), 0
    for index in range(attribute.size):
        while last + 1 < attribute.size and attribute.edges[last + 1] - attribute.edges[index + 1] <= theta:
            last += 1
        ends[index] = last
    return ListedWindow(attribute.size, np.arange(attribute.size), ends)


def _dates_within(theta: Duration, attribute: Dates) -> StepWindow | ListedWindow:
    if theta.unit == attribute.by:
        return StepWindow(attribute.size, theta.amount)
    days = {"day": 1, "week": 7}.get(theta.unit)
    if days is None:
        raise PolicyError(f"a threshold of {theta} does not fit dates by {attribute.by}: give {attribute.by}s or days")
    # Periods are joined by the distance of the sets: from the last day of one to the first day of the other.
    starts: Ints = attribute.starts(np.arange(attribute.size + 1))
    reach = np.searchsorted(starts[:-1], starts[1:] - 1 + theta.amount * days, side="right") - 1
    values = np.arange(attribute.size)
    return ListedWindow(attribute.size, values, np.maximum(reach, values))


def _timestamps_within(theta: Fraction | Duration, attribute: Timestamps) -> StepWindow | ClockWindow:
    """Periods are joined by the distance of the sets, between instants and between the readings of the clock."""
    if isinstance(theta, Fraction):
        if theta.denominator != 1:
            raise PolicyError(f"theta is a number of whole {attribute.by}s here: {theta} does not fit")
        theta = Duration(int(theta), attribute.by)
    seconds = SECONDS.get(theta.unit)
    if seconds is None:
        raise PolicyError(f"a threshold of {theta} has no fixed length; give days, hours, minutes or seconds")
    unit = SECONDS[attribute.by]
    begin = attribute.first_period * unit
    end = begin + attribute.size * unit
    # A period lacks its last moment: n periods never reach from before one period's end into the n + 1st after it.
    within = min(seconds * theta.amount, end - begin + 2 * MARGIN) - (theta.unit == attribute.by)
    step = 1 + within // unit
    clock = Readings.of(attribute.zone, begin, end)
    if clock.offsets.size == 1 or step >= attribute.size:
        return StepWindow(attribute.size, step)
    return ClockWindow(attribute.size, step, begin, unit, within, clock)


def show_theta(theta: Fraction | Duration) -> str:
    """Theta as a curator would write it."""
    return str(theta) if isinstance(theta, Duration) else show(theta)


MOST_VALUES = 2000

Distance = Callable[[object, object], object] | Sequence[Sequence[object]]
"""A function of two values, or a matrix in the order of the values."""


@checked(PolicyError)
def metric(values: Iterable[object], distance: Distance, theta: object) -> Custom:
    """Hides values at most theta apart, by a function of two values or by a matrix in the order of the values."""
    listed = list(values)
    if len(listed) > MOST_VALUES:
        raise TooLarge("values of a metric", len(listed), MOST_VALUES, "Use threshold() or partition().")
    if len(set(listed)) != len(listed) or not listed:
        raise PolicyError("a metric is about one or more different values")
    radius = exact(theta, "theta", PolicyError)
    if radius <= 0:
        raise PolicyError("theta must be positive; to hide nothing, declare the attribute public()")
    size = len(listed)
    if not callable(distance) and (len(distance) != size or any(len(row) != size for row in distance)):
        raise PolicyError(f"a matrix of distances has {size} rows and {size} columns, one for each value")

    def between(first: int, second: int) -> Fraction:
        measured = distance(listed[first], listed[second]) if callable(distance) else distance[first][second]
        return exact(measured, "a distance", PolicyError)

    pairs = []
    for first, one in enumerate(listed):
        if between(first, first) != 0:
            raise PolicyError(f"the distance of {one!r} to itself is 0 in a metric")
        for second in range(first):
            apart = between(first, second)
            if apart < 0 or apart != between(second, first):
                raise PolicyError(f"{one!r} and {listed[second]!r}: a distance is not negative, and the same both ways")
            if apart <= radius:
                pairs.append((listed[second], one))
    return Custom(tuple(pairs))


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
            raise PolicyError("the id column and the row key hold a character that no engine takes in a statement")
        if isinstance(self.at_most, bool) or not isinstance(self.at_most, int) or self.at_most < 1:
            raise PolicyError(f"at_most is a whole number of rows, at least 1, not {self.at_most!r}")


ROW = Row()


@checked(PolicyError)
def person(id: str, *, at_most: int, order_by: str) -> Person:
    """Protects up to `at_most` rows of each person together."""
    return Person(id, at_most, order_by)


@checked(PolicyError)
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
    joint: tuple[Grid | Joint, ...]
    constraints: tuple[Constraint, ...]

    def __init__(
        self,
        attributes: Mapping[str, Family] = MappingProxyType({}),
        composition: Composition = "record",
        presence: Presence = "public",
        unit: Row | Person = ROW,
        joint: Iterable[Grid | Joint] = (),
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
        if any(not isinstance(graph, Grid | Joint) for graph in self.joint):
            raise PolicyError("joint is a list of grid([...], theta) and joint([...], family)")
        if self.composition not in get_args(Composition):
            raise PolicyError(f"composition is 'record' or 'attribute', not {self.composition!r}")
        if self.presence not in get_args(Presence):
            raise PolicyError(f"presence is 'public', 'secret' or 'only', not {self.presence!r}")
        if not isinstance(self.unit, Row | Person):
            raise PolicyError("the unit is ROW or person('id', at_most=..., order_by=...)")
        jointly = [name for graph in self.joint for name in graph.attributes]
        for name in jointly:
            if jointly.count(name) > 1 or name in self.attributes:
                raise PolicyError(f"{name} is in a joint graph and cannot have another graph")

    @property
    def rows_per_person(self) -> int:
        return self.unit.at_most if isinstance(self.unit, Person) else 1

    def joint_of(self, name: str) -> Grid | Joint | None:
        """The graph over several attributes that an attribute belongs to."""
        return next((graph for graph in self.joint if name in graph.attributes), None)

    def family(self, name: str) -> Family:
        """The family of an attribute that is in no joint graph."""
        return self.attributes.get(name, FULL)

    def with_family(self, name: str, family: Family) -> Policy:
        """The policy with another family for one attribute."""
        return replace(self, attributes={**self.attributes, name: family})

    def axis_family(self, attribute: Attribute, name: str) -> Family:
        """The family along one attribute while the others stay; a joint threshold is a threshold there."""
        grid = self.joint_of(name)
        if not isinstance(grid, Grid):
            return self.family(name)
        theta = Fraction(grid.theta // 1) if isinstance(attribute, Integers) else grid.theta
        return Threshold(theta) if theta else NO_PAIRS

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

    def cover(self, domain: Domain, graph: Joint) -> Cover:
        """The groups of combinations of the declared values that a joint graph hides from each other."""
        attributes = [domain.find(name, PolicyError) for name in graph.attributes]
        known = self._covers.get(graph.attributes)
        if known is None or any(one is not other for one, other in zip(known[0], attributes, strict=True)):
            known = self._covers[graph.attributes] = attributes, _cover(graph, attributes)
        return known[1]

    @cached_property
    def _covers(self) -> dict[tuple[str, ...], tuple[list[Attribute], Cover]]:
        return {}

    def factors(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """The given attributes, those of one joint graph together, by first appearance."""
        groups: dict[object, list[str]] = {}
        for name in names:
            graph = self.joint_of(name)
            groups.setdefault(name if graph is None else graph.attributes, []).append(name)
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
        for graph in self.joint:
            if isinstance(graph, Joint):
                self.cover(domain, graph)
                continue
            for name in graph.attributes:
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
        is_public = isinstance(self.family(name), Public) and self.joint_of(name) is None
        return name in domain and not is_public
