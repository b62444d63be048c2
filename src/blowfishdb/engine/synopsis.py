"""Synopsis: noisy counts that were paid for once and can be asked for ever; the value, its file and its answers."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import eye_array

from blowfishdb.accuracy.candidates import AnswerGuarantee
from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.engine.answer import Answer, read_axis, read_certificate, read_parameters, read_stage
from blowfishdb.engine.compile import (
    MOST_ANSWERS,
    Compiled,
    Compute,
    DatasetHandle,
    compile_query,
    compute_here,
    query_effort,
)
from blowfishdb.engine.infer import infer, told_by_parts
from blowfishdb.engine.preview import Way
from blowfishdb.engine.request import AccuracyTarget, write_query, write_settings
from blowfishdb.errors import BlowfishError, DocumentError, InvalidInput, QueryError, TooLarge
from blowfishdb.inference.consistency import NO_CONSTRAINED_ANSWERS, ConstrainedAnswers
from blowfishdb.ledger import Ledger
from blowfishdb.mechanisms.parameters import ParameterValues
from blowfishdb.mechanisms.strategy import squared
from blowfishdb.model.arguments import checked
from blowfishdb.model.cells import NO_PART, Cells, ConstrainedParts, compile_cells
from blowfishdb.model.document import read_attribute, write_attribute
from blowfishdb.model.domain import Domain
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy, public
from blowfishdb.model.predicate import Axis
from blowfishdb.model.query import COUNTS, Query, Questions
from blowfishdb.model.serialize import Field, Fields
from blowfishdb.model.workload import Intervals, Rows, Sparse, as_intervals
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import Allowance
from blowfishdb.present.answer_values import CUT, AnswerAxis, software_version
from blowfishdb.present.export import free_name, written
from blowfishdb.present.words import read_counted

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class SynopsisAxis:
    """One attribute of a synopsis: its cells as runs of declared values, and their labels."""

    cells: AxisCells
    shown: AnswerAxis

    def __post_init__(self) -> None:
        if len(self.shown.labels) != self.cells.cells or self.shown.plain != self.cells.plain:
            raise InvalidInput(f"{self.shown.name}: {len(self.shown.labels)} labels for {self.cells.cells} cells")

    @property
    def name(self) -> str:
        """The attribute."""
        return self.shown.name


@dataclass(frozen=True, eq=False)
class CellNoise:
    """What noise does to each cell, and how far cells share it.

    `deviations` are the standard deviations of the counts, each with how far its count was moved afterwards added.
    Cells with the same number in `blocks` were measured together; `alone` is the deviation that each cell would have if
    the measurement of its block were all that is known, infinite where there is none. These measurements are
    independent from block to block. `running` are the deviations of the totals of the first 1, 2, ... cells, infinite
    where they are not known.
    """

    deviations: Floats
    blocks: Ints
    alone: Floats
    running: Floats

    def __post_init__(self) -> None:
        if not self.deviations.shape == self.blocks.shape == self.alone.shape == self.running.shape:
            raise InvalidInput("every cell has a deviation, a block, and deviations of block and running total")
        of_sums = np.concatenate([self.alone, self.running])
        if not np.all(np.isfinite(self.deviations)) or np.any(self.deviations < 0) or not np.all(of_sums >= 0):
            raise InvalidInput("deviations are not negative")
        if self.blocks.size and not 0 <= int(self.blocks.min()) <= int(self.blocks.max()) < self.blocks.size:
            raise InvalidInput("blocks are numbered from 0")


@dataclass(frozen=True, eq=False)
class Artefact:
    """What a synopsis file holds; everything in it is public.

    `counts` estimates each cell (row-major over the axes) and may be negative; `noise` is in them. `known` are totals
    of cells that no hidden move changes, exact. `caveat` says what its intervals leave out.
    """

    title: str
    axes: tuple[SynopsisAxis, ...]
    counts: Floats
    noise: CellNoise
    mechanism: str
    certificate: Certificate
    stages: tuple[Allowance, ...] = ()
    parameters: ParameterValues = ()
    caveat: str = ""
    dataset: str = ""
    policy_version: int | None = None
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    released: str = ""
    version: str = ""
    known: ConstrainedParts | None = None
    counted: str = ""

    def __post_init__(self) -> None:
        if not self.axes:
            raise InvalidInput("a synopsis has at least one attribute")
        size = math.prod(self.shape)
        if self.counts.shape != (size,) or self.noise.deviations.shape != (size,):
            raise InvalidInput(f"a synopsis of {size} cells has as many counts and deviations")
        if not np.all(np.isfinite(self.counts)):
            raise InvalidInput("the counts of a synopsis are finite numbers")
        if self.known is not None and self.known.labels.shape != (size,):
            raise InvalidInput(f"a synopsis of {size} cells has as many labels of parts")
        if not self.version:
            object.__setattr__(self, "version", software_version())

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return tuple(axis.cells.cells for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def domain(self) -> Domain:
        """What is declared of the attributes."""
        return Domain(tuple((axis.name, axis.cells.segments.attribute) for axis in self.axes))

    @property
    def epsilon(self) -> Fraction:
        """What it cost, once."""
        return self.certificate.epsilon

    def digest(self) -> str:
        """A hash of the counts and of the proof; synthetic rows are drawn from it."""
        whole = hashlib.sha256(self.certificate.plan_digest.encode())
        whole.update(self.counts.astype("<f8").tobytes())
        if self.known is not None:
            whole.update(self.known.labels.astype("<i8").tobytes() + self.known.totals.astype("<i8").tobytes())
        return whole.hexdigest()


SCHEMA = "blowfishdb-synopsis/1"
KEY = b"blowfishdb"
DAMAGES = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError)
MOST_CELLS = 2**21
DAMAGED = "the synopsis is incomplete or damaged; ask for the file again"


def to_bytes(artefact: Artefact) -> bytes:
    """The file: one column of labels per attribute, then counts and their noise."""
    import pyarrow as pa
    from pyarrow import parquet

    labels = np.indices(artefact.shape).reshape(len(artefact.shape), -1)
    columns: dict[str, object] = {
        axis.name: pa.DictionaryArray.from_arrays(pa.array(place, pa.int32()), pa.array(axis.shown.labels))
        for axis, place in zip(artefact.axes, labels, strict=True)
    }
    taken = set(columns)
    columns[free_name("count", taken)] = pa.array(artefact.counts)
    columns[free_name("deviation", taken)] = pa.array(artefact.noise.deviations)
    columns[free_name("block", taken)] = pa.array(artefact.noise.blocks, pa.int64())
    columns[free_name("block_deviation", taken)] = pa.array(artefact.noise.alone)
    columns[free_name("running_deviation", taken)] = pa.array(artefact.noise.running)
    if artefact.known is not None:
        columns[free_name("part", taken)] = pa.array(artefact.known.labels, pa.int64())
    table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(_description(artefact), ensure_ascii=False)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def from_bytes(content: bytes) -> Artefact:
    """The synopsis that to_bytes wrote; DocumentError for anything else."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        description = json.loads((file.schema_arrow.metadata or {})[KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError):
        raise DocumentError("this is not a synopsis: it was not written by BlowfishDB, or it is damaged") from None
    if not isinstance(description, dict) or description.get("schema") != SCHEMA:
        raise DocumentError(f"this is not a synopsis in the form {SCHEMA!r}", path="schema")
    try:
        fields = Field(description, "the synopsis", DocumentError).fields()
        totals = fields.optional("totals", lambda totals: totals.each(Field.whole))
        artefact = _read_artefact(fields, *_numbers(file, totals))
    except BlowfishError as error:
        raise DocumentError(f"{DAMAGED}: {error}") from None
    except (*DAMAGES, pa.ArrowException, OSError):
        raise DocumentError(DAMAGED) from None
    if artefact.digest() != description.get("digest"):
        raise DocumentError("the counts of this synopsis are not those that were released: it was changed")
    return artefact


