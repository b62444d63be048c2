"""The SQL face: one SELECT, parsed and never executed, becomes the same Query that the Python face makes."""

from blowfishdb.sql.query import (
    ResultColumn,
    is_names_only,
    names_of,
    query_of,
    read_axes,
    read_where,
    result_columns,
    selection_of,
    write_statement,
)
from blowfishdb.sql.statement import Statement, merged, parse, split, without_joins, write_options

__all__ = [
    "ResultColumn",
    "Statement",
    "is_names_only",
    "merged",
    "names_of",
    "parse",
    "query_of",
    "read_axes",
    "read_where",
    "result_columns",
    "selection_of",
    "split",
    "without_joins",
    "write_options",
    "write_statement",
]
