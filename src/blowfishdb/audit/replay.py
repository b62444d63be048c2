"""Replay: the real release of a query on neighbouring tables with the same noise; drills: what fails tells nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.audit.cases import LIMITS, Case, limited, prepared
from blowfishdb.audit.definitions import (
    MOST_RECORDS,
    Adjacency,
    Change,
    Record,
    RecordPlace,
    all_changes,
    changes,
    sample_records,
)
from blowfishdb.audit.report import CheckLine, Losses, amount, broken, judged, not_tested, refused
from blowfishdb.audit.scratch import (
    CHARGED,
    READ,
    SECRET,
    Neighbours,
    Scratch,
    TapeError,
    crowd,
    listening,
    neighbours,
    opened,
    scratch,
    sealed,
)
from blowfishdb.audit.selections import SLACK
from blowfishdb.audit.stages import (
    DataAccess,
    Looked,
    Moved,
    Recorder,
    as_counts,
    cells_of_records,
    inner_release,
    moved_by_all,
    moved_by_stages,
    watched_stages,
)
from blowfishdb.engine.charge import Run, charged_payload
from blowfishdb.engine.measure import run_program
from blowfishdb.engine.points import PointsRelease
from blowfishdb.engine.program import ProgramRelease
from blowfishdb.engine.release import Release
from blowfishdb.errors import AllowanceExceeded, BlowfishError, Declined, InvalidInput
from blowfishdb.ledger import Receipt
from blowfishdb.ledger.amounts import SUM
from blowfishdb.model.policy import Person
from blowfishdb.model.query import query
from blowfishdb.plan.program import Program
from blowfishdb.sources.base import Counting

ANALYST = "auditor"
INCIDENT = re.compile(r"\b[0-9a-f]{12}\b")


@dataclass
class ReplayOutcome:
    """The traces of a release: its payload or error, the events in their order, and the receipt."""

    payload: bytes
    error: str
    events: list[str]
    statements: list[str]
    logged: list[str]
    spent: Fraction
    receipt: Receipt | None = None
    accesses: list[DataAccess] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)

    @property
    def public_error(self) -> str:
        """The error without its incident, which is another one every time."""
        return INCIDENT.sub("", self.error)


def _outcome(world: Scratch, run: Callable[[], bytes]) -> ReplayOutcome:
    world.watch.clear()
    before, payload, error = world.spent, b"", ""
    with listening() as heard:
        try:
            payload = run()
        except BlowfishError as failure:
            error = f"{failure.code}: {failure.message}"
        except Exception as failure:  # noqa: BLE001  # whatever leaves the release would reach the analyst
            error = f"{type(failure).__name__}: {failure}"
    events, statements = list(world.watch.events), list(world.watch.statements)
    return ReplayOutcome(payload, error, events, statements, heard, world.spent - before)


def released(world: Scratch, release: Release, key: str) -> ReplayOutcome:
    """Charges and runs a release as an analyst's session does."""
    # Every release is a request of its own; otherwise the second one would be answered from the record.
    request = hashlib.sha256(key.encode()).hexdigest()
    run = Run(key=key, progress=world.watch.events.append)
    charged = partial(charged_payload, world.ledger, world.handle, ANALYST, request, lambda: release, run)
    outcome = _outcome(world, charged)
    charges = world.ledger.charges_of(world.handle.account, ANALYST, 1)
    outcome.receipt = charges[0][0] if charges and charges[0][0].charge.key == key else None
    return outcome