def _numbers(file: Any, totals: tuple[int, ...] | None) -> tuple[Floats, CellNoise, ConstrainedParts | None]:
    """Counts, noise and parts with their totals, the last columns; a small file may claim to hold too much."""
    import pyarrow as pa

    if file.metadata.num_rows > MOST_CELLS:
        raise TooLarge("cells of a synopsis", file.metadata.num_rows, MOST_CELLS, "Ask for another file.")
    types = [pa.float64(), pa.float64(), pa.int64(), pa.float64(), pa.float64()]
    types += [] if totals is None else [pa.int64()]
    last = list(file.schema_arrow)[-len(types) :]
    if [field.type for field in last] != types:
        raise ValueError("counts and deviations are doubles, blocks and parts are whole numbers")
    read = file.read(columns=[field.name for field in last])
    if any(column.null_count for column in read.columns):
        raise ValueError("every cell has all its numbers")
    counts, deviations, blocks, alone, running, *parts = (np.asarray(column) for column in read.columns)
    noise = CellNoise(deviations, blocks, alone, running)
    if totals is None:
        return counts, noise, None
    (labels,) = parts
    if np.any(labels < NO_PART) or np.any(labels >= len(totals)) or min(totals, default=0) < 0:
        raise ValueError("a cell is in one of the parts, or in none")
    return counts, noise, ConstrainedParts(labels, np.array(totals, dtype=np.int64))


