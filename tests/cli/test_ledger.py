"""blowfish ledger: show, verify, export, accept."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.cli.conftest import Run


def asked(run: Run) -> None:
    ended = run("release", "people", "--count", "--where", "age > 50", "--epsilon", "0.25", "--analyst", "ana")
    assert ended.code == 0, ended.err


def test_show(people: Run) -> None:
    asked(people)
    shown = people("ledger", "show").out
    for said in (
        "Number of records where",
        "opened the account",
        "ana",
        "0.25",
        "carla",
        "people: epsilon 0.25 of 2 spent",
    ):
        assert said in shown
    entries = people("ledger", "show", "people", "--last", "2", "--json").json
    assert [entry["kind"] for entry in entries] == ["charge", "answer"]
    assert people("ledger", "show", "nobody").code == 3


def test_export_is_a_chain(people: Run, folder: Path) -> None:
    asked(people)
    assert people("ledger", "export", "books.jsonl", "--json").json["entries"] == 4
    entries = [json.loads(line) for line in (folder / "books.jsonl").read_text().splitlines()]
    assert [one["hash"] for one in entries[:-1]] == [two["previous_hash"] for two in entries[1:]]
    printed = [json.loads(line) for line in people("ledger", "export", "--dataset", "people").out.splitlines()]
    assert printed == entries
    assert people("ledger", "export", "nowhere/books.jsonl").code == 3


def test_verify_finds_a_changed_entry(people: Run, folder: Path) -> None:
    asked(people)
    assert people("ledger", "verify").out.startswith("Sound: 4 entries")
    assert people("ledger", "verify", "--json").json["sound"]
    with sqlite3.connect(folder / "blowfish.ledger") as books:
        for (name,) in books.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            books.execute(f'DROP TRIGGER "{name}"')
        books.execute("UPDATE entry SET body = replace(body, '1/4', '1/9') WHERE kind = 'charge'")
    books.close()
    ended = people("ledger", "verify")
    assert ended.code == 5
    assert "Not sound at entry 3" in ended.err
    content = people("ledger", "verify", "--json")
    assert content.code == 5
    assert content.json["fault"]["sequence"] == 3


def test_a_restored_ledger_is_noticed_and_accepted_on_record(people: Run, folder: Path) -> None:
    backup = (folder / "blowfish.ledger").read_bytes()
    asked(people)
    (folder / "blowfish.ledger").write_bytes(backup)
    for extra in folder.glob("blowfish.ledger-*al"):
        extra.unlink()
    refused = people("dataset", "list")
    assert refused.code == 5
    assert "On the command line: blowfish ledger accept" in refused.err
    assert people("ledger", "accept", "--reason", "the disk died", "--json").json["entries"] == 3
    assert people("dataset", "list").code == 0
    assert "the disk died" in people("ledger", "show").out


def test_a_signed_checkpoint_notices_what_the_mark_cannot(people: Run, folder: Path) -> None:
    """Ledger and mark are restored together."""
    files = ("blowfish.ledger", "blowfish.mark")
    config = folder / "blowfish.toml"
    backup = {name: (folder / name).read_bytes() for name in files}
    asked(people)
    signed = people("ledger", "checkpoint", "people.checkpoint", "--key", "secret.key", "--json").json
    assert signed["sequence"] == 4
    again = people("ledger", "checkpoint", "people.checkpoint", "--key", "secret.key")
    lines = f'checkpoint = "people.checkpoint"\n  checkpoint_key = "{signed["checkpoint_key"]}"'
    assert lines in again.out
    config.write_text(lines.replace("  ", "") + "\n" + config.read_text())
    assert people("dataset", "list").code == 0
    for name, content in backup.items():
        (folder / name).write_bytes(content)
    for extra in folder.glob("blowfish.ledger-*al"):
        extra.unlink()
    refused = people("dataset", "list")
    assert refused.code == 5
    assert "ends at entry 2, but entry 4 had been written" in refused.err
    config.write_text(config.read_text().replace('checkpoint = "people.checkpoint"\n', ""))
    assert "belong together" in people("dataset", "list").err
