"""The dataset that all faults are tried on: a small DuckDB table, limits that run out on the way, a ledger anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

ROWS = 600
SHARE_OF_DATASET = Fraction(9, 10)
"""So much of what is asked for fits into the dataset's limit; the rest must be refused."""


@dataclass(frozen=True)
class Job:
    """One release: who asks it, under which key, at which price. Prices differ, so no request repeats another."""

    analyst: str
    key: str
    epsilon: str


def jobs(releases: int, analysts: int = 4) -> list[Job]:
    """So many releases, dealt out to the analysts in turn."""
    return [Job(f"analyst-{n % analysts}", f"key-{n}", f"0.{10_000 + n:07}") for n in range(releases)]


def make_fixture(folder: Path, ledger: str, asked: list[Job]) -> Path:
    """A configuration with one dataset, whose limits allow nine tenths of what will be asked."""
    import duckdb

    import blowfishdb as bf

    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        columns = "range AS id, CASE range % 3 WHEN 0 THEN 'A1' WHEN 1 THEN 'A2' ELSE 'A3' END AS ward"
        connection.execute(f"CREATE OR REPLACE TABLE visits AS SELECT {columns} FROM range({ROWS})")
    path = folder / "blowfish.toml"
    path.write_text(f'ledger = "{ledger}"\nmark = "blowfish.mark"\n')
    total = sum((Fraction(job.epsilon) for job in asked), Fraction(0))
    analysts = len({job.analyst for job in asked})
    with bf.curate(path, by="cora") as curator:
        curator.add(
            bf.Dataset(
                "visits",
                source="duckdb:///clinic.duckdb#visits",
                domain={"ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1")},
                epsilon=str(total * SHARE_OF_DATASET),
                per_analyst=str(total / analysts * Fraction(24, 25)),
                # Every job pays its own price, so that the prices of all jobs add up to the balances.
                sharing="off",
            )
        )
    return path
