"""What `blowfish reproduce` does: progress while it runs, then one line for each verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from blowfishdb.cli.output import console, print_json, table
from blowfishdb.present.export import needed
from papers.data import survey
from papers.experiment import Experiment, Settings
from papers.experiments import EXPERIMENTS
from papers.running import HOLDS, PAGES, Done, Failed, Progress, Run, finished_before, run_all, write_report

MOST_PROCESSES = 4


@dataclass(frozen=True)
class ReproduceOptions:
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


def run(options: ReproduceOptions, *, as_json: bool) -> None:
    """Runs them, writes the page, and prints the verdicts; exit code 1 where some could not be finished."""
    needed("matplotlib", "plot")
    settings = Settings(options.size, options.data, options.seed)
    processes = min(MOST_PROCESSES, os.cpu_count() or 1) if options.processes is None else options.processes
    job = Run(settings, options.out, processes, options.restart)
    if settings.data is not None:
        sources = survey(settings).words()
        if not as_json:
            console(error=True).print(sources, markup=False, soft_wrap=True)
    try:
        outcomes = _outcomes(options, job, is_told=not as_json)
    except KeyboardInterrupt:
        words = "Stopped. What is finished is kept: the same command goes on from there."
        console(error=True).print(words, soft_wrap=True)
        raise
    pages = [options.out / name for name in PAGES]
    finished = [(one, outcome) for one, outcome in outcomes if isinstance(outcome, Done)]
    failed = [(one, outcome) for one, outcome in outcomes if isinstance(outcome, Failed)]
    if as_json:
        failures = [{"name": one.name, "error": each.reason, "trace": str(each.trace)} for one, each in failed]
        experiments = [_plain(one, done) for one, done in finished]
        print_json({"report": [str(path) for path in pages], "experiments": experiments, "failed": failures})
    else:
        rows = [(one.name, done.verdict.holds, done.verdict.why) for one, done in finished]
        screen = console()
        if rows:
            screen.print(table("Do the claims hold?", ("experiment", "holds", "why"), rows, folds=("why",)))
            screen.print(f"Figures and tables: {pages[1]}", markup=False, soft_wrap=True)
        for one, each in failed:
            words = f"{one.name} could not be finished: {each.reason}. Its trace is in {each.trace}"
            console(error=True).print(words, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _outcomes(options: ReproduceOptions, job: Run, *, is_told: bool) -> list[tuple[Experiment, Done | Failed]]:
    """What was asked for, run; the page grows with each, so that a run that is stopped leaves one too."""
    names = {one.name for one in options.experiments}
    before = finished_before(job, [one for one in EXPERIMENTS if one.name not in names])
    known = {one.name: done for one, done in before}
    outcomes = []
    screen = console(error=True)
    with _shown(options.experiments) as progress:
        for experiment, outcome in run_all(job, options.experiments, progress):
            outcomes.append((experiment, outcome))
            if isinstance(outcome, Done):
                known[experiment.name] = outcome
            shown = [(one, known[one.name]) for one in EXPERIMENTS if one.name in known]
            write_report(options.out, job.settings, shown)
            if is_told and not screen.is_terminal:
                line = _line(len(outcomes), len(options.experiments), experiment, outcome)
                screen.print(line, markup=False, soft_wrap=True)
    return outcomes


def _line(place: int, total: int, experiment: Experiment, outcome: Done | Failed) -> str:
    """What is told of an experiment that is done where there is no bar to see."""
    if isinstance(outcome, Failed):
        return f"{place} of {total}: {experiment.name} failed"
    kept = "" if outcome.is_new else ", kept from before"
    return f"{place} of {total}: {experiment.name} {HOLDS[outcome.verdict.holds]}{kept}"


def _plain(experiment: Experiment, done: Done) -> dict[str, object]:
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "figure": experiment.figure,
        **asdict(done.verdict),
        "files": [str(path) for path in done.files()],
        "seconds": round(done.seconds, 1),
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
