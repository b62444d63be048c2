"""Runs an audit: the tasks of the chosen sections, in one process or several, and every line they give."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata

from blowfishdb.audit.cases import Subject, battery, dataset_cases
from blowfishdb.audit.exact import exact_lines, people_lines, quantile_lines, selection_lines
from blowfishdb.audit.noise import FALSE_ALARM, noise_lines
from blowfishdb.audit.replay import Effort, drills, replay, replay_account
from blowfishdb.audit.report import SECTIONS, Audit, CheckLine, Section, judged, not_tested
from blowfishdb.audit.selections import selection_checks
from blowfishdb.audit.statistical import published, statistical_power
from blowfishdb.audit.twin_cases import twin_tasks
from blowfishdb.errors import InvalidInput

DRILLED = ("identity, threshold, histogram", "dawa, threshold", "synopsis", "weights on points, record")
CheckWork = Callable[[], Iterable[CheckLine]]
CheckWorks = dict[Section, list[tuple[str, CheckWork]]]
"""Pieces of work with their names, by section."""
AuditProgress = Callable[[str, int, int], None]
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


SelfCheck = Callable[[AuditPlan], CheckWorks]
"""Gives the checks of the project's own code, which are part of the source tree and not of the installed package."""


@lru_cache(maxsize=4)
def audit_tasks(plan: AuditPlan, self_check: SelfCheck | None) -> list[tuple[Section, str, CheckWork]]:
    """Every piece of work with its section and its name, in the order of the report."""
    quick, seed, effort = plan.quick, plan.seed, Effort.of(quick=plan.quick)
    cases = battery(quick=quick) if plan.subject is None else dataset_cases(plan.subject)
    replays: list[tuple[str, CheckWork]] = []
    for case in cases:
        replays.append((case.name, partial(replay, case, effort, seed)))
        if case.further:
            replays.append((case.name, partial(replay_account, case, seed)))
        if case.name in DRILLED or (plan.subject is not None and case is cases[0]):
            replays.append((f"drills: {case.name}", partial(drills, case, seed)))
    works: CheckWorks = {
        "replay": replays,
        "twins": twin_tasks(plan.subject, cases, seed, quick=quick),
        "exact": [
            ("tiny domains, by hand", exact_lines),
            *((name, partial(_alone, check)) for name, check in selection_checks(quick=quick).items()),
            ("exponential quantiles", quantile_lines),
            ("names of groups", selection_lines),
            ("persons", people_lines),
        ],
        "statistical": [("published histograms", partial(published, quick=quick))],
        "noise": [("the sampler", partial(noise_lines, quick=quick))],
    }
    further = (self_check or _without_self_check)(plan)
    return [
        (section, name, work)
        for section in plan.sections
        for name, work in (*works[section], *further.get(section, ()))
    ]


def _without_self_check(_: AuditPlan) -> CheckWorks:
    """A line in the report for what an installed package cannot check."""
    line = not_tested("random cases and drills of the project", "self-check", "run the audit from a clone")
    return {section: [(line.subject, lambda: [line])] for section in ("replay", "exact", "statistical")}


def _alone(check: Callable[[], CheckLine]) -> list[CheckLine]:
    """The line of a check that has one."""
    return [check()]


def run_task(plan: AuditPlan, number: int, self_check: SelfCheck | None = None) -> list[CheckLine]:
    """The lines of one task; whatever goes wrong in it is a line as well, for an audit that fails shows nothing."""
    _, name, work = audit_tasks(plan, self_check)[number]
    try:
        return list(work())
    except Exception as failure:  # noqa: BLE001  # the code under audit may fail in any way
        return [judged(name, "audit", [f"could not be audited: {type(failure).__name__}: {str(failure)[:160]}"])]


def run_audit(
    plan: AuditPlan, *, jobs: int = 1, progress: AuditProgress | None = None, self_check: SelfCheck | None = None
) -> Audit:
    """Runs every task of a plan and collects the lines in order."""
    started = time.monotonic()
    tasks, results = audit_tasks(plan, self_check), dict[int, list[CheckLine]]()
    # What a process prints is listened to, so a bar is never drawn in one that audits.
    apart = 0 if jobs <= 1 and progress is None else max(1, jobs)
    # Long tasks first, so that no process ends up alone with them.
    order = sorted(range(len(tasks)), key=lambda number: apart > 0 and tasks[number][0] == "replay")
    for number, lines in run_tasks(plan, order, apart, self_check):
        results[number] = lines
        if progress is not None:
            progress(tasks[number][1], len(results), len(tasks))
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


def run_tasks(
    plan: AuditPlan, order: Iterable[int], processes: int, self_check: SelfCheck | None
) -> Iterator[tuple[int, list[CheckLine]]]:
    """The numbers of tasks and their lines, as each is done, in this process (0) or several; the rest may be left."""
    if processes < 1:
        yield from ((number, run_task(plan, number, self_check)) for number in order)
        return
    # New processes, because a fork would share connections and threads of this one.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        waiting = {pool.submit(run_task, plan, number, self_check): number for number in order}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
