"""blowfish ledger: show, verify, export, accept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, Curator, OptionalName, login

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def show(
    name: OptionalName = None,
    last: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Print so many of the newest entries.")] = 20,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shows who asked, what it cost, what changed, and what is left.

    \b
    Examples
      blowfish ledger show
      blowfish ledger show visits --last 100
    """
    from blowfishdb.cli.entries import entry_content, show_entries
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import print_json

    with existing(config) as curator:
        names = [name] if name is not None else curator.datasets()
        accounts = {one: curator.account(one) for one in names}
        entries = list(curator.entries(name))[-last:]
    if as_json:
        print_json([entry_content(entry) for entry in entries])
    else:
        show_entries(entries, accounts)


@app.command()
def verify(config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
    """Recomputes every hash and every balance from the entries. Exit code 5 when something is wrong.

    \b
    Example
      blowfish ledger verify
    """
    from blowfishdb.cli.entries import verified
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import console, print_json

    with existing(config) as curator:
        found = verified(curator, quiet=as_json)
    fault = found.fault
    if as_json:
        shown = None if fault is None else {"sequence": fault.sequence, "reason": fault.reason}
        print_json({"sound": found.is_sound, "entries": found.entries, "head": found.head, "fault": shown})
    elif fault is None:
        console().print(f"Sound: {found.entries:,} entries, every hash and every balance as recomputed.")
        console().print(f"Head {found.head}", style="dim")
    else:
        place = "" if fault.sequence is None else f" at entry {fault.sequence}"
        console(error=True).print(f"Not sound{place}: {fault.reason}", style="red", markup=False)
    if fault is not None:
        raise typer.Exit(5)


@app.command()
def accept(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why this copy is the right one, for the record.")],
    by: Curator = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Accepts a ledger that was restored from a backup, or moved here. Charges that the copy lacks are forgotten.

    \b
    Example
      blowfish ledger accept --reason "moved to the new server, entry 812 checked"
    """
    from blowfishdb.catalog import read_config
    from blowfishdb.cli.output import console, print_json
    from blowfishdb.ledger.opening import accept_restored_ledger

    found = read_config(config)
    head = accept_restored_ledger(found.ledger_url(), mark=found.mark_path(), by=by or login(), reason=reason)
    if as_json:
        print_json({"entries": head.sequence, "head": head.hash})
    else:
        console().print(f"Accepted, on record as entry {head.sequence}.")


@app.command()
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to; without it, the entries are printed.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only the entries of this dataset.")] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Writes every entry with its hashes. One JSON object per line, for auditors; answers are not included.

    \b
    Examples
      blowfish ledger export books.jsonl
      blowfish ledger export --dataset visits | head
    """
    from blowfishdb.cli.entries import write_entries
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.output import console, print_json

    with existing(config) as curator:
        count = write_entries(curator.entries(dataset), file)
    if file is not None and as_json:
        print_json({"file": str(file), "entries": count})
    elif file is not None:
        console().print(f"{count:,} entries written to {file}", markup=False)
