"""Spark, for tables that outgrow one machine: catalog tables, views of the running session, Parquet and Delta folders.

A session runs in this process (`spark://`), or on a Spark Connect server that others share (`sc://`).
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import json
import logging
import os
import re
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, driver, function, ibis
from blowfishdb.sources.calls import stopped_by
from blowfishdb.sources.delta import LOG, DeltaLog, DeltaVersion
from blowfishdb.sources.location import Location, TableName, real_pattern
from blowfishdb.sources.spark_context import driver_here

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
OWN_SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Each statement is compiled in about four parts. Spark keeps 100 by itself: asked in turn, the questions of a
    # dataset would then be compiled anew every time.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
"""Settings of a session that is started here; those of the address come after them."""
PORT = 15002
"""Where a Spark Connect server listens by itself."""
SLACK = 5.0
"""Seconds after which a server is given up that does not tell of a session that it should still have."""


def column_type(native: str) -> ColumnType:
    """What Spark's name of a type means."""
    decimal = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", native)
    if decimal:
        return ColumnType(ColumnKind.DECIMAL, native, int(decimal[1]), is_whole=int(decimal[2]) <= 0)
    if re.fullmatch(r"(var)?char\(\d+\)", native):
        return ColumnType(ColumnKind.TEXT, native)
    return ColumnType(KINDS.get(native, ColumnKind.OTHER), native)


@dataclass(frozen=True)
class SeenFolder:
    """The rows of a folder in a session: the view's list of files, what was on it at first, and the columns.

    A Delta table has no list but its log; the digest of the version stands for its files.
    """

    session: SparkSession
    listing: Any
    files: str
    schema: StructType

    def is_same(self, session: SparkSession) -> bool:
        """Whether the session's view reads the same files when all are listed anew."""
        if session is not self.session or self.listing is None:
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


LIST_MARK = "blowfish_list"
"""A function that Spark does not have: it stands for a variable that holds a list, given its type and its query."""
COMMENT = "-- "
"""How the lines before a statement begin: each has the name of a variable, the type of its list, and the query."""
MOST_VARIABLES = 64
"""Lists that a session holds before a new one takes its place."""
LISTED_TYPES = {"float64": "DOUBLE", "int16": "SMALLINT", "int32": "INT"}


def rewritten(part: Expr) -> Expr:
    """Names variables. A query of no table gets one of a single row: its result would be a constant of objects."""
    from sqlglot import exp

    if isinstance(part, exp.Anonymous) and part.name.lower() == LIST_MARK:
        return exp.column(_variable(part.expressions[1].name), table="session", db="system")
    return part.from_("VALUES (0)") if isinstance(part, exp.Select) and part.find(exp.From) is None else part


def _variable(query: str) -> str:
    """The name of the variable for the result of a query."""
    return f"blowfish_{hashlib.sha256(query.encode()).hexdigest()[:32]}"


EMPTY = "__HIVE_DEFAULT_PARTITION__"
PARTITIONED = (
    "Spark cannot tell the values of the partition columns of this Delta table for sure, unless they are whole numbers "
    "in directories named as usual; read it through DuckDB with delta://, or write it without these columns"
)


def version_rows(session: SparkSession, log: DeltaLog, version: DeltaVersion) -> DataFrame:
    """The rows of one version of a Delta table, with the columns and types of its log; files may lack later columns.

    Spark takes the values of partition columns from the names of directories. Whole numbers are written in one way
    only. Whether other values are read as they were written depends on the values, and so on rows, which no refusal
    may tell: tables with such columns are refused whatever they hold.
    """
    from pyspark.sql.types import StructType

    schema, files = StructType.fromJson(json.loads(version.table.schema().to_json())), version.files
    kinds = {KINDS.get(schema[name].dataType.simpleString()) for name in version.partition_columns}
    if kinds - {ColumnKind.INTEGER}:
        raise SourceError(PARTITIONED)
    if any(PATTERN.search(file) for file in files):
        raise SourceError("Spark would read the name of a file of this Delta table as a pattern; rename its folder")
    if not files:
        # Spark's own way to make a table of nothing would make the session the active one of this process.
        nothing = (f"CAST(NULL AS {field.dataType.simpleString()}) AS {_identifier(field.name)}" for field in schema)
        return session.range(0).selectExpr(*nothing)
    reader = session.read.schema(schema)
    if version.partition_columns:
        _check_directories(log, version)
        reader = reader.option("basePath", log.path)
    rows = reader.parquet(*files)
    if len(rows.inputFiles()) != len(files):
        # Spark passes over hidden files, such as those whose names begin with a dot.
        raise SourceError("Spark does not read all files of this Delta table; read it through DuckDB with delta://")
    return rows


