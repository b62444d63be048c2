"""A thousand million rows in partitions: made one by one, counted by one release, and resumed after any interruption.

`python -m benchmarks partitions --folder FOLDER` makes `--parts` Parquet files of `--rows` rows in all (1.6 gigabytes
for 10^9), charges one release over all of them, and counts. Run again after a kill, it makes the files that are
missing, and the release continues on its charge: it is charged once, and noise is drawn once, when all is counted. Run
again after its end, it replays the answer. Without arguments it runs small, in a scratch folder.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

import blowfishdb as bf
from benchmarks.harness import Row, Work, measure

CELLS = 4096
ROWS, PARTS = 1_000_000_000, 20
ROWS_IN_SMALL = 2_000_000
EPSILON = "0.1"


def run(data: Path | None) -> Iterator[Row]:
    """Two million rows in a scratch folder."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        yield from resumed(Path(folder), ROWS_IN_SMALL, PARTS)


def run_with(arguments: Sequence[str]) -> Work:
    """The run in a folder that stays."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks partitions")
    parser.add_argument("--folder", type=Path, help="where partitions and ledger stay; a scratch folder without it")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parts", type=int, default=PARTS)
    options = parser.parse_args(arguments)

    def sized(data: Path | None) -> Iterator[Row]:
        if options.folder is None:
            yield from run(data)
            return
        options.folder.mkdir(parents=True, exist_ok=True)
        yield from resumed(options.folder, options.rows, options.parts)

    return sized


def resumed(folder: Path, rows: int, parts: int) -> Iterator[Row]:
    """What is left to make, then the release, and what it was charged in all."""
    missing = [number for number in range(parts) if not _part(folder, number).exists()]
    _, seconds, _ = measure(lambda: _make(folder, missing, rows // parts))
    yield Row(f"{len(missing)} of {parts} partitions made", seconds, note=f"{rows // parts:.0e} rows each")
    config = folder / "blowfish.toml"
    if not config.exists():
        config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n')
    with bf.curate(config) as curator:
        if "grown" not in curator.config.datasets:
            domain = {"x": bf.integers(0, CELLS - 1, null=0)}
            curator.add(bf.Dataset("grown", source="*.parquet", domain=domain, epsilon="1"))
    _, raw, _ = measure(lambda: duckdb.sql(f"SELECT x, count(*) FROM '{folder}/*.parquet' GROUP BY x").fetchall())
    with bf.connect(config, analyst="benchmark") as session:
        question = session["grown"].histogram("x")
        answer, seconds, peak = measure(lambda: question.release(epsilon=EPSILON, mechanism="identity"))
        spent = session.budget("grown").spent
    note = f"{sum(answer.raw):.4e} rows counted; charged {float(spent)} in all"
    yield Row(f"release over {rows:.0e} rows", seconds, raw, seconds / raw, seconds, peak, note)


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:04}.parquet"


def _make(folder: Path, numbers: Sequence[int], rows: int) -> None:
    """Partitions, each of which has its name only once it is whole."""
    for number in numbers:
        unfinished = folder / f"part-{number:04}.unfinished"
        first = number * rows
        made = f"SELECT (hash(i) % {CELLS})::USMALLINT AS x FROM range({first}, {first + rows}) t(i)"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({made}) TO '{unfinished}' (FORMAT parquet)")
        unfinished.rename(_part(folder, number))
