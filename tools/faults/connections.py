"""PostgreSQL goes away during releases: connections cut mid-transaction or mid-commit, the server killed or stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tools.faults.lab import POSTGRES, Lab, Place
from tools.faults.outcome import Outcome
from tools.faults.worker_pool import ROOT
from tools.postgres_server import free_port

CUT_SHARE = 0.15


def terminated_backends(lab: Lab) -> Iterator[Outcome]:
    """Every session of the database is ended by the server, again and again."""
    import psycopg

    place = lab.place(POSTGRES)

    def strike() -> int:
        with suppress(psycopg.Error), psycopg.connect(place.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return len(rows.fetchall())
        return 0

    yield lab.struck("connection ended by the server", place, strike, (0.02, 0.4))


def server_death(lab: Lab) -> Iterator[Outcome]:
    """The server dies by SIGKILL or stops at once, recovers, and clients go on."""
    for fault, how in (("server kill -9 and restart", signal.SIGKILL), ("server stopped at once", signal.SIGQUIT)):
        place = lab.place(POSTGRES)

        def strike(how: signal.Signals = how) -> int:
            lab.server.stop(how)
            lab.server.start()
            return 1

        yield lab.struck(fault, place, strike, (0.3, 1.5))


def cut_commits(lab: Lab) -> Iterator[Outcome]:
    """A proxy cuts while a charge or commit travels: the client cannot know whether it happened."""
    with _proxy(lab) as (port, cuts):
        number = lab.chance.randrange(10**9)
        direct = lab.database(f"cut_{number}")
        place = lab.place(POSTGRES, url=direct.replace(f":{lab.server.port}/", f":{port}/"))
        done = lab.worker_pool.run(lab.plan(place))
        injected = cuts()
    sound = Place(place.store, direct, place.config, place.logs, place.releases)
    yield lab.verdict("connection cut during a commit", sound, injected, done["unsettled"])


@contextmanager
def _proxy(lab: Lab) -> Iterator[tuple[int, Callable[[], int]]]:
    """A proxy before the lab's server: its port, and a function that ends it and says how often it cut."""
    port, seed = free_port(), lab.chance.randrange(2**31)
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.faults.proxy", *map(str, (port, lab.server.port, seed, CUT_SHARE))],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def cuts() -> int:
        time.sleep(0.2)
        return int(process.communicate(timeout=30)[0])

    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the proxy did not start")
        yield port, cuts
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