def charge_violations(release: Release, case: Case, outcome: ReplayOutcome) -> list[str]:
    """The price must be the certificate's, on record before any row is read, and taken from the account once."""
    price, events = release.epsilon, outcome.events
    rules: dict[str, object] = {
        f"the release failed: {outcome.error[:200]}": outcome.error,
        f"asked to spend {case.epsilon}, would charge {price}": case.within is None and price not in (case.epsilon, 0),
    }
    if outcome.receipt is None:
        return [*broken(rules), "no charge is on record for this release"]
    charge = outcome.receipt.charge
    document = json.loads(charge.certificate)
    prices = {"the entry": charge.epsilon, "the certificate on record": Fraction(str(document["epsilon"]))}
    if case.accounting == SUM:
        prices["the account"] = outcome.spent
    if outcome.payload.startswith(b"{"):
        content = json.loads(outcome.payload)
        prices["the answer"] = Fraction(str(content.get("certificate", content)["epsilon"]))
    reads = [place for place, event in enumerate(events) if event == READ]
    is_early = CHARGED not in events or (reads and events.index(CHARGED) > reads[0])
    drawn = [draw.values.size for access in outcome.accesses for draw in access.draws]
    is_noisy = any(drawn) or any(access.ranked for access in outcome.accesses)
    rules |= {f"{who} says {value}, the plan costs {price}": value != price for who, value in prices.items()}
    rules |= {
        "rows were read before the charge was committed": is_early,
        f"{len(reads)} statements read rows where one is enough": len(reads) != 1,
        "a release that costs something drew no noise": price > 0 and not is_noisy,
    }
    return broken(rules)


def repeat_violations(world: Scratch, release: Release, key: str, first: ReplayOutcome) -> list[str]:
    """The same request again must be answered from the record: nothing drawn, read or charged."""
    again = released(world, release, key)
    is_charged = again.spent or {CHARGED, READ} & set(again.events)
    return broken(
        {
            "the same request again is answered differently": again.error or again.payload != first.payload,
            "the same request again is charged or counted again": is_charged,
        }
    )


def public_violations(first: ReplayOutcome, second: ReplayOutcome) -> list[str]:
    """Everything that is public must be the same on both tables."""
    ends = [outcome.error[:80] or "an answer" for outcome in (first, second)]
    logged = [*first.logged, *second.logged]
    stored = [
        (charge.certificate, charge.losses, charge.program_digest)
        for charge in (outcome.receipt.charge for outcome in (first, second) if outcome.receipt is not None)
    ]
    is_alike = first.public_error == second.public_error
    is_same = first.payload == second.payload
    where = "" if is_same else _where(first, second)
    return broken(
        {
            f"neighbours end differently: {ends[0]} / {ends[1]}": not is_alike,
            f"what is published differs although all noisy outputs are the same: {where}": is_alike and not is_same,
            f"the release failed: {first.error[:160]}": is_alike and is_same and first.error,
            "neighbours are asked in different statements": first.statements != second.statements,
            "charging, reading and what is told of it happen in another order": first.events != second.events,
            "neighbours are charged differently": first.spent != second.spent,
            f"something was said beside the curator's log: {''.join(logged[:1])[:120]}": logged,
            "what the ledger keeps of the release depends on the data": len(stored) == 2 and stored[0] != stored[1],
        }
    )


def _where(first: ReplayOutcome, second: ReplayOutcome) -> str:
    """The first thing that differs, by its name alone."""
    if len(first.payload) != len(second.payload):
        return "its length"
    try:
        one, two = json.loads(first.payload), json.loads(second.payload)
    except ValueError:
        return "its bytes"
    return ", ".join(key for key in one if one[key] != two.get(key)) or "its bytes"


def placing_violations(adjacency: Adjacency, release: Release, everyone: Sequence[Record]) -> list[str]:
    """Records in the same groups must share a cell, records in different groups must not, and left out is left out."""
    if release.compiled is None:
        return []
    cell_at: dict[RecordPlace, int] = {None: -1}
    place_at: dict[int, RecordPlace] = {-1: None}
    for record, cell in zip(everyone, cells_of_records(release.compiled.cells, everyone), strict=True):
        place = adjacency.place(record)
        if cell_at.setdefault(place, cell) != cell or place_at.setdefault(cell, place) != place:
            return [f"the record {tuple(record.values())} is placed in another cell than the definitions say"]
    return []