def _check_directories(log: DeltaLog, version: DeltaVersion) -> None:
    """The names of directories are the values of the log, which is up to whoever writes the table."""
    columns = version.partition_columns
    values = zip(*(version.added[f"partition.{name}"].to_pylist() for name in columns), strict=True)
    for file, logged in zip(version.files, values, strict=True):
        directories = os.path.relpath(os.path.dirname(file), log.path).split(os.sep)
        if directories != [
            f"{name}={EMPTY if one is None else one}" for name, one in zip(columns, logged, strict=True)
        ]:
            raise SourceError(PARTITIONED)


class Spark(Engine):
    """A Spark session: the running one, or one that is started on the address's master and kept."""

    compiler = "databricks"
    rewrite = staticmethod(rewritten)
    shuffles = True
    floors_to_whole = True
    # A session that is started, after the one before has been given up, takes a minute on a busy machine.
    patience = 120.0
    has_variables = True
    """Whether a session that is kept holds lists."""

    def __init__(self, location: Location) -> None:
        self._pyspark: Any = driver("pyspark.sql", "spark", "spark")
        self._location = location
        self._seen: SeenFolder | None = None
        self._copied: tuple[Any, SparkSession] | None = None
        """The session that was last copied, and its copy."""
        self._variables: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
        """The names that are set in each copy."""
        self._defining = threading.Lock()

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        """A copy of the running session with settings of our own; it sees the same tables and views."""
        with driver_here.turn:
            session = self._copy(driver_here.running(self._start))
        if self._folder:
            self._look(session)
        yield session

    def _copy(self, running: Any) -> SparkSession:
        """The copy; one that is kept serves until it holds many lists."""
        original = running._jsparkSession
        if self._copied is not None and self._is_kept:
            before, kept = self._copied
            # Compared in the driver's process only where it is still the same.
            is_same = kept.sparkContext is running.sparkContext and before == original
            if is_same and len(self._variables.get(kept, ())) < MOST_VARIABLES:
                return kept
        copy: SparkSession = type(running)(running.sparkContext, original.cloneSession())
        # PySpark would print errors, and with them values, before we see them.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        for name, value in SETTINGS.items():
            copy.conf.set(name, value)
        self._copied = original, copy
        return copy

    @property
    def _is_kept(self) -> bool:
        """Whether one session serves many statements: where only a folder is read, which views do not matter to.

        Others would take tables for what they were before.
        """
        return bool(self._folder) and not self._location.joined

    def _look(self, session: SparkSession) -> None:
        """Makes the view of the folder, which the same files need once; to read columns takes a job of its own."""
        if (log := self._log) is not None:
            self._look_at_log(session, log)
            return
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

    def _look_at_log(self, session: SparkSession, log: DeltaLog) -> None:
        """Makes the view of the newest version of a Delta table, which each version needs once."""
        version, before = log.newest(), self._seen
        if before is None or before.session is not session or before.files != version.digest:
            rows = version_rows(session, log, version)
            rows.createOrReplaceTempView(FOLDER.name)
            self._seen = SeenFolder(session, None, version.digest, rows.schema)

    @property
    def _log(self) -> DeltaLog | None:
        """The log of the folder where that is a Delta table: of its files some may be rows no longer."""
        if not self._folder or not glob.glob(os.path.join(self._folder, LOG)):
            return None
        if PATTERN.search(self._folder):
            raise SourceError("a pattern does not name a Delta table; give its folder by its whole name")
        return DeltaLog(real_pattern(self._folder))

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
        for name, value in (*OWN_SESSION.items(), *where.options):
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

    def last_write(self) -> str | None:
        """The version of a Delta table; what the catalog names has none."""
        return None if self._versions is None else self._versions.newest().name

    def content(self) -> str | None:
        """The version of a Delta table proves that rows are the same; nothing does for what the catalog names."""
        return None if self._versions is None else self._versions.newest().digest

    @property
    def _versions(self) -> DeltaLog | None:
        """The log of the only table."""
        return None if self._location.joined else self._log

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        with self._session() as session:
            if self._seen is not None and table == FOLDER:
                return _columns(self._seen.schema)
            name = ".".join(_identifier(part) for part in (table.schema, table.name) if part)
            if not session.catalog.tableExists(name):
                return {}
            return {column: column_type(native) for column, native in session.table(name).dtypes}

    def is_view(self, table: TableName) -> bool:
        with self._session() as session:
            if table == FOLDER:
                return False
            name = ".".join(_identifier(part) for part in (table.schema, table.name) if part)
            if not session.catalog.tableExists(name):
                return False
            # A view is kept in the catalog, or in this session alone.
            return session.catalog.getTable(name).tableType in ("VIEW", "TEMPORARY")

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        del deadline
        with self._session() as session:
            context, group = session.sparkContext, uuid.uuid4().hex

            def cancel() -> None:
                context.cancelJobGroup(group)

            context.setJobGroup(group, "a count", interruptOnCancel=True)
            try:
                with stopped_by(cancel), driver_here.watched(context, cancel):
                    return [tuple(row) for row in session.sql(self._defined(session, sql)).collect()]
            finally:
                context.setLocalProperty("spark.jobGroup.id", "")

    def write(self, expression: Expr) -> str:
        """The SQL, after comments that tell what the variables hold which it names."""
        from ibis.expr.operations import ScalarUDF

        called = expression.op().find(ScalarUDF)
        marks = (node.args for node in called if node.__func_name__ == LIST_MARK)
        lists = dict.fromkeys((kind.value, query.value) for kind, query in marks)
        comments = (f"{COMMENT}{_variable(query)} {kind} {query}\n" for kind, query in lists)
        return "".join(comments) + super().write(expression)

    def _defined(self, session: SparkSession, sql: str) -> str:
        """The statement alone; the variables that it names are set where the session does not have them yet."""
        with self._defining:
            known = self._variables.setdefault(session, set())
            while sql.startswith(COMMENT):
                line, _, sql = sql.partition("\n")
                _, name, kind, query = line.split(" ", 3)
                if name not in known:
                    # This list has no NULL, so that its type has none: Spark would ask about it for every row.
                    session.sql(f"DECLARE OR REPLACE VARIABLE {name} = ARRAY(CAST(0 AS {kind}))")
                    session.sql(f"SET VAR {name} = ({query})")
                    known.add(name)
        return sql

    def whole_type(self, low: int, high: int) -> str:
        """Doubles would be made equal, zeros and all kinds of NaN, before each is looked for among the groups."""
        return "int32" if low >= -(2**31) and high < 2**31 else "float64"

    def as_whole(self, number: Expr, whole: str) -> Expr:
        """The nearest number of the type, and 0 for NaN; Spark's own way to try fails first, which takes long."""
        return number.cast(whole)

    def entry(self, numbers: Floats | Ints, place: Expr) -> Expr | None:
        """The list is the result of a query, which lies flat in memory; a constant would be one of objects.

        A session that is kept works it out once and has it in a variable; elsewhere it is a part of each statement.
        It is made of a text, as a list of so many parts would take seconds to parse: each number once for all equal
        ones that follow it, and none that could be NULL, which would be asked about for every row.
        """
        name = "float64" if numbers.dtype.kind == "f" else "int16" if np.abs(numbers).max() < 2**15 else "int32"
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        runs = zip(numbers[starts].tolist(), np.diff(np.append(starts, numbers.size)).tolist(), strict=True)
        split, get = function("split", "array<string>", 2), function("get", "string", 2)

        def repeated(run: Expr) -> Expr:
            number, times = (get(split(run, ":"), part) for part in range(2))
            known = ibis().coalesce(number.cast(name), ibis().literal(0, "int8").cast(name))
            return function("array_repeat", f"array<{name}>", 2)(known, times.cast("int32"))

        text = ibis().literal(",".join(f"{number}:{times}" for number, times in runs))
        listed = function("flatten", f"array<{name}>")(split(text, ",").map(repeated))
        query = listed.name("numbers").as_table()
        if self._is_kept and self.has_variables:
            known = function(LIST_MARK, f"array<{name}>", 2)(LISTED_TYPES[name], super().write(query))
        else:
            known = query.as_scalar()
        return function("get", name, 2)(known, place.cast("int32") - 1)

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        instant = function("timestamp", "timestamp")(column) if kind == ColumnKind.TIMESTAMP else column
        return function("unix_seconds", "int64")(instant)