def _description(artefact: Artefact) -> dict[str, Any]:
    proof = artefact.certificate
    return {
        "schema": SCHEMA,
        "title": artefact.title,
        "dataset": artefact.dataset,
        "policy_version": artefact.policy_version,
        "released": artefact.released,
        "version": artefact.version,
        "mechanism": artefact.mechanism,
        "epsilon": str(artefact.epsilon),
        "stages": [[allowance.stage, str(allowance.epsilon)] for allowance in artefact.stages],
        **({"parameters": write_settings(artefact.parameters)} if artefact.parameters else {}),
        "caveat": artefact.caveat,
        "protected": list(artefact.protected),
        "unprotected": list(artefact.unprotected),
        "plan_digest": proof.plan_digest,
        "graph_digest": proof.graph_digest,
        "witness": None if proof.witness is None else list(proof.witness),
        "is_tight": proof.is_tight,
        "together": proof.constraint_note,
        "axes": [_axis(axis) for axis in artefact.axes],
        "digest": artefact.digest(),
        **({} if artefact.known is None else {"totals": artefact.known.totals.tolist()}),
        **({"counted": artefact.counted} if artefact.counted else {}),
    }


def _axis(axis: SynopsisAxis) -> dict[str, Any]:
    cells, shown = axis.cells, axis.shown
    return {
        "name": shown.name,
        "attribute": write_attribute(cells.segments.attribute),
        "starts": cells.segments.starts.tolist(),
        "cell_of": cells.cell_of.tolist(),
        "plain": shown.plain,
        "labels": list(shown.labels),
        "edges": list(shown.edges),
        "in_days": shown.in_days,
    }


def _read_artefact(content: Fields, counts: Floats, noise: CellNoise, known: ConstrainedParts | None) -> Artefact:
    return Artefact(
        title=content["title"].text(),
        axes=content["axes"].each(_read_axis),
        counts=counts,
        noise=noise,
        mechanism=content["mechanism"].text(),
        certificate=read_certificate(content),
        stages=content["stages"].each(read_stage),
        parameters=content.optional("parameters", read_parameters) or (),
        caveat=content["caveat"].text(),
        dataset=content["dataset"].text(),
        policy_version=content["policy_version"].optional(Field.whole),
        protected=content["protected"].texts(),
        unprotected=content["unprotected"].texts(),
        released=content["released"].text(),
        version=content["version"].text(),
        known=known,
        counted=read_counted(content.optional("counted", Field.text) or ""),
    )


