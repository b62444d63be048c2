"""The stand-alone script for outsiders: it believes what was signed, and notices every kind of change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from blowfishdb.cli.ledger import write_entries
from blowfishdb.ledger import open_ledger
from blowfishdb.ledger.mark import sign_checkpoint
from blowfishdb.ledger.records import genesis
from blowfishdb.ledger.store import open_sqlite
from tests.ledger.support import ROOT, charge_of, opened
from tools.verify_checkpoint import Wrong, check, is_signed, main

Entries = list[dict[str, Any]]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An exported ledger, its checkpoint at entry 4 of 5, and the public key."""
    folder = tmp_path_factory.mktemp("outsider")
    with open_ledger(folder / "ledger", mark=folder / "mark") as ledger:
        account = opened(ledger, 1)
        for key, epsilon in (("ä", "1/10"), ("b", "1/5"), ("c", "1/4")):
            if key == "c":
                text, public = sign_checkpoint(ledger.head(), "2026-01-01", folder / "key", ledger.seen().spending)
                (folder / "checkpoint").write_text(text)
            ledger.charge(charge_of(account, epsilon, key))
        write_entries(ledger.entries(), folder / "ledger.jsonl")
    return folder, public


def test_what_was_signed_is_believed_by_the_script_alone(export: tuple[Path, str], tmp_path: Path) -> None:
    folder, public = export
    script = tmp_path / "verify.py"
    script.write_bytes((ROOT / "tools" / "verify_checkpoint.py").read_bytes())
    files = [str(folder / "ledger.jsonl"), str(folder / "checkpoint")]
    ended = subprocess.run([sys.executable, "-I", str(script), *files, public], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (
        0,
        "Sound: 5 entries follow each other, and entry 4 is the one signed on 2026-01-01. Charges: 11/20\n",
    )
    assert main([]) == 2
    assert main([*files, "00" * 32]) == main([*files, "zz"]) == main(["nowhere", files[1], public]) == 1


def changed_amount(entries: Entries) -> None:
    entries[2]["fields"]["epsilon"] = "1/100"


def changed_kind(entries: Entries) -> None:
    entries[2]["kind"] = "name"


def left_out(entries: Entries) -> None:
    del entries[2]


def cut_off(entries: Entries) -> None:
    del entries[3:]


@pytest.mark.parametrize("change", [changed_amount, changed_kind, left_out, cut_off])
def test_changes_are_noticed(export: tuple[Path, str], change: Callable[[Entries], None]) -> None:
    folder, public = export
    entries = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    change(entries)
    with pytest.raises(Wrong):
        check(map(json.dumps, entries), (folder / "checkpoint").read_text(), public)


def test_a_ledger_written_anew_is_noticed(export: tuple[Path, str], tmp_path: Path) -> None:
    """All hashes fit, the account spent less: only the signature tells."""
    folder, public = export
    signed = json.loads((folder / "checkpoint").read_text())
    with closing(open_sqlite(tmp_path / "ledger")) as store, store.write() as cursor:
        cursor.rows("UPDATE head SET ledger = ?, hash = ?", signed["ledger"], genesis(signed["ledger"]))
    with open_ledger(tmp_path / "ledger", mark=tmp_path / "mark") as ledger:
        account = opened(ledger, 1)
        for key in "abc":
            ledger.charge(charge_of(account, "1/100", key))
        lines = tmp_path / "lines"
        write_entries(ledger.entries(), lines)
    with pytest.raises(Wrong, match="does not have entry 4 as it was signed"):
        check(lines.read_text().splitlines(), (folder / "checkpoint").read_text(), public)
    forged = {**signed, "hash": json.loads(lines.read_text().splitlines()[3])["hash"]}
    with pytest.raises(Wrong, match="not signed"):
        check(lines.read_text().splitlines(), json.dumps(forged), public)


def test_signatures_are_those_of_the_library() -> None:
    secret = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    key = secret.public_key().public_bytes_raw()
    for message in (b"", b"one", bytes(1000)):
        signature = secret.sign(message)
        assert is_signed(key, message, signature)
        for place in (0, 31, 32, 62):
            other = bytearray(signature)
            other[place] ^= 1
            try:
                assert not is_signed(key, message, bytes(other))
            except Wrong:
                continue
        assert not is_signed(key, message + b".", signature)
        assert not is_signed(key, message, signature[:63])
        assert not is_signed(key, message, signature[:32] + b"\xff" * 32)
