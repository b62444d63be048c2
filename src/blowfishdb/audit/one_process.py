"""Queries asked in one process of datasets that differ in one declaration, and constraints with a person unit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy import ranking
from blowfishdb.audit.cases import Case
from blowfishdb.audit.definitions import (
    NoisyRows,
    Record,
    changes,
    measured_once,
    moves,
    records,
    sample_records,
    signatures,
)
from blowfishdb.audit.report import Line, amount, judged
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.stages import cells_of_records, steps_of
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import BlowfishError, PolicyError
from blowfishdb.mechanisms import kronecker
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.graphs import Presence
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Family, Policy, full, grid, line, partition, person, public, threshold
from blowfishdb.model.predicate import Column, Predicate
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Identity
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Plan
from blowfishdb.session.quote_cache import QuoteCache

ANALYST = "audit"
PRICE = accuracy_target(epsilon=Fraction(1, 2), mechanism=kronecker.NAME)
"""A mechanism that publishes exactly whatever no hidden move changes: a plan of another policy shows at once."""


def _declared(*, x_public: bool, y_public: bool) -> Domain:
    return domain({"x": integers(0, 1, null_public=x_public), "y": integers(0, 1, null_public=y_public)})


USUAL = _declared(x_public=False, y_public=True)
NEAR = Policy(joint=[grid(["x", "y"], 1, "l1")])
DECLARATIONS: dict[str, tuple[Domain, Policy]] = {
    "NULL of x hidden": (USUAL, NEAR),
    "NULL of y hidden": (_declared(x_public=True, y_public=False), NEAR),
    "both hidden": (_declared(x_public=False, y_public=False), NEAR),
    "both public": (_declared(x_public=True, y_public=True), NEAR),
    "axes turned round": (USUAL, Policy(joint=[grid(["y", "x"], 1, "l1")])),
    "another theta": (USUAL, Policy(joint=[grid(["x", "y"], 2, "l1")])),
    "another metric": (USUAL, Policy(joint=[grid(["x", "y"], 1, "linf")])),
    "two rows a person": (USUAL, replace(NEAR, unit=person("who", at_most=2, order_by="nr"))),
    "each on its own": (USUAL, Policy({"x": threshold(1), "y": threshold(1)})),
}
QUESTIONS: dict[str, Query] = {
    "marginals of y and x": query("marginals", ("y", "x"), ways=1),
    "marginals of x and y": query("marginals", ("x", "y"), ways=1),
    "histogram of y and x": query("histogram2d", ("y", "x")),
    "histogram of x and y": query("histogram2d", ("x", "y")),
}


def process_lines() -> list[Line]:
    """The same questions in several orders, nothing forgotten in between."""
    pairs = itertools.product(DECLARATIONS.items(), QUESTIONS.items())
    cases = [Case(f"{label}, {what}", *declared, question) for (label, declared), (what, question) in pairs]
    by_question = [case for start in range(len(QUESTIONS)) for case in cases[start :: len(QUESTIONS)]]
    orders = {"by dataset": cases, "backwards": cases[::-1], "by question": by_question}
    fine = "no plan is taken for another"
    with scratch(USUAL, NEAR) as world:
        return [
            judged(
                "exact", f"one process, {name}", "own policy", list(_violations(world.handle, order)), fine, len(order)
            )
            for name, order in orders.items()
        ]


def _violations(handle: DatasetHandle, order: Sequence[Case]) -> Iterator[str]:
    """What is wrong with the releases; all datasets have one account and one version, so only declarations differ."""
    ranking.forget()
    quotes = QuoteCache()
    for case in order:
        try:
            wrong = _what_is_wrong(quotes, replace(handle, domain=case.domain, policy=case.policy), case)
        except BlowfishError as refusal:
            wrong = f"is refused: {refusal.message[:120]}"
        if wrong:
            yield f"{case.name}: {wrong}"


def _what_is_wrong(quotes: QuoteCache, handle: DatasetHandle, case: Case) -> str:
    """What is wrong with a quote or its release, by the definitions: a change that costs more, or none that does."""
    request = make_request(handle, case.query, PRICE)
    ready = quotes.quote(ANALYST, request.text, case.domain, case.policy, lambda: prepare(handle, request))
    plan = ready.best.plan if isinstance(ready, PlanRelease) else None
    if not isinstance(ready, PlanRelease) or not isinstance(plan, Plan):
        return "no fixed plan is offered"
    proof, cells = ready.best.certificate, compile_query(case.domain, case.policy, case.query).cells
    everyone = sample_records(case.adjacency, np.random.default_rng(0))
    steps = steps_of(cells, changes(case.adjacency, everyone))
    if plan.exact is not None and any(NoisyRows.of(measured_once(plan.exact)).losses(steps)):
        return "a hidden change shows exactly"
    losses = NoisyRows.of(plan).losses(steps) if plan.parts else []
    worst = case.policy.rows_per_person * max(losses, default=Fraction(0))
    if worst > proof.epsilon:
        return f"a hidden change loses {amount(worst)}, certified {amount(proof.epsilon)}"
    if proof.is_tight and worst < proof.epsilon:
        return f"certified as tight at {amount(proof.epsilon)}, and no hidden change loses more than {amount(worst)}"
    counts = np.zeros(ready.compiled.problem.graph.cells, dtype=np.int64)
    released = Answer.from_json(ready.payload(counts, handle)).certificate
    return "" if released == proof else "the release carries another certificate than its quote"


SPARE = 1
"""So many rows more than count does the person have, at most."""
CONSTRAINTS = (["count(x = 1)"], ["marginal(x)"], ["range(x, 0, 1)", "rows = 9"], ["count(x is null)"], ["rows"])
FAMILIES: tuple[Family, ...] = (full(), line(), partition(cuts=[1]), public())
PRESENCES: tuple[Presence, ...] = ("public", "secret", "only")
FILTERS: tuple[Predicate | None, ...] = (None, Column("x") >= 1)


def people_constraint_lines() -> list[Line]:
    """One line: every declaration of these kinds is refused, or covers what one person's rows can change."""
    declared = domain({"x": integers(0, 2, null_public=True)})
    violations, refused, tried = list[str](), 0, 0
    for at_most, constraints, family, presence in itertools.product((1, 2), CONSTRAINTS, FAMILIES, PRESENCES):
        unit = person("who", at_most=at_most, order_by="nr")
        policy = Policy({"x": family}, presence=presence, unit=unit, constraints=constraints)
        tried += 1
        try:
            compiled = [compile_cells(declared, policy, ["x"], where) for where in FILTERS]
        except PolicyError:
            refused += 1
            continue
        for cells in compiled:
            plan = measured_once(Identity(cells.graph.cells))
            certified, worst = certify(plan, cells.graph).epsilon, _worst(declared, policy, cells)
            if worst > certified:
                declared_as = f"{'; '.join(constraints)} known, {at_most} rows a person, presence {presence}"
                violations.append(f"{declared_as}: loss {worst}, certified {certified}")
    summary = f"{refused} refused, the others covered"
    return [judged("exact", "constraints and people", "one person's rows", violations, summary, tried)]


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
