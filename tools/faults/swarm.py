"""Many client processes at once on one ledger, killed by SIGKILL and started again until every release is settled.

Clients are forked from one process, which loads everything once, so a death costs milliseconds.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tools.faults.checker import ASKED, DIED, REFUSED, SAW, UNCLEAN, ClientLog, read_log, settled_keys

ROWS = 600
ANALYSTS = 4
SHARE_OF_DATASET = Fraction(9, 10)
"""So much of what is asked for fits into the dataset's limit; the rest must be refused."""


@dataclass(frozen=True)
class Job:
    """One release: who asks it, under which key, at which price. Prices differ, so no request repeats another."""

    analyst: str
    key: str
    epsilon: str


def jobs(releases: int, *, is_shared: bool = False) -> list[Job]:
    """So many releases, dealt out to the analysts in turn; where they share noise, each adds a little to the last."""
    least, step = (0, 1_000) if is_shared else (10_000, 1)
    return [Job(f"analyst-{n % ANALYSTS}", f"key-{n}", f"0.{least + (n + 1) * step:07}") for n in range(releases)]


OWN_FILE = "duckdb:///clinic.duckdb#visits"
"""Where the rows are, unless an engine is to fail."""


def make_fixture(
    folder: Path,
    ledger: str,
    asked: list[Job],
    source: str = OWN_FILE,
    settings: str = "",
    *,
    is_shared: bool = False,
) -> Path:
    """A configuration with one dataset, whose limits allow nine tenths of what will be asked."""
    import duckdb

    import blowfishdb as bf

    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        columns = "range AS id, CASE range % 3 WHEN 0 THEN 'A1' WHEN 1 THEN 'A2' ELSE 'A3' END AS ward"
        connection.execute(f"CREATE OR REPLACE TABLE visits AS SELECT {columns} FROM range({ROWS})")
    path = folder / "blowfish.toml"
    path.write_text(f'ledger = "{ledger}"\nmark = "blowfish.mark"\n{settings}')
    total = sum((Fraction(job.epsilon) for job in asked), Fraction(0))
    analysts = len({job.analyst for job in asked})
    if is_shared:
        # Whoever asks last has the same noise as all before them, and pays for the difference.
        total, analysts = max(Fraction(job.epsilon) for job in asked), 1
    with bf.curate(path, by="cora") as curator:
        curator.add(
            bf.Dataset(
                "visits",
                source=source,
                domain={"ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1")},
                epsilon=str(total * SHARE_OF_DATASET),
                per_analyst=str(total / analysts * Fraction(24, 25)),
                # Unshared, every job pays its own price, so that the prices of all jobs add up to the balances.
                sharing="analysts" if is_shared else "off",
            )
        )
    return path


Reach = Callable[[str], None]


class Points:
    """Counts the points that this process passes, and dies by SIGKILL at the chosen one."""

    def __init__(self, die_at: int | None, last_words: Reach) -> None:
        self.passed = 0
        self._die_at = die_at
        self._last_words = last_words

    def reach(self, name: str) -> None:
        """Passes a point, or dies there."""
        self.passed += 1
        if self.passed == self._die_at:
            self._last_words(name)
            os.kill(os.getpid(), signal.SIGKILL)


def watch(reach: Reach, *, is_sqlite: bool) -> None:
    """Makes every boundary of the ledger, its mark and the source call `reach`; for a process that serves only this."""
    from blowfishdb.ledger import mark
    from blowfishdb.sources.duckdb import DuckDB

    if is_sqlite:
        _watch_sqlite(reach)
    else:
        _watch_postgres(reach)
    mark_any: Any = mark
    mark_any._write = _between(reach, "mark", mark._write)
    mark_any._sync_content = _between(reach, "sync of the mark", mark._sync_content)
    source: Any = DuckDB
    source.fetch_columns = _between(reach, "count", DuckDB.fetch_columns)


def _watch_sqlite(reach: Reach) -> None:
    plain = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            name = _short(sql)
            reach(f"before {name}")
            result = super().execute(sql, *values)
            reach(f"after {name}")
            return result

    def connect(*place: Any, **settings: Any) -> sqlite3.Connection:
        return plain(*place, factory=Watched, **settings)

    module: Any = sqlite3
    module.connect = connect


