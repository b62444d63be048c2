"""A table, a budget, many analysts with tokens, and a real server process over them, in a scratch folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb

import blowfishdb as bf
from blowfishdb.cli.serve import free_port
from blowfishdb.model.domain import categorical, integers
from blowfishdb.server.state import open_app_state

STATES = [f"S{number}" for number in range(20)]
UNLIMITED = 10**7
"""Requests a minute: all analysts of a benchmark come from one address."""
MOST_SECONDS_TO_START = 120.0


@dataclass(frozen=True)
class Place:
    """A folder with a configuration, and each analyst's token."""

    folder: Path
    tokens: dict[str, str]

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "blowfish.toml"


@dataclass(frozen=True)
class Table:
    """A table of so many rows; `values` is the SQL that spreads row i over ages and states."""

    rows: int
    values: str = "hash(i)"


@dataclass(frozen=True)
class Running:
    """A server process and where it listens."""

    port: int
    process: int


def make_place(
    folder: Path,
    *,
    analysts: int,
    tables: Mapping[str, Table],
    epsilon: Fraction,
    paddings: Sequence[str | None] = (None,),
) -> Place:
    """The folder filled. Each table is a dataset of its own name, and one called `NAME-padded` for each padding."""
    with duckdb.connect(str(folder / "tables.duckdb")) as connection:
        for name, table in tables.items():
            connection.execute(
                f'CREATE TABLE "{name}" AS SELECT (({table.values}) % 100)::INTEGER AS age, '
                f"'S' || (({table.values}) % 20) AS state FROM range({table.rows}) t(i)"
            )
    (folder / "blowfish.toml").write_text(
        'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n\n'
        f"[server]\nrequests_per_minute = {UNLIMITED}\nsign_ins_per_minute = {UNLIMITED}\n"
    )
    with bf.curate(folder / "blowfish.toml") as curator:
        for name in tables:
            for pad_to in paddings:
                curator.add(_dataset(name, epsilon, pad_to))
    app_state = open_app_state(folder / "blowfish.toml")
    tokens = {}
    for number in range(analysts):
        name = f"analyst-{number:03d}"
        app_state.users.add(name, "analyst", None)
        tokens[name] = app_state.tokens.issue(name, "benchmark", ["ask"], 30)[0]
    app_state.close()
    return Place(folder, tokens)


def _dataset(table: str, epsilon: Fraction, pad_to: str | None) -> bf.Dataset:
    return bf.Dataset(
        table if pad_to is None else f"{table}-padded",
        source=f"duckdb:///tables.duckdb#{table}",
        domain={"age": integers(0, 99), "state": categorical(STATES)},
        policy=bf.Policy({"age": bf.threshold(5)}),
        epsilon=epsilon,
        pad_to=pad_to,
        # Every release is counted and paid for, so that the account can be compared with the answers.
        sharing="off",
    )


@contextmanager
def serving(place: Place) -> Iterator[Running]:
    """The server of `blowfish serve` over the place, stopped at the end."""
    command = ["-m", "blowfishdb", "serve", "--json", "--config", str(place.config)]
    with _process(command, place.folder / "server.log") as running:
        yield running


@contextmanager
def serving_plainly(folder: Path, answer: bytes) -> Iterator[Running]:
    """A FastAPI app whose one route reads a body, checks it, and returns these bytes from a worker thread."""
    (folder / "plain.json").write_bytes(answer)
    with _process(["-m", "benchmarks.serving.plain", str(folder / "plain.json")], folder / "plain.log") as running:
        yield running


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[Running]:
    port = free_port(0)
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": root}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command, "--port", str(port)], stdout=out, stderr=out, env=environment
        )
        try:
            _await_ready(process, port, log)
            yield Running(port, process.pid)
        finally:
            process.terminate()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + MOST_SECONDS_TO_START
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended at once: {log.read_text()[-2000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the server did not start in time")
