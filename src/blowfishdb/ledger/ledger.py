"""The ledger as its users see it: open it, charge before reading, replay answers, prove it; what curators change.

Accounts, limits, snapshots, and new versions with the loss they carry over are on record with their author.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from blowfishdb.errors import (
    AccountConflict,
    ChangeRefused,
    InvalidInput,
    LedgerUnavailable,
    UnknownAccount,
    amount,
    plural,
)
from blowfishdb.ledger.amounts import NOTHING, SUM, Balance, ClassLosses, check_accounting, check_amount
from blowfishdb.ledger.charges import Charging, check_versions, ensure_analyst, nothing_to_do
from blowfishdb.ledger.histories import (
    Takeover,
    Witness,
    branches,
    count_restored,
    known_until,
    lost_elsewhere,
    lost_in_all,
    marked_by,
    take_over,
)
from blowfishdb.ledger.mark import PATIENCE, FileMark, HighWaterMark, check_guard, check_not_rolled_back, new_identity
from blowfishdb.ledger.records import (
    ACCOUNT_COLUMNS,
    ENTRY_COLUMNS,
    EntryField,
    LedgerCursor,
    StepHook,
    declared,
    digest,
    entry_of,
    limit_values,
    text,
)
from blowfishdb.ledger.store import Store, open_sqlite
from blowfishdb.ledger.values import (
    VERSION_KINDS,
    Account,
    AnalystBudget,
    Entry,
    Head,
    Seen,
    Terms,
    Verification,
    VersionChange,
    VersionKind,
    account_id,
    check_document,
    check_text,
)
from blowfishdb.ledger.verification import VerifyProgress, verify_since
from blowfishdb.ledger.watch import LedgerWatch


class Ledger(Charging, AbstractContextManager["Ledger"]):
    """An open ledger: charges of analysts, actions of curators with their authors, and look-ups for both."""

    def register(self, terms: Terms, *, name: str, by: str) -> Account:
        """The account of this data under a name; data registered before keeps its account and what it spent."""
        check_text(name, "a dataset's name")
        account, stamp = account_id(terms.identity), self._stamp(by)
        with self._writing() as cursor:
            try:
                known = cursor.account(account)
            except UnknownAccount:
                _open(cursor, account, terms, stamp)
                count_restored(cursor, account, _lost_before(cursor, account, terms))
                known = cursor.account(account)
            _check_terms(cursor, known, terms)
            if name not in known.names:
                cursor.rows("INSERT INTO label (account, name) VALUES (?, ?)", account, name)
                cursor.append("name", account, {**stamp, "name": name})
            return cursor.account(account)

    def renew(self, account: str, limit: Fraction, *, by: str, reason: str) -> Account:
        """Raises what the data may lose in all, on record with the reason; what was spent stays spent."""
        check_amount(limit, "the new limit")
        stamp = self._stamp(by, reason)
        with self._writing() as cursor:
            known = cursor.account(account)
            if limit <= known.limit:
                raise ChangeRefused(f"a renewal raises the limit, and {limit} is not more than {known.limit}")
            change = "UPDATE account SET limit_top = ?, limit_bottom = ? WHERE id = ?"
            cursor.rows(change, *limit_values(limit), account)
            cursor.append("renewal", account, {**stamp, "limit": str(limit), "was": str(known.limit)})
            return cursor.account(account)

    def limit_everyone(self, account: str, limit: Fraction | None, *, by: str, reason: str) -> Account:
        """Sets the limit of every analyst without an individual one; None leaves only the account's limit."""
        _check_limit(limit)
        stamp = self._stamp(by, reason)
        with self._writing() as cursor:
            cursor.account(account)
            in_all = "UPDATE account SET analyst_limit_top = ?, analyst_limit_bottom = ? WHERE id = ?"
            each = "UPDATE analyst SET limit_top = ?, limit_bottom = ? WHERE account = ? AND is_individual = 0"
            for change in (in_all, each):
                cursor.rows(change, *limit_values(limit), account)
            cursor.append("analyst-limit", account, {**stamp, "analyst": None, "limit": _written(limit)})
            return cursor.account(account)

    def limit_analyst(
        self, account: str, analyst: str, limit: Fraction | None, *, by: str, reason: str
    ) -> AnalystBudget:
        """Gives one analyst an individual limit; None returns them to the limit of everyone."""
        check_text(analyst, "an analyst's name")
        _check_limit(limit)
        stamp = self._stamp(by, reason)
        with self._writing() as cursor:
            known = cursor.account(account)
            before = ensure_analyst(cursor, known, analyst)
            cursor.rows(
                "UPDATE analyst SET limit_top = ?, limit_bottom = ?, is_individual = ? WHERE account = ? AND name = ?",
                *limit_values(known.analyst_limit if limit is None else limit),
                0 if limit is None else 1,
                account,
                analyst,
            )
            cursor.append("analyst-limit", account, {**stamp, "analyst": analyst, "limit": _written(limit)})
            return cursor.analyst(account, analyst) or before

    def new_snapshot(self, seen: Account, description: str, *, by: str, if_uncharged: bool = False) -> Account:
        """Notes that the data was refreshed; the spent budget stays, and quotes for the old snapshot no longer charge.

        Whether snapshots add up was checked for the versions in force when the account was `seen`. With
        `if_uncharged`, ChangeRefused when anything was ever charged.
        """
        check_text(description, "the description of a snapshot")
        stamp = self._stamp(by)
        with self._writing() as cursor:
            known = _check_as_seen(cursor, seen)
            if if_uncharged and known.charges:
                raise ChangeRefused("not refreshed: a release was charged meanwhile; look at the account again")
            number = known.snapshot + 1
            cursor.rows("UPDATE account SET snapshot = ? WHERE id = ?", number, known.id)
            cursor.end_chains(known.id)
            cursor.append("snapshot", known.id, {**stamp, "snapshot": number, "description": description})
            return cursor.account(known.id)

    def set_accounting(self, seen: Account, accounting: str, *, by: str, reason: str) -> Account:
        """Counts loss per class of edges from now on, or as a sum again; the worst loss so far counts for every class.

        Whether the classes may be counted so was checked for the versions in force when the account was `seen`.
        """
        check_accounting(accounting)
        stamp = self._stamp(by, reason)
        with self._writing() as cursor:
            known = _check_as_seen(cursor, seen)
            if accounting == known.accounting:
                raise ChangeRefused(f"the account counts {accounting!r} already")
            cursor.rows("UPDATE account SET accounting = ? WHERE id = ?", accounting, known.id)
            spent = {None: known.spent} | {budget.analyst: budget.spent for budget in cursor.analysts(known.id)}
            for analyst, worst in spent.items():
                cursor.save_losses(None if accounting == SUM else ClassLosses(worst), known.id, analyst)
            cursor.append("accounting", known.id, {**stamp, "accounting": accounting, "was": known.accounting})
            return cursor.account(known.id)

    def what_would_change(
        self, account: str, kind: VersionKind, document: str, stretch: Fraction | None
    ) -> VersionChange:
        """What a new policy or domain version would do to past loss, and whether it would be refused."""
        with self.store.read() as cursor:
            return _version_change(cursor, account, kind, document, stretch)

    def new_version(
        self, seen: Account, kind: VersionKind, document: str, stretch: Fraction | None, *, by: str, reason: str
    ) -> VersionChange:
        """Puts a new policy or domain in force and multiplies past loss; ChangeRefused when that cannot be.

        The stretch was worked out for the versions that the account had when it was `seen`. What was released under
        others in between would be carried over by the wrong factor, so StaleVersion when they are not in force any
        more.
        """
        stamp = self._stamp(by, reason)
        with self._writing() as cursor:
            account = _check_as_seen(cursor, seen).id
            change = _version_change(cursor, account, kind, document, stretch)
            if change.refusal is not None:
                raise ChangeRefused(change.refusal)
            if stretch is not None:
                _carry_over(cursor, account, stretch)
            cursor.end_chains(account)
            cursor.rows(f"UPDATE account SET {kind}_version = ? WHERE id = ?", change.next_version, account)
            _add_document(cursor, account, kind, change.next_version, document)
            fields: dict[str, EntryField] = {
                "what": kind,
                "version": change.next_version,
                "document": document,
                "document_digest": digest(document),
                "stretch": _written(stretch),
            }
            cursor.append("version", account, {**stamp, **fields})
            return change

    def documents_in_force(self, known: Account) -> tuple[str, str]:
        """The policy and the domain document of the versions that an account had when it was looked up."""
        with self.store.read() as cursor:
            return _document_in_force(cursor, known, "policy"), _document_in_force(cursor, known, "domain")

    def document(self, account: str, kind: VersionKind, number: int) -> str:
        """The policy or domain document of one version."""
        with self.store.read() as cursor:
            return _load_document(cursor, account, kind, number)

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

    def entries(self, *, after: int = 0, account: str | None = None, newest_first: bool = False) -> Iterator[Entry]:
        """The entries in order, a few at a time; all of them, or those of one account."""
        condition, values = ("", ()) if account is None else (" AND account = ?", (account,))
        order = "sequence DESC" if newest_first else "sequence"
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE sequence > ?{condition} ORDER BY {order}"
        with self.store.read() as cursor:
            for row in cursor.stream(query, after, *values):
                yield entry_of(row)

    def restores(self) -> list[Entry]:
        """The entries that put a copy in this ledger's place, oldest first."""
        with self.store.read() as cursor:
            return cursor.restores()

    def verify(self, progress: VerifyProgress | None = None) -> Verification:
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

    def __exit__(self, *raised: object) -> None:
        self.close()


