"""A question that was asked of a dataset but not answered yet: preview it for free, then release it."""

from __future__ import annotations

from dataclasses import dataclass, field

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charged_release import Progress, Run
from blowfishdb.engine.demand import Number, demand
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.synopsis.expected import SynopsisPreview
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.session.desk import Desk


@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """One question of one dataset, without its accuracy."""

    dataset: str
    query: Query
    domain: Domain = field(repr=False)
    _desk: Desk = field(repr=False)

    def __repr__(self) -> str:
        return f"<{question_words(self.query)} of {self.dataset}: preview(alpha=...) is free, release(...) answers>"

    def preview(
        self,
        alpha: Number | None = None,
        beta: Number | None = None,
        *,
        epsilon: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        mechanism: str | None = None,
        per_query: bool = False,
    ) -> Preview:
        """What a release would cost or how accurate it would be, by every mechanism; reads no data, costs nothing.

        Give `alpha` (all answers within alpha, except with probability `beta`, usually 0.05) or `epsilon`;
        `accuracy` is another name for alpha, `confidence` for 1 - beta. With `per_query` each answer alone keeps alpha.
        """
        asked = demand(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query)
        return self._desk.preview(self.dataset, self.query, self.domain, asked)

    quote = preview

    def release(
        self,
        alpha: Number | None = None,
        beta: Number | None = None,
        *,
        epsilon: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        mechanism: str | None = None,
        per_query: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """The answer: charged before any data is read, stored, and replayed free when the same is asked again.

        `key` names this request; without one the request's own digest is its key. `progress` hears the name of each
        step, and `deadline` is in seconds.
        """
        asked = demand(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query)
        return self._desk.release(self.dataset, self.query, self.domain, asked, Run(key, progress, deadline))

    def publish_preview(self, *, epsilon: Number, mechanism: str | None = None) -> SynopsisPreview:
        """What a synopsis would answer and how far off, where that is known without data; costs nothing."""
        asked = demand(epsilon=epsilon, mechanism=mechanism)
        return self._desk.publish_preview(self.dataset, self.query, self.domain, asked)

    def publish(
        self,
        *,
        epsilon: Number,
        mechanism: str | None = None,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> Synopsis:
        """A synopsis of this histogram: charged once, then asked for ever, free; `save` writes it to a file."""
        asked = demand(epsilon=epsilon, mechanism=mechanism)
        return self._desk.publish(self.dataset, self.query, self.domain, asked, Run(key, progress, deadline))
