"""Digests that tell things apart, and queries asked in one process of datasets that differ in one declaration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.accuracy.quote import forget
from blowfishdb.audit.cases import Case, prepared
from blowfishdb.audit.definitions import NoisyRows, changes, sample_records
from blowfishdb.audit.report import CheckLine, amount, judged
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.selections import NONE, line_graph
from blowfishdb.audit.stages import steps_of
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import plan_request
from blowfishdb.engine.combination import MeasurementCache
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import Request, accuracy_target, make_request
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms import identity, kronecker
from blowfishdb.model.domain import Domain, categorical, domain, integers
from blowfishdb.model.graphs import CellGraph, EdgeGraph, WindowGraph
from blowfishdb.model.policy import Policy, full, grid, line, person, public, threshold
from blowfishdb.model.predicate import Axis, Column
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import Allowance, Program, SelectionNoise
from blowfishdb.session.local import QuoteCache
from selfcheck.made_up import measured_once

DECLARED = domain({"x": integers(0, 7, null=0), "y": categorical(["a", "b"], null="a", outside="a")})


def digest_lines() -> list[CheckLine]:
    """Graphs, plans, programs and requests that differ in one thing; and quotes that must not be taken for others."""
    digests = {
        "graphs": {name: graph.digest() for name, graph in _graphs().items()},
        "plans": {name: plan.digest() for name, plan in _plans().items()},
        "programs": {name: program.digest() for name, program in _programs().items()},
    }
    fine = "nothing is taken for another"
    with scratch(DECLARED, Policy({"x": line()})) as world:
        digests["requests"] = {name: request.digest for name, request in _requests(world.handle).items()}
        stale = [*_stale_quotes(world.handle), *_stale_measurements(world.handle)]
    lines = [
        judged(f"digests of {kind}", "all differ", _alike(listed), fine, len(listed))
        for kind, listed in digests.items()
    ]
    return [*lines, judged("quotes of other policies", "none is reused", stale, "each certified anew", 5)]


def _alike(listed: Mapping[str, str]) -> list[str]:
    """Pairs of different things that share a digest."""
    first: dict[str, str] = {}
    return [f"{first[d]} and {name} share a digest" for name, d in listed.items() if first.setdefault(d, name) != name]


def _graphs() -> dict[str, CellGraph]:
    usual = line_graph(6)
    wide, universal_vertex = WindowGraph(np.full(6, 5), NONE), WindowGraph(np.array([1, 2, 3, 4, 4, 5]), np.array([5]))
    two = WindowGraph(np.array([1, 2, 2]), NONE), WindowGraph(np.array([1, 1]), NONE)
    return {
        "a line": usual,
        "one that records leave": replace(usual, outside=np.arange(6) == 2),
        "one that they leave elsewhere": replace(usual, outside=np.arange(6) == 3),
        "secret presence": replace(usual, presence="secret"),
        "nothing but presence": replace(usual, presence="only"),
        "two rows a person": replace(usual, rows_per_person=2),
        "a complete graph": replace(usual, factors=(wide,)),
        "a universal vertex": replace(usual, factors=(universal_vertex,)),
        "listed edges": replace(usual, factors=(EdgeGraph(6, np.array([[0, 1], [2, 3]])),)),
        "other listed edges": replace(usual, factors=(EdgeGraph(6, np.array([[0, 1], [2, 4]])),)),
        "two factors": replace(usual, factors=two),
        "two factors by attribute": replace(usual, factors=two, composition="attribute"),
    }


def _plans() -> dict[str, Plan]:
    ones = np.ones(4, dtype=np.int64)
    usual = Plan(Fraction(2), (Measurement(Identity(4), ones),), None)
    halves = Intervals(4, np.array([0, 2]), np.array([2, 4]))
    return {
        "cells": usual,
        "more noise": usual.with_unit(Fraction(3)),
        "another weight": replace(usual, parts=(Measurement(Identity(4), np.array([1, 1, 1, 2])),)),
        "other rows": replace(usual, parts=(Measurement(halves, ones[:2]),)),
        "exact rows": replace(usual, exact=halves),
        "more parts": replace(usual, parts=(*usual.parts, *usual.parts)),
    }


def _programs() -> dict[str, Program | SelectionNoise]:
    one, two = Allowance("first", Fraction(1, 3)), Allowance("second", Fraction(2, 3))
    ones = np.ones(1, dtype=np.int64)
    noise = SelectionNoise(Fraction(3), ones, ones, 5 * ones, one_sided=True)
    return {
        "a program": Program("dawa", (one, two)),
        "its stages turned round": Program("dawa", (two, one)),
        "another mechanism": Program("kdtree", (one, two)),
        "another share": Program("dawa", (one, replace(two, epsilon=Fraction(3, 4)))),
        "another name": Program("dawa", (replace(one, stage="gate"), two)),
        "a parameter": Program("dawa", (one, two), (("split", Fraction(1, 4)),)),
        "another value": Program("dawa", (one, two), (("split", Fraction(3, 4)),)),
        "another parameter": Program("dawa", (one, two), (("bias", Fraction(1, 4)),)),
        "a selection": noise,
        "with more noise": replace(noise, unit=Fraction(4)),
        "with another weight": replace(noise, weights=2 * ones),
        "with another sensitivity": replace(noise, sensitivities=2 * ones),
        "of more items": replace(noise, sizes=6 * ones),
        "with noise on both sides": replace(noise, one_sided=False),
        "with words for ties": replace(noise, tie_words=2),
    }


def _requests(handle: DatasetHandle) -> dict[str, Request]:
    usual, price = query("histogram", "x"), accuracy_target(epsilon=Fraction(1))
    queries = {
        "a histogram": usual,
        "another attribute": query("histogram", "y"),
        "two attributes": query("histogram2d", ("x", "y")),
        "a filter": query("histogram", "x", Column("y") == "a"),
        "another filter": query("histogram", "x", Column("y") == "b"),
        "its opposite": query("histogram", "x", ~(Column("y") == "a")),
        "wider groups": Query("histogram", (Axis("x", width=2),)),
        "running sums": query("cdf", "x"),
        "ranges": query("ranges", "x", boxes=[((0, 5),)]),
        "other ranges": query("ranges", "x", boxes=[((0, 6),)]),
    }
    targets = {
        "a lower price": accuracy_target(epsilon=Fraction(1, 2)),
        "a mechanism": accuracy_target(epsilon=Fraction(1), mechanism="identity"),
        "other intervals": accuracy_target(epsilon=Fraction(1), confidence="0.9"),
    }
    handles = {
        "another account": replace(handle, account="f" * 32),
        "a new policy": replace(handle, policy_version=handle.policy_version + 1),
        "a new domain": replace(handle, domain_version=handle.domain_version + 2),
        "new data": replace(handle, snapshot=handle.snapshot + 3),
    }
    requests = {name: make_request(handle, question, price) for name, question in queries.items()}
    requests |= {name: make_request(handle, usual, target) for name, target in targets.items()}
    return requests | {name: make_request(other, usual, price) for name, other in handles.items()}


POLICIES = {
    "line": Policy({"x": line(), "y": public()}),
    "threshold": Policy({"x": threshold(3), "y": public()}),
    "full": Policy({"x": full()}),
    "secret presence": Policy({"x": line()}, presence="secret"),
    "people": Policy({"x": line()}, unit=person("who", at_most=3, order_by="nr")),
}


def _stale_quotes(handle: DatasetHandle) -> Iterator[str]:
    """Quotes under one policy after the other, none forgotten: each must be certified for its own."""
    question = query("cdf", "x", Column("y") == "a")
    forget()
    for name, policy in POLICIES.items():
        case = Case(name, DECLARED, policy, question)
        release = prepared(case, replace(handle, policy=policy), question)
        if not isinstance(release, PlanRelease):
            yield f"{name}: no fixed plan is offered"
        elif certify(release.best.plan, release.compiled.cells.graph) != release.best.certificate:
            yield f"{name}: the quote's certificate is not that of its plan under this policy"


def _stale_measurements(handle: DatasetHandle) -> Iterator[str]:
    """What answers are combined from, under one policy after the other and one set of versions, nothing forgotten."""
    measured, question = MeasurementCache(), query("histogram", "x")
    for name, policy in POLICIES.items():
        part = measured.of(replace(handle, policy=policy), "the same question", question, identity.NAME)
        graph = compile_query(handle.domain, policy, question).cells.graph
        if certify(part.candidate.plan, graph) != part.candidate.certificate:
            yield f"{name}: what is combined was certified under another policy"


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


def process_lines() -> list[CheckLine]:
    """The same questions in several orders, nothing forgotten in between."""
    pairs = itertools.product(DECLARATIONS.items(), QUESTIONS.items())
    cases = [Case(f"{label}, {what}", *declared, question) for (label, declared), (what, question) in pairs]
    by_question = [case for start in range(len(QUESTIONS)) for case in cases[start :: len(QUESTIONS)]]
    orders = {"by dataset": cases, "backwards": cases[::-1], "by question": by_question}
    fine = "no plan is taken for another"
    with scratch(USUAL, NEAR) as world:
        return [
            judged(f"one process, {name}", "own policy", _violations(world.handle, order), fine, len(order))
            for name, order in orders.items()
        ]


def _violations(handle: DatasetHandle, order: Sequence[Case]) -> Iterator[str]:
    """Faults of the releases; all datasets have one account and one version, so only declarations differ."""
    forget()
    quotes = QuoteCache()
    for case in order:
        try:
            wrong = _fault(quotes, replace(handle, domain=case.domain, policy=case.policy), case)
        except BlowfishError as refusal:
            wrong = f"is refused: {refusal.message[:120]}"
        if wrong:
            yield f"{case.name}: {wrong}"


def _fault(quotes: QuoteCache, handle: DatasetHandle, case: Case) -> str:
    """The fault of a quote or its release, by the definitions: a change that costs more, or none that does."""
    request = make_request(handle, case.query, PRICE)
    make = partial(plan_request, handle, request, False)
    release = quotes.quote(request.text, handle, make).release
    plan = release.best.plan if isinstance(release, PlanRelease) else None
    if not isinstance(release, PlanRelease) or not isinstance(plan, Plan):
        return "no fixed plan is offered"
    proof, cells = release.best.certificate, compile_query(case.domain, case.policy, case.query).cells
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
    counts = np.zeros(release.compiled.problem.graph.cells, dtype=np.int64)
    certificate = Answer.from_json(release.payload(counts, handle)).certificate
    return "" if certificate == proof else "the release carries another certificate than its quote"