def _open(cursor: LedgerCursor, account: str, terms: Terms, stamp: dict[str, EntryField]) -> None:
    cursor.rows(
        f"INSERT INTO account ({ACCOUNT_COLUMNS}, edge_books) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 1, 1, 1, ?, ?)",
        account,
        terms.identity,
        *limit_values(terms.limit),
        str(NOTHING.units),
        str(NOTHING.grid),
        *limit_values(terms.analyst_limit),
        terms.accounting,
        None if terms.accounting == SUM else ClassLosses().to_json(),
    )
    _add_document(cursor, account, "policy", 1, terms.policy)
    _add_document(cursor, account, "domain", 1, terms.domain)
    fields: dict[str, EntryField] = {
        "identity": terms.identity,
        "limit": str(terms.limit),
        "analyst_limit": _written(terms.analyst_limit),
        "policy": terms.policy,
        "domain": terms.domain,
        **({} if terms.accounting == SUM else {"accounting": terms.accounting}),
    }
    cursor.append("account", account, {**stamp, **fields})


def _lost_before(cursor: LedgerCursor, account: str, terms: Terms) -> Fraction | None:
    """What data without an account lost before the ledger was restored; None where nothing is known of it."""
    losses = lost_elsewhere(cursor).get(account)
    if not losses:
        return None
    lost = max(spent.amount for spent in losses)
    if lost > terms.limit:
        raise AccountConflict("limit", f"It lost {lost} before the ledger was restored: give it at least that.")
    if any(spent.declared != declared(terms.policy, terms.domain) for spent in losses):
        raise AccountConflict(
            "policy or domain", "It was asked under others before the ledger was restored: register it with those."
        )
    return lost


