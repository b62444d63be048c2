"""Damaged ledgers: whatever was changed behind the ledger's back, no answer comes from balances that are wrong."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tools.faults.checker import check, read_tables
from tools.faults.client_log import REFUSED, SAW, UNCLEAN, read_logs
from tools.faults.damage import FILES, SQL, cut_file, damage_rows, flip_bytes
from tools.faults.lab import SQLITE, STORES, Lab, Place, own_verification
from tools.faults.outcome import Outcome

BEFORE = 12
"""Releases on record before the damage."""
ROUNDS_PER_RELEASES = 10
"""A lab of so many releases tries each random damage once more."""
ENDINGS = ("", "-wal", "-shm")


@dataclass
class Tried:
    """What came of the damaged copies of one kind."""

    runs: int = 0
    answered_wrongly: int = 0
    refused: int = 0
    unclean: int = 0
    notes: tuple[str, ...] = ()


def damaged_ledgers(lab: Lab) -> Iterator[Outcome]:
    """Rows deleted, swapped and changed on both stores; files damaged at random; backups and marks restored."""
    for store in STORES:
        bench = _bench(lab, store)
        changed, old = Tried(), Tried()
        for name, statements in SQL.items():
            bench.attempt(changed, name, partial(damage_rows, bench.place, statements))
        yield _row("rows deleted, swapped or changed", store, changed)
        bench.attempt(old, "an old backup restored", bench.restore_backup)
        for name, damage in _marks(lab, bench.place.folder / "blowfish.mark").items():
            bench.attempt(old, name, damage)
        yield _row("old backup, damaged mark", store, old)
        if store == SQLITE:
            yield from _damaged_files(lab, bench)


def _damaged_files(lab: Lab, bench: Bench) -> Iterator[Outcome]:
    rounds = max(1, lab.releases // ROUNDS_PER_RELEASES)
    for name, (ending, damage) in FILES.items():
        tried, path = Tried(), Path(f"{bench.place.ledger_file}{ending}")
        for _ in range(rounds):
            bench.attempt(tried, name, partial(damage, path, lab.chance), moved=ending == "")
        yield _row(name, bench.place.store, tried)


def _marks(lab: Lab, mark: Path) -> dict[str, Callable[[], object]]:
    return {
        "the mark deleted": mark.unlink,
        "bytes of the mark flipped": lambda: flip_bytes(mark, lab.chance, 1),
        "the mark cut off": lambda: cut_file(mark, lab.chance),
        "the mark exchanged": lambda: mark.write_text("{}"),
    }


@dataclass
class Bench:
    """A ledger with some releases, its pristine copy, and an older one; each damage starts from the pristine copy."""

    lab: Lab
    place: Place
    asked: int = BEFORE

    def attempt(self, tried: Tried, name: str, damage: Callable[[], object], *, moved: bool = False) -> None:
        """Damages a copy, asks something new and something old, and notes what came of it.

        `moved` brings what is in the log into the file first, so that the damage can meet it there.
        """
        self.restore("pristine")
        if moved:
            with closing(sqlite3.connect(self.place.ledger_file)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage()
        logs = self.lab.folder / "attempt"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir()
        plan = replace(self.lab.plan(self.place, 1), logs=str(logs), releases=self.asked + 1, tries=1)
        self.lab.worker_pool.run(replace(plan, first=self.asked - 1))
        records = read_logs(logs)
        tried.runs += 1
        tried.refused += any(one.kind == REFUSED for one in records)
        tried.unclean += any(one.kind == UNCLEAN for one in records)
        tried.notes += tuple(f"{name}: {one.detail}" for one in records if one.kind == UNCLEAN)
        wrong = self._what_is_wrong() if any(one.kind == SAW for one in records) else None
        if wrong is not None:
            tried.answered_wrongly += 1
            tried.notes += (f"{name}: answered although {wrong}",)

    def _what_is_wrong(self) -> str | None:
        """Why the ledger is not sound; None when the damage touched nothing that means anything."""
        own = own_verification(self.place)
        if own is not None:
            return own
        try:
            found = check(read_tables(self.place.url), read_logs(self.place.logs), is_settled=False)
        except (sqlite3.Error, ValueError, KeyError) as problem:
            return f"the checker cannot read it: {problem}"
        # What was asked after the damage is in another log.
        return found.notes[0] if found.over_spend or found.unpaid_answers else None

    def keep(self, name: str) -> None:
        """Puts a copy of the ledger, and of its mark, aside under a name."""
        aside = self.lab.folder / f"{self.place.store}-{name}"
        aside.mkdir()
        shutil.copy(self.place.folder / "blowfish.mark", aside / "mark")
        if self.place.store == SQLITE:
            for ending in ENDINGS:
                path = Path(f"{self.place.ledger_file}{ending}")
                if path.exists():
                    shutil.copy(path, aside / f"ledger{ending}")
        else:
            self._copy_database(self.place.url, f"{_database(self.place.url)}_{name}")

    def restore(self, name: str, *, with_mark: bool = True) -> None:
        """Puts a copy back in place."""
        aside = self.lab.folder / f"{self.place.store}-{name}"
        if with_mark:
            shutil.copy(aside / "mark", self.place.folder / "blowfish.mark")
        if self.place.store == SQLITE:
            for ending in ENDINGS:
                path, kept = Path(f"{self.place.ledger_file}{ending}"), aside / f"ledger{ending}"
                path.unlink(missing_ok=True)
                if kept.exists():
                    shutil.copy(kept, path)
        else:
            base = _database(self.place.url)
            self._copy_database(self.place.url.replace(base, f"{base}_{name}"), base)

    def restore_backup(self) -> None:
        """The older copy comes back; the mark, which is kept elsewhere, does not."""
        self.restore("older", with_mark=False)

    def _copy_database(self, source: str, name: str) -> None:
        import psycopg

        with psycopg.connect(self.lab.server.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
            connection.execute(
                b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (_database(source),)
            )
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {_database(source)}".encode())


def _bench(lab: Lab, store: str) -> Bench:
    bench = Bench(lab, lab.place(store, 3 * BEFORE))
    first = replace(lab.plan(bench.place, 2), releases=BEFORE // 2)
    lab.worker_pool.run(first)
    bench.keep("older")
    lab.worker_pool.run(replace(first, first=BEFORE // 2, releases=BEFORE))
    bench.keep("pristine")
    return bench


def _row(fault: str, store: str, tried: Tried) -> Outcome:
    return Outcome(
        fault=fault,
        store=store,
        runs=tried.runs,
        faults=tried.runs,
        unpaid_answers=tried.answered_wrongly,
        refused=tried.refused,
        unclean=tried.unclean,
        notes=tried.notes,
    )


def _database(url: str) -> str:
    return url.rsplit("/", 1)[1]
