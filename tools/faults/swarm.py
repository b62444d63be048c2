"""Many client processes at once on one ledger, killed by SIGKILL and started again until every release is settled.

A process of its own (worker_pool.py): it loads everything once and forks clients, so a death costs milliseconds.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.faults.client_log import DIED, SAW, UNCLEAN, ClientLog, read_log, settled_keys
from tools.faults.fixture import Job, jobs
from tools.faults.points import Points, watch
from tools.faults.worker import FINAL, ask_all

TWIN_EVERY = 8
"""Every so many releases, a second process asks the same one under the same key at about the same time."""
TICK = 0.002
POINTS, DELAYS, NOBODY = "points", "delays", "nobody"


@dataclass(frozen=True)
class Plan:
    """What a swarm does. `span` is how many points, or seconds, a client may live at most while deaths are wanted.

    `install` names functions, as `module:function`, that each client calls with its number before it begins. A client
    that was started `tries` times without settling anything is given up, and what it asked stays unsettled.
    """

    config: str
    logs: str
    releases: int
    processes: int = 4
    first: int = 0
    tries: int = 150
    deaths: int = 0
    killing: str = NOBODY
    span: float = 120
    seed: int = 1
    is_sqlite: bool = True
    install: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Client:
    """One share of the releases and the process that asks them now."""

    number: int
    share: list[Job]
    log: Path
    process: int = 0
    ends_at: float = float("inf")
    fruitless: int = 0
    settled: int = -1

    def open_jobs(self) -> list[Job]:
        """The releases that are not settled yet."""
        done = settled_keys(read_log(self.log), FINAL)
        self.fruitless = 0 if len(done) > self.settled else self.fruitless + 1
        self.settled = len(done)
        return [job for job in self.share if job.key not in done]


def shares(plan: Plan) -> list[Client]:
    """The releases dealt out to the clients, some of them to two."""
    asked, count = jobs(plan.releases)[plan.first :], plan.processes
    dealt: list[list[Job]] = [[] for _ in range(count)]
    for number, job in enumerate(asked):
        dealt[number % count].append(job)
        if number % TWIN_EVERY == 0 and count > 1:
            dealt[(number + 1) % count].append(job)
    return [Client(n, share, Path(plan.logs) / f"client-{n}.log") for n, share in enumerate(dealt)]


def run(plan: Plan) -> dict[str, int]:
    """Runs the clients until all is settled, then asks everything that was seen once more; how many died, and so on."""
    chance, clients = random.Random(plan.seed), shares(plan)
    deaths = starts = 0
    waiting = list(clients)
    while waiting or any(client.process for client in clients):
        for client in list(waiting):
            open_jobs = client.open_jobs()
            waiting.remove(client)
            if open_jobs and client.fruitless < plan.tries:
                running = sum(1 for one in clients if one.process)
                wanted = deaths + running < plan.deaths
                _start(plan, client, open_jobs, chance.random() if wanted else None)
                starts += 1
        for client in clients:
            if not client.process:
                continue
            if time.monotonic() > client.ends_at:
                os.kill(client.process, signal.SIGKILL)
                client.ends_at = float("inf")
            ended, status = os.waitpid(client.process, os.WNOHANG)
            if ended:
                deaths += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                client.process, client.ends_at = 0, float("inf")
                waiting.append(client)
        time.sleep(TICK)
    again = [job for client in clients for job in client.share if job.key in _seen(client.log)]
    last = Client(len(clients), again, Path(plan.logs) / "client-again.log")
    _start(plan, last, again, None)
    os.waitpid(last.process, 0)
    unsettled = sum(len(client.open_jobs()) for client in clients)
    return {"deaths": deaths, "starts": starts, "unsettled": unsettled}


def _seen(log: Path) -> set[str]:
    return {one.key for one in read_log(log) if one.kind == SAW}


def _start(plan: Plan, client: Client, open_jobs: list[Job], life: float | None) -> None:
    """Forks a client process; `life` between 0 and 1 says when in its span it dies, None that it lives."""
    client.ends_at = float("inf")
    if life is not None and plan.killing == DELAYS:
        client.ends_at = time.monotonic() + life * plan.span
    process = os.fork()
    if process:
        client.process = process
        return
    log = ClientLog(client.log)
    try:
        die_at = 1 + int(life * plan.span) if life is not None and plan.killing == POINTS else None
        points = Points(die_at, lambda name: log.note(DIED, "", "", name))
        if plan.killing == POINTS:
            watch(points.reach, is_sqlite=plan.is_sqlite)
        os.environ.update(plan.environment)
        for name in plan.install:
            module, _, function = name.partition(":")
            getattr(importlib.import_module(module), function)(client.number)
        kept = ask_all(_connecting(plan, client.number), open_jobs, log, points.reach)
        os._exit(len(kept) > len(open_jobs))
    except BaseException:  # noqa: BLE001  # nothing may leave a forked process but its end
        log.note(UNCLEAN, "", "", traceback.format_exc())
    finally:
        os._exit(0)


def _connecting(plan: Plan, number: int) -> Callable[[str], object]:
    import blowfishdb as bf

    def connect(analyst: str) -> object:
        if plan.servers:
            return bf.connect(plan.servers[number % len(plan.servers)], token=plan.tokens[analyst])
        return bf.connect(plan.config, analyst=analyst)

    return connect


def warm_up(folder: Path) -> None:
    """Loads what a release needs, by one on a table in SQLite, which leaves no threads behind for the forks."""
    import sqlite3

    import blowfishdb as bf

    with sqlite3.connect(folder / "warm.db") as connection:
        connection.execute("CREATE TABLE visits (ward TEXT)")
    connection.close()
    (folder / "warm.toml").write_text('ledger = "sqlite:///warm.ledger"\nmark = "warm.mark"\n')
    wards = bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1")
    with bf.curate(folder / "warm.toml", by="cora") as curator:
        curator.add(bf.Dataset("visits", source="sqlite:///warm.db#visits", domain={"ward": wards}))
    with bf.connect(folder / "warm.toml", analyst="ana") as session:
        session["visits"].histogram("ward").release(epsilon="0.1", mechanism="identity")
    for name in ("duckdb", "pandas", "psycopg", "httpx"):  # DuckDB loads pandas by itself at its first statement
        importlib.import_module(name)


def main() -> None:
    """Runs the plans that come in as lines of JSON, one after the other; a line of JSON goes out for each."""
    with tempfile.TemporaryDirectory() as folder:
        warm_up(Path(folder))
    for line in sys.stdin:
        print(json.dumps(run(Plan(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
