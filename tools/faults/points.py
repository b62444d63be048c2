"""Named points at every boundary of a release: before and after each ledger statement, mark write and read of data."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

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
    source.fetch = _between(reach, "count", DuckDB.fetch)


def _watch_sqlite(reach: Reach) -> None:
    plain = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            name = _short(sql)
            reach(f"before {name}")
            found = super().execute(sql, *values)
            reach(f"after {name}")
            return found

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
        found = plain(self, query, *values, **settings)
        reach(f"after {name}")
        return found

    connection: Any = psycopg.Connection
    connection.execute = execute


def _between(reach: Reach, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*values: Any) -> Any:
        reach(f"before {name}")
        found = work(*values)
        reach(f"after {name}")
        return found

    return watched


def _short(sql: str) -> str:
    """The verb of a statement, and the table where it names one."""
    words = sql.split()
    for sign in ("FROM", "INTO", "UPDATE"):
        if sign in words[:-1]:
            return f"{words[0]} {words[words.index(sign) + 1].partition('(')[0]}"
    return " ".join(words[:2]) if words else "nothing"
