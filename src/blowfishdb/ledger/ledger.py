"""The ledger as its users see it: open it, charge before reading, store the answer, replay it, prove it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from blowfishdb.errors import InvalidInput, LedgerRolledBack, LedgerUnavailable
from blowfishdb.ledger.charges import Charging, nothing_to_do, utc_now
from blowfishdb.ledger.curation import Curation
from blowfishdb.ledger.mark import FileMark, HighWaterMark, check_guard, check_not_rolled_back, new_identity
from blowfishdb.ledger.records import ENTRY_COLUMNS, Field, StepHook, digest, entry_of
from blowfishdb.ledger.sqlite import open_sqlite
from blowfishdb.ledger.store import PATIENCE, Store
from blowfishdb.ledger.values import Account, AnalystBudget, Entry, Head, Verification, account_id, check_text
from blowfishdb.ledger.verification import LedgerWatch, Progress, verify_since


class Ledger(Charging, Curation):
    """An open ledger: charges of analysts, actions of curators, and look-ups for both."""

    def account(self, account: str) -> Account:
        """One account by its id."""
        with self.store.read() as cursor:
            return cursor.account(account)

    def account_of(self, identity: str) -> Account:
        """The account of the data with this canonical source identity."""
        return self.account(account_id(identity))

    def accounts(self) -> list[Account]:
        """All accounts."""
        with self.store.read() as cursor:
            return [cursor.account(account) for account in cursor.account_ids()]

    def analysts(self, account: str) -> list[AnalystBudget]:
        """Everybody who was charged on the account or has an individual limit there."""
        with self.store.read() as cursor:
            cursor.account(account)
            return cursor.analysts(account)

    def entries(self, *, after: int = 0, account: str | None = None) -> Iterator[Entry]:
        """The entries in order, a few at a time; all of them, or those of one account."""
        condition, values = ("", ()) if account is None else (" AND account = ?", (account,))
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE sequence > ?{condition} ORDER BY sequence"
        with self.store.read() as cursor:
            for row in cursor.stream(query, after, *values):
                yield entry_of(row)

    def verify(self, progress: Progress | None = None) -> Verification:
        """Recomputes every hash and every balance from the entries; reports the first thing that is wrong."""
        mark = self.mark.read()
        with self.store.read() as cursor:
            return verify_since(cursor, mark, None, progress)[0]

    def check_contains(self, checkpoint: Head) -> None:
        """LedgerRolledBack unless the ledger has the entry that a signed checkpoint tells of."""
        with self.store.read() as cursor:
            check_not_rolled_back(checkpoint, cursor.head(), cursor.hash_at)

    def close(self) -> None:
        """Lets go of the database."""
        self.store.close()
        self.mark.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


SQLITE = "sqlite:///"
POSTGRES = ("postgresql", "postgres")


def open_ledger(
    url: str | Path,
    *,
    mark: str | Path | None = None,
    patience: float = PATIENCE,
    reached: StepHook = nothing_to_do,
) -> Ledger:
    """The ledger at `sqlite:///relative`, `sqlite:////absolute`, a plain path, or `postgresql://...`.

    `mark` is the high-water mark, a file or `postgresql://...`; keep it where a restored backup of the ledger does not
    restore it too, and where every server of this ledger reaches it. LedgerRolledBack when the ledger is older than
    its mark, or when another mark guards it.
    """
    with ExitStack() as opened:
        store = opened.enter_context(closing(_open_store(str(url), patience)))
        high_water = opened.enter_context(closing(_open_mark(url, mark)))
        seen = high_water.read()
        with store.read() as cursor:
            head = cursor.head()
            check_not_rolled_back(seen, head, cursor.hash_at)
            check_guard(cursor.guard(), high_water.identity(), head)
        high_water.advance(head)
        identity = high_water.identity() or new_identity()
        check_guard(_guard(store, identity), identity, head)
        watch = LedgerWatch(high_water.checkpoint_path)
        opened.pop_all()
        return Ledger(store, high_water, identity, head.ledger, watch, reached=reached)


def _guard(store: Store[Any], identity: str) -> str:
    """The mark that guards a ledger; this one, where none did before."""
    with store.read() as cursor:
        guard = cursor.guard()
    if guard is None:
        with store.write() as cursor:
            guard = cursor.guard() or identity
            cursor.set_guard(guard)
    return guard


def accept_restored_ledger(url: str | Path, *, mark: str | Path | None = None, by: str, reason: str) -> Head:
    """Accepts a ledger that its mark contradicts: records who did so and why, then moves the mark, which guards it now.

    Charges that the restored copy lacks are forgotten by it. Charge them again by hand where they are known.
    """
    check_text(by, "the curator's name")
    check_text(reason, "the reason")
    with closing(_open_store(str(url), PATIENCE)) as store, closing(_open_mark(url, mark)) as high_water:
        try:
            seen, identity = high_water.read(), high_water.identity() or new_identity()
        except LedgerRolledBack:
            seen, identity = None, new_identity()
        with store.write() as cursor:
            fields: dict[str, Field] = {
                "at": utc_now().isoformat(timespec="milliseconds"),
                "by": by,
                "reason": reason,
                "mark_ledger": seen.ledger if seen else None,
                "mark_sequence": seen.sequence if seen else None,
                "mark_hash": seen.hash if seen else None,
            }
            cursor.append("restored", None, fields)
            cursor.set_guard(identity)
            head = cursor.head()
        high_water.replace(head, identity)
        return head


def default_mark(url: str | Path) -> Path:
    """Where the mark of this ledger is kept unless told otherwise: in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "blowfishdb" / "marks" / f"{digest(_place(str(url)))[:32]}.mark"


