"""Replay: the real release of a query on neighbouring tables with the same noise, charged to a scratch ledger."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from blowfishdb.audit.cases import Case, Pair, Ready, certified_as, crowd, prepared, table_pair
from blowfishdb.audit.definitions import MOST_RECORDS, Adjacency, Change, Place, Record, changes, sample_records
from blowfishdb.audit.report import Line, amount, judged, not_tested
from blowfishdb.audit.scratch import CHARGED, READ, Scratch, listening, opened, scratch, sealed
from blowfishdb.audit.selections import SLACK
from blowfishdb.audit.stages import (
    Access,
    Looked,
    Moved,
    Recorder,
    as_counts,
    cells_of_records,
    moved_by_all,
    moved_by_stages,
    watched_stages,
)
from blowfishdb.engine.charge import Run, charged_payload
from blowfishdb.engine.points import PointsRelease
from blowfishdb.engine.release import ProgramRelease, Release
from blowfishdb.engine.synopsis_release import SynopsisRelease
from blowfishdb.errors import BlowfishError, Declined, InvalidInput
from blowfishdb.ledger import Receipt
from blowfishdb.ledger.values import SUM
from blowfishdb.model.cells import Cells
from blowfishdb.model.policy import Person
from blowfishdb.sources.base import Counting

ANALYST = "auditor"
INCIDENT = re.compile(r"\b[0-9a-f]{12}\b")


@dataclass
class Outcome:
    """What a release left behind: the payload or the error, what happened in which order, and the receipt."""

    payload: bytes
    error: str
    events: list[str]
    statements: list[str]
    receipt: Receipt | None
    spent: Fraction
    logged: list[str]
    accesses: list[Access] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def released(world: Scratch, ready: Ready, key: str) -> Outcome:
    """Charges and runs a release as an analyst's session does."""
    world.watch.clear()
    before, payload, error = world.spent, b"", ""
    with listening() as heard:
        try:
            # Every release is a request of its own; otherwise the second one would be answered from the record.
            request = hashlib.sha256(f"{ready.digest} {key}".encode()).hexdigest()
            run = Run(key=key, progress=world.watch.events.append)
            payload = charged_payload(world.ledger, world.handle, ANALYST, request, lambda: ready.release, run)
        except BlowfishError as failure:
            error = f"{failure.code}: {failure.message}"
        except Exception as failure:  # noqa: BLE001  # whatever leaves the release would reach the analyst
            error = f"{type(failure).__name__}: {failure}"
    charges = world.ledger.charges_of(world.handle.account, ANALYST, 1)
    receipt = charges[0][0] if charges and charges[0][0].charge.key == key else None
    spent = world.spent - before
    return Outcome(payload, error, list(world.watch.events), list(world.watch.statements), receipt, spent, heard)


def counted_and_measured(world: Scratch, release: Release, counting: Counting) -> Outcome:
    """The part of a release that reads data, with a statement at hand and its counts sealed; nothing is charged."""
    world.watch.clear()
    payload, error = b"", ""
    with listening() as heard:
        try:
            payload = release.payload(sealed(counting.run(None)), world.handle)
        except Exception as failure:  # noqa: BLE001  # a failure that depends on data is what is looked for
            error = f"{type(failure).__name__}: {failure}"
    return Outcome(payload, error, list(world.watch.events), list(world.watch.statements), None, Fraction(0), heard)


def charge_violations(ready: Ready, case: Case, outcome: Outcome) -> list[str]:
    """The price must be the certificate's, on record before any row is read, and taken from the account once."""
    price, violations = ready.release.epsilon, list[str]()
    if outcome.error:
        violations.append(f"the release failed: {outcome.error[:200]}")
    if case.within is None and price not in (case.epsilon, 0):
        violations.append(f"asked to spend {case.epsilon}, would charge {price}")
    if outcome.receipt is None:
        return [*violations, "no charge is on record for this release"]
    charge = outcome.receipt.charge
    document = json.loads(charge.certificate)
    prices = {"the entry": charge.epsilon, "the certificate on record": Fraction(str(document["epsilon"]))}
    if case.accounting == SUM:
        prices["the account"] = outcome.spent
    if outcome.payload.startswith(b"{"):
        prices["the answer"] = _published_price(outcome.payload)
    violations += [f"{who} says {value}, the plan costs {price}" for who, value in prices.items() if value != price]
    reads = [place for place, event in enumerate(outcome.events) if event == READ]
    if CHARGED not in outcome.events or (reads and outcome.events.index(CHARGED) > reads[0]):
        violations.append("rows were read before the charge was committed")
    if len(reads) != 1:
        violations.append(f"{len(reads)} statements read rows where one is enough")
    if price > 0 and not any(draw.values.size for access in outcome.accesses for draw in access.draws):
        violations.append("a release that costs something drew no noise")
    return violations


