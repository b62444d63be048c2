"""R, JDBC, ODBC and LibreOffice over the PostgreSQL port, each installed as a user would; `make clients` runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.server.wire.places import WirePlace

pytestmark = pytest.mark.clients
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "clients"
WARDS = ["A1", "A2", "A3"]


def run(*command: str, environment: dict[str, str] | None = None, given: str = "") -> str:
    """What a program prints; the test fails with all of it where the program does."""
    done = subprocess.run(
        command,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.r
def test_r_lists_asks_and_reads_numbers(port: WirePlace) -> None:
    server = {"PGHOST": "127.0.0.1", "PGPORT": str(port.port), "PGUSER": "ana", "PGPASSWORD": port.secrets["ana"]}
    told = run("Rscript", str(EXAMPLES / "ask.R"), "visits", "ward", "0.25", environment=server)
    assert "datasets: visits" in told
    assert "columns: age ward cost" in told
    counts = [line.split(",") for line in told.splitlines() if line.startswith('"A')]
    assert [ward.strip('"') for ward, _ in counts] == WARDS
    assert all(500 < float(count) < 1500 for _, count in counts)
    assert "NOTICE:  charged epsilon 0.25" in told


@pytest.mark.jdbc
def test_jdbc_describes_refuses_and_prepares(port: WirePlace) -> None:
    before = port.app_state.session("bob").budget("visits").spent
    driver = "/usr/share/java/postgresql.jar"
    place = f"127.0.0.1:{port.port}"
    question = ("visits", "ward", "0.5", "A3")
    told = run("java", "-cp", driver, str(EXAMPLES / "Ask.java"), place, "bob", port.secrets["bob"], *question)
    lines = told.splitlines()
    assert "table public.visits" in lines
    assert "column age int8: 100 values: 0 … 99; NULL counts as 0" in lines
    assert lines.count("keys false") == 3
    assert "refused 53400: ERROR: not run, nothing charged: this costs epsilon 0.5" in told
    answers = [line for line in lines if line.startswith("A1 ")]
    assert len(answers) == 8
    assert len(set(answers)) == 1
    assert told.count("charged epsilon 0.5;") == 1
    assert told.count("nothing charged;") == 7
    assert port.app_state.session("bob").budget("visits").spent - before == 0.5


@pytest.mark.odbc
@pytest.mark.parametrize("pieces", [0, 1])
def test_odbc_lists_asks_and_refuses(port: WirePlace, tmp_path: Path, pieces: int) -> None:
    """The driver that Excel uses, with whole results or by cursors; `ConnSettings` is where its spending is allowed."""
    settings = tmp_path / "odbc.ini"
    settings.write_text(
        "[clinic]\nDriver=PostgreSQL Unicode\nServername=127.0.0.1\nSSLmode=disable\n"
        f"Port={port.port}\nDatabase=blowfish\nUserName=ana\nPassword={port.secrets['ana']}\n"
        f"ConnSettings=SET blowfish.spend = '0.75'\nUseDeclareFetch={pieces}\nFetch=2\n"
    )
    question = (
        f"SELECT ward, COUNT(*) AS n FROM visits WHERE age < {90 + pieces} GROUP BY ward OPTIONS (epsilon = {{}})\n"
    )
    lines = f"{question.format('0.75')}{question.format('0.75')}{question.format('1.5')}"
    told = subprocess.run(
        ["isql", "-b", "-v", "-d;", "clinic"],
        input=f"help\n{lines}",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "ODBCINI": str(settings)},
        timeout=300,
        check=False,
    ).stdout
    assert "blowfish;public;visits;TABLE" in told
    rows = [line for line in told.splitlines() if line.startswith(tuple(WARDS))]
    assert len(rows) == 6
    assert rows[:3] == rows[3:]
    assert told.count("charged epsilon 0.75;") == 1
    assert told.count("nothing charged;") == 1
    assert "[53400]ERROR: not run, nothing charged" in told


@pytest.mark.libreoffice
def test_libreoffice_base_opens_the_table_and_asks(port: WirePlace) -> None:
    place = ("127.0.0.1", str(port.port), "ana", port.secrets["ana"])
    told = run("/usr/bin/python3", str(EXAMPLES / "libreoffice_base.py"), *place, "visits", "ward", "0.125")
    lines = told.splitlines()
    assert [line for line in lines if line.startswith("column ")] == [
        *("column age int8", "column ward text", "column cost float8")
    ]
    counts = dict(line.split() for line in lines if line.startswith("A"))
    assert list(counts) == WARDS
    assert all(500 < float(count) < 1500 for count in counts.values())
