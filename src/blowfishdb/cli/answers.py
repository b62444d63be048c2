"""Queries from options, and previews and answers on the screen and in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from blowfishdb.cli.options import AccuracyOptions, FileOptions, QueryOptions
from blowfishdb.cli.output import console, print_json, say, shell_line, short, table
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import TargetOptions, short_number, target_options
from blowfishdb.errors import AccuracyError, QueryError, plural
from blowfishdb.model.query import Questions
from blowfishdb.present.page import COLUMNS
from blowfishdb.present.words import readable
from blowfishdb.session import QuestionPlan, Session
from blowfishdb.sql import parse, read_axes, read_where, write_options

if TYPE_CHECKING:
    from blowfishdb.model.predicate import Axis

Outcome = TypeVar("Outcome")

KINDS = ("histogram", "cdf", "ranges", "marginals", "count", "sum", "mean", "quantiles")
QUARTILES = "0.25,0.5,0.75"
STEP_WORDS = {
    "quote": "choosing a mechanism",
    "charge": "charging the ledger",
    "answer": "counting, adding noise",
    "done": "done",
}


def query_of(options: QueryOptions, table: Questions[Outcome]) -> Outcome:
    """What the options ask of a table, as a question, or of a synopsis, as an answer."""
    given = [kind for kind in KINDS if getattr(options, kind) not in (None, False)]
    if len(given) != 1:
        raise QueryError(f"ask for one thing: {', '.join(f'--{kind}' for kind in KINDS[:-1])} or --{KINDS[-1]}")
    if options.where is not None:
        table = table.where(read_where(options.where, table.domain))
    kind, text = given[0], str(getattr(options, given[0]))
    match kind:
        case "histogram":
            return table.histogram(*read_axes(text, table.domain))
        case "marginals":
            axes = read_axes(text, table.domain)
            return table.marginals(*axes, ways=min(2, len(axes)))
        case "cdf":
            return table.cdf(_one_axis(text, table, "--cdf"))
        case "sum":
            return table.sum(_one_axis(text, table, "--sum").attribute)
        case "mean":
            return table.mean(_one_axis(text, table, "--mean").attribute)
        case "ranges":
            return _ranges(text, table)
        case "quantiles":
            return _quantiles(text, table)
    return table.count()


def _one_axis(text: str, table: Questions[Outcome], option: str) -> Axis:
    axes = read_axes(text, table.domain)
    if len(axes) != 1:
        raise QueryError(f"{option} takes one attribute, not {len(axes)}")
    return axes[0]


def _ranges(text: str, table: Questions[Outcome]) -> Outcome:
    name, separator, spans = text.rpartition(":")
    if not separator:
        return table.ranges(_one_axis(text, table, "--ranges"))
    pairs = [span.partition("..") for span in spans.split(",")]
    if not all(middle and low.strip() and high.strip() for low, middle, high in pairs):
        raise QueryError("ranges are written ATTRIBUTE:LOW..HIGH,LOW..HIGH, such as age:18..30,30..65")
    return table.ranges(_one_axis(name, table, "--ranges"), [(low.strip(), high.strip()) for low, _, high in pairs])


def _quantiles(text: str, table: Questions[Outcome]) -> Outcome:
    name, separator, levels = text.rpartition(":")
    if not separator:
        name, levels = text, QUARTILES
    try:
        shares = [short_number(level, "a level") for level in levels.split(",")]
    except AccuracyError:
        raise QueryError("quantiles are written ATTRIBUTE:LEVEL,LEVEL, such as cost:0.25,0.5,0.75") from None
    return table.quantiles(_one_axis(name, table, "--quantiles"), shares)


def parameters_text(given: Sequence[str] | None) -> str | None:
    """Parameters as one text; None where none was given."""
    return ", ".join(given) if given else None


def keywords(options: AccuracyOptions) -> TargetOptions:
    """The accuracy that the options ask for."""
    return target_options(
        alpha=options.within,
        beta=options.beta,
        epsilon=options.epsilon,
        confidence=options.confidence,
        mechanism=options.mechanism,
        parameters=parameters_text(options.parameter),
        per_query=options.per_query,
        fresh=options.fresh,
    )


def print_preview(
    preview: Preview, command: Sequence[str], cheaper: Callable[[str], Sequence[str]], *, as_json: bool
) -> None:
    """Prints a preview, and the command that runs it, or the one that previews what the rest of the budget buys."""
    if as_json:
        print_json(preview.to_dict())
        return
    say(table(preview.head(), COLUMNS, preview.offer_rows(), right=COLUMNS[1:4]), *preview.notes())
    if preview.is_affordable:
        say_command("Run it with", command)
    elif preview.left:
        say_command("What your budget buys", cheaper(rounded_down(preview.left)))


def say_command(what: str, words: Sequence[str]) -> None:
    """Prints a command; wrapped by the terminal and not by us, so that it can be copied in one piece."""
    say(f"{what}: {shell_line(['blowfish', *words])}", style="dim", soft_wrap=True)


def rounded_down(amount: Fraction) -> str:
    """A positive amount with three significant digits, rounded down."""
    return f"{Context(prec=3, rounding=ROUND_DOWN).divide(Decimal(amount.numerator), Decimal(amount.denominator)):f}"


def print_several(outcomes: Sequence[Answer | Preview], files: FileOptions, *, as_json: bool) -> None:
    """Prints the answers and previews of several statements, and writes their files with numbers in the names."""
    if as_json:
        print_json([json.loads(one.to_json()) if isinstance(one, Answer) else one.to_dict() for one in outcomes])
    for number, one in enumerate(outcomes, start=1):
        if isinstance(one, Answer):
            show_answer(one, _numbered(files, number), as_json=None if as_json else False)
        elif not as_json:
            say(str(one))


def _numbered(files: FileOptions, number: int) -> FileOptions:
    save, plot = (
        None if path is None else path.with_stem(f"{path.stem}-{number}") for path in (files.save, files.plot)
    )
    return replace(files, save=save, plot=plot)


def print_plan(plan: QuestionPlan, *, as_json: bool) -> None:
    """Prints what several statements cost together."""
    if as_json:
        print_json(plan.to_dict())
        return
    columns = ("question", "accuracy", "alone", "share")
    rows = [*plan.rows(), ("together", "", short(plan.one_by_one), short(plan.total))]
    title = f"{plural(len(plan.questions), 'question')} of {plan.dataset}"
    say(table(title, columns, rows, right=columns[2:]), *plan.notes())


def explained(statement: str, epsilon: str) -> str:
    """The statement that shows what an epsilon buys instead."""
    parsed = parse(statement)
    options: TargetOptions = {**parsed.options, "epsilon": Fraction(epsilon)}
    options.pop("alpha", None)
    return f"EXPLAIN {parsed.text} {write_options(options)}"


def print_answer(session: Session, answer: Answer, files: FileOptions, taken: Sequence[str], *, as_json: bool) -> None:
    """Prints an answer and what is left of the budget, and writes its files; `taken` are the steps of its release."""
    again = "" if "charge" in taken else "You asked this before: the same answer again, free."
    show_answer(answer, files, again, as_json=as_json)
    if not as_json:
        show_remaining(session, answer.dataset)


def show_answer(answer: Answer, files: FileOptions, remark: str = "", *, as_json: bool | None) -> None:
    """Prints an answer with its caveat and a remark below, where there are any, and writes its files.

    With None for `as_json` it is written to its files alone.
    """
    if files.save is not None:
        answer.save(files.save)
    if files.plot is not None:
        answer.save_plot(files.plot)
    if as_json is None:
        return
    if as_json:
        sys.stdout.write(answer.to_json(indent=2) + "\n")
        return
    say(answer.terminal())
    for line in filter(None, (answer.caveat, remark)):
        say(line, style="dim")
    if files.note:
        say(f"\n{answer.note()}")
    for path in (files.save, files.plot):
        if path is not None:
            say(f"Written: {path}", style="dim")


def show_remaining(session: Session, name: str) -> None:
    """Says what the analyst may still spend on a dataset."""
    left = session.budget(name).remaining
    rest = f"epsilon {readable(float(left))}" if left else "nothing"
    say(f"You have {rest} left for {name}.", style="dim")


@contextmanager
def steps(first: str, *, quiet: bool) -> Iterator[tuple[list[str], Callable[[str], None]]]:
    """The steps taken so far, and what reports one; in a terminal a spinner names the current step."""
    screen = console(error=True)
    status = None if quiet or not screen.is_terminal else screen.status(f"{first} ...")
    taken: list[str] = []

    def report(step: str) -> None:
        taken.append(step)
        if status is not None:
            status.update(f"{STEP_WORDS.get(step, step)} ...")

    with status or nullcontext():
        yield taken, report
