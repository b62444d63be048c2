"""Private tables that are paid for once and can be asked for ever: the request, the file and the values."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.answer import Answer, described
from blowfishdb.engine.compile import DatasetHandle, cell_axes, compile_query
from blowfishdb.engine.program import PreparedProgram, prepare_program
from blowfishdb.engine.release import finish
from blowfishdb.engine.request import MOST_CELLS, Prepared, Request, check_size, chosen, prepare
from blowfishdb.engine.serialize import request_text, write_query
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import AccuracyError, BlowfishError, DocumentError, InvalidInput, QueryError, TooLarge
from blowfishdb.mechanisms.cell_noise import own_variances, running_variances
from blowfishdb.mechanisms.data_aware.script import Finding
from blowfishdb.model.domain import Domain
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Floats, Ints, exact
from blowfishdb.model.query import Query
from blowfishdb.model.serialize import read_attribute, write_attribute
from blowfishdb.model.workload import Intervals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Allowance
from blowfishdb.present.released import AnswerAxis, software_version
from blowfishdb.present.table import free_name
from blowfishdb.sources.base import Counting


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

    `deviations` are the standard deviations of the counts. Cells with the same number in `blocks` were measured
    together; `alone` is the deviation that each cell would have if the measurement of its block were all that is known,
    infinite where there is none. These measurements are independent from block to block. `running` are the deviations
    of the totals of the first 1, 2, ... cells, infinite where they are not known.
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

    `counts` estimates each cell (row-major over the axes) and may be negative; `noise` is in them. `caveat` says what
    its intervals leave out.
    """

    title: str
    axes: tuple[SynopsisAxis, ...]
    counts: Floats
    noise: CellNoise
    mechanism: str
    certificate: Certificate
    stages: tuple[Allowance, ...]
    caveat: str
    dataset: str
    policy_version: int | None
    protected: tuple[str, ...]
    unprotected: tuple[str, ...]
    released: str
    version: str = ""

    def __post_init__(self) -> None:
        if not self.axes:
            raise InvalidInput("a synopsis has at least one attribute")
        size = math.prod(self.shape)
        if self.counts.shape != (size,) or self.noise.deviations.shape != (size,):
            raise InvalidInput(f"a synopsis of {size} cells has as many counts and deviations")
        if not np.all(np.isfinite(self.counts)):
            raise InvalidInput("the counts of a synopsis are finite numbers")
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
        return whole.hexdigest()


SCHEMA = "blowfishdb-synopsis/1"
KEY = b"blowfishdb"
DAMAGES = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError)
DAMAGED = "the synopsis is incomplete or damaged; ask for the file again"


def to_bytes(kept: Artefact) -> bytes:
    """The file: one column of labels per attribute, then counts and their noise."""
    import pyarrow as pa
    from pyarrow import parquet

    labels = np.indices(kept.shape).reshape(len(kept.shape), -1)
    columns: dict[str, object] = {
        axis.name: pa.DictionaryArray.from_arrays(pa.array(place, pa.int32()), pa.array(axis.shown.labels))
        for axis, place in zip(kept.axes, labels, strict=True)
    }
    taken = set(columns)
    columns[free_name("count", taken)] = pa.array(kept.counts)
    columns[free_name("deviation", taken)] = pa.array(kept.noise.deviations)
    columns[free_name("block", taken)] = pa.array(kept.noise.blocks, pa.int64())
    columns[free_name("block_deviation", taken)] = pa.array(kept.noise.alone)
    columns[free_name("running_deviation", taken)] = pa.array(kept.noise.running)
    table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(_description(kept), ensure_ascii=False)})
    written = io.BytesIO()
    parquet.write_table(table, written, compression="zstd")
    return written.getvalue()


