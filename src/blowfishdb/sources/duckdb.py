"""DuckDB databases; CSV and Parquet files and Delta tables through an embedded DuckDB, so that every line counts."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import itertools
import os
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.sources.attached import connection_to, identifier, instance_of, opened_files, quoted
from blowfishdb.sources.base import (
    ColumnKind,
    ColumnType,
    Engine,
    Expr,
    Fetched,
    driver,
    function,
    ibis,
)
from blowfishdb.sources.calls import stopped_by
from blowfishdb.sources.delta import DeltaLog, DeltaVersion
from blowfishdb.sources.location import (
    GLOB,
    Location,
    Stamp,
    TableName,
    files_digest,
    files_last_write,
    is_settled,
    local_path,
    parse_location,
    read_elsewhere,
    real_pattern,
    stamp_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


CHUNK = 2**22
LONGEST_LINE = 2**26
"""Longer lines, in bytes, are not read."""


def matched(pattern: str) -> list[str]:
    """The files of a pattern, in one order and each once, also where two names lead to it; SourceError for none."""
    files = {os.path.realpath(name): name for name in sorted(glob.glob(pattern, recursive=True), reverse=True)}
    if not files:
        raise SourceError(
            f"no file matches {Path(pattern).name!r} where the address points, relative to the configuration"
        )
    return sorted(files.values())


SEPARATORS = (",", ";", "\t", "|")
"""What may stand between two fields of a file."""


def header_of(path: str) -> tuple[str, list[str]]:
    """What separates the fields, and the names in the first line; SourceError unless each column is named once.

    The separator that the ending promises counts, unless the first line holds none: then the one that finds most names.
    """
    usual = "\t" if ".tsv" in Path(path).name.lower() else ","
    headers = {separator: _first_row(path, separator) for separator in sorted(SEPARATORS, key=lambda one: one != usual)}
    separator = usual if len(headers[usual][0]) > 1 else max(headers, key=lambda one: len(headers[one][0]))
    names, line = headers[separator]
    if any("\0" in name for name in names):
        raise SourceError("the file is not UTF-8 text, perhaps it is UTF-16: save it again as CSV in UTF-8")
    # DuckDB takes names of any case for the same.
    if not all(name.strip() for name in names) or not 0 < len(names) == len({name.lower() for name in names}):
        raise SourceError("the first line of a CSV file names every column, each once")
    if line.endswith("\r"):
        raise SourceError("lines of a CSV file end in a line feed, not in a carriage return alone: save it again so")
    return separator, names


def _first_row(path: str, separator: str) -> tuple[list[str], str]:
    """The fields of the first line, and the line itself with its end."""
    try:
        with _opened(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="") as text:
            lines, again = itertools.tee(text)
            reader = csv.reader(lines, delimiter=separator)
            return next(reader, []), "".join(itertools.islice(again, reader.line_num))
    except (OSError, EOFError, zlib.error, csv.Error):
        raise SourceError(f"the first line of {Path(path).name} cannot be read") from None


def readable(path: str, copies: ExitStack) -> str:
    """The path, or that of a copy where the file holds what the engine misreads; it is gone when `copies` closes.

    The engine would leave out a line of which it reads a field that is no text, so that the line would be in some
    counts and not in others. A carriage return inside of a field, which many writers do not quote, it takes for the end
    of a line, so that one record would be many rows. The copy has a replacement character for each of both. An archive
    the engine knows by its ending in small letters alone.
    """
    if (path.endswith(".gz") or not _is_packed(path)) and _is_plain(path):
        return path
    # Without a name, so that a killed server leaves nothing behind.
    made = copies.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in _pieces(path):
        made.write(LONE_RETURN.sub("\ufffd", decoder.decode(piece)).encode())
    made.write(decoder.decode(b"", final=True).encode())
    made.flush()
    return f"/dev/fd/{made.fileno()}"


LONE_RETURN = re.compile("\r(?!\n)")


def _pieces(path: str) -> Iterator[bytes]:
    """The bytes of a file; no piece but the last ends in a carriage return, whose line feed would be in the next."""
    rest = b""
    with _opened(path) as raw:
        while read := raw.read(CHUNK):
            piece = rest + read
            end = len(piece.rstrip(b"\r"))
            piece, rest = piece[:end], piece[end:]
            yield piece
    yield rest


def _is_packed(path: str) -> bool:
    return path.lower().endswith(".gz")


def _is_plain(path: str) -> bool:
    """Whether a file is text in UTF-8, and every carriage return in it belongs to the end of a line."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(path):
            decoder.decode(piece)
            if piece.count(b"\r") > piece.count(b"\r\n"):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if _is_packed(path):
        with gzip.open(path, "rb") as packed:
            yield packed  # type: ignore[misc]
    else:
        with open(path, "rb") as plain:
            yield plain


