"""Exact: every output on three values, of rows, of persons, of quantiles and of names of groups."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from blowfishdb.accuracy.quote import QuantileQuote, select_at
from blowfishdb.audit.choices import PARTS, log_chances
from blowfishdb.audit.definitions import NoisyRows
from blowfishdb.audit.report import CheckLine, Losses, amount, judged, not_tested
from blowfishdb.audit.scratch import Scratch, TableRow, TapedDraw, opened, replaced, scratch, taped
from blowfishdb.engine.charge import edge_losses, prepare
from blowfishdb.engine.compile import Compiled, compile_query, group_selection
from blowfishdb.engine.measure import choose_quantiles, measure
from blowfishdb.engine.preview import quantile_quote
from blowfishdb.engine.release import PartsRelease, Release
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import Declined
from blowfishdb.ledger.amounts import PER_EDGE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy, custom, full, line, metric, partition, person, public, threshold
from blowfishdb.model.predicate import Axis, Column
from blowfishdb.model.query import Kind, Query, query
from blowfishdb.noise.certified import Noise, tell
from blowfishdb.noise.quantile_sampler import SpreadRecords, sample_quantiles
from blowfishdb.plan.certificate import CertifiedPlan, calibrate
from blowfishdb.plan.plan import Plan, Problem
from blowfishdb.plan.program import (
    EXPONENTIAL_QUANTILES,
    GroupSelection,
    Measured,
)

CELLS = 3
REACH = 2
"""The outputs tried beyond the true rows; further out the ratios are constant."""
TinyTable = tuple[int, ...]
TABLES: tuple[TinyTable, ...] = tuple(
    counts for counts in itertools.product(range(3), repeat=CELLS) if sum(counts) == 2
)
CellPairs = Sequence[tuple[int, int]]
"""Cells that are hidden from each other; ABSENT for a record that is not there."""
ABSENT = -1
ABSENCE, ALL_PAIRS = tuple((cell, ABSENT) for cell in range(CELLS)), tuple(itertools.combinations(range(CELLS), 2))
PLAIN, WITH_NULL = domain({"x": integers(0, CELLS - 1, null=0)}), domain({"x": integers(0, CELLS - 2)})


def _apart(one: object, two: object) -> int:
    return abs(int(str(one)) - int(str(two)))


HIDDEN: dict[str, tuple[Domain, Policy, CellPairs]] = {
    "full": (PLAIN, Policy({"x": full()}), ALL_PAIRS),
    "nothing declared": (PLAIN, Policy(), ALL_PAIRS),
    "line": (PLAIN, Policy({"x": line()}), ((0, 1), (1, 2))),
    "threshold": (PLAIN, Policy({"x": threshold(2)}), ALL_PAIRS),
    "custom": (PLAIN, Policy({"x": custom([(0, 2)])}), ((0, 2),)),
    "metric": (PLAIN, Policy({"x": metric(range(CELLS), _apart, theta=1)}), ((0, 1), (1, 2))),
    "partition and NULL": (WITH_NULL, Policy({"x": partition(cuts=[1])}), ((0, 2), (1, 2))),
    "partition": (PLAIN, Policy({"x": partition(cuts=[1])}), ((1, 2),)),
}
"""Policies, with the pairs of cells that they hide from each other, written down by hand; NULL is the last cell."""
PRESENCE: dict[str, tuple[Domain, Policy, CellPairs]] = {
    "presence only": (PLAIN, Policy(presence="only"), ABSENCE),
    "presence secret": (PLAIN, Policy(presence="secret"), (*ABSENCE, *ALL_PAIRS)),
}
"""The same where records come and go."""
INFINITE = Fraction(10**9)
"""Stands for the loss of rows that differ and are published exactly."""
QUESTIONS: tuple[Kind, ...] = ("histogram", "cdf", "ranges")


def exact_lines() -> Iterator[CheckLine]:
    """Every measurement on three values."""
    for (label, (declared, policy, pairs)), kind in itertools.product(HIDDEN.items(), QUESTIONS):
        problem = compile_query(declared, policy, query(kind, "x")).problem
        yield _measurements(f"{kind} of 3 values, {label}", problem, pairs)


def _measurements(subject: str, problem: Problem, pairs: CellPairs) -> CheckLine:
    """All mechanisms: the largest log-ratio over all outputs and all neighbouring tables of two rows."""
    losses = Losses()
    for name, propose in MECHANISMS.items():
        try:
            rows = propose(problem).plan(Fraction(1))
        except Declined:
            continue
        if isinstance(rows, Plan) and rows.parts:
            plan, proof = calibrate(rows, problem.graph, Fraction(1))
            ratio = largest_ratio(CertifiedPlan(plan, problem.graph), pairs)
            losses.compare(f"{name}, log-ratio of an output", ratio, proof.epsilon, tight=proof.is_tight)
        elif isinstance(rows, Plan):
            losses.violations.append(f"{name}: everything would be published exactly")
    if not losses.tried and not losses.violations:
        return not_tested(subject, "every output", "no mechanism measures fixed rows here")
    summary = f"{losses.tried} mechanisms, largest log-ratio {amount(losses.worst)}"
    return judged(subject, "every output", losses.violations, summary, losses.tried)


def largest_ratio(certified: CertifiedPlan, pairs: CellPairs, tables: Sequence[TinyTable] = TABLES) -> Fraction:
    """The largest log of P(output | table) / P(output | neighbour) over all outputs and tables.

    The rows and the scales are those that the engine's own measurement uses; rows are independent, so each row's
    outputs are gone through on their own.
    """
    worst, shown = Fraction(0), dict[TinyTable, tuple[Measured, TapedDraw]]()
    with taped() as tape:
        for counts in tables:
            tape.play([])
            measured = measure(certified, np.array(counts, dtype=np.int64))
            (draw,) = tape.take()
            shown[counts] = measured, draw
    for counts in tables:
        for moved in _neighbours(counts, pairs, shown):
            (here, draw), (there, _) = shown[counts], shown[moved]
            if not np.array_equal(here.exact, there.exact):
                return INFINITE
            rows = zip(here.noisy.tolist(), there.noisy.tolist(), draw.weights.tolist(), strict=True)
            worst = max(worst, sum((_row_ratio(a, b, w) / draw.unit for a, b, w in rows), Fraction(0)))
    return worst


def _neighbours(table: TinyTable, pairs: CellPairs, known: Container[TinyTable]) -> Iterator[TinyTable]:
    """The tables, among known ones, that one record's hidden move makes of this one."""
    for source, target in _both_ways(pairs):
        moved = list(table)
        for cell, change in ((source, -1), (target, 1)):
            if cell != ABSENT:
                moved[cell] += change
        if tuple(moved) in known:
            yield tuple(moved)


