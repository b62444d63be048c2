"""The budget ledger: exact, hash-chained, charged before data is read; in SQLite or PostgreSQL."""

from __future__ import annotations

from blowfishdb.ledger.ledger import Ledger, accept_restored_ledger, default_mark, open_ledger
from blowfishdb.ledger.values import (
    Account,
    AnalystBudget,
    Charge,
    Entry,
    Fault,
    Head,
    Receipt,
    Replay,
    Terms,
    Verification,
    VersionChange,
    account_id,
)

__all__ = [
    "Account",
    "AnalystBudget",
    "Charge",
    "Entry",
    "Fault",
    "Head",
    "Ledger",
    "Receipt",
    "Replay",
    "Terms",
    "Verification",
    "VersionChange",
    "accept_restored_ledger",
    "account_id",
    "default_mark",
    "open_ledger",
]
