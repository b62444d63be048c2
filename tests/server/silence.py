"""A real `blowfish serve` before PostgreSQL, behind a proxy that goes silent while a count is under way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg

import blowfishdb as bf
from blowfishdb.cli.serve import free_port
from blowfishdb.server.state import AppState, open_app_state
from tests.server.places import NO_CERTIFICATES, PASSWORD, PATIENCE
from tests.server.test_serving import started
from tools.silent_proxy import SilentProxy, silent_proxy

ANSWERS = "/api/v1/datasets/{name}/answers"
FAR, NEAR = "far", "near"
"""Two datasets and their tables on one server: one asked through the proxy, one past it."""


def question(epsilon: Fraction) -> dict[str, Any]:
    """A question at this price, as REST takes it."""
    return {
        "query": {"kind": "histogram", "axes": [{"attribute": "age"}]},
        "accuracy_target": {"epsilon": str(epsilon)},
    }


def statement(name: str, epsilon: Fraction) -> str:
    """The same question in SQL."""
    return f"SELECT age, COUNT(*) FROM {name} GROUP BY age OPTIONS (epsilon = {float(epsilon)})"


@dataclass
class SilentEngine:
    """A folder with two datasets, the server over it, and the proxy. Prices differ, so no question repeats another."""

    folder: Path
    url: str
    proxy: SilentProxy
    app_state: AppState
    secrets: dict[str, str]
    postgres: int
    process: subprocess.Popen[str] | None = None
    address: str = ""
    clients: list[httpx.Client] = field(default_factory=list)
    _log: threading.Thread = field(default_factory=threading.Thread)
    _prices: Iterator[int] = field(default_factory=lambda: count(100))

    @property
    def config(self) -> Path:
        """The configuration of the server."""
        return self.folder / "blowfish.toml"

    def price(self) -> Fraction:
        """A price that nobody paid yet."""
        return Fraction(next(self._prices), 1000)

    def start(self) -> None:
        """Starts the server, or another one in its place."""
        self.process, said = started(self.folder, "127.0.0.1", extra=["--postgres", str(self.postgres)])
        self.address = str(said["url"])
        # What the server logs must not fill its pipe.
        self._log = threading.Thread(target=self.process.communicate)
        self._log.start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """Ends the server; the seconds that took."""
        began = time.monotonic()
        if self.process is not None:
            self.process.send_signal(how)
            self._log.join(PATIENCE)
            assert not self._log.is_alive(), "the server did not end"
            self.process = None
        return time.monotonic() - began

    def client(self, name: str = "ana") -> httpx.Client:
        """A program of somebody's, over REST."""
        headers = {"Authorization": f"Bearer {self.secrets[name]}"}
        made = httpx.Client(base_url=self.address, headers=headers, verify=NO_CERTIFICATES, timeout=PATIENCE)
        self.clients.append(made)
        return made

    def ask(self, epsilon: Fraction, name: str = FAR) -> httpx.Response:
        """An answer over REST."""
        return self.client().post(ANSWERS.format(name=name), json=question(epsilon))

    def port(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection to the PostgreSQL port of the server, which may spend."""
        where = f"postgresql://ana:{self.secrets['ana']}@127.0.0.1:{self.postgres}/blowfish"
        connection = psycopg.connect(where, autocommit=True)
        connection.execute("SET blowfish.spend = '1'")
        return connection

    def spent(self) -> Fraction:
        """What the ledger says of the dataset behind the proxy."""
        return self.app_state.curator("cora").account(FAR).spent

    def ended(self, route: str, status: int) -> int:
        """How many requests of a route ended with this status, by the server's own count."""
        text = self.client("aude").get("/metrics").text
        line = rf'blowfish_requests_total{{method="\w+",route="{re.escape(route)}",status="{status}"}} (\d+)'
        return sum(map(int, re.findall(line, text)))

    @contextmanager
    def counting(self) -> Iterator[Callable[[], None]]:
        """Holds counts up in the database; what is given waits for one of them, and silences the network then."""
        with psycopg.connect(self.url) as holder:
            # What the database keeps of connections that were lost before, until its own keep-alive ends them.
            holder.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'")
            holder.execute("LOCK TABLE far IN ACCESS EXCLUSIVE MODE")

            def fall_silent() -> None:
                self.until(lambda: self._waiting() > 0)
                self.proxy.swallow()
                # The count ends, and nobody hears of it.
                holder.rollback()
                self.until(lambda: self._waiting() == 0)

            try:
                yield fall_silent
            finally:
                self.proxy.forward()

    def _waiting(self) -> int:
        with psycopg.connect(self.url) as other:
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%far%'"
            row = other.execute(query).fetchone()
            return 0 if row is None else int(row[0])

    @staticmethod
    def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> float:
        """The seconds until something holds; fails where it does not in time."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < seconds, "it did not come about"
            time.sleep(0.05)
        return time.monotonic() - began


@contextmanager
def silent_engine(folder: Path, url: str, settings: str = "", server: str = "") -> Iterator[SilentEngine]:
    """The place; `settings` and `server` are more lines of its configuration. No server runs in it yet."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in (FAR, NEAR):
            connection.execute(f"CREATE TABLE {name} AS SELECT g % 10 AS age FROM generate_series(1, 1000) g".encode())
    port = int(url.rpartition(":")[2].partition("/")[0])
    with silent_proxy(port) as proxy, ExitStack() as ends:
        config = folder / "blowfish.toml"
        config.write_text(f'ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n{settings}\n')
        addresses = {FAR: url.replace(f":{port}/", f":{proxy.port}/"), NEAR: url}
        with bf.curate(config, by="cora") as curator:
            for name, address in addresses.items():
                domain = {"age": bf.integers(0, 9)}
                curator.add(bf.Dataset(name, source=f"{address}#{name}", domain=domain, epsilon="9"))
        with config.open("a") as file:
            file.write(f'\n[server]\nnew_datasets = "everyone"\nrequests_per_minute = 1000000\n{server}\n')
        app_state = open_app_state(config)
        ends.callback(app_state.close)
        app_state.users.add("ana", "analyst", PASSWORD, must_change=False)
        app_state.users.add("aude", "auditor", None)
        for name in addresses:
            app_state.grants.hand_over(name, "cora", everyone=True)
        scopes = {"ana": ["ask"], "aude": ["audit"]}
        secrets = {name: app_state.tokens.issue(name, "test", wanted, 1)[0] for name, wanted in scopes.items()}
        place = SilentEngine(folder, url, proxy, app_state, secrets, free_port(0))
        ends.callback(place.stop, signal.SIGKILL)
        try:
            yield place
        finally:
            for client in place.clients:
                client.close()


def environment() -> dict[str, str]:
    """Variables of a process of ours."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
