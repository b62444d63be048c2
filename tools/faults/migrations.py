"""Death in the middle of a migration: a ledger of the format before, opened by processes that die on the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from tools.faults.lab import SQLITE, STORES, Lab, Place
from tools.faults.outcome import Outcome
from tools.faults.swarm import POINTS

BACK = (
    "ALTER TABLE account DROP COLUMN accounting",
    "ALTER TABLE account DROP COLUMN edge_books",
    "ALTER TABLE analyst DROP COLUMN edge_books",
)
"""Undoes the newest migration, whose columns are empty where losses are summed."""
FORMAT_BEFORE = 2
POINTS_OF_OPENING = 24
RELEASES_A_ROUND = 4


def killed_migrations(lab: Lab) -> Iterator[Outcome]:
    """Two processes at once open an old ledger and die while they migrate it; others finish the work."""
    for store in STORES:
        place, deaths, unsettled = lab.place(store), 0, 0
        for first in range(0, place.releases, RELEASES_A_ROUND):
            if first:
                _downgrade(place)
            last = min(first + RELEASES_A_ROUND, place.releases)
            plan = replace(lab.plan(place, 2), killing=POINTS, span=POINTS_OF_OPENING, deaths=4)
            done = lab.worker_pool.run(replace(plan, first=first, releases=last))
            deaths, unsettled = deaths + done["deaths"], unsettled + done["unsettled"]
        yield lab.verdict("kill -9 during a migration", place, deaths, unsettled)


def _downgrade(place: Place) -> None:
    if place.store == SQLITE:
        with closing(sqlite3.connect(place.ledger_file, isolation_level=None)) as connection:
            for statement in (*BACK, f"PRAGMA user_version = {FORMAT_BEFORE}"):
                connection.execute(statement)
        return
    import psycopg

    with psycopg.connect(place.url) as server:
        server.execute("SET LOCAL search_path = blowfish_ledger")
        for statement in (*BACK, f"UPDATE format SET version = {FORMAT_BEFORE}"):
            server.execute(statement.encode())
