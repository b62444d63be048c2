"""Input that cannot work: values, documents, sources and configurations."""

from __future__ import annotations

from blowfishdb.errors.root import BlowfishError


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


class SourceError(InvalidInput):
    """A data source whose address, table, columns or join cannot serve; known without reading a row."""

    code = "invalid-source"


class SchemaDrift(SourceError):
    """A table that no longer has the columns that were declared; nothing was charged and no row was read."""

    code = "schema-drift"

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(
            f"not run, nothing charged: {reason}. The table of {dataset} no longer fits its domain; tell the curator."
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