def repeat_violations(world: Scratch, ready: Ready, key: str, first: Outcome) -> Iterator[str]:
    """The same request again must be answered from the record: nothing drawn, read or charged."""
    again = released(world, ready, key)
    if again.error or again.payload != first.payload:
        yield "the same request again is answered differently"
    if again.spent or {CHARGED, READ} & set(again.events):
        yield "the same request again is charged or counted again"


def _published_price(payload: bytes) -> Fraction:
    content = json.loads(payload)
    proof = content.get("certificate", content)
    return Fraction(str(proof["epsilon"]))


def public_violations(first: Outcome, second: Outcome) -> Iterator[str]:
    """Everything that is public must be the same on both tables."""
    if INCIDENT.sub("", first.error) != INCIDENT.sub("", second.error):
        yield f"neighbours end differently: {first.error[:80] or 'an answer'} / {second.error[:80] or 'an answer'}"
    elif first.payload != second.payload:
        yield f"what is published differs although all noisy outputs are the same: {_where(first, second)}"
    elif first.error:
        yield f"the release failed: {first.error[:160]}"
    if first.statements != second.statements:
        yield "neighbours are asked in different statements"
    if first.events != second.events:
        yield "charging, reading and what is told of it happen in another order"
    if first.spent != second.spent:
        yield "neighbours are charged differently"
    if first.logged or second.logged:
        yield f"something was said beside the curator's log: {(first.logged or second.logged)[0][:120]}"
    if first.receipt is not None and second.receipt is not None:
        one, two = first.receipt.charge, second.receipt.charge
        if (one.certificate, one.losses, one.program_digest) != (two.certificate, two.losses, two.program_digest):
            yield "what the ledger keeps of the release depends on the data"


def _where(first: Outcome, second: Outcome) -> str:
    """The first thing that differs, by its name alone."""
    if len(first.payload) != len(second.payload):
        return "its length"
    try:
        one, two = json.loads(first.payload), json.loads(second.payload)
    except ValueError:
        return "its bytes"
    return ", ".join(key for key in one if one[key] != two.get(key)) or "its bytes"


def cells_of(release: Release) -> Cells | None:
    """The cells of a release that has any."""
    return None if release.compiled is None else release.compiled.cells


def placing_violations(adjacency: Adjacency, release: Release, everyone: Sequence[Record]) -> list[str]:
    """Records in the same groups must share a cell, records in different groups must not, and left out is left out."""
    cells = cells_of(release)
    if cells is None:
        return []
    cell_at: dict[Place, int] = {None: -1}
    place_at: dict[int, Place] = {-1: None}
    for record, cell in zip(everyone, cells_of_records(cells, everyone), strict=True):
        place = adjacency.place(record)
        if cell_at.setdefault(place, cell) != cell or place_at.setdefault(cell, place) != place:
            return [f"the record {tuple(record.values())} is placed in another cell than the definitions say"]
    return []


def source_violations(
    world: Scratch, adjacency: Adjacency, release: Release, counting: Counting, pair: Pair
) -> Iterator[str]:
    """The source must count what the made-up rows hold, cell by cell."""
    for rows, records in ((pair.before, pair.records_before), (pair.after, pair.records_after)):
        world.fill(rows)
        if isinstance(release, PointsRelease):
            yield from _point_violations(world, adjacency, release, records)
            continue
        cells = cells_of(release)
        if cells is not None and not np.array_equal(opened(counting.run(None)), as_counts(cells, records)):
            yield "the source counts other records than the table holds"


