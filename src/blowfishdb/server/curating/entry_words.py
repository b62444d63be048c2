"""An entry of the ledger in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blowfishdb.ledger import Entry

KINDS = {
    "account": "opened the account",
    "name": "gave the data a name",
    "renewal": "raised what the data may lose",
    "analyst-limit": "limited analysts",
    "version": "put a new version in force",
    "snapshot": "noted refreshed rows",
    "answer": "stored the answer",
    "accounting": "changed how loss is counted",
    "restored": "accepted a restored ledger",
}
LONGEST = 160


def entry_words(entry: Entry) -> str:
    """What happened: the question of a charge, or the change and its reason."""
    fields = entry.fields
    if entry.kind == "charge":
        return _question(fields)[:LONGEST]
    said = [KINDS.get(entry.kind, entry.kind)]
    if fields.get("limit") is not None:
        said.append(f"limit {fields['limit']}")
    if fields.get("by") and fields.get("analyst"):
        said.append(f"for {fields['analyst']}")
    said += [str(fields[key]) for key in ("reason", "description") if fields.get(key)]
    return ", ".join(said)[:LONGEST]


def _question(fields: Mapping[str, object]) -> str:
    try:
        document = json.loads(str(fields.get("certificate", "{}")))
    except ValueError:
        document = {}
    title = document.get("question") if isinstance(document, dict) else None
    return str(title) if title else "asked a question"