def _both_ways(pairs: CellPairs) -> set[tuple[int, int]]:
    return {*pairs, *((two, one) for one, two in pairs)}


def _row_ratio(here: int, there: int, weight: int) -> Fraction:
    """For one row: the largest over all outputs of (|output - there| - |output - here|) weight."""
    outputs = range(min(here, there) - REACH, max(here, there) + REACH + 1)
    return Fraction(max(abs(out - there) - abs(out - here) for out in outputs) * weight)


PERSONS = [Aggregate("people", ("who",))]
ABOUT_PERSONS = {
    "of all": query("table", (), Column("x") >= 1, aggregates=PERSONS),
    "by groups, filtered": query("table", "x", Column("x") >= 1, aggregates=PERSONS),
    "by groups, beside rows": query("table", "x", aggregates=[Aggregate("count"), *PERSONS]),
}


def people_lines() -> Iterator[CheckLine]:
    """Policies whose pairs are written down by hand, and rows that come and go; two and three rows a person."""
    chosen = {label: (*HIDDEN[label], 2) for label in ("full", "line", "partition", "partition and NULL")}
    chosen |= {
        "presence only": (*PRESENCE["presence only"], 2),
        "presence secret, 3 rows": (*PRESENCE["presence secret"], 3),
    }
    yield _persons_account_line()
    for label, (declared, policy, pairs, rows) in chosen.items():
        losses, allowed, values = Losses(), _both_ways(pairs), declared["x"].size
        protected = replace(policy, unit=person("who", at_most=rows, order_by="nr"))
        tables: dict[Any, list[TableRow | None]] = {
            state: [{"x": cell if cell < values else None} if cell != ABSENT else None for cell in state]
            for state in itertools.product(range(ABSENT, CELLS), repeat=rows)
        }
        changes = [
            (one, two)
            for one, two in itertools.product(tables, tables)
            if all(a == b or (a, b) in allowed for a, b in zip(one, two, strict=True))
        ]
        with scratch(declared, protected) as world:
            for name, question in ABOUT_PERSONS.items():
                release = _persons_release(world, question)
                losses.compare(name, max(_persons_losses(world, release, tables, changes)), release.epsilon)
        summary = f"loss {amount(losses.worst)} of 1 charged"
        yield judged(f"persons in 3 values, {label}", "every change of one person", losses.violations, summary)


