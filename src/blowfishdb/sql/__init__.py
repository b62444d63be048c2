"""The SQL face: one SELECT, parsed and never executed, becomes the same question that the Python face asks."""

from blowfishdb.sql.options import Accuracy, accuracy_of, merged, write_options
from blowfishdb.sql.pieces import read_axes, read_where
from blowfishdb.sql.question import Askable, Asked, ask, read_question
from blowfishdb.sql.statement import Statement, parse

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
