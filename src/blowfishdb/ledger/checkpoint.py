"""The books at one entry, kept outside the ledger: where the next check begins, and what balances are held against."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.chain import digest
from blowfishdb.ledger.edge_books import read_books
from blowfishdb.ledger.replaying import AccountBooks, Books
from blowfishdb.ledger.values import Head


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the entries up to `head` add up to."""

    head: Head
    books: Books


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a file; None when there is none that can be read, and then everything is checked."""
    try:
        content = json.loads(path.read_text(encoding="ascii"))
        written = content["checkpoint"]
        if content["check"] != digest(written):
            return None
        return _checkpoint(json.loads(written))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, BlowfishError):
        return None


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Keeps a checkpoint. One that cannot be written is no loss: the next check then begins earlier."""
    head, books = checkpoint.head, checkpoint.books
    content = {
        "ledger": head.ledger,
        "sequence": head.sequence,
        "hash": head.hash,
        "answers": books.answers,
        "accounts": {name: _written(own) for name, own in books.accounts.items()},
    }
    written = json.dumps(content)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            # Like the ledger, it tells who spent what: nobody else on this machine reads it.
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600))
            beside.write_text(json.dumps({"checkpoint": written, "check": digest(written)}), encoding="ascii")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _checkpoint(content: Mapping[str, Any]) -> Checkpoint:
    accounts = {str(name): _account(own) for name, own in content["accounts"].items()}
    head = Head(str(content["ledger"]), int(content["sequence"]), str(content["hash"]))
    return Checkpoint(head, Books(accounts, int(content["answers"])))


def _written(own: AccountBooks) -> dict[str, object]:
    return {
        "identity": own.identity,
        "limit": str(own.limit),
        "analyst_limit": None if own.analyst_limit is None else str(own.analyst_limit),
        "documents": [[kind, number, found] for (kind, number), found in own.documents.items()],
        "accounting": own.accounting,
        "edge_books": own.edge_books.to_json(),
        "edge_books_of": {name: books.to_json() for name, books in own.edge_books_of.items()},
        "spent": str(own.spent),
        "charges": own.charges,
        "snapshot": own.snapshot,
        "versions": own.versions,
        "names": sorted(own.names),
        "spent_by": _amounts_as_text(own.spent_by),
        "individual": _amounts_as_text(own.individual),
    }


def _account(own: Mapping[str, Any]) -> AccountBooks:
    return AccountBooks(
        identity=str(own["identity"]),
        limit=Fraction(own["limit"]),
        analyst_limit=None if own["analyst_limit"] is None else Fraction(own["analyst_limit"]),
        documents={(str(kind), int(number)): str(found) for kind, number, found in own["documents"]},
        accounting=str(own["accounting"]),
        edge_books=read_books(own["edge_books"]),
        edge_books_of={str(name): read_books(books) for name, books in own["edge_books_of"].items()},
        spent=Fraction(own["spent"]),
        charges=int(own["charges"]),
        snapshot=int(own["snapshot"]),
        versions={str(kind): int(number) for kind, number in own["versions"].items()},
        names={str(name) for name in own["names"]},
        spent_by=_amounts(own["spent_by"]),
        individual=_amounts(own["individual"]),
    )


def _amounts_as_text(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _amounts(written: Mapping[str, str]) -> dict[str, Fraction]:
    return {str(name): Fraction(amount) for name, amount in written.items()}
