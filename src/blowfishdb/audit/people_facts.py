"""Public facts where people are protected: all tables in which one person has other rows, and every fact stays true.

Facts speak of all rows, answers of the first rows of each person. Nothing but the definitions says which tables are
neighbours here: a declaration is refused, or its certificate covers every one of these changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from blowfishdb.audit.all_changes import cells_of_records
from blowfishdb.audit.definitions import Record, moves, records
from blowfishdb.audit.fact_changes import signatures
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.errors import PolicyError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import Presence
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.graphs.families import Family, full, line, partition, public
from blowfishdb.model.policy import Policy, person
from blowfishdb.model.predicate import Column, Predicate
from blowfishdb.model.workload import Identity
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan

SPARE = 1
"""So many rows more than count does the person have, at most."""
FACTS = (["count(x = 1)"], ["marginal(x)"], ["range(x, 0, 1)", "rows = 9"], ["count(x is null)"], ["rows"])
FAMILIES: tuple[Family, ...] = (full(), line(), partition(cuts=[1]), public())
PRESENCES: tuple[Presence, ...] = ("public", "secret", "only")
FILTERS: tuple[Predicate | None, ...] = (None, Column("x") >= 1)


def people_fact_lines() -> list[Line]:
    """One line: every declaration of these kinds is refused, or covers what one person's rows can change."""
    declared = domain({"x": integers(0, 2, null_public=True)})
    troubles, refused, tried = list[str](), 0, 0
    for at_most, facts, family, presence in itertools.product((1, 2), FACTS, FAMILIES, PRESENCES):
        unit = person("who", at_most=at_most, order_by="nr")
        policy = Policy({"x": family}, presence=presence, unit=unit, constraints=facts)
        tried += 1
        try:
            asked = [compile_cells(declared, policy, ["x"], where) for where in FILTERS]
        except PolicyError:
            refused += 1
            continue
        for cells in asked:
            plan = Plan(Fraction(1), (Measurement(Identity(cells.graph.cells), np.ones(1, dtype=np.int64)),))
            certified, worst = certify(plan, cells.graph).epsilon, _worst(declared, policy, cells)
            if worst > certified:
                said = f"{'; '.join(facts)} known, {at_most} rows a person, presence {presence}"
                troubles.append(f"{said}: loss {worst}, certified {certified}")
    found = f"{refused} refused, the others covered"
    return [judged("exact", "facts and people", "one person's rows", troubles, found, tried)]


def _worst(declared: Domain, policy: Policy, cells: Cells) -> int:
    """The most by which the counts of the first rows change, over all changes of one person that keep the facts."""
    applied = policy.applied(declared)
    everyone = list(records(applied))
    told = np.array(signatures(applied, policy.facts, everyone))
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
