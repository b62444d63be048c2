"""A question with its accuracy, ready to be quoted and to be run exactly as it was quoted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charged_release import Progress
from blowfishdb.engine.demand import Number
from blowfishdb.engine.preview import Preview
from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.asking import Asking, Wanted, asked
from blowfishdb.server.pages.snippet import snippet, sql_snippet
from blowfishdb.session.question import Question
from blowfishdb.session.session import Session
from blowfishdb.sql import ask, parse, read_question

SHORT = 1000
"""What is left is rounded down to so many parts of one: a price with few digits."""
SPARED = Fraction(99, 100)
"""Prices of an accuracy are rounded up, so a little is spared for the one that is named to be affordable."""


@dataclass(frozen=True, eq=False)
class Ready:
    """What a click on Run would release, and the code that does the same."""

    question: Question
    alpha: Number | None
    beta: Number | None
    confidence: Number | None
    epsilon: Number | None
    mechanism: str | None
    per_query: bool
    code: str

    def preview(self) -> Preview:
        """The price; reads no data."""
        return self.question.preview(
            self.alpha,
            self.beta,
            epsilon=self.epsilon,
            confidence=self.confidence,
            mechanism=self.mechanism,
            per_query=self.per_query,
        )

    def within(self, left: Fraction) -> float | None:
        """How near the truth the answers would be for what is left of a budget; None where nobody can promise it."""
        epsilon = Fraction(math.floor(left * SPARED * SHORT), SHORT)
        if epsilon <= 0:
            return None
        try:
            return self.question.preview(
                beta=self.beta, epsilon=epsilon, confidence=self.confidence, per_query=self.per_query
            ).alpha
        except BlowfishError:
            return None

    def release(self, progress: Progress) -> Answer:
        """The answer, charged."""
        return self.question.release(
            self.alpha,
            self.beta,
            epsilon=self.epsilon,
            confidence=self.confidence,
            mechanism=self.mechanism,
            per_query=self.per_query,
            progress=progress,
        )


def ready(session: Session, asking: Asking, wanted: Wanted, sql: str, url: str) -> Ready:
    """The question that the controls ask; typed errors where they ask nothing sensible."""
    alpha, epsilon = wanted.keywords()
    if asking.template != "sql":
        table = session[asking.dataset]
        code = snippet(asking, wanted, table.domain, url)
        return Ready(asked(asking, table), alpha, None, wanted.confidence, epsilon, wanted.mechanism, False, code)
    statement = parse(sql)
    table = session[statement.table]
    question, said = ask(table, read_question(statement, table.domain)), statement.options
    # What the statement says of its accuracy counts, and the controls only where it says nothing.
    if said.alpha is not None or said.epsilon is not None:
        alpha, epsilon = said.alpha, said.epsilon
    confidence = wanted.confidence if said.beta is None else None
    mechanism = said.mechanism or wanted.mechanism
    code = sql_snippet(sql, wanted, url)
    return Ready(question, alpha, said.beta, confidence, epsilon, mechanism, bool(said.per_query), code)
