"""A published synopsis to ask: the vocabulary of a table, answered at once, for ever, at no charge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.present.words import condition_words
from blowfishdb.engine.synopsis.artefact import Artefact
from blowfishdb.engine.synopsis.file import from_bytes, to_bytes
from blowfishdb.engine.synopsis.reading import BETA, read
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import PREDICATES, Axis, Both, Column, Predicate
from blowfishdb.model.query import Kind, Query, cell_range, levels_of, query

if TYPE_CHECKING:
    import pandas

Grouped: TypeAlias = str | Column | Axis


@dataclass(frozen=True, eq=False, repr=False)
class Synopsis:
    """Noisy counts over some attributes. Every answer is computed from them alone."""

    artefact: Artefact = field(repr=False)
    filter: Predicate | None = None

    @property
    def domain(self) -> Domain:
        """What is declared of its attributes."""
        return self.artefact.domain

    @property
    def epsilon(self) -> Fraction:
        """What it cost, once."""
        return self.artefact.epsilon

    def __repr__(self) -> str:
        kept = "" if self.filter is None else f" where {condition_words(self.filter)}"
        shape = " x ".join(f"{size:,}" for size in self.artefact.shape)
        return (
            f"<Synopsis of {self.artefact.dataset}{kept}: {', '.join(self.artefact.names)} ({shape} cells), epsilon "
            f"{self.epsilon} by {self.artefact.mechanism}; asking it is free>"
        )

    def where(self, predicate: Predicate) -> Synopsis:
        """The part for which the condition is true; several conditions hold together."""
        if not isinstance(predicate, PREDICATES):
            raise QueryError(f"a filter is a condition such as col('age') >= 18, not {type(predicate).__name__}")
        return replace(self, filter=predicate if self.filter is None else Both(self.filter, predicate))

    def count(self) -> Answer:
        """How many records there are."""
        return self._read("count")

    def share(self, of: int) -> float:
        """The count as a part of a number that is public, such as the size of the whole population."""
        if isinstance(of, bool) or not isinstance(of, int) or of < 1:
            raise InvalidInput("a share is of a public whole number, at least 1")
        return float(self.count().values[0]) / of

    def histogram(self, *axes: Grouped) -> Answer:
        """One count per value, bin or group; over several attributes, per combination."""
        return self._read("histogram", axes)

    def histogram2d(self, first: Grouped, second: Grouped) -> Answer:
        """One count per pair of values, bins or groups of two attributes."""
        return self._read("histogram2d", (first, second))

    def cdf(self, axis: Grouped) -> Answer:
        """Running counts along an ordered attribute."""
        return self._read("cdf", (axis,))

    def sum(self, column: Grouped) -> Answer:
        """The sum of a bounded attribute; bins count as their middle, NULL as nothing."""
        return self._read("sum", (column,))

    def mean(self, column: Grouped) -> Answer:
        """The mean of a bounded attribute."""
        return self._read("mean", (column,))

    def quantiles(self, column: Grouped, levels: Iterable[object]) -> Answer:
        """The values below which the given shares of the records lie."""
        asked = query("quantiles", (column,), self.filter)
        return self.answer(replace(asked, levels=levels_of(levels)))

    def ranges(self, axis: Grouped, spans: Iterable[tuple[object, object]] | None = None) -> Answer:
        """Counts of half-open ranges [low, high) of an ordered attribute; without spans, of all ranges."""
        asked = query("ranges", (axis,), self.filter)
        if spans is None:
            return self.answer(asked)
        cells = compile_cells(self.domain, Policy({}), asked.axes, self.filter)
        name = asked.axes[0].attribute
        return self.answer(replace(asked, boxes=tuple((cell_range(cells, name, *span),) for span in spans)))

    def marginals(self, *axes: Grouped, ways: int = 2) -> Answer:
        """The tables of all sets of `ways` of the named attributes."""
        return self.answer(query("marginals", axes, self.filter, ways=ways))

    def answer(self, asked: Query, beta: float = BETA) -> Answer:
        """The answer to any question over the attributes, with intervals for the noise at beta."""
        unknown = [axis.attribute for axis in asked.axes if axis.attribute not in self.domain]
        if unknown:
            raise QueryError(f"{unknown[0]} is not in this synopsis; it has {', '.join(self.artefact.names)}")
        return read(self.artefact, asked, beta)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per cell: labels, count, low, high."""
        return self.histogram(*self.artefact.names).to_pandas()

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the file that `open_synopsis` reads; any Parquet tool opens it as well."""
        where = Path(path)
        where.write_bytes(to_bytes(self.artefact))
        return where

    def _read(self, kind: Kind, axes: Iterable[Grouped] = ()) -> Answer:
        return self.answer(query(kind, tuple(axes), self.filter))


def open_synopsis(path: str | PathLike[str]) -> Synopsis:
    """The synopsis in a file; DocumentError when it is none, or was changed."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"the file {path} cannot be read: {error.strerror or 'no such file'}") from None
    return Synopsis(from_bytes(content))
