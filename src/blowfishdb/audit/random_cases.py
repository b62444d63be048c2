"""Made-up declarations, plans and points, each small enough that every two records can be compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from scipy.sparse.csgraph import shortest_path

from blowfishdb.audit.cases import LIMITS, LISTS, limited
from blowfishdb.audit.definitions import (
    Adjacency,
    NoisyRows,
    Record,
    Step,
    changes,
    measured_once,
    moves,
    records,
    sample_records,
    signatures,
)
from blowfishdb.audit.report import Line, Losses, amount, judged
from blowfishdb.audit.stages import cells_of_records, steps_of
from blowfishdb.catalog.stretch import policy_stretch
from blowfishdb.errors import BlowfishError, PolicyError
from blowfishdb.model.cells import Cells, Points, compile_cells, compile_points
from blowfishdb.model.document import Document, Format, read_document, write_document
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers, bins, categorical, domain, integers
from blowfishdb.model.graphs import CellGraph, Composition, Metric, Presence
from blowfishdb.model.numbers import Bools, Ints
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
from blowfishdb.plan import points as point_plans
from blowfishdb.plan.certificate import calibrate, certify, rescaled
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan
from blowfishdb.plan.points import PointAxis, PointPlan, calibrate_points, certify_points
from blowfishdb.plan.program import merge_graph

SIZES: dict[int, tuple[int, int]] = {1: (4, 14), 2: (3, 6), 3: (2, 3)}
"""The least and the largest number of values of an attribute, by the number of attributes."""
COMPOSITIONS: tuple[Composition, ...] = ("record", "attribute")
PRESENCES: tuple[Presence, ...] = ("public", "secret", "only")
PUBLIC: tuple[Presence, ...] = ("public", "public")
"""Presence is public more often than not."""
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
    policy = Policy(joint=[grid(["x", "y"], theta, metric)], presence=one_of(random, (*PUBLIC, *PRESENCES)))
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
        one_of(random, (*PUBLIC, *PRESENCES)),
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
"""Limits that count as passed, so that small questions are certified as large ones are."""
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
        yield judged(f"certificates of made-up plans, {way}", "every edge", violations, "none too low", tried)


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
        """Faults of the certificate of one plan, in cells or in buckets of them."""
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
    usual = point_plans.SHARES, point_plans.LEAST_SHARES
    for number in range(60 if quick else 200):
        adjacency = replace(made_up_places(random), by_value=True) if number % 4 == 0 else made_up(random, numeric=True)
        try:
            # A joint threshold is shared out finely, as it is for short columns, or coarsely, as for long ones.
            point_plans.SHARES = point_plans.LEAST_SHARES = (usual[0], 2, 1)[number % 3]
            points = compile_points(adjacency.domain, adjacency.policy, adjacency.axes, adjacency.where)
            places, ends = _moves(adjacency, points)
            for _ in range(POINT_PLANS):
                violations += _violations(random, points, places, ends)
                tried += 1
        except BlowfishError:
            continue
        finally:
            point_plans.SHARES, point_plans.LEAST_SHARES = usual
    return [judged("made-up weights on points", "every edge", violations, "none certified too low", tried)]


def _moves(adjacency: Adjacency, points: Points) -> tuple[Ints, Ints]:
    """The points of all records, and which of them each hidden change leads from and to; -1: it does not count."""
    everyone = sample_records(adjacency, np.random.default_rng(1), MOST_POINT_RECORDS)
    listed = [(change.before[0], change.after[0]) for change in changes(adjacency, everyone)]
    ends = [(adjacency.place(one), adjacency.place(two)) for one, two in listed]
    numbers = {place: number for number, place in enumerate({place for pair in ends for place in pair} - {None})}
    names = [axis.attribute for axis in adjacency.axes]
    places = np.array(list(numbers), dtype=np.int64).reshape(-1, len(names))
    moved = np.array([[numbers.get(place, -1) for place in pair] for pair in ends], dtype=np.int64).reshape(-1, 2)
    return places[:, [names.index(name) for name in points.axes]], moved


def _violations(random: np.random.Generator, points: Points, places: Ints, ends: Ints) -> Iterator[str]:
    plan, number = _plan(random, points.graph.plain), np.arange(len(places))
    # What each place adds to every point of the grid and to the counts of the blocks; the last line adds nothing.
    added = np.zeros((len(places) + 1, plan.grid_points + math.prod(plan.block_shape)), dtype=np.int64)
    grid_points, weights = plan.rows_at(places)
    np.add.at(added, (number[:, None], grid_points), weights)
    added[number, plan.grid_points + plan.blocks_at(places)] += 1
    moved = np.abs(added[ends[:, 0]] - added[ends[:, 1]])
    loss = points.graph.rows_per_person * int(moved[:, : plan.grid_points].sum(axis=1).max(initial=0))
    with suppress(BlowfishError):
        priced, proof = calibrate_points(replace(plan, blocks=()), points.graph, Fraction(1))
        claimed = Fraction(0) if priced.unit is None else proof.epsilon * priced.unit
        if claimed < loss:
            yield f"weights that change by {loss} are certified for {amount(claimed)}"
    with suppress(BlowfishError):
        certify_points(plan.with_unit(Fraction(1)), points.graph)
        if moved[:, plan.grid_points :].any():
            yield "counts of blocks that a hidden move changes may be released exactly"


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


MOST_JOINED = 60
FORMATS: tuple[Format, ...] = ("toml", "json")


def declaration_lines(*, quick: bool, seed: int) -> list[Line]:
    """Made-up policies that take the place of others, and made-up documents."""
    random, changed, unlike = np.random.default_rng([seed, 31]), list[str](), list[str]()
    settings = 60 if quick else 200
    for _ in range(settings):
        adjacency = made_up(random)
        document = Document(adjacency.domain, adjacency.policy)
        unlike += [
            f"a declaration written as {form} is read as another one"
            for form in FORMATS
            if read_document(write_document(document, form), form) != document
        ]
        changed += _stretch_violations(random, adjacency)
    return [
        judged("policies that change", "past loss", changed, "every new edge covered", settings),
        judged("declarations", "written and read", unlike, "nothing gets lost", len(FORMATS) * settings),
    ]


def _stretch_violations(random: np.random.Generator, adjacency: Adjacency) -> list[str]:
    """Between two values that the new policy joins lie as many old steps as past loss is multiplied by, at most."""
    declared = adjacency.domain
    old, new = _connected(random, declared), made_up_policy(random, declared, with_constraints=False)
    # Where joint thresholds change, or old values were not hidden at all, nothing is carried over: that is no test.
    new = replace(_connected(random, declared) if new.joint else new, unit=ROW)
    try:
        factor = policy_stretch(declared, old, new).factor
    except BlowfishError:
        return []
    everyone = sample_records(
        Adjacency(declared, old, tuple(Axis(name) for name in declared.names), None),
        np.random.default_rng(1),
        MOST_JOINED,
    )
    if factor is None or len(everyone) < math.prod(declared[name].total_size for name in declared.names):
        return []
    before, after = (_joined(declared_policy, adjacency, everyone) for declared_policy in (old, new))
    steps = shortest_path(before, unweighted=True)
    furthest = float(steps[after].max(initial=0.0))
    if furthest > factor:
        return [f"values {furthest:g} old steps apart are joined, past loss is multiplied by {factor}"]
    return []


def _connected(random: np.random.Generator, declared: Domain) -> Policy:
    """A policy under which one step after the other leads to every value."""
    families: dict[str, Family] = {}
    for name in declared.names:
        steps: tuple[Family, ...] = (line(), threshold(2), threshold(3), full())
        families[name] = full() if isinstance(declared[name], Categorical) else one_of(random, steps)
    return Policy(families, one_of(random, COMPOSITIONS), one_of(random, ("public", "public", "secret")))


def _joined(policy: Policy, adjacency: Adjacency, everyone: list[dict[str, int]]) -> Bools:
    """A matrix of the records that an edge joins, absence the last of them."""
    declared, size = policy.applied(adjacency.domain), len(everyone)
    joined = np.zeros((size + 1, size + 1), dtype=np.bool_)
    for i, j in itertools.combinations(range(size), 2):
        joined[i, j] = joined[j, i] = moves(declared, policy, everyone[i], everyone[j])
    if policy.presence != "public":
        joined[:size, size] = joined[size, :size] = True
    return joined


SPARE = 1
"""Rows of the person beyond those that count, at most."""
KNOWN = (["count(x = 1)"], ["marginal(x)"], ["range(x, 0, 1)", "rows = 9"], ["count(x is null)"], ["rows"])
FAMILIES: tuple[Family, ...] = (full(), line(), partition(cuts=[1]), public())
FILTERS: tuple[Predicate | None, ...] = (None, Column("x") >= 1)


def people_constraint_lines() -> list[Line]:
    """One line: every declaration of these kinds is refused, or covers what one person's rows can change."""
    declared = domain({"x": integers(0, 2, null_public=True)})
    losses, refusals, tried = Losses(), 0, 0
    for at_most, constraints, family, presence in itertools.product((1, 2), KNOWN, FAMILIES, PRESENCES):
        unit = person("who", at_most=at_most, order_by="nr")
        policy = Policy({"x": family}, presence=presence, unit=unit, constraints=constraints)
        tried += 1
        try:
            compiled = [compile_cells(declared, policy, ["x"], where) for where in FILTERS]
        except PolicyError:
            refusals += 1
            continue
        for cells in compiled:
            certified = certify(measured_once(Identity(cells.graph.cells)), cells.graph).epsilon
            known = f"{'; '.join(constraints)} known, {at_most} rows a person, presence {presence}"
            losses.compare(known, Fraction(_worst(declared, policy, cells)), certified)
    summary = f"{refusals} refused, the others covered"
    return [judged("constraints and people", "one person's rows", losses.violations, summary, tried)]