def _point_violations(world: Scratch, adjacency: Adjacency, release: PointsRelease, records: list[Record]) -> list[str]:
    """Points may come back in any order, and one point in several rows."""
    points, numbers = world.handle.source.prepare_points(release.points, world.handle.policy.unit).run(None)
    got: Counter[Place] = Counter()
    for point, number in zip(points.tolist(), numbers.tolist(), strict=True):
        got[tuple(point)] += number
    names = [axis.attribute for axis in adjacency.axes]
    order = [names.index(name) for name in release.points.axes]
    wanted: Counter[Place] = Counter()
    for place in (adjacency.place(record) for record in records):
        if isinstance(place, tuple):
            wanted[tuple(place[number] for number in order)] += 1
    return [] if got == wanted else ["the source counts other points than the table holds"]


@dataclass(frozen=True)
class Effort:
    """The effort of a replay: on how many changes real releases run, and from how many records those come."""

    releases: int
    records: int = MOST_RECORDS

    @classmethod
    def of(cls, *, quick: bool) -> Effort:
        return cls(3) if quick else cls(30, 2 * MOST_RECORDS)


def replay(case: Case, effort: Effort, seed: int) -> list[Line]:
    """The lines of one case."""
    random = np.random.default_rng([seed, len(case.name), *case.name.encode()])
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder, certified_as(case):
        # Whoever looks at a count on the way from the source to the noise finds it sealed.
        world.source.seals = True
        try:
            ready = prepared(case, world.handle, case.query)
            price = ready.release.epsilon
            read = READ in world.watch.events
        except (Declined, InvalidInput) as refusal:
            return [not_tested("replay", case.name, "release", f"refused: {refusal.message[:160]}")]
        lines = _Replay(case, effort, world, recorder, ready, price, random).lines()
        early = [judged("replay", case.name, "charge", ["rows were read before anything was charged"])] if read else []
        return [*early, *lines]


