"""blowfish synopsis: preview and publish a private table once, then ask it and draw rows from it for ever, free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.analysis.synthetic_rows import synthetic_rows
from blowfishdb.cli.options import USUAL_CONFIG, Analyst, AsJson, Config, Mechanism, Name
from blowfishdb.cli.output import console, print_json, table
from blowfishdb.cli.query import (
    Asked,
    Cdf,
    Count,
    Deadline,
    Histogram,
    Keeping,
    Key,
    Marginals,
    Mean,
    Note,
    Plot,
    Quantiles,
    Ranges,
    Save,
    Sum,
    Where,
    show_answer,
    show_remaining,
    steps,
)
from blowfishdb.engine.synopsis_answers import COLUMNS, Synopsis, SynopsisPreview, open_synopsis
from blowfishdb.errors import InvalidInput
from blowfishdb.present.words import epsilon_words
from blowfishdb.session import Question, Session
from blowfishdb.sql import read_axes, read_where

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The synopsis.")]
Attributes = Annotated[
    str, typer.Option(metavar="GROUPS", help='What it is over: cost, or "ward, bin(age, 5)" for all pairs.')
]
Price = Annotated[str, typer.Option(metavar="NUMBER", help="What it costs, once: 0.3 or 1/3.")]


@app.command()
def preview(
    name: Name,
    attributes: Attributes,
    epsilon: Price,
    where: Where = None,
    mechanism: Mechanism = None,
    analyst: Analyst = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Shows what a synopsis would answer and how far off. Reads no data and charges nothing.

    What a data-aware mechanism will make of the data is not known before, and is not guessed.

    \b
    Example
      blowfish synopsis preview visits --attributes "ward, bin(age, 5)" --epsilon 0.3
    """
    from blowfishdb.cli.options import analyst_session
    from blowfishdb.cli.output import shell_line
    from blowfishdb.cli.query import whose_options

    given = {"--attributes": attributes, "--epsilon": epsilon, "--where": where, "--mechanism": mechanism}
    said = [word for option, value in given.items() if value is not None for word in (option, value)]
    runs = shell_line(["blowfish", "synopsis", "make", name, *said, *whose_options(analyst, config)])
    with analyst_session(config, analyst) as session:
        question = table_of(session, name, attributes, where)
        show_preview(question.publish_preview(epsilon=epsilon, mechanism=mechanism), runs, as_json=as_json)


@app.command()
def make(
    name: Name,
    attributes: Attributes,
    epsilon: Price,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. [NAME.parquet]")
    ] = None,
    where: Where = None,
    mechanism: Mechanism = None,
    key: Key = None,
    deadline: Deadline = None,
    analyst: Analyst = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Publishes a private table of counts. It is charged once; then anybody may ask it for ever.

    How far off its answers will be: blowfish synopsis preview.

    \b
    Examples
      blowfish synopsis make visits --attributes cost --epsilon 0.3 \\
          --mechanism dawa --output costs-2025.parquet
      blowfish synopsis make visits --attributes "ward, bin(age, 5)" --epsilon 0.3
    """
    from blowfishdb.cli.options import analyst_session

    wish = Wish(name, attributes, where, epsilon, mechanism, output or Path(f"{name}.parquet"), key, deadline)
    with analyst_session(config, analyst) as session:
        publish(session, wish, as_json=as_json)


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Shows what a synopsis holds, cost, hides and does not hide.

    \b
    Example
      blowfish synopsis show costs-2025.parquet
    """

    describe(file, as_json=as_json)


@app.command()
def ask(
    file: File,
    histogram: Histogram = None,
    cdf: Cdf = None,
    ranges: Ranges = None,
    marginals: Marginals = None,
    count: Count = False,
    sum_: Sum = None,
    mean: Mean = None,
    quantiles: Quantiles = None,
    where: Where = None,
    plot: Plot = None,
    save: Save = None,
    note: Note = False,
    as_json: AsJson = False,
) -> None:
    """Asks a synopsis. Needs no database, no ledger and no budget.

    \b
    Examples
      blowfish synopsis ask costs-2025.parquet --cdf "bin(cost, 1000)"
      blowfish synopsis ask visits.parquet --histogram ward --where "age >= 65"
      blowfish synopsis ask costs-2025.parquet --quantiles cost:0.5,0.9
    """
    from blowfishdb.cli.query import Asked, Keeping

    asked = Asked(str(file), histogram, cdf, ranges, marginals, count, sum_, mean, quantiles, where)
    answer(file, asked, Keeping(plot, save, note), as_json=as_json)


