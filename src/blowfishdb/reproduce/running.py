"""Runs experiments: finished ones are skipped, interrupted ones go on where they stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import blowfishdb
from blowfishdb.errors import InvalidInput
from blowfishdb.reproduce.checkpoints import Checkpoints, Measured
from blowfishdb.reproduce.data import data_digest
from blowfishdb.reproduce.experiment import Case, Experiment
from blowfishdb.reproduce.outputs import Done, read_done, write_result
from blowfishdb.reproduce.settings import Settings

UNUSED_ROOMS = {"cli", "server", "audit"}
"""Parts of the program that no experiment runs; a change there makes no result stale."""

Progress = Callable[[str, int, int], None]
"""Told the experiment's name, how many of its cases are done, and how many there are."""


@dataclass(frozen=True)
class Run:
    """Where results go and how many processes make them."""

    settings: Settings
    out: Path
    processes: int = 1
    restart: bool = False

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise InvalidInput("at least one process is needed")
        if self.out.exists() and not self.out.is_dir():
            raise InvalidInput(f"{self.out} is no folder; --out names the one for tables and figures")


def run_all(run: Run, experiments: Sequence[Experiment], progress: Progress) -> Iterator[tuple[Experiment, Done]]:
    """Each experiment with what it found, in order, as soon as it is done."""
    with _written(run.out):
        run.out.mkdir(parents=True, exist_ok=True)
    with _workers(run.processes) as workers:
        for experiment in experiments:
            yield experiment, run_one(run, experiment, progress, workers)


def run_one(run: Run, experiment: Experiment, progress: Progress, workers: Executor | None = None) -> Done:
    """What one experiment found: kept from before when settings, code and data are the same."""
    folder = run.out / experiment.name
    digest = run_digest(run.settings, experiment)
    if run.restart and folder.exists():
        shutil.rmtree(folder)
    known = read_done(folder, digest)
    if known is not None:
        progress(experiment.name, 1, 1)
        return known
    procedure = experiment.procedure()
    cases = list(procedure.cases(run.settings))
    kept = Checkpoints(folder / "cases.jsonl", digest)
    with _written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        found = kept.read()
    waiting = [case for case in cases if case not in found]
    progress(experiment.name, len(cases) - len(waiting), len(cases))
    for case, measured in _measured(experiment, run.settings, waiting, workers):
        found[case] = measured
        with _written(folder):
            kept.add(case, measured)
        progress(experiment.name, sum(one in found for one in cases), len(cases))
    result = procedure.conclude(run.settings, [row for case in cases for row in found[case].rows])
    with _written(folder):
        return write_result(folder, digest, result, sum(found[case].seconds for case in cases))


def finished_before(run: Run, experiments: Sequence[Experiment]) -> list[tuple[Experiment, Done]]:
    """Those that are finished in the output folder under the same settings, code and data."""
    kept = [(one, read_done(run.out / one.name, run_digest(run.settings, one))) for one in experiments]
    return [(one, done) for one, done in kept if done is not None]


def run_digest(settings: Settings, experiment: Experiment) -> str:
    """A hash of everything that decides the numbers, but for the noise."""
    parts = [experiment.name, settings.size, settings.seed, data_digest(settings), code_digest()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A hash of the program's own source files, as they were when this process first asked."""
    root = Path(blowfishdb.__file__).parent
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in UNUSED_ROOMS:
            whole.update(str(inside).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Says in words why a folder cannot be written to."""
    try:
        yield
    except OSError as fault:
        why = fault.strerror or type(fault).__name__
        raise InvalidInput(
            f"{folder} cannot be written to ({why}); what is finished is kept, and --out names another folder"
        ) from None


@contextmanager
def _workers(processes: int) -> Iterator[Executor | None]:
    if processes == 1:
        yield None
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_end_at_once)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _end_at_once() -> None:
    """Workers are ended by Ctrl-C without a word; what they had finished is kept."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _measured(
    experiment: Experiment, settings: Settings, cases: Sequence[Case], workers: Executor | None
) -> Iterator[tuple[Case, Measured]]:
    """The rows of each case, as they come."""
    if workers is None:
        for case in cases:
            yield case, _measure(experiment, settings, case)
        return
    pending = {workers.submit(_measure, experiment, settings, case): case for case in cases}
    for future in as_completed(pending):
        try:
            yield pending[future], future.result()
        except BrokenProcessPool:
            raise InvalidInput(
                "a worker was ended from outside, perhaps for want of memory; what is finished is kept, and "
                "--processes 1 needs the least"
            ) from None


def _measure(experiment: Experiment, settings: Settings, case: Case) -> Measured:
    """One case, in whichever process this is."""
    start = time.process_time()
    rows = [dict(row) for row in experiment.procedure().measure(settings, case)]
    return Measured(rows, time.process_time() - start)
