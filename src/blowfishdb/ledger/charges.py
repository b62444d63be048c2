"""Charges before data is read, and the stored answer of each receipt: the first one wins and replays for free."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from blowfishdb.errors import (
    BudgetExceeded,
    ChainMoved,
    ChargeClosed,
    DigestMismatch,
    DrillCopy,
    KeyReused,
    LedgerCorrupt,
    StaleVersion,
    TooLarge,
)
from blowfishdb.ledger.amounts import NOTHING, SUM, Balance, ClassLosses, in_classes
from blowfishdb.ledger.mark import DRILL, HighWaterMark, check_guard, check_not_rolled_back
from blowfishdb.ledger.records import (
    ANALYST_COLUMNS,
    APPENDED,
    BEGUN,
    COMMITTED,
    DEBITED,
    ENTRY_COLUMNS,
    MARKED,
    EntryField,
    LedgerCursor,
    LedgerValue,
    StepHook,
    charge_body,
    digest,
    entry_of,
    limit_values,
    receipt_of,
    whole,
)
from blowfishdb.ledger.store import Store
from blowfishdb.ledger.values import (
    Account,
    AnalystBudget,
    Charge,
    Era,
    Head,
    PastLink,
    Publication,
    Receipt,
    Replay,
    Seen,
    check_link,
    check_number,
    check_text,
    is_published,
)
from blowfishdb.ledger.watch import LedgerWatch


def utc_now() -> datetime:
    """The time for the record; nothing is ever ordered or decided by it."""
    return datetime.now(UTC)


def nothing_to_do(step: str) -> None:
    """The step hook outside tests."""
    del step


@dataclass(frozen=True, eq=False)
class OpenLedger:
    """A store, its mark and its watch. Every write is durable, and known to the mark, before its method returns."""

    store: Store[Any]
    mark: HighWaterMark
    mark_id: str
    id: str
    watch: LedgerWatch
    clock: Callable[[], datetime] = field(default=utc_now)
    reached: StepHook = field(default=nothing_to_do)
    _declarations: dict[tuple[LedgerValue, ...], str] = field(default_factory=dict, repr=False)
    _past: list[tuple[Era, ...]] = field(default_factory=list, repr=False)

    def head(self) -> Head:
        """Where the ledger ends now."""
        with self.store.read() as cursor:
            return cursor.head()

    def seen(self) -> Seen:
        """Where the ledger ends now, and what every account ever charged has lost."""
        with self.store.read() as cursor:
            if not self._past:
                # Another era begins with another mark, and for that one this ledger is opened anew.
                self._past.append(cursor.past_eras())
            return cursor.seen(self._declarations, self._past[0])

    @contextmanager
    def _writing(self, account: str | None = None, analyst: str | None = None) -> Iterator[LedgerCursor]:
        """One exclusive write on a sound ledger that its mark knows."""
        seen = self._sound(account, analyst)
        with self.store.write() as cursor:
            self.reached(BEGUN)
            head, guard = cursor.guarded_head()
            check_not_rolled_back(seen, head, cursor.hash_at)
            check_guard(guard, self.mark_id, head)
            yield cursor
            head = cursor.head()
        self._mark(head)

    def _mark(self, head: Head) -> None:
        """Moves the mark to a head that was committed."""
        self.reached(COMMITTED)
        self.mark.advance(head, self.seen)
        self.reached(MARKED)

    def _sound(self, account: str | None = None, analyst: str | None = None) -> Head | None:
        """The mark as it is now; LedgerCorrupt when balances do not add up, before anything is built on them.

        Those of the account and the analyst are looked at every time, and all of them once a minute.
        """
        self.watch.check(self.store, self.mark.read, account, analyst)
        return self.mark.read()

    def _check_no_drill(self) -> None:
        """DrillCopy where nothing is charged, so that nothing is released."""
        if self.mark_id.startswith(DRILL):
            raise DrillCopy

    def _check_past(self, seen: Head | None, receipt: Receipt) -> None:
        """LedgerRolledBack when this charge was built on another past than the mark knew."""

        def hash_of(sequence: int) -> str | None:
            if sequence == receipt.sequence - 1:
                return receipt.previous_hash
            with self.store.read() as cursor:
                return cursor.hash_at(sequence)

        check_not_rolled_back(seen, Head(self.id, receipt.sequence - 1, receipt.previous_hash), hash_of)

    def _stamp(self, by: str, reason: str | None = None) -> dict[str, EntryField]:
        """When, by whom and why, for the entry of a curator's action."""
        check_text(by, "the curator's name")
        if reason is not None:
            check_text(reason, "the reason")
        return {"at": self._now(), "by": by, "reason": reason}

    def _now(self) -> str:
        return self.clock().isoformat(timespec="milliseconds")


