"""A release from request to stored answer: charged durably before any data is read, published once, replayed free.

Where edges are accounted by class, the loss of a release on each class is what is charged.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, TypeVar, cast

import numpy as np

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import (
    Compiled,
    DatasetHandle,
    quantile_order,
    query_cells,
    with_tolerances,
)
from blowfishdb.engine.joint_release import joint_release
from blowfishdb.engine.points import SCHEMA as POINT_SCHEMA
from blowfishdb.engine.points import PointWeights, points_release
from blowfishdb.engine.preview import AnyPreview, Preview, Shared, shown_day
from blowfishdb.engine.program import (
    MERGED,
    ProgramRelease,
    choose,
    declared_rows,
    groups_release,
    program_release,
    quantiles_release,
)
from blowfishdb.engine.release import PlanRelease, Release, divided, parts_release, plan_release
from blowfishdb.engine.request import AUTO, AccuracyTarget, Request, accuracy_target, make_request
from blowfishdb.engine.sharing import draw as draw_rows
from blowfishdb.engine.sharing import failed_publication, refreshed, resume, share
from blowfishdb.engine.synopsis import MOST_CELLS, Synopsis, from_bytes
from blowfishdb.engine.synopsis_release import SynopsisRelease, for_ranges
from blowfishdb.errors import (
    AccuracyError,
    BlowfishError,
    ChainMoved,
    ContentChanged,
    DeadlinePassed,
    DigestMismatch,
    DriverMissing,
    InvalidInput,
    KeyReused,
    LedgerError,
    LedgerUnavailable,
    ParameterError,
    PolicyError,
    ReleaseCancelled,
    ReleaseFailed,
    SchemaDrift,
    SourceChanging,
    SourceError,
    SourceFailed,
    SpendingCapReached,
    TooLarge,
    WorkCancelled,
)
from blowfishdb.incidents import new_incident
from blowfishdb.ledger import Charge, Ledger, Receipt, Replay
from blowfishdb.ledger.amounts import SUM, class_start, parallel_attribute
from blowfishdb.ledger.values import Publication, check_text
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy, public
from blowfishdb.model.projection import factor_graph
from blowfishdb.model.query import query
from blowfishdb.model.serialize import VERSION, version_of
from blowfishdb.noise.certified import watched
from blowfishdb.sources.base import Counting, Source
from blowfishdb.sources.calls import cancelled_at_steps, is_cancelled

Released: TypeAlias = Answer | Synopsis | PointWeights
"""What a release publishes."""
PARQUET = b"PAR1"
POINTS = f'{{"schema":"{POINT_SCHEMA}"'.encode()
"""How stored payloads of synopses and of points begin; all others are answers."""


def prepare(handle: DatasetHandle, request: Request) -> Release:
    """The release of a request: compiled and quoted, or laid out as a program; reads no data.

    Declined where no mechanism serves it, TooLarge for more cells than are served.
    """
    query, target = request.query, request.target
    if target.parameters and query.kind in ("points", "selection"):
        raise ParameterError("points and lists of groups are drawn by one mechanism, which takes no parameters")
    if query.kind == "points":
        return points_release(handle, query, target)
    if query.kind == "joint":
        return joint_release(handle, query, target)
    if query.kind != "synopsis":
        query = with_tolerances(query, target.alpha)
        tables = divided(handle.domain, handle.policy, query)
        if len(tables) > 1:
            if target.is_data_aware:
                # Declined, as it is for one of the parts alone.
                return program_release(handle.compile(tables[0]), target)
            target = target.by(None) if target.mechanism == AUTO else target
            return parts_release(handle, query, tables, target, quantiles_release)
        compiled = handle.compile(query)
        if query.kind == "selection":
            _check_cells(compiled)
            return groups_release(compiled, target)
        if quantile_order(compiled) is not None and not target.is_data_aware:
            target = target.by(None) if target.mechanism == AUTO else target
            return quantiles_release(handle, compiled, target)
        return _cells_release(compiled, handle, target)
    if target.epsilon is None:
        raise AccuracyError("a synopsis is paid with an epsilon, such as epsilon='0.3'")
    histogram = handle.compile(replace(query, kind="histogram"))
    return SynopsisRelease(_cells_release(histogram, handle, target, synopsis=True))


@dataclass(frozen=True, eq=False)
class Planned:
    """The release that a request leads to, and its preview where somebody wants to read it."""

    release: Release
    preview: AnyPreview | None


def plan_request(handle: DatasetHandle, request: Request, wants_preview: bool) -> Planned:
    """All arithmetic before the charge. It needs no source, and its results may come from another process."""
    release = prepare(handle, request)
    return Planned(release, release.preview(handle) if wants_preview else None)


def plan_in_full(handle: DatasetHandle, request: Request, wants_preview: bool) -> Planned:
    """A planned request with its price list worked out, for a server that queues all heavy work."""
    planned = plan_request(handle, request, wants_preview)
    if isinstance(planned.preview, Preview):
        planned.preview.offers  # noqa: B018  # read once, it stays
    return planned


def with_rows(
    handle: DatasetHandle, request: Request, release: Callable[[DatasetHandle, Request], Answer | None]
) -> DatasetHandle:
    """The dataset with the number of records that `auto` goes by, where it is public: counted exactly, recorded, free.

    `release` answers a request that costs nothing, and says None to any other. What is recorded is replayed, so the
    choice stays the same.
    """
    if request.target.mechanism != AUTO or request.query.kind not in (*MERGED, "synopsis"):
        return handle
    count = release(handle, make_request(handle, query("count", (), request.query.where), accuracy_target(epsilon=1)))
    return handle if count is None else replace(handle, rows=round(float(count.values[0])))


UNREAD = cast(Source, None)
"""The source of a dataset that is only planned for: whatever would look at the data fails."""


def _cells_release(
    compiled: Compiled, handle: DatasetHandle, target: AccuracyTarget, *, synopsis: bool = False
) -> PlanRelease | ProgramRelease:
    """The release of compiled cells by a plan, or by the program of a data-aware mechanism."""
    _check_cells(compiled)
    why = ""
    if target.mechanism == AUTO and target.epsilon is not None:
        choice = choose(compiled, target, declared_rows(handle.policy) if handle.rows is None else handle.rows)
        target, why = target.by(choice.mechanism), choice.why
    if target.is_data_aware:
        return program_release(for_ranges(compiled) if synopsis else compiled, target, why)
    return plan_release(compiled, target)


def _check_cells(compiled: Compiled) -> None:
    cells = compiled.problem.graph.cells
    if cells > MOST_CELLS:
        raise TooLarge("cells of one question", cells, MOST_CELLS, "Ask for wider bins or fewer attributes.")


def decode(payload: bytes) -> Released:
    """The answer, synopsis or weights that a release published, from the bytes that are stored."""
    if payload.startswith(PARQUET):
        return Synopsis(from_bytes(payload))
    return PointWeights.from_json(payload) if payload.startswith(POINTS) else Answer.from_json(payload)


Progress = Callable[[str], None]
STEPS = ("quote", "charge", "answer", "done")
"""What a progress callback hears. None is called between the draw of noise and the record of the answer."""
FAILED = b'{"failed": '
CANCEL_STEP = 1.0
"""Seconds: a count that nobody waits for ends at a whole step, or at one of padding where its dataset has that."""
FRESH_KEY = "fresh-"
"""Begins the key of a request for fresh noise that was given none."""
ATTEMPTS = 20
"""How often a charge is made up anew because others moved its chain on."""
Waiting: TypeAlias = Callable[[], AbstractContextManager[object]]
"""What a thread enters while it waits, so that others may compute meanwhile."""
Alone: TypeAlias = Callable[[str, Waiting], AbstractContextManager[bool]]
"""What a new release of an account's data is made in: others of the same analyst come first. True if it waited."""


