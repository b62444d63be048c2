"""Damaged ledgers: whatever was changed behind the ledger's back, no answer comes from balances that are wrong."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tools.faults.checker import REFUSED, SAW, UNCLEAN, check, read_logs, read_tables
from tools.faults.lab import SQLITE, STORES, Lab, Outcome, Place, own_verification

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


SQL: dict[str, tuple[str, ...]] = {
    "the last entry deleted": ("DELETE FROM entry WHERE sequence = (SELECT max(sequence) FROM entry)",),
    "an entry in the middle deleted": ("DELETE FROM entry WHERE sequence = 5",),
    "the first charge deleted": ("DELETE FROM entry WHERE sequence = 3",),
    "the last entry and the head's memory of it deleted": (
        "DELETE FROM answer WHERE entry = (SELECT sequence FROM head)",
        "DELETE FROM entry WHERE sequence = (SELECT sequence FROM head)",
        "UPDATE head SET sequence = sequence - 1,"
        " hash = (SELECT hash FROM entry WHERE entry.sequence = head.sequence - 1)",
    ),
    "all answers deleted": ("DELETE FROM answer",),
    "one answer deleted": ("DELETE FROM answer WHERE charge = (SELECT min(charge) FROM answer)",),
    "the analysts deleted": ("DELETE FROM analyst",),
    "the account deleted": ("DELETE FROM account",),
    "the head deleted": ("DELETE FROM head",),
    "two entries swapped": (
        "UPDATE entry SET sequence = -1 WHERE sequence = 4",
        "UPDATE entry SET sequence = 4 WHERE sequence = 6",
        "UPDATE entry SET sequence = 6 WHERE sequence = -1",
    ),
    "two answers swapped": (
        "UPDATE answer SET charge = -charge",
        "UPDATE answer SET charge = (SELECT max(-charge) + min(-charge) FROM answer) + charge",
    ),
    "two analysts swapped": (
        "UPDATE analyst SET name = 'nobody' WHERE name = 'analyst-0'",
        "UPDATE analyst SET name = 'analyst-0' WHERE name = 'analyst-1'",
        "UPDATE analyst SET name = 'analyst-1' WHERE name = 'nobody'",
    ),
    "what the data spent set to nothing": ("UPDATE account SET spent_units = '0'",),
    "what analysts spent set to nothing": ("UPDATE analyst SET spent_units = '0'",),
    "the data's limit raised": ("UPDATE account SET limit_top = '1000', limit_bottom = '1'",),
    "the analysts' limits raised": ("UPDATE analyst SET limit_top = '1000', limit_bottom = '1'",),
    "a balance that is no number": ("UPDATE account SET spent_grid = '0'",),
    "another price in an entry": ("UPDATE entry SET body = replace(body, '/', '0/') WHERE kind = 'charge'",),
    "a hash changed": ("UPDATE entry SET hash = previous_hash WHERE sequence = 4",),
    "the number of charges changed": ("UPDATE account SET charges = 0",),
    "keys forgotten": ("UPDATE entry SET charge_key = NULL, analyst = NULL",),
    "a policy document changed": ("UPDATE version SET document = '{}' WHERE kind = 'policy'",),
}
"""Statements that damage the tables of either store."""


def damage_rows(place: Place, statements: tuple[str, ...]) -> None:
    """Runs statements past every constraint between tables."""
    if place.store == SQLITE:
        with closing(sqlite3.connect(place.ledger_file, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    import psycopg

    with psycopg.connect(place.url, autocommit=True) as server:
        server.execute("SET search_path = blowfish_ledger")
        server.execute("SET session_replication_role = replica")
        server.execute("ALTER TABLE account DROP CONSTRAINT IF EXISTS account_check")
        for statement in statements:
            server.execute(statement.encode())


def flip_bytes(path: Path, chance: random.Random, most: int = 3) -> None:
    """Changes a few random bytes of a file."""
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, most)):
        content[chance.randrange(len(content))] ^= chance.randint(1, 255)
    path.write_bytes(content)


def flip_balance(path: Path, chance: random.Random) -> None:
    """Changes a digit of a number that is written in the file, as a weak memory cell would."""
    content = bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(content) if 0x30 <= byte <= 0x39]
    content[chance.choice(digits)] ^= chance.choice((1, 2, 4, 8))
    path.write_bytes(content)


def cut_file(path: Path, chance: random.Random) -> None:
    """Cuts a file off at a random place."""
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def blank_page(path: Path, chance: random.Random) -> None:
    """Fills one page of a file with zeros, as a lost disk block reads."""
    content = bytearray(path.read_bytes())
    start = 4096 * chance.randrange(max(1, len(content) // 4096))
    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
    path.write_bytes(content)


FILES: dict[str, tuple[str, Callable[[Path, random.Random], None]]] = {
    "bytes of the file flipped": ("", flip_bytes),
    "a digit of the file flipped": ("", flip_balance),
    "bytes of the log flipped": ("-wal", flip_bytes),
    "a digit of the log flipped": ("-wal", flip_balance),
    "the log cut off": ("-wal", cut_file),
    "the file cut off": ("", cut_file),
    "a page of the file blank": ("", blank_page),
}
"""How the files of a SQLite ledger are damaged: which file, by its ending, and how."""
