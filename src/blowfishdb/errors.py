"""Every error of BlowfishDB: a stable code, typed fields, and a sentence that says what to do."""

from __future__ import annotations

from fractions import Fraction


def amount(epsilon: Fraction) -> str:
    """The amount with up to six digits; the exact one is in the error's fields."""
    short = f"{float(epsilon):.6g}"
    return short if Fraction(short) == epsilon else f"about {short}"


def plural(number: int, noun: str, several: str = "") -> str:
    """The number with its noun, in the singular for one: "1 row", "2,000 rows", "3 people"."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def sentence(text: str) -> str:
    """The text with a capital letter in front and a stop behind."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "?", "!")) else f"{whole}."


def between(least: int, most: int, noun: str) -> str:
    """How many there may be: "1 row", "2 to 4 rows"."""
    return plural(most, noun) if least == most else f"{least:,} to {plural(most, noun)}"


class BlowfishError(Exception):
    """The root of the tree; `code` never changes once published."""

    code = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class InvalidInput(BlowfishError, ValueError):
    """A value that can never work, whatever the data and the policy."""

    code = "invalid-input"


class DomainError(InvalidInput):
    """A domain that is empty, overlaps itself or names a value it does not have."""

    code = "invalid-domain"


class PolicyError(InvalidInput):
    """A policy that does not fit its domain."""

    code = "invalid-policy"


class QueryError(InvalidInput):
    """A query about attributes, values or bins that the domain does not declare."""

    code = "invalid-query"


class WorkloadError(InvalidInput):
    """A set of linear queries whose shape or entries make no sense."""

    code = "invalid-workload"


class PlanError(InvalidInput):
    """A measurement plan with a bad scale, weight or shape."""

    code = "invalid-plan"


class AccuracyError(InvalidInput):
    """An accuracy target outside its range: alpha >= 0, 0 < beta < 1, epsilon > 0."""

    code = "invalid-accuracy"


class ParameterError(AccuracyError):
    """A parameter of a mechanism that it does not take, or a value outside the parameter's range."""

    code = "invalid-parameter"


class NoiseScaleError(InvalidInput):
    """A noise scale that the exact sampler does not serve."""

    code = "invalid-noise-scale"


class DocumentError(InvalidInput):
    """A policy or domain document with a mistake at a known place."""

    code = "invalid-document"

    def __init__(self, message: str, *, path: str = "", line: int | None = None) -> None:
        place = f"line {line}: " if line is not None else ""
        super().__init__(f"{place}{message}")
        self.path = path
        self.line = line


class TooLarge(BlowfishError):
    """A request beyond a stated limit, with both numbers."""

    code = "too-large"

    def __init__(self, what: str, requested: int, limit: int, advice: str) -> None:
        super().__init__(f"{what}: {requested:,} is more than the limit of {limit:,}. {advice}")
        self.requested = requested
        self.limit = limit


class TooExpensive(BlowfishError):
    """Arithmetic that was given up because it takes too long or too much memory; whatever the data."""

    code = "too-expensive"


class WorkCancelled(BlowfishError):
    """Work that was ended because nobody waits for it any more; nothing was charged."""

    code = "cancelled"

    def __init__(self) -> None:
        super().__init__("ended before it was done, because nobody waited for it any more. Nothing was charged.")


class SourceBusy(BlowfishError):
    """A data source to which too many calls have not ended, because it is slow or hangs; nothing new was begun."""

    code = "source-busy"

    def __init__(self, calls: int) -> None:
        super().__init__(
            f"not run: {calls} calls to the data source have not ended, and it takes no more. Try again later."
        )
        self.calls = calls


class SourceError(InvalidInput):
    """A data source whose address, table, columns or join cannot serve; known without reading a row."""

    code = "invalid-source"


class SchemaDrift(SourceError):
    """A table that is gone, or no longer has the columns that were declared; nothing was charged, no row was read."""

    code = "schema-drift"

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(
            f"not run, nothing charged: {reason}. The table of {dataset} is not what was declared; tell the curator."
        )
        self.dataset = dataset


class SourceChanging(SourceError):
    """Files of rows that are being written while they are asked about; nothing was charged and no row was read."""

    code = "source-changing"

    def __init__(self, dataset: str) -> None:
        super().__init__(
            f"not run, nothing charged: the files of {dataset} are being written. Ask again when that is done."
        )
        self.dataset = dataset


