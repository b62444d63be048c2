"""blowfish ledger: show, verify, accept, checkpoint and export."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption, CuratorOption, OptionalName, existing, login
from blowfishdb.cli.output import budget_line, console, print_json, print_result, say, table
from blowfishdb.errors import CatalogError, LedgerCorrupt, plural

if TYPE_CHECKING:
    from blowfishdb.catalog import Curator
    from blowfishdb.ledger.values import Entry, Verification

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
SHOWN_HASH = 8


@app.command()
def show(
    name: OptionalName = None,
    last: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Print this many of the newest entries.")] = 20,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shows who asked, what it cost, what changed, and what is left.

    \b
    Examples
      blowfish ledger show
      blowfish ledger show visits --last 100
    """
    with existing(config) as curator:
        names = [name] if name is not None else curator.datasets()
        accounts = {one: curator.account(one) for one in names}
        entries = list(islice(curator.entries(name, newest_first=True), last))[::-1]
    datasets = {account.id: one for one, account in accounts.items()}
    columns = ("no.", "when (UTC)", "what", "dataset", "who", "epsilon", "hash")
    rows = [_row(entry, datasets) for entry in entries]
    print_result(
        [entry_content(entry) for entry in entries],
        table("", columns, rows, right=("no.", "epsilon"), folds=("what",)),
        *(f"{one}: epsilon {budget_line(account.spent, account.limit)}" for one, account in accounts.items()),
        as_json=as_json,
    )


@app.command()
def verify(config: ConfigOption = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Recomputes every hash and every balance from the entries. Exit code 5 when something is wrong.

    \b
    Example
      blowfish ledger verify
    """
    with existing(config) as curator:
        outcome = verified(curator, quiet=as_json)
    fault = outcome.fault
    if as_json:
        shown = None if fault is None else {"sequence": fault.sequence, "reason": fault.reason}
        print_json({"sound": outcome.is_sound, "entries": outcome.entries, "head": outcome.head, "fault": shown})
    elif fault is None:
        say(f"Sound: {plural(outcome.entries, 'entry', 'entries')}, every hash and every balance as recomputed.")
        say(f"Head {outcome.head}", style="dim")
    else:
        place = "" if fault.sequence is None else f" at entry {fault.sequence}"
        say(f"Not sound{place}: {fault.reason}", style="red", error=True)
    if fault is not None:
        raise typer.Exit(5)


@app.command()
def accept(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why this copy is the right one, for the record.")],
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Accepts a ledger that was restored, moved here or begun anew. Charges that it lacks are forgotten.

    \b
    Examples
      blowfish ledger accept --reason "moved to the new server, entry 812 checked"
      blowfish ledger accept --reason "the trial of May is over, its data is deleted"
    """
    from blowfishdb.catalog import read_config
    from blowfishdb.ledger.ledger import accept_restored_ledger

    settings = read_config(config)
    head = accept_restored_ledger(settings.ledger_url(), mark=settings.mark_place(), by=by or login(), reason=reason)
    message = (
        f"Accepted, on record as entry {head.sequence}. What its mark knew is counted; what else was spent is not."
    )
    print_result({"entries": head.sequence, "head": head.hash}, message, as_json=as_json)


@app.command()
def checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; keep a copy on another machine.")],
    key: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The secret key that signs; made where there is none."),
    ],
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Signs how far the ledger has got. A start with this checkpoint refuses a ledger rolled back to before it.

    \b
    Example
      blowfish ledger checkpoint visits.checkpoint --key blowfish.key
    """
    from blowfishdb.ledger.mark import sign_checkpoint
    from blowfishdb.ledger.values import Head

    with existing(config) as curator:
        outcome = verified(curator, quiet=as_json)
        if outcome.fault is not None:
            raise LedgerCorrupt(outcome.fault.reason, sequence=outcome.fault.sequence)
        head = Head(curator.ledger.id, outcome.entries, outcome.head)
        seen = curator.ledger.seen()
    content, public_key = sign_checkpoint(
        head, datetime.now(UTC).isoformat(timespec="seconds"), key, seen.spending, seen.eras
    )
    _replace(file, lambda lines: lines.write(content))
    print_result(
        {"file": str(file), "sequence": head.sequence, "hash": head.hash, "checkpoint_key": public_key},
        f"Entry {head.sequence:,} is signed in {file}. The ledger was checked whole before.",
        "To have it checked at every start, the configuration says",
        f'  checkpoint = "{file}"\n  checkpoint_key = "{public_key}"',
        as_json=as_json,
    )


@app.command()
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to; without it, the entries are printed.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only the entries of this dataset.")] = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Writes every entry with its hashes. One JSON object per line, for auditors; answers are not included.

    \b
    Examples
      blowfish ledger export ledger.jsonl
      blowfish ledger export --dataset visits | head
    """
    with existing(config) as curator:
        count = write_entries(curator.entries(dataset), file)
    if file is not None:
        message = f"{plural(count, 'entry', 'entries')} written to {file}"
        print_result({"file": str(file), "entries": count}, message, as_json=as_json)


def entry_content(entry: Entry) -> dict[str, object]:
    """An entry as JSON."""
    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "account": entry.account,
        "fields": dict(entry.fields),
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
    }


def _row(entry: Entry, datasets: Mapping[str, str]) -> tuple[str, ...]:
    from blowfishdb.present.words import minute_words

    fields = entry.fields
    amount = fields.get("epsilon")
    return (
        str(entry.sequence),
        minute_words(str(fields.get("at", ""))),
        entry.words,
        datasets.get(entry.account or "", ""),
        entry.who,
        "" if amount is None else _amount(amount),
        entry.hash[:SHOWN_HASH],
    )


def _amount(text: object) -> str:
    try:
        return f"{float(Fraction(str(text))):.4g}"
    except (ValueError, ZeroDivisionError):
        return str(text)


def verified(curator: Curator, *, quiet: bool) -> Verification:
    """The check of the whole ledger, with a progress bar in a terminal."""
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
    return _replace(file, lambda lines: _write(entries, lines))


def _replace(file: Path, write: Callable[[TextIO], int]) -> int:
    """What `write` returns, once the file holds all that it wrote."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8") as lines:
            count = write(lines)
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
