"""One account and nameless strangers at their worst, beside another account's small questions: its waits, and memory.

`ours` is milliseconds of a small preview that was never asked before, at the median beside the attack, and `other`
without it; rounds with and without are interleaved, so that a busy machine slows both. In the rows of memory `ours` is
by how much the server grew at most, and `other` what we aim at, both in megabytes. The limits are the usual ones.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from statistics import median

import psycopg

import blowfishdb as bf
from benchmarks.harness import Row, scratch_config
from benchmarks.serving import resident_mb
from benchmarks.wire import serving_both
from blowfishdb.server.state import open_app_state

BOUND_MB = 256.0
"""What one account and one address should at most make a server grow by, with the usual limits; see docs/server.md."""
MOST_RATIO = 2.0
ROUNDS, EACH = 3, 10
THINK = 0.12
"""Seconds between small questions, so that they stay within the limit of requests."""
SIDE = 1023
HEAVY = {
    "query": {"kind": "histogram2d", "axes": [{"attribute": "x", "width": "4"}, {"attribute": "y", "width": "4"}]},
    "accuracy_target": {"alpha": "500", "beta": 0.05},
}
"""66,000 cells of two attributes: minutes of arithmetic."""
LARGE = f"SELECT '{'x' * 900}', generate_series(1, 15000)"
"""A look-up of thirteen megabytes."""
BODY = 4_000_000
STRANGERS, CONNECTIONS, REQUESTS = 300, 120, 40
SETTLES, WATCHED = 3.0, 0.2


@dataclass(eq=False)
class Victim:
    """A server that is attacked: its process, its ports, and tokens of the two accounts."""

    process: int
    rest: str
    port: int
    tokens: dict[str, str]
    numbers: Iterator[int] = field(default_factory=lambda: count(100))

    @property
    def host(self) -> str:
        """Where it takes requests."""
        return self.rest.removeprefix("http://")

    def dialed(self, sent: bytes) -> socket.socket:
        """A connection by HTTP, with as much sent as the server takes at once."""
        host, port = self.host.split(":")
        plug = socket.create_connection((host, int(port)), timeout=10)
        plug.settimeout(0.02)
        with suppress(OSError):
            plug.sendall(sent)
        return plug

    def url(self, name: str) -> str:
        """The address that a driver takes."""
        return f"postgresql://{name}:{self.tokens[name]}@127.0.0.1:{self.port}/blowfish"

    def small(self) -> float:
        """The seconds that a small question of bob's takes, which was never asked before, over a new connection."""
        query = {"kind": "histogram", "axes": [{"attribute": "age", "width": "5"}]}
        sent = {"query": query, "accuracy_target": {"alpha": str(next(self.numbers)), "beta": 0.05}}
        headers = {"Authorization": f"Bearer {self.tokens['bob']}", "Content-Type": "application/json"}
        began = time.perf_counter()
        with closing(HTTPConnection(self.host, timeout=60)) as connection:
            connection.request("POST", "/api/v1/datasets/wide/previews", json.dumps(sent), headers)
            response = connection.getresponse()
            if (content := response.read()) and response.status != 200:
                raise RuntimeError(f"a small question failed: {content[:300]!r}")
        return time.perf_counter() - began


def run(data: Path | None) -> Iterator[Row]:
    """Each attack by itself, then all at the same time."""
    del data
    yield from _rows(ROUNDS)


def headline(data: Path | None) -> Iterator[Row]:
    """All attacks at the same time."""
    del data
    yield from _rows(ROUNDS, ["everything at once"])


def _rows(rounds: int, names: Sequence[str] | None = None) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as victim:
        for name in names or ATTACKS:
            alone, beside, grown = measured(victim, ATTACKS[name], rounds)
            waits = 1000 * median(beside), 1000 * median(alone)
            yield Row(f"{name}: a small question, ms", *waits, waits[0] / waits[1], aim=MOST_RATIO)
            yield Row(f"{name}: memory, MB", grown, BOUND_MB, grown / BOUND_MB, aim=1.0)


def measured(victim: Victim, attack: Attack, rounds: int) -> tuple[list[float], list[float], float]:
    """Seconds of small questions without an attack and beside it, and the megabytes by which the server grew."""
    alone: list[float] = []
    beside: list[float] = []

    def asked() -> list[float]:
        waits = []
        for _ in range(EACH):
            time.sleep(THINK)
            waits.append(victim.small())
        return waits

    # What is loaded and kept once is there before the memory is noted.
    for _ in range(2):
        asked()
    with _grown(victim) as most:
        for _ in range(rounds):
            alone += asked()
            with ExitStack() as held:
                attack(victim, held)
                beside += asked()
            time.sleep(SETTLES)
    return alone, beside, most()


