"""Puts sample tables into each engine with its own driver, independently of what is tested."""

from __future__ import annotations

import datetime
import math
import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

from tests.sources.tables import Cell, Sample

COMMON = {"integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE", "single": "REAL", "tiny": "SMALLINT"}
DUCKDB = {**COMMON, "real": "DOUBLE", "text": "VARCHAR", "timestamp": "TIMESTAMP", "instant": "TIMESTAMPTZ"}
POSTGRES = {**COMMON, "real": "DOUBLE PRECISION", "text": "TEXT", "timestamp": "TIMESTAMP", "instant": "TIMESTAMPTZ"}
SQLITE = {**COMMON, "real": "REAL", "text": "TEXT", "timestamp": "TIMESTAMP", "instant": "TIMESTAMP"}
SPARK = {**COMMON, "real": "DOUBLE", "text": "STRING", "timestamp": "TIMESTAMP_NTZ", "instant": "TIMESTAMP"}
CLICKHOUSE = {
    **{kind: f"Nullable({name})" for kind, name in (("integer", "Int64"), ("boolean", "Bool"), ("date", "Date32"))},
    **{kind: f"Nullable({name})" for kind, name in (("single", "Float32"), ("tiny", "Int8"), ("real", "Float64"))},
    "text": "LowCardinality(Nullable(String))",
    **dict.fromkeys(("timestamp", "instant"), "Nullable(DateTime64(6, 'UTC'))"),
}
MARIADB = {
    **COMMON,
    "single": "FLOAT",
    "real": "DOUBLE",
    "text": "VARCHAR(400)",
    "timestamp": "DATETIME(6) NULL",
    "instant": "TIMESTAMP(6) NULL",
}


def fragment(name: str) -> str:
    """A table name as an address writes it."""
    doubled = name.replace('"', '""')
    return quote(f'"{doubled}"')


def double_quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def backticked(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def create(sample: Sample, types: dict[str, str], quoted: Callable[[str], str]) -> str:
    """The statement that creates the table."""
    columns = ", ".join(f"{quoted(name)} {types.get(kind, kind)}" for name, kind in sample.columns.items())
    return f"CREATE TABLE {quoted(sample.name)} ({columns})"


def insert(sample: Sample, mark: str, quoted: Callable[[str], str]) -> str:
    """The statement that inserts a row."""
    return f"INSERT INTO {quoted(sample.name)} VALUES ({', '.join([mark] * len(sample.columns))})"


def load_duckdb(path: Path, samples: tuple[Sample, ...]) -> str:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        for sample in samples:
            connection.execute(create(sample, DUCKDB, double_quoted))
            if sample.rows:
                connection.executemany(insert(sample, "?", double_quoted), sample.rows)
    return f"duckdb:///{path}"


def as_sqlite(value: Cell) -> Cell:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def load_sqlite(path: Path, samples: tuple[Sample, ...]) -> str:
    connection = sqlite3.connect(path)
    for sample in samples:
        connection.execute(create(sample, SQLITE, double_quoted))
        rows = [tuple(as_sqlite(value) for value in row) for row in sample.rows]
        connection.executemany(insert(sample, "?", double_quoted), rows)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def load_postgres(url: str, samples: tuple[Sample, ...]) -> str:
    import psycopg

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for sample in samples:
            cursor.execute(create(sample, POSTGRES, double_quoted).encode())
            # The driver reads %% as a percent sign in statements with values.
            statement = insert(sample, "%s", double_quoted)
            cursor.executemany(statement.encode(), sample.rows)
    return url


def finite(row: tuple[Cell, ...]) -> bool:
    return all(not isinstance(value, float) or math.isfinite(value) for value in row)


def without_infinities(sample: Sample) -> Sample:
    """What a table keeps in an engine that has neither NaN nor infinities."""
    return Sample(sample.name, sample.columns, tuple(row for row in sample.rows if finite(row)))


def mariadb_connection(url: str) -> Any:
    """A connection that closes itself at the end of a block."""
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or "",
        port=parts.port or 0,
        user=parts.username,
        password=parts.password or "",
        database=parts.path[1:],
        charset="utf8mb4",
        init_command="SET SESSION time_zone = '+00:00'",
    )


