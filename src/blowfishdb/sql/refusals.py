"""What the SQL face says when it refuses: the nearest thing that works."""

from __future__ import annotations

from typing import NoReturn

from blowfishdb.errors import QueryError

SHAPE = "SELECT <attributes>, COUNT(*) FROM {table} [WHERE ...] GROUP BY <attributes>"
LONGEST_SHOWN = 60

AGGREGATES = "COUNT(*), SUM(x), AVG(x), CDF(x), MEDIAN(x) or QUANTILES(x, 0.25, 0.5)"

CLAUSES = {
    "with_": "WITH is not known here: ask one question of one dataset",
    "distinct": "DISTINCT is not known here: GROUP BY an attribute counts each of its declared values",
    "into": "Nothing can be written: leave INTO out",
    "joins": "Joins are declared by the curator, and their attributes then belong to the dataset: name one dataset",
    "laterals": "LATERAL is not known here: name one dataset",
    "pivots": "PIVOT is not known here: GROUP BY two attributes",
    "having": "HAVING would choose by counts that are secret: leave it out, and filter the answer",
    "qualify": "QUALIFY would choose by counts that are secret: leave it out, and filter the answer",
    "windows": "Window functions are not known here: CDF(x) gives running counts",
    "order": "Answers come in the declared order of the attributes: leave ORDER BY out, and sort the answer",
    "sort": "Answers come in the declared order of the attributes: leave SORT BY out, and sort the answer",
    "limit": "An answer is released whole: leave LIMIT out, or use WHERE to ask about fewer groups",
    "offset": "An answer is released whole: leave OFFSET out, or use WHERE to ask about fewer groups",
    "sample": "Sampling is not known here: leave it out",
    "hint": "Hints are not known here: leave them out",
    "locks": "Nothing can be locked: leave FOR out",
}
"""Clauses of SELECT that are refused, by sqlglot's names for them."""

FUNCTIONS = {
    "min": "The least value is one person's: QUANTILES(x, 0.01) is the nearest thing",
    "max": "The greatest value is one person's: QUANTILES(x, 0.99) is the nearest thing",
    "count_distinct": "Distinct values are not counted: GROUP BY the attribute counts each declared value",
    "count_column": "COUNT(x) is written COUNT(*) ... WHERE x IS NOT NULL",
    "spread": "Spread is not measured: QUANTILES(x, 0.25, 0.75) is the nearest thing",
    "window": "Window functions are not known here: CDF(x) gives running counts",
    "percentile": "A percentile is written QUANTILES(x, 0.5)",
    "part_of_date": "Periods are written DATE_TRUNC('month', x), also with 'week', 'quarter' or 'year'",
}


def shown(text: object) -> str:
    """What somebody wrote, quoted, shortened, with invisible characters spelled out."""
    plain = str(text)
    cut = plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 3] + "..."
    return ascii(cut) if not cut.isprintable() else repr(cut)


def refuse(reason: str, table: str = "<dataset>") -> NoReturn:
    """Refuses, and says what works."""
    raise QueryError(f"{reason}. What works: {SHAPE.format(table=table)}.")
