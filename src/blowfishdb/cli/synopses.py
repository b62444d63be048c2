"""blowfish synopsis: preview and publish a private table once, then ask it and draw rows from it for ever, free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, Analyst, AsJson, Config, Mechanism, Name
from blowfishdb.cli.questions import (
    Cdf,
    Count,
    Deadline,
    Histogram,
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
)

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
    from blowfishdb.cli.keeping_synopses import show_preview, table_of
    from blowfishdb.cli.opening import analyst_session
    from blowfishdb.cli.questions import whose_options
    from blowfishdb.cli.shell_words import shell_line

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
    from blowfishdb.cli.keeping_synopses import Wish, publish
    from blowfishdb.cli.opening import analyst_session

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
    from blowfishdb.cli.keeping_synopses import describe

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
    from blowfishdb.cli.answering import Keeping
    from blowfishdb.cli.asked import Asked
    from blowfishdb.cli.keeping_synopses import answer

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
    from blowfishdb.cli.keeping_synopses import draw_rows

    draw_rows(file, output, rows, seed, as_json=as_json)