def load_mariadb(url: str, samples: tuple[Sample, ...]) -> str:
    with mariadb_connection(url) as connection, connection.cursor() as cursor:
        for sample in samples:
            cursor.execute(create(sample, MARIADB, backticked) + " CHARACTER SET utf8mb4")
            for row in without_infinities(sample).rows:
                plain = [v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for v in row]
                cursor.execute(insert(sample, "%s", backticked), plain)
        connection.commit()
    return url


def spark_files(duckdb_file: Path, folder: Path, samples: tuple[Sample, ...]) -> Iterator[tuple[Sample, Path, str]]:
    """A Parquet file for each table, which DuckDB writes, and its columns as Spark declares them."""
    import duckdb

    with duckdb.connect(str(duckdb_file), read_only=True) as connection:
        for number, sample in enumerate(samples):
            file = folder / f"{number}.parquet"
            connection.execute(f"COPY {double_quoted(sample.name)} TO '{file}' (FORMAT parquet)")
            columns = (f"{backticked(name)} {SPARK.get(kind, kind)}" for name, kind in sample.columns.items())
            yield sample, file, ", ".join(columns)


def load_spark(duckdb_file: Path, folder: Path, samples: tuple[Sample, ...]) -> str:
    """Views of the running session over Parquet files."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    for sample, file, columns in spark_files(duckdb_file, folder, samples):
        # A given schema spares Spark a job per file.
        session.read.schema(columns).parquet(str(file)).createOrReplaceTempView(backticked(sample.name))
    return "spark://local"


def load_connect(session: Any, duckdb_file: Path, folder: Path, samples: tuple[Sample, ...]) -> dict[str, str]:
    """Tables of the catalog over Parquet files; the files of those that Spark's catalog cannot name, by name."""
    unnamed = {}
    for sample, file, columns in spark_files(duckdb_file, folder, samples):
        if sample.name.isidentifier():
            session.sql(f"CREATE TABLE {sample.name} ({columns}) USING parquet LOCATION '{file}'")
        else:
            unnamed[sample.name] = str(file)
    return unnamed


def load_delta(duckdb_file: Path, folder: Path, samples: tuple[Sample, ...]) -> dict[str, str]:
    """Delta tables; their folders by name."""
    import deltalake
    import duckdb

    folders = {sample.name: f"{folder}/{number}" for number, sample in enumerate(samples)}
    with duckdb.connect(str(duckdb_file), read_only=True) as connection:
        for name, place in folders.items():
            deltalake.write_deltalake(place, connection.sql(f"SELECT * FROM {double_quoted(name)}").arrow())
    return folders


def storable(sample: Sample) -> Sample:
    """What a table keeps in ClickHouse, whose dates begin in 1900 and end in 2299."""

    def fits(value: Cell) -> bool:
        return not isinstance(value, datetime.date) or 1900 <= value.year < 2299

    return Sample(sample.name, sample.columns, tuple(row for row in sample.rows if all(map(fits, row))))


def load_clickhouse(url: str, folder: Path, samples: tuple[Sample, ...]) -> str:
    """Tables that ClickHouse fills from Parquet files that DuckDB wrote."""
    import duckdb

    def run(sql: str) -> None:
        urlopen(url.replace("clickhouse://", "http://"), sql.encode()).close()

    kept = tuple(map(storable, samples))
    load_duckdb(folder / "storable.duckdb", kept)
    run("CREATE DATABASE IF NOT EXISTS default")
    with duckdb.connect(str(folder / "storable.duckdb"), read_only=True) as connection:
        for number, sample in enumerate(kept):
            file = folder / f"{number}.parquet"
            connection.execute(f"COPY {double_quoted(sample.name)} TO '{file}' (FORMAT parquet)")
            types = {kind: CLICKHOUSE.get(kind, f"Nullable({kind})") for kind in sample.columns.values()}
            table = create(sample, types, backticked).replace("CREATE TABLE ", "CREATE TABLE default.")
            run(f"{table} ENGINE = MergeTree ORDER BY tuple()")
            run(f"INSERT INTO default.{backticked(sample.name)} SELECT * FROM file('{file}')")
    return url
