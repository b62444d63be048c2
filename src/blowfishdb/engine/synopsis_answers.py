"""Answers read off a synopsis, with no data and no charge, and how far off they will usually be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.sparse import eye_array

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, DatasetHandle, answer_tables, compile_query
from blowfishdb.engine.evidence import not_protected
from blowfishdb.engine.release import STATISTICS, consistent_answers, read_statistic, statistic_tables
from blowfishdb.engine.synopsis import Artefact, CellNoise, PreparedSynopsis, SynopsisAxis, from_bytes, to_bytes
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.mechanisms.strategy import squared
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.families import public
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import PREDICATES, Axis, Both, Column, Predicate, condition_words
from blowfishdb.model.query import Kind, Query, cell_range, levels_of, query
from blowfishdb.model.workload import Rows, Sparse
from blowfishdb.model.workload_products import as_intervals
from blowfishdb.present.chart_svg import element, escaped
from blowfishdb.present.page import BOX, headline, html_table
from blowfishdb.present.words import budget_words, percent, question_words, readable

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Placed:
    """Pieces of synopsis cells as a question groups them: the cell, its share in the piece, the question's cell."""

    cell: Ints
    share: Floats
    into: Ints
    groups: int

    def summed(self, values: Floats) -> Floats:
        """What falls into each cell of the question, given a value for each cell of the synopsis."""
        return np.asarray(np.bincount(self.into, self.share * values[self.cell], self.groups), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SummedNoise:
    """Noise of the cells of a question: deviations, variances that may be added, deviations of running totals."""

    deviations: Floats
    variances: Floats
    running: Floats

    def variances_of(self, rows: Rows) -> Floats:
        """A variance that the noise of each answer does not exceed."""
        entries = Sparse(abs(rows.matrix)) if isinstance(rows, Sparse) else rows
        bound = np.asarray(entries.dot(self.deviations), dtype=np.float64) ** 2
        if np.all(np.isfinite(self.variances)):
            bound = np.minimum(bound, np.asarray(squared(rows).dot(self.variances), dtype=np.float64))
        if np.all(np.isfinite(self.running)):
            bound = np.minimum(bound, self._by_running_totals(rows) ** 2)
        return bound

    def _by_running_totals(self, rows: Rows) -> Floats:
        """A sum of r_c times cells is the sum of r_c - r_(c + 1) times running totals, and deviations add up."""
        spans = as_intervals(rows)
        if spans is not None:
            before = np.concatenate([[0.0], self.running])
            return np.where(spans.low < spans.high, before[spans.low] + before[spans.high], 0.0)
        if not isinstance(rows, Sparse):
            return np.full(rows.shape[0], np.inf)
        cells = self.running.size
        return np.asarray(abs(rows.matrix @ (eye_array(cells) - eye_array(cells, k=-1))) @ self.running)


def summed_noise(noise: CellNoise, placed: Placed) -> SummedNoise:
    """The noise of the pieces, grouped as the question does."""
    return SummedNoise(placed.summed(noise.deviations), _by_blocks(noise, placed), _running(noise.running, placed))


def _by_blocks(noise: CellNoise, placed: Placed) -> Floats:
    """For each cell of the question a variance, such that variances of different cells may be added.

    Pieces of one block share its noise. A block that reaches into k cells counts k times in each, because
    (a1 + ... + ak)^2 <= k (a1^2 + ... + ak^2).
    """
    block, deviations = noise.blocks[placed.cell], placed.share * noise.alone[placed.cell]
    blocks = int(block.max(initial=0)) + 1
    pair, place = np.unique(placed.into * blocks + block, return_inverse=True)
    cell, own = np.divmod(pair, blocks)
    reached = np.bincount(own, minlength=blocks)[own]
    together = np.bincount(place, deviations, pair.size)
    return np.asarray(np.bincount(cell, reached * together**2, placed.groups), dtype=np.float64)


def _running(deviations: Floats, placed: Placed) -> Floats:
    """Deviations of the question's own running totals, where its cells follow the order of the synopsis'.

    The total of its first cells takes all that is used of the cells before some cell e, and a part of e. By the steps
    between these parts it is a sum of running totals of the synopsis.
    """
    unknown = np.full(placed.groups, np.inf)
    order = np.lexsort((placed.into, placed.cell))
    cell, share, into = placed.cell[order], placed.share[order], placed.into[order]
    if not np.all(np.isfinite(deviations)) or np.any(np.diff(into) < 0) or np.unique(into).size != placed.groups:
        return unknown
    used = np.bincount(cell, share, deviations.size)
    steps = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(used)) * deviations[:-1])])
    last = np.searchsorted(into, np.arange(placed.groups), side="right") - 1
    end = cell[last]
    taken = np.concatenate([[0.0], np.cumsum(share)])
    part = np.clip(taken[last + 1] - taken[np.searchsorted(cell, end)], 0.0, used[end])
    before = np.maximum(end - 1, 0)
    ahead = np.where(end > 0, steps[before] + np.abs(used[before] - part) * deviations[before], 0.0)
    return np.asarray(ahead + part * deviations[end])


BETA = 0.05
FREE = "Read off a synopsis, at no further charge."
CUT = "Cells that the question cuts were spread evenly."