class SparkConnect(Spark):
    """A Spark Connect server, which sees the tables of its catalog."""

    has_variables = False

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        """A session with the view of the folder, if one is read."""
        with self._lent() as session:
            if self._folder:
                self._rows(session).createOrReplaceTempView(FOLDER.name)
            yield session

    @contextmanager
    def _lent(self) -> Iterator[SparkSession]:
        """A session on the server with settings of our own, which nobody else has meanwhile.

        Executors compile what they run for each session anew, so one that is kept serves again. It does not if it
        failed or was stopped: statements end with their session.
        """
        session, is_sound = self._taken(), False

        def stop() -> None:
            # The server may be gone, or not answer.
            with suppress(Exception):
                session.interruptAll()
            session.client._channel.close()

        try:
            with stopped_by(stop):
                yield session
            is_sound = True
        finally:
            idle = IDLE[self._location]
            if is_sound and self._is_kept and len(idle) < MOST_IDLE:
                idle.append(session)
            else:
                _stop(session)

    def _taken(self) -> Any:
        """An idle session that the server still has, or a new one."""
        for session in _idle(self._location):
            silent = threading.Timer(SLACK, session.client._channel.close)
            silent.daemon = True
            silent.start()
            try:
                with suppress(Exception):
                    return _settled(session)
            finally:
                silent.cancel()
            _stop(session)
        session = self._opened()
        try:
            return _settled(session)
        except BaseException:
            _stop(session)
            raise

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        if table != FOLDER:
            return super().columns(table)
        with self._lent() as session:
            return _columns(self._rows(session).schema)

    def _rows(self, session: SparkSession) -> DataFrame:
        """The rows of the folder, which the server reads; the log of a Delta table is read here."""
        if (log := self._log) is not None:
            return version_rows(session, log, log.newest())
        if _is_there(session, os.path.join(self._folder, LOG)):
            raise SourceError(
                "the folder is a Delta table whose log this machine cannot read: mount the folder here under the same "
                "path, or name the table in the server's catalog"
            )
        return session.read.parquet(self._folder)

    def _opened(self) -> Any:
        """A session of its own; Spark's usual ones would become the active one of this process."""
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession

        where = self._location
        address = f"sc://{where.host or 'localhost'}:{where.port or PORT}"
        builder = DefaultChannelBuilder(address, [("grpc.service_config", json.dumps(SERVICE))])
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
        del deadline
        with self._session() as session:
            return [tuple(row) for row in session.sql(sql).collect()]