class DriverMissing(SourceError):
    """A data source whose driver is not installed, with the extra that installs it."""

    code = "driver-missing"

    def __init__(self, scheme: str, extra: str) -> None:
        super().__init__(f"{scheme} needs a driver that is not installed: pip install 'blowfishdb[{extra}]'")
        self.scheme = scheme
        self.extra = extra


class ExtraMissing(BlowfishError, ImportError):
    """A way to look at an answer that needs a package which is not installed, with the extra that installs it."""

    code = "extra-missing"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: pip install 'blowfishdb[{extra}]'")
        self.package = package
        self.extra = extra


class CatalogError(InvalidInput):
    """A configuration or dataset that cannot serve, and what to write instead."""

    code = "invalid-catalog"

    def __init__(self, message: str, *, line: int | None = None) -> None:
        place = f"line {line}: " if line is not None else ""
        super().__init__(f"{place}{message}")
        self.line = line


class UnknownDataset(CatalogError):
    """A dataset that the configuration does not name."""

    code = "unknown-dataset"


class NotInForce(CatalogError):
    """A dataset whose configuration says another policy or domain than the ledger has in force."""

    code = "not-in-force"

    def __init__(self, dataset: str, kind: str) -> None:
        super().__init__(
            f"the {kind} of {dataset} in the configuration is not the one in force. The curator puts it in force "
            f"with set_{kind}, which carries past loss over, or takes the edit back."
        )
        self.dataset = dataset
        self.kind = kind


class AccessError(BlowfishError):
    """Somebody who has not shown who they are, or who may not do this."""

    code = "access"


class NotSignedIn(AccessError):
    """A request without a login session or token that is still good."""

    code = "not-signed-in"

    def __init__(self) -> None:
        super().__init__("sign in first, or send a token that has not ended")


class SignInRefused(AccessError):
    """A name and a password that do not belong together, or too many tries; it never says which of the two is wrong."""

    code = "sign-in-refused"

    def __init__(self, wait: int) -> None:
        waiting = f"there were too many wrong tries; wait {plural(wait, 'second')}"
        super().__init__(waiting if wait else "the name or the password is wrong. Try again.")
        self.wait = wait


class ProviderUnavailable(AccessError):
    """An OpenID provider that does not answer, or not as one; whoever signs in did nothing wrong."""

    code = "provider-unavailable"

    def __init__(self) -> None:
        super().__init__(
            "your organisation's sign-in does not answer. Try again later, or sign in with a name and a password; the "
            "curator's log says more."
        )


class NotAllowed(AccessError):
    """Something that this person's roles, or this token's scopes, do not include."""

    code = "not-allowed"

    def __init__(self, scope: str, dataset: str = "") -> None:
        where = f" on {dataset}" if dataset else ""
        super().__init__(f"this needs the right to {scope}{where}, which you do not have; ask a curator")
        self.scope = scope


class PasswordMustChange(AccessError):
    """Somebody who still has the one-time password that a curator gave them."""

    code = "password-must-change"

    def __init__(self) -> None:
        super().__init__(
            "change the one-time password first: sign in on the server's web page, or send both passwords to "
            "PUT /api/v1/sessions/current/password"
        )


class AccountsUnavailable(AccessError):
    """The database of users and login sessions does not answer."""

    code = "accounts-unavailable"

    def __init__(self) -> None:
        super().__init__("who you are cannot be checked now. Nothing was done; try again.")


class DatasetPaused(AccessError):
    """A dataset that its curator has paused; nothing was charged and no data was read."""

    code = "dataset-paused"

    def __init__(self, dataset: str, reason: str = "") -> None:
        because = f": {reason}" if reason else ""
        super().__init__(f"not run, nothing charged: {dataset} is paused{because}. Earlier answers stay open to you.")
        self.dataset = dataset
        self.reason = reason


class WaitsForApproval(AccessError):
    """A question above the price from which the curator of its dataset is asked first; nothing was charged."""

    code = "waits-for-approval"

    def __init__(self, dataset: str, number: int, requested: Fraction) -> None:
        super().__init__(
            f"waits for approval as number {number} of {dataset}: it costs epsilon {amount(requested)}, and a curator "
            "says yes or no to so much. Nothing was charged, no data was read. Ask the same again later."
        )
        self.dataset, self.number, self.requested = dataset, number, requested


