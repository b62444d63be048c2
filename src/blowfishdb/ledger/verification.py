"""A full check of the ledger: every hash, limit, balance and answer, rebuilt from the entries alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from blowfishdb.errors import BlowfishError, LedgerCorrupt
from blowfishdb.ledger.amounts import SUM, ClassLosses
from blowfishdb.ledger.plain import PlainEntries
from blowfishdb.ledger.records import (
    CHARGE_COLUMNS,
    ENTRY_COLUMNS,
    LedgerCursor,
    StoredAnswer,
    digest,
    genesis,
    link,
    past_link,
)
from blowfishdb.ledger.records import text as as_text
from blowfishdb.ledger.records import whole as as_whole
from blowfishdb.ledger.state import AccountState, LedgerState, RuleBroken, Tally, apply_entry
from blowfishdb.ledger.values import AnalystBudget, Fault, Head, Verification, parse_body

UNREADABLE = (BlowfishError, ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the entries up to `head` add up to."""

    head: Head
    state: LedgerState


T = TypeVar("T")
VerifyProgress = Callable[[int, int], None]
"""Called with the number of entries checked and the number there are."""
STRIDE = 500
"""Entries that are read and told of together."""


def verify_since(
    cursor: LedgerCursor, mark: Head | None, start: Checkpoint | None, progress: VerifyProgress | None = None
) -> tuple[Verification, Checkpoint]:
    """Replays the entries after a checkpoint, whose state it changes; the checkpoint that this reached.

    A checkpoint is taken at its word: who passes one has looked that its entry is in the chain.
    """
    head = cursor.head()
    first = start if start is not None else Checkpoint(Head(head.ledger, 0, genesis(head.ledger)), LedgerState())
    reached, fault = replayed(cursor, head, mark, first, progress)
    if fault is None:
        fault = fault_of(lambda: _check_whole(cursor, mark, reached))
    return Verification(reached.head.sequence, reached.head.hash, fault), reached


def replayed(
    cursor: LedgerCursor,
    head: Head,
    mark: Head | None,
    first: Checkpoint,
    progress: VerifyProgress | None = None,
    last: int = 2**62,
) -> tuple[Checkpoint, Fault | None]:
    """How far the entries after a checkpoint follow each other and the rules, and the first that does not.

    Entries after number `last` are not looked at.
    """
    previous, count, state = first.head.hash, first.head.sequence, first.state
    marked = None if mark is None else mark.sequence

    def outcome(fault: Fault | None) -> tuple[Checkpoint, Fault | None]:
        return Checkpoint(Head(head.ledger, count, previous), state), fault

    plain, answers = PlainEntries(state), StoredAnswers(cursor, count)
    if first.head.ledger != head.ledger:
        return outcome(Fault(None, "the checkpoint belongs to another ledger"))
    rows: Iterator[tuple[Any, ...]] = cursor.stream(
        f"SELECT {ENTRY_COLUMNS}, {CHARGE_COLUMNS} FROM entry WHERE sequence > ? AND sequence <= ? ORDER BY sequence",
        count,
        last,
    )
    for row in _in_pieces(rows):
        sequence = count + 1
        try:
            number, kind, name, body, before, chained, analyst, key, request = row
            if number != sequence or before != previous or chained != link(previous, sequence, body):
                sequence = as_whole(number)
                raise RuleBroken(_break_of(row, sequence, count + 1, previous))
            if kind == "charge":
                if not plain.charge(sequence, body, name, analyst, key, request):
                    _apply(cursor, plain, sequence, row)
                plain.pending[sequence] = chained
            elif (
                kind != "answer"
                or not (analyst is key is request is None)
                or not plain.answer(name, body, answers.take(sequence))
            ):
                _apply(cursor, plain, sequence, row)
            if sequence == marked and mark is not None and mark.hash != chained:
                raise RuleBroken("the high-water mark has seen another entry here")
        except RuleBroken as problem:
            return outcome(Fault(sequence, str(problem)))
        except UNREADABLE:
            return outcome(Fault(sequence, "the entry cannot be read"))
        previous, count = chained, sequence
        if progress is not None and count % STRIDE == 0:
            progress(count, head.sequence)
    if progress is not None:
        progress(count, head.sequence)
    if (head.sequence, head.hash) != (count, previous):
        return outcome(Fault(None, f"the entries end at {count}, the head says {head.sequence}"))
    return outcome(None)