def at_once(account: str, waiting: Waiting) -> AbstractContextManager[bool]:
    """Whoever asks alone waits for nobody."""
    del account, waiting
    return nullcontext(False)


BeforeCharge: TypeAlias = Callable[[Fraction, Sequence[Charge]], None]
"""What hears a price, and the charges that it is for."""


@dataclass(frozen=True)
class Run:
    """Terms of one release: its key, who hears of its steps, its deadline, and the most that it may charge.

    The deadline is the number of seconds of waiting and planning after which nothing is charged any more. What
    `before_charge` names hears the price and what it is for just before it is charged, and may refuse it; a replay has
    none. What it heard and was not charged after all it hears again with a minus. `waiting` is entered while
    the release waits for an engine, and for all that is padded. A new release, not a replay, is made in `alone`.
    """

    key: str | None = None
    progress: Progress | None = None
    deadline: float | None = None
    spend: Fraction | None = None
    before_charge: BeforeCharge | None = None
    waiting: Waiting = nullcontext
    alone: Alone = at_once
    is_fresh: bool = False
    """Whether a stored answer to the same question serves only if it was given under the same key."""

    def __post_init__(self) -> None:
        if self.key is not None:
            check_text(self.key, "a key")
        if self.progress is not None and not callable(self.progress):
            raise InvalidInput("progress is a function that takes the name of a step")
        number = isinstance(self.deadline, int | float) and not isinstance(self.deadline, bool)
        if self.deadline is not None and not (number and 0 < self.deadline < 10**7):
            raise AccuracyError("a deadline is a positive number of seconds")
        if self.spend is not None and self.spend < 0:
            raise AccuracyError("what may be spent is an epsilon of 0 or more")

    def for_target(self, target: AccuracyTarget) -> Run:
        """The run of a request at this accuracy target. Without a given key, fresh noise has a new one each time."""
        if not target.fresh:
            return self
        return replace(self, key=self.key or f"{FRESH_KEY}{os.urandom(16).hex()}", is_fresh=True)

    def report(self, step: str) -> None:
        """Tells whoever listens."""
        if self.progress is not None:
            self.progress(step)

    def report_done(self) -> None:
        """Tells whoever listens; a listener that fails now must not hide an answer that was paid for."""
        with suppress(Exception):
            self.report("done")