def _persons_account_line() -> CheckLine:
    """Two questions that look at one attribute each: of a person's two rows each may change for one of them."""
    declared = domain({name: integers(0, 1, null=0) for name in ("x", "y")})
    unit, losses = person("who", at_most=2, order_by="nr"), Losses()
    tables: dict[Any, list[TableRow | None]] = {
        state: [{"x": x, "y": y} for x, y in state]
        for state in itertools.product(itertools.product(range(2), repeat=2), repeat=2)
    }
    # One edge of `attribute` changes one value of a row, and every row may change along one.
    changes = [
        (one, two)
        for one, two in itertools.product(tables, tables)
        if all(a[0] == b[0] or a[1] == b[1] for a, b in zip(one, two, strict=True))
    ]
    lost, spent, by_class = [Fraction(0)] * len(changes), Fraction(0), Counter[str]()
    with scratch(declared, Policy({}, "attribute", unit=unit), PER_EDGE) as world:
        for name in ("x", "y"):
            release = _persons_release(world, query("table", (), Column(name) >= 1, aggregates=PERSONS))
            more = _persons_losses(world, release, tables, changes)
            lost = [before + now for before, now in zip(lost, more, strict=True)]
            classes = edge_losses(world.handle, release)
            spent += release.epsilon if classes is None else 0
            by_class.update({} if classes is None else classes)
    losses.compare("questions about x and y", max(lost), spent + max(by_class.values(), default=Fraction(0)))
    summary = f"loss {amount(losses.worst)} of all charged per class of edges"
    return judged("persons in 2 x 2 values, two questions", "every change of one person", losses.violations, summary)


def _persons_release(world: Scratch, question: Query) -> Release:
    return prepare(world.handle, make_request(world.handle, question, accuracy_target(epsilon=1)))


def _persons_losses(
    world: Scratch,
    release: Release,
    tables: Mapping[Any, Sequence[TableRow | None]],
    changes: Sequence[tuple[Any, Any]],
) -> list[Fraction]:
    """What each change of one person's rows loses; `tables` has that person's rows, beside which another one stays."""
    counting, parts = release.counting(world.handle), release.parts if isinstance(release, PartsRelease) else (release,)
    plans = [plan for part in parts if isinstance(plan := getattr(part, "plan", None), Plan)]
    if len(plans) < len(parts):
        return [INFINITE] * len(changes)
    ends, counts = np.cumsum([plan.cells for plan in plans])[:-1], dict[Any, Ints]()
    for state, rows in tables.items():
        other: TableRow = {"who": "b", "nr": len(rows), **dict.fromkeys(world.handle.domain.names, 0)}
        mine = [{"who": "a", "nr": number, **row} for number, row in enumerate(rows) if row is not None]
        world.fill([other, *mine])
        counts[state] = opened(counting.run(None))
    differences = (np.split(counts[two] - counts[one], ends) for one, two in changes)
    return [sum(map(_loss, plans, difference), Fraction(0)) for difference in differences]


