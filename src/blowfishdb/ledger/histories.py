"""Histories of one ledger that parted: what one of them lacks of the others, and what all have lost together.

The proof is docs/proofs/ledger.md. Every history is written under a mark of its own, and whatever takes the place of a
ledger begins a new one, so the eras of two histories tell where they part even where the entries of one are gone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

from blowfishdb.errors import LedgerRolledBack
from blowfishdb.ledger.amounts import EASY, NOTHING, ClassLosses, check_amount
from blowfishdb.ledger.mark import HighWaterMark
from blowfishdb.ledger.records import LedgerCursor, limit_values, text
from blowfishdb.ledger.state import LedgerState
from blowfishdb.ledger.values import Era, Seen, Spending, Spent, parse_body, spending_fields, spending_of
from blowfishdb.ledger.verification import state_at


@dataclass(frozen=True)
class Witness:
    """Where a history ended and what was spent by then, with its entries where they are at hand."""

    seen: Seen
    entries: LedgerCursor | None = None

    def has(self, other: Seen) -> bool:
        """Whether this history holds, or has counted, everything that was spent in another one."""
        head = other.head
        if head.sequence == 0 or head == self.seen.head:
            return True
        eras = self.seen.eras
        if self.entries is not None:
            if self.entries.hash_at(head.sequence) == head.hash:
                return True
            # Its own eras tell of entries, which are looked at above.
            eras = _counted_eras(self.entries)
        return any(other.eras and era.guard == other.eras[-1].guard and era.end >= head.sequence for era in eras)


@dataclass(frozen=True)
class Branch:
    """A history that the kept one lacks at least a part of."""

    witness: Witness
    parted: int | None
    """The last entry that both have; None where that is not known."""
    is_ahead: bool
    """Whether it goes on from where the kept one ends."""

    @property
    def seen(self) -> Seen:
        """Where it ended."""
        return self.witness.seen


@dataclass(frozen=True)
class Takeover:
    """What is known when a copy takes a ledger's place: for the entry that puts it on record."""

    counted: Spending
    """The accounts that count more than the copy did."""
    found: Sequence[Branch]
    marked: Seen | None
    known_until: int | None
    """The last entry of which it is known what was spent; None where the mark knows of all."""


def branches(kept: Witness, witnesses: Sequence[Witness]) -> list[Branch]:
    """The histories that the kept one lacks, without those that are a part of each other; of known parting first."""
    lacking = [one for one in witnesses if one.seen.head.ledger == kept.seen.head.ledger and not kept.has(one.seen)]
    lacking.sort(key=lambda one: (one.seen.head.sequence, one.seen.spending is not None), reverse=True)
    found = [
        _branch(kept, one)
        for place, one in enumerate(lacking)
        if not _is_part(one, lacking[:place], lacking[place + 1 :])
    ]
    return sorted(found, key=lambda branch: branch.parted is None)


def _is_part(one: Witness, before: Sequence[Witness], after: Sequence[Witness]) -> bool:
    """Whether one of the others has this history; of two that have each other, the first stays."""
    others = [*before, *(other for other in after if not one.has(other.seen))]
    # One of which nobody knows what was spent stands for no other.
    return any(other.has(one.seen) for other in others if other.seen.spending is not None or one.seen.spending is None)


def lost_in_all(kept: Witness, found: Sequence[Branch]) -> dict[str, Spent]:
    """The accounts that lost more by all histories together than by the kept one alone, with what they lost."""
    own = {**_most(lost_elsewhere(_entries(kept))), **(kept.seen.spending or {})}
    lost = dict(own)
    for number, branch in enumerate(found):
        beyond = _lost_beyond(kept, branch, own, is_first=number == 0)
        for account, spent in (branch.seen.spending or {}).items():
            before = lost[account].amount if account in lost else Fraction(0)
            lost[account] = Spent(before + max(Fraction(0), beyond[account]), spent.declared)
    return {name: spent for name, spent in lost.items() if name not in own or spent.amount > own[name].amount}