def _read_axis(axis: Field) -> SynopsisAxis:
    fields = axis.fields()
    attribute = read_attribute({name: field.value for name, field in fields["attribute"].fields().items()})
    cell_of, starts = (np.array(fields[key].each(Field.whole), dtype=np.int64) for key in ("cell_of", "starts"))
    if starts.size == 0 or starts[0] != 0 or np.any(np.diff(starts) < 1) or starts[-1] >= attribute.size:
        raise axis.wrong("segments follow each other from the first value on")
    segments = Segments(attribute, starts)
    if cell_of.shape != (segments.count,) or cell_of.min() < -1:
        raise axis.wrong("there is a cell for each segment")
    shown = read_axis(axis)
    if not np.all(np.isfinite(shown.edges)):
        raise axis.wrong("edges are finite")
    return SynopsisAxis(AxisCells(segments, cell_of, shown.plain, int(cell_of.max()) + 1), shown)


@dataclass(frozen=True, eq=False)
class Placed:
    """Pieces of synopsis cells as a question groups them: the cell, its share in the piece, the question's cell.

    `pieces` is into how many pieces each cell of the synopsis is cut, those that the question leaves out included.
    """

    cell: Ints
    share: Floats
    into: Ints
    groups: int
    pieces: Ints

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
    cell, member = np.divmod(pair, blocks)
    reached = np.bincount(member, minlength=blocks)[member]
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


MOST_OFFERED = 8
"""The number of the newest synopses that are looked at for one that answers a question."""
BETA = 0.05
FREE = "Read off a synopsis, at no further charge."


@dataclass(frozen=True, eq=False)
class AxisPieces:
    """One attribute cut by a question: for each piece its synopsis cell, its share of it, and one of its values."""

    cell: Ints
    share: Floats
    code: Ints


def read(artefact: Artefact, query: Query, beta: float = BETA) -> Answer:
    """The answer to a question over the attributes of the synopsis."""
    compiled = _compiled(artefact, query)
    compiled.check_answers(max(MOST_ANSWERS, artefact.counts.size))
    pieces = [_pieces(axis, compiled.cells.cuts) for axis in artefact.axes]
    placed = _placed(artefact, compiled, pieces)
    raw = np.asarray(compiled.problem.workload.dot(placed.summed(artefact.counts)))
    told = _told(artefact, compiled, placed, compiled.problem.workload)
    raw[told.places] = told.values
    widths = noise_widths(_variances(artefact, compiled, placed, told), beta)
    (total,) = _told(artefact, compiled, placed, _everything(placed)).values.tolist() or [None]
    is_cut = any(np.any(piece.share < 1.0) for piece in pieces)
    return replace(
        infer(compiled, raw, widths, total, beta, artefact.mechanism, artefact.certificate),
        dataset=artefact.dataset,
        policy_version=artefact.policy_version,
        protected=artefact.protected,
        unprotected=artefact.unprotected,
        released=artefact.released,
        version=artefact.version,
        stages=artefact.stages,
        parameters=artefact.parameters,
        caveat=" ".join(part for part in (FREE, artefact.caveat, CUT if is_cut else "") if part),
        counted=artefact.counted,
        question=write_query(query),
    )


def read_json(artefact: Artefact, query: Query, beta: float) -> str:
    """The answer as JSON."""
    return read(artefact, query, beta).to_json()


def answer_variances(artefact: Artefact, query: Query) -> Floats:
    """Bounds on the variance of the noise in each answer to a question, whatever the counts are."""
    compiled = _compiled(artefact, query)
    placed = _placed(artefact, compiled, [_pieces(axis, compiled.cells.cuts) for axis in artefact.axes])
    return _variances(artefact, compiled, placed, _told(artefact, compiled, placed, compiled.problem.workload))


