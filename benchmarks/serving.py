"""A real server over a scratch folder, and what many analysts do at once against one budget there, for benchmarks."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

import duckdb

import blowfishdb as bf
from blowfishdb.cli.serve import free_port
from blowfishdb.ledger import Ledger
from blowfishdb.model.domain import categorical, integers
from blowfishdb.server.state import open_app_state

END_OF_HEAD = b"\r\n\r\n"
LONGEST = 2**24
IDLE = 3.0
"""Servers hang up on connections that are silent for some seconds; ours is made anew before that."""


@dataclass(frozen=True)
class Reply:
    """What came back, and after how many seconds."""

    status: int
    body: bytes
    seconds: float


@dataclass(eq=False)
class Caller:
    """One analyst's connection, kept open; requests follow one another."""

    port: int
    token: str
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _used: float = 0.0

    async def ask(self, method: str, path: str, sent: Mapping[str, Any] | None = None) -> Reply:
        """The reply to one request; the connection is opened outside of its time."""
        if time.perf_counter() - self._used > IDLE:
            self.close()
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port, limit=LONGEST)
        body = b"" if sent is None else json.dumps(sent).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        self._writer.write(head.encode() + body)
        received = (await self._reader.readuntil(END_OF_HEAD)).decode("latin-1").lower()
        found = await self._reader.readexactly(_length(received))
        self._used = time.perf_counter()
        return Reply(int(received.split(" ", 2)[1]), found, self._used - began)

    def close(self) -> None:
        """Hangs up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _length(head: str) -> int:
    return next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length:"))


PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICKS = os.sysconf("SC_CLK_TCK")


def resident_mb(process: int) -> float:
    """Its resident megabytes."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * PAGE_MB


def cpu_seconds(process: int) -> float:
    """What it and its own processes computed so far; hardly changes with what else the machine does."""
    children = " ".join(one.read_text(encoding="ascii") for one in Path(f"/proc/{process}/task").glob("*/children"))
    ticks = _ticks(process) + sum(_ticks(int(child)) for child in children.split())
    return ticks / TICKS


def _ticks(process: int) -> int:
    """Of itself, and of its processes that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


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
        f"[server]\nnew_datasets = 'everyone'\nrequests_per_minute = {UNLIMITED}\nsign_ins_per_minute = {UNLIMITED}\n"
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
def serving(place: Place, number: int = 0) -> Iterator[Running]:
    """The server of `blowfish serve` over the place, stopped at the end; others of another number may run beside it."""
    command = ["-m", "blowfishdb", "serve", "--json", "--config", str(place.config)]
    with _process(command, place.folder / f"server-{number}.log") as running:
        yield running


@contextmanager
def serving_together(place: Place, servers: int) -> Iterator[list[Running]]:
    """Several servers over one place: one ledger, one database of users, one budget."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving(place, number)) for number in range(servers)]


@contextmanager
def serving_plainly(folder: Path, answer: bytes) -> Iterator[Running]:
    """A FastAPI app whose one route reads a body, checks it, and returns these bytes from a worker thread."""
    (folder / "plain.json").write_bytes(answer)
    with _process(["-m", "benchmarks.plain_server", str(folder / "plain.json")], folder / "plain.log") as running:
        yield running


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[Running]:
    port = free_port(0)
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{root}/src{os.pathsep}{root}"}
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


Kind: TypeAlias = Literal["preview", "release", "refusal", "replay", "read", "plain"]
DATASET = "people"
PATH = f"/api/v1/datasets/{DATASET}"
OK = 200
REFUSED = "budget-exceeded"
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "histogram", "axes": [{"attribute": "age"}]},
    {"kind": "cdf", "axes": [{"attribute": "age"}]},
    {"kind": "histogram", "axes": [{"attribute": "state"}]},
    {"kind": "histogram", "axes": [{"attribute": "age", "width": "5"}, {"attribute": "state"}]},
)


@dataclass(frozen=True)
class Outcome:
    """One request: who sent it, when it began (seconds into the campaign), how long it took, what came of it."""

    kind: Kind
    analyst: str
    began: float
    seconds: float
    status: int
    epsilon: Fraction | None = None


@dataclass(frozen=True)
class Campaign:
    """So many rounds by every analyst, numbered from `first`; between requests each thinks for about `think` seconds.

    A round is a preview, its release, the same release again, and a look at the budget.
    """

    rounds: int
    first: int = 0
    think: float = 0.0

    def price(self, number: int) -> Fraction:
        """What the release of one round costs: every round asks something new."""
        return Fraction(1000 + number, 10**6)

    def total(self, analysts: int) -> Fraction:
        """What all releases would cost together."""
        return analysts * sum((self.price(number) for number in self.numbers), Fraction(0))

    @property
    def numbers(self) -> range:
        """The rounds."""
        return range(self.first, self.first + self.rounds)