def _worst(declared: Domain, policy: Policy, cells: Cells) -> int:
    """The most by which counts of the first rows change, over all changes of one person that keep the constraints."""
    applied = policy.applied(declared)
    everyone = list(records(applied))
    told = np.array(signatures(applied, policy.constraints, everyone))
    columns = np.eye(cells.graph.cells + 1, dtype=np.int64)[cells_of_records(cells, everyone)][:, :-1]
    worst = 0
    for before, after in _changes(applied, policy, everyone):
        if np.array_equal(_sum(told, before), _sum(told, after)):
            most = policy.rows_per_person
            worst = max(worst, int(np.abs(_sum(columns, before[:most]) - _sum(columns, after[:most])).sum()))
    return worst


def _sum(rows: Ints, chosen: Sequence[int]) -> Ints:
    return np.asarray(rows[list(chosen)].sum(axis=0), dtype=np.int64)


def _changes(applied: Domain, policy: Policy, everyone: Sequence[Record]) -> Iterator[tuple[list[int], list[int]]]:
    """The rows of one person before and after: each moves along an edge or stays, or all of them come or go."""
    numbers = range(len(everyone))
    joined = [
        (a, b)
        for a, b in itertools.product(numbers, numbers)
        if a == b or (policy.presence != "only" and moves(applied, policy, everyone[a], everyone[b]))
    ]
    for rows in range(1, policy.rows_per_person + SPARE + 1):
        for change in itertools.product(joined, repeat=rows):
            yield [a for a, _ in change], [b for _, b in change]
        if policy.presence != "public":
            for values in itertools.product(numbers, repeat=rows):
                yield list(values), []
