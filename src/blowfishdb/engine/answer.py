"""What an analyst receives: a release with every way to look at it, and as JSON that reads back exactly."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.evidence import worked_out
from blowfishdb.engine.serialize import read_stored
from blowfishdb.errors import DocumentError, InvalidInput
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.encoding import version_of
from blowfishdb.model.numbers import Floats
from blowfishdb.model.serialize import Field, Fields
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import Allowance
from blowfishdb.present.released import AnswerAxis, AnswerTable, Bounds, Evidence, Released

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes
    from rich.console import RenderableType

    from blowfishdb.present.page import Interactive


SEPARATORS = (",", ":")
LONG = 20_000
"""Arrays from this length on are worth the import of pyarrow."""


def compact_json(value: object) -> str:
    """The JSON of dictionaries, lists and arrays; ValueError for numbers that JSON has not."""
    if isinstance(value, np.ndarray):
        return _numbers(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{compact_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(map(compact_json, value)) + "]"
    return json.dumps(value, allow_nan=False, separators=SEPARATORS)


def _numbers(values: Floats) -> str:
    # Arrow writes the shortest digits that read back equal, as Python does, but minus zero as a whole number.
    if values.size < LONG or not np.all(np.isfinite(values)) or np.any(np.signbit(values[values == 0])):
        return json.dumps(values.tolist(), allow_nan=False, separators=SEPARATORS)
    import pyarrow
    from pyarrow import compute

    # Large texts: 10^8 numbers are longer than 2^31 characters.
    text = pyarrow.large_string()
    whole = pyarrow.ListArray.from_arrays([0, values.size], pyarrow.array(values).cast(text))
    return f"[{compute.binary_join(whole, pyarrow.scalar(',', text))[0]}]"


Kept = TypeVar("Kept", bound=Released)
SCHEMA = "blowfishdb-answer/1"


def to_json(answer: Released, *, indent: int | None = None) -> str:
    """The whole answer as JSON: exact numbers as text such as "41/100", floats in the digits that read back equal."""
    document = _document(answer)
    if indent is None:
        return compact_json(document)
    return json.dumps(document, allow_nan=False, indent=indent, default=np.ndarray.tolist)


def from_json(text: str | bytes, make: type[Kept]) -> Kept:
    """The answer that to_json wrote, as an object of the given class; DocumentError for anything else."""
    try:
        return _read_answer(read_stored(text, SCHEMA, "an answer"), make)
    except DocumentError:
        raise
    except InvalidInput as error:
        raise DocumentError(f"the stored answer contradicts itself: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise DocumentError(f"the stored answer is incomplete or damaged: {type(error).__name__} {error}") from None


def _document(answer: Released) -> dict[str, Any]:
    """The answer as dictionaries, lists and arrays."""
    proof = answer.certificate
    return {
        "schema": SCHEMA,
        "kind": answer.kind,
        "title": answer.title,
        "dataset": answer.dataset,
        "policy_version": answer.policy_version,
        "released": answer.released,
        "version": answer.version,
        "epsilon": str(answer.epsilon),
        "mechanism": answer.mechanism,
        "beta": answer.beta,
        "half_width": answer.widths.simultaneous,
        "feasible": answer.consistent.feasible,
        "remark": answer.consistent.note,
        "protected": list(answer.protected),
        "unprotected": list(answer.unprotected),
        "certificate": {
            "epsilon": str(proof.epsilon),
            "witness": None if proof.witness is None else list(proof.witness),
            "is_tight": proof.is_tight,
            "plan_digest": proof.plan_digest,
            "graph_digest": proof.graph_digest,
            "together": proof.constraint_note,
        },
        "tables": [_table(table) for table in answer.tables],
        "values": answer.values,
        "raw": answer.raw,
        "half_widths": answer.widths.per_answer,
        "together": _bounds(answer.simultaneous),
        "alone": _bounds(answer.pointwise),
        "stages": [[allowance.stage, str(allowance.epsilon)] for allowance in answer.stages],
        "caveat": answer.caveat,
        "evidence": None if answer.evidence is None else asdict(answer.evidence),
    }


def _bounds(bounds: Bounds | None) -> dict[str, Floats] | None:
    return None if bounds is None else {"low": bounds.low, "high": bounds.high}


def _table(table: AnswerTable) -> dict[str, Any]:
    axes = [
        {
            "name": axis.name,
            "labels": list(axis.labels),
            "plain": axis.plain,
            "edges": np.array(axis.edges, dtype=np.float64),
            "in_days": axis.in_days,
        }
        for axis in table.axes
    ]
    return {"crossed": table.crossed, "axes": axes}


def _read_answer(content: Fields, make: type[Kept]) -> Kept:
    evidence, mechanism = content.optional("evidence", _read_evidence), content["mechanism"].text()
    certificate = _read_certificate(content["certificate"].fields(), evidence, mechanism)
    if content["epsilon"].text() != str(certificate.epsilon):
        raise InvalidInput("its epsilon is not the certificate's")
    return make(
        kind=cast(Any, content["kind"].text()),
        title=content["title"].text(),
        tables=content["tables"].each(_read_table),
        raw=content["raw"].floats(),
        consistent=Consistent(content["values"].floats(), content["feasible"].truth(), content["remark"].text()),
        widths=HalfWidths(content["half_widths"].floats(), content["half_width"].number()),
        beta=content["beta"].number(),
        mechanism=mechanism,
        certificate=certificate,
        dataset=content["dataset"].text(),
        policy_version=content["policy_version"].optional(Field.whole),
        protected=content["protected"].texts(),
        unprotected=content["unprotected"].texts(),
        released=content["released"].text(),
        version=content["version"].text(),
        simultaneous=content["together"].optional(_read_bounds),
        pointwise=content["alone"].optional(_read_bounds),
        stages=content["stages"].each(read_stage),
        caveat=content["caveat"].text(),
        evidence=evidence,
    )


def _read_certificate(content: Fields, evidence: Evidence | None, mechanism: str) -> Certificate:
    epsilon, plan_digest = content["epsilon"].fraction(), content["plan_digest"].text()
    again = None if evidence is None else partial(worked_out, evidence, mechanism, epsilon, version_of(plan_digest))
    return Certificate(
        epsilon=epsilon,
        witness=content["witness"].optional(read_witness),
        is_tight=content["is_tight"].truth(),
        plan_digest=plan_digest,
        graph_digest=content["graph_digest"].text(),
        constraint_note=content.optional("together", Field.text) or "",
        again=again,
    )


def read_witness(witness: Field) -> tuple[int, int]:
    """The pair of cells of a certificate."""
    first, second = witness.pair()
    return first.whole(), second.whole()


def read_stage(stage: Field) -> Allowance:
    """A stage and its allowance."""
    name, epsilon = stage.pair()
    return Allowance(name.text(), epsilon.fraction())


def _read_evidence(evidence: Field) -> Evidence:
    fields = evidence.fields()
    declared, question = (fields[key].fields() for key in ("declared", "question"))
    return Evidence(*({key: field.value for key, field in part.items()} for part in (declared, question)))


def _read_bounds(bounds: Field) -> Bounds:
    fields = bounds.fields()
    return Bounds(fields["low"].floats(), fields["high"].floats())


def _read_table(table: Field) -> AnswerTable:
    fields = table.fields()
    return AnswerTable(fields["axes"].each(_read_axis), fields["crossed"].truth())


def _read_axis(axis: Field) -> AnswerAxis:
    fields = axis.fields()
    return AnswerAxis(
        name=fields["name"].text(),
        labels=fields["labels"].texts(),
        plain=fields["plain"].whole(),
        edges=tuple(fields["edges"].floats().tolist()),
        in_days=fields["in_days"].truth(),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Released):
    """The release of one question; packages that a view needs are imported when it is asked for."""

    def to_json(self, *, indent: int | None = None) -> str:
        """The whole answer, certificate included, as JSON that reads back exactly."""

        return to_json(self, indent=indent)

    @staticmethod
    def from_json(text: str | bytes) -> Answer:
        """The answer that `to_json` wrote."""

        return from_json(text, Answer)

    def rows(self) -> list[dict[str, str | float | None]]:
        """One dictionary per answer: labels, value, low, high, raw, pointwise_low, pointwise_high."""
        from blowfishdb.present.table import rows

        return rows(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        from blowfishdb.present.table import to_pandas

        return to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars frame."""
        from blowfishdb.present.table import to_polars

        return to_polars(self)

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a pyarrow table."""
        from blowfishdb.present.table import to_arrow

        return to_arrow(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the answer with matplotlib, on the given axes or on new ones."""
        from blowfishdb.present.chart_matplotlib import plot

        return plot(self, ax)

    def save_plot(self, path: str | PathLike[str], dpi: int = 160) -> None:
        """Writes the matplotlib picture to a file; the ending chooses the format."""
        from blowfishdb.present.chart_matplotlib import save_plot

        save_plot(self, path, dpi)

    def interactive(self) -> Interactive:
        """A picture with values under the pointer, for notebooks and files; needs no network and no script."""
        from blowfishdb.present.page import interactive

        return interactive(self)

    def terminal(self) -> RenderableType:
        """The plot for a terminal, to print with rich."""
        from blowfishdb.present.chart_terminal import drawing

        return drawing(self)

    def note(self) -> str:
        """The paragraph to paste under a figure."""
        from blowfishdb.present.page import note

        return note(self)

    def __repr__(self) -> str:
        from blowfishdb.present.table import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from blowfishdb.present.page import answer_fragment

        return answer_fragment(self)


def now() -> str:
    """The time of a release, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
