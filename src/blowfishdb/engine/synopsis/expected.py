"""What a synopsis will answer and how far off that will usually be, before anything is paid or read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from blowfishdb.accuracy.noise_widths import noise_widths
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.present.html_table import BOX, headline, html_table
from blowfishdb.engine.present.numbers import budget_words, percent, readable
from blowfishdb.engine.present.svg import element, words
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.synopsis.artefact import Artefact
from blowfishdb.engine.synopsis.reading import BETA, answer_variances
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.engine.unprotected import not_protected
from blowfishdb.model.query import Query, query

COLUMNS = ("read off it", "answers", "within", "usual error")
UNKNOWN = (
    "How accurate its answers will be is not known before: {mechanism} looks at the data to decide where to measure. "
    "Without a mechanism of that kind it is known."
)


@dataclass(frozen=True)
class ExpectedError:
    """How far off the answers to one question will be: all of them within so much at once, and usually."""

    question: str
    answers: int
    within: float
    usual: float


@dataclass(frozen=True, eq=False, repr=False)
class SynopsisPreview:
    """What a synopsis would cost and answer; no data was read, and nothing was charged.

    `errors` are bounds, in which noise alone counts; none where they depend on the data.
    """

    dataset: str
    title: str
    cells: int
    epsilon: Fraction
    mechanism: str
    errors: tuple[ExpectedError, ...]
    unprotected: tuple[str, ...]
    left: Fraction | None = None

    @property
    def is_affordable(self) -> bool:
        """Whether what is left pays for it, as far as that is known."""
        return self.left is None or self.epsilon <= self.left

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data, ready for JSON."""
        return {
            "dataset": self.dataset,
            "question": self.title,
            "cells": self.cells,
            "epsilon": str(self.epsilon),
            "mechanism": self.mechanism,
            "beta": BETA,
            "errors": [
                {"question": one.question, "answers": one.answers, "within": one.within, "usual_error": one.usual}
                for one in self.errors
            ],
            "not_protected": list(self.unprotected),
            "left": None if self.left is None else str(self.left),
        }

    def head(self) -> str:
        """What would be published, and what for."""
        return (
            f"Synopsis of {self.title[:1].lower()}{self.title[1:]}: {self.cells:,} cells for epsilon "
            f"{readable(float(self.epsilon))}, once, by {self.mechanism}"
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Question, number of answers, within and usual error, as text."""
        return [(one.question, f"{one.answers:,}", readable(one.within), readable(one.usual)) for one in self.errors]

    def notes(self) -> list[str]:
        """What there is to say below the errors."""
        said = [
            f"Within: all answers of a line at once ({percent(BETA)}). That is the noise; bins that a question cuts "
            "add to it."
            if self.errors
            else UNKNOWN.format(mechanism=self.mechanism)
        ]
        if self.unprotected:
            said.append(f"Not protected: {' '.join(self.unprotected)}")
        if self.left is not None:
            said.append(budget_words(self.left, self.epsilon))
        return said

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [COLUMNS, *self.rows()] if self.errors else []
        wide = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))] if lines else []
        table = [
            "   ".join([f"  {line[0]:<{wide[0]}}", *(f"{line[place]:>{wide[place]}}" for place in (1, 2, 3))])
            for line in lines
        ]
        return "\n".join([self.head(), *table, *self.notes()])

    def _repr_html_(self) -> str:
        table = html_table("What it will answer", COLUMNS, self.rows(), (0,)) if self.errors else ""
        said = [element("p", {"style": "margin:6px 0 0"}, words(line)) for line in self.notes()]
        return element("div", {"style": BOX}, headline(self.head(), "nothing is charged yet", "div"), table, *said)


def read_synopsis_preview(written: Mapping[str, Any]) -> SynopsisPreview:
    """The preview that `to_dict` wrote."""
    return SynopsisPreview(
        dataset=str(written["dataset"]),
        title=str(written["question"]),
        cells=int(written["cells"]),
        epsilon=Fraction(written["epsilon"]),
        mechanism=str(written["mechanism"]),
        errors=tuple(
            ExpectedError(str(one["question"]), int(one["answers"]), float(one["within"]), float(one["usual_error"]))
            for one in written["errors"]
        ),
        unprotected=tuple(written["not_protected"]),
        left=None if written["left"] is None else Fraction(written["left"]),
    )


def preview_synopsis(holding: Holding, ready: PreparedSynopsis, left: Fraction | None = None) -> SynopsisPreview:
    """The preview of a synopsis that was laid out, for somebody who has so much left."""
    asked, outline = ready.inner.compiled.query, ready.outline()
    return SynopsisPreview(
        dataset=holding.name,
        title=question_words(asked),
        cells=math.prod(axis.cells.cells for axis in ready.axes()),
        epsilon=ready.epsilon,
        mechanism=ready.mechanism,
        errors=() if outline is None else tuple(_error(outline, one) for one in _usual_questions(asked, outline)),
        unprotected=not_protected(holding.domain, holding.policy),
        left=left,
    )


def _usual_questions(asked: Query, outline: Artefact) -> Iterator[Query]:
    """The cells themselves, each attribute on its own, its running counts, and how many records there are."""
    whole = replace(asked, where=None)
    yield whole
    for axis in asked.axes:
        if len(asked.axes) > 1:
            yield query("histogram", (axis,))
        if outline.domain[axis.attribute].ordered:
            yield query("cdf", (axis,))
    yield query("count")


def _error(outline: Artefact, asked: Query) -> ExpectedError:
    variances = answer_variances(outline, asked)
    within = noise_widths(variances, BETA).simultaneous
    return ExpectedError(question_words(asked), variances.size, within, math.sqrt(float(variances.mean())))