def _open_mark(url: str | Path, mark: str | Path | None) -> HighWaterMark:
    """The mark at a path or at `postgresql://...`; where none is named, the usual one of this ledger."""
    usual = default_mark(url)
    if mark is None:
        return FileMark(usual)
    if isinstance(mark, Path) or mark.partition("://")[0] not in POSTGRES:
        return FileMark(Path(mark))
    if _scheme(str(url)) != "sqlite" and _place(mark) == _place(str(url)):
        raise InvalidInput("the mark is in the ledger's own database: a restored dump would restore both. Use another.")
    try:
        from blowfishdb.ledger.postgres import open_postgres_mark
    except ImportError:
        raise LedgerUnavailable("a mark in PostgreSQL needs psycopg: pip install blowfishdb[postgres]") from None
    return open_postgres_mark(mark, usual.with_name(f"{usual.name}-checkpoint"))


def _open_store(url: str, patience: float) -> Store[Any]:
    scheme = _scheme(url)
    if scheme == "sqlite":
        return open_sqlite(_path(url), patience)
    try:
        from blowfishdb.ledger.postgres import open_postgres
    except ImportError:
        raise LedgerUnavailable("a ledger in PostgreSQL needs psycopg: pip install blowfishdb[postgres]") from None
    return open_postgres(url, patience)


def _scheme(url: str) -> str:
    scheme = url.partition("://")[0] if "://" in url else "sqlite"
    if scheme in POSTGRES:
        return "postgresql"
    file = url.removeprefix(SQLITE)
    if scheme == "sqlite" and "://" not in file and file and not file.endswith("/"):
        return "sqlite"
    raise InvalidInput("a ledger is at sqlite:///path, at postgresql://user@host/database, or a plain path")


def _path(url: str) -> Path:
    return Path(unquote(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else url).absolute()


def _place(url: str) -> str:
    """The address without user and password, so that a changed password does not lose the mark."""
    if _scheme(url) == "sqlite":
        return str(_path(url).resolve())
    parts = urlsplit(url)
    return f"postgresql://{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
