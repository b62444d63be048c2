"""A curator's recorded actions: accounts, limits, snapshots, and new versions with the loss they carry over."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import AccountConflict, ChangeRefused, InvalidInput, StaleVersion, UnknownAccount, amount
from blowfishdb.ledger.charging import ensure_analyst
from blowfishdb.ledger.records import (
    ACCOUNT_COLUMNS,
    Cursor,
    Field,
    append,
    digest,
    limit_values,
    load_account,
    load_analyst,
    load_analysts,
    load_balance,
    load_losses,
    save_balance,
    save_losses,
    text,
)
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


def register(cursor: Cursor, terms: Terms, name: str, stamp: dict[str, Field]) -> Account:
    """The account of this data: opened on these terms, or the existing one when the terms are the same."""
    check_text(name, "a dataset's name")
    account = account_id(terms.identity)
    try:
        known = load_account(cursor, account)
    except UnknownAccount:
        _open(cursor, account, terms, stamp)
        known = load_account(cursor, account)
    _check_terms(cursor, known, terms)
    if name not in known.names:
        cursor.rows("INSERT INTO label (account, name) VALUES (?, ?)", account, name)
        append(cursor, "name", account, {**stamp, "name": name})
    return load_account(cursor, account)


def renew(cursor: Cursor, account: str, limit: Fraction, stamp: dict[str, Field]) -> Account:
    """Raises what the data may lose in all; what was spent stays spent."""
    check_amount(limit, "the new limit")
    known = load_account(cursor, account)
    if limit <= known.limit:
        raise ChangeRefused(f"a renewal raises the limit, and {limit} is not more than {known.limit}")
    cursor.rows("UPDATE account SET limit_top = ?, limit_bottom = ? WHERE id = ?", *limit_values(limit), account)
    append(cursor, "renewal", account, {**stamp, "limit": str(limit), "was": str(known.limit)})
    return load_account(cursor, account)


def limit_everyone(cursor: Cursor, account: str, limit: Fraction | None, stamp: dict[str, Field]) -> Account:
    """Sets the limit of every analyst without one of their own; None leaves only the account's limit."""
    _check_limit(limit)
    load_account(cursor, account)
    cursor.rows(
        "UPDATE account SET analyst_limit_top = ?, analyst_limit_bottom = ? WHERE id = ?",
        *limit_values(limit),
        account,
    )
    cursor.rows(
        "UPDATE analyst SET limit_top = ?, limit_bottom = ? WHERE account = ? AND is_individual = 0",
        *limit_values(limit),
        account,
    )
    append(cursor, "analyst-limit", account, {**stamp, "analyst": None, "limit": _shown(limit)})
    return load_account(cursor, account)


def limit_analyst(
    cursor: Cursor, account: str, analyst: str, limit: Fraction | None, stamp: dict[str, Field]
) -> AnalystBudget:
    """Gives one analyst a limit of their own; None returns them to the limit of everyone."""
    check_text(analyst, "an analyst's name")
    _check_limit(limit)
    known = load_account(cursor, account)
    before = ensure_analyst(cursor, known, analyst)
    cursor.rows(
        "UPDATE analyst SET limit_top = ?, limit_bottom = ?, is_individual = ? WHERE account = ? AND name = ?",
        *limit_values(known.analyst_limit if limit is None else limit),
        0 if limit is None else 1,
        account,
        analyst,
    )
    append(cursor, "analyst-limit", account, {**stamp, "analyst": analyst, "limit": _shown(limit)})
    return load_analyst(cursor, account, analyst) or before


def new_snapshot(
    cursor: Cursor, seen: Account, description: str, stamp: dict[str, Field], *, if_uncharged: bool
) -> Account:
    """Notes that the data was refreshed; the spent budget stays, because the people are the same.

    Whether snapshots add up was checked for the versions in force when the account was `seen`.
    """
    check_text(description, "the description of a snapshot")
    known, account = check_as_seen(cursor, seen), seen.id
    if if_uncharged and known.charges:
        raise ChangeRefused("not refreshed: meanwhile a release was charged; look at the account again")
    number = known.snapshot + 1
    cursor.rows("UPDATE account SET snapshot = ? WHERE id = ?", number, account)
    append(cursor, "snapshot", account, {**stamp, "snapshot": number, "description": description})
    return load_account(cursor, account)


