"""A small table with known contents, its configuration and its ledger, in a scratch folder."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.catalog import Curator
from blowfishdb.session import Session

ROWS = 3000
WARDS = ["A1", "A2", "A3"]
COLUMNS = """range AS id, range % 100 AS age, CASE range % 3 WHEN 0 THEN 'A1' WHEN 1 THEN 'A2' ELSE 'A3' END AS ward,
    (range * 7) % 500 + 0.25 AS cost, range % 600 AS patient"""


def make_table(folder: Path, rows: int = ROWS) -> None:
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(f"CREATE OR REPLACE TABLE visits AS SELECT {COLUMNS} FROM range({rows})")


def visits(
    policy: bf.Policy | None = None,
    epsilon: str = "10",
    per_analyst: str | None = None,
    name: str = "visits",
    sharing: str = "analysts",
    *,
    show_budget: bool = True,
) -> bf.Dataset:
    return bf.Dataset(
        name,
        source="duckdb:///clinic.duckdb#visits",
        domain={
            "age": bf.integers(0, 99, null=0),
            "ward": bf.categorical(WARDS, null="A1", outside="A1"),
            "cost": bf.bins(0, 500, width=1, null=0),
        },
        policy=policy if policy is not None else bf.Policy({"age": bf.threshold(5)}),
        epsilon=epsilon,
        per_analyst=per_analyst,
        sharing=sharing,
        show_budget=show_budget,
    )


def configuration(folder: Path) -> Path:
    path = folder / "blowfish.toml"
    if not path.exists():
        path.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    return path


def curator(folder: Path) -> Curator:
    return bf.curate(configuration(folder), by="cora")


def make_fixture(folder: Path, dataset: bf.Dataset | None = None) -> Path:
    """A folder with the table, the configuration and one dataset."""
    make_table(folder)
    with curator(folder) as keeper:
        keeper.add(visits() if dataset is None else dataset)
    return configuration(folder)


def session(folder: Path, analyst: str = "ana") -> Session:
    return bf.connect(configuration(folder), analyst=analyst)


@pytest.fixture
def db(tmp_path: Path) -> Session:
    make_fixture(tmp_path)
    return session(tmp_path)
