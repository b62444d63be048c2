"""Spark, for tables that outgrow one machine: catalog tables, views of the running session, Parquet folders.

A session runs in this process (`spark://`), or on a Spark Connect server that others share (`sc://`).
"""

from __future__ import annotations

import atexit
import logging
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blowfishdb.model.numbers import Floats
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, driver, function, interrupted_after
from blowfishdb.sources.location import Location, TableName, real_pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ColumnKind.INTEGER),
    **dict.fromkeys(("float", "double"), ColumnKind.REAL),
    "string": ColumnKind.TEXT,
    "boolean": ColumnKind.BOOLEAN,
    "date": ColumnKind.DATE,
    "timestamp_ntz": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.INSTANT,
}
# Wall clocks and literals are read in UTC, and no cast or sum may fail on a value.
SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
FOLDER = TableName("blowfish_rows")
PATTERN = re.compile(r"[*?{\[\\]")
"""What makes a path the pattern of several."""
_STARTING = threading.Lock()
PORT = 15002
"""Where a Spark Connect server listens by itself."""
SLACK = 5.0
"""Seconds beyond the deadline after which a server that does not even interrupt the statement is given up."""


def column_type(native: str) -> ColumnType:
    """What Spark's name of a type means."""
    decimal = re.fullmatch(r"decimal\((\d+),-?\d+\)", native)
    if decimal:
        return ColumnType(ColumnKind.DECIMAL, native, int(decimal[1]))
    if re.fullmatch(r"(var)?char\(\d+\)", native):
        return ColumnType(ColumnKind.TEXT, native)
    return ColumnType(KINDS.get(native, ColumnKind.OTHER), native)


@dataclass(frozen=True)
class SeenFolder:
    """The rows of a folder in a session: the view's list of files, what was on it at first, and the columns."""

    session: SparkSession
    listing: Any
    files: str
    schema: StructType

    def is_same(self, session: SparkSession) -> bool:
        """Whether the session's view reads the same files when all are listed anew."""
        if session is not self.session:
            return False
        self.listing.refresh()
        return _files(self.listing) == self.files


def _seen(session: SparkSession, rows: DataFrame) -> SeenFolder:
    relation: Any = rows._jdf.queryExecution().analyzed()
    listing = relation.relation().location()
    return SeenFolder(session, listing, _files(listing), rows.schema)


def _files(listing: Any) -> str:
    """The files on a list, as Spark shows them: paths, sizes and times."""
    return str(listing.allFiles().mkString("\n"))


class Spark(Engine):
    """A Spark session: the running one, or one that is started on the address's master and kept."""

    compiler = "databricks"
    shuffles = True

    def __init__(self, location: Location) -> None:
        self._pyspark: Any = driver("pyspark.sql", "spark", "spark")
        self._location = location
        self._seen: SeenFolder | None = None
        self._copied: tuple[Any, SparkSession] | None = None
        """The session that was last copied, and its copy."""

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        """A copy of the running session with settings of our own; it sees the same tables and views."""
        with _STARTING:
            running = self._pyspark.SparkSession.getActiveSession() or self._start()
            session = self._copy(running)
        if self._folder:
            self._look(session)
        yield session

    def _copy(self, running: Any) -> SparkSession:
        """The copy; where only a folder is read, which views do not matter to, one copy serves all statements."""
        original = running._jsparkSession
        if self._copied is not None and self._copied[0] == original and self._folder and not self._location.joined:
            return self._copied[1]
        copy: SparkSession = type(running)(running.sparkContext, original.cloneSession())
        # PySpark would print errors, and with them values, before we see them.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        for name, value in SETTINGS.items():
            copy.conf.set(name, value)
        self._copied = original, copy
        return copy

    def _look(self, session: SparkSession) -> None:
        """Makes the view of the folder, which the same files need once; to read columns takes a job of its own."""
        before = self._seen
        # The list of a pattern would stay one of the folders that matched it at first.
        if before is not None and not PATTERN.search(self._folder) and before.is_same(session):
            return
        rows = (session.read if before is None else session.read.schema(before.schema)).parquet(self._folder)
        now = _seen(session, rows)
        if before is not None and now.files != before.files:
            rows = session.read.parquet(self._folder)
            now = _seen(session, rows)
        rows.createOrReplaceTempView(FOLDER.name)
        self._seen = now

    @property
    def _folder(self) -> str:
        return "" if self._location.path in ("", "/") else self._location.path

    def _start(self) -> SparkSession:
        where = self._location
        local = where.host in ("", "local")
        builder = self._pyspark.SparkSession.builder.master(
            "local[*]" if local else f"spark://{where.host}:{where.port}"
        )
        if local:
            for name in ("spark.driver.bindAddress", "spark.driver.host"):
                builder = builder.config(name, "127.0.0.1")
        for name, value in (("spark.ui.enabled", "false"), ("spark.ui.showConsoleProgress", "false"), *where.options):
            builder = builder.config(name, value)
        session: SparkSession = builder.getOrCreate()
        return session

    def identity(self, table: TableName) -> str:
        if self._folder:
            return f"file:{real_pattern(self._folder)}"
        with self._session() as session:
            warehouse = session.conf.get("spark.sql.warehouse.dir")
            home = session.conf.get("spark.hadoop.hive.metastore.uris", None) or warehouse
            # Spark takes names of any case for the same.
            name = f"{table.schema or session.catalog.currentDatabase()}.{table.name}".lower()
        return f"spark:{home}#{name}"

    def qualified(self, table: TableName) -> TableName:
        return table

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        with self._session() as session:
            if self._seen is not None and table == FOLDER:
                return {field.name: column_type(field.dataType.simpleString()) for field in self._seen.schema}
            name = ".".join(f"`{part.replace('`', '``')}`" for part in (table.schema, table.name) if part)
            if not session.catalog.tableExists(name):
                return {}
            return {column: column_type(native) for column, native in session.table(name).dtypes}

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        with self._session() as session:
            context, group = session.sparkContext, uuid.uuid4().hex
            context.setJobGroup(group, "a count", interruptOnCancel=True)
            try:
                with interrupted_after(deadline, lambda: context.cancelJobGroup(group)):
                    return [tuple(row) for row in session.sql(sql).collect()]
            finally:
                context.setLocalProperty("spark.jobGroup.id", "")

    def whole_type(self, low: int, high: int) -> str:
        """Doubles would be made equal, zeros and all kinds of NaN, before each is looked for among the groups."""
        return "int32" if low >= -(2**31) and high < 2**31 else "float64"

    def as_whole(self, number: Expr, whole: str) -> Expr:
        """The nearest number of the type, and 0 for NaN; Spark's own way to try fails first, which takes long."""
        return number.cast(whole)

    def entry(self, numbers: Floats, place: Expr) -> Expr | None:
        """A list made of a text, which Spark reads once: a list of so many parts would take it seconds to parse."""
        listed = function("split", "array<string>", 2)(",".join(map(str, numbers.tolist())), ",")
        return function("get", "float64", 2)(listed.cast("array<float64>"), place.cast("int32") - 1)

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        instant = function("timestamp", "timestamp")(column) if kind == ColumnKind.TIMESTAMP else column
        return function("unix_seconds", "int64")(instant)