def _loss(plan: Plan, change: Ints) -> Fraction:
    """What a difference of counts loses through the rows of a plan."""
    if plan.exact is not None and np.any(plan.exact.dot(change)):
        return INFINITE
    if not plan.parts:
        return Fraction(0)
    rows = NoisyRows.of(plan)
    return Fraction(int(np.abs(change @ rows.columns[:-1]) @ rows.weights)) / rows.unit


ROWS = 4
PRICE = Fraction(30)
"""So expensive that the most likely outputs hide nothing of what an unlikely one tells."""
LEVELS = {"median": ("0.5",), "quartiles": ("0.25", "0.5", "0.75"), "tails": ("0.05", "0.95")}
SamplerCall = tuple[SpreadRecords, tuple[Fraction, ...], Fraction]
"""Records, wanted numbers between quantiles, and unit."""
QuantileLaw = tuple[Ints, float, list[list[Floats]]]
"""The records of each group, one over the scale of the noise on their number, and for each published number the laws.
"""
PLAIN_QUANTILES = {name: query("quantiles", "x", levels=levels) for name, levels in LEVELS.items()}
GROUP_QUANTILES = {
    name: query("table", "g", aggregates=[Aggregate("quantile", ("x",), level=Fraction(level)) for level in levels])
    for name, levels in LEVELS.items()
}
PAIR = domain({"g": integers(0, 1, null=0), "x": integers(0, 1, null=0)})
GROUPED: dict[str, tuple[Policy, CellPairs]] = {
    "everything": (Policy(), tuple(itertools.combinations(range(4), 2))),
    "public groups": (Policy({"g": public()}), ((0, 1), (2, 3))),
    "groups alone": (Policy({"x": public()}), ((0, 2), (1, 3))),
    "one attribute at a time": (Policy(composition="attribute"), ((0, 1), (2, 3), (0, 2), (1, 3))),
    "presence only": (Policy(presence="only"), tuple((cell, ABSENT) for cell in range(4))),
}
"""Policies of two groups of two values, and the pairs of cells (2 g + x) that each hides."""


def quantile_lines() -> Iterator[CheckLine]:
    """Every policy whose pairs are written down by hand, and records that come and go."""
    target = accuracy_target(epsilon=PRICE, mechanism=EXPONENTIAL_QUANTILES)
    plain = [(f"of 3 values, {label}", PLAIN_QUANTILES, *hidden) for label, hidden in (HIDDEN | PRESENCE).items()]
    grouped = [(f"by groups, {label}", GROUP_QUANTILES, PAIR, *hidden) for label, hidden in GROUPED.items()]
    for label, questions, declared, policy, pairs in (*plain, *grouped):
        losses = Losses(1e-9)
        for name, question in questions.items():
            compiled = compile_query(declared, policy, question)
            quote = quantile_quote(compiled, target)
            ratio = Fraction(_largest_ratio(compiled, quote, pairs))
            losses.compare(f"{name}, log-ratio of an output", ratio, quote.epsilon)
        summary = f"largest log-ratio {amount(losses.worst)} of {PRICE} charged"
        yield judged(f"exponential quantiles {label}", "every output", losses.violations, summary)


def selection_lines() -> Iterator[CheckLine]:
    """Names of groups: the chance of every list on small tables, by the definition of the mechanism."""
    for label, (declared, policy, pairs) in (HIDDEN | PRESENCE).items():
        losses = Losses(1e-9)
        for name, most, above in (("the largest", 1, None), ("the two largest", 2, None), ("at least 2", None, 2)):
            compiled = compile_query(declared, policy, Query("selection", (Axis("x"),), most=most, above=above))
            graph = compiled.problem.graph
            quote = select_at(group_selection(compiled), graph, PRICE, 0.05)
            tables = [table for table in itertools.product(range(ROWS), repeat=graph.cells) if sum(table) < ROWS]
            laws = {table: _list_chances(quote.plan, table) for table in tables}
            worst = max(
                abs(math.log(laws[table][chosen] / laws[moved][chosen]))
                for table in tables
                for moved in _neighbours(table, pairs, laws)
                for chosen in laws[table]
            )
            losses.compare(f"{name}, log-ratio of a list", Fraction(worst), quote.epsilon)
        summary = f"largest log-ratio {amount(losses.worst)} of {PRICE} charged"
        yield judged(f"names of groups of 3 values, {label}", "every list", losses.violations, summary)


