"""Drills of one case: failing sources and noise, broken counts, budgets; nothing may leak or get lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.audit.cases import Case, prepared
from blowfishdb.audit.definitions import changes, sample_records
from blowfishdb.audit.replay import ReplayOutcome, released
from blowfishdb.audit.report import CheckLine, broken, judged, refused
from blowfishdb.audit.scratch import (
    READ,
    SECRET,
    Neighbours,
    Scratch,
    TapeError,
    neighbours,
    scratch,
)
from blowfishdb.audit.stages import Recorder, watched_stages
from blowfishdb.engine.measure import run_program
from blowfishdb.engine.program import ProgramRelease
from blowfishdb.engine.release import Release
from blowfishdb.errors import AllowanceExceeded
from blowfishdb.model.query import query
from blowfishdb.plan.program import Program

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