def state_at(cursor: LedgerCursor, sequence: int) -> LedgerState:
    """What the entries of a sound ledger add up to, as far as a number."""
    ledger = cursor.head().ledger
    start = Checkpoint(Head(ledger, 0, genesis(ledger)), LedgerState())
    if sequence == 0:
        return start.state
    reached, fault = replayed(
        cursor, Head(ledger, sequence, cursor.hash_at(sequence) or ""), None, start, last=sequence
    )
    if fault is not None:
        raise LedgerCorrupt(fault.reason, sequence=fault.sequence)
    return reached.state


def fault_of(check: Callable[[], None]) -> Fault | None:
    """What a check of balances finds wrong."""
    try:
        check()
    except RuleBroken as problem:
        return Fault(None, str(problem))
    except UNREADABLE:
        return Fault(None, "a balance cannot be read")
    return None


NOT_SEARCHED = (None, None, None)
"""What the searchable columns of an entry other than a charge hold."""


def _break_of(row: tuple[Any, ...], sequence: int, expected: int, previous: str) -> str:
    """What is wrong with an entry that is not the next one as it was written; LedgerCorrupt where it is no text."""
    _, kind, account, body, before, chained, *_ = row
    if not {str}.issuperset(map(type, (kind, body, before, chained))) or not isinstance(account, str | None):
        raise LedgerCorrupt("a stored text is not text")
    if sequence != expected:
        return f"entry {expected} is missing"
    if before != previous:
        return "it does not follow the entry before it"
    return "its content was changed after it was written"


def _apply(cursor: LedgerCursor, plain: PlainEntries, sequence: int, row: tuple[Any, ...]) -> None:
    """Applies an entry by the fields of its body, which its columns must not contradict."""
    _, kind, name, body, _, _, *searched = row
    if not (isinstance(kind, str) and isinstance(name, str | None)):
        raise LedgerCorrupt("a stored text is not text")
    fields = parse_body(body)
    if fields["kind"] != kind or fields["account"] != name or tuple(searched) != _searched(fields):
        raise RuleBroken("its columns contradict its content")
    apply_entry(plain.state, sequence, kind, name, fields)
    if kind == "answer":
        _check_answer(cursor, sequence, fields)
    elif kind != "charge":
        plain.forget_versions()