@dataclass(eq=False)
class Announced:
    """The price that the listener of a run has been told so far."""

    run: Run
    price: Fraction = Fraction(0)
    charges: Sequence[Charge] = ()

    def tell(self, price: Fraction, charges: Sequence[Charge]) -> None:
        """Tells a price before it is charged; of a second attempt, how much more or less it costs than the first."""
        if self.run.before_charge is not None:
            self.run.before_charge(price - self.price, charges)
            self.price, self.charges = price, charges


@contextmanager
def announcing(run: Run, is_on_record: Callable[[], bool]) -> Iterator[Announced]:
    """Attempts to charge; where they end without a charge on record, the announced price is taken back."""
    announced = Announced(run)
    try:
        yield announced
    except LedgerUnavailable:
        # The charge may be on record, or come onto it yet.
        raise
    except BlowfishError:
        if run.before_charge is not None and announced.price and not is_on_record():
            run.before_charge(-announced.price, announced.charges)
        raise


def charged_payload(
    ledger: Ledger, handle: DatasetHandle, analyst: str, request_digest: str, prepared: Callable[[], Release], run: Run
) -> bytes:
    """What a request publishes, as it is stored: the kept payload when there is one, else a new one, charged first."""
    started = time.monotonic()
    key, earlier = _key(ledger, handle, analyst, request_digest, run)

    def replayed() -> bytes | None:
        record = _on_record(ledger, handle, analyst, request_digest, run)
        if record is None or (_is_failure(record.payload) and record.receipt.charge.key != key):
            return None
        run.report_done()
        return published(record.payload, record.receipt)

    payload = replayed()
    if payload is not None:
        return payload
    with run.alone(handle.account, run.waiting) as has_waited:
        if has_waited:
            # The same may have been asked, charged and answered meanwhile.
            key, earlier = _key(ledger, handle, analyst, request_digest, run)
            payload = replayed()
            if payload is not None:
                return payload
        return _new_payload(ledger, handle, analyst, request_digest, prepared, run, (started, key, earlier))


