"""The public Python face: connect, ask, preview, release."""

from blowfishdb.catalog.curator import Curator, curate
from blowfishdb.catalog.dataset import Dataset
from blowfishdb.session.backend import Budget, Past, Published
from blowfishdb.session.plan import PlannedQuestion, QuestionPlan
from blowfishdb.session.session import Session, connect
from blowfishdb.session.table import Question, Table

__all__ = [
    "Budget",
    "Curator",
    "Dataset",
    "Past",
    "PlannedQuestion",
    "Published",
    "Question",
    "QuestionPlan",
    "Session",
    "Table",
    "connect",
    "curate",
]
