"""blowfish backup and restore: one file, on this machine and on another, checked on both ways."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def release(run: Run, cost: str = "0.25") -> None:
    ended = run("release", "people", "--count", "--where", f"age > {cost[2:]}", "--epsilon", cost, "--analyst", "ana")
    assert ended.code == 0, ended.err


def spent(run: Run) -> str:
    return str(run("dataset", "show", "people", "--json").json["spent"])


def test_a_restored_account_counts_what_was_spent_after_the_backup(people: Run, folder: Path) -> None:
    release(people)
    password = people("user", "add", "ana", "--json").json["password"]
    written = people("backup", "monday.backup", "--json").json
    assert (written["sequence"], sorted(written["files"])) == (4, ["blowfish.toml", "ledger.sqlite", "users.sqlite"])
    assert (folder / "monday.backup").stat().st_mode & 0o077 == 0
    release(people, "0.20")
    before = spent(people)
    refused = people("restore", "monday.backup")
    assert refused.code != 0 and "users in this place (sqlite:///blowfish.users)" in refused.err
    assert "--replace" in refused.err and "names this place" not in refused.err
    for name in ("blowfish.ledger", "blowfish.ledger-wal", "blowfish.users", "blowfish.toml"):
        (folder / name).unlink(missing_ok=True)
    restored = people("restore", "monday.backup", "--json")
    assert list(restored.json["counted"].values()) == ["9/20"]
    assert spent(people) == before
    assert people("ledger", "verify").code == 0
    assert [one["name"] for one in people("user", "list", "--json").json] == ["ana"] and password
    # Once more over what is there now, with another configuration in the place of the first.
    (folder / "blowfish.toml").write_text((folder / "blowfish.toml").read_text() + "\n# changed here\n")
    again = people("restore", "monday.backup", "--replace")
    assert again.code == 0, again.err
    assert "that of the backup is blowfish.toml.backup" in again.out and "is kept as ledger-replaced-" in again.out
    assert len(list(folder.glob("*-replaced-*.sqlite"))) == 2
    assert spent(people) == before


def test_on_another_machine_a_checkpoint_tells_what_was_spent(people: Run, folder: Path) -> None:
    people("backup", ".")
    (backup,) = folder.glob("blowfish-*Z.backup")
    release(people)
    signed = people("ledger", "checkpoint", "signed", "--key", "key", "--json").json
    other = folder / "other machine"
    other.mkdir()
    place = ("--config", str(other / "blowfish.toml"))
    (folder / "blowfish.mark").rename(folder / "gone")
    refused = people("restore", str(backup), *place)
    assert refused.code == 5 and "--checkpoint" in refused.err and "ledger accept" not in refused.err
    assert "--checkpoint-key" in people("restore", str(backup), *place, "--checkpoint", "signed").err
    given = ("--checkpoint", "signed", "--checkpoint-key", signed["checkpoint_key"])
    assert people("restore", str(backup), *place, *given).code == 0
    assert people("ledger", "show", *place, "--json").json[-1]["kind"] == "restored"
    assert people("dataset", "show", "people", *place, "--json").json["spent"] == "0.25"
    ended = people("restore", str(backup), *place, "--replace", "--accept", "the first try was a drill")
    assert "Mind" not in ended.out
    assert people("ledger", "show", *place, "--json").json[-1]["fields"]["reason"] == "the first try was a drill"
    # A machine with a configuration of its own, which says where the ledger is and declares nothing.
    third = folder / "third machine"
    third.mkdir()
    (third / "blowfish.toml").write_text('ledger = "sqlite:///third.ledger"\n')
    place = ("--config", str(third / "blowfish.toml"))
    ended = people("restore", str(backup), *place, *given)
    assert "were added: people." in ended.out and "people has spent epsilon 0.25." in ended.out
    assert people("dataset", "list", *place, "--json").json[0]["name"] == "people"
    assert people("dataset", "record", "people", str(third / "record.html"), *place).code == 0
    assert "are not listed, and count: epsilon 0.25 was spent by then" in (third / "record.html").read_text()
    assert (third / "blowfish.toml").read_text().startswith('ledger = "sqlite:///third.ledger"\n')


def test_a_damaged_backup_is_noticed(people: Run, folder: Path) -> None:
    assert people("backup", "good.backup").code == 0
    assert people("backup", "good.backup", "--keep", "2").code == 3
    assert people("backup", "nowhere/good.backup").code == 3
    content = (folder / "good.backup").read_bytes()
    for place in (0, len(content) // 2, len(content) - 5):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (folder / "bad.backup").write_bytes(damaged)
        assert people("restore", "bad.backup", "--replace").code in (3, 5), place
    for change in ({"format": 2}, {"sequence": 1}, {"files": {"blowfish.toml": "0"}}):
        with zipfile.ZipFile("good.backup") as good, zipfile.ZipFile("bad.backup", "w") as bad:
            for name in good.namelist():
                manifest = {**json.loads(good.read(name)), **change} if name == "manifest.json" else None
                bad.writestr(name, good.read(name) if manifest is None else json.dumps(manifest))
        assert people("restore", "bad.backup", "--replace").code == 3, change
    assert people("restore", "none.backup").code == 3
    assert not list(folder.glob(".blowfish-*")) and not list(folder.glob("*.part"))


def test_a_folder_keeps_the_newest(people: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = folder / "kept"
    kept.mkdir()
    for day in range(1, 5):
        shutil.copy(folder / "people.csv", kept / f"blowfish-2026010{day}T000000Z.backup")
    (kept / "notes").write_text("mine")
    assert people("backup", "kept", "--keep", "2", "--json").json["removed"] == [
        f"blowfish-2026010{day}T000000Z.backup" for day in (1, 2, 3)
    ]
    assert len(list(kept.iterdir())) == 3


def test_data_in_another_place_is_named(people: Run, folder: Path) -> None:
    config = folder / "blowfish.toml"
    people("backup", "good.backup")
    text = config.read_text()
    (folder / "moved.csv").write_text((folder / "people.csv").read_text())
    source = next(line for line in text.splitlines() if line.startswith("source"))
    config.write_text(text.replace(source, 'source = "moved.csv"'))
    ended = people("restore", "good.backup", "--replace")
    assert ended.code == 0, ended.err
    assert "no account of people" in " ".join(ended.out.split())


def test_a_drill_shows_a_backup_and_releases_nothing(people: Run, folder: Path) -> None:
    release(people)
    people("backup", "monday.backup")
    release(people, "0.20")
    drill = folder / "drill"
    drill.mkdir()
    (drill / "blowfish.toml").write_text('ledger = "sqlite:///drill.ledger"\nmark = "drill.mark"\n')
    place = ("--config", str(drill / "blowfish.toml"))
    assert people("restore", "monday.backup", "--drill", "--accept", "both", *place).code == 3
    ended = people("restore", "monday.backup", "--drill", *place)
    words = " ".join(ended.out.split())
    assert "This copy is a drill" in words and "Not known: what was spent after entry 4" in words
    assert people("ledger", "verify", *place).code == 0
    asked = ("release", "people", "--count", "--where", "age > 30", "--epsilon", "0.2", "--analyst", "ana", *place)
    refused = people(*asked, "--json")
    assert refused.error["code"] == "drill-copy" and people("dataset", "show", "people", *place).code == 0
    assert people("restore", "monday.backup", "--drill").code != 0
    assert people("ledger", "accept", "--reason", "the old machine burnt down", *place).code == 0
    assert people(*asked).code == 0
    assert people("dataset", "record", "people", str(drill / "record.html"), *place).code == 0
    assert "nobody knew what had been spent after entry 4" in (drill / "record.html").read_text()