KINDS = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), ColumnKind.INTEGER
    ),
    **dict.fromkeys(("FLOAT", "DOUBLE"), ColumnKind.REAL),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), ColumnKind.DECIMAL),
    **dict.fromkeys(("VARCHAR", "UUID"), ColumnKind.TEXT),
    # Not TIMESTAMP_S and TIMESTAMP_MS: to compare one that lies too far away with a declared day would fail.
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NS"), ColumnKind.TIMESTAMP),
    "TIMESTAMP WITH TIME ZONE": ColumnKind.INSTANT,
    "BOOLEAN": ColumnKind.BOOLEAN,
    "DATE": ColumnKind.DATE,
}
FILES = TableName("rows")
Connect = Callable[[], AbstractContextManager["DuckDBPyConnection"]]
VIEWS = "SELECT count(*) FROM duckdb_views() WHERE database_name = current_database() AND NOT internal"
SHARED_SIZE = 2**26
"""Larger databases, in bytes, have an instance of their own: what they spill stays beside them."""
SMALL_SIZE = 2**21
"""Up to so many bytes a database is read by the thread that counts: it would be done before others have begun."""
MOST_COUNTED = 32
"""Statements over small files whose groups are remembered."""
SEARCHED = 64
"""Texts that are looked for one by one in every row of a column that has no dictionary."""
ARRAYS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"})
"""Types of columns that are fetched as arrays, which hold their numbers as they are."""
STREAMED_CORES = 4
"""Up to so many cores, one of them places the doubles of a column sooner than all of them run the engine's own way."""
PIECE = 2**17
"""Doubles that are streamed at once."""


def _stamped(files: Sequence[str]) -> Mapping[str, Stamp]:
    """The files, each with its stamp; none where one is missing."""
    stamps = {file: stamp for file in files if (stamp := stamp_of(file)) is not None}
    return stamps if len(stamps) == len(files) else {}


def column_type(native: str) -> ColumnType:
    """What DuckDB's name of a type means."""
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", native)
    if decimal:
        return ColumnType(ColumnKind.DECIMAL, native, int(decimal[1]), is_whole=decimal[2] == "0")
    if native.startswith("ENUM("):
        return ColumnType(ColumnKind.TEXT, "ENUM")
    kind = KINDS.get(native, ColumnKind.OTHER)
    return ColumnType(kind, native, is_whole=kind is ColumnKind.DECIMAL)


