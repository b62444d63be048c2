"""SQLite databases, where each value has a type of its own, whatever the column declares."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from blowfishdb.sources.base import TEXT_MARK, ColumnKind, ColumnType, Engine, Expr, function
from blowfishdb.sources.calls import stopped_by
from blowfishdb.sources.location import Location, TableName, files_digest, files_last_write, local_path, read_elsewhere
from blowfishdb.sqlite_files import FileConnection


def column_type(declared: str) -> ColumnType:
    """What a declared type suggests; values of other types are met where they are read."""
    upper = declared.upper()
    if any(word in upper for word in ("DATE", "TIME")):
        kind = ColumnKind.TIMESTAMP if "TIME" in upper else ColumnKind.DATE
    elif "INT" in upper or "BOOL" in upper:
        kind = ColumnKind.INTEGER
    elif any(word in upper for word in ("CHAR", "CLOB", "TEXT", "UUID")):
        kind = ColumnKind.TEXT
    elif any(word in upper for word in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        kind = ColumnKind.REAL
    else:
        kind = ColumnKind.OTHER
    return ColumnType(kind, declared or "no declared type", untyped=True)


AFFINITIES = {"INT": "INTEGER", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB"}
AFFINITIES |= dict.fromkeys(("REAL", "FLOA", "DOUB"), "REAL")


def affinity(declared: str) -> str:
    """To what SQLite turns values of a column of this type before it compares them."""
    return next((kind for word, kind in AFFINITIES.items() if word in declared.upper()), "NUMERIC")


PATIENCE = 5.0
"""Seconds that a count waits for a change of the data."""


def _replace_bytes(handle: sqlite3.Connection) -> None:
    # A text that is no UTF-8 must not fail: an error would tell that there is one.
    handle.text_factory = lambda raw: raw.decode("utf-8", "replace")


class SQLite(Engine):
    """A SQLite file, opened for reading only."""

    compiler = "sqlite"
    is_embedded = True
    byte_text = "x COLLATE BINARY"
    has_nan = False
    typed = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def comparable(self, column: Expr, kind: ColumnKind) -> Expr:
        """The column byte by byte, of any kind: a text may be in each, and each may have a collation."""
        del kind
        return function(TEXT_MARK, str(column.type()))(column)

    @staticmethod
    def are_joined(foreign: ColumnType, key: ColumnType) -> bool:
        return foreign.kind == key.kind and affinity(foreign.native) == affinity(key.native)

    def _connect(self) -> FileConnection:
        return FileConnection(self._path, _replace_bytes, patience=PATIENCE, mode="ro")

    def identity(self, table: TableName) -> str:
        # SQLite takes names of any case for the same.
        return f"sqlite:{self._path}#{table.name.lower()}"

    def qualified(self, table: TableName) -> TableName:
        return TableName(table.name, table.schema or "main")

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        with closing(self._connect()) as connection:
            declared_types = connection.rows(
                "SELECT name, type FROM pragma_table_xinfo(?, ?) WHERE hidden <> 1 ORDER BY cid",
                (table.name, table.schema),
            )
        return {name: column_type(declared) for name, declared in declared_types}

    def is_view(self, table: TableName) -> bool:
        with closing(self._connect()) as connection:
            query = "SELECT type FROM pragma_table_list WHERE schema = ? AND lower(name) = lower(?)"
            return connection.execute(query, (table.schema, table.name)).fetchall() == [("view",)]

    def last_write(self) -> str | None:
        return None if self._has_log() else files_last_write([str(self._path)])

    def content(self) -> str | None:
        return None if self._has_log() else files_digest([str(self._path)], read=read_elsewhere)

    def _has_log(self) -> bool:
        logs = [f"{self._path}{ending}" for ending in ("-wal", "-journal")]
        return any(os.path.exists(log) and os.path.getsize(log) for log in logs)

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        del deadline
        with closing(self._connect()) as connection, stopped_by(connection.interrupt):
            return connection.rows(sql)


def open_database(location: Location) -> tuple[SQLite, TableName]:
    """The engine and table of `sqlite:///file#table`."""
    return SQLite(local_path(location)), location.required_table()
