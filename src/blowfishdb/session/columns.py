"""Columns of a dataset as points: what an analysis such as k-means releases of them, and what that would be like."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.engine.charged_release import Run
from blowfishdb.engine.demand import Number, demand
from blowfishdb.engine.node_release import NodePreview, NodeQuestion
from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.engine.present.words import condition_words
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.model.query import query
from blowfishdb.session.desk import Desk

USUAL_ROWS = 10_000
"""Where nobody says about how many records there are, and nobody may count them."""


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Numeric attributes of one dataset, perhaps filtered; nothing is read before something is released."""

    dataset: str
    axes: tuple[Axis, ...]
    filter: Predicate | None
    domain: Domain = field(repr=False)
    _desk: Desk = field(repr=False)

    def __repr__(self) -> str:
        kept = "" if self.filter is None else f" where {condition_words(self.filter)}"
        return f"<Columns {', '.join(self.names)} of {self.dataset}{kept}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in the order in which they were asked for."""
        return tuple(axis.attribute for axis in self.axes)

    def preview(self, *, epsilon: Number, clusters: int, rows: int | None = None) -> NodePreview:
        """The grid that `node_weights` would measure, and the others; reads no data, charges nothing.

        `rows` says about how many records there are (10 000 unless said); a release without it counts them first where
        their number is public, so it may choose another grid.
        """
        asked = NodeQuestion(self.axes, self.filter, clusters, USUAL_ROWS if rows is None else rows)
        return self._desk.node_preview(self.dataset, asked, self.domain, _amount(epsilon))

    def node_weights(
        self, *, epsilon: Number, clusters: int, rows: int | None = None, key: str | None = None
    ) -> NodeWeights:
        """Weights on the nodes of a grid that suits so many clusters: charged before any data is read, then stored.

        Without `rows` the number of records is released first where it is public: an exact count, recorded, for 0.
        """
        asked = NodeQuestion(self.axes, self.filter, clusters, self._rows() if rows is None else rows)
        return self._desk.node_weights(self.dataset, asked, self.domain, _amount(epsilon), Run(key))

    def _rows(self) -> int:
        """About how many records there are: exactly, where that is public and so costs nothing."""
        counted, asked = query("count", (), self.filter), demand(epsilon=1)
        if self._desk.preview(self.dataset, counted, self.domain, asked).epsilon > 0:
            return USUAL_ROWS
        found = self._desk.release(self.dataset, counted, self.domain, asked, Run())
        return max(1, round(float(found.values[0])))


def _amount(epsilon: Number) -> Fraction:
    """The price as an exact number."""
    return demand(epsilon=epsilon).epsilon or Fraction(0)