class SparkConnect(Spark):
    """A Spark Connect server: each statement has a session of its own, which sees the tables of the catalog."""

    @contextmanager
    def _session(self, deadline: float | None = None) -> Iterator[SparkSession]:
        """A session on the server with settings of our own, which ends with the block, and its statements with it."""
        session = self._opened()
        lost = None if deadline is None else deadline + SLACK

        def interrupt() -> None:
            # The server may be gone, or be given up before it answers.
            with suppress(Exception):
                session.interruptAll()

        with interrupted_after(lost, session.client._channel.close):
            try:
                with interrupted_after(deadline, interrupt):
                    for name, value in SETTINGS.items():
                        session.conf.set(name, value)
                    if self._folder:
                        session.read.parquet(self._folder).createOrReplaceTempView(FOLDER.name)
                    yield session
            finally:
                session.stop()
                # PySpark would keep each session to tidy up at exit what sessions for machine learning leave behind.
                atexit.unregister(session.client._cleanup_ml)

    def _opened(self) -> Any:
        """A session of its own; Spark's usual ones would become the active one of this process."""
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession

        where = self._location
        builder = DefaultChannelBuilder(f"sc://{where.host or 'localhost'}:{where.port or PORT}")
        for name, value in (("user_id", where.user), ("token", where.password), *where.options):
            if value is not None:
                builder.set(name, value)
        session = SparkSession(connection=builder)
        # A statement is sent once: to begin anew behind its first rows would count them twice, and PySpark would try
        # for minutes. Statements that can be taken up share threads, which Python may end with any other session.
        session.client.set_retry_policies([])
        session.client.disable_reattachable_execute()
        # The client would print errors, and with them values, before we see them.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        return session

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        with self._session(deadline) as session:
            return [tuple(row) for row in session.sql(sql).collect()]


def open_session(location: Location) -> tuple[Spark, TableName]:
    """The engine and table of `spark://master#schema.table`, or of a Parquet folder `spark://master/folder`."""
    return Spark(location), _table(location)


def open_server(location: Location) -> tuple[SparkConnect, TableName]:
    """The engine and table of `sc://host:15002#schema.table`, or of a Parquet folder that the server reads."""
    for module in ("pyspark.sql", "pandas", "pyarrow", "grpc_status"):
        driver(module, "sc", "spark-connect")
    return SparkConnect(location), _table(location)


def _table(location: Location) -> TableName:
    """The table that the address names, or the rows of its folder."""
    folder = location.path not in ("", "/")
    return FOLDER if folder and location.table is None else location.required_table()
