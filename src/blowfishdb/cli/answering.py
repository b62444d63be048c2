"""Previews and answers on the screen, in JSON and in files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

from blowfishdb.cli.output import console, print_json, short, table
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.present.numbers import readable
from blowfishdb.engine.preview import HOW_KNOWN, Preview
from blowfishdb.errors import ExtraMissing, InvalidInput
from blowfishdb.session import Question, Session
from blowfishdb.sql import parse, write_options

STEP_WORDS = {
    "quote": "choosing a mechanism",
    "charge": "charging the ledger",
    "answer": "counting, adding noise",
    "done": "done",
}
FIGURES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".parquet", ".json")
PRECISE = ("exact", "simulated")
"""How a price is known where nothing need be said about it."""


@dataclass(frozen=True)
class Accuracy:
    """How good the answer shall be, as the options say it."""

    within: str | None
    confidence: str | None
    beta: str | None
    epsilon: str | None
    mechanism: str | None
    per_query: bool

    def words(self) -> list[str]:
        """The options that say the same."""
        given = {
            "--within": self.within,
            "--confidence": self.confidence,
            "--beta": self.beta,
            "--epsilon": self.epsilon,
            "--mechanism": self.mechanism,
        }
        said = [word for option, value in given.items() if value is not None for word in (option, value)]
        return [*said, *(["--per-query"] if self.per_query else [])]


@dataclass(frozen=True)
class Keeping:
    """What to keep of an answer; checked before anything is charged."""

    plot: Path | None
    save: Path | None
    note: bool

    def __post_init__(self) -> None:
        for path, endings, option in ((self.plot, FIGURES, "--plot"), (self.save, TABLES, "--save")):
            if path is None:
                continue
            if path.suffix.lower() not in endings:
                raise InvalidInput(f"{option} writes {', '.join(endings)}; nothing was charged")
            if not path.absolute().parent.is_dir():
                raise InvalidInput(f"{option}: there is no folder {path.parent}; nothing was charged")
        if self.plot is not None and find_spec("matplotlib") is None:
            raise ExtraMissing("matplotlib", "plot")


def show_preview(
    question: Question, wanted: Accuracy, command: Callable[[str, Accuracy], str], *, as_json: bool
) -> None:
    """Previews a question; `command` writes how `release` or `preview` is asked for at an accuracy."""
    with steps("pricing", quiet=as_json):
        found = question.preview(
            wanted.within,
            wanted.beta,
            epsilon=wanted.epsilon,
            confidence=wanted.confidence,
            mechanism=wanted.mechanism,
            per_query=wanted.per_query,
        )
    print_preview(found, as_json=as_json)
    if not as_json:

        def cheaper(epsilon: str) -> str:
            return command("preview", replace(wanted, within=None, epsilon=epsilon))

        say_next(found, command("release", wanted), cheaper)


def say_next(found: Preview, runs: str, cheaper: Callable[[str], str]) -> None:
    """Names the command that runs what was previewed, or previews what the rest of the budget buys."""
    if found.is_affordable:
        said = f"Run it with: {runs}"
    elif found.left:
        said = f"What your budget buys: {cheaper(rounded_down(found.left))}"
    else:
        return
    # Wrapped by the terminal and not by us, so that it can be copied in one piece.
    console().print(said, style="dim", markup=False, soft_wrap=True)


def rounded_down(amount: Fraction) -> str:
    """A positive amount with three digits that count, never more than it is."""
    return f"{Context(prec=3, rounding=ROUND_DOWN).divide(Decimal(amount.numerator), Decimal(amount.denominator)):f}"


def print_preview(found: Preview, *, as_json: bool) -> None:
    """Prints a preview."""
    if as_json:
        print_json(found.to_dict())
        return
    screen = console()
    rows = []
    for place, offer in enumerate(found.offers):
        known = "" if offer.method in PRECISE else HOW_KNOWN[offer.method]
        mark = "<- would run" if place == 0 else known
        rows.append((offer.mechanism, short(offer.epsilon), short(offer.alpha), short(offer.rmse), mark))
    columns = ("mechanism", "epsilon", "within", "usual error", "")
    screen.print(table(found.head(), columns, rows, right=columns[1:4]))
    for line in found.notes():
        screen.print(line, markup=False)


def run_release(
    session: Session,
    question: Question,
    wanted: Accuracy,
    keeping: Keeping,
    *,
    key: str | None,
    deadline: float | None,
    as_json: bool,
) -> None:
    """Releases a question, prints the answer and keeps what was wished."""
    with heard_steps(quiet=as_json) as (heard, report):
        answer = question.release(
            wanted.within,
            wanted.beta,
            epsilon=wanted.epsilon,
            confidence=wanted.confidence,
            mechanism=wanted.mechanism,
            per_query=wanted.per_query,
            key=key,
            progress=report,
            deadline=deadline,
        )
    print_answer(session, answer, keeping, heard, as_json=as_json)


def run_sql(
    session: Session,
    statement: str,
    wanted: Accuracy,
    keeping: Keeping,
    command: Callable[[str], str],
    *,
    key: str | None,
    deadline: float | None,
    as_json: bool,
) -> None:
    """Answers a statement, or shows the preview of one that begins with EXPLAIN; `command` writes how one is asked."""
    with heard_steps(quiet=as_json) as (heard, report):
        found = session.sql(
            statement,
            alpha=wanted.within,
            beta=wanted.beta,
            epsilon=wanted.epsilon,
            confidence=wanted.confidence,
            mechanism=wanted.mechanism,
            per_query=wanted.per_query,
            key=key,
            progress=report,
            deadline=deadline,
        )
    if isinstance(found, Preview):
        print_preview(found.run_by(""), as_json=as_json)
        if not as_json:
            say_next(found, command(found.statement), lambda epsilon: command(explained(found.statement, epsilon)))
    else:
        print_answer(session, found, keeping, heard, as_json=as_json)


def explained(statement: str, epsilon: str) -> str:
    """The statement that shows what an epsilon buys instead."""
    asked = parse(statement)
    return f"EXPLAIN {asked.text} {write_options(replace(asked.options, alpha=None, epsilon=Fraction(epsilon)))}"


def print_answer(session: Session, answer: Answer, keeping: Keeping, heard: Sequence[str], *, as_json: bool) -> None:
    """Prints an answer and what is left of the budget, and keeps what was wished; `heard` are the steps it took."""
    again = "" if "charge" in heard else "You asked this before: the same answer again, free."
    show_answer(answer, keeping, caveat=again, as_json=as_json)
    if not as_json:
        show_remaining(session, answer.dataset)


def show_answer(answer: Answer, keeping: Keeping, *, caveat: str = "", as_json: bool) -> None:
    """Prints an answer, with a caveat below if it has one, and keeps what was wished."""
    kept = _keep(answer, keeping)
    if as_json:
        sys.stdout.write(answer.to_json(indent=2) + "\n")
        return
    screen = console()
    screen.print(answer.terminal())
    if caveat:
        screen.print(caveat, style="dim", markup=False)
    if keeping.note:
        screen.print(f"\n{answer.note()}", markup=False)
    for path in kept:
        screen.print(f"Written: {path}", style="dim", markup=False)


def show_remaining(session: Session, name: str) -> None:
    """Says what the analyst may still spend on a dataset."""
    left = session.budget(name)
    said = readable(float(left.remaining))
    console().print(f"You have epsilon {said} left for {name}.", style="dim", markup=False)


def _keep(answer: Answer, keeping: Keeping) -> list[Path]:
    """Writes the files that were wished for, and names them."""
    if keeping.save is not None:
        _save(answer, keeping.save)
    if keeping.plot is not None:
        answer.save_plot(keeping.plot)
    return [path for path in (keeping.save, keeping.plot) if path is not None]


def _save(answer: Answer, path: Path) -> None:
    ending = path.suffix.lower()
    if ending == ".json":
        path.write_text(answer.to_json(indent=2) + "\n", encoding="utf-8")
    elif ending == ".csv":
        rows = answer.rows()
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
    else:
        from pyarrow import parquet

        parquet.write_table(answer.to_arrow(), path)


def _silent(step: str) -> None:
    del step


@contextmanager
def steps(first: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner that names the step, where somebody watches."""
    screen = console(error=True)
    if quiet or not screen.is_terminal:
        yield _silent
        return
    with screen.status(f"{first} ...") as status:

        def report(step: str) -> None:
            status.update(f"{STEP_WORDS.get(step, step)} ...")

        yield report


@contextmanager
def heard_steps(*, quiet: bool) -> Iterator[tuple[list[str], Callable[[str], None]]]:
    """The same, and a list of the steps that were taken."""
    heard: list[str] = []
    with steps("asking", quiet=quiet) as report:

        def listen(step: str) -> None:
            heard.append(step)
            report(step)

        yield heard, listen
