"""MariaDB and MySQL servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

from blowfishdb.errors import SourceError
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, driver, function
from blowfishdb.sources.calls import CONNECTING, STOPPING, severed, stopped_by
from blowfishdb.sources.location import Location, TableName

KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), ColumnKind.INTEGER),
    **dict.fromkeys(("float", "double"), ColumnKind.REAL),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "uuid"), ColumnKind.TEXT),
    "decimal": ColumnKind.DECIMAL,
    "date": ColumnKind.DATE,
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.INSTANT,
}
SECONDS_TO_1970 = 62_167_219_200
"""What TO_SECONDS gives for the first moment of 1970."""
# No mode that changes what quotes, backslashes or padding mean; instants are read in UTC.
SESSION = "SET SESSION sql_mode = '', time_zone = '+00:00'"


def column_type(native: str, full: str, digits: int | None, places: int | None) -> ColumnType:
    """What the server's name of a type means; whole numbers beyond 2^63 count as decimals."""
    if native == "bigint" and "unsigned" in full:
        return ColumnType(ColumnKind.DECIMAL, full, 20, is_whole=True)
    kind = KINDS.get(native, ColumnKind.OTHER)
    if kind is not ColumnKind.DECIMAL:
        return ColumnType(kind, full)
    return ColumnType(kind, full, digits, is_whole=places == 0)


class MySQL(Engine):
    """One database of a MariaDB or MySQL server."""

    compiler = "mysql"
    # Collations ignore case and trailing spaces; bytes do not.
    byte_text = "CAST(CONVERT(x USING utf8mb4) AS BINARY)"
    has_nan = False

    def __init__(self, location: Location) -> None:
        self._location = location
        self._driver = driver("pymysql", "mysql", "mysql")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = self._connect()
        with closing(connection), severed(connection._sock.fileno()) as sever, connection.cursor() as cursor:

            def stop() -> None:
                with suppress(Exception), closing(self._connect(STOPPING)) as other:
                    other.kill(connection.thread_id())
                sever()

            # Of the greeting alone: whoever waits for a statement says how long.
            connection._read_timeout = None
            with stopped_by(stop):
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
                yield cursor

    def _connect(self, seconds: int = CONNECTING) -> Any:
        where = self._location
        return self._driver.connect(
            host=where.host or "localhost",
            port=where.port or 3306,
            user=where.user,
            password=where.password or os.environ.get("MYSQL_PWD", ""),
            database=where.database,
            charset="utf8mb4",
            init_command=SESSION,
            unix_socket=dict(where.options).get("unix_socket"),
            connect_timeout=seconds,
            read_timeout=seconds,
        )

    def identity(self, table: TableName) -> str:
        wanted = ("server_uuid", "server_uid", "hostname", "port")
        with self._connected() as cursor:
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", (wanted,))
            variables = dict(cursor.fetchall())
        place = f"{variables['hostname']}:{variables['port']}"
        server = variables.get("server_uuid") or variables.get("server_uid") or place
        return f"mysql:{server}/{table.schema}#{table.name}"

    def qualified(self, table: TableName) -> TableName:
        schema = table.schema or self._location.database
        if not schema:
            raise SourceError("the address names no database: mysql://user@host/database#table")
        return TableName(table.name, schema)

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        query = """SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE
            FROM information_schema.COLUMNS
            WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"""
        with self._connected() as cursor:
            cursor.execute(query, (table.schema, table.name))
            rows = cursor.fetchall()
        return {name: column_type(*about) for name, *about in rows}

    def is_view(self, table: TableName) -> bool:
        query = """SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
        with self._connected() as cursor:
            cursor.execute(query, (table.schema, table.name))
            return [kind for (kind,) in cursor.fetchall()] == ["VIEW"]

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        with self._connected() as cursor:
            if deadline is not None:
                cursor.execute(_time_limit(cursor.connection.server_version, deadline))
            cursor.execute(sql)
            return [tuple(_text(value) for value in row) for row in cursor.fetchall()]

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        del kind
        return function("to_seconds", "int64")(column) - SECONDS_TO_1970


def _text(value: object) -> object:
    """Text comes back as the bytes it was compared as."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _time_limit(version: str, deadline: float) -> str:
    if "MariaDB" in version:
        return f"SET SESSION max_statement_time = {max(deadline, 0.001):.3f}"
    return f"SET SESSION max_execution_time = {max(1, int(deadline * 1000))}"


def open_server(location: Location) -> tuple[MySQL, TableName]:
    """The engine and table of `mysql://user@host/database#table`."""
    table = location.required_table()
    return MySQL(location), table
