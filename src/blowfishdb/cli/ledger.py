"""blowfish ledger: show, verify, export, accept, checkpoint; blowfish backup and restore, of users too."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, CuratorOption, OptionalName, existing, login
from blowfishdb.cli.output import budget_line, console, print_json, print_result, say, table
from blowfishdb.errors import BackupRefused, BlowfishError, CatalogError, LedgerCorrupt, UnknownAccount, amount, plural

if TYPE_CHECKING:
    from blowfishdb.catalog import Curator
    from blowfishdb.catalog.config import Config as Configuration
    from blowfishdb.ledger.backup import Restored
    from blowfishdb.ledger.values import Entry, Seen, Spending, Verification
    from blowfishdb.server.auth.database import Database

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
SHOWN_HASH = 8


@app.command()
def show(
    name: OptionalName = None,
    last: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Print this many of the newest entries.")] = 20,
    config: Config = USUAL_CONFIG,
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
def verify(config: Config = USUAL_CONFIG, as_json: AsJson = False) -> None:
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
    config: Config = USUAL_CONFIG,
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
    message = f"Accepted, on record as entry {head.sequence}. What was spent elsewhere is not counted here."
    print_result({"entries": head.sequence, "head": head.hash}, message, as_json=as_json)


@app.command()
def checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; keep a copy on another machine.")],
    key: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The secret key that signs; made where there is none."),
    ],
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Signs how far the ledger has got. A start with this checkpoint refuses a ledger that was taken back behind it.

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
        spending = curator.ledger.seen().spending
    content, public_key = sign_checkpoint(head, datetime.now(UTC).isoformat(timespec="seconds"), key, spending)
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
    config: Config = USUAL_CONFIG,
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


MANIFEST, CONFIG, LEDGER, USERS = "manifest.json", "blowfish.toml", "ledger.sqlite", "users.sqlite"
FORMAT = 1
ENDING = ".backup"
CREDENTIALS = re.compile(r"//[^/]*@")
ELSEWHERE = (
    "The configuration of the backup names this place. To restore elsewhere, write a configuration here first that "
    "names another ledger and other users."
)


def backup(
    place: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; in a folder, the file is named by the time.")
    ],
    keep: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Keep this many of the newest backups in the folder."),
    ] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Writes ledger, users and configuration to one file. The server may run meanwhile; the file is checked.

    \b
    Examples
      blowfish backup monday.backup
      blowfish backup /var/backups/blowfish --keep 30
    """
    if keep is not None and not place.is_dir():
        raise CatalogError("--keep is for a folder of backups")
    at = datetime.now(UTC)
    file = place / f"blowfish-{at:%Y%m%dT%H%M%SZ}{ENDING}" if place.is_dir() else place
    manifest = write_backup(config, file, at.isoformat(timespec="seconds"))
    removed = _remove_old(place, keep) if keep is not None else []
    entries = plural(manifest["sequence"], "entry", "entries")
    lines = [f"{file} has {_what(manifest)}; the ledger ends at {entries}, and all of it was checked."]
    lines.append("The data itself, the mark and secrets of the environment are not in it. Keep it on another machine.")
    if removed:
        lines.append(f"Removed {plural(len(removed), 'older backup')}.")
    print_result({"file": str(file), **manifest, "removed": removed}, *lines, as_json=as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `blowfish backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a ledger and users that are here, and keep a copy of them.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A signed checkpoint: what was spent up to it is counted.")
    ] = None,
    checkpoint_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="The public key of the checkpoint. [the configuration's]")
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Restore even though later spending may be unknown here; give the reason, for the record.",
        ),
    ] = None,
    by: CuratorOption = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Puts a backup in place. What was spent after it was made, as far as the mark knows, is counted as spent.

    \b
    Examples
      blowfish restore monday.backup
      blowfish restore monday.backup --checkpoint visits.checkpoint
    """
    with opened_backup(file) as (folder, manifest):
        restored, beside, datasets = _restore(
            folder, config, manifest["at"], replace=replace, key=checkpoint_key, signed=checkpoint, accept=accept, by=by
        )
    counted = {account: str(spent.amount) for account, spent in restored.counted.items()}
    lines = [
        f"Restored the backup of {manifest['at']}: {_what(manifest)}. On record as entry {restored.head.sequence}."
    ]
    if counted:
        lines.append(f"Later spending is counted, on record in that entry: {_counted_words(config, restored.counted)}.")
    if restored.aside is not None:
        lines.append(f"The ledger that was here is kept as {restored.aside.name}.")
    if beside is not None:
        lines.append(f"The configuration here was left as it is; that of the backup is {beside.name}.")
    if datasets:
        lines.append(f"{config.name} declared no dataset; those of the backup were added: {', '.join(datasets)}.")
    lines += [
        f"Note: the ledger has no account of {name} at its address here. Put the data where it was (the same path "
        "or host): under another address nothing counts as spent."
        for name, account in _accounts(config).items()
        if account is None
    ]
    lines.append("People shut out and tokens revoked since are back: look at `blowfish user list`. Restart the server.")
    result = {"entries": restored.head.sequence, "head": restored.head.hash, "counted": counted}
    aside = None if restored.aside is None else str(restored.aside)
    print_result({**result, "replaced": aside, "at": manifest["at"]}, *lines, as_json=as_json)


def write_backup(config: Path, file: Path, at: str) -> dict[str, Any]:
    """What the backup's manifest says, once the file is whole and was read back."""
    from blowfishdb.catalog.catalog import ledger_of
    from blowfishdb.catalog.config import read_config
    from blowfishdb.ledger.backup import back_up_ledger

    part = file.with_name(f"{file.name}.part")
    with _folder_beside(file) as folder:
        settings = read_config(config)
        (folder / CONFIG).write_text(settings.text, encoding="utf-8")
        with closing(ledger_of(settings)) as ledger:
            seen = back_up_ledger(ledger, folder / LEDGER)
        with closing(_users(settings)) as users, closing(_users_file(folder / USERS)) as copy:
            users.copy(copy)
        files = {name: _digest(folder / name) for name in (CONFIG, LEDGER, USERS) if (folder / name).exists()}
        manifest = {"format": FORMAT, "at": at, **vars(seen.head), "files": files}
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as target:
                with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                    archive.writestr(MANIFEST, json.dumps(manifest, indent=2))
                    for name in files:
                        archive.write(folder / name, name)
                os.fsync(target.fileno())
            with opened_backup(part):
                os.replace(part, file)
        except OSError as problem:
            raise CatalogError(f"the backup {file.name} cannot be written: {problem.strerror}") from None
        finally:
            part.unlink(missing_ok=True)
    return manifest


@contextmanager
def opened_backup(file: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A backup's files in a folder and its manifest; CatalogError when anything differs from what was written."""
    from blowfishdb.ledger.backup import check_copy

    with _folder_beside(file) as folder:
        try:
            with zipfile.ZipFile(file) as archive:
                manifest = json.loads(archive.read(MANIFEST))
                if manifest["format"] != FORMAT:
                    raise CatalogError(
                        f"the backup {file.name} has format {manifest['format']}: use a newer BlowfishDB"
                    )
                for name in {CONFIG, LEDGER, USERS} & set(manifest["files"]):
                    archive.extract(name, folder)
            is_whole = all(_digest(folder / name) == digest for name, digest in manifest["files"].items())
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error):
            is_whole = False
        if not is_whole:
            raise CatalogError(f"the backup {file.name} is damaged or is not a backup: take another one")
        head = check_copy(folder / LEDGER).head
        if vars(head) != {name: manifest[name] for name in vars(head)}:
            raise CatalogError(f"the ledger in the backup {file.name} is not the one that its manifest describes")
        yield folder, manifest


def _restore(
    folder: Path,
    config: Path,
    at: str,
    *,
    replace: bool,
    key: str | None,
    signed: Path | None,
    accept: str | None,
    by: str | None,
) -> tuple[Restored, Path | None, list[str]]:
    """What the ledger counts now, where the backup's configuration is if there is another one in its place, and which
    of its datasets were added to that one, because it had none."""
    from blowfishdb.catalog.config import read_config, write_dataset
    from blowfishdb.ledger.backup import restore_ledger

    config = config.absolute()
    beside = config.with_name(f"{config.name}{ENDING}")
    config.parent.mkdir(parents=True, exist_ok=True)
    beside.write_bytes((folder / CONFIG).read_bytes())
    is_new = not config.exists()
    settings = read_config(beside if is_new else config)
    people = _users(settings) if (folder / USERS).exists() else None
    if people is not None:
        with closing(people), people.read() as cursor:
            if cursor.rows("SELECT name FROM users LIMIT 1") and not replace:
                where = CREDENTIALS.sub("//", _users_address(settings))
                way = f"--replace. {ELSEWHERE}" if is_new else "--replace"
                raise BackupRefused(f"there are users in this place ({where}). To replace them, and keep a copy: {way}")
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    restored = restore_ledger(
        folder / LEDGER,
        settings.ledger_url(),
        mark=settings.mark_place(),
        by=by or login(),
        reason=accept or f"restored the backup of {at}",
        checkpoint=_checkpoint(settings, signed, key),
        accept=accept is not None,
        aside=config.with_name(f"ledger-replaced-{stamp}.sqlite") if replace else None,
    )
    if people is not None:
        with closing(people), closing(_users_file(folder / USERS)) as copy:
            if replace:
                with closing(_users_file(config.with_name(f"users-replaced-{stamp}.sqlite"))) as aside:
                    people.copy(aside)
            copy.copy(people)
    if is_new:
        os.replace(beside, config)
        return restored, None, []
    if config.read_bytes() == beside.read_bytes():
        beside.unlink()
        return restored, None, []
    added = {} if settings.datasets else read_config(beside).datasets
    for dataset in added.values():
        write_dataset(config, dataset)
    return restored, beside, list(added)


def _counted_words(config: Path, counted: Spending) -> str:
    """What accounts have spent that count more than the backup did; those of no dataset here by their ids."""
    names = {account: name for name, account in _accounts(config).items()}
    return ", ".join(
        f"{names.get(one, one)} has spent epsilon {amount(spent.amount)}" for one, spent in counted.items()
    )


def _accounts(config: Path) -> dict[str, str | None]:
    """The account of each dataset; None where its data is at an address that the ledger does not know."""
    accounts: dict[str, str | None] = {}
    with suppress(BlowfishError), existing(config) as curator:
        for name in curator.datasets():
            try:
                accounts[name] = curator.account(name).id
            except UnknownAccount:
                accounts[name] = None
    return accounts


def _checkpoint(settings: Configuration, file: Path | None, key: str | None) -> Seen | None:
    from blowfishdb.ledger.mark import read_checkpoint_file

    if file is None:
        return None
    key = key or settings.checkpoint_key
    if key is None:
        raise CatalogError("a checkpoint is proven by its public key: give it with --checkpoint-key")
    return read_checkpoint_file(file, key)


def _users(settings: Configuration) -> Database:
    """The database of users."""
    from blowfishdb.catalog.config import filled_in, located
    from blowfishdb.server.auth.database import open_database

    return open_database(located(filled_in(_users_address(settings)), settings.path.parent))


def _users_address(settings: Configuration) -> str:
    """The address of the users as the configuration writes it, without secrets of the environment."""
    from blowfishdb.catalog.config import USUAL_USERS

    return str(settings.server.get("users", USUAL_USERS))


def _users_file(path: Path) -> Database:
    from blowfishdb.server.auth.database import open_database

    return open_database(f"sqlite:///{path}")


@contextmanager
def _folder_beside(file: Path) -> Iterator[Path]:
    """A folder for nobody else's eyes, on the same disk, that is gone afterwards."""
    try:
        with tempfile.TemporaryDirectory(prefix=".blowfish-", dir=file.absolute().parent) as folder:
            yield Path(folder)
    except OSError as problem:
        raise CatalogError(f"the folder of {file.name} cannot be written: {problem.strerror}") from None


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _remove_old(folder: Path, keep: int) -> list[str]:
    """Names of the older backups in the folder, which are gone now."""
    names = sorted(
        file.name for file in folder.iterdir() if re.fullmatch(rf"blowfish-\d{{8}}T\d{{6}}Z\{ENDING}", file.name)
    )
    for name in names[:-keep]:
        (folder / name).unlink()
    return names[:-keep]


def _what(manifest: dict[str, Any]) -> str:
    return "ledger, users and configuration" if USERS in manifest["files"] else "ledger and configuration"
