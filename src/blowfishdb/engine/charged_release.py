"""A release from question to stored answer: charged durably before any data is read, published once, replayed free.

The order of the steps is the proof (docs/proofs/release.md): nothing that a request publishes was drawn twice.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.edge_accounting import edge_losses
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.padding import padded, whole_steps
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.request import Request
from blowfishdb.errors import (
    AccuracyError,
    DeadlinePassed,
    DigestMismatch,
    DriverMissing,
    InvalidInput,
    ReleaseFailed,
    SchemaDrift,
    SourceError,
    SourceFailed,
)
from blowfishdb.ledger import Charge, Ledger, Receipt
from blowfishdb.ledger.values import check_text
from blowfishdb.model.encoding import VERSION, version_of
from blowfishdb.sources.base import Counting

logger = logging.getLogger("blowfishdb.curator")

Progress = Callable[[str], None]
STEPS = ("quote", "charge", "answer", "done")
"""What a progress callback hears. None is called between the draw of noise and the record of the answer."""
FAILED = b'{"failed": '


@dataclass(frozen=True)
class Run:
    """How one release is to run: under which key, who hears of its steps, and when it must not begin any more."""

    key: str | None = None
    progress: Progress | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.key is not None:
            check_text(self.key, "a key")
        if self.progress is not None and not callable(self.progress):
            raise InvalidInput("progress is a function that takes the name of a step")
        number = isinstance(self.deadline, int | float) and not isinstance(self.deadline, bool)
        if self.deadline is not None and not (number and 0 < self.deadline < 10**7):
            raise AccuracyError("a deadline is a positive number of seconds")

    def report(self, step: str) -> None:
        """Tells whoever listens."""
        if self.progress is not None:
            self.progress(step)

    def report_done(self) -> None:
        """Tells whoever listens; a listener that fails now must not hide an answer that was paid for."""
        with suppress(Exception):
            self.report("done")


def charged_release(
    ledger: Ledger, holding: Holding, analyst: str, request: Request, prepared: Callable[[], Payable], run: Run
) -> Answer:
    """The answer to a request: the stored one when there is one, else a new one that is charged and stored first."""
    return Answer.from_json(charged_payload(ledger, holding, analyst, request.digest, prepared, run))


def charged_payload(
    ledger: Ledger, holding: Holding, analyst: str, request_digest: str, prepared: Callable[[], Payable], run: Run
) -> bytes:
    """What a request publishes, as it is stored: the kept payload when there is one, else a new one, charged first."""
    started = time.monotonic()
    key = run.key or request_digest
    kept = ledger.replay(holding.account, request_digest, analyst=analyst)
    if kept is not None and not (_is_failure(kept.payload) and kept.receipt.charge.key != key):
        run.report_done()
        return published(kept.payload, kept.receipt)
    run.report("quote")
    ready = prepared()
    charge = _charge(holding, analyst, ready, key, request_digest)
    counting = _prepared_count(holding, ready)
    left = None if run.deadline is None else run.deadline - (time.monotonic() - started)
    if left is not None and left <= 0:
        raise DeadlinePassed(run.deadline or 0)
    run.report("charge")
    receipt = ledger.charge(charge)
    stored = ledger.answer_for(receipt)
    if stored is None:
        check_receipt(receipt, ready)
        run.report("answer")
        limit = None if left is None else whole_steps(left, holding.pad_to)
        # All that takes a time which depends on data. The record comes after the wait: from it on others can see that
        # there is an answer, in the list of synopses and in the numbers of entries.
        measured = padded(holding.pad_to, lambda: _measured(holding, ready, counting, receipt, limit))
        stored = ledger.store_answer(receipt, measured)
    run.report_done()
    return published(stored, receipt)


def check_receipt(receipt: Receipt, ready: Payable) -> None:
    """DigestMismatch unless the receipt paid for exactly this; noise is drawn for nothing else."""
    paid = receipt.charge.program_digest
    own = ready.digest if version_of(paid) == VERSION else ready.digest_1()
    if paid != own or receipt.charge.epsilon != ready.epsilon:
        raise DigestMismatch("the charge on record was made for another plan. Ask with a new key.")


def _charge(holding: Holding, analyst: str, ready: Payable, key: str, request_digest: str) -> Charge:
    return Charge(
        account=holding.account,
        analyst=analyst,
        epsilon=ready.epsilon,
        key=key,
        request_digest=request_digest,
        program_digest=ready.digest,
        policy_version=holding.policy_version,
        domain_version=holding.domain_version,
        snapshot=holding.snapshot,
        certificate=json.dumps(ready.document(), ensure_ascii=False),
        losses=edge_losses(holding, ready),
    )


def _prepared_count(holding: Holding, ready: Payable) -> Counting:
    """The statement that will count, checked against the columns as they are; SchemaDrift when they do not fit."""
    try:
        return ready.counting(holding)
    except DriverMissing:
        raise
    except SourceError as error:
        raise SchemaDrift(holding.name, error.message) from None


def _measured(holding: Holding, ready: Payable, counting: Counting, receipt: Receipt, deadline: float | None) -> bytes:
    """The payload of this receipt's one draw: an answer, or the note that making it failed.

    Failing to count comes before any noise, so it may be tried again. Once noise is drawn, a failure is itself an
    output of the mechanism: it is stored as such, and the receipt is never measured again.
    """
    charge = receipt.charge
    incident = ""
    try:
        counts = counting.run(deadline)
    except SourceFailed as failure:
        incident = failure.incident
    except Exception:  # noqa: BLE001  # whatever it is, it may quote a row
        incident = _log_incident(holding)
    if incident:
        raise ReleaseFailed(incident, charge.epsilon, charge.key, can_retry=True)
    try:
        return ready.payload(counts, holding)
    except Exception:  # noqa: BLE001  # whatever it is, it may depend on the noise
        return FAILED + json.dumps(_log_incident(holding)).encode() + b"}"


def _log_incident(holding: Holding) -> str:
    incident = uuid.uuid4().hex[:12]
    logger.exception("incident %s in a release of %s", incident, holding.name)
    return incident


def _is_failure(payload: bytes) -> bool:
    return payload.startswith(FAILED)


def published(payload: bytes, receipt: Receipt) -> bytes:
    """The payload of a receipt; ReleaseFailed when what is stored is the note that it failed."""
    if _is_failure(payload):
        incident = str(json.loads(payload)["failed"])
        raise ReleaseFailed(incident, receipt.charge.epsilon, receipt.charge.key, can_retry=False)
    return payload