def differs(kept: Witness, branch: Branch) -> bool:
    """Whether an account that was charged there has another policy or domain in the kept history."""
    cursor = _entries(kept)
    here = set(cursor.account_ids())
    return any(
        spent.declared != cursor.declaration(account, known.policy_version, known.domain_version)
        for account, spent in (branch.seen.spending or {}).items()
        if account in here
        for known in [cursor.account(account)]
    )


def known_until(kept: Witness, found: Sequence[Branch], marked: Seen | None) -> int | None:
    """The last entry of which it is known what was spent; None where the mark of this ledger knows of all."""
    if marked is not None and marked.head.ledger == kept.seen.head.ledger and marked.spending is not None:
        return None
    ends = (branch.seen.head.sequence for branch in found if branch.seen.spending is not None)
    return max((kept.seen.head.sequence, *ends))


def marked_by(mark: HighWaterMark) -> Seen | None:
    """What the mark remembers; None without a mark, and for one that cannot be read or has seen nothing."""
    with suppress(LedgerRolledBack):
        seen, identity = mark.seen(), mark.identity()
        if seen is not None and seen.head.sequence > 0:
            is_known = bool(seen.eras) or identity is None
            return seen if is_known else replace(seen, eras=(Era(str(identity), seen.head.sequence),))
    return None


def take_over(kept: Witness, there: Takeover, identity: str, *, by: str, reason: str) -> Seen:
    """Puts a history in force under a new mark, on record with what others are known to have lost beside it.

    All chains end, and charges without an answer get none any more: draws of theirs may be out.
    """
    cursor, counted = _entries(kept), there.counted
    head = None if there.marked is None else there.marked.head
    cursor.rows("DELETE FROM link")
    for account in cursor.account_ids():
        count_restored(cursor, account, counted[account].amount if account in counted else None)
    eras = [[era.guard, era.end] for one in there.found if one.seen.spending is not None for era in one.seen.eras]
    cursor.append(
        "restored",
        None,
        {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": by,
            "reason": reason,
            "mark_ledger": head.ledger if head else None,
            "mark_sequence": head.sequence if head else None,
            "mark_hash": head.hash if head else None,
            "guard": cursor.guard(),
            "known_until": there.known_until,
            "counted": json.dumps(eras),
            "spending": json.dumps(spending_fields(counted)),
        },
    )
    cursor.set_guard(identity)
    return cursor.seen({})


def count_restored(cursor: LedgerCursor, account: str, lost: Fraction | None) -> None:
    """Counts what an account is known to have lost: every class of edges lost at least that, and something was charged.

    A limit below it was raised after the copy was made; it is raised to what is known of it.
    """
    if lost is None:
        return
    check_amount(lost, "what was lost elsewhere")
    known = cursor.account(account)
    cursor.rows("UPDATE account SET charges = ? WHERE id = ?", max(1, known.charges), account)
    if lost > known.limit:
        cursor.rows("UPDATE account SET limit_top = ?, limit_bottom = ? WHERE id = ?", *limit_values(lost), account)
    if lost > known.spent:
        cursor.save_balance(NOTHING.plus(lost), account)
    losses = cursor.losses(account)
    if losses is not None:
        cursor.save_losses(ClassLosses(max(lost, losses.worst)), account)


def lost_elsewhere(cursor: LedgerCursor) -> dict[str, list[Spent]]:
    """What accounts lost in other histories, by each entry that counted it; some of them are not open in this one."""
    lost: dict[str, list[Spent]] = {}
    for entry in cursor.restores():
        for account, spent in spending_of(json.loads(entry.fields["spending"])).items():
            lost.setdefault(account, []).append(spent)
    return lost


def _most(lost: dict[str, list[Spent]]) -> dict[str, Spent]:
    return {account: max(many, key=lambda spent: spent.amount) for account, many in lost.items()}