def source_violations(
    world: Scratch, adjacency: Adjacency, release: Release, counting: Counting, tables: Neighbours
) -> Iterator[str]:
    """The source must count what the made-up rows hold, cell by cell."""
    for table in tables:
        world.fill(table.rows)
        if isinstance(release, PointsRelease):
            yield from _point_violations(world, adjacency, release, table.records)
            continue
        if release.compiled is not None:
            counts = as_counts(release.compiled.cells, table.records)
            if not np.array_equal(opened(counting.run(None)), counts):
                yield "the source counts other records than the table holds"


def _point_violations(world: Scratch, adjacency: Adjacency, release: PointsRelease, records: list[Record]) -> list[str]:
    """Points may come back in any order, and one point in several rows."""
    points, numbers = world.handle.source.prepare_points(release.points, world.handle.policy.unit).run(None)
    got: Counter[RecordPlace] = Counter()
    for point, number in zip(points.tolist(), numbers.tolist(), strict=True):
        got[tuple(point)] += number
    names = [axis.attribute for axis in adjacency.axes]
    order = [names.index(name) for name in release.points.axes]
    wanted: Counter[RecordPlace] = Counter()
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


def replay(case: Case, effort: Effort, seed: int) -> list[CheckLine]:
    """The lines of one case."""
    random = np.random.default_rng([seed, len(case.name), *case.name.encode()])
    # Small questions are certified as large ones are, where the case wants it: all pairs can still be tried.
    limits = limited(LIMITS if case.by_structure else ())
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder, limits:
        # Whoever looks at a count on the way from the source to the noise finds it sealed.
        world.source.seals = True
        try:
            release = prepared(case, world.handle, case.query)
            price = release.epsilon
            is_early = READ in world.watch.events
        except (Declined, InvalidInput) as refusal:
            return [not_tested(case.name, "release", f"refused: {refusal.message[:160]}")]
        lines = _Replay(case, effort, world, recorder, release, price, random).lines()
        if is_early:
            lines.insert(0, judged(case.name, "charge", ["rows were read before anything was charged"]))
        return lines


