"""The hash chain: canonical bodies, and how each entry's hash covers its body and the whole past."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

Field = str | int | None


def canonical(fields: Mapping[str, Field]) -> str:
    """One way only to write an entry's fields: sorted keys, no spaces, ASCII."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(text: str | bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def link(previous_hash: str, sequence: int, body: str) -> str:
    """The hash of entry number `sequence`. The PostgreSQL store computes the same inside the server."""
    return digest(f"{previous_hash}:{sequence}:{digest(body)}")


def genesis(ledger: str) -> str:
    """The hash that the first entry of a ledger builds on."""
    return digest(f"blowfishdb ledger {ledger}")
