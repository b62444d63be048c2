"""Errors of people and connections: who they are, what they may do, and how much at once."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors.base import BlowfishError, InvalidInput, amount, plural


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
