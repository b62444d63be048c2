"""blowfish preview, release and sql: an analyst's queries, and answers on the screen and in files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from blowfishdb.cli.options import (
    USUAL_CONFIG,
    Analyst,
    AsJson,
    Beta,
    Confidence,
    Config,
    Epsilon,
    Mechanism,
    Name,
    PerQuery,
    Within,
)
from blowfishdb.cli.output import console, print_json, short, table
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.preview import HOW_KNOWN, Preview
from blowfishdb.engine.target import short_number
from blowfishdb.errors import AccuracyError, ExtraMissing, InvalidInput, QueryError
from blowfishdb.present.words import readable
from blowfishdb.session import Question, Session
from blowfishdb.sql import parse, read_axes, read_where, write_options

if TYPE_CHECKING:
    from blowfishdb.model.domain import Domain
    from blowfishdb.model.predicate import Axis, Predicate


Histogram = Annotated[
    str | None, typer.Option(metavar="GROUPS", help='A count per group: age, or "sex, bin(age, 5)" for pairs.')
]
Cdf = Annotated[str | None, typer.Option(metavar="GROUP", help='Running counts: cost, or "bin(cost, 100)".')]
Ranges = Annotated[
    str | None, typer.Option(metavar="ATTRIBUTE:LOW..HIGH,...", help="Counts of ranges, the high ends not included.")
]
Marginals = Annotated[str | None, typer.Option(metavar="GROUPS", help="The tables of all pairs of these attributes.")]
Count = Annotated[bool, typer.Option("--count", help="How many records pass the filter.")]
Sum = Annotated[str | None, typer.Option("--sum", metavar="ATTRIBUTE", help="The sum of a bounded attribute.")]
Mean = Annotated[str | None, typer.Option(metavar="ATTRIBUTE", help="The mean of a bounded attribute.")]
Quantiles = Annotated[
    str | None,
    typer.Option(metavar="ATTRIBUTE:LEVEL,...", help="Quantiles: cost:0.25,0.5,0.75; cost alone: quartiles."),
]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Only these records: \"ward = 'A3' AND age >= 18\".")
]
Key = Annotated[str | None, typer.Option(metavar="TEXT", help="Names this request; the same key never pays twice.")]
Deadline = Annotated[float | None, typer.Option(metavar="SECONDS", help="Give up reading the data after so long.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Save a figure: .png, .svg or .pdf (needs blowfishdb[plot])."),
]
Save = Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Save the answer: .csv, .parquet or .json.")]
Note = Annotated[bool, typer.Option("--note", help="Print the paragraph to put under a figure as well.")]


def preview(
    name: Name,
    histogram: Histogram = None,
    cdf: Cdf = None,
    ranges: Ranges = None,
    marginals: Marginals = None,
    count: Count = False,
    sum_: Sum = None,
    mean: Mean = None,
    quantiles: Quantiles = None,
    where: Where = None,
    within: Within = None,
    confidence: Confidence = None,
    beta: Beta = None,
    epsilon: Epsilon = None,
    mechanism: Mechanism = None,
    per_query: PerQuery = False,
    analyst: Analyst = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shows what a question would cost, by every mechanism. Reads no data and charges nothing.

    \b
    Examples
      blowfish preview visits --cdf cost --where "ward = 'A3'" \\
          --within 50 --confidence 0.95
      blowfish preview visits --histogram "bin(age, 5)" --epsilon 0.1
      blowfish preview visits --histogram "ward, bin(age, 10)" --within 20
    """
    from blowfishdb.cli.options import analyst_session
    from blowfishdb.cli.output import shell_line

    asked = Asked(name, histogram, cdf, ranges, marginals, count, sum_, mean, quantiles, where)
    wanted = Accuracy(within, confidence, beta, epsilon, mechanism, per_query)

    def command(verb: str, at: Accuracy) -> str:
        return shell_line(["blowfish", verb, *asked.words(), *at.words(), *whose_options(analyst, config)])

    with analyst_session(config, analyst) as session:
        show_preview(asked.question(session), wanted, command, as_json=as_json)


