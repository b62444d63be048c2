"""What the budget ledger refuses, and its faults."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors.root import BlowfishError, amount


class LedgerError(BlowfishError):
    """A request that the budget ledger does not carry out."""

    code = "ledger-error"


class BudgetExceeded(LedgerError):
    """A charge above what the data or the analyst has left; nothing was charged and no data was read."""

    code = "budget-exceeded"

    def __init__(
        self,
        requested: Fraction,
        remaining_dataset: Fraction,
        remaining_analyst: Fraction | None,
        instead: tuple[str, ...] = (),
    ) -> None:
        own = "" if remaining_analyst is None else f" and {amount(remaining_analyst)} for this analyst"
        advice = f"With what is left you can have: {', or '.join(instead)}." if instead else "Ask for less accuracy."
        super().__init__(
            f"not run, nothing charged: this costs epsilon {amount(requested)}; {amount(remaining_dataset)} is left "
            f"for the data{own}. {advice} The curator can renew the budget."
        )
        self.requested = requested
        self.remaining_dataset = remaining_dataset
        self.remaining_analyst = remaining_analyst
        self.instead = instead


class AmountTooFine(LedgerError):
    """An amount whose denominator the exact account cannot carry; `nearest_above` always works."""

    code = "amount-too-fine"

    def __init__(self, requested: Fraction, nearest_above: Fraction) -> None:
        super().__init__(f"this is too fine a fraction for the account. Use {nearest_above}, the next short one.")
        self.requested = requested
        self.nearest_above = nearest_above


class KeyReused(LedgerError):
    """An idempotency key that already belongs to another request of the same analyst."""

    code = "key-reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} was used for another request. Use a new key for a new request.")
        self.key = key


class StaleVersion(LedgerError):
    """A charge that was quoted under an older policy, domain or snapshot; nothing was charged."""

    code = "stale-version"

    def __init__(self, what: str, quoted: int, current: int) -> None:
        super().__init__(f"this was quoted for {what} {quoted}, and {current} is in force. Preview it again.")
        self.what = what
        self.quoted = quoted
        self.current = current


class UnknownAccount(LedgerError):
    """An account that this ledger does not have."""

    code = "unknown-account"

    def __init__(self, account: str) -> None:
        super().__init__(f"there is no account {account!r}. Register the data first.")
        self.account = account


class AccountConflict(LedgerError):
    """Data that already has an account on other terms; the terms change only by a recorded action."""

    code = "account-conflict"

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"this data already has an account with another {what}. {advice}")
        self.what = what


class ChangeRefused(LedgerError):
    """A curator's change that past releases do not allow; nothing was changed."""

    code = "change-refused"


class LedgerRolledBack(LedgerError):
    """A ledger that is older than, or another than, the one its high-water mark has seen."""

    code = "ledger-rolled-back"

    def __init__(self, reason: str, *, found: int, expected: int) -> None:
        super().__init__(
            f"{reason} Restore the newest copy, or accept this one with accept_restored_ledger, which records it."
        )
        self.found = found
        self.expected = expected


class LedgerCorrupt(LedgerError):
    """A ledger whose entries or balances contradict each other; it is not used until that is settled."""

    code = "ledger-corrupt"

    def __init__(self, reason: str, *, sequence: int | None = None) -> None:
        place = f"entry {sequence}: " if sequence is not None else ""
        super().__init__(f"{place}{reason}. Run verify, and restore a sound copy.")
        self.reason = reason
        self.sequence = sequence


class LedgerUnavailable(LedgerError):
    """A ledger that cannot be reached or written now; without a receipt nothing is released."""

    code = "ledger-unavailable"