def _searched(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the searchable columns must say, by the hashed body."""
    is_charge = fields["kind"] == "charge"
    return (fields["analyst"], fields["key"], fields["request_digest"]) if is_charge else NOT_SEARCHED


NO_ANSWER: StoredAnswer = (0, None)
READ_AHEAD = 64
"""Entries, or stored answers, that are read together: quicker than one by one, and few enough for a small memory."""


def _in_pieces(rows: Iterator[T]) -> Iterator[T]:
    """The same rows, some of them read at once."""
    return itertools.chain.from_iterable(iter(lambda: list(itertools.islice(rows, READ_AHEAD)), []))


@dataclass
class StoredAnswers:
    """The stored answers of the charges after a number, read in the order of their charges, found by their entries."""

    cursor: LedgerCursor
    after: int
    _untold: dict[int, StoredAnswer] = field(default_factory=dict)
    _rows: Iterator[tuple[int, StoredAnswer]] = field(init=False)

    def __post_init__(self) -> None:
        self._rows = _in_pieces(self.cursor.stored_answers("charge > ? ORDER BY charge", self.after))

    def take(self, entry: int) -> StoredAnswer:
        """What is stored as the answer that this entry tells of, once; its charge came before the entry."""
        if entry in self._untold:
            return self._untold.pop(entry)
        for told_by, stored in self._rows:
            if told_by == entry:
                return stored
            self._untold[told_by] = stored
            if stored[0] >= entry:
                break
        return NO_ANSWER


def _check_answer(cursor: LedgerCursor, sequence: int, fields: Mapping[str, Any]) -> None:
    """The answer is stored as it was and belongs to a charge."""
    charge = fields["charge"] if type(fields["charge"]) is int else int(str(fields["charge"]))
    rows, answers = [], []
    if 0 < charge < 2**62:
        rows = cursor.rows("SELECT hash FROM entry WHERE sequence = ? AND kind = 'charge'", charge)
        answers = [*cursor.stored_answers("charge = ?", charge)]
    if fields["payload_digest"] is None or answers != [(sequence, (charge, fields["payload_digest"]))]:
        raise RuleBroken("the stored answer is missing or was changed")
    if [(fields["charge_hash"],)] != rows:
        raise RuleBroken("the answer belongs to no charge")


def _check_whole(cursor: LedgerCursor, mark: Head | None, reached: Checkpoint) -> None:
    """Nothing is there that the entries do not tell of, and every balance says what they add up to."""
    head = reached.head
    entries = as_whole(cursor.rows("SELECT count(*) FROM entry")[0][0])
    if entries != head.sequence:
        raise RuleBroken(f"there are {entries} entries of {head.sequence}")
    is_exchanged = mark is not None and mark.ledger != head.ledger and max(mark.sequence, head.sequence) > 0
    if mark is not None and (is_exchanged or mark.sequence > head.sequence):
        raise RuleBroken(f"the high-water mark is at entry {mark.sequence}, the ledger ends at {head.sequence}")
    _check_balances(cursor, reached.state)


LABELS = {"spent": "spent budget", "analyst_limit": "limit per analyst", "charges": "number of charges"}


def _check_balances(cursor: LedgerCursor, state: LedgerState) -> None:
    """The tables that decide about charges must say what the entries add up to."""
    stored = cursor.account_ids()
    if set(stored) != set(state.accounts):
        raise RuleBroken("the accounts are not those that were opened on record")
    for name in stored:
        account = state.accounts[name]
        _check_account(cursor, name, account)
        budgets = {budget.analyst: budget for budget in cursor.analysts(name)}
        for analyst in sorted(budgets.keys() | account.analysts.keys() | account.individual.keys()):
            _check_analyst(cursor, name, account, analyst, budgets.get(analyst))
        if not _is_linked(cursor, name, account):
            raise RuleBroken(f"account {name}: the chains are not those that the entries tell")
        documents = {
            f"{as_text(kind)} {as_whole(number)}": digest(as_text(document))
            for kind, number, document in cursor.stream(
                "SELECT kind, number, document FROM version WHERE account = ?", name
            )
        }
        if documents != account.documents:
            raise RuleBroken(f"account {name}: the policy or domain documents are not those on record")
    (answers,) = cursor.rows("SELECT count(*) FROM answer")[0]
    if answers != state.answers:
        raise RuleBroken("there are stored answers without an entry")


def _is_linked(cursor: LedgerCursor, name: str, state: AccountState) -> bool:
    """Whether the table of chains says what the entries do; it may write an amount in another way."""
    rows = sorted(row for chain in state.chains.values() for row in chain.links.values())
    stored = cursor.link_rows(name)
    return stored == rows or [*map(past_link, stored)] == [*map(past_link, rows)]


def _check_account(cursor: LedgerCursor, name: str, state: AccountState) -> None:
    account, expected = vars(cursor.account(name)), vars(state.as_account(name))
    for column, value in account.items():
        if value != expected[column]:
            what = LABELS.get(column, column.replace("_", " "))
            raise RuleBroken(f"account {name}: the {what} is {value}, the entries say {expected[column]}")
    if state.accounting != SUM and cursor.losses(name) != state.losses.losses:
        raise RuleBroken(f"account {name}: the losses per class of edges are not what the entries say")


def _check_analyst(
    cursor: LedgerCursor, account: str, state: AccountState, name: str, budget: AnalystBudget | None
) -> None:
    if budget is None:
        if name in state.analysts or name in state.individual:
            raise RuleBroken(f"account {account}: the analyst {name!r} is missing")
        return
    losses = state.analysts.get(name, Tally()).losses
    if budget.spent != losses.worst:
        raise RuleBroken(f"account {account}: what {name!r} spent is not what the entries say")
    if state.accounting != SUM and (cursor.losses(account, name) or ClassLosses()) != losses:
        raise RuleBroken(f"account {account}: the losses of {name!r} per class of edges are not what the entries say")
    if budget.limit != state.limit_of(name) or budget.is_individual != (name in state.individual):
        raise RuleBroken(f"account {account}: the limit of {name!r} is not what the entries say")


def check_spender(cursor: LedgerCursor, account: str, state: AccountState, analyst: str | None) -> None:
    _check_account(cursor, account, state)
    if analyst is not None:
        _check_analyst(cursor, account, state, analyst, cursor.analyst(account, analyst))
