"""Ways to damage a ledger behind its back: rows deleted, swapped or changed, bytes flipped, files cut or exchanged."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tools.faults.lab import SQLITE, Place

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
