"""Drills: failures, refusals, limits, keys, versions and joins; nothing may leak and no amount may get lost."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
from scipy.sparse import csr_array

from blowfishdb.audit.cases import Case, Pair, Ready, prepared, table_pair
from blowfishdb.audit.definitions import Adjacency, Change, changes, measured_once, moves, sample_records
from blowfishdb.audit.replay import INCIDENT, Outcome, released
from blowfishdb.audit.report import Line, amount, judged
from blowfishdb.audit.scratch import READ, SECRET, Scratch, Watch, scratch, watched_engine
from blowfishdb.audit.selections import window_graph
from blowfishdb.audit.stages import Recorder, moved_by_all, watched_stages
from blowfishdb.audit.tape import TapeError
from blowfishdb.engine.measure import measure, run_program
from blowfishdb.engine.release import ProgramRelease
from blowfishdb.errors import (
    AllowanceExceeded,
    BlowfishError,
    BudgetExceeded,
    ChangeRefused,
    KeyReused,
    LedgerRolledBack,
    StaleVersion,
)
from blowfishdb.ledger import Charge, Ledger, Terms, open_ledger
from blowfishdb.ledger.values import MOST_CLASSES, PER_EDGE, SUM
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import categorical, domain
from blowfishdb.model.graphs import CellGraph, Presence
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import ROW, Person, Policy, Row, full, person
from blowfishdb.model.predicate import Column
from blowfishdb.model.query import Query
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.certificate import Certificate, certified_as_charged, certify
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan
from blowfishdb.plan.program import Allowance, MeasurementStage, Program, ProgramRun
from blowfishdb.sources.base import Join
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName

TELLTALE = 31_337_031
"""A count that no message may repeat."""


def drills(case: Case, seed: int) -> list[Line]:
    """The lines of all drills on one case."""
    random = np.random.default_rng([seed, 11])
    adjacency = case.adjacency
    everyone = sample_records(adjacency, random)
    base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
    pair = table_pair(adjacency, base, changes(adjacency, everyone)[0], random)
    limit = case.epsilon * Fraction(5, 2)
    with scratch(case.domain, case.policy, case.accounting, limit) as world, watched_stages() as recorder:
        ready = prepared(case, world.handle, case.query)
        expensive = Ready(
            ready.digest, prepared(replace(case, epsilon=2 * case.epsilon), world.handle, case.query).release
        )
        line = partial(judged, "replay", f"drills: {case.name}")
        lines = [
            line("a failing source", _failing_source(world, recorder, ready, expensive, pair), "tells nothing", 2),
            line("failing noise", _failing_noise(world, recorder, ready, pair), "tells nothing", 2),
            line("broken counts", _broken_counts(world, recorder, ready), "tells nothing", 3),
            line("the budget", _budget(world, recorder, ready, limit), "is never passed", 3),
        ]
        if isinstance(ready.release, ProgramRelease):
            lines.append(line("a stage that wants too much", _greedy(ready.release), "is stopped", 1))
        return lines


def _told(outcome: Outcome) -> list[str]:
    """Words of the engine and counts that an outcome gives away."""
    heard = " ".join([outcome.error, outcome.payload.decode(errors="replace"), *outcome.logged])
    secrets = [word for word in (*SECRET.replace(",", " ").split(), str(TELLTALE)) if word.isdigit()]
    return [f"the message repeats {word}: {heard[:120]}" for word in secrets if word in heard]


def _failing_source(world: Scratch, recorder: Recorder, ready: Ready, expensive: Ready, pair: Pair) -> Iterator[str]:
    """The engine fails and quotes rows: both tables must be told the same, and the charge must stay, once.

    What was charged for then pays for this release alone, and not for an `expensive` one.
    """
    recorder.record()
    outcomes = list[Outcome]()
    for number, rows in enumerate((pair.before, pair.after)):
        world.fill(rows)
        world.watch.failure = RuntimeError(f"{SECRET} row {number}")
        outcomes.append(released(world, ready, "failing source"))
        world.watch.failure = None
        yield from _told(outcomes[-1])
        if not outcomes[-1].error:
            yield "a failing source gave an answer"
    if INCIDENT.sub("", outcomes[0].error) != INCIDENT.sub("", outcomes[1].error):
        yield "the message of a failing source depends on the data"
    if outcomes[0].spent != ready.release.epsilon or outcomes[1].spent != 0:
        yield "a failed release must be charged once, however often it is tried again"
    if not released(world, expensive, "failing source").error:
        yield "what was charged for one release paid for another that costs twice as much"
    again = released(world, ready, "failing source")
    if again.error or again.spent:
        yield "a release whose count failed must be free to try again"


def _failing_noise(world: Scratch, recorder: Recorder, ready: Ready, pair: Pair) -> Iterator[str]:
    """Noise fails after the counts are there: nobody may learn more than that it failed, and never a second draw."""
    outcomes = list[Outcome]()
    for rows in (pair.before, pair.after):
        world.fill(rows)
        recorder.record()
        recorder.tape.play([np.zeros(10**4 + 7, dtype=np.int64)])
        outcomes.append(released(world, ready, "failing noise"))
        recorder.tape.draw_for_real()
        yield from _told(outcomes[-1])
    if not all(outcome.error for outcome in outcomes):
        yield "a release whose noise failed gave an answer"
    if any(TapeError.__name__ in outcome.error for outcome in outcomes):
        yield "a release that failed says what went wrong inside"
    if outcomes[0].error != outcomes[1].error:
        yield "a release that failed after the draw is not told by its first outcome"
    if any(outcome.spent for outcome in outcomes[1:]):
        yield "a failed release was charged twice"


def _broken_counts(world: Scratch, recorder: Recorder, ready: Ready) -> Iterator[str]:
    """Counts of a wrong shape, or too large to add up: no message may quote them."""
    recorder.record()
    broken: list[Ints] = [
        np.full(3, TELLTALE, dtype=np.int64),
        np.full(10**4 + 7, TELLTALE, dtype=np.int64),
    ]
    for counts in broken:
        try:
            ready.release.payload(counts, world.handle)
            yield "counts of a wrong shape were measured"
        except Exception as failure:  # noqa: BLE001  # whatever it is, its words are looked at
            if str(TELLTALE) in str(failure):
                yield f"the message quotes counts: {str(failure)[:100]}"


def _greedy(prepared: ProgramRelease) -> list[str]:
    """A program that is charged a hundredth less than its stages need must be stopped before the last of them."""
    *first, last = prepared.program.allowances
    short = Program(prepared.program.mechanism, (*first, replace(last, epsilon=last.epsilon * Fraction(99, 100))))
    graph = prepared.compiled.problem.graph
    # Even tables are merged; on uneven ones the last stage runs instead of others and may take over their share.
    for counts in (np.zeros(graph.cells, dtype=np.int64), np.arange(graph.cells) % 2 * 10**9):
        script = prepared.mechanism.script(prepared.compiled.problem, prepared.program)
        try:
            run_program(short, short.digest(), script, graph, counts)
        except AllowanceExceeded:
            continue
        return ["a stage spent more than it was allowed"]
    return []


def _budget(world: Scratch, recorder: Recorder, ready: Ready, limit: Fraction) -> Iterator[str]:
    """Two releases were charged by now; half of a third one is left, so it is refused and reads nothing."""
    recorder.record()
    before = world.spent
    refused = released(world, ready, "one too many")
    if not refused.error.startswith("budget_exceeded") and "budget" not in refused.error:
        yield f"a release beyond the budget is not refused: {refused.error[:80] or 'answered'}"
    if READ in refused.events or refused.spent:
        yield "a release beyond the budget reads rows or is charged"
    if world.spent > limit:
        yield "the account passed its limit"
    if before != 2 * ready.release.epsilon:
        yield f"two releases cost {before} in all, not twice {ready.release.epsilon}"
    if not world.ledger.verify().is_sound:
        yield "the ledger does not verify"


CELLS = 5
ONE = Fraction(1)
NONE = np.empty(0, dtype=np.int64)


def refusal_lines() -> list[Line]:
    """One line for each kind of thing that the core must not let through."""
    return [
        _judged("edge plans that leave something out", dict(_edge_plans())),
        _judged("measurements without a certificate of their own", _measurements()),
        _judged("stages beyond what was charged", _stages()),
    ]


def _judged(subject: str, tried: dict[str, Callable[[], object]]) -> Line:
    violations = [f"{name} is let through" for name, attempt in tried.items() if not _refused(attempt)]
    return judged("exact", subject, "refused", violations, "all of them", len(tried))


def _refused(attempt: Callable[[], object], error: type[BlowfishError] = BlowfishError) -> bool:
    try:
        attempt()
    except error:
        return True
    return False


def _graph(presence: Presence = "public") -> CellGraph:
    return window_graph(np.minimum(np.arange(CELLS) + 2, CELLS - 1), presence)


def _edge_plan(graph: CellGraph) -> EdgePlan:
    """Every cell, with noise on every edge of the graph."""
    edges = graph.edges()
    ends = np.zeros((CELLS + 1, edges.shape[0]), dtype=np.int64)
    column = np.arange(edges.shape[0])
    ends[edges[:, 0], column] += 1
    ends[edges[:, 1], column] -= 1
    strategy, ones = np.eye(edges.shape[0], dtype=np.int64), np.ones(edges.shape[0], dtype=np.int64)
    return EdgePlan(ONE, Identity(CELLS), edges, csr_array(strategy), csr_array(ends[:-1]), ones)


def _edge_plans() -> Iterator[tuple[str, Callable[[], object]]]:
    """The same plan without one edge after the other, and with one wrong number after the other in its decoder."""
    presences: tuple[Presence, ...] = ("public", "secret")
    for presence in presences:
        graph = _graph(presence)
        whole = _edge_plan(graph)
        for left_out in range(whole.edges.shape[0]):
            kept = np.delete(np.arange(whole.edges.shape[0]), left_out)
            strategy = csr_array(np.eye(kept.size, dtype=np.int64))
            decoder, ones = csr_array(whole.decoder[:, kept]), np.ones(kept.size, dtype=np.int64)
            short = EdgePlan(ONE, whole.workload, whole.edges[kept], strategy, decoder, ones)
            yield f"an edge plan without edge {left_out}, presence {presence}", partial(certify, short, graph)
            wrong = whole.decoder.toarray()
            wrong[int(whole.edges[left_out, 0]), left_out] = 0
            bare = replace(whole, decoder=csr_array(wrong))
            yield f"a decoder without edge {left_out}, presence {presence}", partial(certify, bare, graph)


def _measurements() -> dict[str, Callable[[], object]]:
    graph, counts = _graph(), np.arange(CELLS)
    own = measured_once(Identity(CELLS))
    others = {
        "with less noise": own.with_unit(ONE / 2),
        "with other weights": Plan(ONE, (Measurement(Identity(CELLS), np.full(1, 2)),)),
        "of other rows": measured_once(Prefix(CELLS)),
        "with exact rows": replace(own, exact=Identity(CELLS)),
    }
    proof = certify(own, graph)
    return {f"a plan {change}": partial(_charged, plan, graph, proof, counts) for change, plan in others.items()}


def _charged(plan: Plan, graph: CellGraph, proof: Certificate, counts: Ints) -> object:
    return measure(certified_as_charged(plan, graph, proof), counts)


def _stages() -> dict[str, Callable[[], object]]:
    graph = _graph()
    stage = MeasurementStage(measured_once(Identity(CELLS)))
    cost = stage.epsilon(graph)
    program = Program("audit", (Allowance("first", cost), Allowance("second", cost - Fraction(1, 10**12))))
    run = ProgramRun(program, program.digest())
    pricier = Program("audit", (Allowance("first", 2 * cost), Allowance("second", cost)))
    return {
        "a stage before its turn": lambda: run.admit("second", stage, graph),
        "a stage a second time": lambda: run.admit("first", stage, graph).admit("first", stage, graph),
        "a stage a trillionth too expensive": lambda: run.admit("first", stage, graph).admit("second", stage, graph),
        "a stage in place of itself": lambda: run.admit("first", stage, graph, ("first",)),
        "a stage that nobody allowed": lambda: run.admit("third", stage, graph),
        "a program under another's receipt": lambda: ProgramRun(pricier, program.digest()),
    }


AMOUNTS = (Fraction(1, 3), Fraction(333_333_333_331, 10**12), Fraction(1, 7), Fraction(1, 10**12), Fraction(2, 29))
"""Prices that no float and no short fraction is equal to."""
LIMIT = Fraction(3)
TERMS = Terms("audit://ledger", limit=LIMIT, policy="{}", domain="{}")
ANALYST, OTHER = "ana", "bob"


def ledger_lines() -> list[Line]:
    """Everything that is charged stays charged, to the account that the data has."""
    line = partial(judged, "replay", "the ledger")
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as folder:
        path, mark = Path(folder) / "drills.ledger", Path(folder) / "drills.mark"
        with open_ledger(path, mark=mark) as one, open_ledger(path, mark=mark) as two:
            account = one.register(TERMS, name="first", by="audit").id
            checks: dict[str, Iterator[str]] = {
                "amounts": _amounts(one, two, account),
                "names": _names(one, account),
                "keys": _keys(one, two, account),
                "limits": _limits(one, two, account),
                "versions": _versions(one, account),
                "classes": _classes(one),
                "carried over": _carried(one),
            }
            lines = [line(name, violations, "as it must be", 3) for name, violations in checks.items()]
            unsound = [] if two.verify().is_sound else ["the ledger does not verify after the drills"]
        lines.append(line("an old copy", _rolled_back(Path(folder)), "is noticed"))
    return [*lines, line("verification", unsound, "every hash and balance")]


def _charge(account: str, key: str, epsilon: Fraction, analyst: str = ANALYST) -> Charge:
    asked, ran = (hashlib.sha256(f"{what} {key}".encode()).hexdigest() for what in ("request", "program"))
    return Charge(account, analyst, epsilon, key, asked, ran, 1, 1, 1, "{}")


def _amounts(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """Charges by turns over two connections add up to the last digit."""
    for place, epsilon in enumerate(AMOUNTS):
        (one, two)[place % 2].charge(_charge(account, f"amount {place}", epsilon))
    for ledger in (one, two):
        if ledger.account(account).spent != sum(AMOUNTS) or ledger.budget_of(account, ANALYST).spent != sum(AMOUNTS):
            yield "charges over two connections do not add up to what was spent"


def _names(one: Ledger, account: str) -> Iterator[str]:
    """The same data under another name has the account that it had."""
    again = one.register(TERMS, name="second", by="audit")
    if again.id != account or again.spent != sum(AMOUNTS):
        yield "the same data under another name gets a new budget"


def _keys(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """A key pays once, for one request, and for one answer."""
    charge = _charge(account, "key", Fraction(1, 10))
    before = one.account(account).spent
    receipt, again = one.charge(charge), two.charge(charge)
    if one.account(account).spent - before != charge.epsilon or again.sequence != receipt.sequence:
        yield "a key that is used again is charged again"
    if two.charge(replace(charge, analyst=OTHER)).sequence == receipt.sequence:
        yield "what one analyst paid for is taken off nobody's limit when another asks"
    if not _refused(lambda: one.charge(replace(charge, request_digest="e" * 64)), KeyReused):
        yield "a key that paid for one request pays for another"
    if one.store_answer(receipt, b"first") != b"first" or two.store_answer(receipt, b"second") != b"first":
        yield "a receipt gets a second answer"


def _limits(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """No charge passes the limit of the data, or that of its analyst."""
    one.limit_analyst(account, OTHER, Fraction(1, 2), by="audit", reason="audit")
    one.charge(_charge(account, "own 1", Fraction(1, 3), OTHER))
    if not _refused(lambda: two.charge(_charge(account, "own 2", Fraction(1, 3), OTHER)), BudgetExceeded):
        yield "an analyst passes a limit of their own"
    left = LIMIT - one.account(account).spent
    if not _refused(lambda: two.charge(_charge(account, "all 1", left + Fraction(1, 10**12))), BudgetExceeded):
        yield "a charge passes what the data may lose"
    two.charge(_charge(account, "all 2", left))
    if not _refused(lambda: one.charge(_charge(account, "all 3", Fraction(1, 10**12))), BudgetExceeded):
        yield "data without any budget left is charged"


def _versions(one: Ledger, account: str) -> Iterator[str]:
    """What belongs to old data neither pays for new data nor answers for it."""
    charge = _charge(account, "key", Fraction(1, 10))
    if one.replay(account, charge.request_digest, analyst=ANALYST) is None:
        yield "an answer that was paid for is not given again"
    one.new_snapshot(one.account(account), "refreshed", by="audit")
    if one.replay(account, charge.request_digest, analyst=ANALYST) is not None:
        yield "an answer from before the data was refreshed is given for the new data"
    if not _refused(lambda: one.charge(_charge(account, "old", Fraction(0))), StaleVersion):
        yield "a quote for old data is charged for the new data"
    spent = one.account(account).spent
    if spent != LIMIT:
        yield f"data that was refreshed has {LIMIT - spent} of its budget back"


def _carried(one: Ledger) -> Iterator[str]:
    """A new policy multiplies what everybody lost; where nothing bounds that, or it is too much, it is refused."""
    for accounting in (SUM, PER_EDGE):
        terms = replace(TERMS, identity=f"audit://{accounting}", accounting=accounting)
        seen = one.register(terms, name=accounting, by="audit")
        one.charge(replace(_charge(seen.id, "first", Fraction(1, 3)), losses={"moves x": Fraction(1, 3)}))
        change = one.new_version(one.account(seen.id), "policy", '{"new": 1}', Fraction(3), by="audit", reason="audit")
        after, own = one.account(seen.id), one.budget_of(seen.id, ANALYST)
        if change.spent_after != 1 or after.spent != 1 or own.spent != 1:
            yield f"past loss is not carried over to a new policy where it is counted {accounting!r}"
        for kind, stretch in (("whose values were not hidden", None), ("that costs more than there is", Fraction(4))):
            renewed = partial(one.new_version, after, "policy", '{"new": 2}', stretch, by="audit", reason="audit")
            if not _refused(renewed, ChangeRefused):
                yield f"a policy {kind} is let into force"
        version = one.account(seen.id).policy_version
        late = replace(_charge(seen.id, "late", LIMIT - 1 + Fraction(1, 10**12)), policy_version=version)
        if not _refused(partial(one.charge, late), BudgetExceeded):
            yield f"after a new policy more is charged than is left, where it is counted {accounting!r}"


def _classes(one: Ledger) -> Iterator[str]:
    """More classes of edges than are kept apart: what is not kept apart counts for all of them."""
    terms = replace(TERMS, identity="audit://classes", accounting=PER_EDGE)
    account = one.register(terms, name="classes", by="audit").id
    for turn, group in enumerate(("first", "second", "second")):
        losses = {f"{group} {number}": Fraction(1, 2) for number in range(MOST_CLASSES - 1)}
        one.charge(replace(_charge(account, f"class {turn}", Fraction(1, 2)), losses=losses))
    if one.account(account).spent < 1:
        yield "classes of edges beyond those that are kept apart lose nothing"


def _rolled_back(folder: Path) -> Iterator[str]:
    """A copy of the ledger from before a charge would give back what was spent, so it must be refused."""
    path, mark, copy = folder / "old.ledger", folder / "old.mark", folder / "copy.ledger"
    with open_ledger(path, mark=mark) as ledger:
        account = ledger.register(TERMS, name="old", by="audit").id
    shutil.copyfile(path, copy)
    with open_ledger(path, mark=mark) as ledger:
        ledger.charge(_charge(account, "key", Fraction(1)))
    for beside in folder.glob("old.ledger*"):
        beside.unlink()
    shutil.copyfile(copy, path)

    def again() -> None:
        with open_ledger(path, mark=mark) as ledger:
            ledger.charge(_charge(account, "other", Fraction(1)))

    if not _refused(again, LedgerRolledBack):
        yield "an old copy of the ledger is taken for the ledger"


def replay_account(case: Case, seed: int) -> list[Line]:
    """Releases all questions of a case; sums what each change loses, and compares the worst with what was charged."""
    random = np.random.default_rng([seed, 7])
    queries = [question for question in (case.query, *case.further) if question.kind != "points"]
    adjacency = _all_of(case, queries)
    everyone = sample_records(adjacency, random)
    listed = [
        Change((one,), (two,))
        for one, two in itertools.combinations(everyone, 2)
        if moves(adjacency.applied, adjacency.policy, one, two)
    ]
    if case.policy.presence != "public":
        listed += [Change((one,), (None,)) for one in everyone]
    lost = [Fraction(0)] * len(listed)
    violations: list[str] = []
    with scratch(case.domain, case.policy, case.accounting) as world, watched_stages() as recorder:
        base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
        world.fill(table_pair(adjacency, base, listed[0], random).before)
        for number, question in enumerate(queries):
            ready = prepared(case, world.handle, question)
            moved = moved_by_all(recorder, ready.release, listed, adjacency)
            if moved is None:
                violations.append("a release of an account has no fixed plan")
                continue
            lost = [before + now for before, now in zip(lost, moved.losses, strict=True)]
            recorder.record()
            outcome = released(world, ready, f"question {number}")
            violations += [f"the release failed: {outcome.error[:120]}"] if outcome.error else []
        spent, whole = world.spent, case.epsilon * len(queries)
        if not world.ledger.verify().is_sound:
            violations.append("the ledger does not verify after these releases")
    worst = max(lost)
    if worst > spent:
        violations.append(f"a change lost {amount(worst)} over all releases, the account was charged {amount(spent)}")
    summary = f"{len(queries)} releases: loss {amount(worst)}, charged {amount(spent)}, as a sum {amount(whole)}"
    return [judged("replay", case.name, "account", violations, summary, len(listed))]


def _all_of(case: Case, queries: list[Query]) -> Adjacency:
    """One adjacency that looks at every attribute of every question."""
    axes = {axis.attribute: axis for question in queries for axis in question.axes}
    where = next((question.where for question in queries if question.where is not None), None)
    return Adjacency(case.domain, case.policy, tuple(axes.values()), where)


DECLARED = domain({"kind": categorical(["a", "b"], outside="b")})
KEYS = [(1, "a"), (2, "b"), (3, "a"), (3, "a"), (4, "a"), (4, "b"), (5, None), (6, "c"), (None, "a"), (None, "b")]
"""Of these only 1, 2, 5 and 6 are keys of one row."""
KINDS = {1: "a", 2: "b", 6: "b"}
AT_MOST = 2
UNITS: dict[str, Row | Person] = {"rows": ROW, "people": person("who", at_most=AT_MOST, order_by="nr")}


def joined_lines() -> list[Line]:
    """Keys that are missing, that occur twice, that are NULL; for rows, and for people with rows too many."""
    rows = [(place % 8 or None, place % 4, place) for place in range(32)]
    watch, database = Watch(), duckdb.connect(":memory:", config={"threads": 1})
    database.execute("CREATE TABLE main_rows (ref BIGINT, who BIGINT, nr BIGINT)")
    database.execute("CREATE TABLE kinds (id BIGINT, name VARCHAR)")
    database.executemany("INSERT INTO main_rows VALUES (?, ?, ?)", rows)
    database.executemany("INSERT INTO kinds VALUES (?, ?)", KEYS)
    engine = watched_engine(database, watch, "joined")
    source = IbisSource(engine, TableName("main_rows"), [Join("kinds", "ref", "id", {"kind": "name"})])
    lines = []
    for label, unit in UNITS.items():
        counted = rows if isinstance(unit, Row) else [row for row in rows if row[2] < 4 * AT_MOST]
        wanted = Counter(KINDS.get(ref or 0) for ref, _, _ in counted)
        violations = []
        for where, kinds in ((None, ("a", "b", None)), (Column("kind") == "a", ("a",))):
            cells = compile_cells(DECLARED, Policy({"kind": full()}, unit=unit), "kind", where)
            if not np.array_equal(source.prepare(cells, unit).run(None), [wanted[kind] for kind in kinds]):
                violations.append("a joined table makes rows count more than once, or not at all")
        lines.append(judged("replay", f"a joined table, {label}", "counting", violations, "each row counts once", 2))
    database.close()
    return lines
