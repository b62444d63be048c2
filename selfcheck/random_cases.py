"""Made-up declarations, plans, points and accounts against the definitions, record by record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import cast

import numpy as np
from scipy.sparse.csgraph import shortest_path

from blowfishdb.audit.cases import COMPOSITIONS, LIMITS, LISTS, METRICS, Limit, limited
from blowfishdb.audit.definitions import (
    Adjacency,
    CellStep,
    NoisyRows,
    Record,
    all_changes,
    changes,
    moves,
    records,
    sample_records,
    signatures,
)
from blowfishdb.audit.report import CheckLine, Losses, amount, judged
from blowfishdb.audit.stages import cells_of_records, steps_of
from blowfishdb.catalog.policy_change import policy_stretch
from blowfishdb.engine.charge import check_parallel, edge_losses
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.release import Release
from blowfishdb.errors import BlowfishError, PolicyError, TooLarge
from blowfishdb.ledger.amounts import BY, PER_EDGE, ClassLosses, in_classes
from blowfishdb.model.calendar import Timestamps
from blowfishdb.model.cells import Cells, PointGraph, Points, compile_cells, compile_points
from blowfishdb.model.constraints import RowsConstraint, rows_constraint
from blowfishdb.model.document import Document, Format, read_document, write_document
from blowfishdb.model.domain import CELL, Categorical, Domain, domain, integers
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.policy import (
    ROW,
    Family,
    Policy,
    full,
    grid,
    line,
    partition,
    person,
    public,
    threshold,
)
from blowfishdb.model.predicate import Axis, Column, Predicate
from blowfishdb.model.workload import Identity, Sparse
from blowfishdb.plan import points as point_plans
from blowfishdb.plan.certificate import Certificate, calibrate, certify, rescaled
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.points import PointAxis, PointPlan, calibrate_points, certify_points
from blowfishdb.plan.program import merge_graph
from blowfishdb.sources.base import Source
from selfcheck.made_up import (
    MOST_TIED,
    PRESENCES,
    PUBLIC,
    made_up,
    made_up_axis_graph,
    made_up_buckets,
    made_up_combinations,
    made_up_constraints,
    made_up_part,
    made_up_places,
    made_up_policy,
    made_up_query,
    made_up_ties,
    measured_once,
    one_of,
)

PLANS, TIED_PLANS, MOST_RECORDS = 6, 6, 150
"""Plans for each made-up query, for each under public constraints, and records that are looked at."""
WAYS: dict[str, tuple[Limit, ...]] = {
    "edges listed": (),
    "by structure": LIMITS,
    "too large to list": (*LIMITS, *LISTS),
}
"""Limits that count as passed, so that small queries are certified as large ones are."""
PRICES = (Fraction(3, 7), Fraction(1, 10**7), Fraction(333_333_333_331, 10**12), Fraction(40))
"""Ordinary prices, and such as somebody might round."""


def certificate_lines(way: str, *, quick: bool, seed: int) -> list[CheckLine]:
    """One line for a way in which plans are certified."""
    checked = list(certificate_checks(way, 120 if quick else 600, seed))
    subject, violations = f"certificates of made-up plans, {way}", itertools.chain(*checked)
    return [judged(subject, "every edge", violations, "none too low", len(checked))]


def certificate_checks(way: str, settings: int, seed: int) -> Iterator[list[str]]:
    """The faults of each of many certificates: none, where all is well."""
    random, limits = np.random.default_rng([seed, len(way), 23]), WAYS[way]
    with limited(limits):
        for known in questions(random, settings, is_listed=not limits):
            for turn in range(TIED_PLANS if known.adjacency.policy.constraints else PLANS):
                yield [*known.violations(random, in_buckets=turn % 3 == 2, is_priced=turn == 0)]
            yield [*known.exact_violations(random), *known.edge_violations()]


def edge_lines(way: str, *, quick: bool, seed: int) -> list[CheckLine]:
    """One line for a way in which plans are certified: a part or two on small graphs, against every edge."""
    random, losses = np.random.default_rng([seed, len(way), 47]), Losses()
    for _ in range(250 if quick else 5000):
        shape = tuple(int(size) for size in random.integers(2, 6, size=int(random.integers(1, 3))))
        shape = (shape[0] + 3,) if len(shape) == 1 else shape
        graph = CellGraph(
            tuple(made_up_axis_graph(random, size) for size in shape),
            one_of(random, COMPOSITIONS),
            random.random(math.prod(shape)) < one_of(random, (0.0, 0.3)),
            one_of(random, PRESENCES),
            int(random.integers(1, 3)),
        )
        plan = Plan(Fraction(2, 3), tuple(made_up_part(random, shape) for _ in range(int(random.integers(1, 3)))))
        steps = [[(one, two)] for one, two in graph.edges().tolist()]
        worst = max(NoisyRows.of(plan).losses(steps), default=Fraction(0)) * graph.rows_per_person
        with limited(WAYS[way]), suppress(TooLarge):
            certificate = certify(plan, graph)
            losses.compare(f"{len(shape)} axes", worst, certificate.epsilon, tight=certificate.is_tight)
    return [judged(f"plans on small graphs, {way}", "every edge", losses.violations, "none too low", losses.tried)]


GRAPH_RECORDS = 40


def graph_lines(way: str, *, quick: bool, seed: int) -> list[CheckLine]:
    """One line for a way in which graphs are made: every hidden move is an edge of what a query sees of it."""
    checked = list(graph_checks(way, 240 if quick else 800, seed))
    subject, violations = f"graphs of made-up policies, {way}", itertools.chain(*checked)
    return [judged(subject, "every move", violations, "every hidden move an edge", len(checked))]


def graph_checks(way: str, settings: int, seed: int) -> Iterator[list[str]]:
    """The faults of each of many graphs."""
    random, other = (np.random.default_rng([seed, len(way), stream]) for stream in (43, 53))
    with limited(WAYS[way]):
        for place in range(settings):
            adjacency = made_up_places(random) if place % 4 == 0 else made_up(random, numeric=place % 4 == 2)
            adjacencies = [replace(adjacency, by_value=False), *([made_up_combinations(other)] if place % 2 else [])]
            for one in adjacencies:
                known = Known.of(one, is_listed=False, most=GRAPH_RECORDS)
                if known is not None:
                    yield [*known.edge_violations()]


def questions(random: np.random.Generator, settings: int, *, is_listed: bool) -> Iterator[Known]:
    """Made-up queries that are not refused: plain ones, places on a map, and under public constraints."""
    for place in range(settings):
        makers = (made_up_places, made_up_ties, made_up_ties, made_up, made_up_ties, made_up_ties)
        known = Known.of(makers[place % len(makers)](random), is_listed=is_listed)
        if known is not None:
            yield known


@dataclass(frozen=True, eq=False)
class Known:
    """A made-up query: its graph, and the cells between which the records of every hidden change move."""

    adjacency: Adjacency
    graph: CellGraph
    steps: list[list[CellStep]]
    is_complete: bool
    """Whether all records are known, and edges are listed as they are."""

    @classmethod
    def of(cls, adjacency: Adjacency, *, is_listed: bool, most: int = MOST_RECORDS) -> Known | None:
        """None where the query is refused."""
        try:
            cells = compile_cells(adjacency.domain, adjacency.policy, adjacency.axes, adjacency.where)
        except BlowfishError:
            return None
        everyone = sample_records(
            adjacency, np.random.default_rng(1), MOST_TIED if adjacency.policy.constraints else most
        )
        steps = steps_of(cells, changes(adjacency, everyone))
        # Where a clock changes, the policy also joins readings that no clock shows.
        is_known = not any(isinstance(a, Timestamps) and a.zone != "UTC" for _, a in adjacency.domain.attributes)
        return cls(adjacency, cells.graph, steps, is_listed and is_known and adjacency.is_complete(everyone))

    def plan(self, random: np.random.Generator, graph: CellGraph) -> Plan:
        """A plan over the cells of a graph."""
        return Plan(Fraction(1), tuple(made_up_part(random, graph.shape) for _ in range(int(random.integers(1, 3)))))

    def violations(self, random: np.random.Generator, *, in_buckets: bool, is_priced: bool) -> Iterator[str]:
        """Faults of the certificate of one plan, in cells or in buckets of them; and of its noise at several prices."""
        cells = self.graph.cells
        buckets = made_up_buckets(random, cells) if in_buckets else np.arange(cells)
        graph = merge_graph(self.graph, buckets) if in_buckets else self.graph
        plan, prices = self.plan(random, graph), [PRICES[int(place)] for place in random.permutation(len(PRICES))]
        true = self.worst(plan, np.append(buckets, graph.cells))
        with suppress(BlowfishError):
            proof = certify(plan, graph)
            if proof.epsilon < true:
                yield f"a plan loses {amount(true)}, certified for {amount(proof.epsilon)} ({self._in_words(graph)})"
            if proof.is_tight and proof.epsilon != true and self.is_complete and not in_buckets:
                yield (
                    f"a plan that loses {amount(true)} is said to lose just {amount(proof.epsilon)} "
                    f"({self._in_words(graph)})"
                )
            if proof.epsilon and is_priced:
                priced, claimed = calibrate(plan, graph, prices[0])
                yield from _underpriced(true, priced, claimed, prices[0])
                for price in prices[1:]:
                    priced, claimed = rescaled(priced, claimed, price)
                    yield from _underpriced(true, priced, claimed, price)

    def edge_violations(self) -> Iterator[str]:
        """Every hidden move must be an edge of the graph, however that is asked; so must every way out of a filter."""
        if self.adjacency.policy.constraints:
            return
        left = {max(step) for steps in self.steps for step in steps if min(step) < 0}
        if not left <= set(np.flatnonzero(self.graph.to_zero).tolist()):
            yield f"a hidden move leads out of a cell that is taken to stay ({self._in_words(self.graph)})"
        staying = [step for steps in self.steps for step in steps if min(step) >= 0]
        pairs = np.array(staying, dtype=np.int64).reshape(-1, 2)
        with suppress(TooLarge):
            listed = {frozenset(edge) for edge in self.graph.value_edges().tolist()}
            if not {frozenset(pair) for pair in pairs.tolist()} <= listed:
                yield f"a hidden move is no edge of the graph ({self._in_words(self.graph)})"
        ends = np.unravel_index(pairs, [factor.size for factor in self.graph.factors])
        for factor, places in zip(self.graph.factors, ends, strict=True):
            if not np.all(factor.joined(places[:, 0], places[:, 1])):
                yield f"a hidden move steps between cells that no edge is said to join ({self._in_words(self.graph)})"
        labels = self.graph.components()
        if np.any(labels[pairs[:, 0]] != labels[pairs[:, 1]]):
            yield f"a hidden move leads from one component to another ({self._in_words(self.graph)})"

    def exact_violations(self, random: np.random.Generator) -> Iterator[str]:
        """Rows without noise must be refused wherever a hidden change shows in them."""
        for labels in (self.graph.components() + 1, random.integers(0, 2, size=self.graph.cells)):
            row = Sparse(labels.reshape(1, -1))
            with suppress(BlowfishError):
                certify(Plan(Fraction(1), (), row), self.graph)
                if self.worst(measured_once(row)):
                    yield f"a row that a hidden move changes may be released exactly ({self._in_words(self.graph)})"

    def worst(self, plan: Plan, bucket: Ints | None = None) -> Fraction:
        """The loss by the definition: what all rows of a person, or all moves of a change, add up to."""
        rows = NoisyRows.of(plan)
        columns = rows.columns if bucket is None else rows.columns[bucket]
        losses = replace(rows, columns=columns).losses(self.steps)
        return self.adjacency.policy.rows_per_person * max(losses, default=Fraction(0))

    def _in_words(self, graph: CellGraph) -> str:
        policy = self.adjacency.policy
        families = {**policy.attributes, **{"+".join(joint.attributes): joint for joint in policy.joint}}
        known = f", {policy.constraints}" if policy.constraints else ""
        return f"{graph.shape} cells, {policy.composition}, presence {policy.presence}, {families}{known}"


def _underpriced(true: Fraction, priced: Plan, claimed: Certificate, price: Fraction) -> Iterator[str]:
    """The noise of a plan must be what its price asks for, whatever the price is."""
    if claimed.epsilon != price or true / priced.unit > price:
        yield f"noise is set for {amount(claimed.epsilon)} of {amount(price)}, the loss is {amount(true / priced.unit)}"


POINT_PLANS, MOST_POINT_RECORDS = 5, 150
SHARES: tuple[Limit, ...] = ((point_plans, "SHARES"), (point_plans, "LEAST_SHARES"))


def point_lines(*, quick: bool, seed: int) -> list[CheckLine]:
    """One line: grids near and far, weights rounded much and not at all, exact counts of blocks that may not be."""
    random, tried, violations = np.random.default_rng([seed, 29]), 0, list[str]()
    for number in range(150 if quick else 500):
        adjacency = replace(made_up_places(random), by_value=True) if number % 4 == 0 else made_up(random, numeric=True)
        # A joint threshold is shared out finely, as it is for short columns, or coarsely, as for long ones.
        shares = (point_plans.SHARES, 2, 1)[number % 3]
        with suppress(BlowfishError), limited(SHARES, to=shares):
            points = compile_points(adjacency.domain, adjacency.policy, adjacency.axes, adjacency.where)
            places, ends = _moves(adjacency, points)
            for _ in range(POINT_PLANS):
                violations += _violations(random, points.graph, places, ends)
                tried += 1
    for _ in range(400 if quick else 2000):
        violations += _violations(random, *_point_graph(random))
        tried += 1
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


def _point_graph(random: np.random.Generator) -> tuple[PointGraph, Ints, Ints]:
    """A graph on points of one or two columns, of any kind along each; all points, and the ends of all edges."""
    sizes = tuple(int(size) for size in random.integers(3, 8, size=int(random.integers(1, 3))))
    factors = tuple(made_up_axis_graph(random, size) for size in sizes)
    graph = PointGraph(factors, sizes, one_of(random, COMPOSITIONS), leaves=False, presence="public")
    places = np.array(list(itertools.product(*(range(size) for size in sizes))), dtype=np.int64)
    first, second = np.triu_indices(len(places), k=1)
    columns = list(zip(factors, places[first].T, places[second].T, strict=True))
    joined = np.all([factor.joined(one, two) for factor, one, two in columns], axis=0)
    if graph.composition == "attribute":
        joined &= np.sum([one != two for _, one, two in columns], axis=0) == 1
    return graph, places, np.stack([first, second], axis=1)[joined]


def _violations(random: np.random.Generator, graph: PointGraph, places: Ints, ends: Ints) -> Iterator[str]:
    plan, number = _plan(random, graph.plain), np.arange(len(places))
    # What each place adds to every point of the grid and to the counts of the blocks; the last line adds nothing.
    added = np.zeros((len(places) + 1, plan.grid_points + math.prod(plan.block_shape)), dtype=np.int64)
    grid_points, weights = plan.rows_at(places)
    np.add.at(added, (number[:, None], grid_points), weights)
    added[number, plan.grid_points + plan.blocks_at(places)] += 1
    moved = np.abs(added[ends[:, 0]] - added[ends[:, 1]])
    loss = graph.rows_per_person * int(moved[:, : plan.grid_points].sum(axis=1).max(initial=0))
    with suppress(BlowfishError):
        priced, proof = calibrate_points(replace(plan, blocks=()), graph, Fraction(1))
        claimed = Fraction(0) if priced.unit is None else proof.epsilon * priced.unit
        if claimed < loss:
            yield f"weights that change by {loss} are certified for {amount(claimed)}"
    with suppress(BlowfishError):
        certify_points(plan.with_unit(Fraction(1)), graph)
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


RELEASES = 3
MOST_LISTED = 60


def account_lines(*, quick: bool, seed: int) -> list[CheckLine]:
    """One line: over several releases no change of a record loses more than its classes of edges are charged for."""
    random, losses, settings = np.random.default_rng([seed, 41]), Losses(), 60 if quick else 240
    for place in range(settings):
        _compare_account(random, (made_up_ties if place % 4 == 0 else made_up)(random), losses)
    fine = "no change lost more than was charged"
    return [judged("made-up accounts", "classes of edges", losses.violations, fine, losses.tried)]


def _loss_on(plan: Plan, graph: CellGraph) -> Fraction:
    return certify(plan, graph).epsilon


def _compare_account(random: np.random.Generator, adjacency: Adjacency, losses: Losses) -> None:
    """Releases made-up plans for several queries, those that are not refused, side by side where that is allowed."""
    declared, name = adjacency.domain, one_of(random, adjacency.domain.names)
    policy, accounting = adjacency.policy, PER_EDGE
    if not policy.joint and random.random() < 0.5:
        policy = replace(policy, attributes={**policy.attributes, name: public()})
    with suppress(BlowfishError):
        check_parallel(declared, policy, name)
        accounting = f"{BY}{name}"
    handle = DatasetHandle("audit", declared, policy, "0" * 32, 1, 1, 1, cast("Source", None), accounting)
    everything = Adjacency(declared, policy, tuple(Axis(each) for each in declared.names), None)
    everyone = sample_records(everything, np.random.default_rng(1), MOST_LISTED)
    listed = all_changes(everything, everyone)
    lost, account = [Fraction(0)] * len(listed), ClassLosses()
    queries = [made_up_query(random, declared) for _ in range(RELEASES)]
    if declared[name].null == CELL:
        # Nothing but records without a value: a part of the data by itself where that is public.
        queries.append(replace(made_up_query(random, declared), where=Column(name).is_null()))
    for question in queries:
        try:
            compiled = compile_query(declared, policy, question)
            cells, price = compiled.cells, one_of(random, PRICES)
            plan, proof = calibrate(Plan(Fraction(1), (made_up_part(random, cells.graph.shape),)), cells.graph, price)
        except BlowfishError:
            continue
        fields = {"compiled": compiled, "counted": compiled, "plan": plan, "epsilon": proof.epsilon}
        release = cast("Release", SimpleNamespace(**fields, loss_on=partial(_loss_on, plan)))
        account = account.plus(proof.epsilon, in_classes(accounting, edge_losses(handle, release)))
        now = NoisyRows.of(plan).losses(steps_of(cells, listed))
        lost = [before + policy.rows_per_person * more for before, more in zip(lost, now, strict=True)]
        worst = max(lost, default=Fraction(0))
        losses.compare(f"{accounting}, {dict(policy.attributes)}, presence {policy.presence}", worst, account.worst)


MOST_JOINED = 60
FORMATS: tuple[Format, ...] = ("toml", "json")


def declaration_lines(*, quick: bool, seed: int) -> list[CheckLine]:
    """Made-up policies that take the place of others, and made-up documents."""
    random, changed, unlike = np.random.default_rng([seed, 31]), list[str](), list[str]()
    settings = 60 if quick else 200
    for place in range(settings):
        adjacency = made_up_ties(random) if place % 3 == 0 else made_up(random)
        unlike += _unlike(adjacency)
        changed += [*_stretch_violations(random, adjacency.domain), *_past_violations(random, adjacency)]
    places = np.random.default_rng([seed, 61])
    changed += [violation for _ in range(4 * settings) for violation in _place_violations(places)]
    return [
        judged("policies that change", "past loss", changed, "every new edge covered", settings),
        judged("declarations", "written and read", unlike, "nothing gets lost", len(FORMATS) * settings),
    ]


def _unlike(adjacency: Adjacency) -> Iterator[str]:
    """Formats in which a declaration is not read as it was written."""
    with suppress(PolicyError):
        # Made-up counts may contradict each other; no document holds such.
        adjacency.policy.check(adjacency.domain)
        document = Document(adjacency.domain, adjacency.policy)
        for form in FORMATS:
            if read_document(write_document(document, form), form) != document:
                yield f"a declaration written as {form} is read as another one"


def _stretch_violations(random: np.random.Generator, declared: Domain) -> list[str]:
    """Between two values that the new policy joins lie as many old steps as past loss is multiplied by, at most."""
    old, new = _connected(random, declared), made_up_policy(random, declared)
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
    furthest = _furthest(declared, old, new, everyone)
    if furthest > factor:
        return [f"values {furthest:g} old steps apart are joined, past loss is multiplied by {factor}"]
    return []


def _place_violations(random: np.random.Generator) -> Iterator[str]:
    """Places under one policy after the other, joint thresholds among them, with NULL and presence of every kind."""
    nulls = [one_of(random, ((CELL, False), (CELL, True), (0, False))) for _ in range(2)]
    x, y = (integers(0, 3 - axis, null=null, null_public=told) for axis, (null, told) in enumerate(nulls))
    declared = Domain((("x", x), ("y", y)))
    old, new = _places_policy(random), _places_policy(random)
    factor = policy_stretch(declared, old, new).factor
    if factor is not None:
        furthest = _furthest(declared, old, new, list(records(declared)))
        if furthest > factor:
            yield f"places {furthest:g} old steps apart are joined, past loss is multiplied by {factor}"


def _places_policy(random: np.random.Generator) -> Policy:
    presence = one_of(random, (*PUBLIC * 3, *PRESENCES))
    if random.random() < 0.6:
        theta = one_of(random, ("0.5", "1", "2"))
        return Policy(joint=[grid(["x", "y"], theta, one_of(random, METRICS))], presence=presence)
    families: tuple[Family, ...] = (full(), line(), public(), public())
    return Policy({name: one_of(random, families) for name in "xy"}, one_of(random, COMPOSITIONS), presence)


def _past_violations(random: np.random.Generator, adjacency: Adjacency) -> Iterator[str]:
    """A plan released under one policy loses no more under the next one than its charge, multiplied, covers."""
    declared, axes = adjacency.domain, tuple(Axis(name) for name in adjacency.domain.names)
    for first, second in _successions(random, declared, adjacency.policy):
        with suppress(BlowfishError):
            factor = policy_stretch(declared, first, second).factor
            old, new = (Known.of(Adjacency(declared, each, axes, None), is_listed=True) for each in (first, second))
            if factor is None or old is None or new is None or old.graph.shape != new.graph.shape:
                continue
            for _ in range(PLANS):
                plan = old.plan(random, old.graph)
                charged, lost = certify(plan, old.graph).epsilon, new.worst(plan)
                if lost > factor * charged:
                    yield f"a release that cost {amount(charged)} loses {amount(lost)} now, multiplied by {factor}"


def _successions(random: np.random.Generator, declared: Domain, policy: Policy) -> Iterator[tuple[Policy, Policy]]:
    """Policies, and such as may follow them: with other graphs, with constraints, with more rows that change."""
    connected, alone = _connected(random, declared), replace(policy, unit=ROW)
    if not policy.constraints:
        yield connected, alone
        return
    hidden = Policy({}, connected.composition, connected.presence)
    for old in (connected, hidden):
        yield old, replace(old, constraints=policy.constraints)
    yield replace(connected, constraints=tuple(made_up_constraints(random, declared))), alone
    known = [constraint for constraint in policy.constraints if not isinstance(constraint, RowsConstraint)]
    fewer, more = (replace(policy, constraints=(*known, rows_constraint(rows))) for rows in (1, 3))
    yield replace(fewer, presence="public"), replace(more, presence="public")


def _connected(random: np.random.Generator, declared: Domain) -> Policy:
    """A policy under which one step after the other leads to every value."""
    families: dict[str, Family] = {}
    for name in declared.names:
        steps: tuple[Family, ...] = (line(), threshold(2), threshold(3), full())
        families[name] = full() if isinstance(declared[name], Categorical) else one_of(random, steps)
    return Policy(families, one_of(random, COMPOSITIONS), one_of(random, ("public", "public", "secret")))


def _furthest(declared: Domain, old: Policy, new: Policy, everyone: list[Record]) -> float:
    """The most old steps between two records that the new policy joins."""
    steps = shortest_path(_joined(old, declared, everyone), unweighted=True)
    return float(steps[_joined(new, declared, everyone)].max(initial=0.0))


def _joined(policy: Policy, declared: Domain, everyone: list[Record]) -> Bools:
    """A matrix of the records that an edge joins, absence the last of them."""
    declared, size = policy.applied(declared), len(everyone)
    joined = np.zeros((size + 1, size + 1), dtype=np.bool_)
    for i, j in itertools.combinations(range(size if policy.presence != "only" else 0), 2):
        joined[i, j] = joined[j, i] = moves(declared, policy, everyone[i], everyone[j])
    if policy.presence != "public":
        joined[:size, size] = joined[size, :size] = True
    return joined


SPARE = 1
"""Rows of the person beyond those that count, at most."""
KNOWN = (["count(x = 1)"], ["marginal(x)"], ["range(x, 0, 1)", "rows = 9"], ["count(x is null)"], ["rows"])
FAMILIES: tuple[Family, ...] = (full(), line(), partition(cuts=[1]), public())
FILTERS: tuple[Predicate | None, ...] = (None, Column("x") >= 1)


def people_constraint_lines() -> list[CheckLine]:
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