class DuckDB(Engine):
    """An embedded DuckDB; `connect` opens a connection that sees the tables, and `read` one that may read rows."""

    compiler = "duckdb"
    is_embedded = True
    byte_text = 'CAST(x AS TEXT) COLLATE "C"'
    errors_on_overflow = False
    decimal_digits = 15
    streams = (os.cpu_count() or 1) <= STREAMED_CORES

    def __init__(self, connect: Connect, place: str = "", read: Connect | None = None) -> None:
        self._connect = connect
        self._read = connect if read is None else read
        self._place = place
        self._without_views: str | None = None
        """The digest of the database when it was last seen to hold no view."""
        self._columns: dict[TableName, tuple[Mapping[str, Stamp], Mapping[str, ColumnType]]] = {}
        """The columns of each table, and the stamps of the files that they were read from."""
        self._counted: Mapping[str, tuple[str, Fetched]] = {}
        """What the last statements gave, each with the digest of the content that it counted."""

    def identity(self, table: TableName) -> str:
        # DuckDB takes names of any case for the same.
        name = f"{table.schema}.{table.name}".lower()
        return f"duckdb:{self._place}#{name}"

    def qualified(self, table: TableName) -> TableName:
        return TableName(table.name, table.schema or "main")

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        query = """SELECT column_name, data_type FROM duckdb_columns()
            WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)
            ORDER BY column_index"""
        stamps, (known, columns) = self._stamps(), self._columns.get(table, (None, {}))
        if stamps and stamps == known:
            return columns
        began = time.time_ns()
        with self._connect() as connection:
            rows = connection.execute(query, [table.schema, table.name]).fetchall()
            is_current = not opened_files.is_replaced(self._place)
        columns = {name: column_type(native) for name, native in rows}
        is_current = is_current and stamps == self._stamps()
        if stamps and is_current and all(is_settled(stamp, began) for stamp in stamps.values()):
            self._columns[table] = stamps, columns
        return columns

    def is_view(self, table: TableName) -> bool:
        query = """SELECT count(*) > 0 FROM duckdb_views() WHERE database_name = current_database()
            AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)"""
        with self._connect() as connection:
            return connection.execute(query, [table.schema, table.name]).fetchall() == [(True,)]

    def _stamps(self) -> Mapping[str, Stamp]:
        """What tells each file from itself before it was written to; none while the database has changes in its log."""
        return {} if self._has_log() else _stamped([self._place])

    def _has_log(self) -> bool:
        log = f"{self._place}.wal"
        return os.path.exists(log) and os.path.getsize(log) > 0

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        del deadline
        with self._run(sql) as result:
            return result.fetchall()

    def fetch_columns(self, sql: str, deadline: float | None) -> Fetched:
        """The columns. Of small files that are as they were, those of the last statements need no second look."""
        del deadline
        content = self.content() if self._is_small() else None
        known, columns = self._counted.get(sql, (None, []))
        if content is None or content != known:
            columns = self._fetched(sql)
            if content is not None and content == self.content():
                self._counted = dict([*self._counted.items(), (sql, (content, columns))][-MOST_COUNTED:])
        return columns

    def _is_small(self) -> bool:
        stamps = self._stamps()
        return bool(stamps) and sum(size for _, _, size, _, _ in stamps.values()) <= SMALL_SIZE

    def _fetched(self, sql: str) -> Fetched:
        with self._run(sql) as result:
            if {str(column[1]) for column in result.description or ()} <= ARRAYS:
                columns = result.fetchnumpy().values()
                return [column.tolist() if np.ma.is_masked(column) else np.asarray(column) for column in columns]
            return [list(column) for column in zip(*result.fetchall(), strict=True)]

    def stream(self, sql: str, deadline: float | None) -> Iterator[Floats]:
        del deadline
        with self._run(sql) as result:
            for piece in result.to_arrow_reader(PIECE):
                yield piece.column(0).to_numpy(zero_copy_only=False)

    @contextmanager
    def _run(self, sql: str) -> Iterator[DuckDBPyConnection]:
        """A statement that ran, before its rows are fetched."""
        with self._read() as connection, stopped_by(connection.interrupt):
            yield connection.execute(sql)

    def last_write(self) -> str | None:
        is_unknown = self._has_log() or opened_files.is_replaced(self._place)
        return None if is_unknown else files_last_write([self._place])

    def content(self) -> str | None:
        if self._has_log() or opened_files.is_replaced(self._place):
            return None
        digest = files_digest([self._place], read=read_elsewhere)
        if digest is None or digest == self._without_views:
            return digest
        with self._connect() as connection:
            # A view may read from elsewhere.
            if connection.execute(VIEWS).fetchall() != [(0,)]:
                return None
        # What was looked at is what has this digest, unless the file changed meanwhile.
        if files_digest([self._place], read=read_elsewhere) == digest:
            self._without_views = digest
            return digest
        return None

    def whole_type(self, low: int, high: int) -> str:
        """Small types are counted in an array in place of a hash table."""
        return next(
            (f"int{bits}" for bits in (8, 16, 32) if -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)), "float64"
        )

    def place(self, text: Expr, listed: Sequence[str]) -> Expr | None:
        """Looked up once for each entry of a column's dictionary; small numbers are then grouped in an array."""
        if len(listed) > SEARCHED:
            return None
        return function("list_position", "int32", 2)(ibis().array(list(listed)), text).cast("int8")

    def entry(self, numbers: Floats | Ints, place: Expr) -> Expr | None:
        """The list stands in a query of its own: as a constant it would be built again for every vector of rows."""
        listed = ibis().literal(str(numbers.tolist())).cast("array<float64>")
        return function("list_extract", "float64", 2)(listed.name("numbers").as_table().as_scalar(), place)

    def month(self, date: Expr) -> Expr | None:
        year, month = (function(part, "int64")(date) for part in ("year", "month"))
        return year * 12 + month - 1

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        del kind
        return function("epoch", "float64")(function("date_trunc", "timestamp", 2)("second", column))


