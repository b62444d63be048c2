"""What a database says when it fails is in the curator's log, and on no screen."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from blowfishdb.cli.output import LOG, keep_log, log_to_file
from blowfishdb.incidents import curator_log
from tests.cli.conftest import Run

SECRET = "Jane Doe, 47"


def fail(*arguments: object, **options: object) -> object:
    raise RuntimeError(f"could not convert {SECRET!r}")


def test_a_failing_source_leaves_an_incident_and_a_log(
    people: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.fetch", fail)
    ended = people("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    assert ended.code == 6
    assert "incident" in ended.err
    assert "Curators: what it said is in blowfish.log" in ended.err
    assert "0.25" in ended.err or "1/4" in ended.err
    assert SECRET not in ended.out + ended.err
    log = folder / "blowfish.log"
    assert SECRET in log.read_text()
    assert stat.S_IMODE(os.stat(log).st_mode) == 0o600
    assert LOG.path is None
    assert LOG not in curator_log.handlers


@pytest.mark.parametrize(("address", "is_shown"), [("postgresql://h/d#t", True), ("people.csv", False)])
def test_only_a_server_that_read_no_row_is_quoted_to_who_adds_a_dataset(
    blowfish: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, is_shown: bool
) -> None:
    monkeypatch.setattr("blowfishdb.sources.postgres.Postgres._connect", fail)
    monkeypatch.setattr("blowfishdb.sources.duckdb.DuckDB.columns", fail)
    ended = blowfish("dataset", "add", "people", "--source", address, "--domain", "age=0..99")
    assert ended.code == 6
    assert ("The database says: could not convert" in ended.err) is is_shown
    assert SECRET in (folder / "blowfish.log").read_text()
    assert LOG.last == ""
    told = blowfish("dataset", "add", "people", "--source", address, "--domain", "age=0..99", "--json")
    assert told.error["code"] == "source-failed" and SECRET not in told.err


def test_without_a_log_nothing_is_printed_either() -> None:
    code = (
        "from blowfishdb.errors import SourceFailed\nfrom blowfishdb.incidents import redact_errors\n"
        f"def fail():\n    raise RuntimeError({SECRET!r})\n"
        "try:\n    redact_errors(fail, SourceFailed, 'test')\nexcept SourceFailed as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "incident" in done.stdout
    assert done.stderr == ""


def test_a_command_that_runs_others_keeps_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Half a character cannot travel from one test process to another, so it stays out of the captured log.
    monkeypatch.setattr(curator_log, "propagate", False)
    with log_to_file():
        with log_to_file():
            keep_log(tmp_path / "inner.toml")
        keep_log(tmp_path / "blowfish.toml")
        curator_log.error("could not convert %s \ud800", SECRET)
    assert SECRET in (tmp_path / "blowfish.log").read_text()
    assert LOG not in curator_log.handlers