PATIENCE = {"Config": 60.0, "Interrupt": SLACK, "ReleaseSession": SLACK}
"""Seconds that a server may take to begin a session, to end a statement and to end a session, by the names of gRPC."""
SERVICE = {
    "methodConfig": [
        {"name": [{"service": "spark.connect.SparkConnectService", "method": method}], "timeout": f"{seconds:g}s"}
        for method, seconds in PATIENCE.items()
    ]
}
IDLE: dict[Location, list[Any]] = defaultdict(list)
"""Sessions on Spark Connect servers that wait for the next statement on the same folder."""
MOST_IDLE = 4
"""Such sessions of one folder: as many statements as are usual at once."""


def _idle(location: Location) -> Iterator[Any]:
    """Idle sessions one after the other, each only once whoever asks."""
    with suppress(IndexError):
        while True:
            yield IDLE[location].pop()


def _settled(session: Any) -> Any:
    """The session with settings of our own; ended with its call where the server does not answer."""
    with stopped_by(session.client._channel.close):
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
    return session


def _stop(session: Any) -> None:
    """Ends a session, and its statements with it; a server that is gone or does not answer is left alone."""
    with suppress(Exception):
        session.stop()
    # PySpark would keep each session to tidy up at exit what sessions for machine learning leave behind.
    atexit.unregister(session.client._cleanup_ml)


@atexit.register
def _stop_idle() -> None:
    """Leaves no session behind on a server."""
    for location in [*IDLE]:
        for session in _idle(location):
            _stop(session)


def _columns(schema: StructType) -> dict[str, ColumnType]:
    return {field.name: column_type(field.dataType.simpleString()) for field in schema}


def _identifier(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _is_there(session: SparkSession, folder: str) -> bool:
    """Whether the server sees a folder."""
    from pyspark.errors import AnalysisException

    try:
        return bool(session.read.text(folder).schema)
    except AnalysisException:
        return False


def open_session(location: Location) -> tuple[Spark, TableName]:
    """The engine and table of `spark://master#schema.table`, or of a Parquet or Delta folder `spark://master/folder`."""
    return Spark(location), _table(location)


def open_server(location: Location) -> tuple[SparkConnect, TableName]:
    """The engine and table of `sc://host:15002#schema.table`, or of a folder that the server reads."""
    for module in ("pyspark.sql", "pandas", "pyarrow", "grpc_status"):
        driver(module, "sc", "spark-connect")
    return SparkConnect(location), _table(location)


def _table(location: Location) -> TableName:
    """The table that the address names, or the rows of its folder."""
    folder = location.path not in ("", "/")
    return FOLDER if folder and location.table is None else location.required_table()
