"""Public constraints where people are protected: every pair of small tables in which one person's rows change.

Constraints speak of all rows, answers of the first rows of each person. The tables are listed from the definitions: one
person's rows change, each along an edge or not at all, and all constraints stay as they are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import BlowfishError, CannotCertify, PolicyError, QueryError
from blowfishdb.model import constraint_graph
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import ROW, Policy
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import synopsis_of
from blowfishdb.model.workload import Identity, Sparse
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.constraints import brute
from tests.constraints.cases import Case, Drawn
from tests.engine.held import Rows

MOST_ROWS = 3
DOMAINS = 70


def changes_of_one_person(domain: Domain, policy: Policy) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All ways in which the rows of one person can change, as places of `brute.vertices`, that keep every constraint.

    Where presence is hidden, the person may also come or go with all rows.
    """
    everyone = brute.vertices(domain, policy)
    there = [place for place, vertex in enumerate(everyone) if vertex is not brute.ABSENT]
    told = brute.signatures(domain, policy, policy.constraints)
    steps = {(place, place) for place in there}
    if policy.presence != "only":
        joined = [(a, b) for a, b in brute.edges(domain, policy) if a in there and b in there]
        steps |= {*joined, *((b, a) for a, b in joined)}
    for rows in range(1, MOST_ROWS + 1):
        for change in itertools.product(sorted(steps), repeat=rows):
            before, after = tuple(a for a, _ in change), tuple(b for _, b in change)
            if np.array_equal(told[list(before)].sum(axis=0), told[list(after)].sum(axis=0)):
                yield before, after
        if policy.presence != "public":
            absent = len(everyone) - 1
            for values in itertools.combinations_with_replacement(there, rows):
                if not told[list(values)].sum(axis=0).any():
                    yield values, (absent,) * rows


def worst_of_people(domain: Domain, policy: Policy, cells: Cells, rows: Ints, weights: Ints) -> int:
    """The largest change of the measured rows between two such tables; only the first rows of the person count."""
    found = brute.columns(domain, policy, cells, rows)
    most, worst = policy.rows_per_person, 0
    for before, after in changes_of_one_person(domain, policy):
        moved = found[list(after[:most])].sum(axis=0) - found[list(before[:most])].sum(axis=0)
        worst = max(worst, int(np.abs(moved) @ weights))
    return worst


def exact_troubles(domain: Domain, policy: Policy, cells: Cells) -> list[Ints]:
    """Rows that may be published without noise, and that some such change alters all the same."""
    size = cells.graph.cells
    troubles = []
    for chosen in itertools.islice(itertools.product((0, 1), repeat=size), 1, 2**6):
        row = np.array([chosen])
        noisy = Measurement(Identity(size), np.ones(1, dtype=np.int64))
        try:
            certify(Plan(Fraction(1), (noisy,), Sparse(row)), cells.graph)
        except BlowfishError:
            continue
        if worst_of_people(domain, policy, cells, row, np.ones(1, dtype=np.int64)):
            troubles.append(row)
    return troubles


def judged(case: Case, drawn: Drawn) -> str:
    """What becomes of a case: refused, or certified for at least what its worst pair of tables loses."""
    try:
        cells = compile_cells(case.domain, case.policy, case.axes, case.where)
    except PolicyError:
        return "refused"
    except BlowfishError:
        return "other"
    rows, weights = drawn.rows(cells.graph.cells)
    applied = case.policy.applied(case.domain)
    certified = certify(Plan(Fraction(1), (Measurement(rows, weights),)), cells.graph)
    if certified.epsilon < worst_of_people(applied, case.policy, cells, rows.dense(), weights):
        return "loses more"
    if cells.graph.cells <= 4 and exact_troubles(applied, case.policy, cells):
        return "exact rows move"
    return "sound"


def people_cases(drawn: Drawn) -> Iterator[Case]:
    for _ in range(DOMAINS):
        case = drawn.case()
        if case.domain.size <= 6:
            unit = bf.person("id", at_most=int(drawn.random.integers(1, 4)), order_by="key")
            yield replace(case, policy=replace(case.policy, unit=unit))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_no_table_with_other_rows_of_one_person_loses_more_than_certified(seed: int) -> None:
    drawn = Drawn(seed)
    seen = Counter(judged(case, drawn) for case in people_cases(drawn))
    assert not {"loses more", "exact rows move"} & set(seen), seen
    assert seen["refused"] >= 10 and seen["sound"] >= 4, seen


def as_before(policy: Policy, changed: tuple[str, ...]) -> None:
    """What was refused until now: two rows of a person and more."""
    if policy.rows_per_person > 1:
        raise PolicyError(f"one row per person: {changed}")


def test_the_same_search_finds_what_was_let_through_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_graph, "_check_unit", as_before)
    monkeypatch.setattr(constraint_graph, "most_changes", lambda differences: 2)
    drawn = Drawn(0)
    seen = Counter(judged(case, drawn) for case in people_cases(drawn))
    assert seen["loses more"] + seen["exact rows move"] >= 2, seen


BINARY = bf.domain({"x": bf.integers(0, 1, null=0), "y": bf.integers(0, 5, null=0)})
FIRST = bf.person("id", at_most=1, order_by="key")


