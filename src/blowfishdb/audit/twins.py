"""Twin worlds: the same questions on two neighbouring tables with coupled noise; all that leaves must be equal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import TypeAlias

import duckdb

from blowfishdb.audit.coupling import MADE_EQUAL, Coupling, MadeEqual, coupled, made_equal
from blowfishdb.audit.scratch import listening
from blowfishdb.catalog import Dataset, curate
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.points import PointWeights
from blowfishdb.engine.preview import AnyPreview
from blowfishdb.engine.synopsis import Synopsis, to_bytes
from blowfishdb.errors import BlowfishError
from blowfishdb.model.serialize import write
from blowfishdb.present import export
from blowfishdb.session.plan import QuestionPlan

CURATOR, ANALYST = "cora", "ana"


@dataclass(frozen=True)
class Heard:
    """Something that left: after which question, in which form, and its bytes."""

    label: str
    part: str
    content: bytes


@dataclass(frozen=True, eq=False)
class TwinTable:
    """A table of one world: its columns with their types, and its rows."""

    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]


TwinTables: TypeAlias = Mapping[str, TwinTable]
Sitting: TypeAlias = Callable[[Path], Iterable[Heard]]
"""Asks questions over the configuration of a world and tells all that leaves."""


@dataclass(frozen=True, eq=False)
class Twins:
    """Datasets over the file `data.duckdb`, and the tables of two worlds that may not be told apart."""

    datasets: Sequence[Dataset]
    first: TwinTables
    second: TwinTables


Act: TypeAlias = Callable[[Path], None]
"""Does something over the configuration of a world that nobody listens to."""
DATA = "data.duckdb"


def write_tables(folder: Path, tables: TwinTables) -> None:
    """Writes the database of a world."""
    with duckdb.connect(str(folder / DATA)) as database:
        for name, table in tables.items():
            columns = ", ".join(f'"{column}" {kind}' for column, kind in table.columns.items())
            database.execute(f'CREATE OR REPLACE TABLE "{name}" ({columns})')
            marks = f"({', '.join('?' for _ in table.columns)})"
            if table.rows:
                values = [value for row in table.rows for value in row]
                database.execute(f'INSERT INTO "{name}" VALUES {", ".join([marks] * len(table.rows))}', values)


def make_world(folder: Path, datasets: Sequence[Dataset], tables: TwinTables) -> Path:
    """A world in an empty folder: the database, the configuration, and the datasets as a curator adds them."""
    write_tables(folder, tables)
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with curate(config, by=CURATOR) as curator:
        for dataset in datasets:
            curator.add(dataset)
    return config


@dataclass(frozen=True)
class Compared:
    """The differences between two worlds in words, how many things were compared, and how often data was read."""

    differences: tuple[str, ...]
    told: int
    accesses: int


def compare(
    twins: Twins,
    script: Sitting,
    *,
    others: tuple[Act, Act] | None = None,
    equal: Sequence[MadeEqual] = MADE_EQUAL,
    everywhere: bool = False,
) -> Compared:
    """What a script is told in two worlds, byte by byte. `everywhere`: the engine works in other threads.

    With `others` both worlds hold the first tables, and before the script runs somebody else does one thing in the
    first and another in the second.
    """
    coupling = Coupling(by_rows=others is not None)
    transcripts = []
    with tempfile.TemporaryDirectory(prefix="blowfish-twins-") as home, coupled(coupling, everywhere=everywhere):
        # Both worlds have the same place, one after the other: addresses are told, and account for identities.
        folder = Path(home) / "world"
        for place, tables in enumerate((twins.first, twins.first if others else twins.second)):
            folder.mkdir()
            with made_equal(equal), listening() as heard:
                config = make_world(folder, twins.datasets, tables)
                if others is not None:
                    with coupling.apart():
                        others[place](config)
                told = list(script(config))
            transcripts.append([*told, Heard("all questions", "logs and warnings", "\n".join(heard).encode())])
            rmtree(folder)
            if place == 0:
                coupling.repeat()
        coupling.finish()
    first, second = transcripts
    return Compared((*coupling.differences, *differences(first, second)), len(first), len(coupling.accesses))


def differences(first: Sequence[Heard], second: Sequence[Heard]) -> Iterator[str]:
    """What differs between two transcripts, in words."""
    for one, other in zip(first, second, strict=False):
        if (one.label, one.part) != (other.label, other.part):
            yield f"{one.label}: {one.part} in one world, {other.label}: {other.part} in the other"
            return
        if one.content != other.content:
            yield f"{one.label}, {one.part}: {excerpt(one.content, other.content)}"
    if len(first) != len(second):
        longer = max(first, second, key=len)[min(len(first), len(second))]
        yield f"{longer.label}: {longer.part} in one world alone"


AROUND = 40


def excerpt(one: bytes, other: bytes) -> str:
    """The place where two texts begin to differ, from both."""
    place = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    begin = max(0, (min(len(one), len(other)) if place is None else place) - AROUND)
    pieces = [text[begin : begin + 2 * AROUND].decode(errors="replace") for text in (one, other)]
    sizes = "" if len(one) == len(other) else f" ({len(one)} and {len(other)} bytes)"
    return f"{pieces[0]!r} / {pieces[1]!r}{sizes}"


AnswerPart: TypeAlias = tuple[str, bytes]


def answer_parts(answer: Answer) -> Iterator[AnswerPart]:
    """Every form in which an answer leaves."""
    yield "JSON", answer.to_json().encode()
    yield "stored", answer.to_bytes()
    yield "text", repr(answer).encode()
    yield "page", answer.interactive().page.encode()
    yield "note", answer.note().encode()
    if not answer.parts:
        for ending, (_, content) in export.TABLES.items():
            yield ending, content(answer)
        if export.is_map(answer):
            yield ".geojson", export.map_file(answer)


def parts_of(value: object) -> Iterator[AnswerPart]:
    """Every form in which something leaves."""
    match value:
        case Answer():
            yield from answer_parts(value)
        case AnyPreview():
            yield "preview", f"{value!r}\n{value}\n{value.to_dict()}".encode()
        case QuestionPlan():
            yield "plan", f"{value!r}\n{value}\n{value.to_dict()}".encode()
        case Synopsis():
            yield "synopsis", repr(value).encode()
            yield ".parquet", to_bytes(value.artefact)
        case PointWeights():
            yield "weights", f"{value!r}\n{value.to_json()}".encode()
        case list() | tuple():
            for number, one in enumerate(value):
                yield from ((f"{part} {number}", content) for part, content in parts_of(one))
        case Exception():
            fields = {name: field for name, field in vars(value).items() if not name.startswith("__")}
            code = value.code if isinstance(value, BlowfishError) else "untyped"
            yield "error", f"{type(value).__name__} {code}: {value}\n{fields}".encode()
        case str():
            yield "text", value.encode()
        case bytes():
            yield "bytes", value
        case _:
            yield "value", repr(write(value) if hasattr(value, "__dataclass_fields__") else value).encode()


def tell(label: str, ask: Callable[[], object]) -> Iterator[Heard]:
    """All forms of what a question gives, or of the error with which it ends."""
    try:
        value = ask()
    except Exception as error:  # noqa: BLE001  # whatever it is, it reaches whoever asked
        value = error
    for part, content in parts_of(value):
        yield Heard(label, part, content)