LARGEST_ANSWER = 256 * 2**20
MOST_CHARGES = 1000
"""The number of past charges that are listed unless told otherwise."""
CHARGED = "kind = 'charge'"
SYNOPSIS = f"{CHARGED} AND body LIKE '%synopsis%: true%'"
"""Holds for every synopsis, in the words of its index; the title of a question may hold them too."""
ANSWERED = f"{CHARGED} AND EXISTS (SELECT 1 FROM answer WHERE answer.charge = entry.sequence)"


class Charging(OpenLedger):
    """What analysts do, through the engine."""

    def charge(self, charge: Charge) -> Receipt:
        """Pays for a release, durably, before any data is read.

        BudgetExceeded, StaleVersion, KeyReused and DrillCopy leave no trace. After LedgerUnavailable the charge may or
        may not be on record: repeat it with the same key, which never pays twice.
        """
        self._check_no_drill()
        body = charge_body(charge, self._now())
        if self.store.charges_quickly and charge.losses is None and charge.link is None:
            seen = self._sound(charge.account, charge.analyst)
            receipt = self.store.quick_charge(charge, body, self.mark_id)
            if receipt is not None:
                self._check_past(seen, receipt)
                self._mark(Head(self.id, receipt.sequence, receipt.hash))
                return receipt
        with self._writing(charge.account, charge.analyst) as cursor:
            return post_charge(cursor, charge, body, self.reached)

    def charge_all(self, charges: Sequence[Charge]) -> None:
        """Pays for several releases of one analyst on one account, durably, in one transaction: for all or for none.

        BudgetExceeded speaks of their sum. A key that has paid before pays nothing, as with `charge`.
        """
        self._check_no_drill()
        if not charges:
            return
        account, analyst = charges[0].account, charges[0].analyst
        try:
            with self._writing(account, analyst) as cursor:
                for charge in charges:
                    post_charge(cursor, charge, charge_body(charge, self._now()), self.reached)
        except BudgetExceeded:
            requested = sum((charge.received for charge in charges), Fraction(0))
            with self.store.read() as cursor:
                left = cursor.account(account).remaining
            raise BudgetExceeded(requested, left, self.budget_of(account, analyst).remaining) from None

    def store_answer(self, receipt: Receipt, payload: bytes, publication: Publication | None = None) -> bytes:
        """The answer on record for the receipt, which is to be returned: this one, or the one stored before.

        A receipt pays for one draw of noise. Two runs with one key may both measure, so whoever comes second gets the
        first answer back and must return that one; the second draw is never seen. A restored ledger may lack an answer
        that is out: ChargeClosed for a charge from before. In a chain the draw was made given the answers published by
        then: ChainMoved when there are others by now, and then this draw is never seen either.
        """
        if len(payload) > LARGEST_ANSWER:
            raise TooLarge("bytes of an answer", len(payload), LARGEST_ANSWER, "Ask for fewer cells.")
        with self._writing() as cursor:
            stored = _answer(cursor, receipt)
            if stored is not None:
                return stored
            if cursor.is_restored_since(receipt.sequence):
                raise ChargeClosed(receipt.sequence, receipt.charge.key)
            link, mark = receipt.charge.link, _published_mark(cursor, receipt, publication)
            fields: dict[str, EntryField] = {
                "at": self._now(),
                "charge": receipt.sequence,
                "charge_hash": receipt.hash,
                "payload_digest": digest(payload),
                **({} if mark is None or link is None else {"chain": link.chain, "mark": mark}),
            }
            entry = cursor.append("answer", receipt.charge.account, fields)
            values = receipt.sequence, entry.sequence, payload
            cursor.rows("INSERT INTO answer (charge, entry, payload) VALUES (?, ?, ?)", *values)
            if mark is not None:
                cursor.rows("UPDATE link SET mark = ? WHERE charge = ?", mark, receipt.sequence)
            return payload

    def links(self, account: str, rows: str) -> list[PastLink]:
        """The charges of all chains over the same rows of an account, oldest first."""
        with self.store.read() as cursor:
            return cursor.links(account, rows)

    def answer_for(self, receipt: Receipt) -> bytes | None:
        """The stored answer of a receipt; DigestMismatch for a receipt that is not on record."""
        with self.store.read() as cursor:
            return _answer(cursor, receipt)

    def replay(
        self, account: str, request_digest: str, *, analyst: str | None = None, key: str | None = None
    ) -> Replay | None:
        """The newest stored answer to this request under the versions in force, for free; None when there is none.

        That of one analyst, or of one key, where they are given.
        """
        self._sound(account)
        with self.store.read() as cursor:
            known = cursor.account(account)
            condition = f"account = ? AND request_digest = ? AND {ANSWERED}"
            values: tuple[LedgerValue, ...] = (account, request_digest)
            if analyst is not None:
                # Not `analyst = ?`: SQLite would go through all entries of the analyst, who has more than the request.
                condition, values = f"{condition} AND analyst || '' = ?", (*values, analyst)
            if key is not None:
                condition, values = f"{condition} AND charge_key || '' = ?", (*values, key)
            for entry in cursor.entries(f"{condition} ORDER BY sequence DESC", *values):
                receipt = receipt_of(entry)
                if _versions(receipt.charge) == _versions(known):
                    payload = _load_payload(cursor, receipt.sequence)
                    if payload is not None:
                        return Replay(receipt, payload)
        return None

    def charges_of(
        self, account: str, analyst: str, most: int = MOST_CHARGES, before: int | None = None, key: str | None = None
    ) -> list[tuple[Receipt, str]]:
        """The newest charges of one analyst on an account, each with its time, newest first.

        Those before a number alone, where one is given, and those whose key begins with the given one and a space.
        """
        condition = f"account = ? AND analyst = ? AND {CHARGED}"
        values: tuple[LedgerValue, ...] = (account, analyst)
        if key is not None:
            condition, values = f"{condition} AND substr(charge_key, 1, ?) = ?", (*values, len(key) + 1, f"{key} ")
        return list(self._newest(condition, values, before, most))

    def synopses(self, account: str, most: int = MOST_CHARGES, before: int | None = None) -> list[tuple[Receipt, str]]:
        """The newest charges on an account that published a synopsis, by any analyst, newest first, with times."""
        answered = self._newest(f"account = ? AND {SYNOPSIS} AND {ANSWERED}", (account,), before)
        published = (one for one in answered if json.loads(one[0].charge.certificate).get("synopsis") is True)
        return list(itertools.islice(published, most))

    def _newest(
        self, condition: str, values: tuple[LedgerValue, ...], before: int | None, most: int | None = None
    ) -> Iterator[tuple[Receipt, str]]:
        """The charges that a condition selects, newest first, a few at a time."""
        if before is not None:
            check_number(before, "the number of a charge", 1)
            condition, values = f"{condition} AND sequence < ?", (*values, before)
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE {condition} ORDER BY sequence DESC"
        if most is not None:
            query, values = f"{query} LIMIT ?", (*values, most)
        with self.store.read() as cursor:
            for row in cursor.stream(query, *values):
                entry = entry_of(row)
                yield receipt_of(entry), str(entry.fields["at"])

    def charged_to(self, account: str, analyst: str, numbers: Iterable[int]) -> set[int]:
        """Which of these entries are charges of one analyst on an account."""
        listed = sorted(set(numbers))
        if not listed:
            return set()
        condition = f"account = ? AND analyst = ? AND {CHARGED} AND sequence IN ({', '.join('?' * len(listed))})"
        with self.store.read() as cursor:
            rows = cursor.rows(f"SELECT sequence FROM entry WHERE {condition}", account, analyst, *listed)
        return {whole(row[0]) for row in rows}

    def finest_links(self, account: str, analyst: str) -> list[tuple[Fraction, int, str]]:
        """Level, entry and chain of an analyst's first answer at the finest level of each chain, the finest first."""
        with self.store.read() as cursor:
            levels = cursor.published_levels(account, analyst)
        finest, seen = list[tuple[Fraction, int, str]](), set[str]()
        for level, entries in levels:
            first = {chain: charge for charge, chain in sorted(entries, reverse=True) if chain not in seen}
            newest = sorted(((charge, chain) for chain, charge in first.items()), reverse=True)
            finest += [(level, *one) for one in newest]
            seen.update(first)
        return finest

    def receipt_of(self, account: str, analyst: str, key: str) -> Receipt | None:
        """The receipt that a key of this analyst already has."""
        with self.store.read() as cursor:
            return _receipt_by_key(cursor, account, analyst, key)

    def is_closed(self, receipt: Receipt) -> bool:
        """Whether a charge has no answer, and gets none any more, because the ledger was restored since."""
        with self.store.read() as cursor:
            return cursor.is_restored_since(receipt.sequence) and _load_payload(cursor, receipt.sequence) is None

    def time_of(self, sequence: int) -> str:
        """When the entry with this number was written."""
        with self.store.read() as cursor:
            entry = cursor.entry(sequence)
        return "" if entry is None else str(entry.fields["at"])

    def receipt(self, sequence: int) -> Receipt | None:
        """The receipt of the charge with this number; None when that entry is none."""
        check_number(sequence, "the number of a charge", 1)
        with self.store.read() as cursor:
            return _receipt_at(cursor, sequence)

    def budget_of(self, account: str, analyst: str) -> AnalystBudget:
        """What the analyst spent and may spend, also for one who never asked."""
        check_text(analyst, "an analyst's name")
        with self.store.read() as cursor:
            known = cursor.account(account)
            return cursor.analyst(account, analyst) or _new_budget(known, analyst)

    def room(self, account: str, analyst: str, classes: Iterable[str] | None) -> tuple[Fraction, Fraction | None]:
        """What a release that touches these classes of edges may cost by the data's limit, and by the analyst's own.

        All classes where none are given; None where the analyst has no limit.
        """
        names = None if classes is None else tuple(classes)
        with self.store.read() as cursor:
            known = cursor.account(account)
            budget = cursor.analyst(account, analyst) or _new_budget(known, analyst)
            is_sum = known.accounting == SUM
            losses, by_analyst = (None if is_sum else cursor.losses(account, one) for one in (None, analyst))
        spent = known.spent if losses is None else losses.lost_by(names)
        left = max(Fraction(0), known.limit - spent)
        if budget.limit is None:
            return left, None
        return left, max(
            Fraction(0), budget.limit - (budget.spent if by_analyst is None else by_analyst.lost_by(names))
        )