def open_database(location: Location) -> tuple[DuckDB, TableName]:
    """The engine and table of `duckdb:///file#table`."""
    duckdb = driver("duckdb", "duckdb", "duckdb")
    path = local_path(location)

    def opened() -> AbstractContextManager[DuckDBPyConnection]:
        if path.exists():
            size = path.stat().st_size
            spill, threads = "" if size <= SHARED_SIZE else f"{path}.tmp", 1 if size <= SMALL_SIZE else None
            # Refused where this process has the file open already, or another file of this name is attached.
            with suppress(duckdb.Error):
                return instance_of(os.getpid(), spill, threads).attach(str(path), path.stem)
        try:
            return connection_to(duckdb, str(path), read_only=True)
        except duckdb.ConnectionException:
            # This process already has the file open for writing; DuckDB then wants the same settings again.
            return connection_to(duckdb, str(path), read_only=False)

    @contextmanager
    def connect() -> Iterator[DuckDBPyConnection]:
        with opened_files.using(str(path)), opened() as connection:
            yield connection

    return DuckDB(connect, str(path)), location.required_table()


class Pattern:
    """CSV or Parquet files that one path or pattern names."""

    def __init__(self, path: str) -> None:
        self.path = real_pattern(path)
        self.is_parquet = path.lower().endswith(".parquet")

    def files(self) -> list[str]:
        """The files, in one order; SourceError for none."""
        return matched(self.path)

    def select(self, connection: DuckDBPyConnection, copies: ExitStack | None) -> str:
        """The statement that reads all rows; without a place for copies it tells the columns alone."""
        del connection
        files = self.files()
        if self.is_parquet:
            return f"SELECT * FROM {_parquet_reader(files)}"
        return f"SELECT * FROM {_csv_reader(files, () if copies is None else [readable(f, copies) for f in files])}"


class Delta(DeltaLog):
    """A Delta table that DuckDB reads; its statement is about the version that is the newest when it starts."""

    is_parquet = True

    def __init__(self, location: Location) -> None:
        super().__init__(str(local_path(location, Path.is_dir)))

    def files(self) -> list[str]:
        """The folder, and the files of the newest version."""
        return [self.path, *self.newest().files]

    def select(self, connection: DuckDBPyConnection, copies: ExitStack | None) -> str:
        """The statement that reads the rows with the columns and types of the log; files may lack later columns."""
        del copies
        import pyarrow

        version = self.newest()
        declared = connection.from_arrow(pyarrow.schema(version.table.schema()).empty_table())
        values = {name: f"partition.{name}" for name in version.partition_columns}
        listed = f"files of {self.path}"
        connection.from_arrow(version.added.select(["file", *values.values()])).create(identifier(listed))
        rows, places = f"{identifier(listed)} WHERE false", dict[str, str]()
        if version.files:
            rows = _parquet_reader(version.files, ", filename = 'read from'")
            places = {name: identifier(name) for name in connection.sql(f"SELECT * FROM {rows}").columns}
            places |= {name: identifier(value) for name, value in values.items()}
            rows += f' JOIN {identifier(listed)} ON "file" = "read from"' if values else ""
        columns = (
            f"CAST({places.get(name, 'NULL')} AS {native}) AS {identifier(name)}"
            for name, native in zip(declared.columns, declared.types, strict=True)
        )
        return f"SELECT {', '.join(columns)} FROM {rows}"


class Files(DuckDB):
    """An embedded DuckDB that sees files, or tables made of files, by the names given here."""

    has_catalogue = False

    def __init__(self, connect: Connect, read: Connect, tables: Mapping[str, Pattern | Delta]) -> None:
        super().__init__(connect, read=read)
        self._tables = tables

    def identity(self, table: TableName) -> str:
        return f"file:{self._tables[table.name].path}"

    def is_view(self, table: TableName) -> bool:
        """Never: what stands for files here is a view of ours, which cannot fail."""
        del table
        return False

    def places(self, table: TableName) -> list[str]:
        return [f"file:{os.path.realpath(file)}" for file in self._tables[table.name].files()]

    def table(self, text: str) -> TableName:
        path = _joined_table(text).path
        names = [name for name, table in self._tables.items() if table.path == path and name != FILES.name]
        return self.qualified(TableName(names[0]))

    def _stamps(self) -> Mapping[str, Stamp]:
        tables = [table for table in self._tables.values() if isinstance(table, Pattern)]
        # The columns of a Delta table are those of its log.
        is_known = len(tables) == len(self._tables)
        return _stamped([file for table in tables for file in table.files()]) if is_known else {}

    def is_changing(self) -> bool:
        """Whether a file is gone, or was written to a moment ago: whoever writes it may not have come to the end."""
        try:
            files = [file for table in self._tables.values() if isinstance(table, Pattern) for file in table.files()]
        except SourceError:
            return False
        stamps, now = [stamp_of(file) for file in files], time.time_ns()
        return any(stamp is None or not is_settled(stamp, now) for stamp in stamps)

    def last_write(self) -> str | None:
        return self._mark(lambda version: version.name, files_last_write)

    def content(self) -> str | None:
        return self._mark(lambda version: version.digest, files_digest)

    def _mark(
        self, of_version: Callable[[DeltaVersion], str], of_files: Callable[[Sequence[str]], str | None]
    ) -> str | None:
        """The marks of the newest versions of all Delta tables, and that of all other files."""
        tables = self._tables.values()
        versions = [of_version(table.newest()) for table in tables if isinstance(table, Delta)]
        mark = of_files([file for table in tables if isinstance(table, Pattern) for file in table.files()])
        return None if mark is None else ".".join([*versions, mark])


