"""The short version of `make faults`: four kinds of fault and some damage, a few releases each, nothing lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from blowfishdb.ledger.store import TYPES, SqliteCursor, migrate, open_sqlite
from tools.faults import __main__ as command
from tools.faults.__main__ import KINDS, main
from tools.faults.checker import DIED, REFUSED, read_logs
from tools.faults.corruption import FILES, SQL, Tried, _bench, damage_rows
from tools.faults.lab import SQLITE, Lab, Outcome, as_json, failure, line
from tools.faults.processes import BACK, FORMAT_BEFORE
from tools.faults.swarm import POINTS

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("kind", ["points", "sharing", "cuts", "file-size"])
def test_nothing_is_lost(lab: Lab, kind: str) -> None:
    rows = list(KINDS[kind](lab))
    assert rows
    assert all(row.is_good for row in rows), [failure(row) for row in rows if not row.is_good]
    assert all(row.answers_seen > 0 for row in rows)


def test_deaths_happen_inside_the_ledger_and_limits_run_out(lab: Lab) -> None:
    """The run is no walk in the park: clients die between statements, and some releases are over the limit."""
    place = lab.place(SQLITE)
    done = lab.worker_pool.run(replace(lab.plan(place, 2), killing=POINTS, span=60, deaths=8))
    records = read_logs(place.logs)
    died = [one.detail for one in records if one.kind == DIED]
    assert done["deaths"] == len(died) == 8
    assert any(point.split()[1] in ("BEGIN", "SELECT", "INSERT", "UPDATE", "COMMIT") for point in died)
    assert any(one.kind == REFUSED and one.detail == "budget-exceeded" for one in records)
    assert lab.verdict("deaths", place, done["deaths"], done["unsettled"]).is_good


def test_damaged_ledgers_give_no_answer(lab: Lab) -> None:
    bench, tried = _bench(lab, SQLITE), Tried()
    for name in ("what the data spent set to nothing", "an entry in the middle deleted", "a balance that is no number"):
        bench.attempt(tried, name, partial(damage_rows, bench.place, SQL[name]))
    bench.attempt(tried, "an old backup restored", bench.restore_backup)
    assert (tried.runs, tried.refused, tried.answered_wrongly, tried.unclean) == (4, 4, 0, 0), tried.notes
    for name in ("a digit of the file flipped", "the log cut off"):
        ending, damage = FILES[name]
        path = bench.place.ledger_file.with_name(bench.place.ledger_file.name + ending)
        bench.attempt(tried, name, partial(damage, path, lab.chance), moved=ending == "")
    assert (tried.runs, tried.answered_wrongly, tried.unclean) == (6, 0, 0), tried.notes


def test_the_table_names_what_was_not_survived() -> None:
    good = Outcome("kill", "SQLite", 10, 5, refused=2)
    bad = Outcome("cut", "PostgreSQL", 10, 5, unpaid_answers=1, notes=("ana saw too much",))
    idle = Outcome("cut", "SQLite", 10, 0)
    assert line(good) == "| kill | SQLite | 10 | 5 | 0 | 0 | 0 | 2 | 0 |"
    assert failure(bad) == "NOT SURVIVED: cut on PostgreSQL: ana saw too much"
    assert "no fault was injected" in failure(idle)
    assert [json.loads(as_json(row))["is_good"] for row in (good, bad, idle)] == [True, False, False]


class Died(Exception):
    """A kind of fault that breaks down."""


def test_rows_are_printed_as_they_come(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found before a kind broke down is not lost with it."""
    good = Outcome("kill", "SQLite", 10, 5)

    def breaks(_: Lab) -> Iterator[Outcome]:
        """A row, and then no more."""
        yield good
        raise Died

    @contextmanager
    def opened(*_: object) -> Iterator[Lab]:
        yield lab

    monkeypatch.setattr(command, "open_lab", opened)
    monkeypatch.setitem(KINDS, "points", breaks)
    with pytest.raises(Died):
        main(["points"])
    assert capsys.readouterr().out.splitlines()[-1] == line(good)


@pytest.mark.parametrize("arguments", [["no-such-kind"], ["--releases", "0"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_what_undoes_the_newest_migration_leaves_the_tables_of_the_one_before(tmp_path: Path) -> None:
    def schema(connection: sqlite3.Connection) -> set[tuple[str, str]]:
        return set(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())

    open_sqlite(tmp_path / "ledger").close()
    with (
        closing(sqlite3.connect(tmp_path / "ledger")) as newest,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as before,
    ):
        for step in range(FORMAT_BEFORE):
            migrate(SqliteCursor(before), step, TYPES)
        assert schema(newest) > schema(before)
        for statement in BACK:
            newest.execute(statement)
        assert schema(newest) == schema(before)
