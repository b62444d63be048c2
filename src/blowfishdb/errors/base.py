"""The root of all errors, errors of input, sources and releases, and the words that messages are made of."""

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


class FileRefused(InvalidInput):
    """A file that cannot be written where somebody asked for it."""

    code = "file-refused"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"{name!r} is not written: {reason}. Name a file in a folder that is there and may be written."
        )


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
