"""Signed checkpoints: a ledger taken back together with its mark is refused, and nobody else signs one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from blowfishdb.errors import CatalogError, LedgerRolledBack
from blowfishdb.ledger import open_ledger
from blowfishdb.ledger.mark import read_checkpoint_file, sign_checkpoint
from tests.ledger.support import charge_of, opened

AT = "2026-11-16T00:00:00+00:00"


def test_what_the_mark_cannot_notice_the_checkpoint_does(tmp_path: Path) -> None:
    live, old, file = tmp_path / "live", tmp_path / "old", tmp_path / "checkpoint"
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        account = opened(ledger, 1)
    shutil.copytree(live, old)
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        ledger.charge(charge_of(account, 1, "a"))
        text, public_key = sign_checkpoint(ledger.head(), AT, tmp_path / "key")
        file.write_text(text)
        ledger.check_contains(read_checkpoint_file(file, public_key))
    shutil.rmtree(live)
    shutil.copytree(old, live)
    # Ledger and mark agree, so the ledger opens; all that it forgot could be spent again.
    with open_ledger(live / "ledger.db", mark=live / "mark") as ledger:
        with pytest.raises(LedgerRolledBack, match="ends at entry 2, but entry 3 had been written"):
            ledger.check_contains(read_checkpoint_file(file, public_key))
        ledger.charge(charge_of(account, "1/2", "b"))
        with pytest.raises(LedgerRolledBack, match="entry 3 of this ledger is not the one"):
            ledger.check_contains(read_checkpoint_file(file, public_key))


def test_a_checkpoint_that_was_changed_or_signed_by_others_is_refused(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db", mark=tmp_path / "mark") as ledger:
        opened(ledger, 1)
        text, public_key = sign_checkpoint(ledger.head(), AT, tmp_path / "key")
        _, other_key = sign_checkpoint(ledger.head(), AT, tmp_path / "other key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    file = tmp_path / "checkpoint"
    file.write_text(text)
    assert read_checkpoint_file(file, public_key).sequence == 2
    fields = json.loads(text)
    forgeries = [
        (text, other_key),
        (text, "not a key"),
        (json.dumps({**fields, "sequence": 1}), public_key),
        (json.dumps({**fields, "more": 1}), public_key),
        (json.dumps({name: value for name, value in fields.items() if name != "signature"}), public_key),
        ("[]", public_key),
        ("no checkpoint", public_key),
    ]
    for content, key in forgeries:
        file.write_text(content)
        with pytest.raises(CatalogError, match="not signed by checkpoint_key"):
            read_checkpoint_file(file, key)
    file.unlink()
    with pytest.raises(CatalogError, match="cannot be read"):
        read_checkpoint_file(file, public_key)


def test_a_key_that_is_none_is_not_used_or_overwritten(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("my diary")
    with open_ledger(tmp_path / "ledger.db", mark=tmp_path / "mark") as ledger:
        head = ledger.head()
    with pytest.raises(CatalogError, match="cannot be read as an Ed25519 key"):
        sign_checkpoint(head, AT, key)
    assert key.read_text() == "my diary"
    key.write_bytes(X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CatalogError, match="is not an Ed25519 key"):
        sign_checkpoint(head, AT, key)
    with pytest.raises(CatalogError, match="cannot be written"):
        sign_checkpoint(head, AT, tmp_path / "nowhere" / "key")
