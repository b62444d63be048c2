"""The SQL of a statement: written once for equal statements, and anew where anything in them differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler

from blowfishdb.sources import base
from blowfishdb.sources.base import ColumnKind, Expr, ibis
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.sqlite import SQLite


def counted(
    value: object, kind: str = "int64", table: str = "people", column_kind: ColumnKind = ColumnKind.INTEGER
) -> Expr:
    rows = ibis().table({"age": kind}, name=table)
    engine = DuckDB(connect=lambda: pytest.fail("nothing is opened to write a statement"))
    chosen = rows.filter(engine.comparable(rows.age, column_kind) == value)
    return chosen.aggregate(n=chosen.count())


def test_equal_statements_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    base._sql.cache_clear()
    passed: list[Expr] = []
    to_sqlglot: Callable[..., Any] = DuckDBCompiler.to_sqlglot

    def recorded(compiler: DuckDBCompiler, expression: Expr, **options: object) -> Any:
        passed.append(expression)
        return to_sqlglot(compiler, expression, **options)

    monkeypatch.setattr(DuckDBCompiler, "to_sqlglot", recorded)
    first, second = (DuckDB(connect=lambda: pytest.fail("opened")) for _ in range(2))
    assert first.write(counted(18)) == second.write(counted(18))
    assert len(passed) == 1
    assert "18" in first.write(counted(18))
    first.write(counted(19))
    assert len(passed) == 2


def test_statements_that_differ_in_anything_have_each_their_own_sql() -> None:
    duckdb = DuckDB(connect=lambda: pytest.fail("opened"))
    expressions = [
        counted(1),
        counted(2),
        counted(1.0, "float64"),
        counted(True, "boolean"),
        counted("1", "string"),
        counted("1", "string", column_kind=ColumnKind.TEXT),
        counted("a", "string"),
        counted("A", "string"),
        counted(1, table="People"),
    ]
    # Twice, so that the second round is read from what the first one left.
    for _ in range(2):
        assert len({duckdb.write(expression) for expression in expressions}) == len(expressions)


def test_each_engine_has_its_own_sql() -> None:
    text = counted("a", "string", column_kind=ColumnKind.TEXT)
    duckdb, sqlite = DuckDB(connect=lambda: pytest.fail("opened")), SQLite.__new__(SQLite)
    assert 'COLLATE "C"' in duckdb.write(text)
    assert duckdb.write(text) != sqlite.write(text)
    assert sqlite.write(text) == sqlite.write(counted("a", "string", column_kind=ColumnKind.TEXT))