def _watch_postgres(reach: Reach) -> None:
    import psycopg

    plain = psycopg.Connection.execute

    def execute(self: Any, query: Any, *values: Any, **settings: Any) -> Any:
        name = _short(query.decode() if isinstance(query, bytes) else str(query))
        reach(f"before {name}")
        result = plain(self, query, *values, **settings)
        reach(f"after {name}")
        return result

    connection: Any = psycopg.Connection
    connection.execute = execute


def _between(reach: Reach, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*values: Any) -> Any:
        reach(f"before {name}")
        result = work(*values)
        reach(f"after {name}")
        return result

    return watched


def _short(sql: str) -> str:
    """The verb of a statement, and the table where it names one."""
    words = sql.split()
    for sign in ("FROM", "INTO", "UPDATE"):
        if sign in words[:-1]:
            return f"{words[0]} {words[words.index(sign) + 1].partition('(')[0]}"
    return " ".join(words[:2]) if words else "nothing"


FINAL = ("budget-exceeded",)
"""Refusals that no further try changes; after all others the client asks again with the same key."""
PAUSE = 0.05


def ask_all(
    connect: Callable[[str], object], jobs: Sequence[Job], log: ClientLog, reach: Callable[[str], None]
) -> list[object]:
    """Asks each job once; `connect` opens an analyst's session, `reach` hears of every point that is passed.

    The sessions come back open: who lets them go closes the ledger in good order, which a dying process does not.
    """
    sessions: dict[str, object] = {}
    for job in jobs:
        log.note(ASKED, job.analyst, job.key)
        kind, detail = _asked(connect, sessions, job, reach)
        if kind == SAW:
            reach("before the answer is shown")
        log.note(kind, job.analyst, job.key, detail)
        reach("after the answer is shown")
        if kind == REFUSED and detail not in FINAL:
            time.sleep(PAUSE)
    return list(sessions.values())


def _asked(
    connect: Callable[[str], object], sessions: dict[str, object], job: Job, reach: Callable[[str], None]
) -> tuple[str, str]:
    """What came of a question: an answer's digest, the code of a typed refusal, or an error that should not be."""
    from blowfishdb.errors import BlowfishError, InternalError
    from blowfishdb.session import Session

    try:
        session = sessions.get(job.analyst) or connect(job.analyst)
        sessions[job.analyst] = session
        if not isinstance(session, Session):
            raise TypeError("connect gives a session")
        question = session["visits"].histogram("ward")
        answer = question.release(epsilon=job.epsilon, mechanism="identity", key=job.key, progress=reach)
    except InternalError as error:
        return UNCLEAN, str(error)
    except BlowfishError as error:
        return REFUSED, error.code
    except Exception as error:  # noqa: BLE001  # counted, and a fault whatever it is
        return UNCLEAN, f"{type(error).__name__}: {error}"
    return SAW, hashlib.sha256(answer.to_json().encode()).hexdigest()


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
    is_shared: bool = False
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
    asked, count = jobs(plan.releases, is_shared=plan.is_shared)[plan.first :], plan.processes
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


ROOT = Path(__file__).resolve().parents[2]
LONGEST = 3600.0
LAST_WAIT = 120.0


@dataclass(frozen=True)
class WorkerPool:
    """A running process of `tools.faults.swarm`."""

    process: subprocess.Popen[str]

    def begin(self, plan: Plan) -> None:
        """Sets the clients of a plan going; faults may be injected until `is_done`."""
        if self.process.stdin is None:
            raise RuntimeError("the worker pool has no way in")
        self.process.stdin.write(json.dumps(asdict(plan)) + "\n")
        self.process.stdin.flush()

    def is_done(self, seconds: float = 0.0) -> bool:
        """Whether the plan has ended, after a wait of at most so many seconds."""
        if self.process.stdout is None:
            raise RuntimeError("the worker pool has no way out")
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def outcome(self) -> dict[str, int]:
        """What the swarm counted: deaths, starts and releases that were given up."""
        if self.process.stdout is None or not self.is_done(LONGEST):
            raise RuntimeError("the swarm did not end")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the swarm broke down; its error is above")
        counts: dict[str, int] = json.loads(line)
        return counts

    def run(self, plan: Plan) -> dict[str, int]:
        """Runs a plan to its end."""
        self.begin(plan)
        return self.outcome()


@contextmanager
def open_worker_pool() -> Iterator[WorkerPool]:
    """A worker pool that ends with the block."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.faults.swarm"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield WorkerPool(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(LAST_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    main()