def _add_document(cursor: LedgerCursor, account: str, kind: VersionKind, number: int, document: str) -> None:
    insert = "INSERT INTO version (account, kind, number, document) VALUES (?, ?, ?, ?)"
    cursor.rows(insert, account, kind, number, document)


def _load_document(cursor: LedgerCursor, account: str, kind: VersionKind, number: int) -> str:
    query = "SELECT document FROM version WHERE account = ? AND kind = ? AND number = ?"
    rows = cursor.rows(query, account, kind, number)
    if not rows:
        raise InvalidInput(f"the account has no {kind} version {number}")
    return text(rows[0][0])


def _document_in_force(cursor: LedgerCursor, known: Account, kind: VersionKind) -> str:
    return _load_document(cursor, known.id, kind, known.version(kind))


def _check_terms(cursor: LedgerCursor, known: Account, terms: Terms) -> None:
    if known.limit != terms.limit:
        raise AccountConflict("limit", f"Register it with {known.limit}, then renew if it should be more.")
    if known.analyst_limit != terms.analyst_limit:
        raise AccountConflict("limit per analyst", "Register it with the same, then change the limit.")
    if known.accounting != terms.accounting:
        raise AccountConflict("accounting", f"Register it with {known.accounting!r}, then change it.")
    for kind, document in zip(VERSION_KINDS, (terms.policy, terms.domain), strict=True):
        if _document_in_force(cursor, known, kind) != document:
            raise AccountConflict(kind, f"Register it with the {kind} in force, then make a new version.")


