"""A scratch folder in which the code of a page runs: a clinic's table, files that pages name, and a configuration."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import duckdb

import blowfishdb as bf
from blowfishdb.cli import run
from blowfishdb.cli.serve import server_state
from blowfishdb.errors import WaitsForApproval
from blowfishdb.model.document import Document
from examples.patients_and_visits import TABLES
from tests.docs.blocks import ROOT

ROWS = 4000
TOKEN = "3f9c0a12bd77"
WARDS = ["A1", "A2", "A3"]
CLINIC = f"""CREATE TABLE visits AS SELECT range AS visit_id, range % 100 AS age,
    ['A1', 'A2', 'A3'][range % 3 + 1] AS ward, (range * 37) % 20000 + 0.25 AS cost, range % 900 AS patient,
    DATE '2024-01-01' + CAST(range % 700 AS INTEGER) AS visit_day,
    40 + (range % 97) / 97.0 AS latitude, -74 + (range % 89) / 89.0 AS longitude FROM range({ROWS})"""
PEOPLE = "SELECT range % 100 AS age, ['NC', 'VA', 'TX'][range % 3 + 1] AS state FROM range(2000)"
FILES = {
    "states.txt": "NC\nVA\nTX\n",
    "wards.txt": "A1\nA2\nA3\n",
    "wards.csv": "from,to\nA1,A2\nA2,A3\n",
    "km.csv": ",A1,A2,A3\nA1,0,40,90\nA2,40,0,50\nA3,90,50,0\n",
    "blowfish.toml": 'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n',
}
PEOPLE_DOCUMENT = """version = 1

[domain.age]
kind = "integers"
low = 0
high = 99
null = 0
"""


@dataclass
class World:
    """Where a page's code runs, and the names that its Python code begins with."""

    folder: Path
    names: dict[str, object]
    has_servers: bool = False


def clone(folder: Path) -> World:
    """The same beside the census table that a clone of the repository has."""
    place = folder / "src" / "blowfishdb" / "data"
    place.mkdir(parents=True)
    (place / "adult.parquet").symlink_to(ROOT / "src" / "blowfishdb" / "data" / "adult.parquet")
    return empty(folder)


def empty(folder: Path) -> World:
    """Tables and files, and a configuration without a dataset."""
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(CLINIC)
        connection.execute(f"COPY ({PEOPLE}) TO '{folder / 'people.parquet'}'")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE sales AS SELECT range AS id, range % 10 AS price FROM range(100)")
    (folder / "data").mkdir()
    (folder / "data" / "people.parquet").write_bytes((folder / "people.parquet").read_bytes())
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "people.toml").write_text(PEOPLE_DOCUMENT)
    return World(folder, {})


def several_tables(folder: Path) -> World:
    """Visits, patients and postcodes, and a configuration without a dataset."""
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(TABLES)
    with duckdb.connect(str(folder / "ward.duckdb")) as connection:
        connection.execute(TABLES)
    (folder / "blowfish.toml").write_text(FILES["blowfish.toml"])
    return World(folder, {})


def clinic(folder: Path) -> World:
    """The same with the dataset `visits` and a large budget."""
    world = empty(folder)
    with bf.curate("blowfish.toml", by="cora") as curator:
        curator.add(visits())
    return world


def modest(folder: Path) -> World:
    """The same with a budget as curators give them, a synopsis, a person with a token, and questions that wait."""
    world = empty(folder)
    with bf.curate("blowfish.toml", by="cora") as curator:
        curator.add(visits("3"))
        tighter = replace(visits().policy, attributes={**visits().policy.attributes, "cost": bf.threshold(1000)})
        document = bf.write_document(Document(visits().domain, tighter))
        (folder / "visits.toml").write_text(document)
    with bf.connect("blowfish.toml", analyst="ana") as db:
        db["visits"].histogram("ward", bf.col("age").bins(5)).publish(epsilon="0.1").save("visits.parquet")
    assert run(["user", "add", "ana"]) == 0
    with server_state(Path("blowfish.toml")) as state, patch.object(secrets, "token_hex", return_value=TOKEN):
        state.tokens.issue("ana", "my notebook", ["ask"], 30)
        state.grants.set_group("@cardiology", ["ana"])
        state.grants.give("visits", "@cardiology", "analyst", by="cora")
        state.approvals.set_above("visits", Fraction(1, 10))
        for width in (1, 2):
            with suppress(WaitsForApproval):
                state.session("ana")["visits"].histogram(bf.col("age").bins(width)).release(epsilon="0.2")
    return world


def asking(folder: Path) -> World:
    """The same with a session `db` of the analyst ana."""
    world = clinic(folder)
    world.names |= {"bf": bf, "db": bf.connect("blowfish.toml", analyst="ana")}
    return world


def visits(epsilon: str = "1000") -> bf.Dataset:
    """The clinic's visits as most pages have them."""
    return bf.Dataset(
        "visits",
        source="duckdb:///clinic.duckdb#visits",
        domain={
            "age": bf.integers(0, 99, null=0),
            "ward": bf.categorical(WARDS, null="A1", outside="A1"),
            "cost": bf.bins(0, 50_000, width=100, null=0),
            "visit_day": bf.dates("2024-01-01", "2025-12-31", null="2024-01-01"),
            "latitude": bf.bins(40, 41, width="1/64", null=40),
            "longitude": bf.bins(-74, -73, width="1/64", null=-74),
        },
        policy=bf.Policy({"age": bf.threshold(5), "ward": bf.public(), "cost": bf.threshold(5000)}),
        epsilon=epsilon,
    )


WORLDS: dict[str, Callable[[Path], World]] = {
    "README.md": clone,
    "docs/python.md": empty,
    "docs/policies.md": empty,
    "docs/ledger.md": modest,
    "docs/command-line.md": modest,
    "docs/sources.md": empty,
    "docs/joins.md": several_tables,
}
"""Pages that begin otherwise than with `asking`."""


@contextmanager
def world_of(page: str, folder: Path) -> Iterator[World]:
    """The world of a page; its session is closed at the end."""
    world = WORLDS.get(page, asking)(folder)
    try:
        yield world
    finally:
        db = world.names.get("db")
        if isinstance(db, bf.Session):
            db.close()
