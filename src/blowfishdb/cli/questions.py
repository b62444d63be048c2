"""blowfish preview, release and sql: an analyst's questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    from blowfishdb.cli.answering import Accuracy, show_preview
    from blowfishdb.cli.asked import Asked
    from blowfishdb.cli.opening import analyst_session
    from blowfishdb.cli.shell_words import shell_line

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
    from blowfishdb.cli.answering import Accuracy, Keeping, run_release
    from blowfishdb.cli.asked import Asked
    from blowfishdb.cli.opening import analyst_session

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
    from blowfishdb.cli.answering import Accuracy, Keeping, run_sql
    from blowfishdb.cli.opening import analyst_session
    from blowfishdb.cli.shell_words import shell_line

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