def _joined_table(address: str) -> Pattern | Delta:
    """What is joined to files: one file or one Delta table."""
    location = parse_location(address)
    if location.scheme == "delta":
        return Delta(location)
    if location.scheme != "file" or GLOB.search(location.path):
        raise SourceError("what is joined to files is one CSV or Parquet file, named by its path, or a Delta table")
    return Pattern(location.path)


def open_files(location: Location) -> tuple[Files, TableName]:
    """The engine and table of files, named by a path or a pattern, or of a Delta table; and of what is joined to it."""
    duckdb = driver("duckdb", "files", "duckdb")
    main = Delta(location) if location.scheme == "delta" else Pattern(location.path)
    joined = {table.path: table for table in map(_joined_table, location.joined)}
    tables = {FILES.name: main, **{f"joined {number}": table for number, table in enumerate(joined.values(), start=1)}}
    protected = set(map(os.path.realpath, main.files()))
    for table in joined.values():
        if protected & set(map(os.path.realpath, table.files())):
            name = Path(table.path).name
            raise SourceError(f"{name} is the table itself: its rows are protected, so it cannot be looked up")

    def create(connection: DuckDBPyConnection, copies: ExitStack | None = None) -> DuckDBPyConnection:
        # Files that know no zones may hold instants beside others that do: Spark writes both, in UTC.
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.execute(f"CREATE VIEW {identifier(name)} AS {table.select(connection, copies)}")
        return connection

    @contextmanager
    def connect() -> Iterator[DuckDBPyConnection]:
        with instance_of(os.getpid()).empty() as connection:
            yield create(connection)

    @contextmanager
    def read() -> Iterator[DuckDBPyConnection]:
        # On its own, as this setting is one of the whole instance. Which lines of a file that is not well formed
        # are rows depends on the columns that are read of it: each count reads all of them, so that a row is in
        # all counts or in none.
        with ExitStack() as copies, connection_to(duckdb, ":memory:", read_only=False) as connection:
            connection.execute("SET disabled_optimizers = 'unused_columns'")
            yield create(connection, copies)

    return Files(connect, connect if all(table.is_parquet for table in tables.values()) else read, tables), FILES


def _parquet_reader(files: Sequence[str], options: str = "") -> str:
    # The types of columns that the names of folders write would be guessed from all of those names.
    return f"read_parquet([{_listed(files)}], union_by_name = true, hive_partitioning = false{options})"


def _csv_reader(files: Sequence[str], texts: Sequence[str] = ()) -> str:
    """A reader that never fails on a row and never guesses types from rows: every column is text.

    Short rows are filled with NULL and what is too long is cut, because an error that depends on a row would tell
    about it. One thread reads: several would fail on a line end between quotes. Of one column an empty line is a row:
    there the reader is told that both characters of "\\r\\n" end one line, also where an earlier line ends in "\\n".
    """
    separator, names = header_of(files[0])
    if any(header_of(file) != (separator, names) for file in files[1:]):
        text = "the first lines of CSV files that are one table name the same columns in the same order and form"
        raise SourceError(text)
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    line_end = r", new_line = '\r\n'" if len(names) == 1 else ""
    return (
        f"read_csv([{_listed(texts or files)}], auto_detect = false, header = true, delim = {quoted(separator)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, null_padding = true, "
        f"strict_mode = false, ignore_errors = true, "
        f"parallel = false, hive_partitioning = false, max_line_size = {LONGEST_LINE}{line_end})"
    )


def _listed(files: Sequence[str]) -> str:
    """Patterns that each match one file, whatever is in its name."""
    return ", ".join(quoted(GLOB.sub(r"[\g<0>]", file)) for file in files)