def from_bytes(content: bytes) -> Artefact:
    """The synopsis that to_bytes wrote; DocumentError for anything else."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        written = json.loads((file.schema_arrow.metadata or {})[KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError):
        raise DocumentError("this is no synopsis: it was not written by BlowfishDB, or it is damaged") from None
    if not isinstance(written, dict) or written.get("schema") != SCHEMA:
        raise DocumentError(f"this is no synopsis in the form {SCHEMA!r}", path="schema")
    try:
        kept = _read_artefact(written, *_numbers(file))
    except BlowfishError as error:
        raise DocumentError(f"{DAMAGED}: {error}") from None
    except (*DAMAGES, pa.ArrowException, OSError):
        raise DocumentError(DAMAGED) from None
    if kept.digest() != written.get("digest"):
        raise DocumentError("the counts of this synopsis are not those that were released: it was changed")
    return kept


def _numbers(file: Any) -> tuple[Floats, CellNoise]:
    """Counts and noise, the last five columns; a small file may claim to hold more than any memory does."""
    import pyarrow as pa

    if file.metadata.num_rows > MOST_CELLS:
        raise TooLarge("cells of a synopsis", file.metadata.num_rows, MOST_CELLS, "Ask for another file.")
    last = list(file.schema_arrow)[-5:]
    if [field.type for field in last] != [pa.float64(), pa.float64(), pa.int64(), pa.float64(), pa.float64()]:
        raise ValueError("counts and deviations are doubles, blocks are whole numbers")
    read = file.read(columns=[field.name for field in last])
    if any(column.null_count for column in read.columns):
        raise ValueError("every cell has all its numbers")
    counts, deviations, blocks, alone, running = (np.asarray(column) for column in read.columns)
    return counts, CellNoise(deviations, blocks, alone, running)


def _description(kept: Artefact) -> dict[str, Any]:
    proof = kept.certificate
    return {
        "schema": SCHEMA,
        "title": kept.title,
        "dataset": kept.dataset,
        "policy_version": kept.policy_version,
        "released": kept.released,
        "version": kept.version,
        "mechanism": kept.mechanism,
        "epsilon": str(kept.epsilon),
        "stages": [[allowance.stage, str(allowance.epsilon)] for allowance in kept.stages],
        "caveat": kept.caveat,
        "protected": list(kept.protected),
        "unprotected": list(kept.unprotected),
        "plan_digest": proof.plan_digest,
        "graph_digest": proof.graph_digest,
        "witness": None if proof.witness is None else list(proof.witness),
        "is_tight": proof.is_tight,
        "together": proof.constraint_note,
        "axes": [_axis(axis) for axis in kept.axes],
        "digest": kept.digest(),
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


def _read_artefact(written: Mapping[str, Any], counts: Floats, noise: CellNoise) -> Artefact:
    witness = written["witness"]
    return Artefact(
        title=str(written["title"]),
        axes=tuple(_read_axis(axis) for axis in written["axes"]),
        counts=counts,
        noise=noise,
        mechanism=str(written["mechanism"]),
        certificate=Certificate(
            epsilon=exact(written["epsilon"], "epsilon"),
            witness=None if witness is None else (int(witness[0]), int(witness[1])),
            is_tight=bool(written["is_tight"]),
            plan_digest=str(written["plan_digest"]),
            graph_digest=str(written["graph_digest"]),
            constraint_note=str(written.get("together", "")),
        ),
        stages=tuple(Allowance(str(stage), exact(own, "epsilon")) for stage, own in written["stages"]),
        caveat=str(written["caveat"]),
        dataset=str(written["dataset"]),
        policy_version=None if written["policy_version"] is None else int(written["policy_version"]),
        protected=tuple(map(str, written["protected"])),
        unprotected=tuple(map(str, written["unprotected"])),
        released=str(written["released"]),
        version=str(written["version"]),
    )


def _read_axis(written: Mapping[str, Any]) -> SynopsisAxis:
    attribute = read_attribute(written["attribute"])
    cell_of = np.array(written["cell_of"], dtype=np.int64)
    starts = np.array(written["starts"], dtype=np.int64)
    if starts.ndim != 1 or starts[0] != 0 or np.any(np.diff(starts) < 1) or starts[-1] >= attribute.size:
        raise ValueError("segments follow each other from the first value on")
    segments = Segments(attribute, starts)
    if cell_of.shape != (segments.count,) or cell_of.min() < -1:
        raise ValueError("a cell for each segment")
    labels, edges = tuple(map(str, written["labels"])), tuple(map(float, written["edges"]))
    if not all(map(math.isfinite, edges)):
        raise ValueError("edges are finite")
    shown = AnswerAxis(str(written["name"]), labels, int(written["plain"]), edges, bool(written["in_days"]))
    return SynopsisAxis(AxisCells(segments, cell_of, shown.plain, int(cell_of.max()) + 1), shown)


RANGES = 0.15


@dataclass(frozen=True, eq=False)
class PreparedSynopsis:
    """A histogram whose cells will be published for ever; no data was read."""

    inner: Prepared | PreparedProgram

    @property
    def epsilon(self) -> Fraction:
        """What it costs, once."""
        return self.inner.epsilon

    @property
    def digest(self) -> str:
        """The plan or program that a receipt covers."""
        return self.inner.digest

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return self.inner.digest_1()

    @property
    def mechanism(self) -> str:
        """What measures the cells."""
        inner = self.inner
        return inner.program.mechanism if isinstance(inner, PreparedProgram) else inner.best.mechanism

    def axes(self) -> tuple[SynopsisAxis, ...]:
        """The attributes of the file."""
        cells = self.inner.compiled.cells
        return tuple(SynopsisAxis(cells.layout[shown.name], shown) for shown in cell_axes(cells))

    def outline(self) -> Artefact | None:
        """The file to come with its noise and no counts; None where its noise depends on the data."""
        inner = self.inner
        if isinstance(inner, PreparedProgram):
            return None
        noise = _noise_of_plan(inner.best, is_one_axis=len(inner.compiled.cells.axes) == 1)
        return Artefact(
            title="",
            axes=self.axes(),
            counts=np.zeros(noise.deviations.size),
            noise=noise,
            mechanism=self.mechanism,
            certificate=inner.best.certificate,
            stages=(),
            caveat="",
            dataset="",
            policy_version=None,
            protected=(),
            unprotected=(),
            released="",
        )

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        return {**self.inner.document(), "synopsis": True}

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the cells."""
        return self.inner.counting(handle)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished file."""
        answer, cells, noise = self._measured(counts)
        answer = described(answer, handle, self.inner.compiled)
        return to_bytes(_make_artefact(answer, cells, noise, self.axes()))

    def _measured(self, counts: Ints) -> tuple[Answer, Floats, CellNoise]:
        inner = self.inner
        if isinstance(inner, PreparedProgram):
            found = inner.run(counts).of_cells()
            return inner.answer(found), found.cells, _noise_of_finding(found)
        answer = finish(inner.outline, counts)
        return answer, answer.raw, _noise_of_plan(inner.best, is_one_axis=len(inner.compiled.cells.axes) == 1)


def _noise_of_finding(found: Finding) -> CellNoise:
    shares = np.bincount(found.buckets)[found.buckets]
    unknown = np.full(shares.size, np.inf)
    alone = unknown if found.own is None else np.sqrt(found.own)[found.buckets] / shares
    running = unknown if found.running is None else np.sqrt(found.running())
    return CellNoise(np.sqrt(found.variances), found.buckets, alone, running)


def _noise_of_plan(best: Quote, *, is_one_axis: bool) -> CellNoise:
    """Bounds for sums of cells are proven for continuous noise, which varies more than whole-number noise."""
    scales = float(best.plan.unit) / best.plan.weights.astype(np.float64)
    discrete = np.asarray(variance(scales))
    factor = float(np.max(2.0 * scales**2 / discrete, initial=1.0))
    deviations = np.sqrt(factor * best.strategy.answer_variances(discrete))
    alone = np.sqrt(factor * own_variances(best.strategy, best.plan, discrete))
    totals = running_variances(best.strategy, best.plan, discrete) if is_one_axis else None
    running = np.full(alone.size, np.inf) if totals is None else np.sqrt(factor * totals)
    return CellNoise(deviations, np.arange(deviations.size), alone, running)


def synopsis_request(handle: DatasetHandle, asked: Query, target: AccuracyTarget) -> Request:
    """The request of a synopsis, which is another one than the histogram's."""
    if asked.kind not in ("histogram", "histogram2d"):
        raise QueryError("a synopsis is published from a histogram over its attributes; ask anything of it afterwards")
    if target.epsilon is None:
        raise AccuracyError("a synopsis is paid with an epsilon, such as epsilon='0.3'")
    written = {**write_query(asked), "kind": "synopsis"}
    return Request(asked, target, request_text(written, target.written(), handle.versions()))