@dataclass
class _Replay:
    case: Case
    effort: Effort
    world: Scratch
    recorder: Recorder
    release: Release
    price: Fraction
    random: np.random.Generator

    def lines(self) -> list[CheckLine]:
        adjacency, release, name = self.case.adjacency, self.release, self.case.name
        everyone = sample_records(adjacency, self.random, self.effort.records)
        listed = changes(adjacency, everyone)
        moved = moved_by_all(self.recorder, release, listed, adjacency)
        lines: list[CheckLine] = []
        if moved is not None:
            lines.append(self._all_changes(moved, listed, complete=adjacency.is_complete(everyone)))
        chosen = self._chosen(listed, moved)
        if not chosen:
            return [*lines, judged(name, "release", [], "no record can change anything that is counted")]
        stages = release.document().get("stages")
        if isinstance(stages, dict):
            self.recorder.allowed = {stage: float(Fraction(spent)) for stage, spent in stages.items()}
        losses, public, charging = Losses(SLACK), list[str](), list[str]()
        counting = placing_violations(adjacency, release, everyone)
        runs: list[list[Looked]] = []
        base = [everyone[int(i)] for i in self.random.integers(len(everyone), size=self.case.rows)]
        for number, change in enumerate(chosen):
            others = crowd(adjacency, base, change, number, len(name))
            tables = neighbours(adjacency, others, change, self.random)
            if number == 0:
                # A charge needs no second look for every change.
                first, second = self._on_neighbours(tables, partial(released, self.world, self.release), charging)
            else:
                first, second = self._on_neighbours(tables, self._uncharged)
            runs.append(first.looked)
            steps = self.recorder.replayed
            public += [*public_violations(first, second), *(wrong for step in steps for wrong in step.violations)]
            if len(steps) != len(first.accesses):
                public.append("neighbours make different numbers of accesses to the data")
            if number < 3:
                counting += source_violations(self.world, adjacency, release, self._statement(), tables)
            losses.compare(_in_words(change), sum((step.loss for step in steps), Fraction(0)), self.price)
        tried, price = len(chosen), amount(self.price)
        return [
            *lines,
            *self._every_stage(runs, listed, adjacency),
            judged(name, "movement", losses.violations, f"loss {amount(losses.worst)} of {price} charged", tried),
            judged(name, "public outputs", public, "the same once noisy outputs are", tried),
            judged(name, "charge", charging, f"{price}: certificate, entry, account agree", tried),
            judged(name, "counting", counting, "rows count where the definitions say", min(tried, 3)),
        ]

    def _statement(self) -> Counting:
        """The statement that the last release ran; weights on points have another kind of statement."""
        release, last = self.release, self.world.source.last
        return release.counting(self.world.handle) if last is None or isinstance(release, PointsRelease) else last

    def _uncharged(self, _key: str) -> ReplayOutcome:
        """The part of a release that reads data, with a statement at hand and its counts sealed."""
        release, counting, handle = self.release, self._statement(), self.world.handle
        return _outcome(self.world, lambda: release.payload(sealed(counting.run(None)), handle))

    def _on_neighbours(
        self, tables: Neighbours, run: Callable[[str], ReplayOutcome], charging: list[str] | None = None
    ) -> tuple[ReplayOutcome, ReplayOutcome]:
        """A run on a table, then on its neighbour with the noisy outputs forced to be the same."""
        self.recorder.record()
        self.world.fill(tables[0].rows)
        first = run("before")
        first.accesses, first.looked = list(self.recorder.accesses), list(self.recorder.looked)
        if charging is not None:
            charging += charge_violations(self.release, self.case, first)
            charging += repeat_violations(self.world, self.release, "before", first)
        self.recorder.repeat(first.accesses)
        self.world.fill(tables[1].rows)
        return first, run("after")

    def _all_changes(self, moved: Moved, listed: list[Change], *, complete: bool) -> CheckLine:
        """The loss of every hidden change against the price, and the certificate computed once more."""
        worst, price = max(moved.losses, default=Fraction(0)), self.price
        where = _in_words(listed[moved.losses.index(worst)]) if listed else "no change"
        losses = Losses()
        losses.compare(where, worst, price, tight=moved.claims_tight and complete)
        again = f"certified again the plan costs {amount(moved.certified)}, charged {amount(price)}"
        violations = losses.violations or broken({again: moved.certified != price})
        fine = f"loss {amount(worst)} of {amount(price)} charged{', attained' if worst == price else ''}"
        return judged(self.case.name, "every edge", violations, fine, len(moved.losses))

    def _every_stage(self, runs: list[list[Looked]], listed: list[Change], adjacency: Adjacency) -> Iterator[CheckLine]:
        """For each run the loss of all changes in the rows of every stage, and the allowances of its selections."""
        release, losses, each = inner_release(self.release), Losses(), adjacency.policy.rows_per_person
        if not isinstance(release, ProgramRelease):
            return
        allowed = {allowance.stage: allowance.epsilon for allowance in release.program.allowances}
        for looked in runs:
            selecting = sum((allowed[stage.name] for stage in looked if stage.plan is None), Fraction(0))
            by_change = moved_by_stages(self.recorder, looked, release.compiled.cells, listed, each)
            most = max(by_change, default=Fraction(0))
            where = _in_words(listed[by_change.index(most)]) if listed else "no change"
            losses.compare(f"{amount(selecting)} for selections, {where}", most + selecting, self.price)
        summary = f"loss {amount(losses.worst)} of {amount(self.price)} charged"
        yield judged(self.case.name, "every edge", losses.violations, summary, len(runs) * len(listed))

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
        # A record that leaves what is counted changes its total, and so much that may be public by mistake.
        leaving = [i for i in order if None in map(self.case.adjacency.place, (*fits[i].before, *fits[i].after))][:1]
        order = list(dict.fromkeys([*expensive, *leaving, *order]))
        return [fits[i] for i in order[:most]]


