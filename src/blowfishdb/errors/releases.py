"""Releases that cannot be certified, or that failed."""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors.root import BlowfishError, amount


class CannotCertify(BlowfishError):
    """A plan whose privacy loss cannot be proven; it is refused, never guessed."""

    code = "cannot-certify"


class InfiniteLoss(CannotCertify):
    """A release that some edge of the policy would distinguish with certainty."""

    code = "infinite-loss"


class Declined(BlowfishError):
    """A mechanism that does not serve this problem, and why."""

    code = "mechanism-declined"

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(f"{mechanism} does not apply: {reason}")
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


class NotRevealed(BlowfishError, AttributeError):
    """A figure that a release does not hold, because it would tell more about the data than was paid for."""

    code = "not-revealed"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not revealed by a private release; use {instead}")
        self.what = what


class SourceFailed(BlowfishError):
    """A data source that failed while it was read; what it said is in the curator's log only."""

    code = "source-failed"

    def __init__(self, incident: str) -> None:
        super().__init__(f"the data source failed; ask the curator about incident {incident}")
        self.incident = incident


class DeadlinePassed(BlowfishError):
    """A deadline that passed before anything was charged or read."""

    code = "deadline-passed"

    def __init__(self, deadline: float) -> None:
        super().__init__(f"not run, nothing charged: {deadline:g} seconds passed before any data was read")
        self.deadline = deadline


class ReleaseFailed(BlowfishError):
    """A release that failed after it was charged; the detail is in the curator's log only.

    How and when a release fails can depend on the data, so the charge stands. While `can_retry`, the same question
    with the same key goes on under the same charge.
    """

    code = "release-failed"

    def __init__(self, incident: str, epsilon: Fraction, key: str, *, can_retry: bool) -> None:
        what_next = (
            "Ask the same again, with the same key, to retry without a second charge."
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


class InternalError(BlowfishError):
    """Something that should not happen; the detail is in the curator's log only."""

    code = "internal-error"

    def __init__(self, incident: str) -> None:
        super().__init__(f"something went wrong inside; ask the curator about incident {incident}")
        self.incident = incident
