"""Who may do what on a server, and how often."""

from __future__ import annotations

from blowfishdb.errors.root import BlowfishError


class AccessError(BlowfishError):
    """Somebody who has not shown who they are, or who may not do this."""

    code = "access"


class NotSignedIn(AccessError):
    """A request without a visit or token that is still good."""

    code = "not-signed-in"

    def __init__(self) -> None:
        super().__init__("sign in first, or send a token that has not ended")


class SignInRefused(AccessError):
    """A name and a password that do not belong together, or too many tries; it never says which of the two is wrong."""

    code = "sign-in-refused"

    def __init__(self, wait: int) -> None:
        waiting = f"there were too many wrong tries; wait {wait} seconds"
        super().__init__(waiting if wait else "the name or the password is wrong. Try again.")
        self.wait = wait


class NotAllowed(AccessError):
    """Something that this person's role, or this token's scopes, do not include."""

    code = "not-allowed"

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs the right to {scope}, which you do not have; ask a curator")
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
    """The database of people and visits does not answer."""

    code = "accounts-unavailable"

    def __init__(self) -> None:
        super().__init__("who you are cannot be checked now. Nothing was done; try again.")


class DatasetPaused(AccessError):
    """A dataset that its curator has paused; nothing was charged and no data was read."""

    code = "dataset-paused"

    def __init__(self, dataset: str, reason: str = "") -> None:
        said = f": {reason}" if reason else ""
        super().__init__(f"not run, nothing charged: {dataset} is paused{said}. Earlier answers stay open to you.")
        self.dataset = dataset
        self.reason = reason


class ProofMissing(AccessError):
    """A change from a browser without the proof that it comes from our own page."""

    code = "proof-missing"

    def __init__(self) -> None:
        super().__init__("a change made with a cookie needs the header X-Blowfish-Proof that signing in gave")


class ForeignOrigin(AccessError):
    """A request that a page of another site sent."""

    code = "foreign-origin"

    def __init__(self) -> None:
        super().__init__("this came from a page of another site; use the server's own address, or set its public_url")


class RateLimited(AccessError):
    """Too many requests in a short time."""

    code = "rate-limited"

    def __init__(self, wait: int) -> None:
        super().__init__(f"too many requests: wait {wait} seconds")
        self.wait = wait


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