def _published_mark(cursor: LedgerCursor, receipt: Receipt, publication: Publication | None) -> str | None:
    """The mark of an answer that joins its chain; None for one that publishes nothing there."""
    link = receipt.charge.link
    if link is None or publication is None:
        return None
    marks = cursor.chain_marks(receipt.charge.account, link)
    # A chain that ended meanwhile, by another policy or snapshot, has no members any more: nobody will build on it.
    if marks and {charge for charge, mark in marks.items() if is_published(mark)} != publication.given:
        raise ChainMoved
    return publication.mark if marks else None


def post_charge(cursor: LedgerCursor, charge: Charge, body: str, reached: StepHook) -> Receipt:
    """The receipt of the charge: the one on record for its key, or a new one. Refusals leave no trace."""
    known = _find_by_key(cursor, charge)
    if known is not None:
        return known
    account = cursor.account(charge.account)
    check_versions(charge, account)
    if charge.link is not None:
        check_link(cursor.chain(account.id, charge.link), charge)
    analyst = ensure_analyst(cursor, account, charge.analyst)
    spent, by_analyst, as_asked = _balances(cursor, account, charge)
    is_analyst_over = charge.received > 0 and analyst.limit is not None and by_analyst.value > analyst.limit
    # The data may pay less than the analyst. Whether the analyst is refused must not tell that others have paid a part
    # of these very rows.
    if as_asked.value > account.limit or is_analyst_over:
        raise BudgetExceeded(charge.received, account.remaining, analyst.remaining)
    cursor.save_balance(spent, account.id)
    cursor.save_balance(by_analyst, account.id, charge.analyst)
    cursor.rows("UPDATE account SET charges = charges + 1 WHERE id = ?", account.id)
    reached(DEBITED)
    entry = cursor.append_body("charge", account.id, body, charge)
    cursor.add_link(charge, entry.sequence)
    reached(APPENDED)
    return Receipt(entry.sequence, charge, entry.previous_hash, entry.hash)


