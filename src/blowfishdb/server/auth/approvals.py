"""Approvals: questions above a price that a curator has to say yes to, each released once and for no more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from blowfishdb.engine.charge import BeforeCharge
from blowfishdb.errors import ApprovalRefused, BlowfishError, InvalidInput, TooLarge, WaitsForApproval
from blowfishdb.ledger import Charge
from blowfishdb.server.auth.audit_log import AuditLog
from blowfishdb.server.auth.database import AuthCursor, AuthRow, Database

State: TypeAlias = Literal["waiting", "approved", "refused", "used"]
DAYS = 14
"""Days after which nobody waits any more, a yes ends, and what was refused may be asked again."""
MOST_WAITING = 50
"""Questions of one analyst that may wait on a dataset."""
LONGEST_REASON = 400


@dataclass(frozen=True)
class Approval:
    """A question that waits or waited for a yes: whose, what, its price, and what became of it."""

    dataset: str
    number: int
    analyst: str
    question: str
    epsilon: Fraction
    state: State
    at: str
    ends: int
    decided_by: str = ""
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Approvals:
    """The price from which each dataset's curator is asked first, and what was asked."""

    database: Database

    def above(self, dataset: str) -> Fraction | None:
        """The price above which questions wait; None where none does."""
        row = self.database.row("SELECT epsilon FROM approval_rule WHERE dataset = ?", dataset)
        return None if row is None else Fraction(row["epsilon"])

    def set_above(self, dataset: str, epsilon: Fraction | None) -> None:
        """Sets the price above which questions wait; None lets all pass."""
        if epsilon is not None and epsilon < 0:
            raise InvalidInput("questions wait above an epsilon of 0 or more")
        with self.database.write() as cursor:
            cursor.rows("DELETE FROM approval_rule WHERE dataset = ?", dataset)
            if epsilon is not None:
                cursor.insert("approval_rule", {"dataset": dataset, "epsilon": str(epsilon)})

    def forget(self, dataset: str) -> None:
        """Drops what waits on a dataset that is gone, and its rule."""
        with self.database.write() as cursor:
            for table in ("approval_rule", "approval"):
                cursor.rows(f"DELETE FROM {table} WHERE dataset = ?", dataset)

    def of(self, dataset: str, analyst: str | None = None) -> list[Approval]:
        """What was asked on a dataset and has not ended, of everybody or of one analyst, newest first."""
        condition, values = ("", ()) if analyst is None else (" AND analyst = ?", (analyst,))
        rows = self.database.rows(
            f"SELECT * FROM approval WHERE dataset = ? AND ends > ?{condition} ORDER BY number DESC",
            *(dataset, self.database.clock.now(), *values),
        )
        return [_approval(row) for row in rows]

    def decide(self, dataset: str, number: int, *, yes: bool, by: str, reason: str = "") -> Approval:
        """Says yes or no to a question that waits."""
        if len(reason) > LONGEST_REASON:
            raise InvalidInput(f"a reason has at most {LONGEST_REASON} characters")
        now = self.database.clock.now()
        with self.database.write() as cursor:
            row = cursor.row("SELECT * FROM approval WHERE dataset = ? AND number = ?", dataset, number)
            if row is None or row["state"] != "waiting" or row["ends"] <= now:
                raise InvalidInput(f"no question waits as number {number} of {dataset}")
            state: State = "approved" if yes else "refused"
            change = "UPDATE approval SET state = ?, decided_by = ?, reason = ?, ends = ?"
            cursor.rows(
                f"{change} WHERE dataset = ? AND number = ?", state, by, reason, now + DAYS * 86_400, dataset, number
            )
        return replace(_approval(row), state=state, decided_by=by, reason=reason, ends=now + DAYS * 86_400)

    def take(self, dataset: str, analyst: str, charges: Sequence[Charge], epsilon: Fraction) -> int | None:
        """The number of the yes with which these charges of an analyst are made, used up; None where none is needed.

        WaitsForApproval, with a number to come back with, while there is none; ApprovalRefused after a no.
        """
        above = self.above(dataset)
        if above is None or epsilon <= above:
            return None
        digest = _digest(charges)
        with self.database.write() as cursor:
            row = self._newest(cursor, dataset, analyst, digest)
            known = None if row is None else _approval(row)
            if known is not None and known.state == "approved" and epsilon <= known.epsilon:
                _set_state(cursor, dataset, known.number, "used")
                return known.number
            if known is None or known.state in ("used", "approved") or epsilon > known.epsilon:
                known = self._ask(cursor, dataset, analyst, digest, charges, epsilon)
        if known.state == "refused":
            raise ApprovalRefused(dataset, known.number, known.reason)
        raise WaitsForApproval(dataset, known.number, known.epsilon)

    def give_back(self, dataset: str, number: int) -> None:
        """Makes a yes good again with which nothing was charged after all."""
        with self.database.write() as cursor:
            _set_state(cursor, dataset, number, "approved")

    def _newest(self, cursor: AuthCursor, dataset: str, analyst: str, digest: str) -> AuthRow | None:
        return cursor.row(
            "SELECT * FROM approval WHERE dataset = ? AND analyst = ? AND digest = ? AND ends > ?"
            " ORDER BY number DESC LIMIT 1",
            *(dataset, analyst, digest, self.database.clock.now()),
        )

    def _ask(
        self, cursor: AuthCursor, dataset: str, analyst: str, digest: str, charges: Sequence[Charge], epsilon: Fraction
    ) -> Approval:
        """Puts a question on the list; what waited for the same at another price is replaced."""
        clock = self.database.clock
        same = "dataset = ? AND analyst = ? AND state = 'waiting'"
        cursor.rows(f"DELETE FROM approval WHERE {same} AND digest = ?", dataset, analyst, digest)
        waiting = len(cursor.rows(f"SELECT 1 FROM approval WHERE {same} AND ends > ?", dataset, analyst, clock.now()))
        if waiting >= MOST_WAITING:
            raise TooLarge("questions that wait for approval", waiting + 1, MOST_WAITING, "Wait for an answer first.")
        last = cursor.row("SELECT MAX(number) AS number FROM approval WHERE dataset = ?", dataset)
        number = 1 + ((last or {}).get("number") or 0)
        question = "; ".join(dict.fromkeys(_words(one) for one in charges))
        ends = clock.now() + DAYS * 86_400
        approval = Approval(dataset, number, analyst, question, epsilon, "waiting", clock.text(), ends)
        cursor.insert("approval", {**vars(approval), "epsilon": str(epsilon), "digest": digest})
        return approval


