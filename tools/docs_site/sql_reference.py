"""The page of SQL, from the tables of the SQL reader: what it knows, and what it says when it refuses."""

from __future__ import annotations

from blowfishdb.sql import statement
from blowfishdb.sql.groups import GROUPS_HELP, MOST_GROUPS
from tools.docs_site.words import NOTE, code, table

CLAUSE_WORDS = {
    "joins": "JOIN",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "windows": "WINDOW",
    "sort": "SORT BY",
    "sample": "TABLESAMPLE",
    "hint": "hints",
    "locks": "FOR UPDATE",
}
ENDING = " [HAVING ...] [ORDER BY ...] [LIMIT n] [OFFSET n] [OPTIONS (...)]"
FUNCTION_WORDS = {
    "count_distinct": "COUNT(DISTINCT x)",
    "window": "... OVER (...)",
}


def page() -> str:
    """Aggregates, groups, options and refusals."""
    names = [*statement.READERS, *statement.ALIASES, "confidence", "rows", "within_NAME"]
    rows = [(code(name), _same_as(name)) for name in names]
    clauses = [(CLAUSE_WORDS.get(name, name.upper()), said) for name, said in statement.CLAUSES.items()]
    functions = [(FUNCTION_WORDS.get(name, name.upper()), said) for name, said in statement.FUNCTIONS.items()]
    return "\n\n".join(
        [
            "# SQL",
            NOTE,
            "[The SQL guide](../sql.md) explains the language with examples. A statement is parsed and never executed.",
            f"```text\n[EXPLAIN] {statement.SHAPE.format(table='<dataset>')}{ENDING}\n```",
            f"**Aggregates**: {statement.AGGREGATES}; several in each statement.",
            f"**Groups**: {GROUPS_HELP}; at most {MOST_GROUPS}.",
            "## Options",
            f"Written `{statement.EXAMPLE}`.",
            table(("option", ""), rows),
            "## Clauses that are refused",
            table(("clause", "reply"), clauses),
            "## Functions that are refused",
            table(("function", "reply"), functions),
        ]
    )


def _same_as(name: str) -> str:
    if name == "confidence":
        return "1 - beta"
    return f"the same as {code(statement.ALIASES[name])}" if name in statement.ALIASES else ""