def prepare_synopsis(handle: DatasetHandle, request: Request) -> PreparedSynopsis:
    """Compiles the request and lays out its plan or program."""
    compiled = compile_query(handle.domain, handle.policy, request.asked)
    check_size(compiled)
    target, why = chosen(compiled, handle.policy, request.target)
    if not target.is_data_aware:
        return PreparedSynopsis(prepare(handle, replace(request, target=target)))
    problem = compiled.problem
    if len(compiled.cells.axes) == 1:
        problem = Problem(problem.graph, cells_and_ranges(problem.graph.cells))
    return PreparedSynopsis(prepare_program(replace(compiled, problem=problem), target, why))


def cells_and_ranges(cells: int) -> Intervals:
    """Every cell, then as many ranges of 2 as of 4, 8, 16, ... cells: what people who explore may ask.

    Ranges are RANGES of the number of cells in all: more of them would be answered at the cells' expense.
    """
    lengths = 2 ** np.arange(1, cells.bit_length())
    each = max(1, round(RANGES * cells / max(1, lengths.size)))
    starts = [np.unique(np.linspace(0, cells - length, each).astype(np.int64)) for length in lengths]
    low = np.concatenate([np.arange(cells), *starts])
    high = np.concatenate([np.arange(1, cells + 1), *(s + length for s, length in zip(starts, lengths, strict=True))])
    return Intervals(cells, low, high)


def _make_artefact(answer: Answer, counts: Floats, noise: CellNoise, axes: tuple[SynopsisAxis, ...]) -> Artefact:
    return Artefact(
        title=answer.title,
        axes=axes,
        counts=counts,
        noise=noise,
        mechanism=answer.mechanism,
        certificate=answer.certificate,
        stages=answer.stages,
        caveat=answer.caveat,
        dataset=answer.dataset,
        policy_version=answer.policy_version,
        protected=answer.protected,
        unprotected=answer.unprotected,
        released=answer.released,
    )