def _new_payload(
    ledger: Ledger,
    handle: DatasetHandle,
    analyst: str,
    request_digest: str,
    prepared: Callable[[], Release],
    run: Run,
    asked: tuple[float, str, Receipt | None],
) -> bytes:
    """What a request publishes that has no answer yet; it was asked at a time, under a key, which may be charged."""
    started, key, earlier = asked
    run.report("quote")
    quoted = prepared()
    with announcing(run, lambda: ledger.receipt_of(handle.account, analyst, key) is not None) as announced:
        for attempt in itertools.count():
            if earlier is None:
                release = share(ledger, handle, analyst, quoted)
            else:
                release = resume(ledger, handle, quoted, earlier)
            charge = _charge(handle, analyst, release, key, request_digest)
            # What is on record already costs nothing more.
            if earlier is None and run.spend is not None and charge.received > run.spend:
                raise SpendingCapReached(charge.received, run.spend)
            with run.waiting():
                counting = _prepared_count(handle, release)
            # From the charge on a count ends at public steps alone: retries with other deadlines, which are free, would
            # measure how long it takes. What is on record is charged already.
            if earlier is None:
                _check_deadline(run, started)
            if is_cancelled.get()():
                raise WorkCancelled
            run.report("charge")
            announced.tell(charge.received if earlier is None else Fraction(0), [charge])
            try:
                receipt = ledger.charge(charge)
                break
            except ChainMoved:
                if attempt == ATTEMPTS:
                    raise
    stored = ledger.answer_for(receipt)
    if stored is None:
        check_receipt(receipt, release)
        run.report("answer")
        draw = Draw(ledger, handle, release, counting, receipt, run.waiting)
        while stored is None:
            # All that takes a time which depends on data. The record comes after the wait: from it on others can see
            # that there is an answer, in the list of synopses and in the numbers of entries. Who waits for padding says
            # so before the count: what happens after the wait must not depend on how long anything took.
            with nullcontext() if handle.pad_to is None else run.waiting():
                payload, publication = padded(handle.pad_to, draw.payload)
            with suppress(ChainMoved):
                stored = ledger.store_answer(receipt, payload, publication)
    run.report_done()
    return published(stored, receipt)


def charge_together(
    ledger: Ledger, handle: DatasetHandle, analyst: str, requests: Sequence[tuple[str, Release, Run]]
) -> None:
    """Charges several requests in one transaction, all of them or none; each is answered afterwards under its key.

    What was charged or answered before is left out. So is one that measures the rows of another: it rests on that one's
    answer, and is charged after it.
    """
    charges: dict[str, Charge] = {}

    def is_on_record() -> bool:
        return any(ledger.receipt_of(handle.account, analyst, one.key) is not None for one in charges.values())

    # All are told of as one price, to whoever listens to the first.
    started = time.monotonic()
    with announcing(requests[0][2], is_on_record) as announced:
        for attempt in itertools.count():
            charges.clear()
            for request_digest, quoted, run in requests:
                key, earlier = _key(ledger, handle, analyst, request_digest, run)
                if earlier is not None or _on_record(ledger, handle, analyst, request_digest, run) is not None:
                    continue
                release = share(ledger, handle, analyst, quoted)
                charge = _charge(handle, analyst, release, key, request_digest)
                if run.spend is not None and charge.received > run.spend:
                    raise SpendingCapReached(charge.received, run.spend)
                with run.waiting():
                    _prepared_count(handle, release)
                charges.setdefault(charge.key if charge.link is None else charge.link.chain, charge)
            total = sum((charge.received for charge in charges.values()), Fraction(0))
            if charges:
                _check_deadline(requests[0][2], started)
            announced.tell(total, list(charges.values()))
            try:
                ledger.charge_all(list(charges.values()))
                return
            except ChainMoved:
                if attempt == ATTEMPTS:
                    raise


