"""Questions asked one after the other in one process, of datasets that differ in one declaration.

Whatever is remembered between them must not be taken for another's: each release's plan is held against its own policy
by the definitions alone, on every hidden change of a record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.accuracy import ranking
from blowfishdb.audit.all_changes import steps_of
from blowfishdb.audit.cases import Case
from blowfishdb.audit.neighbours import changes, sample_records
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.verdicts import Line, amount, judged
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import demand
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.request import Prepared, make_request, prepare
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms import kronecker
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.graphs.families import grid, threshold
from blowfishdb.model.policy import Policy, person
from blowfishdb.model.query import Query, query
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.session.remembered import Remembered

ANALYST = "audit"
PRICE = demand(epsilon=Fraction(1, 2), mechanism=kronecker.NAME)
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


@dataclass(frozen=True)
class Asked:
    """One question of one dataset, and the steps between cells that every hidden change makes, by the definitions."""

    name: str
    domain: Domain
    policy: Policy
    asked: Query

    @cached_property
    def steps(self) -> list[list[tuple[int, int]]]:
        setting = Case(self.name, self.domain, self.policy, self.asked).setting
        cells = compile_query(self.domain, self.policy, self.asked).cells
        everyone = sample_records(setting, np.random.default_rng(0))
        return [steps_of(cells, change) for change in changes(setting, everyone)]


def process_lines() -> list[Line]:
    """The same questions in several orders, nothing forgotten in between."""
    pairs = itertools.product(DECLARATIONS.items(), QUESTIONS.items())
    listed = [Asked(f"{said}, {what}", *declared, asked) for (said, declared), (what, asked) in pairs]
    by_question = [
        listed[place] for start in range(len(QUESTIONS)) for place in range(start, len(listed), len(QUESTIONS))
    ]
    orders = {"by dataset": listed, "backwards": listed[::-1], "by question": by_question}
    with scratch(USUAL, NEAR) as world:
        return [
            judged(
                "exact",
                f"one process, {said}",
                "own policy",
                list(_troubles(world.holding, order)),
                "no plan is taken for another",
                len(order),
            )
            for said, order in orders.items()
        ]


def _troubles(holding: Holding, order: Sequence[Asked]) -> Iterator[str]:
    """What is wrong with the releases; all datasets have one account and one version, so only declarations differ."""
    ranking.forget()
    quotes = Remembered()
    for one in order:
        own = replace(holding, domain=one.domain, policy=one.policy)
        try:
            trouble = _trouble(quotes, own, one)
        except BlowfishError as refusal:
            trouble = f"is refused: {refusal.message[:120]}"
        if trouble:
            yield f"{one.name}: {trouble}"


def _trouble(quotes: Remembered, holding: Holding, one: Asked) -> str:
    request = make_request(holding, one.asked, PRICE)
    ready = quotes.quote(ANALYST, request.text, one.domain, one.policy, lambda: prepare(holding, request))
    plan = ready.best.plan if isinstance(ready, Prepared) else None
    if not isinstance(ready, Prepared) or not isinstance(plan, Plan):
        return "no fixed plan is offered"
    wrong = _wrong(plan, ready.best.certificate, one)
    if wrong:
        return wrong
    counts = np.zeros(ready.compiled.problem.graph.cells, dtype=np.int64)
    released = Answer.from_json(ready.payload(counts, holding)).certificate
    return "" if released == ready.best.certificate else "the release carries another certificate than its quote"


def _wrong(plan: Plan, proof: Certificate, one: Asked) -> str:
    """What the definitions hold against a certificate: a change that costs more, or none that costs so much."""
    losses = [_loss(plan, steps) for steps in one.steps]
    worst = one.policy.rows_per_person * max((loss for loss in losses if loss is not None), default=Fraction(0))
    if None in losses:
        return "a hidden change shows exactly"
    if worst > proof.epsilon:
        return f"a hidden change loses {amount(worst)}, certified {amount(proof.epsilon)}"
    if proof.is_tight and worst < proof.epsilon:
        return f"certified as tight at {amount(proof.epsilon)}, and no hidden change loses more than {amount(worst)}"
    return ""


def _loss(plan: Plan, steps: Sequence[tuple[int, int]]) -> Fraction | None:
    """What records that move between these cells lose together; None where it is seen without any noise."""
    if plan.exact is not None and _moved(plan.exact.dense(), steps).any():
        return None
    lost = 0
    for part in plan.parts:
        rows, weights = np.ones((1, 1), dtype=np.int64), np.ones(1, dtype=np.int64)
        for factor in (part,) if isinstance(part, Measurement) else part.factors:
            rows, weights = np.kron(rows, factor.rows.dense()), np.kron(weights, factor.weights)
        lost += int(np.abs(_moved(rows, steps)) @ weights)
    return Fraction(lost) / plan.unit


def _moved(rows: Ints, steps: Sequence[tuple[int, int]]) -> Ints:
    """How far each row moves; cell -1 is one that no row counts."""
    columns = np.concatenate([rows.T, np.zeros((1, rows.shape[0]), dtype=np.int64)])
    return sum((columns[new] - columns[old] for old, new in steps), np.zeros(rows.shape[0], dtype=np.int64))