def promised(artefact: Artefact, query: Query, beta: float, guarantee: AnswerGuarantee) -> float | None:
    """How far off the answers to a question are at most; None where the question cuts cells, or bias is not covered."""
    if artefact.caveat or query.kind not in COUNTS:
        return None
    compiled = _compiled(artefact, query)
    pieces = [_pieces(axis, compiled.cells.cuts) for axis in artefact.axes]
    if any(np.any(piece.share < 1.0) for piece in pieces):
        return None
    placed = _placed(artefact, compiled, pieces)
    told = _told(artefact, compiled, placed, compiled.problem.workload)
    widths = noise_widths(_variances(artefact, compiled, placed, told), beta)
    return widths.simultaneous if guarantee == "simultaneous" else float(widths.per_answer.max(initial=0.0))


def synopsis_ways(ledger: Ledger, handle: DatasetHandle, query: Query, target: AccuracyTarget) -> tuple[Way, ...]:
    """The published synopses of the versions in force that answer a question as accurately as asked, for nothing."""
    if target.alpha is None or target.mechanism is not None or target.fresh:
        return ()
    ways, versions = list[Way](), (handle.policy_version, handle.domain_version, handle.snapshot)
    for receipt, _ in ledger.synopses(handle.account, MOST_OFFERED):
        charge = receipt.charge
        if (charge.policy_version, charge.domain_version, charge.snapshot) != versions:
            continue
        try:
            payload = ledger.answer_for(receipt)
            alpha = (
                None if payload is None else promised(from_bytes(payload), query, float(target.beta), target.guarantee)
            )
        except BlowfishError:
            # It has other attributes, or the note that it failed is all there is.
            continue
        if alpha is not None and alpha <= target.alpha:
            title = str(json.loads(charge.certificate)["question"])
            ways.append(Way("synopsis", Fraction(0), alpha, (receipt.sequence,), title))
    return tuple(ways)


def _variances(artefact: Artefact, compiled: Compiled, placed: Placed, told: ConstrainedAnswers) -> Floats:
    variances = summed_noise(artefact.noise, placed).variances_of(compiled.problem.workload)
    variances[told.places] = 0.0
    return variances


def _told(artefact: Artefact, compiled: Compiled, placed: Placed, rows: Rows) -> ConstrainedAnswers:
    """The answers that the known totals of the synopsis tell exactly; none for sums and means."""
    if artefact.known is None or compiled.measure is not None:
        return NO_CONSTRAINED_ANSWERS
    return told_by_parts(artefact.known, rows, placed.cell, placed.into, placed.pieces)


def _everything(placed: Placed) -> Rows:
    """The row that counts all cells of the question."""
    return Intervals(placed.groups, np.zeros(1, dtype=np.int64), np.full(1, placed.groups))


def _compiled(artefact: Artefact, query: Query) -> Compiled:
    unknown = [axis.attribute for axis in query.axes if axis.attribute not in artefact.names]
    if unknown:
        raise QueryError(f"{unknown[0]} is not in this synopsis; it has {', '.join(artefact.names)}")
    return compile_query(artefact.domain, Policy({name: public() for name in artefact.domain}), query)


def _pieces(axis: SynopsisAxis, cuts: Mapping[str, Segments]) -> AxisPieces:
    """The attribute of the axis, cut where the synopsis or the question cuts it."""
    segments = axis.cells.segments
    starts = np.union1d(segments.starts, cuts[axis.name].starts) if axis.name in cuts else segments.starts
    lengths = np.diff(np.append(starts, segments.attribute.size))
    slots = np.array([slot.code for slot in segments.slots], dtype=np.int64)
    codes = np.concatenate([starts, slots]).astype(np.int64)
    sizes = np.concatenate([lengths, np.ones(slots.size)])
    cell = axis.cells.cell_of[segments.of(codes)]
    counts = cell >= 0
    cell, sizes, codes = cell[counts], sizes[counts], codes[counts]
    if axis.name not in cuts:
        first = np.unique(cell, return_index=True)[1]
        return AxisPieces(cell[first], np.ones(first.size), codes[first])
    return AxisPieces(cell, sizes / np.bincount(cell, weights=sizes)[cell], codes)