def release(
    name: Name,
    histogram: Histogram = None,
    cdf: Cdf = None,
    ranges: Ranges = None,
    marginals: Marginals = None,
    count: Count = False,
    sum_: Sum = None,
    mean: Mean = None,
    quantiles: Quantiles = None,
    where: Where = None,
    within: Within = None,
    confidence: Confidence = None,
    beta: Beta = None,
    epsilon: Epsilon = None,
    mechanism: Mechanism = None,
    per_query: PerQuery = False,
    key: Key = None,
    deadline: Deadline = None,
    plot: Plot = None,
    save: Save = None,
    note: Note = False,
    analyst: Analyst = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Answers a question, charged. The charge comes before any data is read; the same question again is free.

    \b
    Examples
      blowfish release visits --cdf cost --where "ward = 'A3'" \\
          --within 50 --confidence 0.95
      blowfish release visits --histogram "bin(age, 5)" --epsilon 0.1 \\
          --plot ages.png --save ages.csv
      blowfish release visits --quantiles cost:0.25,0.5,0.75 --within 30 --note
    """
    from blowfishdb.cli.options import analyst_session

    asked = Asked(name, histogram, cdf, ranges, marginals, count, sum_, mean, quantiles, where)
    wanted = Accuracy(within, confidence, beta, epsilon, mechanism, per_query)
    keeping = Keeping(plot, save, note)
    with analyst_session(config, analyst) as session:
        run_release(session, asked.question(session), wanted, keeping, key=key, deadline=deadline, as_json=as_json)


def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, or EXPLAIN SELECT for its preview.")],
    within: Within = None,
    confidence: Confidence = None,
    beta: Beta = None,
    epsilon: Epsilon = None,
    mechanism: Mechanism = None,
    per_query: PerQuery = False,
    key: Key = None,
    deadline: Deadline = None,
    plot: Plot = None,
    save: Save = None,
    note: Note = False,
    analyst: Analyst = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Answers a SELECT that counts. It is parsed, never executed; EXPLAIN in front of it shows what it would cost.

    The accuracy may stand in the statement: OPTIONS (alpha = 50, beta = 0.05).

    \b
    Examples
      blowfish sql "SELECT ward, COUNT(*) FROM visits GROUP BY ward" --within 20
      blowfish sql "EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY 1" --within 20
      blowfish sql "SELECT CDF(cost) FROM visits OPTIONS (alpha = 50, beta = 0.05)"
      blowfish sql "SELECT QUANTILES(cost, 0.25, 0.5) FROM visits" --epsilon 0.1
    """
    from blowfishdb.cli.options import analyst_session
    from blowfishdb.cli.output import shell_line

    wanted = Accuracy(within, confidence, beta, epsilon, mechanism, per_query)
    keeping = Keeping(plot, save, note)

    def command(text: str) -> str:
        return shell_line(["blowfish", "sql", text, *whose_options(analyst, config)])

    with analyst_session(config, analyst) as session:
        run_sql(session, statement, wanted, keeping, command, key=key, deadline=deadline, as_json=as_json)


def whose_options(analyst: str | None, config: Path) -> list[str]:
    """The options that name the analyst and the configuration, where they were given."""
    return [
        *(["--analyst", analyst] if analyst else []),
        *(["--config", str(config)] if config != USUAL_CONFIG else []),
    ]


Found = TypeVar("Found", covariant=True)

KINDS = "--histogram, --cdf, --ranges, --marginals, --count, --sum, --mean or --quantiles"
QUARTILES = "0.25,0.5,0.75"


class Askable(Protocol[Found]):
    """A table, which gives questions, or a synopsis, which gives answers."""

    @property
    def domain(self) -> Domain: ...
    def where(self, predicate: Predicate) -> Askable[Found]: ...
    def count(self) -> Found: ...
    def histogram(self, *axes: str | Axis) -> Found: ...
    def cdf(self, axis: str | Axis) -> Found: ...
    def marginals(self, *axes: str | Axis, ways: int = 2) -> Found: ...
    def ranges(self, axis: str | Axis, spans: Iterable[tuple[object, object]] | None = None) -> Found: ...
    def quantiles(self, column: str | Axis, levels: Iterable[Fraction]) -> Found: ...
    def sum(self, column: str) -> Found: ...
    def mean(self, column: str) -> Found: ...


@dataclass(frozen=True)
class Asked:
    """What the options ask; exactly one of the kinds is given."""

    name: str
    histogram: str | None
    cdf: str | None
    ranges: str | None
    marginals: str | None
    count: bool
    sum: str | None
    mean: str | None
    quantiles: str | None
    where: str | None

    def words(self) -> list[str]:
        """The name of the dataset and the options that ask the same."""
        given = {
            "--histogram": self.histogram,
            "--cdf": self.cdf,
            "--ranges": self.ranges,
            "--marginals": self.marginals,
            "--sum": self.sum,
            "--mean": self.mean,
            "--quantiles": self.quantiles,
            "--where": self.where,
        }
        said = [word for option, value in given.items() if value is not None for word in (option, value)]
        return [self.name, *said, *(["--count"] if self.count else [])]

    def question(self, session: Session) -> Question:
        """The question, ready to preview or release."""
        return self.of(session[self.name])

    def of(self, table: Askable[Found]) -> Found:
        """What is asked, of a table or a synopsis."""
        given = [self.histogram, self.cdf, self.ranges, self.marginals, self.sum, self.mean, self.quantiles]
        if sum(one is not None for one in given) + self.count != 1:
            raise QueryError(f"ask for one thing: {KINDS}")
        if self.where is not None:
            table = table.where(read_where(self.where, table.domain))
        if self.histogram is not None:
            return table.histogram(*read_axes(self.histogram, table.domain))
        if self.cdf is not None:
            return table.cdf(_one_axis(self.cdf, table, "--cdf"))
        if self.marginals is not None:
            axes = read_axes(self.marginals, table.domain)
            return table.marginals(*axes, ways=min(2, len(axes)))
        if self.ranges is not None:
            return _ranges(self.ranges, table)
        if self.quantiles is not None:
            return _quantiles(self.quantiles, table)
        if self.sum is not None:
            return table.sum(_one_axis(self.sum, table, "--sum").attribute)
        if self.mean is not None:
            return table.mean(_one_axis(self.mean, table, "--mean").attribute)
        return table.count()


def _one_axis(text: str, table: Askable[Found], option: str) -> Axis:
    axes = read_axes(text, table.domain)
    if len(axes) != 1:
        raise QueryError(f"{option} takes one attribute, not {len(axes)}")
    return axes[0]


def _ranges(text: str, table: Askable[Found]) -> Found:
    name, separator, spans = text.rpartition(":")
    if not separator:
        return table.ranges(_one_axis(text, table, "--ranges"))
    pairs = [span.partition("..") for span in spans.split(",")]
    if not all(middle and low.strip() and high.strip() for low, middle, high in pairs):
        raise QueryError("ranges are written ATTRIBUTE:LOW..HIGH,LOW..HIGH, such as age:18..30,30..65")
    return table.ranges(_one_axis(name, table, "--ranges"), [(low.strip(), high.strip()) for low, _, high in pairs])


def _quantiles(text: str, table: Askable[Found]) -> Found:
    name, separator, levels = text.rpartition(":")
    if not separator:
        name, levels = text, QUARTILES
    try:
        found = [short_number(level, "a level") for level in levels.split(",")]
    except AccuracyError:
        raise QueryError("quantiles are written ATTRIBUTE:LEVEL,LEVEL, such as cost:0.25,0.5,0.75") from None
    return table.quantiles(_one_axis(name, table, "--quantiles"), found)


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
