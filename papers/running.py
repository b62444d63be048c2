"""Runs experiments and writes what they found: finished ones are skipped, interrupted ones go on where they stopped."""

from __future__ import annotations

import hashlib
import html
import json
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import blowfishdb
from blowfishdb.errors import InvalidInput
from blowfishdb.present.export import needed
from papers.data import data_digest, survey
from papers.experiment import Case, Experiment, Picture, Result, Row, Settings, Verdict

# The rows of finished cases, a line each, so that an interrupted run goes on behind them.


@dataclass(frozen=True)
class Measured:
    """The rows of one case, and the processor's seconds that they took."""

    rows: Sequence[Row]
    seconds: float


@dataclass(frozen=True)
class Checkpoints:
    """A JSONL file whose first line is the digest of the run that it belongs to."""

    path: Path
    digest: str

    def read(self) -> dict[Case, Measured]:
        """The cases that are done; a file of another run is begun anew, a line that cannot be read is left out."""
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
        lines = text.splitlines(keepends=True)
        kept = list(_whole(lines))
        if not kept or kept[0][1] != {"digest": self.digest}:
            self.path.write_text(json.dumps({"digest": self.digest}) + "\n", encoding="utf-8")
            return {}
        if len(kept) < len(lines):
            self.path.write_text("".join(line for line, _ in kept), encoding="utf-8")
        return {tuple(one["case"]): Measured(one["rows"], one["seconds"]) for _, one in kept[1:]}

    def add(self, case: Case, outcome: Measured) -> None:
        """Writes down a finished case."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case, "rows": outcome.rows, "seconds": outcome.seconds}) + "\n")


def _whole(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that hold a whole document, with what they hold."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if line.endswith("\n") and isinstance(entry, dict):
            yield line, entry


# Files of a finished experiment: a CSV for each table, PNG and SVG for each figure, and the verdict.

SUMMARY = "result.json"
DOTS_PER_INCH = 160


@dataclass(frozen=True)
class Done:
    """The verdict, the titles of tables and figures by their files without ending, and the processor's seconds."""

    folder: Path
    verdict: Verdict
    tables: dict[str, str]
    pictures: dict[str, str]
    seconds: float
    is_new: bool

    def files(self) -> list[Path]:
        """Every file of the tables and figures."""
        drawn = [self.folder / f"{name}.{ending}" for name in self.pictures for ending in ("png", "svg")]
        return [*(self.folder / f"{name}.csv" for name in self.tables), *drawn]


def write_result(folder: Path, digest: str, result: Result, seconds: float) -> Done:
    """Writes tables and figures, and the summary last: it says that all else is there."""
    for table in result.tables:
        (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    for picture in result.pictures:
        _draw(folder, picture)
    tables = {table.name: table.title for table in result.tables}
    pictures = {picture.name: f"{picture.title} ({picture.trials})" for picture in result.pictures}
    summary = {
        "digest": digest,
        "verdict": asdict(result.verdict),
        "tables": tables,
        "pictures": pictures,
        "seconds": round(seconds, 1),
    }
    unfinished = folder / f"{SUMMARY}.part"
    unfinished.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(folder / SUMMARY)
    return Done(folder, result.verdict, tables, pictures, seconds, is_new=True)


def read_done(folder: Path, digest: str) -> Done | None:
    """What was found before under this digest, if every file is still there."""
    path = folder / SUMMARY
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if kept["digest"] != digest:
        return None
    done = Done(folder, Verdict(**kept["verdict"]), kept["tables"], kept["pictures"], kept["seconds"], is_new=False)
    return done if all(file.exists() for file in done.files()) else None


def _draw(folder: Path, picture: Picture) -> None:
    """Draws without pyplot, whose figures are global; the same numbers give the same bytes of SVG."""
    matplotlib = needed("matplotlib", "plot")
    figures = needed("matplotlib.figure", "plot")
    with matplotlib.rc_context({"svg.hashsalt": picture.name, "svg.fonttype": "none", "font.size": 9}):
        figure = figures.Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        figure.suptitle(f"{picture.title}\n{picture.trials}", fontsize=10, x=0.01, ha="left")
        # The layout is worked out once: it takes longer than to draw.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        figure.savefig(folder / f"{picture.name}.png", dpi=DOTS_PER_INCH)
        figure.savefig(folder / f"{picture.name}.svg", metadata={"Date": None})


# One page with every figure and verdict, as Markdown and as HTML.

PAGES = ("index.md", "index.html")
HOLDS = {"yes": "holds", "no": "does not hold", "partly": "holds in part"}
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 60rem; margin: 2rem auto }
body { padding: 0 1rem } img { max-width: 100%; height: auto } h2 { margin-top: 2.5rem } .holds { font-weight: 600 }"""

Finished = Sequence[tuple[Experiment, Done]]


def write_report(out: Path, settings: Settings, finished: Finished) -> None:
    """Writes index.md and index.html beside the experiments' folders."""
    for name, text in zip(PAGES, (markdown(settings, finished), page(settings, finished)), strict=True):
        (out / name).write_text(text, encoding="utf-8")


def markdown(settings: Settings, finished: Finished) -> str:
    """The page for a repository or a notebook."""
    lines = ["# The papers' experiments, run again", "", _how(settings), ""]
    for experiment, done in finished:
        verdict = done.verdict
        lines += [f"## {experiment.figure}: {experiment.what}", "", f"{experiment.paper}. `{experiment.name}`", ""]
        lines += [f"Claim: {verdict.claim} **It {HOLDS[verdict.holds]}.** {verdict.why}", ""]
        lines += [_took(done), ""]
        lines += [f"![{title}]({experiment.name}/{name}.png)" for name, title in done.pictures.items()]
        lines += ["", "Tables: " + ", ".join(f"[{title}]({link})" for title, link in _links(experiment, done)), ""]
    return "\n".join(lines)