@app.command()
def rows(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write: .csv or .parquet.")],
    rows: Annotated[int | None, typer.Option(metavar="NUMBER", help="How many. [the estimated total]")] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Another seed draws other rows.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draws synthetic records with the counts of a synopsis. The same file and seed give the same rows.

    \b
    Example
      blowfish synopsis rows visits.parquet --output visits-synthetic.csv
    """

    draw_rows(file, output, rows, seed, as_json=as_json)


ROW_FILES = (".csv", ".parquet")


@dataclass(frozen=True)
class Wish:
    """What shall be published, and where to; checked before anything is charged."""

    name: str
    attributes: str
    where: str | None
    epsilon: str
    mechanism: str | None
    output: Path
    key: str | None
    deadline: float | None

    def __post_init__(self) -> None:
        check_file(self.output, (".parquet",))


def check_file(path: Path, endings: tuple[str, ...]) -> None:
    """Refuses a file that could not be written afterwards."""
    if path.suffix.lower() not in endings:
        raise InvalidInput(f"--output ends in {' or '.join(endings)}; nothing was charged")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"--output: there is no folder {path.parent}; nothing was charged")


def table_of(session: Session, name: str, attributes: str, where: str | None) -> Question:
    """The histogram that a synopsis is published from."""
    table = session[name]
    if where is not None:
        table = table.where(read_where(where, table.domain))
    return table.histogram(*read_axes(attributes, table.domain))


def show_preview(found: SynopsisPreview, runs: str, *, as_json: bool) -> None:
    """Prints what a synopsis would answer, and the command that makes it where the budget allows."""
    if as_json:
        print_json(found.to_dict())
        return
    screen = console()
    if found.errors:
        screen.print(table(found.head(), COLUMNS, found.rows(), right=COLUMNS[1:]))
    else:
        screen.print(found.head(), style="bold", markup=False)
    for line in found.notes():
        screen.print(line, markup=False)
    if found.is_affordable:
        # Wrapped by the terminal and not by us, so that it can be copied in one piece.
        screen.print(f"Run it with: {runs}", style="dim", markup=False, soft_wrap=True)


def publish(session: Session, wish: Wish, *, as_json: bool) -> None:
    """Publishes a synopsis, writes its file and says what it holds."""
    question = table_of(session, wish.name, wish.attributes, wish.where)
    with steps("publishing", quiet=as_json) as report:
        made = question.publish(
            epsilon=wish.epsilon, mechanism=wish.mechanism, key=wish.key, progress=report, deadline=wish.deadline
        )
    made.save(wish.output)
    if as_json:
        print_json(_description(made) | {"file": str(wish.output)})
        return
    screen = console()
    screen.print(*_lines(made), sep="\n", markup=False)
    screen.print(f"Written: {wish.output}. Ask it for ever: blowfish synopsis ask {wish.output} --help", markup=False)
    show_remaining(session, wish.name)


def describe(file: Path, *, as_json: bool) -> None:
    """Says what a synopsis holds."""
    kept = open_synopsis(file)
    if as_json:
        print_json(_description(kept))
    else:
        console().print(*_lines(kept), *kept.artefact.protected, sep="\n", markup=False)
        console().print("Not protected:", *kept.artefact.unprotected, markup=False)


def answer(file: Path, asked: Asked, keeping: Keeping, *, as_json: bool) -> None:
    """Answers a question from a synopsis."""
    found = asked.of(open_synopsis(file))
    show_answer(found, keeping, caveat=found.caveat, as_json=as_json)


def draw_rows(file: Path, output: Path, rows: int | None, seed: int, *, as_json: bool) -> None:
    """Writes synthetic rows."""
    check_file(output, ROW_FILES)
    drawn = synthetic_rows(open_synopsis(file), rows=rows, seed=seed)
    if output.suffix.lower() == ".parquet":
        from pyarrow import parquet

        parquet.write_table(drawn.to_arrow(), output)
    else:
        from pyarrow import csv

        csv.write_csv(drawn.to_arrow(), output)
    if as_json:
        print_json({"file": str(output), "rows": drawn.size})
    else:
        console().print(f"Written: {output}, {drawn.size:,} synthetic rows.", markup=False)


def _description(kept: Synopsis) -> dict[str, object]:
    held = kept.artefact
    return {
        "dataset": held.dataset,
        "title": held.title,
        "attributes": dict(zip(held.names, held.shape, strict=True)),
        "epsilon": str(held.epsilon),
        "mechanism": held.mechanism,
        "stages": {allowance.stage: str(allowance.epsilon) for allowance in held.stages},
        "policy_version": held.policy_version,
        "protected": list(held.protected),
        "not_protected": list(held.unprotected),
        "caveat": held.caveat,
        "released": held.released,
        "digest": held.digest(),
    }


def _lines(kept: Synopsis) -> list[str]:
    held = kept.artefact
    cells = " x ".join(f"{size:,}" for size in held.shape)
    version = f" (policy v{held.policy_version})" if held.policy_version is not None else ""
    return [
        f"{held.title}, from {held.dataset}{version}: {', '.join(held.names)}, {cells} cells",
        f"epsilon {epsilon_words(held.epsilon)}, once, by {held.mechanism}",
        *([held.caveat] if held.caveat else []),
    ]
