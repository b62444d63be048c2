"""What docs/sql.md says can be asked can be asked, and what it says is refused is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine.compile import compile_query
from blowfishdb.errors import QueryError
from blowfishdb.sql import parse, query_of, split
from tests.sql.corpus import VISITS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()
ATTRIBUTES = ("x", "ward", "cost", "age")
NUMBERS = bf.domain({"x": bf.integers(0, 9), "cost": bf.integers(0, 99)})
ASKED, REFUSED = PAGE.split("## What is refused")


def first_cells(text: str, heading: str) -> list[str]:
    """The code in the first column of the table with this heading."""
    rows = text.split(f"| {heading} |")[1].split("\n\n")[0].splitlines()[2:]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.split("|")[1])]


@pytest.mark.parametrize("aggregate", first_cells(ASKED, "aggregate"))
def test_aggregates(aggregate: str) -> None:
    text = aggregate.replace("(...)", "(WHERE x > 5)")
    query_of(parse(f"SELECT {text} FROM visits"), NUMBERS)


@pytest.mark.parametrize("group", first_cells(ASKED, "group"))
def test_groups(group: str) -> None:
    assert query_of(parse(f"SELECT {group}, COUNT(*) FROM visits GROUP BY {group}"), ATTRIBUTES).axes


@pytest.mark.parametrize("condition", first_cells(ASKED, "condition"))
def test_conditions(condition: str) -> None:
    if condition.startswith(("<", ">")):
        condition = f"x {condition} 5"
    text = condition.replace("(...)", "('a')")
    assert query_of(parse(f"SELECT COUNT(*) FROM visits WHERE {text}"), ATTRIBUTES).where is not None


@pytest.mark.parametrize("statement", re.findall(r'"((?:EXPLAIN )?SELECT [^"]+)"|^ +(SELECT .+)$', ASKED, re.MULTILINE))
def test_statements(statement: tuple[str, str]) -> None:
    for one in split(statement[0] or statement[1]):
        query_of(parse(one), ATTRIBUTES)


def test_scripts_of_too_few_and_too_many_statements_are_refused() -> None:
    with pytest.raises(QueryError, match="there is no statement yet"):
        split(" ; ")
    with pytest.raises(QueryError, match="at most 32 statements are priced together, not 33"):
        split("SELECT COUNT(*) FROM visits;" * 33)


PATIENTS = bf.Policy(unit=bf.person("patient", at_most=3, order_by="nr"))


@pytest.mark.parametrize("refused", first_cells(REFUSED, "written"))
def test_refused(refused: str) -> None:
    whole = {
        "UNION": "SELECT COUNT(*) FROM visits UNION SELECT 1",
        "JOIN": "SELECT COUNT(*) FROM visits JOIN doctors USING (id)",
        "COUNT": f"SELECT {refused} FROM visits",
        "SELECT": refused.replace("...", "FROM visits"),
    }
    with pytest.raises(QueryError):
        query = query_of(parse(whole[re.split(r"\W", refused)[0]]), VISITS)
        compile_query(VISITS, PATIENTS, query)
