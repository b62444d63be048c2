"""Counts of persons on three values: what all rows of one person change in the counts that the engine measures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.audit.definitions import NoisyRows
from blowfishdb.audit.exact import HIDDEN, INFINITE, PLAIN
from blowfishdb.audit.report import Line, Losses, amount, judged
from blowfishdb.audit.scratch import Scratch, TableRow, opened, scratch
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, person
from blowfishdb.model.predicate import Column
from blowfishdb.model.query import Query, query
from blowfishdb.plan.plan import Plan

ABSENT = -1
PERSONS = [Aggregate("people", ("who",))]
QUESTIONS = {
    "of all": query("table", (), Column("x") >= 1, aggregates=PERSONS),
    "by groups": query("table", "x", aggregates=PERSONS),
    "by groups, filtered": query("table", "x", Column("x") >= 1, aggregates=PERSONS),
}
Rows = tuple[int, ...]
"""The cell of each row of one person, ABSENT for a row that is not there."""


def people_lines() -> Iterator[Line]:
    """Policies whose pairs are written down by hand, and rows that come and go; two and three rows a person."""
    cells = range(PLAIN["x"].size)
    absence = tuple((cell, ABSENT) for cell in cells)
    pairs = tuple(itertools.combinations(cells, 2))
    policies: dict[str, tuple[Domain, Policy, tuple[tuple[int, int], ...], int]] = {
        **{label: (*HIDDEN[label], 2) for label in ("full", "line", "partition", "partition and NULL")},
        "presence only": (PLAIN, Policy(presence="only"), absence, 2),
        "presence secret, 3 rows": (PLAIN, Policy(presence="secret"), (*absence, *pairs), 3),
    }
    for label, (declared, policy, moves, rows) in policies.items():
        losses = Losses()
        protected = replace(policy, unit=person("who", at_most=rows, order_by="nr"))
        with scratch(declared, protected) as world:
            for name, question in QUESTIONS.items():
                losses.compare(name, *_worst(world, question, declared["x"].size, moves, rows))
        summary = f"loss {amount(losses.worst)} of 1 charged"
        yield judged(f"persons in 3 values, {label}", "every change of one person", losses.violations, summary)


def _worst(
    world: Scratch, question: Query, values: int, moves: Sequence[tuple[int, int]], rows: int
) -> tuple[Fraction, Fraction]:
    """The greatest loss over all that one person's rows can become, and the price."""
    release = prepare(world.handle, make_request(world.handle, question, accuracy_target(epsilon=1)))
    plan, counting = release.plan, release.counting(world.handle)
    if not isinstance(plan, Plan):
        return INFINITE, release.epsilon
    counts: dict[Rows, Ints] = {}
    for state in itertools.product(range(ABSENT, PLAIN["x"].size), repeat=rows):
        listed = [(number, cell) for number, cell in enumerate(state) if cell != ABSENT]
        table: list[TableRow] = [{"who": "b", "nr": rows, "x": 0}]
        table += [{"who": "a", "nr": number, "x": cell if cell < values else None} for number, cell in listed]
        world.fill(table)
        counts[state] = opened(counting.run(None))
    allowed = {*moves, *((b, a) for a, b in moves)}
    changes = [
        counts[two] - counts[one]
        for one, two in itertools.product(counts, counts)
        if all(a == b or (a, b) in allowed for a, b in zip(one, two, strict=True))
    ]
    return max(_loss(plan, change) for change in changes), release.epsilon


def _loss(plan: Plan, change: Ints) -> Fraction:
    """What a difference of counts loses through the rows of a plan."""
    if plan.exact is not None and np.any(plan.exact.dot(change)):
        return INFINITE
    if not plan.parts:
        return Fraction(0)
    rows = NoisyRows.of(plan)
    return Fraction(int(np.abs(change @ rows.columns[:-1]) @ rows.weights)) / rows.unit
