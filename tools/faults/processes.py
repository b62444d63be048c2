"""Faults of processes: clients die at named points, at any moment or while they migrate; clocks jump; servers end."""

from __future__ import annotations

import datetime as real
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from blowfishdb.ledger.store import NEWEST
from tools.database_servers import free_port
from tools.faults.lab import SQLITE, STORES, Lab, Outcome, Place
from tools.faults.swarm import DELAYS, POINTS, ROOT, jobs

POINTS_OF_A_RELEASE = 280
"""About so many points lie in the opening of a ledger and two releases."""
LIFE = 0.4
"""Seconds that a client lives at most while deaths are wanted."""


def kill_at_points(lab: Lab) -> Iterator[Outcome]:
    """Death before or after any statement, commit, mark write, read of data or showing of an answer."""
    yield from _killed(lab, "kill -9 at a named point", POINTS, POINTS_OF_A_RELEASE)


def kill_at_moments(lab: Lab) -> Iterator[Outcome]:
    """Death at any moment, inside system calls as well."""
    yield from _killed(lab, "kill -9 at a random moment", DELAYS, LIFE)


def kill_while_sharing(lab: Lab) -> Iterator[Outcome]:
    """The same where analysts share their noise, and each release continues a draw that another one has."""
    yield from _killed(lab, "kill -9 while noise is shared", POINTS, POINTS_OF_A_RELEASE, is_shared=True)


def _killed(lab: Lab, fault: str, killing: str, span: float, *, is_shared: bool = False) -> Iterator[Outcome]:
    for store in STORES:
        place = lab.place(store, is_shared=is_shared)
        plan = replace(lab.plan(place), killing=killing, span=span, deaths=place.releases)
        done = lab.worker_pool.run(plan)
        yield lab.verdict(fault, place, done["deaths"], done["unsettled"])


BACK = ("DROP INDEX entry_by_restore",)
"""Undoes the newest migration."""
FORMAT_BEFORE = NEWEST - 1
POINTS_OF_OPENING = 24
RELEASES_A_ROUND = 4


def killed_migrations(lab: Lab) -> Iterator[Outcome]:
    """Two processes at once open an old ledger and die while they migrate it; others finish the work."""
    for store in STORES:
        place, deaths, unsettled = lab.place(store), 0, 0
        for first in range(0, place.releases, RELEASES_A_ROUND):
            if first:
                _downgrade(place)
            last = min(first + RELEASES_A_ROUND, place.releases)
            plan = replace(lab.plan(place, 2), killing=POINTS, span=POINTS_OF_OPENING, deaths=4)
            done = lab.worker_pool.run(replace(plan, first=first, releases=last))
            deaths, unsettled = deaths + done["deaths"], unsettled + done["unsettled"]
        yield lab.verdict("kill -9 during a migration", place, deaths, unsettled)


def _downgrade(place: Place) -> None:
    if place.store == SQLITE:
        with closing(sqlite3.connect(place.ledger_file, isolation_level=None)) as connection:
            for statement in (*BACK, f"PRAGMA user_version = {FORMAT_BEFORE}"):
                connection.execute(statement)
        return
    import psycopg

    with psycopg.connect(place.url) as server:
        server.execute("SET LOCAL search_path = blowfish_ledger")
        for statement in (*BACK, f"UPDATE format SET version = {FORMAT_BEFORE}"):
            server.execute(statement.encode())


YEAR = 365 * 86_400.0
LEAPS = (0.0, 20 * YEAR, -30 * YEAR, 3600.0, -3600.0, 900 * YEAR)


def skew(number: int) -> None:
    """Moves the clock of this process, at every reading by another leap; for a process that serves only this."""
    from blowfishdb.ledger import charges

    plain, readings = time.time, count(number)

    def skewed() -> float:
        return plain() + LEAPS[next(readings) % len(LEAPS)]

    class Skewed(real.datetime):
        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> Any:
            return real.datetime.fromtimestamp(plain(), tz) + real.timedelta(seconds=skewed() - plain())

    clock: Any = time
    clock.time = skewed
    module: Any = charges
    module.datetime = Skewed


def clock_skew(lab: Lab) -> Iterator[Outcome]:
    """Releases under clocks that are decades off and run backwards."""
    for store in STORES:
        place = lab.place(store)
        plan = replace(lab.plan(place), install=["tools.faults.processes:skew"])
        done = lab.worker_pool.run(plan)
        yield lab.verdict("clock skew", place, place.releases, done["unsettled"])


SERVER_SETTINGS = (
    "\n[server]\nnew_datasets = 'everyone'\nrequests_per_minute = 1000000\nsign_ins_per_minute = 1000000\n"
    "shutdown_seconds = 20\n"
)
BETWEEN_RESTARTS = (0.3, 1.5)
"""Seconds between two restarts; a server needs some itself to start."""


@dataclass
class Serving:
    """One `blowfish serve`, which may be ended and started again at the same address."""

    config: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it and waits until it says that it is ready."""
        command = [sys.executable, "-m", "blowfishdb", "serve", "--json", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--config", str(self.config)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        )
        if self.process.stdout is None or not any(line.rstrip() == "}" for line in self.process.stdout):
            raise RuntimeError("a server did not start")

    def stop(self, how: signal.Signals) -> None:
        """Ends it."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate(timeout=60)
            self.process = None


def two_servers(lab: Lab) -> Iterator[Outcome]:
    """Clients of two servers spend one budget; then one server after the other is stopped, or killed, and restarted."""
    for store in STORES:
        for fault, how in (
            ("two servers on one ledger", None),
            ("two servers, restarted by SIGTERM", signal.SIGTERM),
            ("two servers, restarted by kill -9", signal.SIGKILL),
        ):
            place = lab.place(store, max(8, lab.releases // 10))
            with _serving(place) as servers:
                plan = replace(lab.plan(place), servers=[server.url for server in servers], tokens=_tokens(place))
                if how is None:
                    done = lab.worker_pool.run(plan)
                    yield lab.verdict(fault, place, place.releases, done["unsettled"])
                    continue

                def strike(servers: list[Serving] = servers, how: signal.Signals = how) -> int:
                    server = lab.chance.choice(servers)
                    server.stop(how)
                    server.start()
                    return 1

                yield lab.struck(fault, place, strike, BETWEEN_RESTARTS, plan)


@contextmanager
def _serving(place: Place) -> Iterator[list[Serving]]:
    with place.config.open("a") as config:
        config.write(SERVER_SETTINGS)
    with ExitStack() as ends:
        servers = [Serving(place.config, free_port()) for _ in range(2)]
        for server in servers:
            ends.callback(server.stop, signal.SIGKILL)
            server.start()
        yield servers


def _tokens(place: Place) -> dict[str, str]:
    """A token for every analyst, by name."""
    from blowfishdb.server.state import open_app_state

    app_state = open_app_state(place.config)
    try:
        tokens = {}
        for name in sorted({job.analyst for job in jobs(place.releases)}):
            app_state.users.add(name, "analyst", None)
            tokens[name] = app_state.tokens.issue(name, "faults", ["ask"], 1)[0]
        return tokens
    finally:
        app_state.close()
