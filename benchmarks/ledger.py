"""Durable charges per second on both ledger stores, 1 and 8 processes, against a bare commit of the same database.

Everybody works on one account. The bare commit raises one counter and inserts one row of the same size, durably, with
no limits, no chain and no high-water mark. Both take turns on the same disk; `ratio` is charges / bare commits.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

import psycopg

from benchmarks.harness import Row
from blowfishdb.ledger import Charge, Terms, open_ledger
from tools.database_servers import running_postgres

SECONDS = 2.0
ROUNDS = 2
PROCESSES = (1, 8)
IDENTITY = "benchmark:table"
BODY = "x" * 400
FORK = multiprocessing.get_context("fork")

Commit = Callable[[int], None]
Opener = Callable[[int], Commit]
"""Connects in the worker's own process and returns the work of one commit."""


def run(data: Path | None) -> Iterator[Row]:
    """One row a store and number of processes."""
    del data
    with tempfile.TemporaryDirectory() as folder, running_postgres(on_disk=True) as server:
        for store, url in (("SQLite", f"sqlite:///{folder}/ledger.db"), ("PostgreSQL", server)):
            mark = Path(folder) / f"{store}.mark"
            with open_ledger(url, mark=mark) as ledger:
                ledger.register(Terms(IDENTITY, Fraction(10**6), "{}", "{}"), name="table", by="benchmark")
            bare = _bare_sqlite(Path(folder) / "bare.db") if store == "SQLite" else _bare_postgres(server)
            for processes in PROCESSES:
                yield _compare(
                    f"{store}, {processes} process{'es' * (processes > 1)}", _charges(url, mark), bare, processes
                )


def _compare(case: str, ours: Opener, bare: Opener, processes: int) -> Row:
    charges: list[float] = []
    commits: list[float] = []
    waits: list[float] = []
    for _ in range(ROUNDS):
        rate, latencies = _rate(ours, processes)
        charges.append(rate)
        waits += latencies
        commits.append(_rate(bare, processes)[0])
    cuts = quantiles(waits, n=100)
    median, late, longest = (1000 * wait for wait in (cuts[49], cuts[98], max(waits)))
    note = f"one charge: median {median:.2f} ms, 99 % {late:.1f} ms, longest {longest:.0f} ms"
    return Row(case, max(charges), max(commits), max(charges) / max(commits), note=note)


def _rate(opener: Opener, processes: int) -> tuple[float, list[float]]:
    """Commits per second of all processes together, and how long each commit took."""
    start = FORK.Barrier(processes)
    pipes, workers = [], []
    for number in range(processes):
        ours, theirs = FORK.Pipe(duplex=False)
        worker = FORK.Process(target=_work, args=(opener, number, start, theirs))
        worker.start()
        theirs.close()
        pipes.append(ours)
        workers.append(worker)
    latencies = [latency for pipe in pipes for latency in pipe.recv()]
    for worker in workers:
        worker.join()
    return len(latencies) / SECONDS, latencies


def _work(opener: Opener, number: int, start: multiprocessing.synchronize.Barrier, report: Connection) -> None:
    commit = opener(number)
    start.wait()
    until = time.perf_counter() + SECONDS
    latencies = []
    count = 0
    while (now := time.perf_counter()) < until:
        commit(count)
        count += 1
        latencies.append(time.perf_counter() - now)
    report.send(latencies)


def _charges(url: str, mark: Path) -> Opener:
    def opener(number: int) -> Commit:
        ledger = open_ledger(url, mark=mark)
        account = ledger.account_of(IDENTITY)
        run_id = f"{number}-{time.time_ns()}"

        def commit(count: int) -> None:
            key = f"{run_id}-{count}"
            ledger.charge(Charge(account.id, "ana", Fraction(1, 1000), key, key, key, 1, 1, 1, "{}"))

        return commit

    return opener


def _bare_sqlite(path: Path) -> Opener:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE counter (n INTEGER)")
        connection.execute("INSERT INTO counter VALUES (0)")
        connection.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, body TEXT)")

    def opener(number: int) -> Commit:
        del number
        connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")

        def commit(count: int) -> None:
            del count
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE counter SET n = n + 1")
            connection.execute("INSERT INTO line (body) VALUES (?)", (BODY,))
            connection.execute("COMMIT")

        return commit

    return opener


def _bare_postgres(url: str) -> Opener:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE counter (n BIGINT)")
        connection.execute("INSERT INTO counter VALUES (0)")
        connection.execute("CREATE TABLE line (id BIGINT PRIMARY KEY, body TEXT)")

    def opener(number: int) -> Commit:
        del number
        connection = psycopg.connect(url, autocommit=True)

        def commit(count: int) -> None:
            del count
            connection.execute(
                "WITH raised AS (UPDATE counter SET n = n + 1 RETURNING n) INSERT INTO line SELECT n, %s FROM raised",
                (BODY,),
            )

        return commit

    return opener
