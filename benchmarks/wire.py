"""Latency of a replay and of a preview over the PostgreSQL port, REST and Python, and memory of idle connections.

`ours` is milliseconds of one statement over a connection that is open, `other` the same in Python without a server;
psql starts anew each time, and `other` is its SELECT 1. `seconds` is the server's processor time per statement.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import httpx
import psycopg

import blowfishdb as bf
from benchmarks.harness import Row
from blowfishdb.cli.serve import free_port
from blowfishdb.server.state import open_app_state

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"
QUESTION = "SELECT age, COUNT(*) FROM adult GROUP BY age OPTIONS (epsilon = 0.1)"
PREVIEW = f"EXPLAIN {QUESTION}"
TIMES = 40
IDLE = 100
SETTLES = 4.0
"""Seconds."""


def run(data: Path | None) -> Iterator[Row]:
    """A replay and a preview by each way, then connections that do nothing."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        config, secret = _prepared(Path(folder))
        with bf.connect(config, analyst="ana") as session:
            session.sql(QUESTION)
            python = {text: _milliseconds(partial(session.sql, text)) for text in (QUESTION, PREVIEW)}
        with serving_both(config) as (process, rest, port):
            url = f"postgresql://ana:{secret}@127.0.0.1:{port}/blowfish"
            headers = {"Authorization": f"Bearer {secret}"}
            with psycopg.connect(url, autocommit=True) as wire, httpx.Client(base_url=rest, headers=headers) as client:
                _settle(partial(wire.execute, QUESTION.encode()))
                for what, text, route in (("replay", QUESTION, "answers"), ("preview", PREVIEW, "previews")):
                    address = f"/api/v1/datasets/adult/{route}"
                    ways: dict[str, Callable[[], object]] = {
                        "psycopg": partial(wire.execute, text.encode()),
                        "REST": partial(client.post, address, json={"sql": QUESTION}),
                    }
                    for name, way in ways.items():
                        before = _processor_seconds(process)
                        took = _milliseconds(way)
                        seconds = (_processor_seconds(process) - before) / (TIMES + 2)
                        note = f"{took - python[text]:+.1f} ms"
                        yield Row(f"{what} by {name}, ms", took, python[text], seconds=seconds, note=note)
                    base, took = (_milliseconds(partial(_psql, url, one), 10) for one in ("SELECT 1", text))
                    yield Row(f"{what} by psql, started anew, ms", took, base, note=f"{took - base:+.1f} ms")
            resident = _resident(process)
            with ExitStack() as stack:
                for _ in range(IDLE):
                    stack.enter_context(psycopg.connect(url))
                more = _resident(process) - resident
                yield Row(f"{IDLE} idle connections", note=f"{more:.1f} MB more in the server", peak_mb=resident + more)


def _prepared(folder: Path) -> tuple[Path, str]:
    """A configuration with the shipped table and one analyst, and a token of theirs."""
    config = folder / "blowfish.toml"
    limits = 'new_datasets = "everyone"\nrequests_per_minute = 1000000\nsign_ins_per_minute = 1000000'
    config.write_text(f'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n[server]\n{limits}\n')
    os.symlink(ADULT, folder / "adult.parquet")
    domain = {"age": bf.integers(0, 99, null=0, outside="clamp")}
    with bf.curate(config, by="bench") as curator:
        curator.add(bf.Dataset("adult", source="adult.parquet", domain=domain, epsilon=10))
    app_state = open_app_state(config)
    app_state.users.add("ana", "analyst", None)
    secret = app_state.tokens.issue("ana", "benchmark", ["ask"], 1)[0]
    app_state.close()
    return config, secret


@contextmanager
def serving_both(config: Path) -> Iterator[tuple[int, str, int]]:
    """The number of a server's process, its address, and its PostgreSQL port."""
    rest, port = free_port(0), free_port(0)
    command = [sys.executable, "-m", "blowfishdb", "serve", "--json", "--config", str(config)]
    command += ["--port", str(rest), "--postgres", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            lines = []
            for line in process.stdout or ():
                lines.append(line)
                if line == "}\n":
                    break
            yield process.pid, str(json.loads("".join(lines))["url"]), port
        finally:
            process.terminate()


def _settle(work: Callable[[], object]) -> None:
    """Asks until a server that has just started has made its worker processes."""
    began = time.monotonic()
    while time.monotonic() - began < SETTLES:
        work()


def _milliseconds(work: Callable[[], object], times: int = TIMES) -> float:
    """The median time of the work, after it was done twice."""
    seconds = []
    for _ in range(times + 2):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return 1000 * median(seconds[2:])


def _psql(url: str, text: str) -> None:
    subprocess.run(["psql", "-X", "-q", url, "-c", text], check=True, capture_output=True)


def _processor_seconds(process: int) -> float:
    """Seconds that all threads of a process have run."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def _resident(process: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