class ApprovalRefused(AccessError):
    """A question to which the curator of its dataset said no; nothing was charged and no data was read."""

    code = "approval-refused"

    def __init__(self, dataset: str, number: int, reason: str = "") -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            f"not run, nothing charged: number {number} of {dataset} was refused{because}. Ask for less accuracy, or "
            "talk to the curator; whoever decides sees the question and its price, never the answer."
        )
        self.dataset, self.number, self.reason = dataset, number, reason


class CsrfTokenMissing(AccessError):
    """A change from a browser without the CSRF token that shows that it comes from our own page."""

    code = "csrf-token-missing"

    def __init__(self) -> None:
        super().__init__("a change made with a cookie needs the header X-CSRF-Token that signing in gave")


class ForeignOrigin(AccessError):
    """A request that a page of another site sent."""

    code = "foreign-origin"

    def __init__(self) -> None:
        super().__init__("this came from a page of another site; use the server's own address, or set its public_url")


class RateLimited(AccessError):
    """Too many requests in a short time."""

    code = "rate-limited"

    def __init__(self, wait: int) -> None:
        super().__init__(f"too many requests: wait {plural(wait, 'second')}")
        self.wait = wait


class TooManyAtOnce(AccessError):
    """More at the same time than one account, or one address of people who have not signed in, may have here."""

    code = "too-many-at-once"

    def __init__(self, what: str, most: int, wait: int) -> None:
        super().__init__(
            f"you have as many {what} here at once as you may, {most:,}; try again when one of them has ended"
        )
        self.what, self.most, self.wait = what, most, wait


class ServerFull(AccessError):
    """More at the same time than the server can keep, of all who use it; nothing was done."""

    code = "server-full"

    def __init__(self, what: str, wait: int) -> None:
        super().__init__(f"the server has as many {what} at once as it can keep. Nothing was done; try again.")
        self.what, self.wait = what, wait


class TooSlow(AccessError):
    """A request that did not come to its end in time, or an answer that was not taken."""

    code = "too-slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"waited {seconds:g} seconds for the rest: send a request whole, and read its answer")
        self.seconds = seconds


class ConnectionIdle(AccessError):
    """A connection that was closed because nothing was asked over it: for long, or while others needed its place."""

    code = "connection-idle"

    def __init__(self) -> None:
        super().__init__("this connection was idle and is closed: for the time it was, or to make room. Connect again.")


class ProtocolViolation(AccessError):
    """A message to the PostgreSQL port that is not as the protocol says."""

    code = "protocol-violation"


class TransactionFailed(InvalidInput):
    """A statement in a transaction of the PostgreSQL port in which an earlier one failed."""

    code = "transaction-failed"

    def __init__(self) -> None:
        super().__init__(
            "a statement of this transaction failed: end it with ROLLBACK. What was charged stays charged."
        )


class UnknownAnswer(AccessError):
    """An answer that this person does not have; whether somebody else has it is not told."""

    code = "unknown-answer"

    def __init__(self, number: int) -> None:
        super().__init__(f"you have no answer {number} of this dataset; history lists those you have")
        self.number = number


class VersionMismatch(AccessError):
    """A change to a version that is not the one in force any more; nothing was changed."""

    code = "version-mismatch"

    def __init__(self, what: str, current: str) -> None:
        super().__init__(f"not changed: the {what} in force is {current} by now. Look at it, then change that one.")
        self.what = what
        self.current = current


class ServerUnreachable(AccessError):
    """A server that does not answer, or that answers something which is none of ours."""

    code = "server-unreachable"


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


class CannotCertify(BlowfishError):
    """A plan whose privacy loss cannot be proven; it is refused, never guessed."""

    code = "cannot-certify"


class InfiniteLoss(CannotCertify):
    """A release that some edge of the policy would distinguish with certainty."""

    code = "infinite-loss"


class Declined(BlowfishError):
    """A mechanism that does not serve this problem, and why; without a name, all of them."""

    code = "mechanism-declined"

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(f"{mechanism} does not apply: {reason}" if mechanism else f"no mechanism applies: {reason}")
        self.mechanism = mechanism
        self.reason = reason