def _list_chances(plan: GroupSelection, table: TinyTable) -> dict[TinyTable, float]:
    """The chance of each list of groups; lists above a count as one 0 or 1 for each group."""
    odds, places = math.exp(-1.0 / float(plan.unit)), range(plan.groups)
    if plan.above is not None:
        # Of two chances that add up to 1 the small one is exact, and so is its logarithm.
        short = [plan.above - count for count in table]
        small = [odds ** (n if n > 0 else 1 - n) / (1 + odds) for n in short]
        chances = [(1 - p, p) if n > 0 else (p, 1 - p) for n, p in zip(short, small, strict=True)]
        listed = itertools.product((0, 1), repeat=plan.groups)
        return {one: math.prod(pair[is_in] for pair, is_in in zip(chances, one, strict=True)) for one in listed}
    lists: dict[TinyTable, float] = {(): 1.0}
    for _ in range(plan.most or 0):
        lists = {
            (*chosen, winner): chance * _wins(table, winner, [one for one in places if one not in chosen], odds)
            for chosen, chance in lists.items()
            for winner in places
            if winner not in chosen
        }
    return lists


def _wins(table: TinyTable, winner: int, left: Sequence[int], odds: float) -> float:
    """The chance that one-sided noise puts a group above all others that are left, or level with later ones."""
    chance = 0.0
    for draw in range(200):
        rooms = (table[winner] + draw - table[other] - (other < winner) for other in left if other != winner)
        chance += (1 - odds) * odds**draw * math.prod(1 - odds ** max(0, room + 1) for room in rooms)
    return chance


def _largest_ratio(compiled: Compiled, quote: QuantileQuote, pairs: CellPairs) -> float:
    """The largest log of P(output | table) / P(output | neighbour) over all tables of a few rows."""
    size, most = compiled.problem.graph.cells, 0.0
    tables = [table for table in itertools.product(range(ROWS + 1), repeat=size) if sum(table) <= ROWS]
    calls: list[SamplerCall] = []

    def recorded(records: SpreadRecords, gaps: tuple[Fraction, ...], unit: Fraction) -> Ints:
        calls.append((records, gaps, unit))
        tell(Noise("quantiles", unit, 1, len(gaps) - 1))
        return np.zeros(len(gaps) - 1, dtype=np.int64)

    def law(table: TinyTable) -> QuantileLaw:
        counts, laws = np.array(table, dtype=np.int64), list[list[Floats]]()
        totals = quote.plan.by_group(counts, compiled.problem.graph).sum(axis=1)
        for published in (ROWS,) if quote.plan.count_unit is None else (0, ROWS):
            # The published number is the same for all tables: what the noise makes up for is its loss.
            tape.play([published - totals])
            choose_quantiles(quote.plan, compiled.problem.graph, quote.certificate, counts)
            laws += [[log_chances(*call, parts) for call in calls] for parts in (1, PARTS)]
            calls.clear()
        draws = tape.take()
        return totals, float(1 / draws[0].unit) if draws else 0.0, laws

    with taped() as tape, replaced({sample_quantiles: recorded}):
        by_table = {table: law(table) for table in tables}
    for table in tables:
        for moved in _neighbours(table, pairs, by_table):
            most = max(most, _ratio(by_table[table], by_table[moved]))
    return most


def _ratio(here: QuantileLaw, there: QuantileLaw) -> float:
    """The largest log-ratio of an output: groups are chosen for independently, so theirs add up."""
    counted, most = float(np.abs(here[0] - there[0]).sum()) * here[1], 0.0
    for ours, others in zip(here[2], there[2], strict=True):
        apart = [one - other for one, other in zip(ours, others, strict=True)]
        most = max(most, sum(float(group.max()) for group in apart), sum(float(-group.min()) for group in apart))
    return counted + most
