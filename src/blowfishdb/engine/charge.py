"""A release from query to stored answer: charged durably before any data is read, published once, replayed free."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from blowfishdb.engine.compile import DatasetHandle, kept_components
from blowfishdb.engine.release import Release
from blowfishdb.errors import (
    AccuracyError,
    BlowfishError,
    CatalogError,
    DeadlinePassed,
    DigestMismatch,
    DriverMissing,
    InvalidInput,
    ReleaseFailed,
    SchemaDrift,
    SourceError,
    SourceFailed,
)
from blowfishdb.incidents import new_incident
from blowfishdb.ledger import Charge, Ledger, Receipt
from blowfishdb.ledger.values import SUM, check_text, class_start, parallel_attribute
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.encoding import VERSION, version_of
from blowfishdb.model.policy import Policy, public
from blowfishdb.model.predicate import Axis
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.sources.base import Counting

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


def charged_payload(
    ledger: Ledger, handle: DatasetHandle, analyst: str, request_digest: str, prepared: Callable[[], Release], run: Run
) -> bytes:
    """What a request publishes, as it is stored: the kept payload when there is one, else a new one, charged first."""
    started = time.monotonic()
    key = run.key or request_digest
    kept = ledger.replay(handle.account, request_digest, analyst=analyst)
    if kept is not None and not (_is_failure(kept.payload) and kept.receipt.charge.key != key):
        run.report_done()
        return published(kept.payload, kept.receipt)
    run.report("quote")
    release = prepared()
    charge = _charge(handle, analyst, release, key, request_digest)
    counting = _prepared_count(handle, release)
    left = None if run.deadline is None else run.deadline - (time.monotonic() - started)
    if left is not None and left <= 0:
        raise DeadlinePassed(run.deadline or 0)
    run.report("charge")
    receipt = ledger.charge(charge)
    stored = ledger.answer_for(receipt)
    if stored is None:
        check_receipt(receipt, release)
        run.report("answer")
        limit = None if left is None else whole_steps(left, handle.pad_to)
        # All that takes a time which depends on data. The record comes after the wait: from it on others can see that
        # there is an answer, in the list of synopses and in the numbers of entries.
        measured = padded(handle.pad_to, lambda: _measured(handle, release, counting, receipt, limit))
        stored = ledger.store_answer(receipt, measured)
    run.report_done()
    return published(stored, receipt)


def check_receipt(receipt: Receipt, release: Release) -> None:
    """DigestMismatch unless the receipt paid for exactly this; noise is drawn for nothing else."""
    paid = receipt.charge.program_digest
    own = release.digest if version_of(paid) == VERSION else release.digest_1()
    if paid != own or receipt.charge.epsilon != release.epsilon:
        raise DigestMismatch("the charge on record was made for another plan. Ask with a new key.")


def _charge(handle: DatasetHandle, analyst: str, release: Release, key: str, request_digest: str) -> Charge:
    return Charge(
        account=handle.account,
        analyst=analyst,
        epsilon=release.epsilon,
        key=key,
        request_digest=request_digest,
        program_digest=release.digest,
        policy_version=handle.policy_version,
        domain_version=handle.domain_version,
        snapshot=handle.snapshot,
        certificate=json.dumps(release.document(), ensure_ascii=False),
        losses=edge_losses(handle, release),
    )


def _prepared_count(handle: DatasetHandle, release: Release) -> Counting:
    """The statement that will count, checked against the columns as they are; SchemaDrift when they do not fit."""
    try:
        return release.counting(handle)
    except DriverMissing:
        raise
    except SourceError as error:
        raise SchemaDrift(handle.name, error.message) from None


def _measured(
    handle: DatasetHandle, release: Release, counting: Counting, receipt: Receipt, deadline: float | None
) -> bytes:
    """The payload of this receipt's one draw: an answer, or the note that making it failed.

    Failing to count comes before any noise, so it may be tried again. Once noise is drawn, a failure is itself an
    output of the mechanism: it is stored as such, and the receipt is never measured again.
    """
    charge, place = receipt.charge, f"a release of {handle.name}"
    incident = ""
    try:
        counts = counting.run(deadline)
    except SourceFailed as failure:
        incident = failure.incident
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
        incident = new_incident(error, place)
    if incident:
        raise ReleaseFailed(incident, charge.epsilon, charge.key, can_retry=True)
    try:
        return release.payload(counts, handle)
    except Exception as error:  # noqa: BLE001  # whatever it is, it may depend on the noise
        return FAILED + json.dumps(new_incident(error, place)).encode() + b"}"


def _is_failure(payload: bytes) -> bool:
    return payload.startswith(FAILED)


def published(payload: bytes, receipt: Receipt) -> bytes:
    """The payload of a receipt; ReleaseFailed when what is stored is the note that it failed."""
    if _is_failure(payload):
        incident = str(json.loads(payload)["failed"])
        raise ReleaseFailed(incident, receipt.charge.epsilon, receipt.charge.key, can_retry=False)
    return payload


Result = TypeVar("Result")
SHORTEST, LONGEST = Fraction(1, 1000), Fraction(600)


@dataclass(frozen=True)
class Pace:
    """The clock that padding reads and how it waits; tests bring their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def check_step(step: Fraction) -> None:
    """CatalogError for a step that is no sensible time."""
    if not SHORTEST <= step <= LONGEST:
        raise CatalogError("pad_to is a time in seconds, from 0.001 to 600, such as '0.25'")


