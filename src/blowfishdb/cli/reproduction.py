"""What `blowfish reproduce` does: progress while it runs, then one line for each verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from blowfishdb.cli.output import console, print_json, table
from blowfishdb.engine.present.extras import needed
from blowfishdb.reproduce.experiment import Experiment
from blowfishdb.reproduce.outputs import Done
from blowfishdb.reproduce.report import write_report
from blowfishdb.reproduce.running import Progress, Run, finished_before, run_all
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.table import EXPERIMENTS

MOST_PROCESSES = 4


@dataclass(frozen=True)
class Wish:
    """What the command line asked for."""

    experiments: tuple[Experiment, ...]
    size: Literal["quick", "full"]
    data: Path | None
    out: Path
    seed: int
    processes: int | None
    restart: bool


def print_list(experiments: Sequence[Experiment], *, as_json: bool) -> None:
    """Names, papers and figures."""
    if as_json:
        keys = ("name", "paper", "figure", "what")
        print_json([{key: getattr(one, key) for key in keys} for one in experiments])
        return
    rows = [(one.name, one.figure, one.what) for one in experiments]
    for paper in dict.fromkeys(one.paper for one in experiments):
        own = [row for row, one in zip(rows, experiments, strict=True) if one.paper == paper]
        console().print(table(paper, ("name", "figure", "what"), own, folds=("what",)))


def run(wish: Wish, *, as_json: bool) -> None:
    """Runs them, writes the page, and prints the verdicts."""
    needed("matplotlib", "plot")
    settings = Settings(wish.size, wish.data, wish.seed)
    processes = min(MOST_PROCESSES, os.cpu_count() or 1) if wish.processes is None else wish.processes
    job = Run(settings, wish.out, processes, wish.restart)
    finished = []
    with _shown(wish.experiments) as progress:
        for experiment, done in run_all(job, wish.experiments, progress):
            finished.append((experiment, done))
    pages = write_report(wish.out, settings, finished_before(job, EXPERIMENTS))
    if as_json:
        print_json({"report": [str(path) for path in pages], "experiments": [_plain(*one) for one in finished]})
        return
    rows = [(one.name, done.verdict.holds, done.verdict.why) for one, done in finished]
    screen = console()
    screen.print(table("Do the claims hold?", ("experiment", "holds", "why"), rows, folds=("why",)))
    screen.print(f"Figures and tables: {pages[1]}", markup=False, soft_wrap=True)


def _plain(experiment: Experiment, done: Done) -> dict[str, object]:
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "figure": experiment.figure,
        **asdict(done.verdict),
        "files": [str(path) for path in done.files()],
        "kept": not done.is_new,
    }


@contextmanager
def _shown(experiments: Sequence[Experiment]) -> Iterator[Progress]:
    """A bar for each experiment on the error stream, when that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    screen = console(error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=screen, disable=not screen.is_terminal) as shown:
        tasks = {one.name: shown.add_task(one.name, total=None, start=False) for one in experiments}

        def progress(name: str, done: int, total: int) -> None:
            shown.start_task(tasks[name])
            shown.update(tasks[name], completed=done, total=total)

        yield progress
