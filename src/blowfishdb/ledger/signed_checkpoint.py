"""Signed checkpoints: how far a ledger had got, to be kept elsewhere and held against it at its next start."""

from __future__ import annotations

import json
import os
from pathlib import Path

from blowfishdb.errors import CatalogError
from blowfishdb.ledger.ledger import Ledger
from blowfishdb.ledger.mark import check_not_rolled_back
from blowfishdb.ledger.records import Field, canonical
from blowfishdb.ledger.values import Head

PURPOSE = b"blowfishdb checkpoint 1\n"
"""Goes before what is signed, so that the signature serves for nothing else."""
WHAT = "an Ed25519 key, made by `blowfish ledger checkpoint`"


def sign_checkpoint(head: Head, at: str, key: Path) -> tuple[str, str]:
    """A checkpoint of this head as JSON, and the public key that proves it; a missing secret key is made."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not key.exists():
        _write_new_key(key)
    try:
        secret = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        raise CatalogError(f"the key {key.name} cannot be read as {WHAT}") from None
    if not isinstance(secret, Ed25519PrivateKey):
        raise CatalogError(f"the key {key.name} is not {WHAT}")
    fields: dict[str, Field] = {"ledger": head.ledger, "sequence": head.sequence, "hash": head.hash, "at": at}
    signature = secret.sign(PURPOSE + canonical(fields).encode()).hex()
    text = json.dumps({**fields, "signature": signature}, indent=2) + "\n"
    return text, secret.public_key().public_bytes_raw().hex()


def read_checkpoint_file(path: Path, public_key: str) -> Head:
    """The head that a checkpoint file tells of; CatalogError unless the key signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        fields = json.loads(path.read_text(encoding="ascii"))
        signature = bytes.fromhex(fields.pop("signature"))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(signature, PURPOSE + canonical(fields).encode())
        return Head(str(fields["ledger"]), int(fields["sequence"]), str(fields["hash"]))
    except OSError:
        raise CatalogError(
            f"the checkpoint {path.name} cannot be read. Bring it back from where it is kept, or write a new one with "
            "blowfish ledger checkpoint once the ledger was checked."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature):
        raise CatalogError(
            f"the checkpoint {path.name} is not signed by checkpoint_key: it was changed, or made with another key"
        ) from None


def check_contains(ledger: Ledger, checkpoint: Head) -> None:
    """LedgerRolledBack unless the ledger has the entry that the checkpoint tells of."""
    with ledger.store.read() as cursor:
        check_not_rolled_back(checkpoint, cursor.head(), cursor.hash_at)


def _write_new_key(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise CatalogError(f"the key {path.name} cannot be written: {problem.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