def check_as_seen(cursor: Cursor, seen: Account) -> Account:
    """The account, if what a change was worked out for is still in force; StaleVersion or ChangeRefused if not."""
    known = load_account(cursor, seen.id)
    versions = (
        ("policy version", seen.policy_version, known.policy_version),
        ("domain version", seen.domain_version, known.domain_version),
        ("snapshot", seen.snapshot, known.snapshot),
    )
    for what, then, now in versions:
        if then != now:
            raise StaleVersion(what, then, now)
    if seen.accounting != known.accounting:
        raise ChangeRefused(f"meanwhile the account counts {known.accounting!r}; look at it again")
    return known


def set_accounting(cursor: Cursor, seen: Account, accounting: str, stamp: dict[str, Field]) -> Account:
    """Counts per class of edges from now on, or sums again; the worst loss so far counts for every class.

    Whether the classes may be counted so was checked for the versions in force when the account was `seen`.
    """
    check_accounting(accounting)
    known, account = check_as_seen(cursor, seen), seen.id
    if accounting == known.accounting:
        raise ChangeRefused(f"the account counts {accounting!r} already")
    cursor.rows("UPDATE account SET accounting = ? WHERE id = ?", accounting, account)
    spent = {None: known.spent} | {budget.analyst: budget.spent for budget in load_analysts(cursor, account)}
    for analyst, worst in spent.items():
        save_losses(cursor, None if accounting == SUM else ClassLosses(worst), account, analyst)
    append(cursor, "accounting", account, {**stamp, "accounting": accounting, "was": known.accounting})
    return load_account(cursor, account)


def load_document(cursor: Cursor, account: str, kind: VersionKind, number: int) -> str:
    """The policy or domain document of one version."""
    rows = cursor.rows(
        "SELECT document FROM version WHERE account = ? AND kind = ? AND number = ?", account, kind, number
    )
    if not rows:
        raise InvalidInput(f"the account has no {kind} version {number}")
    return text(rows[0][0])


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
    for kind, document in zip(VERSION_KINDS, (terms.policy, terms.domain), strict=True):
        cursor.rows(
            "INSERT INTO version (account, kind, number, document) VALUES (?, ?, 1, ?)", account, kind, document
        )
    append(
        cursor,
        "account",
        account,
        {
            **stamp,
            "identity": terms.identity,
            "limit": str(terms.limit),
            "analyst_limit": _shown(terms.analyst_limit),
            "policy": terms.policy,
            "domain": terms.domain,
            **({} if terms.accounting == SUM else {"accounting": terms.accounting}),
        },
    )


def _check_terms(cursor: Cursor, known: Account, terms: Terms) -> None:
    if known.limit != terms.limit:
        raise AccountConflict("limit", f"Register it with {known.limit}, then renew if it should be more.")
    if known.analyst_limit != terms.analyst_limit:
        raise AccountConflict("limit per analyst", "Register it with the same, then change the limit.")
    if known.accounting != terms.accounting:
        raise AccountConflict("accounting", f"Register it with {known.accounting!r}, then change it.")
    current = {"policy": known.policy_version, "domain": known.domain_version}
    for kind, document in zip(VERSION_KINDS, (terms.policy, terms.domain), strict=True):
        if load_document(cursor, known.id, kind, current[kind]) != document:
            raise AccountConflict(kind, f"Register it with the {kind} in force, then make a new version.")


def _check_limit(limit: Fraction | None) -> None:
    if limit is not None:
        check_amount(limit, "a limit")


def _shown(limit: Fraction | None) -> str | None:
    return None if limit is None else str(limit)


