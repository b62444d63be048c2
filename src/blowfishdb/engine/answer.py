"""What an analyst receives: a release with every way to look at it, and as JSON that reads back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.compile import Compiled, DatasetHandle
from blowfishdb.engine.evidence import evidence_of, not_protected, worked_out
from blowfishdb.errors import DocumentError, InvalidInput
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.encoding import version_of
from blowfishdb.model.numbers import Floats
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import Allowance
from blowfishdb.present.released import AnswerAxis, AnswerTable, Bounds, Evidence, Released
from blowfishdb.present.words import policy_words

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
        written = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise DocumentError("this is not the JSON of an answer") from None
    if not isinstance(written, dict) or written.get("schema") != SCHEMA:
        found = written.get("schema") if isinstance(written, dict) else None
        raise DocumentError(f"this is no answer in the form {SCHEMA!r}, but {found!r}", path="schema")
    try:
        return _from_document(written, make)
    except InvalidInput as error:
        raise DocumentError(f"the stored answer contradicts itself: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DocumentError(f"the stored answer is incomplete or damaged: {type(error).__name__} {error}") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of an answer")


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


def _from_document(written: Mapping[str, Any], make: type[Kept]) -> Kept:
    proof = written["certificate"]
    witness = proof["witness"]
    evidence = _read_evidence(written.get("evidence"))
    epsilon, mechanism = Fraction(_text(proof["epsilon"])), _text(written["mechanism"])
    plan_digest = _text(proof["plan_digest"])
    again = None if evidence is None else partial(worked_out, evidence, mechanism, epsilon, version_of(plan_digest))
    certificate = Certificate(
        epsilon=epsilon,
        witness=None if witness is None else (int(witness[0]), int(witness[1])),
        is_tight=_truth(proof["is_tight"]),
        plan_digest=plan_digest,
        graph_digest=_text(proof["graph_digest"]),
        constraint_note=_text(proof.get("together", "")),
        again=again,
    )
    if _text(written["epsilon"]) != str(certificate.epsilon):
        raise InvalidInput("its epsilon is not the certificate's")
    version = written["policy_version"]
    return make(
        kind=written["kind"],
        title=_text(written["title"]),
        tables=tuple(_read_table(table) for table in written["tables"]),
        raw=_floats(written["raw"]),
        consistent=Consistent(_floats(written["values"]), _truth(written["feasible"]), _text(written["remark"])),
        widths=HalfWidths(_floats(written["half_widths"]), float(written["half_width"])),
        beta=float(written["beta"]),
        mechanism=mechanism,
        certificate=certificate,
        dataset=_text(written["dataset"]),
        policy_version=None if version is None else int(version),
        protected=_texts(written["protected"]),
        unprotected=_texts(written["unprotected"]),
        released=_text(written["released"]),
        version=_text(written["version"]),
        simultaneous=_read_bounds(written["together"]),
        pointwise=_read_bounds(written["alone"]),
        stages=tuple(Allowance(_text(stage), Fraction(_text(own))) for stage, own in written["stages"]),
        caveat=_text(written["caveat"]),
        evidence=evidence,
    )


def _read_evidence(written: Mapping[str, Any] | None) -> Evidence | None:
    return None if written is None else Evidence(dict(written["declared"]), dict(written["question"]))


def _read_bounds(written: Mapping[str, Any] | None) -> Bounds | None:
    return None if written is None else Bounds(_floats(written["low"]), _floats(written["high"]))


def _read_table(written: Mapping[str, Any]) -> AnswerTable:
    axes = tuple(
        AnswerAxis(
            name=_text(axis["name"]),
            labels=_texts(axis["labels"]),
            plain=int(axis["plain"]),
            edges=tuple(_floats(axis["edges"]).tolist()),
            in_days=_truth(axis["in_days"]),
        )
        for axis in written["axes"]
    )
    return AnswerTable(axes, _truth(written["crossed"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not set(map(type, values)) <= {str}:
        raise TypeError("a list of texts was expected")
    return tuple(values)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false was expected")
    return value


def _floats(values: object) -> Floats:
    if not isinstance(values, list) or not set(map(type, values)) <= {int, float}:
        raise TypeError("a list of numbers was expected")
    return np.array(values, dtype=np.float64)


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


def described(answer: Answer, handle: DatasetHandle, compiled: Compiled) -> Answer:
    """The answer as it will be stored."""
    return replace(
        answer,
        dataset=handle.name,
        policy_version=handle.policy_version,
        protected=policy_words(handle.domain, handle.policy, compiled.cells.attributes),
        unprotected=not_protected(handle.domain, handle.policy),
        released=now(),
        evidence=evidence_of(handle.domain, handle.policy, compiled.query),
    )


def now() -> str:
    """The time of a release, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