@dataclass(frozen=True)
class LedgerState:
    """What the ledger says after a campaign, beside what the analysts saw."""

    limit: Fraction
    spent: Fraction
    charges: int
    charged: Fraction
    answers: int
    paid_for: Fraction
    is_sound: bool

    @property
    def faults(self) -> list[str]:
        """What is wrong; empty when every answer was charged exactly once and nothing was spent twice."""
        faults = []
        if self.spent > self.limit:
            faults.append(f"over-spend: {self.spent} of {self.limit}")
        if self.charged != self.spent:
            faults.append(f"the charges add up to {self.charged}, the account says {self.spent}")
        if (self.answers, self.paid_for) != (self.charges, self.charged):
            faults.append(f"{self.answers} answers for {self.paid_for}, {self.charges} charges for {self.charged}")
        if not self.is_sound:
            faults.append("the chain of the ledger is broken")
        return faults


def run_campaign(
    place: Place, servers: Sequence[Running], campaign: Campaign, heard: Callable[[int], None]
) -> list[Outcome]:
    """Every request of every analyst, each of whom keeps to one server; `heard` is told how many are done."""
    return asyncio.run(_everybody(place, servers, campaign, heard))


async def _everybody(
    place: Place, servers: Sequence[Running], campaign: Campaign, heard: Callable[[int], None]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    await asyncio.gather(
        *(
            _analyst(name, Caller(server.port, token), campaign, began, outcomes, heard)
            for (name, token), server in zip(place.tokens.items(), itertools.cycle(servers), strict=False)
        )
    )
    return outcomes


async def _analyst(
    name: str,
    caller: Caller,
    campaign: Campaign,
    began: float,
    outcomes: list[Outcome],
    heard: Callable[[int], None],
) -> None:
    chance = random.Random(name)
    # Not all at the same instant: nobody presses a key with two hundred others.
    await asyncio.sleep(campaign.think * chance.random())
    for number in campaign.numbers:
        asked = {"query": chance.choice(QUESTIONS), "accuracy_target": {"epsilon": str(campaign.price(number))}}
        steps: Sequence[tuple[Kind, str, str, dict[str, Any] | None]] = (
            ("preview", "POST", f"{PATH}/previews", asked),
            ("release", "POST", f"{PATH}/answers", asked),
            ("replay", "POST", f"{PATH}/answers", asked),
            ("read", "GET", f"{PATH}/budget", None),
        )
        is_refused = False
        for kind, method, path, sent in steps:
            if kind == "replay" and is_refused:
                continue
            at = time.perf_counter() - began
            reply = await caller.ask(method, path, sent)
            is_refused = _is_refused(reply)
            price = campaign.price(number) if kind == "release" and not is_refused else None
            outcomes.append(Outcome("refusal" if is_refused else kind, name, at, reply.seconds, reply.status, price))
            heard(len(outcomes))
            await asyncio.sleep(campaign.think * (0.5 + chance.random()))
    caller.close()


def _is_refused(reply: Reply) -> bool:
    """Whether the budget did not allow it; RuntimeError for any other failure, which a benchmark must not hide."""
    if reply.status == OK:
        return False
    problem = json.loads(reply.body)
    if problem.get("code") != REFUSED:
        raise RuntimeError(f"the server answered {reply.status}: {problem.get('code')}, {problem.get('detail')}")
    return True


def run_plainly(running: Running, callers: int, requests: int) -> list[Outcome]:
    """So many requests to the plain app by each of so many callers, none of whom thinks."""
    return asyncio.run(_plainly(running, callers, requests))


async def _plainly(running: Running, callers: int, requests: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    asked = {"query": QUESTIONS[0], "accuracy_target": {"epsilon": "1/1000"}}

    async def one(name: str) -> None:
        caller = Caller(running.port, name)
        for _ in range(requests):
            at = time.perf_counter() - began
            reply = await caller.ask("POST", "/answers", asked)
            outcomes.append(Outcome("plain", name, at, reply.seconds, reply.status))
        caller.close()

    await asyncio.gather(*(one(f"caller-{number}") for number in range(callers)))
    return outcomes


def read_ledger_state(ledger: Ledger, outcomes: Sequence[Outcome]) -> LedgerState:
    """The account against every charge on record and every answer that somebody received."""
    (account,) = ledger.accounts()
    paid = [Fraction(str(entry.fields["epsilon"])) for entry in ledger.entries() if entry.kind == "charge"]
    released = [outcome for outcome in outcomes if outcome.kind == "release"]
    return LedgerState(
        limit=account.limit,
        spent=account.spent,
        charges=len(paid),
        charged=sum(paid, Fraction(0)),
        answers=len(released),
        paid_for=sum((outcome.epsilon or Fraction(0) for outcome in released), Fraction(0)),
        is_sound=ledger.verify().is_sound,
    )


def throughput(outcomes: Sequence[Outcome]) -> float:
    """Requests a second, from the first to the last reply."""
    ends = [outcome.began + outcome.seconds for outcome in outcomes]
    return len(outcomes) / (max(ends) - min(outcome.began for outcome in outcomes))


def counted(outcomes: Sequence[Outcome]) -> Counter[Kind]:
    """How many requests there were of each kind."""
    return Counter(outcome.kind for outcome in outcomes)