def padded(step: Fraction | None, work: Callable[[], Result], pace: Pace | None = None) -> Result:
    """The result of the work, handed over a whole number of steps after its beginning; failures wait as long."""
    if step is None:
        return work()
    clock = pace or Pace()
    began = clock.now()
    try:
        result = work()
    except Exception:
        _hold(began, float(step), clock)
        raise
    _hold(began, float(step), clock)
    return result


def whole_steps(seconds: float, step: Fraction | None) -> float:
    """A deadline rounded up to a multiple of the step: a shorter one would tell how long the data took."""
    return seconds if step is None else float(math.ceil(Fraction(seconds) / step) * step)


def _hold(began: float, step: float, clock: Pace) -> None:
    """Sleeps until the next multiple of the step; a sleep that ends early is taken up again."""
    until = began + max(1, math.ceil((clock.now() - began) / step)) * step
    while (left := until - clock.now()) > 0:
        clock.sleep(left)


PRESENCE = "presence"
RECORD = "record"


def edge_losses(handle: DatasetHandle, release: Release) -> dict[str, Fraction] | None:
    """What each class of edges loses by this release; None where all of them are to be charged its epsilon."""
    compiled = release.compiled
    if handle.accounting == SUM or handle.policy.constraints or compiled is None:
        return None
    axes = compiled.query.axes
    groups = _group_losses(handle.domain, handle.policy, compiled.cells, axes, release.plan, release.epsilon)
    parallel = parallel_attribute(handle.accounting)
    if parallel is None:
        return groups
    parts = kept_components(handle.domain, handle.policy, parallel, compiled.cells)
    start = class_start(handle.accounting)
    return {f"{start}{part}: {group}": loss for part in parts for group, loss in groups.items()}


def _group_losses(
    domain: Domain, policy: Policy, cells: Cells, axes: tuple[Axis, ...], plan: Plan | EdgePlan | None, whole: Fraction
) -> dict[str, Fraction]:
    """The loss on the edges that move each attribute the release looks at, and on those to absence."""
    found: dict[str, Fraction] = {}
    if policy.presence != "public":
        found[PRESENCE] = _certified(domain, replace(policy, presence="only"), cells, axes, plan, whole)
    if policy.presence == "only":
        return found
    values = replace(policy, presence="public")
    if policy.composition == "record":
        return {**found, RECORD: _certified(domain, values, cells, axes, plan, whole)}
    for group in policy.factors(cells.attributes):
        others = {name: public() for name in cells.attributes if name not in group}
        # Without its joint thresholds the axes could stand in another order than in the plan.
        alone = None if policy.joint else replace(values, attributes={**values.attributes, **others})
        loss = whole if alone is None else _certified(domain, alone, cells, axes, plan, whole)
        found[_class_of(policy, group[0])] = loss
    return found


def _class_of(policy: Policy, name: str) -> str:
    """The class of the edges that move an attribute: one for all attributes of a joint threshold, asked for or not."""
    grid = policy.grid_of(name)
    return f"moves {name if grid is None else grid.attributes[0]}"


def _certified(
    domain: Domain, policy: Policy, cells: Cells, axes: tuple[Axis, ...], plan: Plan | EdgePlan | None, whole: Fraction
) -> Fraction:
    """The plan's loss on the edges of this policy; all of epsilon where that cannot be told."""
    if plan is None:
        return whole
    try:
        graph = compile_cells(domain, policy, axes, cells.where).graph
        return min(whole, certify(plan, graph).epsilon) if graph.shape == cells.graph.shape else whole
    except BlowfishError:
        return whole
