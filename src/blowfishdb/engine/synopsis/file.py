"""A synopsis as one Parquet file that any tool opens: a row per cell, and the whole description beside it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blowfishdb.engine.answer_table import AnswerAxis
from blowfishdb.engine.present.columns import free_name
from blowfishdb.engine.request import MOST_CELLS
from blowfishdb.engine.synopsis.artefact import Artefact, CellNoise, SynopsisAxis
from blowfishdb.errors import BlowfishError, DocumentError, TooLarge
from blowfishdb.model.arrays import Floats
from blowfishdb.model.numbers import exact
from blowfishdb.model.segments import AxisCells, Segments
from blowfishdb.model.written import read_attribute, write_attribute
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.stages import Allowance

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
        kept = _artefact(written, *_numbers(file))
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
        "together": proof.together,
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


def _artefact(written: Mapping[str, Any], counts: Floats, noise: CellNoise) -> Artefact:
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
            together=str(written.get("together", "")),
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