def _key(
    ledger: Ledger, handle: DatasetHandle, analyst: str, request_digest: str, run: Run
) -> tuple[str, Receipt | None]:
    """The key of a request, and the charge that has it already; KeyReused where that was for another request.

    Without a key of the analyst's it follows from the request, and from a charge whose answer a restored ledger lacks.
    """
    key = run.key or request_digest
    earlier = ledger.receipt_of(handle.account, analyst, key)
    if earlier is not None and earlier.charge.request_digest != request_digest:
        raise KeyReused(key)
    while run.key is None and earlier is not None and ledger.is_closed(earlier):
        key = f"{request_digest}.{earlier.sequence}"
        earlier = ledger.receipt_of(handle.account, analyst, key)
    return key, earlier


def _on_record(ledger: Ledger, handle: DatasetHandle, analyst: str, request_digest: str, run: Run) -> Replay | None:
    """The stored answer to a request: that of its key, or else any, unless the noise is to be fresh."""
    own = None if run.key is None else ledger.replay(handle.account, request_digest, analyst=analyst, key=run.key)
    if own is not None or run.is_fresh:
        return own
    return ledger.replay(handle.account, request_digest, analyst=analyst)


def _check_deadline(run: Run, started: float) -> None:
    if run.deadline is not None and time.monotonic() - started >= run.deadline:
        raise DeadlinePassed(run.deadline)


def check_receipt(receipt: Receipt, release: Release) -> None:
    """DigestMismatch unless the receipt paid for exactly this; noise is drawn for nothing else."""
    paid = receipt.charge.program_digest
    digest = release.digest if version_of(paid) == VERSION else release.digest_1()
    link = receipt.charge.link
    level = receipt.charge.epsilon if link is None else link.level
    shares = isinstance(release, PlanRelease) and release.sharing is not None
    if paid != digest or level != release.epsilon or shares != (link is not None):
        raise DigestMismatch("the charge on record was made for another plan. Ask with a new key.")


def _charge(handle: DatasetHandle, analyst: str, release: Release, key: str, request_digest: str) -> Charge:
    sharing = release.sharing if isinstance(release, PlanRelease) else None
    return Charge(
        account=handle.account,
        analyst=analyst,
        epsilon=release.epsilon if sharing is None else sharing.epsilon,
        key=key,
        request_digest=request_digest,
        program_digest=release.digest,
        policy_version=handle.policy_version,
        domain_version=handle.domain_version,
        snapshot=handle.snapshot,
        certificate=release.recorded,
        losses=edge_losses(handle, release),
        link=None if sharing is None else sharing.link,
    )


def _prepared_count(handle: DatasetHandle, release: Release) -> Counting:
    """The statement that will count, checked against the columns as they are.

    SchemaDrift when they do not fit, and SourceChanging while files are being written, whose columns are then any.
    """
    try:
        return release.counting(handle)
    except DriverMissing:
        raise
    except (SourceError, SourceFailed) as error:
        if handle.source.is_changing():
            raise SourceChanging(handle.name) from None
        if isinstance(error, SourceFailed):
            raise
        raise SchemaDrift(handle.name, error.message) from None


LARGE = 20_000
"""Cells or answers from which on answers are made one at a time."""
_one_large = threading.Lock()


def _in_turn(release: Release) -> AbstractContextManager[object]:
    """The turn of a large answer: a thread that makes one shares the interpreter with all others, so only one does.

    Whether an answer is large is known from its query. Smaller ones never wait; nothing but arithmetic is done in it.
    """
    answers = 0 if release.compiled is None else release.compiled.problem.workload.shape[0]
    return _one_large if max(release.size, answers) > LARGE else nullcontext()


