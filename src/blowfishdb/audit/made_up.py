"""Made-up declarations, plans and points at random, each small enough that every two records can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from blowfishdb.audit.cases import LIMITS, LISTS, limited
from blowfishdb.audit.definitions import Adjacency, NoisyRows, Step, changes, measured_once, sample_records
from blowfishdb.audit.report import Line, amount, judged
from blowfishdb.audit.stages import steps_of
from blowfishdb.errors import BlowfishError
from blowfishdb.model.cells import Points, compile_cells, compile_points
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers, bins, categorical, integers
from blowfishdb.model.graphs import CellGraph, Composition, Metric, Presence
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
    line,
    partition,
    person,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Both, Column, Either, Negation, Predicate
from blowfishdb.model.workload import Identity, Intervals, Prefix, Rows, Sparse
from blowfishdb.plan import certificate
from blowfishdb.plan.certificate import calibrate, certify, rescaled
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.points import PointAxis, PointPlan
from blowfishdb.plan.program import merge_graph

SIZES: dict[int, tuple[int, int]] = {1: (4, 14), 2: (3, 6), 3: (2, 3)}
"""How many values an attribute has, at least and at most, by the number of attributes."""
COMPOSITIONS: tuple[Composition, ...] = ("record", "attribute")
PRESENCES: tuple[Presence, ...] = ("public", "public", "public", "secret", "only")
METRICS: tuple[Metric, ...] = ("l1", "l2", "linf")
UNITS: tuple[Row | Person, ...] = (ROW, ROW, ROW, person("who", at_most=2, order_by="nr"))
CONSTRAINTS = ("marginal(x)", "count(x < 2)", "range(x, 1, 2)")
Option = TypeVar("Option")


def one_of(random: np.random.Generator, options: Sequence[Option]) -> Option:
    """One of the options, all as likely."""
    return options[int(random.integers(len(options)))]


def made_up(random: np.random.Generator, *, numeric: bool = False) -> Adjacency:
    """A domain of one to three attributes, a policy on it and a question; with `numeric`, about columns of numbers."""
    number = int(random.integers(1, 3 if numeric else 4))
    names = ("x", "y", "z")[:number]
    declared = Domain(tuple((name, _attribute(random, number, numeric=numeric)) for name in names))
    policy = made_up_policy(random, declared, with_constraints=not numeric)
    grouped = names if numeric else names[: int(random.integers(0 if number > 1 else 1, number + 1))]
    axes = tuple(Axis(name) if numeric else _axis(random, name, declared[name]) for name in grouped)
    where = _condition(random, declared) if random.random() < 0.5 else None
    return Adjacency(declared, policy, axes, where, by_value=numeric)


def made_up_places(random: np.random.Generator) -> Adjacency:
    """Places on a map: two columns of uneven bins under one joint threshold, which is shared out among them."""
    declared = Domain(
        tuple(
            (name, bins(edges=[0, *np.cumsum(random.integers(1, 9, size=6)).tolist()], null=0)) for name in ("x", "y")
        )
    )
    theta, metric = int(random.integers(17, 33)), one_of(random, METRICS)
    policy = Policy(joint=[grid(["x", "y"], theta, metric)], presence=one_of(random, PRESENCES))
    return Adjacency(declared, policy, (Axis("x"), Axis("y")), None)


def made_up_policy(random: np.random.Generator, declared: Domain, *, with_constraints: bool) -> Policy:
    """A policy on the domain; some protect people, some have constraints."""
    numbers = [name for name in declared.names if isinstance(declared[name], Integers | Bins)]
    is_joint = len(numbers) > 1 and random.random() < 0.5
    joint = [grid(numbers[:2], _theta(random), one_of(random, METRICS))] if is_joint else []
    own = {name: _family(random, declared[name]) for name in declared.names if not is_joint or name not in numbers[:2]}
    is_short = len(declared.names) == 1 and isinstance(declared["x"], Integers)
    tied = with_constraints and is_short and random.random() < 0.25
    return Policy(
        own,
        one_of(random, COMPOSITIONS),
        one_of(random, PRESENCES),
        ROW if tied else one_of(random, UNITS),
        joint,
        [one_of(random, CONSTRAINTS)] if tied else [],
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


PLANS, MOST_RECORDS = 6, 150
WAYS = {"edges listed": (), "by structure": LIMITS, "too large to list": (*LIMITS, *LISTS)}
"""Which limits are taken to be passed, so that small questions are certified as large ones are."""
PRICE = Fraction(3, 7)


def certificate_lines(*, quick: bool, seed: int) -> Iterator[Line]:
    """One line for each way in which plans are certified."""
    settings = 48 if quick else 200
    for number, (way, limits) in enumerate(WAYS.items()):
        random, tried, violations = np.random.default_rng([seed, number, 23]), 0, list[str]()
        for place in range(settings):
            adjacency = made_up_places(random) if place % 6 == 0 else made_up(random)
            with limited(limits):
                known = _Known.of(adjacency, is_listed=not limits)
                if known is None:
                    continue
                for turn in range(PLANS):
                    violations += known.violations(random, in_buckets=turn % 3 == 2)
                    tried += 1
                violations += [*known.exact_violations(random), *known.leaving_violations()]
        yield judged("exact", f"certificates of made-up plans, {way}", "every edge", violations, "none too low", tried)


@dataclass(frozen=True, eq=False)
class _Known:
    """A made-up question: its graph, and the cells between which the records of every hidden change move."""

    adjacency: Adjacency
    graph: CellGraph
    steps: list[list[Step]]
    is_plain: bool
    """Whether the graph is the policy itself: nothing filtered, no constraints, all records known, all edges listed."""

    @classmethod
    def of(cls, adjacency: Adjacency, *, is_listed: bool) -> _Known | None:
        """None where the question is refused."""
        try:
            cells = compile_cells(adjacency.domain, adjacency.policy, adjacency.axes, adjacency.where)
        except BlowfishError:
            return None
        everyone = sample_records(adjacency, np.random.default_rng(1), MOST_RECORDS)
        steps = steps_of(cells, changes(adjacency, everyone))
        is_plain = (
            is_listed
            and adjacency.where is None
            and not adjacency.policy.constraints
            and adjacency.is_complete(everyone)
        )
        return cls(adjacency, cells.graph, steps, is_plain)

    def violations(self, random: np.random.Generator, *, in_buckets: bool) -> Iterator[str]:
        """What is wrong with the certificate of one plan, in cells or in buckets of them."""
        cells = self.graph.cells
        buckets = _buckets(random, cells) if in_buckets else np.arange(cells)
        graph = merge_graph(self.graph, buckets) if in_buckets else self.graph
        plan = Plan(Fraction(1), tuple(_part(random, graph.shape) for _ in range(int(random.integers(1, 3)))))
        true = self._worst(plan, np.append(buckets, graph.cells))
        with suppress(BlowfishError):
            proof = certify(plan, graph)
            if proof.epsilon < true:
                yield f"a plan loses {amount(true)}, certified for {amount(proof.epsilon)} ({self._in_words(graph)})"
            if proof.is_tight and proof.epsilon != true and self.is_plain and not in_buckets:
                yield f"a plan that loses {amount(true)} is said to lose just {amount(proof.epsilon)}"
            if proof.epsilon:
                scaled, proof = calibrate(plan, graph, PRICE)
                for priced, claimed in ((scaled, proof), rescaled(scaled, proof, PRICE / 3)):
                    if true / priced.unit > claimed.epsilon:
                        yield f"noise is set for {amount(claimed.epsilon)}, the loss is {amount(true / priced.unit)}"

    def leaving_violations(self) -> Iterator[str]:
        """A cell from which a hidden change leads out of the filter must be marked in the graph."""
        if self.adjacency.policy.constraints:
            return
        left = {max(step) for steps in self.steps for step in steps if min(step) < 0}
        if not left <= set(np.flatnonzero(self.graph.to_zero).tolist()):
            yield f"a hidden move leads out of a cell that is taken to stay ({self._in_words(self.graph)})"

    def exact_violations(self, random: np.random.Generator) -> Iterator[str]:
        """Rows without noise must be refused wherever a hidden change shows in them."""
        for labels in (self.graph.components() + 1, random.integers(0, 2, size=self.graph.cells)):
            row = Sparse(labels.reshape(1, -1))
            with suppress(BlowfishError):
                certify(Plan(Fraction(1), (), row), self.graph)
                if self._worst(measured_once(row), np.arange(self.graph.cells + 1)):
                    yield f"a row that a hidden move changes may be released exactly ({self._in_words(self.graph)})"

    def _worst(self, plan: Plan, bucket: Ints) -> Fraction:
        """The loss by the definition: what all rows of a person, or all moves of a change, add up to."""
        rows = NoisyRows.of(plan)
        losses = replace(rows, columns=rows.columns[bucket]).losses(self.steps)
        return self.adjacency.policy.rows_per_person * max(losses, default=Fraction(0))

    def _in_words(self, graph: CellGraph) -> str:
        policy = self.adjacency.policy
        families = {**policy.attributes, **{"+".join(joint.attributes): joint for joint in policy.joint}}
        return f"{graph.shape} cells, {policy.composition}, presence {policy.presence}, {families}"


def _buckets(random: np.random.Generator, cells: int) -> Ints:
    """Runs of cells, or any sets of them."""
    steps = random.integers(0, 2, size=cells)
    steps[0] = 0
    runs = np.cumsum(steps)
    return np.asarray(random.permutation(runs) if random.random() < 0.4 else runs, dtype=np.int64)


def _part(random: np.random.Generator, shape: tuple[int, ...]) -> Measurement | KroneckerMeasurement:
    if len(shape) > 1 and random.random() < 0.8:
        # Products of trees are certified in a way of their own, products of other rows by a bound.
        if random.random() < 0.5:
            return KroneckerMeasurement(tuple(Measurement(_levels(random, size), np.ones(1, int)) for size in shape))
        return KroneckerMeasurement(tuple(_rows(random, size) for size in shape))
    return _rows(random, int(np.prod(shape)))


def _rows(random: np.random.Generator, cells: int) -> Measurement:
    """Rows of one of the kinds that have a certificate of their own."""
    ends = np.sort(random.integers(0, cells + 1, size=(int(random.integers(1, 6)), 2)), axis=1)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    ends = ends[ends[:, 1] <= cells] if np.any(ends[:, 1] <= cells) else np.array([[0, cells]])
    peak = np.minimum(np.arange(cells), int(random.integers(1, cells + 1)))
    options: tuple[Rows, ...] = (
        Identity(cells),
        Prefix(cells),
        Intervals(cells, ends[:, 0], ends[:, 1]),
        _levels(random, cells),
        Sparse(np.stack([peak + 1, peak[::-1]])),
        Sparse(random.integers(-2, 4, size=(3, cells))),
    )
    rows = one_of(random, options)
    return Measurement(rows, random.integers(1, 6, size=rows.shape[0]) if random.random() < 0.5 else np.ones(1, int))


def _levels(random: np.random.Generator, cells: int) -> Intervals:
    """Several divisions of the axis into runs, as in a tree."""
    low, high = list[int](), list[int]()
    for _ in range(int(random.integers(1, 4))):
        cuts = [0, *sorted(set(random.integers(1, cells, size=2).tolist())), cells] if cells > 1 else [0, 1]
        low += cuts[:-1]
        high += cuts[1:]
    return Intervals(cells, np.array(low), np.array(high))


POINT_PLANS, MOST_POINT_RECORDS = 5, 150


def point_lines(*, quick: bool, seed: int) -> list[Line]:
    """One line: grids near and far, weights rounded much and not at all, exact counts of blocks that may not be."""
    random, tried, violations = np.random.default_rng([seed, 29]), 0, list[str]()
    usual = certificate.SHARES, certificate.LEAST_SHARES
    for number in range(60 if quick else 200):
        adjacency = replace(made_up_places(random), by_value=True) if number % 4 == 0 else made_up(random, numeric=True)
        try:
            # A joint threshold is shared out finely, as it is for short columns, or coarsely, as for long ones.
            certificate.SHARES = certificate.LEAST_SHARES = (usual[0], 2, 1)[number % 3]
            points = compile_points(adjacency.domain, adjacency.policy, adjacency.axes, adjacency.where)
            pairs = _moves(adjacency, points)
            for _ in range(POINT_PLANS):
                violations += _violations(random, points, pairs)
                tried += 1
        except BlowfishError:
            continue
        finally:
            certificate.SHARES, certificate.LEAST_SHARES = usual
    return [judged("exact", "made-up weights on points", "every edge", violations, "none certified too low", tried)]


def _moves(adjacency: Adjacency, points: Points) -> list[tuple[Ints | None, Ints | None]]:
    """The points that every hidden change of one record leads from and to; None for what does not count."""
    everyone = sample_records(adjacency, np.random.default_rng(1), MOST_POINT_RECORDS)
    names = [axis.attribute for axis in adjacency.axes]
    order = [names.index(name) for name in points.axes]
    ends_of_moves = []
    for change in changes(adjacency, everyone):
        ends = [adjacency.place(record) for record in (change.before[0], change.after[0])]
        one, two = (np.array([place[k] for k in order]) if isinstance(place, tuple) else None for place in ends)
        ends_of_moves.append((one, two))
    return ends_of_moves


def _violations(random: np.random.Generator, points: Points, pairs: list[tuple[Ints | None, Ints | None]]) -> list[str]:
    plan, each = _plan(random, points.graph.plain), points.graph.rows_per_person
    nothing = np.zeros(plan.grid_points + math.prod(plan.block_shape), dtype=np.int64)
    shown: dict[bytes, Ints] = {}
    moved = []
    for ends in pairs:
        one, two = (nothing if end is None else _weights(plan, end, shown) for end in ends)
        moved.append(np.abs(one - two))
    loss = each * max((int(change[: plan.grid_points].sum()) for change in moved), default=0)
    tells = any(change[plan.grid_points :].any() for change in moved)
    violations = list[str]()
    with suppress(BlowfishError):
        priced, proof = certificate.calibrate_points(replace(plan, blocks=()), points.graph, Fraction(1))
        claimed = 0 if priced.unit is None else proof.epsilon * priced.unit
        if claimed < loss:
            violations.append(
                f"weights that change by {amount(Fraction(loss))} are certified for {amount(Fraction(claimed))}"
            )
    with suppress(BlowfishError):
        certificate.certify_points(plan.with_unit(Fraction(1)), points.graph)
        if tells:
            violations.append("counts of blocks that a hidden move changes may be released exactly")
    return violations


def _weights(plan: PointPlan, point: Ints, known: dict[bytes, Ints]) -> Ints:
    """What one point adds to every point of the grid, and to the counts of the blocks."""
    key = point.tobytes()
    if key not in known:
        added = np.zeros(plan.grid_points + math.prod(plan.block_shape), dtype=np.int64)
        grid_points, weights = plan.rows_at(point.reshape(1, -1))
        np.add.at(added, grid_points.reshape(-1), weights.reshape(-1))
        added[plan.grid_points + int(plan.blocks_at(point.reshape(1, -1))[0])] += 1
        known[key] = added
    return known[key]


def _plan(random: np.random.Generator, plain: tuple[int, ...]) -> PointPlan:
    axes = []
    # Where all values lie between two points of the grid, a move along two columns loses more than along one.
    is_far = random.random() < 0.4
    for size in plain:
        steps = 60 if is_far else int(one_of(random, (1, 2, 3, 8, 60)))
        places = np.arange(size) if is_far else np.cumsum(random.integers(0, 2 * steps, size=size))
        axes.append(PointAxis(steps, places - places[0]))
    whole = math.prod(axis.steps for axis in axes)
    totals = [total for total in range(1, whole + 1) if whole % total == 0]
    # Either every label is the same, so that nothing shows, or some differ.
    blocks = tuple(random.integers(0, 2, size=size) * int(random.random() < 0.5) for size in plain)
    return PointPlan(None, tuple(axes), int(one_of(random, totals)), blocks)
