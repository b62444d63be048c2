"""Drills: what a release says and charges when something fails, on neighbouring tables and beyond the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blowfishdb.audit.cases import Case, Ready, made_ready
from blowfishdb.audit.neighbours import changes, sample_records
from blowfishdb.audit.one_release import INCIDENT, Outcome, released
from blowfishdb.audit.scratch import READ, SECRET, Scratch, scratch
from blowfishdb.audit.stages import Recorder, watched_stages
from blowfishdb.audit.tables import Pair, table_pair
from blowfishdb.audit.tape import TapeError
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.run_program import run_program
from blowfishdb.errors import AllowanceExceeded
from blowfishdb.model.arrays import Ints
from blowfishdb.plan.stages import Program

TELLTALE = 31_337_031
"""A count that no message may repeat."""


def drills(case: Case, seed: int) -> list[Line]:
    """The lines of all drills on one case."""
    random = np.random.default_rng([seed, 11])
    setting = case.setting
    everyone = sample_records(setting, random)
    base = [everyone[int(i)] for i in random.integers(len(everyone), size=case.rows)]
    pair = table_pair(setting, base, changes(setting, everyone)[0], random)
    limit = case.epsilon * Fraction(5, 2)
    with scratch(case.domain, case.policy, case.accounting, limit) as world, watched_stages() as recorder:
        ready = made_ready(case, world.holding, case.asked)
        dear = Ready(
            ready.digest, made_ready(replace(case, epsilon=2 * case.epsilon), world.holding, case.asked).payable
        )
        name = f"drills: {case.name}"
        staged = [ready.payable] if isinstance(ready.payable, PreparedProgram) else []
        return [
            judged(
                "replay",
                name,
                "a failing source",
                _failing_source(world, recorder, ready, dear, pair),
                "tells nothing",
                2,
            ),
            judged("replay", name, "failing noise", _failing_noise(world, recorder, ready, pair), "tells nothing", 2),
            judged("replay", name, "broken counts", list(_broken_counts(world, recorder, ready)), "tells nothing", 3),
            judged("replay", name, "the budget", _budget(world, recorder, ready, limit), "is never passed", 3),
            *(judged("replay", name, "a stage that wants too much", _greedy(each), "is stopped", 1) for each in staged),
        ]


def _told(outcome: Outcome) -> list[str]:
    """What an outcome gives away of what the engine said or counted."""
    heard = " ".join([outcome.error, outcome.payload.decode(errors="replace"), *outcome.logged])
    secrets = [word for word in (*SECRET.replace(",", " ").split(), str(TELLTALE)) if word.isdigit()]
    return [f"the message repeats {word}: {heard[:120]}" for word in secrets if word in heard]


def _failing_source(world: Scratch, recorder: Recorder, ready: Ready, dear: Ready, pair: Pair) -> list[str]:
    """The engine fails and quotes rows: both tables must be told the same, and the charge must stay, once.

    What was charged for then pays for this release alone, and not for a `dear` one.
    """
    recorder.record()
    found, outcomes = list[str](), list[Outcome]()
    for number, rows in enumerate((pair.before, pair.after)):
        world.fill(rows)
        world.watch.trouble = RuntimeError(f"{SECRET} row {number}")
        outcomes.append(released(world, ready, "failing source"))
        world.watch.trouble = None
        found += _told(outcomes[-1])
        if not outcomes[-1].error:
            found.append("a failing source gave an answer")
    if INCIDENT.sub("", outcomes[0].error) != INCIDENT.sub("", outcomes[1].error):
        found.append("the message of a failing source depends on the data")
    if outcomes[0].spent != ready.payable.epsilon or outcomes[1].spent != 0:
        found.append("a failed release must be charged once, however often it is tried again")
    if not released(world, dear, "failing source").error:
        found.append("what was charged for one release paid for another that costs twice as much")
    again = released(world, ready, "failing source")
    if again.error or again.spent:
        found.append("a release whose count failed must be free to try again")
    return found


def _failing_noise(world: Scratch, recorder: Recorder, ready: Ready, pair: Pair) -> list[str]:
    """Noise fails after the counts are there: nobody may learn more than that it failed, and never a second draw."""
    found, outcomes = list[str](), list[Outcome]()
    for rows in (pair.before, pair.after):
        world.fill(rows)
        recorder.record()
        recorder.tape.play([np.zeros(10**4 + 7, dtype=np.int64)])
        outcomes.append(released(world, ready, "failing noise"))
        recorder.tape.draw_for_real()
        found += _told(outcomes[-1])
    if not all(outcome.error for outcome in outcomes):
        found.append("a release whose noise failed gave an answer")
    if any(TapeError.__name__ in outcome.error for outcome in outcomes):
        found.append("a release that failed says what went wrong inside")
    if outcomes[0].error != outcomes[1].error:
        found.append("a release that failed after the draw is not told by its first outcome")
    if any(outcome.spent for outcome in outcomes[1:]):
        found.append("a failed release was charged twice")
    return found


def _broken_counts(world: Scratch, recorder: Recorder, ready: Ready) -> Iterator[str]:
    """Counts of a wrong shape, or too large to add up: whatever is said must not quote them."""
    recorder.record()
    broken: list[Ints] = [
        np.full(3, TELLTALE, dtype=np.int64),
        np.full(10**4 + 7, TELLTALE, dtype=np.int64),
    ]
    for counts in broken:
        try:
            ready.payable.payload(counts, world.holding)
            yield "counts of a wrong shape were measured"
        except Exception as failure:  # noqa: BLE001  # whatever it is, its words are looked at
            if str(TELLTALE) in str(failure):
                yield f"the message quotes counts: {str(failure)[:100]}"


def _greedy(prepared: PreparedProgram) -> list[str]:
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


def _budget(world: Scratch, recorder: Recorder, ready: Ready, limit: Fraction) -> list[str]:
    """Two releases were charged by now; half of a third one is left, so it is refused and reads nothing."""
    recorder.record()
    found = list[str]()
    before = world.spent
    refused = released(world, ready, "one too many")
    if not refused.error.startswith("budget_exceeded") and "budget" not in refused.error:
        found.append(f"a release beyond the budget is not refused: {refused.error[:80] or 'answered'}")
    if READ in refused.events or refused.spent:
        found.append("a release beyond the budget reads rows or is charged")
    if world.spent > limit:
        found.append("the account passed its limit")
    if before != 2 * ready.payable.epsilon:
        found.append(f"two releases cost {before} in all, not twice {ready.payable.epsilon}")
    if not world.ledger.verify().is_sound:
        found.append("the ledger does not verify")
    return found