@contextmanager
def _grown(victim: Victim) -> Iterator[Callable[[], float]]:
    """By how many megabytes the server grew at most, looked at several times a second."""
    over, seen = threading.Event(), [resident_mb(victim.process)]

    def watch() -> None:
        while not over.wait(WATCHED):
            seen.append(resident_mb(victim.process))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield lambda: max(seen) - seen[0]
    over.set()
    thread.join()


def _head(token: str | None, size: int, route: str = "previews") -> bytes:
    lines = [f"POST /api/v1/datasets/wide/{route} HTTP/1.1", "Host: x", "Content-Type: application/json"]
    lines += [f"Content-Length: {size}"] + ([] if token is None else [f"Authorization: Bearer {token}"])
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def bodies_of_strangers(victim: Victim, held: ExitStack) -> None:
    """Connections of nobody that send large bodies and never end them."""
    for _ in range(STRANGERS):
        with suppress(OSError):
            held.enter_context(victim.dialed(_head(None, BODY + 1) + b" " * BODY))


def silent_strangers(victim: Victim, held: ExitStack) -> None:
    """Connections of nobody that say nothing, to both ports."""
    for port in (victim.port, int(victim.host.split(":")[1])):
        for _ in range(STRANGERS):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))


def idle_connections(victim: Victim, held: ExitStack) -> None:
    """Connections to the PostgreSQL port, as many as the account gets, on which nothing is asked."""
    for _ in range(CONNECTIONS):
        try:
            held.enter_context(psycopg.connect(victim.url("ana"), sslmode="disable", connect_timeout=10))
        except psycopg.OperationalError:
            return


def unfinished_bodies(victim: Victim, held: ExitStack) -> None:
    """Requests of the account whose large bodies never end."""
    for _ in range(REQUESTS):
        with suppress(OSError):
            held.enter_context(victim.dialed(_head(victim.tokens["ana"], BODY + 1) + b" " * BODY))


def heavy_questions(victim: Victim, held: ExitStack) -> None:
    """Previews of minutes, as many at once as the account gets."""
    body = json.dumps(HEAVY).encode()
    for _ in range(REQUESTS):
        held.enter_context(victim.dialed(_head(victim.tokens["ana"], len(body)) + body))


def unread_results(victim: Victim, held: ExitStack) -> None:
    """Large results on the PostgreSQL port that nobody reads."""
    for _ in range(10):
        with suppress(psycopg.OperationalError):
            connection = held.enter_context(psycopg.connect(victim.url("ana"), sslmode="disable", connect_timeout=10))
            os.write(connection.fileno(), b"Q" + struct.pack("!I", len(LARGE) + 5) + LARGE.encode() + b"\0")


Attack = Callable[[Victim, ExitStack], None]


def everything(victim: Victim, held: ExitStack) -> None:
    """All attacks at the same time."""
    for attack in SINGLE.values():
        attack(victim, held)


SINGLE: dict[str, Attack] = {
    "bodies of strangers": bodies_of_strangers,
    "silent strangers": silent_strangers,
    "idle connections": idle_connections,
    "unfinished bodies": unfinished_bodies,
    "heavy questions": heavy_questions,
    "unread results": unread_results,
}
ATTACKS: dict[str, Attack] = {**SINGLE, "everything at once": everything}


@contextmanager
def served(folder: Path) -> Iterator[Victim]:
    """A server with the usual limits, a dataset with a large domain, and two accounts."""
    config = scratch_config(folder)
    config.write_text(f"{config.read_text()}[server]\nnew_datasets = 'everyone'\nsign_ins_per_minute = 100000\n")
    (folder / "wide.csv").write_text("age,x,y\n40,1,2\n")
    grid = bf.integers(0, SIDE)
    policy = bf.Policy({"age": bf.threshold(5), "x": bf.threshold(3), "y": bf.threshold(3)})
    domain = {"age": bf.integers(0, 99), "x": grid, "y": grid}
    with bf.curate(config, by="bench") as curator:
        curator.add(bf.Dataset("wide", source=f"{folder}/wide.csv", domain=domain, policy=policy, epsilon="50"))
    app_state = open_app_state(config)
    tokens = {}
    for name in ("ana", "bob"):
        app_state.users.add(name, "analyst", None)
        tokens[name] = app_state.tokens.issue(name, "benchmark", ["ask"], 1)[0]
    app_state.close()
    with serving_both(config) as (process, rest, port):
        yield Victim(process, rest, port, tokens)
