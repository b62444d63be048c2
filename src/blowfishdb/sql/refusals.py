"""What is refused of a statement, and the nearest thing that works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from blowfishdb.errors import QueryError

SHAPE = "SELECT <attributes>, COUNT(*) FROM {table} [WHERE ...] GROUP BY <attributes>"

AGGREGATES = "COUNT(*), COUNT(x), SUM(x), AVG(x), STDDEV(x), MEDIAN(x), QUANTILES(x, 0.25, 0.5) or CDF(x)"

CLAUSES = {
    "distinct": "DISTINCT is not known here: GROUP BY an attribute counts each of its declared values",
    "into": "Nothing can be written: leave INTO out",
    "laterals": "LATERAL is not known here: name one dataset",
    "pivots": "PIVOT is not known here: GROUP BY two attributes",
    "qualify": "QUALIFY would choose by counts that are secret: leave it out, and filter the answer",
    "windows": "Window functions are not known here: CDF(x) gives running counts",
    "sort": "Answers come in the declared order of the attributes: leave SORT BY out, and sort the answer",
    "sample": "Sampling is not known here: leave it out",
    "hint": "Hints are not known here: leave them out",
    "locks": "Nothing can be locked: leave FOR out",
}
"""Clauses of SELECT that are refused, by sqlglot's names for them."""

JOINS = "Joins are declared by the curator, and their attributes then belong to the dataset: name one dataset"
FUNCTIONS = {
    "min": "The least value is one person's: QUANTILES(x, 0.01) is the nearest thing",
    "max": "The greatest value is one person's: QUANTILES(x, 0.99) is the nearest thing",
    "count_distinct": "Distinct values are not counted: GROUP BY the attribute counts each declared value; "
    "COUNT(DISTINCT id) counts persons where the policy protects them",
    "mode": "The most frequent value is that of the largest group: SELECT x FROM ... GROUP BY x ORDER BY COUNT(*) DESC "
    "LIMIT 1",
    "window": "Window functions are not known here: CDF(x) gives running counts",
}


def refuse(reason: str, table: str = "<dataset>") -> NoReturn:
    """Refuses, and says what works."""
    raise QueryError(f"{reason}. What works: {SHAPE.format(table=table)}.")


@contextmanager
def nesting_refused() -> Iterator[None]:
    """Refuses what is nested more deeply than Python follows."""
    try:
        yield
    except RecursionError:
        raise QueryError("the statement is nested too deeply; write conditions side by side with AND and OR") from None
