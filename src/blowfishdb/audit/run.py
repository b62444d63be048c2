"""Runs an audit: the tasks of the chosen sections, in one process or several, and every line they give."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata

from blowfishdb.audit.cases import Subject, battery, dataset_cases
from blowfishdb.audit.chains import chain_drill_lines, chain_lines, session_chain_lines
from blowfishdb.audit.counting import counting_lines, truth_lines
from blowfishdb.audit.digests import digest_lines, process_lines
from blowfishdb.audit.drills import drills, joined_lines, session_lines
from blowfishdb.audit.exact import (
    exact_lines,
    people_lines,
    quantile_lines,
    refusal_lines,
    selection_lines,
    threshold_lines,
)
from blowfishdb.audit.ledger_drills import ledger_lines
from blowfishdb.audit.noise import FALSE_ALARM, noise_lines
from blowfishdb.audit.random_cases import (
    WAYS,
    account_lines,
    certificate_lines,
    declaration_lines,
    edge_lines,
    graph_lines,
    people_constraint_lines,
    point_lines,
)
from blowfishdb.audit.replay import Effort, replay, replay_account
from blowfishdb.audit.report import SECTIONS, Audit, CheckLine, Section, judged
from blowfishdb.audit.selections import choice_lines, cost_lines, refinement_lines, selection_checks
from blowfishdb.audit.statistical import published, residuals, selections, statistical_power
from blowfishdb.errors import InvalidInput

DRILLED = ("identity, threshold, histogram", "dawa, threshold", "synopsis", "weights on points, record")
Work = Callable[[], Iterable[CheckLine]]
Progress = Callable[[str, int, int], None]
"""Hears what was done, how many tasks are done, and how many there are."""


@dataclass(frozen=True)
class AuditPlan:
    """The dataset of an audit (None: the built-in battery), its length, its sections and its seed."""

    subject: Subject | None = None
    quick: bool = False
    sections: tuple[Section, ...] = SECTIONS
    seed: int = 1

    def __post_init__(self) -> None:
        wrong = [name for name in self.sections if name not in SECTIONS]
        if wrong or not self.sections:
            raise InvalidInput(f"the sections of an audit are {', '.join(SECTIONS)}, not {', '.join(wrong) or 'none'}")
        if isinstance(self.seed, bool) or not 0 <= self.seed < 2**32:
            raise InvalidInput("a seed is a whole number from 0 to 4294967295")


@lru_cache(maxsize=4)
def _tasks(plan: AuditPlan) -> list[tuple[Section, str, Work]]:
    """Every piece of work with its section and its name, in the order of the report."""
    quick, seed, effort = plan.quick, plan.seed, Effort.of(quick=plan.quick)
    cases = battery(quick=quick) if plan.subject is None else dataset_cases(plan.subject)
    replays: list[tuple[str, Work]] = []
    for case in cases:
        replays.append((case.name, partial(replay, case, effort, seed)))
        if case.further:
            replays.append((case.name, partial(replay_account, case, seed)))
        if case.name in DRILLED or (plan.subject is not None and case is cases[0]):
            replays.append((f"drills: {case.name}", partial(drills, case, seed)))
    # These have tables of their own, and tell nothing about a declared dataset.
    general: list[tuple[str, Work]] = [
        ("sessions that share noise", partial(session_chain_lines, quick=quick, seed=seed)),
        ("answers without noise", partial(truth_lines, quick=quick, seed=seed)),
        ("made-up tables", partial(counting_lines, quick=quick, seed=seed)),
    ]
    works: dict[Section, list[tuple[str, Work]]] = {
        "replay": [
            *replays,
            ("drills: the ledger", ledger_lines),
            ("drills: sessions", session_lines),
            ("drills: shared noise", chain_drill_lines),
            ("joined tables", joined_lines),
            *([] if plan.subject is not None else general),
        ],
        "exact": [
            ("tiny domains, by hand", exact_lines),
            ("levels that share noise", chain_lines),
            *((name, partial(_alone, check)) for name, check in selection_checks(quick=quick).items()),
            ("digests", digest_lines),
            ("costs of selections", cost_lines),
            ("winners of selections", choice_lines),
            ("cuts of refinements", refinement_lines),
            ("refusals", refusal_lines),
            ("exponential quantiles", quantile_lines),
            ("names of groups", selection_lines),
            ("persons", people_lines),
            ("several datasets in one process", process_lines),
            ("constraints and people", people_constraint_lines),
            ("joint thresholds", threshold_lines),
            *((f"made-up plans, {way}", partial(certificate_lines, way, quick=quick, seed=seed)) for way in WAYS),
            *((f"plans on small graphs, {way}", partial(edge_lines, way, quick=quick, seed=seed)) for way in WAYS),
            *((f"made-up graphs, {way}", partial(graph_lines, way, quick=quick, seed=seed)) for way in WAYS),
            ("made-up declarations", partial(declaration_lines, quick=quick, seed=seed)),
            ("made-up points", partial(point_lines, quick=quick, seed=seed)),
            ("made-up accounts", partial(account_lines, quick=quick, seed=seed)),
        ],
        "statistical": [
            ("published histograms", partial(published, quick=quick)),
            ("noise on rows", partial(residuals, quick=quick)),
            ("selections", partial(selections, quick=quick)),
        ],
        "noise": [("the sampler", partial(noise_lines, quick=quick))],
    }
    return [(section, name, work) for section in plan.sections for name, work in works[section]]


def _alone(check: Callable[[], CheckLine]) -> list[CheckLine]:
    """The line of a check that has one."""
    return [check()]


def run_task(plan: AuditPlan, number: int) -> list[CheckLine]:
    """The lines of one task; whatever goes wrong in it is a line as well, for an audit that fails shows nothing."""
    _, name, work = _tasks(plan)[number]
    try:
        return list(work())
    except Exception as failure:  # noqa: BLE001  # the code under audit may fail in any way
        return [judged(name, "audit", [f"could not be audited: {type(failure).__name__}: {str(failure)[:160]}"])]


def run_audit(plan: AuditPlan, *, jobs: int = 1, progress: Progress | None = None) -> Audit:
    """Runs every task of a plan and collects the lines in order."""
    started = time.monotonic()
    tasks = _tasks(plan)
    if jobs <= 1 and progress is None:
        results = {number: run_task(plan, number) for number in range(len(tasks))}
    else:
        # What a process prints is listened to, so a bar is never drawn in one that audits.
        results = _in_several(plan, jobs, progress)
    sections: dict[Section, list[CheckLine]] = {section: [] for section in plan.sections}
    for number, (section, _, _) in enumerate(tasks):
        sections[section] += results[number]
    powers = [f"Sampler: at least 0.9999 for a scale 10 % off, at a false alarm of at most {FALSE_ALARM:g}."]
    if "statistical" in plan.sections:
        powers += statistical_power(quick=plan.quick)
    return Audit(
        title="the built-in battery" if plan.subject is None else f"the dataset {plan.subject.name}",
        quick=plan.quick,
        seed=plan.seed,
        version=metadata.version("blowfishdb"),
        seconds=time.monotonic() - started,
        sections=sections,
        powers=tuple(powers),
    )


def _in_several(plan: AuditPlan, jobs: int, progress: Progress | None) -> dict[int, list[CheckLine]]:
    tasks, results = _tasks(plan), dict[int, list[CheckLine]]()
    # New processes, because a fork would share connections and threads of this one.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        # Long tasks first, so that no process ends up alone with them.
        order = sorted(range(len(tasks)), key=lambda number: tasks[number][0] == "replay")
        waiting = {pool.submit(run_task, plan, number): number for number in order}
        for done, future in enumerate(as_completed(waiting)):
            number = waiting[future]
            results[number] = future.result()
            if progress is not None:
                progress(tasks[number][1], done + 1, len(tasks))
    return results
