"""blowfish backup and restore: the ledger, the users and the configuration in one file."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption, CuratorOption, existing, login
from blowfishdb.cli.output import print_result
from blowfishdb.errors import BackupRefused, BlowfishError, CatalogError, LedgerError, UnknownAccount, amount, plural

if TYPE_CHECKING:
    from blowfishdb.catalog.config import Config
    from blowfishdb.ledger.backup import Restored
    from blowfishdb.ledger.values import Seen, Spending
    from blowfishdb.server.auth.database import Database


MANIFEST, CONFIG, LEDGER, USERS = "manifest.json", "blowfish.toml", "ledger.sqlite", "users.sqlite"
FORMAT = 1
ENDING = ".backup"
WORKING, RESTORING = ".blowfish-files-", ".blowfish-restore-"
"""Begin the names of folders that commands work in: with the files of a backup, and with what a restore replaces."""
REPLACED_LEDGER, REPLACED_USERS = "ledger-replaced", "users-replaced"
CREDENTIALS = re.compile(r"//[^/]*@")
ELSEWHERE = (
    "The configuration of the backup names this place. To restore elsewhere, write a configuration here first that "
    "names another ledger and other users."
)

UNKNOWN = (
    "Not known: what was spent after entry {}, the last one that the backup or a checkpoint tells of. If anything was "
    "released after it, the data has lost that much more than this ledger counts, and may lose that much more than its "
    "limit. If the mark or a newer checkpoint can be found, restore with it before anybody asks."
)


def backup(
    place: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; in a folder, the file is named by the time.")
    ],
    keep: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Keep this many of the newest backups in the folder."),
    ] = None,
    config: ConfigOption = USUAL_CONFIG,
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
    drill: Annotated[
        bool,
        typer.Option("--drill", help="Restore a copy to look at, from which nothing is released until it is accepted."),
    ] = False,
    by: CuratorOption = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Puts a backup in place. What was spent after it was made, as far as the mark knows, is counted as spent.

    \b
    Examples
      blowfish restore monday.backup
      blowfish restore monday.backup --checkpoint visits.checkpoint
      blowfish restore monday.backup --drill --config /tmp/drill/blowfish.toml
    """
    if drill and accept is not None:
        raise CatalogError("a copy is restored as a drill (--drill), or as the one that counts (--accept)")
    with opened_backup(file) as (folder, manifest):
        restored, beside, datasets = _restore(
            folder,
            config,
            manifest["at"],
            replace=replace,
            key=checkpoint_key,
            signed=checkpoint,
            accept=accept,
            drill=drill,
            by=by,
        )
    counted = {account: str(spent.amount) for account, spent in restored.counted.items()}
    lines = [
        f"Restored the backup of {manifest['at']}: {_what(manifest)}. On record as entry {restored.head.sequence}."
    ]
    if counted:
        lines.append(f"Later spending is counted, on record in that entry: {_counted_words(config, restored.counted)}.")
    if restored.known_until is not None:
        lines.append(UNKNOWN.format(restored.known_until))
    if drill:
        lines.append(
            "This copy is a drill: nothing is released from it. `blowfish ledger accept` makes it the one that counts."
        )
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
    result = {"entries": restored.head.sequence, "head": restored.head.hash, "counted": counted, "drill": drill}
    aside = None if restored.aside is None else str(restored.aside)
    print_result(
        {**result, "replaced": aside, "at": manifest["at"], "known_until": restored.known_until},
        *lines,
        as_json=as_json,
    )


