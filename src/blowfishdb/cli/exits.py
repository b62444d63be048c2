"""What the exit codes mean; docs/command-line.md prints the same table."""

from __future__ import annotations

from blowfishdb.errors import (
    AccessError,
    AllowanceExceeded,
    BlowfishError,
    BudgetExceeded,
    CannotCertify,
    DeadlinePassed,
    Declined,
    DigestMismatch,
    ExtraMissing,
    InternalError,
    InvalidInput,
    LedgerError,
    NotConverged,
    NotRevealed,
    ReleaseFailed,
    SourceFailed,
    TooLarge,
)

EXIT_CODES = {
    0: "done",
    1: "something unexpected happened: a fault of BlowfishDB",
    2: "the command was not understood: an unknown command or option, or one that is missing",
    3: "refused: the question, domain, policy or configuration cannot work as it is written",
    4: "refused: the budget does not suffice; nothing was charged",
    5: "the ledger is not available, contradicts itself, or refuses the change",
    6: "the data source failed or did not answer in time",
    7: "no mechanism can answer this, or its privacy cannot be proven",
    8: "the audit found a violation",
    130: "interrupted",
}
"""Exit codes and their meaning."""

KINDS: tuple[tuple[type[BlowfishError], int], ...] = (
    (AccessError, 3),
    (BudgetExceeded, 4),
    (AllowanceExceeded, 4),
    (LedgerError, 5),
    (DigestMismatch, 5),
    (SourceFailed, 6),
    (ReleaseFailed, 6),
    (DeadlinePassed, 6),
    (Declined, 7),
    (CannotCertify, 7),
    (NotConverged, 7),
    (TooLarge, 3),
    (ExtraMissing, 3),
    (NotRevealed, 3),
    (InvalidInput, 3),
    (InternalError, 1),
)
"""Errors and their exit codes; the first line that fits counts."""


def exit_code(error: BlowfishError) -> int:
    """The exit code of an error."""
    return next((code for kind, code in KINDS if isinstance(error, kind)), 1)
