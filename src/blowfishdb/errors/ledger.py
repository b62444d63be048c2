"""Errors of the ledger: limits, keys, versions, copies and restores."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors.base import BlowfishError, amount


class LedgerError(BlowfishError):
    """A request that the budget ledger does not carry out."""

    code = "ledger-error"


class BudgetExceeded(LedgerError):
    """A charge above what the data or the analyst has left; nothing was charged and no data was read.

    What the data has left is None where the curator does not show it.
    """

    code = "budget-exceeded"

    def __init__(
        self,
        requested: Fraction,
        remaining_dataset: Fraction | None,
        remaining_analyst: Fraction | None,
        instead: tuple[str, ...] = (),
    ) -> None:
        known = [left for left in (remaining_dataset, remaining_analyst) if left is not None]
        analyst = "" if remaining_analyst is None else f"{amount(remaining_analyst)} is left for this analyst"
        words = [f"{amount(remaining_dataset)} is left for the data"] if remaining_dataset is not None else []
        if remaining_dataset is None and (remaining_analyst is None or requested <= remaining_analyst):
            words = ["less than that is left for the data"]
        advice = " Ask for less accuracy." if min(known, default=requested) > 0 else ""
        if instead:
            advice = f" With what is left you can have: {', or '.join(instead)}."
        super().__init__(
            f"not run, nothing charged: this costs epsilon {amount(requested)}; "
            f"{' and '.join([*words, *filter(None, [analyst])])}.{advice} The curator can renew the budget."
        )
        self.requested = requested
        self.remaining_dataset = remaining_dataset
        self.remaining_analyst = remaining_analyst
        self.instead = instead


class SpendingCapReached(LedgerError):
    """A charge above what whoever asks allowed for it; nothing was charged and no data was read."""

    code = "spending-cap-reached"
    advice = "may be spent. Allow more, or ask for less accuracy."

    def __init__(self, requested: Fraction, allowed: Fraction) -> None:
        super().__init__(
            f"not run, nothing charged: this costs epsilon {amount(requested)}, and {amount(allowed)} {self.advice}"
        )
        self.requested = requested
        self.allowed = allowed


class TokenCapReached(SpendingCapReached):
    """A charge above what a curator lets the token spend with which it was asked; nothing was charged."""

    code = "token-cap-reached"
    advice = "is left of what this token may spend. A curator can raise its cap, or ask for less accuracy."


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


class ChargeClosed(LedgerError):
    """A charge without an answer on a ledger that was restored since; an answer may be out, and no other is drawn."""

    code = "charge-closed"

    def __init__(self, sequence: int, key: str) -> None:
        super().__init__(
            f"entry {sequence} was charged with the key {key!r} before the ledger was restored, and its answer is not "
            "on record here. A charge pays for one draw, which may have been made elsewhere. Ask with another key; "
            "that is charged anew."
        )
        self.sequence = sequence
        self.key = key


class DrillCopy(LedgerError):
    """A question to a ledger that was restored as a drill; nothing was charged, and stored answers come back."""

    code = "drill-copy"

    def __init__(self) -> None:
        super().__init__(
            "not run, nothing charged: this ledger was restored as a drill and releases nothing new. A curator makes it"
            " the one that counts with blowfish ledger accept; the one it was copied from must not be asked after that."
        )


class StaleVersion(LedgerError):
    """A charge that was quoted under an older policy, domain or snapshot; nothing was charged."""

    code = "stale-version"

    def __init__(self, what: str, quoted: int, current: int) -> None:
        super().__init__(f"this was quoted for {what} {quoted}, and {current} is in force. Preview it again.")
        self.what = what
        self.quoted = quoted
        self.current = current


class ChainMoved(LedgerError):
    """Answers that share their noise grew by one more while this one was made; nothing was charged or stored."""

    code = "chain-moved"

    def __init__(self) -> None:
        super().__init__("another release of the same rows came in between. Ask again: the price may be lower by now.")


class ContentChanged(BlowfishError):
    """An answer that was to make earlier ones more accurate, over data that is not proven to be the same any more."""

    code = "content-changed"

    def __init__(self, epsilon: Fraction) -> None:
        super().__init__(
            "the data is not known to be what it was when the answers were made that this one builds on. Nothing was "
            f"measured; epsilon {amount(epsilon)} stays charged. Ask with fresh noise (fresh=True; --fresh)."
        )
        self.epsilon = epsilon


class UnknownAccount(LedgerError):
    """An account that this ledger does not have."""

    code = "unknown-account"

    def __init__(self, account: str) -> None:
        super().__init__(
            f"this ledger has no account {account!r}. Put back the ledger that has it, or add its dataset anew with "
            "`blowfish dataset add`."
        )
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

    REMEDY = "Restore the newest copy, or accept this one with accept_restored_ledger, which records it."

    def __init__(self, reason: str, *, found: int, expected: int, remedy: str = REMEDY) -> None:
        super().__init__(f"{reason} {remedy}")
        self.found = found
        self.expected = expected


class BackupRefused(LedgerError):
    """A backup that is not put back: it would replace something, or lacks spending that nobody here can count."""

    code = "backup-refused"


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