def _in_words(change: Change) -> str:
    """A change in words."""
    sides = [
        " + ".join("absence" if record is None else str(tuple(record.values())) for record in side)
        for side in (change.before, change.after)
    ]
    return f"{sides[0]} -> {sides[1]}"


def replay_account(case: Case, seed: int) -> list[CheckLine]:
    """Releases all questions of a case; sums what each change loses, and compares the worst with what was charged."""
    random = np.random.default_rng([seed, 7])
    queries = [question for question in (case.query, *case.further) if question.kind != "points"]
    axes = {axis.attribute: axis for question in queries for axis in question.axes}
    where = next((question.where for question in queries if question.where is not None), None)
    adjacency = Adjacency(case.domain, case.policy, tuple(axes.values()), where)
    everyone = sample_records(adjacency, random)
    listed = all_changes(adjacency, everyone)
    lost, violations = [Fraction(0)] * len(listed), list[str]()
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder:
        base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
        world.fill(neighbours(adjacency, base, listed[0], random)[0].rows)
        for number, question in enumerate(queries):
            release = prepared(case, world.handle, question)
            moved = moved_by_all(recorder, release, listed, adjacency)
            if moved is None:
                violations.append("a release of an account has no fixed plan")
                continue
            lost = [before + now for before, now in zip(lost, moved.losses, strict=True)]
            recorder.record()
            outcome = released(world, release, f"question {number}")
            violations += broken({f"the release failed: {outcome.error[:120]}": outcome.error})
        spent, losses = world.spent, Losses()
        violations += broken({"the ledger does not verify after these releases": not world.ledger.verify().is_sound})
    losses.compare("a change over all releases", max(lost), spent)
    whole = amount(case.epsilon * len(queries))
    summary = f"{len(queries)} releases: loss {amount(max(lost))}, charged {amount(spent)}, as a sum {whole}"
    return [judged(case.name, "account", [*violations, *losses.violations], summary, len(listed))]


TELLTALE = 31_337_031
"""A count that no message may repeat."""


def drills(case: Case, seed: int) -> list[CheckLine]:
    """The lines of all drills on one case."""
    random = np.random.default_rng([seed, 11])
    adjacency = case.adjacency
    everyone = sample_records(adjacency, random)
    base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
    tables = neighbours(adjacency, base, changes(adjacency, everyone)[0], random)
    limit = case.epsilon * Fraction(5, 2)
    with scratch(case.domain, case.policy, case.accounting, limit) as world, watched_stages() as recorder:
        release = prepared(case, world.handle, case.query)
        expensive = prepared(replace(case, epsilon=2 * case.epsilon), world.handle, case.query)
        alike = replace(case, mechanism="identity" if case.mechanism == "hierarchy" else "hierarchy", as_synopsis=False)
        others = expensive, prepared(alike, world.handle, query("histogram", case.query.axes[:1]))
        line = partial(judged, f"drills: {case.name}")
        lines = [
            line("a failing source", _failing_source(world, recorder, release, others, tables), "tells nothing", 2),
            line("failing noise", _failing_noise(world, recorder, release, tables), "tells nothing", 2),
            line("broken counts", _broken_counts(world, recorder, release), "tells nothing", 3),
            line("the budget", _budget(world, recorder, release, limit), "is never passed", 3),
        ]
        if isinstance(release, ProgramRelease):
            lines.append(line("a stage that wants too much", _greedy(release), "is stopped", 1))
        return lines


def _told(outcome: ReplayOutcome) -> list[str]:
    """Words of the engine and counts that an outcome gives away."""
    heard = " ".join([outcome.error, outcome.payload.decode(errors="replace"), *outcome.logged])
    secrets = [word for word in (*SECRET.replace(",", " ").split(), str(TELLTALE)) if word.isdigit()]
    return [f"the message repeats {word}: {heard[:120]}" for word in secrets if word in heard]