def page(settings: Settings, finished: Finished) -> str:
    """The page for a browser."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>The papers' experiments</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style><main>",
        f"<h1>The papers' experiments, run again</h1><p>{html.escape(_how(settings))}</p>",
    ]
    for experiment, done in finished:
        verdict = done.verdict
        title = html.escape(f"{experiment.figure}: {experiment.what}")
        parts.append(
            f"<h2 id='{experiment.name}'>{title}</h2><p>{html.escape(experiment.paper)}. {experiment.name}</p>"
        )
        parts.append(
            f"<p>Claim: {html.escape(verdict.claim)} <span class='holds'>It {HOLDS[verdict.holds]}.</span> "
            f"{html.escape(verdict.why)}</p>"
        )
        parts += [
            f"<p><img src='{experiment.name}/{name}.svg' alt='{html.escape(text, quote=True)}'></p>"
            for name, text in done.pictures.items()
        ]
        parts.append(f"<p>{_took(done)}</p>")
        links = (f"<a href='{link}'>{html.escape(words)}</a>" for words, link in _links(experiment, done))
        parts.append(f"<p>Tables: {', '.join(links)}</p>")
    return "\n".join([*parts, "</main></html>", ""])


def _took(done: Done) -> str:
    return f"Processor time: {done.seconds / 60:,.1f} minutes."


def _links(experiment: Experiment, done: Done) -> Iterator[tuple[str, str]]:
    """The title and the file of each table."""
    for name, title in done.tables.items():
        yield title, f"{experiment.name}/{name}.csv"


def _how(settings: Settings) -> str:
    trials = {"tiny": "A run too small to show anything", "quick": "A quick run with few trials", "full": "A full run"}
    given = "" if settings.data is None else f" From the given folder: {survey(settings).words()}"
    return (
        f"{trials[settings.size]}, seed {settings.seed}. Data sets that may not be shipped and were not given are "
        f"replaced by generated ones, named stand-in wherever they appear.{given}"
    )


# Runs experiments: finished ones are skipped, interrupted ones go on where they stopped.

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


@dataclass(frozen=True)
class Failed:
    """Why an experiment could not be finished, and the file that holds the trace; its finished cases are kept."""

    reason: str
    trace: Path


def run_all(
    run: Run, experiments: Sequence[Experiment], progress: Progress
) -> Iterator[tuple[Experiment, Done | Failed]]:
    """Each experiment with what it found, in order, as soon as it is done; one that fails does not end the others.

    CannotWrite ends the run: a folder that takes no files concerns every experiment.
    """
    with _written(run.out):
        run.out.mkdir(parents=True, exist_ok=True)
    waiting = list(experiments)
    while waiting:
        with _workers(run.processes) as workers:
            while waiting:
                experiment = waiting.pop(0)
                try:
                    yield experiment, run_one(run, experiment, progress, workers)
                except CannotWrite:
                    raise
                except BrokenProcessPool:
                    # The others get new processes.
                    yield experiment, _failed(run, experiment, WORKER_ENDED)
                    break
                except Exception as fault:  # noqa: BLE001  # an experiment may fail in any way
                    yield experiment, _failed(run, experiment, f"{type(fault).__name__}: {fault}")


WORKER_ENDED = "a worker was ended from outside, perhaps for want of memory; --processes 1 needs the least"
TRACE = "error.txt"


def _failed(run: Run, experiment: Experiment, reason: str) -> Failed:
    """Writes down the error that is being handled."""
    path = run.out / experiment.name / TRACE
    with _written(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback.format_exc(), encoding="utf-8")
    return Failed(reason, path)


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
        finished = kept.read()
    waiting = [case for case in cases if case not in finished]
    progress(experiment.name, len(cases) - len(waiting), len(cases))
    for case, measured in _measured(experiment, run.settings, waiting, workers):
        finished[case] = measured
        with _written(folder):
            kept.add(case, measured)
        progress(experiment.name, sum(one in finished for one in cases), len(cases))
    result = procedure.conclude(run.settings, [row for case in cases for row in finished[case].rows])
    with _written(folder):
        (folder / TRACE).unlink(missing_ok=True)
        return write_result(folder, digest, result, sum(finished[case].seconds for case in cases))


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
    whole = hashlib.sha256()
    for root in (Path(blowfishdb.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            inside = path.relative_to(root)
            if inside.parts[0] not in UNUSED_ROOMS:
                whole.update(f"{root.name}/{inside}".encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


class CannotWrite(InvalidInput):
    """Results cannot be kept where they should go."""


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Says in words why a folder cannot be written to."""
    try:
        yield
    except OSError as fault:
        why = fault.strerror or type(fault).__name__
        raise CannotWrite(
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
    try:
        for future in as_completed(pending):
            yield pending[future], future.result()
    finally:
        for future in pending:
            future.cancel()


def _measure(experiment: Experiment, settings: Settings, case: Case) -> Measured:
    """One case, in whichever process this is."""
    start = time.process_time()
    rows = [dict(row) for row in experiment.procedure().measure(settings, case)]
    return Measured(rows, time.process_time() - start)