def _entries(kept: Witness) -> LedgerCursor:
    if kept.entries is None:
        raise ValueError("the entries of the history that is kept are at hand")
    return kept.entries


def _counted_eras(cursor: LedgerCursor) -> tuple[Era, ...]:
    """The eras of other histories whose losses this one has counted."""
    return tuple(Era(guard, end) for entry in cursor.restores() for guard, end in json.loads(entry.fields["counted"]))


def _branch(kept: Witness, one: Witness) -> Branch:
    end = kept.seen.head.sequence
    if one.entries is not None:
        parted: int | None = _last_common(_entries(kept), one.entries, min(end, one.seen.head.sequence))
    else:
        parted = _parted_by_eras(kept.seen, one.seen)
    return Branch(one, parted, parted == end)


def _last_common(one: LedgerCursor, other: LedgerCursor, most: int) -> int:
    """The number of entries that two histories have in common: equal hashes mean an equal past."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if one.hash_at(middle) == other.hash_at(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _parted_by_eras(kept: Seen, other: Seen) -> int | None:
    """The last common entry of two histories; None where eras do not tell, as of copies written to under one mark."""
    common = 0
    for one, two in zip(kept.eras, other.eras, strict=False):
        if one.guard != two.guard:
            break
        common = min(one.end, two.end)
        if one.end != two.end:
            break
    # The kept history does not have the other one, so a part of it cannot be all of the other.
    return common if 0 < common < other.head.sequence else None


def _lost_beyond(kept: Witness, branch: Branch, own: Spending, *, is_first: bool) -> dict[str, Fraction]:
    """The most that a branch adds to the loss of the kept history, by account."""
    spending = branch.seen.spending or {}
    if branch.parted is None or not is_first:
        # Whatever draws of both go on from a common past: that past lost at most as much as the branch.
        return {account: 2 * spent.amount for account, spent in spending.items()}
    if branch.is_ahead:
        return {
            account: spent.amount - own[account].amount if account in own else spent.amount
            for account, spent in spending.items()
        }
    state = state_at(_entries(kept), branch.parted)
    shared = {} if _begins_anew(kept, branch) else _continued_twice(kept, branch, state)
    return {
        account: spent.amount - _lost_by(state, account) + 2 * shared.get(account, Fraction(0))
        for account, spent in spending.items()
    }


def _lost_by(state: LedgerState, account: str) -> Fraction:
    if account in state.accounts:
        return state.accounts[account].losses.losses.worst
    return max((spent.amount for spent in state.lost.get(account, [])), default=Fraction(0))


def _begins_anew(kept: Witness, branch: Branch) -> bool:
    """Whether one of both took a ledger's place where they parted, so that they have no chain in common."""
    if branch.witness.entries is None:
        return True
    sides = (cursor.entry((branch.parted or 0) + 1) for cursor in (_entries(kept), branch.witness.entries))
    return any(entry is not None and entry.kind == "restored" for entry in sides)


def _continued_twice(kept: Witness, branch: Branch, state: LedgerState) -> dict[str, Fraction]:
    """The levels by account of the chains that both histories went on from."""
    parted, other = branch.parted or 0, branch.witness.entries
    both = _chains_after(_entries(kept), parted) & (set() if other is None else _chains_after(other, parted))
    levels: dict[str, Fraction] = {}
    for account, chain in both:
        open_chain = state.accounts[account].chains.get(chain) if account in state.accounts else None
        if open_chain is not None:
            levels[account] = levels.get(account, Fraction(0)) + Fraction(open_chain.paid) / EASY
    return levels


def _chains_after(cursor: LedgerCursor, sequence: int) -> set[tuple[str, str]]:
    """Account and name of each chain that was charged after an entry."""
    query = "SELECT account, body FROM entry WHERE kind = 'charge' AND sequence > ?"
    charges = ((text(account), parse_body(text(body))) for account, body in cursor.stream(query, sequence))
    return {(account, str(fields["chain"])) for account, fields in charges if fields.get("chain") is not None}