def _find_by_key(cursor: LedgerCursor, charge: Charge) -> Receipt | None:
    """The receipt that this key already has; KeyReused when it paid for another request, or ChargeClosed."""
    receipt = _receipt_by_key(cursor, charge.account, charge.analyst, charge.key)
    if receipt is None:
        return None
    if receipt.charge.request_digest != charge.request_digest:
        raise KeyReused(charge.key)
    if cursor.is_restored_since(receipt.sequence) and _load_payload(cursor, receipt.sequence) is None:
        raise ChargeClosed(receipt.sequence, charge.key)
    return receipt


def _receipt_by_key(cursor: LedgerCursor, account: str, analyst: str, key: str) -> Receipt | None:
    entries = cursor.entries("account = ? AND analyst = ? AND charge_key = ?", account, analyst, key)
    return receipt_of(entries[0]) if entries else None


def _balances(cursor: LedgerCursor, account: Account, charge: Charge) -> tuple[Balance, Balance, Balance]:
    """What the account and the analyst will have spent, and what the account would if it paid what the analyst does.

    Where classes of edges are told apart, the worst of them.
    """
    paid, received = charge.epsilon, charge.received
    if account.accounting == SUM:
        data, own = cursor.balance(account.id), cursor.balance(account.id, charge.analyst)
        return data.plus(paid), own.plus(received), data.plus(received)
    lost, own_lost = (cursor.losses(account.id, name) or ClassLosses() for name in (None, charge.analyst))

    def after(before: ClassLosses, amount: Fraction) -> ClassLosses:
        return before.plus(amount, in_classes(account.accounting, charge.losses_of(amount)))

    of_data, of_analyst = after(lost, paid), after(own_lost, received)
    cursor.save_losses(of_data, account.id)
    cursor.save_losses(of_analyst, account.id, charge.analyst)
    spent, by_analyst, as_asked = (NOTHING.plus(one.worst) for one in (of_data, of_analyst, after(lost, received)))
    return spent, by_analyst, as_asked