def known(*constraints: str, **families: object) -> Policy:
    return Policy(families, unit=FIRST, constraints=constraints)  # type: ignore[arg-type]


def test_a_second_row_could_make_up_for_the_first_one() -> None:
    """The counterexample of docs/proofs/constraints.md: (1, 0) becomes (0, 1), and count(x = 1) stays as it is."""
    alone = Policy(constraints=["count(x = 1)"])
    applied, cells = alone.applied(BINARY), compile_cells(BINARY, alone, ["x"])
    one, identity = np.ones(2, dtype=np.int64), np.eye(2, dtype=np.int64)
    assert certify(Plan(Fraction(1), (Measurement(Identity(2), one),)), cells.graph).epsilon == 0
    small = Policy({"y": bf.public()}, unit=FIRST, constraints=alone.constraints)
    assert worst_of_people(applied, small, cells, identity, one) == 2
    with pytest.raises(PolicyError, match="all rows"):
        compile_cells(BINARY, small, ["x"])


def asked_of(policy: Policy, rows: Rows) -> Iterator[object]:
    """Every way to a release, for constraints that a hidden change touches."""
    held = DatasetHandle("people", BINARY, policy, "account", 1, 1, 1, rows)  # type: ignore[arg-type]
    asked, wanted = bf.query("histogram", "x"), accuracy_target(epsilon=1)
    yield lambda: compile_query(BINARY, policy, asked)
    yield lambda: prepare(held, make_request(held, asked, wanted))
    yield lambda: prepare(held, make_request(held, synopsis_of(asked), wanted))
    yield lambda: prepare(held, make_request(held, bf.query("points", "x", clusters=2, rows=40), wanted))
    yield lambda: bf.explain(BINARY, policy)


@pytest.mark.parametrize(
    "constraints",
    [("count(x = 1)",), ("count(x = 1 and y < 3) = 4",), ("range(y, 0, 2)",), ("marginal(x)", "rows = 7")],
)
def test_every_way_to_a_release_is_refused_before_rows_are_read(constraints: tuple[str, ...]) -> None:
    rows = Rows()
    for attempt in asked_of(known(*constraints), rows):
        with pytest.raises(PolicyError, match="speak of all rows"):
            attempt()  # type: ignore[operator]
    assert rows.reads == 0


def test_given_numbers_tell_no_totals_of_the_rows_that_count() -> None:
    free = Policy({"x": bf.public()}, constraints=["count(x = 1) = 4", "rows = 9"])
    asked = bf.query("histogram", "x")
    assert compile_query(BINARY, free, asked).known is not None
    assert compile_query(BINARY, replace(free, unit=FIRST), asked).known is None


SPECIAL = [
    bf.integers(
        0,
        2,
        null=null,
        outside=outside,
        null_public=public == "public" and null == "cell",  # type: ignore[arg-type]
        outside_public=public == "public" and outside == "cell",
    )
    for null in ("cell", 1)
    for outside in ("cell", "clamp")
    for public in ("public", "hidden")
]
SPECIAL_FACTS = [
    ("count(x = 1)",),
    ("count(x is null)",),
    ("count(outside(x))",),
    ("count(not x = 1)",),
    ("marginal(x)",),
    ("count(x < 1)", "count(x is null)"),
    ("range(x, 1, 2)", "count(x < 2)"),
    ("rows",),
    ("rows = 2", "count(x >= 1)"),
]
FAMILIES = [bf.full(), bf.line(), bf.partition(cuts=[1]), bf.public()]


@pytest.mark.parametrize(
    "unit",
    [
        FIRST,
        *(pytest.param(unit, marks=pytest.mark.nightly) for unit in (ROW, bf.person("id", at_most=2, order_by="key"))),
    ],
)
def test_constraints_about_null_and_outside_cells(unit: object) -> None:
    """Special cells and values that stand for NULL or for what lies beyond, asked with and without filters."""
    drawn, seen = Drawn(5), Counter[str]()
    filters = [None, bf.col("x") >= 1, ~bf.col("x").is_null()]
    everything = itertools.product(SPECIAL, SPECIAL_FACTS, FAMILIES, ("public", "secret", "only"))
    for attribute, constraints, family, presence in itertools.islice(everything, 0, None, 1 if unit is ROW else 5):
        domain = bf.domain({"x": attribute})
        policy = Policy({"x": family}, presence=presence, unit=unit, constraints=constraints)  # type: ignore[arg-type]
        where = filters[sum(seen.values()) % len(filters)]
        case = Case(domain, policy, as_axes("x"), where)
        if unit is not ROW:
            seen[judged(case, drawn)] += 1
            continue
        try:
            cells = case.cells()
        except (PolicyError, QueryError, CannotCertify):
            seen["refused"] += 1
            continue
        rows, weights = drawn.rows(cells.graph.cells)
        applied = policy.applied(domain)
        found = brute.columns(applied, policy, cells, rows.dense())
        most = 2 if "rows = 2" in constraints and presence == "public" else 3
        real = brute.true_loss(applied, policy, policy.constraints, found, weights, most)
        certified = certify(Plan(Fraction(1), (Measurement(rows, weights),)), cells.graph)
        seen["sound" if certified.epsilon >= real else "loses more"] += 1
    assert not {"loses more", "exact rows move"} & set(seen), seen
    assert seen["sound"] >= 20, seen
