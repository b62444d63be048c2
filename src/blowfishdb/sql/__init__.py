"""The SQL face: one SELECT, parsed and never executed, becomes the same question that the Python face asks."""

from blowfishdb.sql.query import Askable, Asked, ask, read_axes, read_question, read_where
from blowfishdb.sql.statement import Accuracy, Statement, accuracy_of, merged, parse, write_options

__all__ = [
    "Accuracy",
    "Askable",
    "Asked",
    "Statement",
    "accuracy_of",
    "ask",
    "merged",
    "parse",
    "read_axes",
    "read_question",
    "read_where",
    "write_options",
]
