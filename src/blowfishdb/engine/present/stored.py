"""Answers as JSON and back, without losing a bit: for the ledger's replays, for files and for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer_bounds import Bounds
from blowfishdb.engine.answer_table import AnswerAxis, AnswerTable
from blowfishdb.engine.evidence import Evidence, worked_out
from blowfishdb.engine.present.compact_json import compact_json
from blowfishdb.engine.released import Released
from blowfishdb.errors import DocumentError, InvalidInput
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.arrays import Floats
from blowfishdb.model.encoding import version_of
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.stages import Allowance

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
            "together": proof.together,
        },
        "tables": [_table(table) for table in answer.tables],
        "values": answer.values,
        "raw": answer.raw,
        "half_widths": answer.widths.per_answer,
        "together": _bounds(answer.together),
        "alone": _bounds(answer.alone),
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
        together=_text(proof.get("together", "")),
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
        together=_read_bounds(written["together"]),
        alone=_read_bounds(written["alone"]),
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
