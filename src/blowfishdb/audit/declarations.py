"""Declarations over time and the digests that tell them apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.sparse.csgraph import shortest_path

from blowfishdb.accuracy import ranking
from blowfishdb.audit.cases import Case, prepared
from blowfishdb.audit.definitions import Adjacency, moves, sample_records
from blowfishdb.audit.made_up import COMPOSITIONS, made_up, made_up_policy, one_of
from blowfishdb.audit.report import Line, judged
from blowfishdb.audit.scratch import scratch
from blowfishdb.audit.selections import line_graph
from blowfishdb.catalog.stretch import policy_stretch
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import BlowfishError
from blowfishdb.model.document import Document, Format, read_document, write_document
from blowfishdb.model.domain import Categorical, Domain, categorical, domain, integers
from blowfishdb.model.graphs import EdgeGraph, WindowGraph
from blowfishdb.model.numbers import Bools
from blowfishdb.model.policy import ROW, Family, Policy, full, line, person, public, threshold
from blowfishdb.model.predicate import Axis, Column
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import Allowance, Program, SelectionNoise

MOST_RECORDS = 60
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
        judged("exact", "policies that change", "past loss", changed, "every new edge covered", settings),
        judged("exact", "declarations", "written and read", unlike, "nothing gets lost", len(FORMATS) * settings),
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
        MOST_RECORDS,
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
    """Which two records an edge joins, absence the last of them."""
    declared, size = policy.applied(adjacency.domain), len(everyone)
    joined = np.zeros((size + 1, size + 1), dtype=np.bool_)
    for i, j in itertools.combinations(range(size), 2):
        joined[i, j] = joined[j, i] = moves(declared, policy, everyone[i], everyone[j])
    if policy.presence != "public":
        joined[:size, size] = joined[size, :size] = True
    return joined


DECLARED = domain({"x": integers(0, 7, null=0), "y": categorical(["a", "b"], null="a", outside="a")})
NONE = np.empty(0, dtype=np.int64)


def digest_lines() -> list[Line]:
    """Graphs, plans, programs and requests that differ in one thing; and quotes that must not be taken for others."""
    with scratch(DECLARED, Policy({"x": line()})) as world:
        named = {"graphs": _graphs(), "plans": _plans(), "programs": _programs(), "requests": _requests(world.handle)}
        lines = [
            judged(
                "exact", f"digests of {what}", "all differ", _alike(listed), "nothing is taken for another", len(listed)
            )
            for what, listed in named.items()
        ]
        stale = list(_stale_quotes(world.handle))
    return [*lines, judged("exact", "quotes of other policies", "none is reused", stale, "each certified anew", 5)]


def _alike(listed: Mapping[str, str]) -> list[str]:
    """Pairs of different things that share a digest."""
    first: dict[str, str] = {}
    return [f"{first[d]} and {name} share a digest" for name, d in listed.items() if first.setdefault(d, name) != name]


def _graphs() -> dict[str, str]:
    usual = line_graph(6)
    wide, universal_vertex = WindowGraph(np.full(6, 5), NONE), WindowGraph(np.array([1, 2, 3, 4, 4, 5]), np.array([5]))
    short = WindowGraph(np.array([1, 2, 2]), NONE)
    graphs = {
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
        "two factors": replace(usual, factors=(short, WindowGraph(np.array([1, 1]), NONE))),
        "two factors by attribute": replace(
            usual, factors=(short, WindowGraph(np.array([1, 1]), NONE)), composition="attribute"
        ),
    }
    return {name: graph.digest() for name, graph in graphs.items()}


def _plans() -> dict[str, str]:
    ones = np.ones(4, dtype=np.int64)
    usual = Plan(Fraction(2), (Measurement(Identity(4), ones),), None)
    halves = Intervals(4, np.array([0, 2]), np.array([2, 4]))
    plans = {
        "cells": usual,
        "more noise": usual.with_unit(Fraction(3)),
        "another weight": replace(usual, parts=(Measurement(Identity(4), np.array([1, 1, 1, 2])),)),
        "other rows": replace(usual, parts=(Measurement(halves, ones[:2]),)),
        "exact rows": replace(usual, exact=halves),
        "more parts": replace(usual, parts=(*usual.parts, *usual.parts)),
    }
    return {name: plan.digest() for name, plan in plans.items()}


def _programs() -> dict[str, str]:
    one, two = Allowance("first", Fraction(1, 3)), Allowance("second", Fraction(2, 3))
    programs = {
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
    digests = {name: program.digest() for name, program in programs.items()}
    return digests | {name: selection.digest() for name, selection in selections.items()}


def _requests(handle: DatasetHandle) -> dict[str, str]:
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
    digests = {name: make_request(handle, question, price).digest for name, question in queries.items()}
    targets = {
        "a lower price": accuracy_target(epsilon=Fraction(1, 2)),
        "a mechanism": accuracy_target(epsilon=Fraction(1), mechanism="identity"),
        "other intervals": accuracy_target(epsilon=Fraction(1), confidence="0.9"),
    }
    digests |= {name: make_request(handle, usual, target).digest for name, target in targets.items()}
    others = {
        "another account": replace(handle, account="f" * 32),
        "a new policy": replace(handle, policy_version=handle.policy_version + 1),
        "a new domain": replace(handle, domain_version=handle.domain_version + 2),
        "new data": replace(handle, snapshot=handle.snapshot + 3),
    }
    return digests | {name: make_request(other, usual, price).digest for name, other in others.items()}


def _stale_quotes(handle: DatasetHandle) -> Iterator[str]:
    """Quotes under one policy after the other, none forgotten: each must be certified for its own."""
    policies = {
        "line": Policy({"x": line(), "y": public()}),
        "threshold": Policy({"x": threshold(3), "y": public()}),
        "full": Policy({"x": full()}),
        "secret presence": Policy({"x": line()}, presence="secret"),
        "people": Policy({"x": line()}, unit=person("who", at_most=3, order_by="nr")),
    }
    question = query("cdf", "x", Column("y") == "a")
    ranking.forget()
    for name, policy in policies.items():
        case = Case(name, DECLARED, policy, question)
        release = prepared(case, replace(handle, policy=policy), question).release
        if not isinstance(release, PlanRelease):
            yield f"{name}: no fixed plan is offered"
        elif certify(release.best.plan, release.compiled.cells.graph) != release.best.certificate:
            yield f"{name}: the quote's certificate is not that of its plan under this policy"