def _placed(artefact: Artefact, compiled: Compiled, pieces: list[AxisPieces]) -> Placed:
    """What falls into each cell of the question."""
    sizes = [piece.cell.size for piece in pieces]
    place = np.ravel_multi_index(np.ix_(*(piece.cell for piece in pieces)), artefact.shape)
    share = np.ones(sizes)
    columns = {}
    for number, (axis, piece) in enumerate(zip(artefact.axes, pieces, strict=True)):
        along = [-1 if other == number else 1 for other in range(len(sizes))]
        share = share * piece.share.reshape(along)
        columns[axis.name] = np.broadcast_to(piece.code.reshape(along), sizes).reshape(-1)
    into = compiled.cells.cell_of(columns) if compiled.cells.attributes else np.zeros(share.size, dtype=np.int64)
    used = into >= 0
    cell = place.reshape(-1)
    cut_into = np.bincount(cell, minlength=artefact.counts.size)
    return Placed(cell[used], share.reshape(-1)[used], into[used], compiled.problem.graph.cells, cut_into)


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class Synopsis(Questions[Answer]):
    """Noisy counts over some attributes. Every answer is computed from them alone."""

    artefact: Artefact = field(repr=False)
    compute: Compute = field(default=compute_here, repr=False, kw_only=True)

    @property
    def domain(self) -> Domain:
        """What is declared of its attributes."""
        return self.artefact.domain

    @property
    def epsilon(self) -> Fraction:
        """What it cost, once."""
        return self.artefact.epsilon

    def __repr__(self) -> str:
        shape, counted = " x ".join(f"{size:,}" for size in self.artefact.shape), self.artefact.counted
        cells = f"{shape} {'cell' if shape == '1' else 'cells'}{f', {counted}' if counted else ''}"
        return (
            f"<Synopsis of {self.artefact.dataset}{self._filter_words()}: {', '.join(self.artefact.names)} "
            f"({cells}), epsilon {self.epsilon} by {self.artefact.mechanism}; asking it is free>"
        )

    def share(self, of: int) -> float:
        """The count as a part of a number that is public, such as the size of the whole population."""
        if isinstance(of, bool) or not isinstance(of, int) or of < 1:
            raise InvalidInput("a share is of a public whole number, at least 1")
        return float(self.count().values[0]) / of

    def answer(self, query: Query, beta: float = BETA) -> Answer:
        """The answer to any question over the attributes, with intervals for the noise at beta."""
        return self.compute(lambda: self._effort(query), read, self.artefact, query, beta)

    def answer_json(self, query: Query, beta: float = BETA) -> str:
        """The same as JSON: of a large answer the text travels, and not the numbers."""
        return self.compute(lambda: self._effort(query), read_json, self.artefact, query, beta)

    def _effort(self, query: Query) -> int:
        """Every cell of the synopsis is looked at, and every cell and answer of the question."""
        hidden_from_nobody = Policy({name: public() for name in self.domain})
        return self.artefact.counts.size + query_effort(self.domain, hidden_from_nobody, query)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per cell: labels, count, low, high."""
        return self.histogram(*self.artefact.names).to_pandas()

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the file that `open_synopsis` reads; any Parquet tool opens it as well."""
        with written(path) as where:
            where.write_bytes(to_bytes(self.artefact))
        return where

    def _ask(self, query: Query) -> Answer:
        return self.answer(query)

    def _cells(self, axes: tuple[Axis, ...]) -> Cells:
        return compile_cells(self.domain, Policy({}), axes, self.filter)


@checked()
def open_synopsis(path: str | PathLike[str]) -> Synopsis:
    """The synopsis in a file; DocumentError when it is none, or was changed."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"the file {path} cannot be read: {error.strerror or 'no such file'}") from None
    return Synopsis(from_bytes(content))
