"""The bench that faults are tried on: scratch folders, both stores, the worker pool, and the verdict after each run."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from tools.database_servers import PostgresServer, memory_folder, postgres_server
from tools.faults.checker import REFUSED, UNCLEAN, check, read_logs, read_tables
from tools.faults.swarm import FINAL, OWN_FILE, Plan, WorkerPool, jobs, make_fixture, open_worker_pool

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
STORES = (SQLITE, POSTGRES)
FEWEST_STRIKES = 4
SETTINGS = {"max_connections": "200"}


@dataclass(frozen=True)
class Place:
    """One dataset with its ledger, and the folder of its clients' logs."""

    store: str
    url: str
    config: Path
    logs: Path
    releases: int
    is_shared: bool = False

    @property
    def folder(self) -> Path:
        """Where the configuration, the data and the mark are."""
        return self.config.parent

    @property
    def ledger_file(self) -> Path:
        """The file of a SQLite ledger."""
        return Path(self.url.removeprefix("sqlite:///"))


@dataclass(frozen=True)
class Lab:
    """What every fault kind needs. `releases` is how many releases one row asks for."""

    folder: Path
    worker_pool: WorkerPool
    server: PostgresServer
    releases: int
    chance: random.Random
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def place(
        self,
        store: str,
        releases: int | None = None,
        *,
        url: str | None = None,
        under: Path | None = None,
        source: str = OWN_FILE,
        settings: str = "",
        is_shared: bool = False,
    ) -> Place:
        """A new dataset with an empty ledger in this store.

        `url`, `under` and `source` put ledger, folder or rows elsewhere; `settings` are more lines of configuration.
        """
        number, wanted = next(self._numbers), self.releases if releases is None else releases
        folder = (under or self.folder) / f"clinic-{number}"
        logs = self.folder / f"logs-{number}"
        logs.mkdir(parents=True)
        if url is None:
            url = f"sqlite:///{folder}/blowfish.ledger" if store == SQLITE else self.database(f"clinic_{number}")
        asked = jobs(wanted, is_shared=is_shared)
        config = make_fixture(folder, url, asked, source, settings, is_shared=is_shared)
        return Place(store, url, config, logs, wanted, is_shared)

    def database(self, name: str) -> str:
        """The address of a new, empty database on the lab's server."""
        import psycopg

        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.server.url.rsplit("/", 1)[0] + f"/{name}"

    def plan(self, place: Place, processes: int = 4) -> Plan:
        """Clients that ask all releases of a place and that nobody kills."""
        seed = self.chance.randrange(2**31)
        return Plan(
            str(place.config),
            str(place.logs),
            place.releases,
            processes,
            seed=seed,
            is_sqlite=place.store == SQLITE,
            is_shared=place.is_shared,
        )

    def struck(
        self, fault: str, place: Place, strike: Callable[[], int], pause: tuple[float, float], plan: Plan | None = None
    ) -> Outcome:
        """Strikes at random intervals while clients are at work; `strike` says how many faults that was.

        The strikes end after some, so that on a slow machine clients are not struck for ever before they get anywhere.
        """
        self.worker_pool.begin(plan or self.plan(place))
        while not any(place.logs.glob("*.log")) and not self.worker_pool.is_done(0.02):
            continue  # nobody has asked anything yet
        injected, strikes = 0, max(FEWEST_STRIKES, place.releases // 4)
        while not self.worker_pool.is_done(self.chance.uniform(*pause)):
            if strikes > 0:
                injected, strikes = injected + strike(), strikes - 1
        return self.verdict(fault, place, injected, self.worker_pool.outcome()["unsettled"])

    def verdict(self, fault: str, place: Place, faults: int, unsettled: int) -> Outcome:
        """The row of a run that has ended: the independent checker, then the ledger's own verification."""
        records = read_logs(place.logs)
        found = check(read_tables(place.url), records)
        problem = own_verification(place)
        unclean = [one.detail for one in records if one.kind == UNCLEAN]
        return Outcome(
            fault=fault,
            store=place.store,
            runs=place.releases,
            faults=faults,
            over_spend=found.over_spend,
            unpaid_answers=found.unpaid_answers,
            untraced_charges=found.untraced_charges,
            refused=sum(1 for one in records if one.kind == REFUSED),
            unclean=len(unclean),
            unsettled=unsettled,
            is_verified=problem is None,
            answers_seen=found.answers_seen,
            notes=(*found.notes, *([] if problem is None else [problem]), *unclean),
        )


def own_verification(place: Place) -> str | None:
    """What `blowfish ledger verify` would find wrong; None when nothing is."""
    from blowfishdb.errors import BlowfishError
    from blowfishdb.ledger import open_ledger

    try:
        with open_ledger(place.url, mark=place.folder / "blowfish.mark") as ledger:
            fault = ledger.verify().fault
    except BlowfishError as error:
        return f"verify: {error.code}"
    return None if fault is None else f"verify: {fault.reason}"


def transient_refusals(place: Place) -> int:
    """How often clients were refused for a reason that passes."""
    return sum(1 for one in read_logs(place.logs) if one.kind == REFUSED and one.detail not in FINAL)


@contextmanager
def open_lab(releases: int, seed: int) -> Iterator[Lab]:
    """A lab with a PostgreSQL server of its own; everything goes when the block ends."""
    with (
        tempfile.TemporaryDirectory(prefix="blowfish-faults-", ignore_cleanup_errors=True) as folder,
        postgres_server(SETTINGS, memory_folder()) as server,
        open_worker_pool() as worker_pool,
    ):
        yield Lab(Path(folder), worker_pool, server, releases, random.Random(seed))


HEADINGS = (
    ("fault", "fault kind"),
    ("store", "store"),
    ("runs", "runs"),
    ("faults", "faults injected"),
    ("over_spend", "over-spend"),
    ("unpaid_answers", "answers without charge"),
    ("untraced_charges", "charges without trace"),
    ("refused", "refused cleanly"),
    ("unclean", "not cleanly"),
)


@dataclass(frozen=True)
class Outcome:
    """One row. `runs` are releases asked, or damaged copies tried; `refused` are typed refusals, `unclean` all others.

    `unsettled` are releases that stayed without answer or refusal once the faults had stopped.
    """

    fault: str
    store: str
    runs: int
    faults: int
    over_spend: int = 0
    unpaid_answers: int = 0
    untraced_charges: int = 0
    refused: int = 0
    unclean: int = 0
    unsettled: int = 0
    is_verified: bool = True
    answers_seen: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, nothing was overspent, and whatever failed did so in a typed way."""
        wrong = self.over_spend + self.unpaid_answers + self.untraced_charges + self.unclean + self.unsettled
        return wrong == 0 and self.is_verified and self.faults > 0


HEAD = "\n".join(("| " + " | ".join(title for _, title in HEADINGS) + " |", "|" + "---|" * len(HEADINGS)))
"""The first lines of a Markdown table of outcomes."""


def line(row: Outcome) -> str:
    """The line of a row in the table."""
    return "| " + " | ".join(str(getattr(row, name)) for name, _ in HEADINGS) + " |"


def failure(row: Outcome) -> str:
    """What was not survived, in words."""
    why = [*row.notes[:5], f"{row.unsettled} unsettled"] if row.unsettled else list(row.notes[:5])
    return f"NOT SURVIVED: {row.fault} on {row.store}: {'; '.join(why) or 'no fault was injected'}"


def as_json(row: Outcome) -> str:
    """The row for programs, in one line."""
    return json.dumps({**asdict(row), "is_good": row.is_good})
