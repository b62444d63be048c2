"""blowfish synopsis: preview and publish a private table once, then ask it and draw rows from it, free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blowfishdb.cli.options import (
    AnalystOptions,
    AsJson,
    FileOptions,
    MechanismOption,
    Name,
    ParameterOption,
    QueryOptions,
    RunOptions,
    Where,
    check_file,
    option_words,
    spread,
)
from blowfishdb.cli.output import print_result, table
from blowfishdb.errors import plural, sentence

if TYPE_CHECKING:
    from blowfishdb.engine.synopsis import Synopsis
    from blowfishdb.session import Question, Session

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The synopsis.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. [NAME.parquet]")
]
ROW_FILES = (".csv", ".parquet")


@dataclass(frozen=True)
class SynopsisOptions:
    """What a synopsis is made of."""

    attributes: Annotated[
        str, typer.Option(metavar="GROUPS", help='What it is over: cost, or "ward, bin(age, 5)" for all pairs.')
    ]
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="What it costs, once: 0.3 or 1/3.")]
    where: Where = None
    mechanism: MechanismOption = None
    parameter: ParameterOption = None

    def question(self, session: Session, name: str) -> Question:
        """The histogram that the synopsis is published from."""
        from blowfishdb.sql import read_axes, read_where

        table = session[name]
        if self.where is not None:
            table = table.where(read_where(self.where, table.domain))
        return table.histogram(*read_axes(self.attributes, table.domain))


@app.command()
@spread
def preview(name: Name, synopsis: SynopsisOptions, analyst: AnalystOptions, as_json: AsJson = False) -> None:
    """Shows what a synopsis would answer and how far off. Reads no data and charges nothing.

    What a data-aware mechanism will make of the data is not known before, and is not guessed.

    \b
    Example
      blowfish synopsis preview visits --attributes "ward, bin(age, 5)" --epsilon 0.3
    """
    from blowfishdb.cli.answers import parameters_text, say_command
    from blowfishdb.engine.synopsis_release import COLUMNS

    with analyst.session() as session:
        question = synopsis.question(session, name)
        settings = parameters_text(synopsis.parameter)
        preview = question.publish_preview(epsilon=synopsis.epsilon, mechanism=synopsis.mechanism, parameters=settings)
    errors = table(preview.head(), COLUMNS, preview.rows(), right=COLUMNS[1:]) if preview.errors else preview.head()
    print_result(preview.to_dict(), errors, *preview.notes(), as_json=as_json)
    if preview.is_affordable and not as_json:
        say_command("Run it with", ["synopsis", "make", name, *option_words(synopsis, analyst)])


@app.command()
@spread
def make(
    name: Name,
    synopsis: SynopsisOptions,
    run: RunOptions,
    analyst: AnalystOptions,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Publishes a private table of counts. It is charged once; then anybody may ask it, free.

    How far off its answers will be: blowfish synopsis preview.

    \b
    Examples
      blowfish synopsis make visits --attributes cost --epsilon 0.3 \\
          --mechanism dawa --output costs-2025.parquet
      blowfish synopsis make visits --attributes "ward, bin(age, 5)" --epsilon 0.3
    """
    from blowfishdb.cli.answers import parameters_text, show_remaining, steps

    path = output or Path(f"{name}.parquet")
    check_file(path, (".parquet",), "--output")
    with analyst.session() as session:
        question = synopsis.question(session, name)
        with steps("publishing", quiet=as_json) as (_, report):
            published = question.publish(
                epsilon=synopsis.epsilon,
                mechanism=synopsis.mechanism,
                parameters=parameters_text(synopsis.parameter),
                key=run.key,
                progress=report,
                deadline=run.deadline,
                spend=run.spend,
            )
        published.save(path)
        advice = f"Written: {path}. Ask it as often as you like: blowfish synopsis ask {path} --help"
        print_result(_description(published) | {"file": str(path)}, *_lines(published), advice, as_json=as_json)
        if not as_json:
            show_remaining(session, name)


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Shows what a synopsis holds, cost, hides and does not hide.

    \b
    Example
      blowfish synopsis show costs-2025.parquet
    """
    from blowfishdb.engine.synopsis import open_synopsis

    synopsis = open_synopsis(file)
    protected, unprotected = synopsis.artefact.protected, " ".join(synopsis.artefact.unprotected)
    lines = (*_lines(synopsis), *protected, f"Not protected: {unprotected}")
    print_result(_description(synopsis), *lines, as_json=as_json)


@app.command()
@spread
def ask(file: File, query: QueryOptions, files: FileOptions, as_json: AsJson = False) -> None:
    """Asks a synopsis. Needs no database, no ledger and no budget.

    \b
    Examples
      blowfish synopsis ask costs-2025.parquet --cdf "bin(cost, 1000)"
      blowfish synopsis ask visits.parquet --histogram ward --where "age >= 65"
      blowfish synopsis ask costs-2025.parquet --quantiles cost:0.5,0.9
    """
    from blowfishdb.cli.answers import query_of, show_answer
    from blowfishdb.engine.synopsis import open_synopsis

    answer = query_of(query, open_synopsis(file))
    show_answer(answer, files, as_json=as_json)


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
    from pyarrow import csv, parquet

    from blowfishdb.analysis.synthetic_rows import synthetic_rows
    from blowfishdb.engine.synopsis import open_synopsis

    check_file(output, ROW_FILES, "--output")
    synthetic = synthetic_rows(open_synopsis(file), rows=rows, seed=seed).to_arrow()
    if output.suffix.lower() == ".parquet":
        parquet.write_table(synthetic, output)
    else:
        csv.write_csv(synthetic, output)
    message = f"Written: {output}, {plural(synthetic.num_rows, 'synthetic row')}."
    print_result({"file": str(output), "rows": synthetic.num_rows}, message, as_json=as_json)


def _description(synopsis: Synopsis) -> dict[str, object]:
    from blowfishdb.engine.request import write_settings

    artefact = synopsis.artefact
    return {
        "dataset": artefact.dataset,
        "title": artefact.title,
        "attributes": dict(zip(artefact.names, artefact.shape, strict=True)),
        "epsilon": str(artefact.epsilon),
        "mechanism": artefact.mechanism,
        "stages": {allowance.stage: str(allowance.epsilon) for allowance in artefact.stages},
        **({"parameters": write_settings(artefact.parameters)} if artefact.parameters else {}),
        "policy_version": artefact.policy_version,
        "protected": list(artefact.protected),
        "unprotected": list(artefact.unprotected),
        "caveat": artefact.caveat,
        "counted": artefact.counted,
        "released": artefact.released,
        "digest": artefact.digest(),
    }


def _lines(synopsis: Synopsis) -> list[str]:
    from blowfishdb.present.words import epsilon_words

    artefact = synopsis.artefact
    cells = " x ".join(f"{size:,}" for size in artefact.shape) + (" cell" if artefact.shape == (1,) else " cells")
    version = f" (policy v{artefact.policy_version})" if artefact.policy_version is not None else ""
    return [
        f"{artefact.title}, from {artefact.dataset}{version}: {', '.join(artefact.names)}, {cells}",
        f"epsilon {epsilon_words(artefact.epsilon)}, once, by {artefact.mechanism}",
        *([sentence(artefact.counted)] if artefact.counted else []),
        *([artefact.caveat] if artefact.caveat else []),
    ]
