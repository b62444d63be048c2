"""Neighbouring tables with coupled noise, asked through every face: each byte that is sent is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from blowfishdb.audit.twin_questions import ALL, NEIGHBOURHOODS, Asked, neighbouring
from blowfishdb.audit.twins import Compared, Sitting, compare
from tests.leaks.faces import SERVED_EQUAL, assistant, command_line, port, rest

ASKED = ("histogram", "table", "top, names only", "synopsis", "k-means", "plan", "people by group", "too much")
STATEMENTS = (
    "SELECT ward, COUNT(*) AS n, AVG(cost) FROM {} GROUP BY ward ORDER BY n DESC OPTIONS (epsilon = 0.5)",
    "SELECT ward FROM {} GROUP BY ward HAVING COUNT(*) > 5 OPTIONS (epsilon = 0.5)",
    "EXPLAIN SELECT CDF(age) FROM {} OPTIONS (alpha = 40)",
    "SELECT QUANTILES(age, 0.25, 0.5) FROM {} OPTIONS (epsilon = 0.5)",
    "SELECT CASE WHEN age < 4 THEN 'young' ELSE 'old' END AS life, COUNT(*) FROM {} GROUP BY life OPTIONS (alpha = 40)",
    "SELECT nobody, COUNT(*) FROM {} GROUP BY nobody OPTIONS (epsilon = 1)",
    "SELECT CDF(age) FROM {} OPTIONS (epsilon = 999)",
)
ANALYST = ("--analyst", "ana")
COMMANDS = (
    ("preview", "{}", "--histogram", "ward", "--within", "40", *ANALYST),
    ("release", "{}", "--histogram", "ward", "--epsilon", "0.5", *ANALYST),
    ("release", "{}", "--histogram", "ward", "--epsilon", "0.5", *ANALYST, "--json"),
    ("release", "{}", "--cdf", "age", "--epsilon", "0.5", *ANALYST, "--mechanism", "dawa"),
    *(("sql", text, *ANALYST) for text in STATEMENTS),
    ("sql", STATEMENTS[0], *ANALYST, "--json"),
    ("dataset", "list"),
    ("dataset", "show", "{}"),
    ("policy", "risk", "{}", "--attribute", "ward", "--pair", "A,D", "--epsilon", "0.5"),
)
SERVER = {"equal": SERVED_EQUAL, "everywhere": True}


def over(names: Sequence[str], script: Sitting, **options: object) -> Compared:
    return compare(neighbouring(names), script, **options)  # type: ignore[arg-type]


def everyone(names: Sequence[str], asked: Sequence[str]) -> Mapping[str, Mapping[str, Asked]]:
    return {name: {label: ALL[label] for label in asked} for name in names}


FEW = ("persons_gone",)
NAMES = [FEW, *(pytest.param((name,), marks=pytest.mark.nightly) for name in NEIGHBOURHOODS if name not in FEW)]
of_names = pytest.mark.parametrize("names", NAMES, ids="-".join)


@of_names
def test_rest_and_python_over_it(names: Sequence[str]) -> None:
    found = over(names, rest(everyone(names, ASKED)), **SERVER)
    assert found.differences == ()
    assert found.told > 100 and found.accesses > 6


@of_names
def test_the_postgresql_port(names: Sequence[str]) -> None:
    found = over(names, port(dict.fromkeys(names, STATEMENTS)), **SERVER)
    assert found.differences == ()
    assert found.accesses > 3


@of_names
def test_the_command_line(names: Sequence[str]) -> None:
    found = over(names, command_line(dict.fromkeys(names, COMMANDS)))
    assert found.differences == ()
    assert found.accesses > 3


@of_names
def test_the_tools_of_an_assistant(names: Sequence[str]) -> None:
    found = over(names, assistant(dict.fromkeys(names, STATEMENTS)))
    assert found.differences == ()
    assert found.accesses > 3