@dataclass(frozen=True, eq=False)
class Draw:
    """The making of one receipt's payload; a draw whose chain moved on meanwhile is dropped unseen and made anew."""

    ledger: Ledger
    handle: DatasetHandle
    release: Release
    counting: Counting
    receipt: Receipt
    waiting: Waiting = nullcontext

    def payload(self) -> tuple[bytes, Publication | None]:
        """An answer, or the note that making it failed; and what it adds to its chain.

        Failing to count comes before any noise, so it may be tried again. Once noise is drawn, a failure is itself an
        output of the mechanism: it is stored as such, and the receipt is never measured again.
        """
        handle, release, current = self.handle, self.release, None
        is_shared = isinstance(release, PlanRelease) and release.sharing is not None
        counts = None if is_shared else self.count()
        link = self.receipt.charge.link
        try:
            if counts is not None:
                with _in_turn(release), watched(self.receipt.charge.epsilon):
                    return release.payload(counts, handle), None
            if link is None or not isinstance(release, PlanRelease):
                raise DigestMismatch("only plans share their noise")
            current = refreshed(self.ledger, handle, release)
            with watched(link.level):
                rows, publication = draw_rows(self.ledger, handle, current, self.receipt, self.count)
            with _in_turn(release), watched(Fraction(0)):
                return current.shared_payload(rows, handle, self.receipt), publication
        except (ReleaseFailed, ContentChanged, LedgerError):
            # All of them before noise.
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it may depend on the noise
            incident = new_incident(error, f"a release of {handle.name}")
            broken = None if current is None else failed_publication(current)
            return FAILED + json.dumps(incident).encode() + b"}", broken

    def count(self) -> Ints:
        """The counts, read anew for every draw; ReleaseFailed, to be tried again, where they cannot be had."""
        incident, handle, paid = "", self.handle, self.receipt.charge
        step = CANCEL_STEP if handle.pad_to is None else float(handle.pad_to)
        try:
            with self.waiting(), cancelled_at_steps(step):
                return self.counting.run(handle.longest_count)
        except WorkCancelled:
            raise ReleaseCancelled(paid.received, paid.key) from None
        except SourceFailed as failure:
            incident = failure.incident
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            incident = new_incident(error, f"a release of {handle.name}")
        raise ReleaseFailed(incident, paid.received, paid.key, can_retry=True)


def _is_failure(payload: bytes) -> bool:
    return payload.startswith(FAILED)


def published(payload: bytes, receipt: Receipt) -> bytes:
    """The payload of a receipt; ReleaseFailed when what is stored is the note that it failed."""
    if _is_failure(payload):
        incident = str(json.loads(payload)["failed"])
        raise ReleaseFailed(incident, receipt.charge.received, receipt.charge.key, can_retry=False)
    return payload


def repeated(
    ledger: Ledger, handle: DatasetHandle, analyst: str, request_digest: str, level: Fraction
) -> Shared | None:
    """The entry that paid for a request of this analyst, answered or not, as a preview tells it; None without one."""
    record = ledger.replay(handle.account, request_digest, analyst=analyst)
    receipt = None if record is None else record.receipt
    if record is not None and _is_failure(record.payload):
        return None
    if receipt is None:
        _, receipt = _key(ledger, handle, analyst, request_digest, Run())
    if receipt is None:
        return None
    day = shown_day(ledger.time_of(receipt.sequence))
    return Shared(Fraction(0), level, receipt.sequence, day, is_answered=record is not None)


Result = TypeVar("Result")


