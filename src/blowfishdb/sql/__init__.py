"""The SQL face: one SELECT, parsed and never executed, becomes the same Query that the Python face makes."""

from blowfishdb.sql.query import query_of, read_axes, read_where
from blowfishdb.sql.statement import Statement, merged, parse, write_options

__all__ = ["Statement", "merged", "parse", "query_of", "read_axes", "read_where", "write_options"]