@dataclass(eq=False)
class ApprovalGuard:
    """What hears the prices of one release before they are charged, and stops what waits for a yes.

    A yes whose price is taken back is good again: nothing was charged with it.
    """

    approvals: Approvals
    audit_log: AuditLog
    dataset: str
    analyst: str
    before_charge: BeforeCharge | None
    """Who hears of them after it."""
    _prices: dict[str, Fraction] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)

    def __call__(self, price: Fraction, charges: Sequence[Charge]) -> None:
        digest = _digest(charges)
        if price:
            self._take(digest, self._prices.get(digest, Fraction(0)) + price, charges)
        try:
            if self.before_charge is not None:
                self.before_charge(price, charges)
        except BlowfishError:
            self._give_back(digest)
            raise

    def _take(self, digest: str, price: Fraction, charges: Sequence[Charge]) -> None:
        """Uses a yes up for the whole price of some charges, in place of the one for an attempt before.

        More accuracy of an earlier answer counts with what that answer cost: small steps add up to a large one.
        """
        self._give_back(digest)
        joint = sum((one.link.level if one.link and one.epsilon else one.epsilon for one in charges), Fraction(0))
        try:
            number = self.approvals.take(self.dataset, self.analyst, charges, max(price, joint) if price else price)
        except WaitsForApproval as error:
            self.audit_log.note(self.analyst, "waits for approval", self.dataset, {"number": error.number})
            raise
        self._prices[digest] = price
        if number is not None:
            self._taken[digest] = number

    def _give_back(self, digest: str) -> None:
        number = self._taken.pop(digest, None)
        if number is not None:
            self.approvals.give_back(self.dataset, number)


def _digest(charges: Sequence[Charge]) -> str:
    return hashlib.sha256("\n".join(sorted(one.request_digest for one in charges)).encode()).hexdigest()


def _words(charge: Charge) -> str:
    certificate = json.loads(charge.certificate)
    return f"{certificate.get('question', '')} ({certificate.get('mechanism', '')})"


def _set_state(cursor: AuthCursor, dataset: str, number: int, state: State) -> None:
    cursor.rows("UPDATE approval SET state = ? WHERE dataset = ? AND number = ?", state, dataset, number)


def _approval(row: AuthRow) -> Approval:
    return Approval(**{name: row[name] for name in row if name != "digest"} | {"epsilon": Fraction(row["epsilon"])})
