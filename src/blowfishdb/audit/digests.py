"""Digests: what charges, certificates and kept answers are told apart by must differ wherever their meaning does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy import ranking
from blowfishdb.audit.cases import Case, made_ready
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.engine.demand import demand
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.request import Prepared, make_request
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.domain import categorical, domain, integers
from blowfishdb.model.graphs.explicit import EdgeGraph
from blowfishdb.model.graphs.families import full, line, public, threshold
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.policy import Policy, person
from blowfishdb.model.predicate import Axis, Column
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.stages import Allowance, Program, SelectionNoise

DECLARED = domain({"x": integers(0, 7, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
NONE = np.empty(0, dtype=np.int64)


def digest_lines() -> list[Line]:
    """Graphs, plans, programs and requests that differ in one thing; and quotes that must not be taken for others."""
    with scratch(DECLARED, Policy({"x": line()})) as world:
        named = {"graphs": _graphs(), "plans": _plans(), "programs": _programs(), "requests": _requests(world.holding)}
        found = [
            judged(
                "exact", f"digests of {what}", "all differ", _alike(listed), "nothing is taken for another", len(listed)
            )
            for what, listed in named.items()
        ]
        stale = list(_stale_quotes(world.holding))
    return [*found, judged("exact", "quotes of other policies", "none is reused", stale, "each certified anew", 5)]


def _alike(listed: Mapping[str, str]) -> list[str]:
    """Pairs of different things that share a digest."""
    first: dict[str, str] = {}
    return [f"{first[d]} and {name} share a digest" for name, d in listed.items() if first.setdefault(d, name) != name]


def _graphs() -> dict[str, str]:
    steps = np.minimum(np.arange(6) + 1, 5)
    usual = CellGraph((WindowGraph(steps, NONE),), "record", np.array(False), "public")
    wide, hub = WindowGraph(np.full(6, 5), NONE), WindowGraph(np.array([1, 2, 3, 4, 4, 5]), np.array([5]))
    short = WindowGraph(np.array([1, 2, 2]), NONE)
    found = {
        "a line": usual,
        "one that records leave": replace(usual, outside=np.arange(6) == 2),
        "one that they leave elsewhere": replace(usual, outside=np.arange(6) == 3),
        "secret presence": replace(usual, presence="secret"),
        "nothing but presence": replace(usual, presence="only"),
        "two rows a person": replace(usual, rows_per_person=2),
        "a complete graph": replace(usual, factors=(wide,)),
        "a hub": replace(usual, factors=(hub,)),
        "listed edges": replace(usual, factors=(EdgeGraph(6, np.array([[0, 1], [2, 3]])),)),
        "other listed edges": replace(usual, factors=(EdgeGraph(6, np.array([[0, 1], [2, 4]])),)),
        "two factors": replace(usual, factors=(short, WindowGraph(np.array([1, 1]), NONE))),
        "two factors by attribute": replace(
            usual, factors=(short, WindowGraph(np.array([1, 1]), NONE)), composition="attribute"
        ),
    }
    return {name: graph.digest() for name, graph in found.items()}


def _plans() -> dict[str, str]:
    ones = np.ones(4, dtype=np.int64)
    usual = Plan(Fraction(2), (Measurement(Identity(4), ones),), None)
    halves = Intervals(4, np.array([0, 2]), np.array([2, 4]))
    found = {
        "cells": usual,
        "more noise": usual.with_unit(Fraction(3)),
        "another weight": replace(usual, parts=(Measurement(Identity(4), np.array([1, 1, 1, 2])),)),
        "other rows": replace(usual, parts=(Measurement(halves, ones[:2]),)),
        "exact rows": replace(usual, exact=halves),
        "more parts": replace(usual, parts=(*usual.parts, *usual.parts)),
    }
    return {name: plan.digest() for name, plan in found.items()}


def _programs() -> dict[str, str]:
    one, two = Allowance("first", Fraction(1, 3)), Allowance("second", Fraction(2, 3))
    found = {
        "a program": Program("dawa", (one, two)),
        "its stages turned round": Program("dawa", (two, one)),
        "another mechanism": Program("kdtree", (one, two)),
        "another share": Program("dawa", (one, replace(two, epsilon=Fraction(3, 4)))),
        "another name": Program("dawa", (replace(one, stage="gate"), two)),
    }
    ones = np.ones(1, dtype=np.int64)
    noise = SelectionNoise(Fraction(3), ones, ones, 5 * ones, one_sided=True)
    selections = {
        "a selection": noise,
        "with more noise": replace(noise, unit=Fraction(4)),
        "with another weight": replace(noise, weights=2 * ones),
        "with another sensitivity": replace(noise, sensitivities=2 * ones),
        "of more items": replace(noise, sizes=6 * ones),
        "with noise on both sides": replace(noise, one_sided=False),
        "with words for ties": replace(noise, tie_words=2),
    }
    digests = {name: program.digest() for name, program in found.items()}
    return digests | {name: selection.digest() for name, selection in selections.items()}


def _requests(holding: Holding) -> dict[str, str]:
    usual, price = query("histogram", "x"), demand(epsilon=Fraction(1))
    asked = {
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
    found = {name: make_request(holding, question, price).digest for name, question in asked.items()}
    demands = {
        "a lower price": demand(epsilon=Fraction(1, 2)),
        "a mechanism": demand(epsilon=Fraction(1), mechanism="identity"),
        "other intervals": demand(epsilon=Fraction(1), confidence="0.9"),
    }
    found |= {name: make_request(holding, usual, wanted).digest for name, wanted in demands.items()}
    others = {
        "another account": replace(holding, account="f" * 32),
        "a new policy": replace(holding, policy_version=holding.policy_version + 1),
        "a new domain": replace(holding, domain_version=holding.domain_version + 2),
        "new data": replace(holding, snapshot=holding.snapshot + 3),
    }
    return found | {name: make_request(other, usual, price).digest for name, other in others.items()}


def _stale_quotes(holding: Holding) -> Iterator[str]:
    """Quotes under one policy after the other, none forgotten: each must be certified for its own."""
    policies = {
        "line": Policy({"x": line(), "y": public()}),
        "threshold": Policy({"x": threshold(3), "y": public()}),
        "full": Policy({"x": full()}),
        "secret presence": Policy({"x": line()}, presence="secret"),
        "people": Policy({"x": line()}, unit=person("who", at_most=3, order_by="nr")),
    }
    asked = query("cdf", "x", Column("y") == "a")
    ranking.forget()
    for name, policy in policies.items():
        case = Case(name, DECLARED, policy, asked)
        payable = made_ready(case, replace(holding, policy=policy), asked).payable
        if not isinstance(payable, Prepared):
            yield f"{name}: no fixed plan is offered"
        elif certify(payable.best.plan, payable.compiled.cells.graph) != payable.best.certificate:
            yield f"{name}: the quote's certificate is not that of its plan under this policy"
