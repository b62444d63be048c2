"""The ledger as its users see it: open it, charge before reading, store the answer, replay it, prove it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from blowfishdb.errors import InvalidInput, LedgerRolledBack, LedgerUnavailable
from blowfishdb.ledger import charging, curation
from blowfishdb.ledger.charging import post_charge
from blowfishdb.ledger.mark import HighWaterMark, check_not_rolled_back
from blowfishdb.ledger.records import (
    BEGUN,
    COMMITTED,
    ENTRY_COLUMNS,
    MARKED,
    PATIENCE,
    Cursor,
    Field,
    StepHook,
    Store,
    append,
    charge_body,
    digest,
    entry_of,
    hash_at,
    load_account,
    load_account_ids,
    load_analyst,
    load_analysts,
    load_head,
    load_losses,
)
from blowfishdb.ledger.sqlite import open_sqlite
from blowfishdb.ledger.values import (
    Account,
    AnalystBudget,
    Charge,
    Entry,
    Head,
    Receipt,
    Replay,
    Terms,
    Verification,
    VersionChange,
    VersionKind,
    account_id,
    check_number,
    check_text,
)
from blowfishdb.ledger.verification import LedgerWatch, Progress, verify

Result = TypeVar("Result")
MOST_CHARGES = 1000
MOST_ANSWERED = 20_000
"""So many charges of the past are looked at unless told otherwise."""


def utc_now() -> datetime:
    """The time for the record; nothing is ever ordered or decided by it."""
    return datetime.now(UTC)


def nothing_to_do(step: str) -> None:
    """The step hook outside tests."""
    del step


@dataclass(frozen=True, eq=False)
class Ledger:
    """An open ledger. Every write is durable, and known to the high-water mark, before its method returns."""

    store: Store
    mark: HighWaterMark
    id: str
    watch: LedgerWatch
    clock: Callable[[], datetime] = field(default=utc_now)
    reached: StepHook = field(default=nothing_to_do)

    # --- analysts, through the engine

    def charge(self, charge: Charge) -> Receipt:
        """Pays for a release, durably, before any data is read.

        BudgetExceeded, StaleVersion, AmountTooFine and KeyReused leave no trace. After LedgerUnavailable the charge
        may or may not be on record: repeat it with the same key, which never pays twice.
        """
        seen = self._sound()
        body = charge_body(charge, self._now())
        receipt = None if charge.losses is not None else self.store.quick_charge(charge, body)
        if receipt is None:
            return self._write(lambda cursor: post_charge(cursor, charge, body, self.reached))
        self.reached(COMMITTED)
        self._check_past(seen, receipt)
        self.mark.advance(Head(self.id, receipt.sequence, receipt.hash), self.head)
        self.reached(MARKED)
        return receipt

    def store_answer(self, receipt: Receipt, payload: bytes) -> bytes:
        """Records the answer that a receipt paid for. Return to the analyst what this returns: the first one wins."""
        return self._write(lambda cursor: charging.store_answer(cursor, receipt, payload, {"at": self._now()}))

    def answer_for(self, receipt: Receipt) -> bytes | None:
        """The stored answer of a receipt; DigestMismatch for a receipt that is not on record."""
        with self.store.read() as cursor:
            return charging.answer_for(cursor, receipt)

    def replay(self, account: str, request_digest: str, *, analyst: str | None = None) -> Replay | None:
        """The newest stored answer to this request under the versions in force, for free; None when there is none."""
        self._sound()
        with self.store.read() as cursor:
            return charging.replay(cursor, account, request_digest, analyst)

    def charges_of(self, account: str, analyst: str, most: int = MOST_CHARGES) -> list[tuple[Receipt, str]]:
        """The newest charges of one analyst on an account, each with its time, newest first."""
        with self.store.read() as cursor:
            condition = f"account = ? AND analyst = ? AND {charging.CHARGED}"
            return charging.past_charges(cursor, condition, account, analyst, most)

    def answered_charges(self, account: str, most: int = MOST_ANSWERED) -> list[tuple[Receipt, str]]:
        """The newest charges of all analysts on an account whose answer is stored, each with its time, newest first."""
        with self.store.read() as cursor:
            return charging.past_charges(cursor, f"account = ? AND {charging.ANSWERED}", account, most)

    def receipt(self, sequence: int) -> Receipt | None:
        """The receipt of the charge with this number; None when that entry is none."""
        check_number(sequence, "the number of a charge", 1)
        with self.store.read() as cursor:
            return charging.receipt_at(cursor, sequence)

    def budget_of(self, account: str, analyst: str) -> AnalystBudget:
        """What the analyst spent and may spend, also for one who never asked."""
        check_text(analyst, "an analyst's name")
        with self.store.read() as cursor:
            known = load_account(cursor, account)
            return load_analyst(cursor, account, analyst) or AnalystBudget(
                account, analyst, Fraction(0), known.analyst_limit, is_individual=False
            )

    # --- curators

    def register(self, terms: Terms, *, name: str, by: str) -> Account:
        """The account of this data under a name; data registered before keeps its account and what it spent."""
        return self._write(lambda cursor: curation.register(cursor, terms, name, self._stamp(by)))

    def renew(self, account: str, limit: Fraction, *, by: str, reason: str) -> Account:
        """Raises the account's limit, on record with its reason; never resets what was spent."""
        return self._write(lambda cursor: curation.renew(cursor, account, limit, self._stamp(by, reason)))

    def limit_everyone(self, account: str, limit: Fraction | None, *, by: str, reason: str) -> Account:
        """Sets the limit of each analyst who has no limit of their own."""
        return self._write(lambda cursor: curation.limit_everyone(cursor, account, limit, self._stamp(by, reason)))

    def limit_analyst(
        self, account: str, analyst: str, limit: Fraction | None, *, by: str, reason: str
    ) -> AnalystBudget:
        """Gives one analyst a limit of their own; None takes it away again."""
        stamp = self._stamp(by, reason)
        return self._write(lambda cursor: curation.limit_analyst(cursor, account, analyst, limit, stamp))

    def set_accounting(self, seen: Account, accounting: str, *, by: str, reason: str) -> Account:
        """Counts loss per class of edges from now on, or as a sum again; the worst loss so far counts for all."""
        stamp = self._stamp(by, reason)
        return self._write(lambda cursor: curation.set_accounting(cursor, seen, accounting, stamp))

    def room(self, account: str, analyst: str, classes: Iterable[str] | None) -> Fraction:
        """What a release that touches these classes of edges may still cost this analyst; None: all classes."""
        with self.store.read() as cursor:
            known = load_account(cursor, account)
            named = None if classes is None else tuple(classes)
            in_all, by_analyst = load_losses(cursor, account), load_losses(cursor, account, analyst)
        left = known.limit - (known.spent if in_all is None else in_all.lost_by(named))
        budget = self.budget_of(account, analyst)
        if budget.limit is not None:
            left = min(left, budget.limit - (budget.spent if by_analyst is None else by_analyst.lost_by(named)))
        return max(Fraction(0), left)

    def new_snapshot(self, seen: Account, description: str, *, by: str, if_uncharged: bool = False) -> Account:
        """Notes that the data was refreshed; quotes for the old snapshot no longer charge.

        StaleVersion when another version than `seen` is in force; with `if_uncharged`, ChangeRefused when anything was
        ever charged.
        """
        stamp = self._stamp(by)
        return self._write(
            lambda cursor: curation.new_snapshot(cursor, seen, description, stamp, if_uncharged=if_uncharged)
        )

    def what_would_change(
        self, account: str, kind: VersionKind, document: str, stretch: Fraction | None
    ) -> VersionChange:
        """What a new policy or domain version would do to past loss, and whether it would be refused."""
        with self.store.read() as cursor:
            return curation.what_would_change(cursor, account, kind, document, stretch)

    def new_version(
        self, seen: Account, kind: VersionKind, document: str, stretch: Fraction | None, *, by: str, reason: str
    ) -> VersionChange:
        """Puts a new policy or domain in force and carries past loss over; ChangeRefused when that cannot be.

        `seen` is the account for whose versions the stretch was worked out; StaleVersion when others are in force.
        """
        stamp = self._stamp(by, reason)
        return self._write(lambda cursor: curation.new_version(cursor, seen, kind, document, stretch, stamp))

    # --- look-ups

    def account(self, account: str) -> Account:
        """One account by its id."""
        with self.store.read() as cursor:
            return load_account(cursor, account)

    def account_of(self, identity: str) -> Account:
        """The account of the data with this canonical source identity."""
        return self.account(account_id(identity))

    def accounts(self) -> list[Account]:
        """All accounts."""
        with self.store.read() as cursor:
            return [load_account(cursor, account) for account in load_account_ids(cursor)]

    def analysts(self, account: str) -> list[AnalystBudget]:
        """Everybody who was charged on the account or has a limit of their own there."""
        with self.store.read() as cursor:
            load_account(cursor, account)
            return load_analysts(cursor, account)

    def document(self, account: str, kind: VersionKind, number: int) -> str:
        """The policy or domain document of one version."""
        with self.store.read() as cursor:
            return curation.load_document(cursor, account, kind, number)

    def head(self) -> Head:
        """Where the ledger ends now."""
        with self.store.read() as cursor:
            return load_head(cursor)

    def entries(self, *, after: int = 0, account: str | None = None) -> Iterator[Entry]:
        """The entries in order, a few at a time; all of them, or those of one account."""
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE sequence > ?"
        accounts: tuple[str, ...] = ()
        if account is not None:
            query, accounts = f"{query} AND account = ?", (account,)
        with self.store.read() as cursor:
            for row in cursor.stream(f"{query} ORDER BY sequence", after, *accounts):
                yield entry_of(row)

    def verify(self, progress: Progress | None = None) -> Verification:
        """Recomputes every hash and every balance from the entries; reports the first thing that is wrong."""
        mark = self.mark.read()
        with self.store.read() as cursor:
            return verify(cursor, mark, progress)

    def close(self) -> None:
        """Lets go of the database."""
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, work: Callable[[Cursor], Result]) -> Result:
        seen = self._sound()
        with self.store.write() as cursor:
            self.reached(BEGUN)
            check_not_rolled_back(seen, load_head(cursor), lambda sequence: hash_at(cursor, sequence))
            result = work(cursor)
            head = load_head(cursor)
        self.reached(COMMITTED)
        self.mark.advance(head, self.head)
        self.reached(MARKED)
        return result

    def _sound(self) -> Head | None:
        """The mark as it is now; LedgerCorrupt when balances do not add up, before anything is built on them."""
        self.watch.check_if_due(self.store, self.mark.read)
        return self.mark.read()

    def _check_past(self, seen: Head | None, receipt: Receipt) -> None:
        """LedgerRolledBack when this charge was built on another past than the mark knew."""

        def hash_of(sequence: int) -> str | None:
            if sequence == receipt.sequence - 1:
                return receipt.previous_hash
            with self.store.read() as cursor:
                return hash_at(cursor, sequence)

        check_not_rolled_back(seen, Head(self.id, receipt.sequence - 1, receipt.previous_hash), hash_of)

    def _stamp(self, by: str, reason: str | None = None) -> dict[str, Field]:
        check_text(by, "the curator's name")
        if reason is not None:
            check_text(reason, "the reason")
        return {"at": self._now(), "by": by, "reason": reason}

    def _now(self) -> str:
        return self.clock().isoformat(timespec="milliseconds")


