"""Every error BlowfishDB raises: a stable code, typed fields and a sentence that says what to do."""

from __future__ import annotations

from fractions import Fraction


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
    """A question about attributes, values or bins that the domain does not declare."""

    code = "invalid-query"


class WorkloadError(InvalidInput):
    """A set of linear queries whose shape or entries make no sense."""

    code = "invalid-workload"


class PlanError(InvalidInput):
    """A measurement plan with a bad scale, weight or shape."""

    code = "invalid-plan"


class AccuracyError(InvalidInput):
    """An accuracy demand outside its range: alpha >= 0, 0 < beta < 1, epsilon > 0."""

    code = "invalid-accuracy"


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


class NotConverged(BlowfishError):
    """An iteration that did not reach its accuracy; no half-finished answer is returned."""

    code = "not-converged"

    def __init__(self, what: str, iterations: int) -> None:
        super().__init__(f"{what} did not converge in {iterations:,} iterations. Use fewer cells or rows.")
        self.iterations = iterations


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
        super().__init__(f"stage {stage} needs epsilon {requested}, its allowance is {allowed}")
        self.stage = stage
        self.requested = requested
        self.allowed = allowed


class DigestMismatch(BlowfishError):
    """A receipt, plan or certificate that does not belong to what it is used for."""

    code = "digest-mismatch"