class AllowanceExceeded(BlowfishError):
    """A stage that would spend more than its program allows; the program stops, charged."""

    code = "allowance-exceeded"

    def __init__(self, stage: str, requested: Fraction, allowed: Fraction) -> None:
        super().__init__(f"stage {stage} needs epsilon {amount(requested)}, its allowance is {amount(allowed)}")
        self.stage = stage
        self.requested = requested
        self.allowed = allowed


class DigestMismatch(BlowfishError):
    """A receipt, plan or certificate that does not belong to what it is used for."""

    code = "digest-mismatch"


class NoiseMismatch(DigestMismatch):
    """Noise other than what the certificate was computed for; the release ends, charged, and nothing is published."""

    code = "noise-mismatch"


class NotRevealed(BlowfishError, AttributeError):
    """A figure that a release does not hold, because it would tell more about the data than was paid for."""

    code = "not-revealed"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not revealed by a private release; use {instead}")
        self.what = what


class SourceFailed(BlowfishError):
    """A data source that failed while it was read; its message is in the curator's log only."""

    code = "source-failed"

    def __init__(self, incident: str) -> None:
        super().__init__(f"the data source failed; ask the curator about incident {incident}")
        self.incident = incident


class EngineError(SourceFailed):
    """A data source that failed for a curator before a row was read, in its own words; analysts get SourceFailed."""

    code = "engine-error"

    def __init__(self, incident: str, words: str) -> None:
        super().__init__(incident)
        self.message = (
            f'the data source failed; it says: "{words}". Check that it runs, the address, and what its user may read. '
            f"The curator's log has more under incident {incident}."
        )
        self.words = words


class DeadlinePassed(BlowfishError):
    """A deadline that passed before anything was charged or read."""

    code = "deadline-passed"

    def __init__(self, deadline: float) -> None:
        super().__init__(f"not run, nothing charged: a deadline of {deadline:g} s passed before any data was read")
        self.deadline = deadline


class SourcesUnavailable(BlowfishError):
    """A data source that does not answer a server that asks whether it is there."""

    code = "sources-unavailable"

    def __init__(self) -> None:
        super().__init__("a data source does not answer; the curator's log says which. Try again later.")


class ReleaseFailed(BlowfishError):
    """A release that failed after it was charged; the detail is in the curator's log only.

    How and when a release fails can depend on the data, so the charge stands. While `can_retry`, the same question
    with the same key goes on under the same charge.
    """

    code = "release-failed"

    def __init__(self, incident: str, epsilon: Fraction, key: str, *, can_retry: bool) -> None:
        what_next = (
            f"Ask the same again, with the same key ({key}), to retry without a second charge."
            if can_retry
            else "Its charge is used up; ask again with another key, which is charged anew."
        )
        super().__init__(
            f"the release failed; ask the curator about incident {incident}. The charge of {amount(epsilon)} stands, "
            f"because how and when a release fails can depend on the data. {what_next}"
        )
        self.incident = incident
        self.epsilon = epsilon
        self.key = key
        self.can_retry = can_retry


class ReleaseCancelled(ReleaseFailed):
    """A release whose count was ended after it was charged, because somebody cancelled it or nobody waited any more.

    The charge stands; the same question with the same key goes on under it.
    """

    code = "release-cancelled"

    def __init__(self, epsilon: Fraction, key: str) -> None:
        BlowfishError.__init__(
            self,
            "the count was cancelled, or nobody waited for it any more. "
            f"The charge of {amount(epsilon)} stands: ask the same again, with the same key, to have it answered "
            "without a second charge.",
        )
        self.incident = ""
        self.epsilon = epsilon
        self.key = key
        self.can_retry = True


class InternalError(BlowfishError):
    """Something that should not happen; the detail is in the curator's log only."""

    code = "internal-error"

    def __init__(self, incident: str) -> None:
        super().__init__(f"something went wrong inside; ask the curator about incident {incident}")
        self.incident = incident


def error_types() -> dict[str, type[BlowfishError]]:
    """Every kind of error by the name of its class."""
    kinds, waiting = dict[str, type[BlowfishError]](), [BlowfishError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == __name__:
            kinds[kind.__name__] = kind
            waiting += kind.__subclasses__()
    return dict(sorted(kinds.items()))
