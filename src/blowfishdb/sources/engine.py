"""What one database engine adds to the shared source: how to reach it, its types, and where its SQL differs."""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from blowfishdb.errors import SourceError
from blowfishdb.model.arrays import Floats
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.location import TableName

Expr: TypeAlias = Any
"""An Ibis expression; Ibis ships no types."""

TEXT_MARK = "blowfish_text"
"""A function that exists in no engine: `settle` replaces it by what makes text compare byte by byte."""


class Engine(ABC):
    """One engine that holds tables. Every statement opens and closes its own connection unless said otherwise."""

    compiler: str
    """The module of Ibis' SQL compilers that writes for this engine."""
    has_nan = True
    """Whether a column of doubles can hold NaN."""
    errors_on_overflow = True
    """Whether arithmetic on doubles, or rounding them down, may fail or mislead on NaN, infinities or overflow."""
    typed = True
    """Whether all values of a column have the column's type."""
    decimal_digits = 65
    """Decimals of up to this many digits become the nearest double when cast."""

    @abstractmethod
    def identity(self, table: TableName) -> str:
        """The canonical name of a table of this engine."""

    @abstractmethod
    def qualified(self, table: TableName) -> TableName:
        """The table with its default schema filled in, where the engine has schemas."""

    @abstractmethod
    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        """The columns of a table, empty when there is none; reads no rows."""

    @abstractmethod
    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        """The rows of one statement."""

    def text(self, column: Expr) -> Expr:
        """The column so that it compares and groups byte by byte."""
        return column

    def seconds(self, column: Expr, kind: Kind) -> Expr:
        """Whole seconds since 1970 (in UTC for an instant), rounded down; only asked about declared moments."""
        del column
        raise SourceError(f"time stamps ({kind}) cannot be counted on this engine yet; declare a column of dates")

    def bucket(self, number: Expr, edges: Floats) -> Expr | None:
        """How many of the edges lie at or below the number, where the engine has a search of its own."""
        del number, edges
        return None

    def whole_type(self, low: int, high: int) -> str:
        """The type by which whole numbers from low to high are grouped fastest."""
        del low, high
        return "float64"

    def settle(self, tree: Expr) -> Expr:
        """The finished statement with marks replaced by the engine's own SQL."""
        return tree

    def write(self, expression: Expr) -> str:
        """The SQL of an Ibis expression."""
        compiler = importlib.import_module(f"ibis.backends.sql.compilers.{self.compiler}").compiler
        tree = self.settle(compiler.to_sqlglot(expression))
        return str(tree.sql(dialect=compiler.dialect))


def replace_text_marks(tree: Expr, template: str, dialect: str) -> Expr:
    """The statement with every text mark replaced by the template, whose column is called x."""
    from sqlglot import exp, parse_one

    def replaced(node: Expr) -> Expr:
        if isinstance(node, exp.Anonymous) and node.name.lower() == TEXT_MARK:
            argument = node.expressions[0]
            return parse_one(template, dialect=dialect).transform(
                lambda part: argument.copy() if isinstance(part, exp.Column) and part.name == "x" else part
            )
        return node

    return tree.transform(replaced)


@contextmanager
def interrupted_after(deadline: float | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """Calls `interrupt` from another thread once the deadline, in seconds, has passed."""
    if deadline is None:
        yield
        return
    timer = threading.Timer(max(deadline, 0.0), interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
