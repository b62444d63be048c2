"""Every pair of small tables that differ in one person's rows, in both tables together: what the counts may change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import duckdb
import pytest

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import categorical, domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Person, Policy
from blowfishdb.sources import Join, statement
from blowfishdb.sources.base import People
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName
from tests.audit.rewritten import rewrite

CAP = 2
UNIT = Person("who", CAP, "nr")
DECLARED = domain(
    {"ward": categorical(["a", "b"]), "age": integers(0, 1), "zone": integers(0, 1), "rows": integers(1, 3)}
)
JOINS = [Join("patients", "who", "id", ["age", "post"]), Join("posts", "post", "code", ["zone"])]
POSTS = [(0, 0), (1, 1), (7, 0), (7, 1)]
"""The public table; whose post is 7 or 8 has no zone."""
OTHERS = [(("a", "b", "b"), ((1, 0),)), (("b",), ((0, 7), (0, 7)))]


class Own(NamedTuple):
    """The wards of a person's visits in their order, and the person's rows in the table of patients."""

    visits: tuple[str, ...]
    patients: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.visits), len(self.patients)


def possible() -> Iterator[Own]:
    rows = [(0, 0), (1, 7)]
    for number, times in itertools.product((0, 1, 3), range(3)):
        for visits in itertools.product("ab", repeat=number):
            for patients in itertools.combinations_with_replacement(rows, times):
                yield Own(visits, patients)


def violations(of_people: bool) -> Iterator[str]:
    """Neighbours whose counts differ in more than the rows of one person that count."""
    database = duckdb.connect(":memory:", config={"threads": 1})
    database.execute("CREATE TABLE visits (who BIGINT, nr BIGINT, ward VARCHAR)")
    database.execute("CREATE TABLE patients (id BIGINT, age BIGINT, post BIGINT)")
    database.execute("CREATE TABLE posts (code BIGINT, zone BIGINT)")
    database.executemany("INSERT INTO posts VALUES (?, ?)", POSTS)
    source = IbisSource(DuckDB(database.cursor, "neighbours"), TableName("visits"), JOINS)
    most = 1 if of_people else CAP
    if of_people:
        counting = source.of_people(People("who", "rows")).prepare(compile_cells(DECLARED, Policy(), ["rows", "zone"]))
    else:
        cells = compile_cells(DECLARED, Policy(unit=UNIT), ["ward", "age", "zone"])
        counting = source.prepare(cells, UNIT)

    def counts(own: Own, other: Own) -> Ints:
        database.execute("DELETE FROM visits")
        database.execute("DELETE FROM patients")
        visits = [(who, nr, ward) for who, one in ((1, own), (2, other)) for nr, ward in enumerate(one.visits)]
        patients = [(who, *row) for who, one in ((1, own), (2, other)) for row in one.patients]
        if visits:
            database.execute(f"INSERT INTO visits VALUES {', '.join(map(str, visits))}")
        if patients:
            database.execute(f"INSERT INTO patients VALUES {', '.join(map(str, patients))}")
        return counting.run()

    for other in map(Own._make, OTHERS):
        found = {own: counts(own, other) for own in possible()}
        absent = found[Own((), ())]
        for own, numbers in found.items():
            if abs(numbers - absent).sum() > most:
                yield f"{own} beside {other} comes or goes with {abs(numbers - absent).sum()} rows"
        for one, two in itertools.combinations(found, 2):
            change = found[one] - found[two]
            if one.shape == two.shape and (change.sum() or abs(change).sum() > 2 * most):
                yield f"{one} and {two} beside {other} change {change}"
        if max(abs(found[one] - found[two]).sum() for one, two in itertools.combinations(found, 2)) != 2 * most:
            yield "the bound is not attained: a smaller one would not be caught"
    database.close()


@pytest.mark.parametrize("of_people", [False, True], ids=["rows", "people"])
def test_one_person_changes_as_many_rows_as_count(of_people: bool) -> None:
    assert list(violations(of_people)) == []


def test_a_key_that_occurs_twice_would_multiply_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(monkeypatch, statement, "_dimension", "counted.same == 1", "counted.same >= 1")
    assert next(violations(False), None)
    assert next(violations(True), None)


def test_rows_of_a_person_bounded_apart_would_change_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cap that looks at anything beside the person, as one behind a join that multiplies rows, bounds nothing."""
    bounded = "group_by=keyed.person,"
    rewrite(monkeypatch, statement, "_ranked", bounded, "group_by=[keyed.person, keyed.key],")
    assert next(violations(False), None)
