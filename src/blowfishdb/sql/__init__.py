"""The SQL face: one SELECT, parsed and never executed, becomes the same question that the Python face asks."""

from blowfishdb.sql.options import Accuracy, merged
from blowfishdb.sql.question import Askable, Asked, ask, read_question
from blowfishdb.sql.statement import Statement, parse

__all__ = ["Accuracy", "Askable", "Asked", "Statement", "ask", "merged", "parse", "read_question"]