def _failing_source(
    world: Scratch, recorder: Recorder, release: Release, others: Sequence[Release], tables: Neighbours
) -> list[str]:
    """The engine fails and quotes rows: both tables must be told the same, and the charge must stay, once.

    What was charged for then pays for this release alone, and not for a more expensive or another one.
    """
    recorder.record()
    outcomes = list[ReplayOutcome]()
    for number, table in enumerate(tables):
        world.fill(table.rows)
        world.watch.failure = RuntimeError(f"{SECRET} row {number}")
        outcomes.append(released(world, release, "failing source"))
        world.watch.failure = None
    first, second = outcomes
    is_paid = [not released(world, other, "failing source").error for other in others]
    again = released(world, release, "failing source")
    charged = [first.spent, second.spent]
    rules = {
        "a failing source gave an answer": not first.error or not second.error,
        "the message of a failing source depends on the data": first.public_error != second.public_error,
        "a failed release must be charged once, however often it is tried": charged != [release.epsilon, 0],
        "what was charged for one release paid for another": any(is_paid),
        "a release whose count failed must be free to try again": again.error or again.spent,
    }
    return [*_told(first), *_told(second), *broken(rules)]


def _failing_noise(world: Scratch, recorder: Recorder, release: Release, tables: Neighbours) -> list[str]:
    """Noise fails after the counts are there: nobody may learn more than that it failed, and never a second draw."""
    outcomes = list[ReplayOutcome]()
    for table in tables:
        world.fill(table.rows)
        recorder.record()
        recorder.tape.play([np.zeros(10**4 + 7, dtype=np.int64)])
        outcomes.append(released(world, release, "failing noise"))
        recorder.tape.draw_for_real()
    first, second = outcomes
    rules = {
        "a release whose noise failed gave an answer": not first.error or not second.error,
        "a release that failed says what went wrong inside": TapeError.__name__ in first.error + second.error,
        "a release that failed after the draw is not told by its first outcome": first.error != second.error,
        "a failed release was charged twice": second.spent,
    }
    return [*_told(first), *_told(second), *broken(rules)]


def _broken_counts(world: Scratch, recorder: Recorder, release: Release) -> Iterator[str]:
    """Counts of a wrong shape, or too large to add up: no message may quote them."""
    recorder.record()
    for size in (3, 10**4 + 7):
        try:
            release.payload(np.full(size, TELLTALE, dtype=np.int64), world.handle)
            yield "counts of a wrong shape were measured"
        except Exception as failure:  # noqa: BLE001  # whatever it is, its words are looked at
            if str(TELLTALE) in str(failure):
                yield f"the message quotes counts: {str(failure)[:100]}"


def _greedy(release: ProgramRelease) -> list[str]:
    """A program that is charged a hundredth less than its stages need must be stopped before the last of them."""
    *first, last = release.program.allowances
    short = Program(release.program.mechanism, (*first, replace(last, epsilon=last.epsilon * Fraction(99, 100))))
    problem = release.compiled.problem
    # Even tables are merged; on uneven ones the last stage runs instead of others and may take over their share.
    for counts in (np.zeros(problem.graph.cells, dtype=np.int64), np.arange(problem.graph.cells) % 2 * 10**9):
        script = release.mechanism.script(problem, release.program)
        run = partial(run_program, short, short.digest(), script, problem.graph, counts)
        if not refused(run, AllowanceExceeded):
            return ["a stage spent more than it was allowed"]
    return []


def _budget(world: Scratch, recorder: Recorder, release: Release, limit: Fraction) -> list[str]:
    """Two releases were charged by now; half of a third one is left, so it is refused and reads nothing."""
    recorder.record()
    before, price = world.spent, release.epsilon
    third = released(world, release, "one too many")
    outcome = third.error[:80] or "answered"
    return broken(
        {
            f"a release beyond the budget is not refused: {outcome}": "budget" not in third.error,
            "a release beyond the budget reads rows or is charged": READ in third.events or third.spent,
            "the account passed its limit": world.spent > limit,
            f"two releases cost {before} in all, not twice {price}": before != 2 * price,
            "the ledger does not verify": not world.ledger.verify().is_sound,
        }
    )