def _check_as_seen(cursor: LedgerCursor, seen: Account) -> Account:
    """The account, if what a change was worked out for is still in force; StaleVersion or ChangeRefused if not."""
    known = cursor.account(seen.id)
    check_versions(seen, known)
    if seen.accounting != known.accounting:
        raise ChangeRefused(f"the account has changed to {known.accounting!r} meanwhile; look at it again")
    return known


def _check_limit(limit: Fraction | None) -> None:
    if limit is not None:
        check_amount(limit, "a limit")


def _written(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _version_change(
    cursor: LedgerCursor, account: str, kind: VersionKind, document: str, stretch: Fraction | None
) -> VersionChange:
    """What a new version would do; changes nothing.

    `stretch` is the largest distance, in the graph in force, between two values that the new graph joins; None when
    it is infinite. Loss on such an edge is at most stretch times the loss so far, so multiplying covers the past.
    """
    if kind not in VERSION_KINDS:
        raise InvalidInput("a version is of the policy or of the domain")
    check_document(document, f"a {kind} document")
    if stretch is not None and (not isinstance(stretch, Fraction) or stretch < 1):
        raise InvalidInput("a stretch is an exact Fraction of at least 1, or None when it is infinite")
    known, before = cursor.account(account), cursor.balance(account)
    after = before if known.charges == 0 else None if stretch is None else before.times(stretch)
    analysts = {
        budget.analyst: cursor.balance(account, budget.analyst).times(stretch or Fraction(1)).value
        for budget in cursor.analysts(account)
    }
    return VersionChange(
        account=account,
        kind=kind,
        current_version=known.version(kind),
        next_version=known.version(kind) + 1,
        stretch=stretch,
        charges=known.charges,
        limit=known.limit,
        spent_before=known.spent,
        spent_after=None if after is None else after.value,
        analysts_after=analysts if after is not None else {},
        refusal=_refusal(cursor, known, kind, document, after),
    )


def _refusal(
    cursor: LedgerCursor, known: Account, kind: VersionKind, document: str, after: Balance | None
) -> str | None:
    if _document_in_force(cursor, known, kind) == document:
        return f"this {kind} is the one in force"
    if after is None:
        return (
            f"the new {kind} joins values that the one in force leaves apart, and {plural(known.charges, 'release')} "
            "(exact ones included) may have told them apart already. No budget covers that: choose another policy."
        )
    if after.value > known.limit:
        return (
            f"past loss would count as {amount(after.value)} under the new {kind}, more than the limit of "
            f"{amount(known.limit)}. Renew the budget first, or choose another policy."
        )
    return None


def _carry_over(cursor: LedgerCursor, account: str, stretch: Fraction) -> None:
    for analyst in (None, *(budget.analyst for budget in cursor.analysts(account))):
        cursor.save_balance(cursor.balance(account, analyst).times(stretch), account, analyst)
        losses = cursor.losses(account, analyst)
        if losses is not None:
            cursor.save_losses(losses.times(stretch), account, analyst)


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
        store = opened.enter_context(closing(open_store(str(url), patience)))
        high_water = opened.enter_context(closing(open_mark(url, mark)))
        seen = high_water.read()
        with store.read() as cursor:
            head = cursor.head()
            check_not_rolled_back(seen, head, cursor.hash_at)
            check_guard(cursor.guard(), high_water.identity(), head)
        high_water.advance(head, partial(_seen, store))
        identity = high_water.identity() or new_identity()
        check_guard(_guard(store, identity), identity, head)
        watch = LedgerWatch(high_water.checkpoint_path)
        opened.pop_all()
        return Ledger(store, high_water, identity, head.ledger, watch, reached=reached)


def _seen(store: Store[Any]) -> Seen:
    with store.read() as cursor:
        return cursor.seen({})


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

    What the mark knows to have been spent beyond the copy, or beside it, is counted. Charges that it does not know of
    are forgotten: charge them again by hand where they are known.
    """
    check_text(by, "the curator's name")
    check_text(reason, "the reason")
    with closing(open_store(str(url), PATIENCE)) as store, closing(open_mark(url, mark)) as high_water:
        marked, identity = marked_by(high_water), new_identity()
        with store.write() as cursor:
            kept = Witness(cursor.seen({}), cursor)
            found = branches(kept, [] if marked is None else [Witness(marked)])
            there = Takeover(lost_in_all(kept, found), found, marked, known_until(kept, found, marked))
            restored = take_over(kept, there, identity, by=by, reason=reason)
        high_water.replace(restored.head, identity, restored.spending, restored.eras)
        return restored.head


def default_mark(url: str | Path) -> Path:
    """Where the mark of this ledger is kept unless told otherwise: in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "blowfishdb" / "marks" / f"{digest(_place(str(url)))[:32]}.mark"


def open_mark(url: str | Path, mark: str | Path | None) -> HighWaterMark:
    """The mark at a path or at `postgresql://...`; where none is named, the usual one of this ledger."""
    usual = default_mark(url)
    if mark is None:
        return FileMark(usual)
    if isinstance(mark, Path) or mark.partition("://")[0] not in POSTGRES:
        return FileMark(Path(mark))
    if _scheme(str(url)) != "sqlite" and _are_one_database(mark, str(url)):
        raise InvalidInput("the mark is in the ledger's own database: a restored dump would restore both. Use another.")
    try:
        from blowfishdb.ledger.postgres import open_postgres_mark
    except ImportError:
        raise LedgerUnavailable("a mark in PostgreSQL needs psycopg: pip install blowfishdb[postgres]") from None
    return open_postgres_mark(mark, usual.with_name(f"{usual.name}-checkpoint"))


def open_store(url: str | Path, patience: float = PATIENCE) -> Store[Any]:
    """The database of the ledger at this address, whatever its mark says."""
    address = str(url)
    if _scheme(address) == "sqlite":
        return open_sqlite(_path(address), patience)
    try:
        from blowfishdb.ledger.postgres import open_postgres
    except ImportError:
        raise LedgerUnavailable("a ledger in PostgreSQL needs psycopg: pip install blowfishdb[postgres]") from None
    return open_postgres(address, patience)


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
    """The address without user and password, so that a changed password, or order of hosts, does not lose the mark."""
    if _scheme(url) == "sqlite":
        return str(_path(url).resolve())
    hosts, database = _hosts(url)
    return f"postgresql://{','.join(sorted(hosts))}{database}"


def _are_one_database(one: str, other: str) -> bool:
    """Whether two addresses may be of one database: a host that both name is enough."""
    (hosts, database), (others, another) = _hosts(one), _hosts(other)
    return database == another and bool(hosts & others)


def _hosts(url: str) -> tuple[set[str], str]:
    """The hosts of an address in PostgreSQL, with their ports, and its database."""
    try:
        parts = urlsplit(url)
        hosts = [urlsplit(f"//{host}") for host in parts.netloc.rpartition("@")[2].split(",")]
        return {f"{host.hostname or 'localhost'}:{host.port or 5432}" for host in hosts}, parts.path
    except ValueError:
        raise InvalidInput("the address in PostgreSQL is not well formed; check its hosts and ports") from None