SQLITE = "sqlite:///"
POSTGRES = ("postgresql", "postgres")


def open_ledger(
    url: str | Path,
    *,
    mark: Path | None = None,
    patience: float = PATIENCE,
    clock: Callable[[], datetime] = utc_now,
    reached: StepHook = nothing_to_do,
) -> Ledger:
    """The ledger at `sqlite:///relative`, `sqlite:////absolute`, a plain path, or `postgresql://...`.

    `mark` is the file of the high-water mark; keep it where a restored backup of the ledger does not restore it too.
    LedgerRolledBack when the ledger is older than the mark.
    """
    store = _open_store(str(url), patience)
    try:
        high_water = HighWaterMark(mark if mark is not None else default_mark(url))
        seen = high_water.read()
        head = _check(store, seen)
        high_water.advance(head)
        return Ledger(store, high_water, head.ledger, LedgerWatch(high_water.checkpoint_path), clock, reached)
    except BaseException:
        store.close()
        raise


def accept_restored_ledger(
    url: str | Path, *, mark: Path | None = None, by: str, reason: str, clock: Callable[[], datetime] = utc_now
) -> Head:
    """Accepts a ledger that its mark contradicts: records who did so and why, then moves the mark.

    Charges that the restored copy lacks are forgotten by it. Charge them again by hand where they are known.
    """
    check_text(by, "the curator's name")
    check_text(reason, "the reason")
    high_water = HighWaterMark(mark if mark is not None else default_mark(url))
    store = _open_store(str(url), PATIENCE)
    try:
        try:
            seen = high_water.read()
        except LedgerRolledBack:
            seen = None
        with store.write() as cursor:
            fields: dict[str, Field] = {
                "at": clock().isoformat(timespec="milliseconds"),
                "by": by,
                "reason": reason,
                "mark_ledger": seen.ledger if seen else None,
                "mark_sequence": seen.sequence if seen else None,
                "mark_hash": seen.hash if seen else None,
            }
            append(cursor, "restored", None, fields)
            head = load_head(cursor)
        high_water.replace(head)
        return head
    finally:
        store.close()


def default_mark(url: str | Path) -> Path:
    """Where the mark of this ledger is kept unless told otherwise: in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "blowfishdb" / "marks" / f"{digest(_place(str(url)))[:32]}.mark"


def _check(store: Store, seen: Head | None) -> Head:
    with store.read() as cursor:
        head = load_head(cursor)
        check_not_rolled_back(seen, head, lambda sequence: hash_at(cursor, sequence))
        return head


def _open_store(url: str, patience: float) -> Store:
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