@dataclass(frozen=True, eq=False)
class Pieces:
    """One attribute cut by a question: for each piece its synopsis cell, its share of it, and one of its values."""

    cell: Ints
    share: Floats
    code: Ints


def read(kept: Artefact, asked: Query, beta: float = BETA) -> Answer:
    """The answer to a question over the attributes of the synopsis."""
    compiled = _compiled(kept, asked)
    pieces = [_pieces(axis, compiled.cells.cuts) for axis in kept.axes]
    counts, noise = _placed(kept, compiled, pieces)
    raw = np.asarray(compiled.problem.workload.dot(counts))
    widths = noise_widths(noise.variances_of(compiled.problem.workload), beta)
    if asked.kind in STATISTICS:
        found = read_statistic(compiled, raw, widths, None)
        values, consistent, together = found.values, found.consistent, found.together
        widths = found.widths
    else:
        values, consistent, together = raw, consistent_answers(compiled, raw, widths, None), None
    is_cut = any(np.any(piece.share < 1.0) for piece in pieces)
    return Answer(
        kind=asked.kind,
        title=question_words(asked),
        tables=statistic_tables(compiled) if asked.kind in STATISTICS else answer_tables(compiled),
        raw=values,
        consistent=consistent,
        widths=widths,
        beta=beta,
        mechanism=kept.mechanism,
        certificate=kept.certificate,
        dataset=kept.dataset,
        policy_version=kept.policy_version,
        protected=kept.protected,
        unprotected=kept.unprotected,
        released=kept.released,
        version=kept.version,
        simultaneous=together,
        pointwise=together,
        stages=kept.stages,
        caveat=" ".join(part for part in (FREE, kept.caveat, CUT if is_cut else "") if part),
    )


def answer_variances(kept: Artefact, asked: Query) -> Floats:
    """Bounds on the variance of the noise in each answer to a question, whatever the counts are."""
    compiled = _compiled(kept, asked)
    _, noise = _placed(kept, compiled, [_pieces(axis, compiled.cells.cuts) for axis in kept.axes])
    return noise.variances_of(compiled.problem.workload)


def _compiled(kept: Artefact, asked: Query) -> Compiled:
    return compile_query(kept.domain, Policy({name: public() for name in kept.domain}), asked)


def _pieces(axis: SynopsisAxis, cuts: Mapping[str, Segments]) -> Pieces:
    """The attribute of the axis, cut where the synopsis or the question cuts it."""
    own = axis.cells.segments
    starts = np.union1d(own.starts, cuts[axis.name].starts) if axis.name in cuts else own.starts
    lengths = np.diff(np.append(starts, own.attribute.size))
    slots = np.array([slot.code for slot in own.slots], dtype=np.int64)
    codes = np.concatenate([starts, slots]).astype(np.int64)
    sizes = np.concatenate([lengths, np.ones(slots.size)])
    cell = axis.cells.cell_of[own.of(codes)]
    counts = cell >= 0
    cell, sizes, codes = cell[counts], sizes[counts], codes[counts]
    if axis.name not in cuts:
        first = np.unique(cell, return_index=True)[1]
        return Pieces(cell[first], np.ones(first.size), codes[first])
    return Pieces(cell, sizes / np.bincount(cell, weights=sizes)[cell], codes)


def _placed(kept: Artefact, compiled: Compiled, pieces: list[Pieces]) -> tuple[Floats, SummedNoise]:
    """What falls into each cell of the question: the count, and the noise."""
    sizes = [piece.cell.size for piece in pieces]
    place = np.ravel_multi_index(np.ix_(*(piece.cell for piece in pieces)), kept.shape)
    share = np.ones(sizes)
    columns = {}
    for number, (axis, piece) in enumerate(zip(kept.axes, pieces, strict=True)):
        along = [-1 if other == number else 1 for other in range(len(sizes))]
        share = share * piece.share.reshape(along)
        columns[axis.name] = np.broadcast_to(piece.code.reshape(along), sizes).reshape(-1)
    into = compiled.cells.cell_of(columns) if compiled.cells.attributes else np.zeros(share.size, dtype=np.int64)
    used = into >= 0
    placed = Placed(place.reshape(-1)[used], share.reshape(-1)[used], into[used], compiled.problem.graph.cells)
    return placed.summed(kept.counts), summed_noise(kept.noise, placed)


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
        said = [element("p", {"style": "margin:6px 0 0"}, escaped(line)) for line in self.notes()]
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


def preview_synopsis(handle: DatasetHandle, ready: PreparedSynopsis, left: Fraction | None = None) -> SynopsisPreview:
    """The preview of a synopsis that was laid out, for somebody who has so much left."""
    asked, outline = ready.inner.compiled.query, ready.outline()
    return SynopsisPreview(
        dataset=handle.name,
        title=question_words(asked),
        cells=math.prod(axis.cells.cells for axis in ready.axes()),
        epsilon=ready.epsilon,
        mechanism=ready.mechanism,
        errors=() if outline is None else tuple(_error(outline, one) for one in _usual_questions(asked, outline)),
        unprotected=not_protected(handle.domain, handle.policy),
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