@dataclass(frozen=True)
class Pace:
    """The clock that padding reads and how it waits; tests bring their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


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


def _hold(began: float, step: float, clock: Pace) -> None:
    """Sleeps until the next multiple of the step; a sleep that ends early is taken up again."""
    until = began + max(1, math.ceil((clock.now() - began) / step)) * step
    while (left := until - clock.now()) > 0:
        clock.sleep(left)


PRESENCE = "presence"
RECORD = "record"


def edge_losses(handle: DatasetHandle, release: Release) -> dict[str, Fraction] | None:
    """What each class of edges loses by this release; None where all of them are to be charged its epsilon."""
    compiled = release.counted
    if handle.accounting == SUM or handle.policy.constraints or compiled is None:
        return None
    if compiled.table is not None and compiled.table.counts_people:
        # What one person changes is bounded over all rows together, not move by move.
        return None
    groups = _group_losses(handle, release, compiled)
    parallel = parallel_attribute(handle.accounting)
    if parallel is None:
        return groups
    parts = _counted_components(handle.domain, handle.policy, parallel, compiled.cells)
    start = class_start(handle.accounting)
    return {f"{start}{part}: {group}": loss for part in parts for group, loss in groups.items()}


def _group_losses(handle: DatasetHandle, release: Release, compiled: Compiled) -> dict[str, Fraction]:
    """The loss on the edges that move each attribute the release looks at, and on those to absence."""
    policy, cells, epsilon = handle.policy, compiled.cells, release.epsilon

    def loss(edges: Policy) -> Fraction:
        """The loss on the edges of a policy; all of epsilon where that cannot be told."""
        if compiled.joined is not None:
            # The cells of a plan are those of its questions, and not of one query.
            return epsilon
        try:
            graph = query_cells(handle.domain, edges, compiled.query).graph
            return min(epsilon, release.loss_on(graph)) if graph.shape == cells.graph.shape else epsilon
        except BlowfishError:
            return epsilon

    losses = {} if policy.presence == "public" else {PRESENCE: loss(replace(policy, presence="only"))}
    if policy.presence == "only":
        return losses
    values = replace(policy, presence="public")
    if policy.composition == "record":
        return {**losses, RECORD: loss(values)}
    for group in policy.factors(cells.attributes):
        others = {name: public() for name in cells.attributes if name not in group}
        # One class for all attributes of a joint threshold, asked for or not. Without its joint thresholds the axes
        # could stand in another order than in the plan.
        grid = policy.joint_of(group[0])
        alone = None if policy.joint else replace(values, attributes={**values.attributes, **others})
        losses[f"moves {group[0] if grid is None else grid.attributes[0]}"] = epsilon if alone is None else loss(alone)
    return losses


MOST_VALUES = 4096


def check_parallel(domain: Domain, policy: Policy, name: str) -> None:
    """Refuses an attribute whose values are not told apart by any edge, so that nothing runs side by side."""
    attribute = domain.find(name, PolicyError)
    if policy.joint_of(name) is not None and policy.presence != "only":
        raise PolicyError(
            f"{name} is hidden jointly with others; only an attribute of its own can be accounted side by side"
        )
    if policy.constraints:
        raise PolicyError("public constraints tie records together, so nothing can be accounted side by side")
    if attribute.size > MOST_VALUES:
        raise PolicyError(f"{name} has {attribute.size:,} values; side by side at most {MOST_VALUES:,} are accounted")
    if attribute.total_size == 1:
        raise PolicyError(f"{name} has one value, so no two parts of the data are separate")
    if int(_components(domain, policy, name)[0].max()) == 0:
        raise PolicyError(
            f"the policy hides every value of {name} among the others (NULL and outside included), so no two parts of "
            "the data are separate. Declare it public, or a partition, with public NULL and outside"
        )


def _components(domain: Domain, policy: Policy, name: str) -> tuple[Ints, Ints]:
    """For each value of the attribute, special cells last: the component it is in, and its code."""
    declared = policy.applied(domain)
    attribute = declared[name]
    values = np.arange(attribute.size)
    codes = np.concatenate([values, np.array([slot.code for slot in attribute.slots], dtype=np.int64)])
    if policy.presence == "only":
        # Every edge leads from one record to absence, so that records with different values share none.
        return np.arange(codes.size), codes
    axis = AxisCells.finest_of(Segments(attribute, values))
    return factor_graph(declared, policy, (name,), {name: axis}).components(), codes


def _counted_components(domain: Domain, policy: Policy, name: str, cells: Cells) -> list[int]:
    """The components with a value that some counted record may have."""
    labels, codes = _components(domain, policy, name)
    if name in cells.attributes:
        along = cells if name in cells.layout else compile_cells(domain, policy, (name,), cells.where)
        axis = along.layout[name]
        labels = labels[axis.cell_of[axis.segments.of(codes)] >= 0]
    return [int(label) for label in np.unique(labels)]
