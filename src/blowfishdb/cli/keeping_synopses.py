"""What the synopsis commands do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from blowfishdb.analysis.synthetic_rows import synthetic_rows
from blowfishdb.cli.answering import Keeping, show_answer, show_remaining, steps
from blowfishdb.cli.asked import Asked
from blowfishdb.cli.output import console, print_json, table
from blowfishdb.engine.present.numbers import epsilon_words
from blowfishdb.engine.synopsis.expected import COLUMNS, SynopsisPreview
from blowfishdb.engine.synopsis.synopsis import Synopsis, open_synopsis
from blowfishdb.errors import InvalidInput
from blowfishdb.session import Question, Session
from blowfishdb.sql import read_axes, read_where

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