@dataclass
class _Replay:
    case: Case
    effort: Effort
    world: Scratch
    recorder: Recorder
    ready: Ready
    price: Fraction
    random: np.random.Generator

    def lines(self) -> list[Line]:
        adjacency = self.case.adjacency
        everyone = sample_records(adjacency, self.random, self.effort.records)
        listed = changes(adjacency, everyone)
        release, price = self.ready.release, self.price
        moved = moved_by_all(self.recorder, release, listed, adjacency)
        lines: list[Line] = []
        if moved is not None:
            lines.append(self._all_changes(moved, price, complete=adjacency.is_complete(everyone)))
        chosen = self._chosen(listed, moved)
        if not chosen:
            return [
                *lines,
                judged("replay", self.case.name, "release", [], "no record can change anything that is counted"),
            ]
        stages = release.document().get("stages")
        if isinstance(stages, dict):
            self.recorder.allowed = {name: float(Fraction(spent)) for name, spent in stages.items()}
        moving, public, charging, counting = list[str](), list[str](), list[str](), list[str]()
        counting += placing_violations(adjacency, release, everyone)
        worst: Fraction | float = Fraction(0)
        runs: list[list[Looked]] = []
        base = [everyone[int(i)] for i in self.random.integers(len(everyone), size=self.case.rows)]
        for number, change in enumerate(chosen):
            others = crowd(adjacency, base, change, number, len(self.case.name))
            pair = table_pair(adjacency, others, change, self.random)
            first, second = self._on_neighbours(pair, charged=number == 0)
            if number == 0:
                charging += [*charge_violations(self.ready, self.case, first), *first.violations]
            public += public_violations(first, second)
            runs.append(first.looked)
            if number < 3:
                counting += source_violations(self.world, adjacency, release, self._statement(), pair)
            loss: Fraction | float = Fraction(0)
            for step in self.recorder.replayed:
                public += step.violations
                loss = loss + step.loss
            if len(self.recorder.replayed) != len(first.accesses):
                public.append("neighbours make different numbers of accesses to the data")
            worst = max(worst, loss)
            if loss > float(price) + SLACK if isinstance(loss, float) else loss > price:
                moving.append(f"loss {amount(loss)} on {_in_words(change)}, charged {amount(price)}")
        name, tried = self.case.name, len(chosen)
        return [
            *lines,
            *self._every_stage(runs, listed, adjacency),
            judged("replay", name, "movement", moving, f"loss {amount(worst)} of {amount(price)} charged", tried),
            judged("replay", name, "public outputs", public, "the same once noisy outputs are", tried),
            judged("replay", name, "charge", charging, f"{amount(price)}: certificate, entry, account agree", tried),
            judged("replay", name, "counting", counting, "rows count where the definitions say", min(tried, 3)),
        ]

    def _statement(self) -> Counting:
        """The statement that the last release ran; weights on points have another kind of statement."""
        release, last = self.ready.release, self.world.source.last
        return release.counting(self.world.handle) if last is None or isinstance(release, PointsRelease) else last

    def _on_neighbours(self, pair: Pair, *, charged: bool) -> tuple[Outcome, Outcome]:
        """A run on a table, then on its neighbour with the noisy outputs forced to be the same."""
        self.recorder.record()
        self.world.fill(pair.before)
        first = self._run("before", charged=charged)
        first.accesses, first.looked = list(self.recorder.accesses), list(self.recorder.looked)
        if charged:
            first.violations = list(repeat_violations(self.world, self.ready, "before", first))
        self.recorder.repeat(first.accesses)
        self.world.fill(pair.after)
        return first, self._run("after", charged=charged)

    def _run(self, key: str, *, charged: bool) -> Outcome:
        """The whole release, or without a charge, which needs no second look for every change."""
        if charged:
            return released(self.world, self.ready, key)
        return counted_and_measured(self.world, self.ready.release, self._statement())

    def _all_changes(self, moved: Moved, price: Fraction, *, complete: bool) -> Line:
        """The loss of every hidden change against the price, and the certificate computed once more."""
        worst, violations = max(moved.losses, default=Fraction(0)), list[str]()
        if worst > price:
            change = moved.changes[moved.losses.index(worst)]
            violations.append(f"loss {amount(worst)} on {_in_words(change)}, charged {amount(price)}")
        elif moved.certified != price:
            violations.append(f"certified again the plan costs {amount(moved.certified)}, charged {amount(price)}")
        elif moved.claims_tight and complete and worst != price:
            violations.append(f"certified as tight at {amount(price)}, but no change loses more than {amount(worst)}")
        fine = f"loss {amount(worst)} of {amount(price)} charged{', attained' if worst == price else ''}"
        return judged("replay", self.case.name, "every edge", violations, fine, len(moved.losses))

    def _every_stage(self, runs: list[list[Looked]], listed: list[Change], adjacency: Adjacency) -> list[Line]:
        """What all changes lose in the rows of every stage, and what selections may cost beside, for each run."""
        inner = self.ready.release.inner if isinstance(self.ready.release, SynopsisRelease) else self.ready.release
        if not isinstance(inner, ProgramRelease):
            return []
        allowed = {each.stage: each.epsilon for each in inner.program.allowances}
        worst, violations = Fraction(0), list[str]()
        for looked in runs:
            chosen = sum((allowed[stage.name] for stage in looked if stage.plan is None), Fraction(0))
            losses = moved_by_stages(
                self.recorder, looked, inner.compiled.cells, listed, adjacency.policy.rows_per_person
            )
            most = max(losses, default=Fraction(0))
            worst = max(worst, most + chosen)
            if most + chosen > self.price:
                summary = _in_words(listed[losses.index(most)])
                violations.append(f"loss {amount(most)} and {amount(chosen)} for selections on {summary}")
        summary = f"loss {amount(worst)} of {amount(self.price)} charged"
        return [judged("replay", self.case.name, "every edge", violations, summary, len(runs) * len(listed))]

    def _chosen(self, listed: list[Change], moved: Moved | None) -> list[Change]:
        """The most expensive changes, and others at random."""
        most = self.effort.releases
        if isinstance(self.case.policy.unit, Person):
            listed = [change for change in listed if len(change.before) == 1]
        fits = [c for c in listed if len(c.before) <= max(1, self.case.rows)]
        if len(fits) <= most:
            return fits
        order = [int(i) for i in self.random.permutation(len(fits))]
        # Changes to absence stand last; where no loss is known beforehand, one of them is tried in any case.
        expensive = [len(fits) - 1]
        if moved is not None:
            expensive = sorted(range(len(fits)), key=lambda i: -moved.losses[i])[: max(1, most // 2)]
        order = [*expensive, *(i for i in order if i not in expensive)]
        return [fits[i] for i in order[:most]]


def _in_words(change: Change) -> str:
    """A change in words."""
    sides = [
        " + ".join("absence" if record is None else str(tuple(record.values())) for record in side)
        for side in (change.before, change.after)
    ]
    return f"{sides[0]} -> {sides[1]}"