def ensure_analyst(cursor: LedgerCursor, account: Account, name: str) -> AnalystBudget:
    """The analyst's budget on the account, opened with the default limit at the first question."""
    known = cursor.analyst(account.id, name)
    if known is not None:
        return known
    if cursor.rows("SELECT 1 FROM entry WHERE account = ? AND analyst = ? LIMIT 1", account.id, name):
        raise LedgerCorrupt("an analyst who was charged has no balance any more")
    insert = f"INSERT INTO analyst ({ANALYST_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0)"
    cursor.rows(insert, account.id, name, str(NOTHING.units), str(NOTHING.grid), *limit_values(account.analyst_limit))
    return _new_budget(account, name)


def _new_budget(account: Account, analyst: str) -> AnalystBudget:
    return AnalystBudget(account.id, analyst, Fraction(0), account.analyst_limit, is_individual=False)


def _versions(known: Account | Charge) -> dict[str, int]:
    return {
        "policy version": known.policy_version,
        "domain version": known.domain_version,
        "snapshot": known.snapshot,
    }


def check_versions(seen: Account | Charge, known: Account) -> None:
    """StaleVersion unless what was quoted, or worked out, for a policy, domain and snapshot finds them in force."""
    in_force = _versions(known)
    for what, version in _versions(seen).items():
        if version != in_force[what]:
            raise StaleVersion(what, version, in_force[what])


def _answer(cursor: LedgerCursor, receipt: Receipt) -> bytes | None:
    """The stored answer, if any; DigestMismatch unless every field of the receipt is what the chain has on record."""
    if _receipt_at(cursor, receipt.sequence) != receipt:
        raise DigestMismatch("this receipt is not on record. Charge first, and use the receipt that comes back.")
    return _load_payload(cursor, receipt.sequence)


def _receipt_at(cursor: LedgerCursor, sequence: int) -> Receipt | None:
    entry = cursor.entry(sequence)
    return None if entry is None or entry.kind != "charge" else receipt_of(entry)


def _load_payload(cursor: LedgerCursor, charge: int) -> bytes | None:
    rows = cursor.rows("SELECT entry, payload FROM answer WHERE charge = ?", charge)
    if not rows:
        # An answer that the chain knows and that is gone: measuring again would publish a second draw.
        later = cursor.entries("kind = 'answer' AND sequence > ?", charge)
        if any(entry.fields.get("charge") == charge for entry in later):
            raise LedgerCorrupt("a stored answer is missing", sequence=charge)
        return None
    payload, entry = rows[0][1], cursor.entry(whole(rows[0][0]))
    if not isinstance(payload, bytes) or entry is None or entry.fields.get("payload_digest") != digest(payload):
        raise LedgerCorrupt("a stored answer is not the one that was recorded", sequence=charge)
    return payload
