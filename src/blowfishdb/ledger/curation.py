"""A curator's recorded actions: accounts, limits, snapshots, and new versions with the loss they carry over."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import AccountConflict, ChangeRefused, InvalidInput, UnknownAccount, amount, plural
from blowfishdb.ledger.charges import OpenLedger, check_versions, ensure_analyst
from blowfishdb.ledger.records import ACCOUNT_COLUMNS, Cursor, Field, digest, limit_values, text
from blowfishdb.ledger.values import (
    NOTHING,
    SUM,
    VERSION_KINDS,
    Account,
    AnalystBudget,
    Balance,
    ClassLosses,
    Terms,
    VersionChange,
    VersionKind,
    account_id,
    check_accounting,
    check_amount,
    check_document,
    check_text,
)


class Curation(OpenLedger):
    """What curators do; every change is on record with its author."""

    def register(self, terms: Terms, *, name: str, by: str) -> Account:
        """The account of this data under a name; data registered before keeps its account and what it spent."""
        check_text(name, "a dataset's name")
        account, stamp = account_id(terms.identity), self._stamp(by)
        with self._writing() as cursor:
            try:
                known = cursor.account(account)
            except UnknownAccount:
                _open(cursor, account, terms, stamp)
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
                raise ChangeRefused("not refreshed: meanwhile a release was charged; look at the account again")
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
            fields: dict[str, Field] = {
                "what": kind,
                "version": change.next_version,
                "document": document,
                "document_digest": digest(document),
                "stretch": _written(stretch),
            }
            cursor.append("version", account, {**stamp, **fields})
            return change

    def document(self, account: str, kind: VersionKind, number: int) -> str:
        """The policy or domain document of one version."""
        with self.store.read() as cursor:
            return _load_document(cursor, account, kind, number)


def _open(cursor: Cursor, account: str, terms: Terms, stamp: dict[str, Field]) -> None:
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
    fields: dict[str, Field] = {
        "identity": terms.identity,
        "limit": str(terms.limit),
        "analyst_limit": _written(terms.analyst_limit),
        "policy": terms.policy,
        "domain": terms.domain,
        **({} if terms.accounting == SUM else {"accounting": terms.accounting}),
    }
    cursor.append("account", account, {**stamp, **fields})


def _add_document(cursor: Cursor, account: str, kind: VersionKind, number: int, document: str) -> None:
    insert = "INSERT INTO version (account, kind, number, document) VALUES (?, ?, ?, ?)"
    cursor.rows(insert, account, kind, number, document)


def _load_document(cursor: Cursor, account: str, kind: VersionKind, number: int) -> str:
    query = "SELECT document FROM version WHERE account = ? AND kind = ? AND number = ?"
    rows = cursor.rows(query, account, kind, number)
    if not rows:
        raise InvalidInput(f"the account has no {kind} version {number}")
    return text(rows[0][0])


def _document_in_force(cursor: Cursor, known: Account, kind: VersionKind) -> str:
    return _load_document(cursor, known.id, kind, known.version(kind))


def _check_terms(cursor: Cursor, known: Account, terms: Terms) -> None:
    if known.limit != terms.limit:
        raise AccountConflict("limit", f"Register it with {known.limit}, then renew if it should be more.")
    if known.analyst_limit != terms.analyst_limit:
        raise AccountConflict("limit per analyst", "Register it with the same, then change the limit.")
    if known.accounting != terms.accounting:
        raise AccountConflict("accounting", f"Register it with {known.accounting!r}, then change it.")
    for kind, document in zip(VERSION_KINDS, (terms.policy, terms.domain), strict=True):
        if _document_in_force(cursor, known, kind) != document:
            raise AccountConflict(kind, f"Register it with the {kind} in force, then make a new version.")


def _check_as_seen(cursor: Cursor, seen: Account) -> Account:
    """The account, if what a change was worked out for is still in force; StaleVersion or ChangeRefused if not."""
    known = cursor.account(seen.id)
    check_versions(seen, known)
    if seen.accounting != known.accounting:
        raise ChangeRefused(f"meanwhile the account counts {known.accounting!r}; look at it again")
    return known


def _check_limit(limit: Fraction | None) -> None:
    if limit is not None:
        check_amount(limit, "a limit")


def _written(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _version_change(
    cursor: Cursor, account: str, kind: VersionKind, document: str, stretch: Fraction | None
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


def _refusal(cursor: Cursor, known: Account, kind: VersionKind, document: str, after: Balance | None) -> str | None:
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


def _carry_over(cursor: Cursor, account: str, stretch: Fraction) -> None:
    for analyst in (None, *(budget.analyst for budget in cursor.analysts(account))):
        cursor.save_balance(cursor.balance(account, analyst).times(stretch), account, analyst)
        losses = cursor.losses(account, analyst)
        if losses is not None:
            cursor.save_losses(losses.times(stretch), account, analyst)
