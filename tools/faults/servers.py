"""Two servers on one ledger, and servers that are stopped or killed while they release; clients ask again by REST."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tools.faults.fixture import jobs
from tools.faults.lab import STORES, Lab, Place
from tools.faults.outcome import Outcome
from tools.faults.worker_pool import ROOT
from tools.postgres_server import free_port

SETTINGS = "\n[server]\nrequests_per_minute = 1000000\nsign_ins_per_minute = 1000000\nshutdown_seconds = 20\n"
PAUSE = (0.3, 1.5)
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

                yield lab.struck(fault, place, strike, PAUSE, plan)


@contextmanager
def _serving(place: Place) -> Iterator[list[Serving]]:
    with place.config.open("a") as config:
        config.write(SETTINGS)
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
