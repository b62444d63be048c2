"""blowfish preview, release and sql: an analyst's queries."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from blowfishdb.cli.options import (
    AccuracyOptions,
    AnalystOptions,
    AsJson,
    FileOptions,
    Name,
    QueryOptions,
    RunOptions,
    option_words,
    spread,
)


@spread
def preview(
    name: Name, query: QueryOptions, accuracy: AccuracyOptions, analyst: AnalystOptions, as_json: AsJson = False
) -> None:
    """Shows what a question would cost, by every mechanism. Reads no data and charges nothing.

    \b
    Examples
      blowfish preview visits --cdf cost --where "ward = 'A3'" \\
          --within 50 --confidence 0.95
      blowfish preview visits --histogram "bin(age, 5)" --epsilon 0.1
      blowfish preview visits --histogram "ward, bin(age, 10)" --within 20
    """
    from blowfishdb.cli.answers import keywords, print_preview, query_of, steps

    with analyst.session() as session, steps("pricing", quiet=as_json):
        preview = query_of(query, session[name]).preview(**keywords(accuracy))

    def cheaper(epsilon: str) -> list[str]:
        return ["preview", name, *option_words(query, replace(accuracy, within=None, epsilon=epsilon), analyst)]

    print_preview(preview, ["release", name, *option_words(query, accuracy, analyst)], cheaper, as_json=as_json)


def mechanisms(as_json: AsJson = False) -> None:
    """Lists the mechanisms and their parameters. Experts set those with --parameter.

    \b
    Examples
      blowfish mechanisms
      blowfish preview visits --histogram cost --epsilon 0.1 \\
          --mechanism dawa --parameter split=0.3
    """
    from blowfishdb.cli.output import print_result, table
    from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS, PARAMETERS

    names = (*MECHANISMS, *CHOICES, *DATA_AWARE)
    content = {name: [one.to_dict() for one in PARAMETERS.get(name, ())] for name in names}
    columns = ("parameter", "range", "default", "meaning")
    listed = [
        table(name, columns, [(one.name, one.range, one.usual, one.meaning) for one in taken], folds=("meaning",))
        for name, taken in PARAMETERS.items()
    ]
    others = ", ".join(name for name in names if name not in PARAMETERS)
    print_result(content, *listed, f"Without parameters: {others}.", as_json=as_json)


@spread
def release(
    name: Name,
    query: QueryOptions,
    accuracy: AccuracyOptions,
    run: RunOptions,
    files: FileOptions,
    analyst: AnalystOptions,
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
    from blowfishdb.cli.answers import keywords, print_answer, query_of, steps

    with analyst.session() as session:
        question = query_of(query, session[name])
        with steps("asking", quiet=as_json) as (taken, report):
            answer = question.release(**keywords(accuracy), progress=report, **asdict(run))
        print_answer(session, answer, files, taken, as_json=as_json)


@spread
def sql(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="SELECT, or EXPLAIN SELECT for its preview; several are separated by semicolons."
        ),
    ],
    accuracy: AccuracyOptions,
    run: RunOptions,
    files: FileOptions,
    analyst: AnalystOptions,
    as_json: AsJson = False,
) -> None:
    """Answers a SELECT that counts. It is parsed, never executed; EXPLAIN in front of it shows what it would cost.

    The accuracy may stand in the statement: OPTIONS (alpha = 50, beta = 0.05). Several statements, separated by
    semicolons, are priced together; with EXPLAIN before each, only the price is shown.

    \b
    Examples
      blowfish sql "SELECT ward, COUNT(*) FROM visits GROUP BY ward" --within 20
      blowfish sql "EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY 1" --within 20
      blowfish sql "SELECT CDF(cost) FROM visits OPTIONS (alpha = 50, beta = 0.05)"
      blowfish sql "SELECT QUANTILES(cost, 0.25, 0.5) FROM visits" --epsilon 0.1
      blowfish sql "SELECT CDF(age) FROM visits; SELECT COUNT(*) FROM visits WHERE age < 18" --within 50
    """
    from blowfishdb.cli import answers
    from blowfishdb.engine.answer import Answer
    from blowfishdb.session import QuestionPlan

    with analyst.session() as session:
        with answers.steps("asking", quiet=as_json) as (taken, report):
            outcome = session.sql(statement, **answers.keywords(accuracy), progress=report, **asdict(run))
        if isinstance(outcome, Answer):
            answers.print_answer(session, outcome, files, taken, as_json=as_json)
        elif isinstance(outcome, list):
            answers.print_several(outcome, files, as_json=as_json)
        elif isinstance(outcome, QuestionPlan):
            answers.print_plan(outcome, as_json=as_json)
        else:
            text, options = outcome.statement, option_words(analyst)

            def cheaper(epsilon: str) -> list[str]:
                return ["sql", answers.explained(text, epsilon), *options]

            answers.print_preview(outcome.run_by(""), ["sql", text, *options], cheaper, as_json=as_json)
