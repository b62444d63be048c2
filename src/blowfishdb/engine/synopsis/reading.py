"""Answers read off a synopsis: any question over its attributes, with no data and no charge.

A cell that a question cuts is spread evenly over its declared values. Everything here is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blowfishdb.accuracy.noise_widths import noise_widths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import Compiled, compile_query
from blowfishdb.engine.labels import answer_tables
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.release import consistent_answers
from blowfishdb.engine.statistics import STATISTICS, read_statistic, statistic_tables
from blowfishdb.engine.synopsis.artefact import Artefact, SynopsisAxis
from blowfishdb.engine.synopsis.summed_noise import Placed, SummedNoise, summed_noise
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.graphs.families import public
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.model.segments import Segments

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
        together=together,
        alone=together,
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
