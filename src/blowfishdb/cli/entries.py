"""Entries of the ledger on the screen and in files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TextIO

from blowfishdb.catalog import Curator
from blowfishdb.cli.output import budget_line, console, table
from blowfishdb.errors import CatalogError
from blowfishdb.ledger.values import Account, Entry, Verification

SHOWN_HASH = 8


def entry_content(entry: Entry) -> dict[str, object]:
    """An entry, for programs."""
    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "account": entry.account,
        "fields": dict(entry.fields),
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
    }


def show_entries(entries: Sequence[Entry], accounts: Mapping[str, Account]) -> None:
    """Prints the entries and what is left of each budget."""
    names = {account.id: name for name, account in accounts.items()}
    rows = [_row(entry, names) for entry in entries]
    screen = console()
    columns = ("no.", "when (UTC)", "what", "dataset", "who", "epsilon", "hash")
    screen.print(table("", columns, rows, right=("no.", "epsilon"), folds=("what",)))
    for name, account in accounts.items():
        screen.print(f"{name}: epsilon {budget_line(account.spent, account.limit)}", markup=False)


def _row(entry: Entry, names: Mapping[str, str]) -> tuple[str, ...]:
    fields = entry.fields
    amount = fields.get("epsilon")
    return (
        str(entry.sequence),
        str(fields.get("at", ""))[:16].replace("T", " "),
        ", ".join([entry.kind, *_details(fields)]),
        names.get(entry.account or "", ""),
        str(fields.get("by") or fields.get("analyst") or ""),
        "" if amount is None else _amount(amount),
        entry.hash[:SHOWN_HASH],
    )


def _details(fields: Mapping[str, object]) -> list[str]:
    """What is worth a word about an entry that is no charge."""
    said = [f"limit {_amount(fields['limit'])}"] if fields.get("limit") is not None else []
    if fields.get("by") and fields.get("analyst"):
        said.append(f"for {fields['analyst']}")
    return said + [str(fields[key]) for key in ("reason", "description") if fields.get(key)]


def _amount(written: object) -> str:
    try:
        return f"{float(Fraction(str(written))):.4g}"
    except (ValueError, ZeroDivisionError):
        return str(written)


def verified(curator: Curator, *, quiet: bool) -> Verification:
    """The check of the whole ledger, with a bar where somebody watches."""
    if quiet or not sys.stderr.isatty():
        return curator.verify()
    from rich.progress import Progress

    with Progress(console=console(error=True), transient=True) as bar:
        task = bar.add_task("checking entries", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return curator.verify(report)


def write_entries(entries: Iterable[Entry], file: Path | None) -> int:
    """Writes the entries as JSON lines, to the file or to the screen, and counts them."""
    if file is None:
        return _write(entries, sys.stdout)
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8") as lines:
            count = _write(entries, lines)
        os.replace(part, file)
    except OSError:
        part.unlink(missing_ok=True)
        raise CatalogError(f"the file {file.name} cannot be written") from None
    return count


def _write(entries: Iterable[Entry], lines: TextIO) -> int:
    count = 0
    for entry in entries:
        lines.write(json.dumps(entry_content(entry), ensure_ascii=False) + "\n")
        count += 1
    return count
