"""A dataset to ask questions of; every method gives a new value and reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from blowfishdb.engine.demand import Number
from blowfishdb.engine.present.words import condition_words
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import ATOMS, PREDICATES, Axis, Both, Column, Predicate, as_axes, atoms
from blowfishdb.model.query import Box, Query, cell_range, levels_of, query
from blowfishdb.model.segments import atom_runs
from blowfishdb.session.columns import Columns
from blowfishdb.session.desk import Desk
from blowfishdb.session.question import Question

Grouped: TypeAlias = str | Column | Axis
Span: TypeAlias = tuple[object, object]
MOST_BOXES = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A dataset, perhaps filtered. `domain` is what is declared of it; rows are never shown."""

    name: str
    domain: Domain
    filter: Predicate | None
    _desk: Desk = field(repr=False)

    def __repr__(self) -> str:
        kept = "" if self.filter is None else f" where {condition_words(self.filter)}"
        return f"<Table {self.name}{kept}: {', '.join(self.domain)}>"

    @property
    def policy(self) -> Policy:
        """What is hidden about a record, as declared."""
        return self._desk.declared(self.name)[1]

    def policy_words(self) -> tuple[str, ...]:
        """What is hidden about a record, and what is not, in words."""
        return explain(*self._desk.declared(self.name))

    def where(self, predicate: Predicate) -> Table:
        """The records for which the condition is true; several conditions hold together."""
        if not isinstance(predicate, PREDICATES):
            raise QueryError(f"a filter is a condition such as col('age') >= 18, not {type(predicate).__name__}")
        for atom in atoms(predicate):
            # Whatever merely looks like a comparison is refused when it is asked.
            if type(atom) in ATOMS:
                atom_runs(atom, self.domain.find(atom.attribute))
        return replace(self, filter=predicate if self.filter is None else Both(self.filter, predicate))

    def count(self) -> Question:
        """How many records there are."""
        return self._ask(query("count", (), self.filter))

    def histogram(self, *axes: Grouped) -> Question:
        """One count per value, bin or group; over several attributes, per combination."""
        return self._ask(query("histogram", _axes(axes), self.filter))

    def histogram2d(self, first: Grouped, second: Grouped) -> Question:
        """One count per pair of values, bins or groups of two attributes."""
        return self._ask(query("histogram2d", _axes((first, second)), self.filter))

    def cdf(self, axis: Grouped) -> Question:
        """Running counts along an ordered attribute."""
        return self._ask(query("cdf", _axes((axis,)), self.filter))

    def ranges(self, axis: Grouped, spans: Iterable[Span] | None = None) -> Question:
        """Counts of half-open ranges [low, high) of an ordered attribute; without spans, of all ranges."""
        if spans is None:
            return self._ask(query("ranges", _axes((axis,)), self.filter))
        return self.rectangles([axis], [(span,) for span in spans])

    def rectangles(self, axes: Sequence[Grouped], boxes: Iterable[Sequence[Span]]) -> Question:
        """Counts of boxes: for each attribute a half-open range [low, high)."""
        grouped = _axes(axes)
        _, policy = self._desk.declared(self.name)
        cells = compile_cells(self.domain, policy, grouped, self.filter)
        found: list[Box] = []
        for box in boxes:
            if len(found) == MOST_BOXES:
                raise TooLarge(
                    "ranges of one question", len(found) + 1, MOST_BOXES, "Ask for all ranges, or for a cdf."
                )
            if isinstance(box, str) or len(box) != len(grouped) or any(len(span) != 2 for span in box):
                raise QueryError(f"a box has a pair (low, high) for each of {len(grouped)} attributes")
            found.append(
                tuple(cell_range(cells, axis.attribute, *span) for axis, span in zip(grouped, box, strict=True))
            )
        if not found:
            raise QueryError("name at least one range")
        return self._ask(query("ranges", grouped, self.filter, boxes=found))

    def marginal(self, *axes: Grouped) -> Question:
        """The table of counts over the named attributes together."""
        grouped = _axes(axes)
        subset = [axis.attribute for axis in grouped]
        return self._ask(query("marginals", grouped, self.filter, subsets=[subset]))

    def marginals(self, *axes: Grouped, ways: int = 2) -> Question:
        """The tables of all sets of `ways` of the named attributes, answered together."""
        return self._ask(query("marginals", _axes(axes), self.filter, ways=ways))

    def sum(self, column: str | Column) -> Question:
        """The sum of a bounded attribute; bins count as their middle, NULL as nothing."""
        return self._ask(query("sum", _axes((column,)), self.filter))

    def mean(self, column: str | Column) -> Question:
        """The mean of a bounded attribute; its accuracy is asked for the sum, or bought with epsilon."""
        return self._ask(query("mean", _axes((column,)), self.filter))

    def quantiles(self, column: Grouped, levels: Iterable[Number]) -> Question:
        """The values below which the given shares of the records lie, read off one CDF, with intervals."""
        asked = query("quantiles", _axes((column,)), self.filter)
        return self._ask(replace(asked, levels=levels_of(levels)))

    def columns(self, names: Iterable[str | Column | Axis]) -> Columns:
        """Numeric attributes as points, for analyses such as bf.analysis.kmeans; reads nothing."""
        return Columns(self.name, _axes(names), self.filter, self.domain, self._desk)

    def _ask(self, asked: Query) -> Question:
        for axis in asked.axes:
            self.domain.find(axis.attribute)
        return Question(self.name, asked, self.domain, self._desk)


def _axes(axes: Iterable[Grouped]) -> tuple[Axis, ...]:
    listed = list(axes)
    wrong = [axis for axis in listed if not isinstance(axis, str | Column | Axis)]
    if wrong:
        raise QueryError(f"name attributes as texts or col('name'), not as {type(wrong[0]).__name__}")
    return as_axes(listed)
