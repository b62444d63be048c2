"""blowfish audit: tests the privacy of mechanisms, or of a dataset; blowfish reproduce: the papers' experiments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import blowfishdb
from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption, dataset_names
from blowfishdb.cli.output import console, print_json, say, table
from blowfishdb.errors import InvalidInput

if TYPE_CHECKING:
    from blowfishdb.audit.report import Audit
    from blowfishdb.audit.run import AuditProgress, SelfCheck


VIOLATION = 8
"""The exit code of an audit that found a violation."""
MOST_SHOWN = 12

DatasetArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DATASET]", help="A declared dataset. [the built-in cases]", autocompletion=dataset_names),
]
QueriesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--query", metavar="SQL", help="A question to audit on the dataset; may be repeated. [the usual ones]"
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Run a short form, in a minute or two instead of several.")]
Only = Annotated[
    str | None,
    typer.Option(metavar="SECTIONS", help="Only these, separated by commas: replay,twins,exact,statistical,noise."),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="PLACE", help="Where to write the report: a folder, or a .html, .md or .json file."),
]
Seed = Annotated[int, typer.Option(metavar="NUMBER", help="Chooses the made-up tables and the neighbours.")]
Jobs = Annotated[int | None, typer.Option(metavar="NUMBER", help="Processes to use. [one per core, at most 4]")]


def audit(
    name: DatasetArgument = None,
    queries: QueriesOption = None,
    quick: Quick = False,
    only: Only = None,
    report: Report = None,
    seed: Seed = 1,
    jobs: Jobs = None,
    config: ConfigOption = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Tests what is claimed about privacy. By replay, in twin worlds, exactly, by statistics, and the noise itself.

    Tables are made up in memory from the declared domain and charges go to a scratch ledger: no real row is read,
    nothing real is charged. Ends with code 8 when a violation is found.

    \b
    Examples
      blowfish audit --quick
      blowfish audit --report audit.html
      blowfish audit visits --query "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
      blowfish audit visits --only twins
      blowfish audit --only replay,noise --seed 7 --json
    """
    from blowfishdb.audit.cases import Subject
    from blowfishdb.audit.report import SECTIONS, as_document, check_report, write_report
    from blowfishdb.audit.run import AuditPlan, run_audit
    from blowfishdb.catalog import read_config

    if queries and name is None:
        raise InvalidInput("--query is about a dataset: name the dataset first")
    if report is not None:
        check_report(report)
    subject = None
    if name is not None:
        read_config(config).dataset(name)
        subject = Subject(config.absolute(), name, tuple(queries or ()))
    wanted = None if only is None else tuple(part.strip() for part in only.split(","))
    known = [section for section in SECTIONS if wanted is None or section in wanted]
    wrong = [part for part in wanted or () if part not in SECTIONS]
    if wrong:
        raise InvalidInput(f"an audit has no section {wrong[0]!r}; its sections are {', '.join(SECTIONS)}")
    plan = AuditPlan(subject, quick, tuple(known), seed)
    processes, self_check = jobs or min(4, os.cpu_count() or 1), find_self_check()
    with _bar(quiet=as_json) as progress:
        outcome = run_audit(plan, jobs=processes, progress=progress, self_check=self_check)
    paths = [] if report is None else write_report(outcome, report)
    if as_json:
        print_json(as_document(outcome))
    else:
        _show(outcome)
        if self_check is None:
            say("Not run: checks of the project's own code on random cases, which need a clone.", style="dim")
        for path in paths:
            say(f"Written: {path}", style="dim")
    if not outcome.is_clean:
        raise typer.Exit(VIOLATION)


def _show(outcome: Audit) -> None:
    """Prints the summary of an audit and its violations."""
    from blowfishdb.audit.report import summary, verdict_words

    rows = [(name, f"{a:,}", f"{b:,}", f"{c:,}", f"{d:,}") for name, a, b, c, d in summary(outcome)]
    columns = ("section", "clean", "violations", "not tested", "tried")
    say(table(f"Audit of {outcome.title}", columns, rows, right=columns[1:]))
    if outcome.violations:
        lines = [(part, line.subject, line.check, line.found) for part, line in outcome.violations[:MOST_SHOWN]]
        say(table("Violations", ("section", "subject", "check", "found"), lines, folds=("subject", "found")))
    for sentence in outcome.powers:
        say(sentence, style="dim")
    say("Made-up tables and a scratch ledger: no real row was read, nothing real was charged.", style="dim")
    say(f"{verdict_words(outcome)} ({outcome.seconds:.0f} s)", style="bold" if outcome.is_clean else "bold red")


@contextmanager
def _bar(*, quiet: bool) -> Iterator[AuditProgress | None]:
    """A progress bar, in a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(error=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=name[:50])

        yield report


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]...", help="Experiments, or what their names begin with: dawa. [all of them]"),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name each experiment with its paper and figure.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: all of them within minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Histograms to read (.npy) in place of the stand-ins.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where tables and figures go.")] = Path("reproduced"),
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Another seed draws other workloads.")] = 0,
    processes: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="How many work at once. [one per core, at most four]")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what earlier runs have finished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Runs the papers' experiments again, from a clone. Gives tables, figures, and whether each claim holds.

    What is finished is kept: the same command continues where it was stopped.

    \b
    Examples
      blowfish reproduce --list
      blowfish reproduce --quick
      blowfish reproduce dawa-figure-3 thesis --data histograms --out figures
    """
    if not _find_in_clone("papers"):
        raise InvalidInput(
            "the papers' experiments are part of the source tree and not of the installed package: clone the "
            "repository, run `make setup`, then `blowfish reproduce` there"
        )
    from papers.command import ReproduceOptions, print_list, run
    from papers.experiments import chosen

    experiments = chosen(tuple(names or ()))
    if list_:
        print_list(experiments, as_json=as_json)
        return
    options = ReproduceOptions(experiments, "quick" if quick else "full", data, out, seed, processes, restart)
    run(options, as_json=as_json)


def _find_in_clone(package: str) -> bool:
    """Puts the root of a source tree that has this package on the path, ahead of any other of the same name."""
    root = Path(blowfishdb.__file__).resolve().parents[2]
    if not (root / package / "__init__.py").is_file():
        return False
    if sys.path[0] != str(root):
        sys.path.insert(0, str(root))
    return True


def find_self_check() -> SelfCheck | None:
    """The checks of the project's own code, when the package runs from a clone."""
    if not _find_in_clone("selfcheck"):
        return None
    from selfcheck.tasks import self_check_works

    return self_check_works