def what_would_change(
    cursor: Cursor, account: str, kind: VersionKind, document: str, stretch: Fraction | None
) -> VersionChange:
    """What a new version would do; changes nothing.

    `stretch` is the largest distance, in the graph in force, between two values that the new graph joins; None when
    it is infinite. Loss on such an edge is at most stretch times the loss so far, so multiplying covers the past.
    """
    _check_request(kind, document, stretch)
    known = load_account(cursor, account)
    after = None if stretch is None else load_balance(cursor, account).times(stretch)
    if known.charges == 0:
        after = load_balance(cursor, account)
    analysts = {
        budget.analyst: load_balance(cursor, account, budget.analyst).times(stretch or Fraction(1)).value
        for budget in load_analysts(cursor, account)
    }
    current = _current(known, kind)
    return VersionChange(
        account=account,
        kind=kind,
        current_version=current,
        next_version=current + 1,
        stretch=stretch,
        charges=known.charges,
        limit=known.limit,
        spent_before=known.spent,
        spent_after=None if after is None else after.value,
        analysts_after=analysts if after is not None else {},
        refusal=_refusal(cursor, known, kind, document, after),
    )


def new_version(
    cursor: Cursor, seen: Account, kind: VersionKind, document: str, stretch: Fraction | None, stamp: dict[str, Field]
) -> VersionChange:
    """Puts the version in force and multiplies past loss; ChangeRefused with the reason when it may not be done.

    The stretch was worked out for the versions that the account had when it was `seen`. What was released under others
    in between would be carried over by the wrong factor, so StaleVersion when they are not in force any more.
    """
    account = seen.id
    check_as_seen(cursor, seen)
    change = what_would_change(cursor, account, kind, document, stretch)
    if change.refusal is not None:
        raise ChangeRefused(change.refusal)
    if stretch is not None:
        _carry_over(cursor, account, stretch)
    column = "policy_version" if kind == "policy" else "domain_version"
    cursor.rows(f"UPDATE account SET {column} = ? WHERE id = ?", change.next_version, account)
    cursor.rows(
        "INSERT INTO version (account, kind, number, document) VALUES (?, ?, ?, ?)",
        account,
        kind,
        change.next_version,
        document,
    )
    fields: dict[str, Field] = {
        "what": kind,
        "version": change.next_version,
        "document": document,
        "document_digest": digest(document),
        "stretch": None if stretch is None else str(stretch),
    }
    append(cursor, "version", account, {**stamp, **fields})
    return change


def _carry_over(cursor: Cursor, account: str, stretch: Fraction) -> None:
    for analyst in (None, *(budget.analyst for budget in load_analysts(cursor, account))):
        save_balance(cursor, load_balance(cursor, account, analyst).times(stretch), account, analyst)
        losses = load_losses(cursor, account, analyst)
        if losses is not None:
            save_losses(cursor, losses.times(stretch), account, analyst)


def _refusal(cursor: Cursor, known: Account, kind: VersionKind, document: str, after: Balance | None) -> str | None:
    if load_document(cursor, known.id, kind, _current(known, kind)) == document:
        return f"this {kind} is the one in force"
    if after is None:
        return (
            f"the new {kind} joins values that the one in force leaves apart, and {known.charges} releases (exact "
            "ones included) may have told them apart already. No budget covers that: choose another policy."
        )
    if after.value > known.limit:
        return (
            f"past loss would count as {amount(after.value)} under the new {kind}, more than the limit of "
            f"{amount(known.limit)}. Renew the budget first, or choose another policy."
        )
    return None


def _current(known: Account, kind: VersionKind) -> int:
    return known.policy_version if kind == "policy" else known.domain_version


def _check_request(kind: VersionKind, document: str, stretch: Fraction | None) -> None:
    if kind not in VERSION_KINDS:
        raise InvalidInput("a version is of the policy or of the domain")
    check_document(document, f"a {kind} document")
    if stretch is not None and (not isinstance(stretch, Fraction) or stretch < 1):
        raise InvalidInput("a stretch is an exact Fraction of at least 1, or None when it is infinite")