def write_backup(config: Path, file: Path, at: str) -> dict[str, Any]:
    """What the backup's manifest says, once the file is whole and was read back."""
    from blowfishdb.catalog.catalog import ledger_of
    from blowfishdb.catalog.config import read_config
    from blowfishdb.ledger.backup import back_up_ledger

    with _folder_beside(file) as folder:
        part = folder / file.name
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
    drill: bool,
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
    if people is not None and not replace:
        _check_no_users(people, folder / USERS, settings, is_new=is_new)
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with _folder_beside(config, lambda left: _rescue(left, settings, people, stamp)) as work:
        restored = restore_ledger(
            folder / LEDGER,
            settings.ledger_url(),
            mark=settings.mark_place(),
            by=by or login(),
            reason=accept or f"restored the backup of {at}",
            checkpoint=_checkpoint(settings, signed, key),
            accept=accept is not None,
            drill=drill,
            aside=work / REPLACED_LEDGER if replace else None,
        )
        if restored.aside is not None:
            restored = dataclasses.replace(restored, aside=_keep(restored.aside, config.parent, stamp))
        if people is not None:
            with closing(people), closing(_users_file(folder / USERS)) as copy:
                if replace:
                    with closing(_users_file(work / REPLACED_USERS)) as aside:
                        people.copy(aside)
                copy.copy(people)
            if replace:
                _keep(work / REPLACED_USERS, config.parent, stamp)
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


def _check_no_users(people: Database, copy: Path, settings: Config, *, is_new: bool) -> None:
    """BackupRefused where there are users who are not those of the backup."""
    with closing(people), closing(_users_file(copy)) as restored:
        if not people.rows("SELECT name FROM users LIMIT 1") or people.content() == restored.content():
            return
    where = CREDENTIALS.sub("//", _users_address(settings))
    way = f"--replace. {ELSEWHERE}" if is_new else "--replace"
    raise BackupRefused(f"there are users in this place ({where}). To replace them, and keep a copy: {way}")


def _keep(copy: Path, folder: Path, stamp: str) -> Path:
    """Where a copy of what was replaced is kept; beside those that restores of the same second have kept."""
    for number in itertools.count(1):
        kept = folder / (f"{copy.name}-{stamp}.sqlite" if number == 1 else f"{copy.name}-{stamp}-{number}.sqlite")
        if not kept.exists():
            break
    os.replace(copy, kept)
    return kept


def _rescue(left: Path, settings: Config, people: Database | None, stamp: str) -> None:
    """Keeps copies that a killed restore made of what it had replaced by then; what is still in place needs none."""
    from blowfishdb.ledger.backup import is_in_place

    ledger, users = left / REPLACED_LEDGER, left / REPLACED_USERS
    with suppress(LedgerError):
        if ledger.exists() and not is_in_place(ledger, settings.ledger_url()):
            _keep(ledger, left.parent, f"{stamp}-interrupted")
    if users.exists() and people is not None:
        with closing(people), closing(_users_file(users)) as copy:
            is_replaced = people.content() != copy.content()
        if is_replaced:
            _keep(users, left.parent, f"{stamp}-interrupted")


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


def _checkpoint(settings: Config, file: Path | None, key: str | None) -> Seen | None:
    from blowfishdb.ledger.mark import read_checkpoint_file

    if file is None:
        return None
    key = key or settings.checkpoint_key
    if key is None:
        raise CatalogError("a checkpoint is proven by its public key: give it with --checkpoint-key")
    return read_checkpoint_file(file, key)


def _users(settings: Config) -> Database:
    """The database of users."""
    from blowfishdb.catalog.config import filled_in, located
    from blowfishdb.server.auth.database import open_database

    return open_database(located(filled_in(_users_address(settings)), settings.path.parent))


def _users_address(settings: Config) -> str:
    """The address of the users as the configuration writes it, without secrets of the environment."""
    from blowfishdb.catalog.config import USUAL_USERS

    return str(settings.server.get("users", USUAL_USERS))


def _users_file(path: Path) -> Database:
    from blowfishdb.server.auth.database import open_database

    return open_database(f"sqlite:///{path}")


@contextmanager
def _folder_beside(file: Path, rescue: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """A folder for nobody else's eyes, on the same disk, that is gone afterwards.

    Those of commands that were killed are removed first, after `rescue` has looked at them.
    """
    place, start = file.absolute().parent, WORKING if rescue is None else RESTORING
    try:
        for left in place.glob(f"{start}*"):
            with _locked(left) as is_mine:
                if is_mine and rescue is not None:
                    rescue(left)
                if is_mine:
                    shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=start, dir=place) as name, _locked(Path(name)):
            yield Path(name)
    except OSError as problem:
        raise CatalogError(f"the folder of {file.name} cannot be written: {problem.strerror}") from None


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Holds the lock of a folder that a running command works in; whether nobody else does."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


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
