"""What an analyst receives: a release with every way to look at it, as JSON, and with evidence for its certificate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.accuracy.quote import propose_quantiles, select_at
from blowfishdb.engine.compile import compile_query, group_selection, quantile_order
from blowfishdb.engine.request import read_query, write_query, write_settings
from blowfishdb.errors import BlowfishError, DigestMismatch, DocumentError, InvalidInput
from blowfishdb.inference.consistency import Consistent
from blowfishdb.mechanisms.parameters import ParameterValues, check_settings
from blowfishdb.mechanisms.table import DATA_AWARE, MECHANISMS, PARAMETERS, data_aware_with, mechanism_with
from blowfishdb.model.arguments import checked
from blowfishdb.model.document import Document, read_document, write_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Floats
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.query import Query
from blowfishdb.model.serialize import (
    LONG,
    VERSION,
    EvenNumbers,
    Field,
    Fields,
    LongList,
    WholeNames,
    column_numbers,
    number_column,
    version_of,
)
from blowfishdb.plan.certificate import Certificate, certify
from blowfishdb.plan.program import (
    EXPONENTIAL_QUANTILES,
    GROUP_SELECTION,
    Allowance,
    certify_program,
    certify_quantiles,
)
from blowfishdb.present import export, page, words
from blowfishdb.present.answer_values import (
    AnswerAxis,
    AnswerColumn,
    AnswerTable,
    AnswerValues,
    Bounds,
    Evidence,
    MeasuredRows,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes
    from rich.console import RenderableType


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class Answer(AnswerValues):
    """The release of one question; packages that a view needs are imported when it is asked for."""

    def to_json(self, *, indent: int | None = None) -> str:
        """The whole answer, certificate included, as JSON that reads back exactly.

        Exact numbers are text such as "41/100", floats have the digits that read back equal.
        """
        document = _document(self)
        if indent is None:
            return compact_json(document)
        return json.dumps(document, allow_nan=False, indent=indent, default=_list)

    def to_bytes(self) -> bytes:
        """The whole answer as it is stored: JSON, or columns of Arrow where it has many numbers."""
        document = _document(self)
        try:
            return _encode(document).encode()
        except _LongArray:
            return _packed(document)

    @staticmethod
    def from_json(text: str | bytes) -> Answer:
        """The answer that `to_json` or `to_bytes` wrote; DocumentError for anything else."""
        try:
            return _read_answer(read_stored(text, SCHEMA, "an answer"))
        except DocumentError:
            raise
        except InvalidInput as error:
            raise DocumentError(f"the stored answer contradicts itself: {error}") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise DocumentError(f"the stored answer is incomplete or damaged: {type(error).__name__} {error}") from None

    def rows(self) -> list[dict[str, str | float | None]]:
        """One dictionary per answer: labels, value, low, high, raw, pointwise_low, pointwise_high."""
        return export.rows(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        return export.to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars frame."""
        return export.to_polars(self)

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a pyarrow table."""
        return export.to_arrow(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the answer with matplotlib, on the given axes or on new ones."""
        from blowfishdb.present.chart_matplotlib import plot

        return plot(self, ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a table (.csv, .xlsx, .parquet), a map (.geojson), or the whole answer, with certificate (.json)."""
        match Path(path).suffix.lower():
            case ".json":
                content = f"{self.to_json(indent=2)}\n".encode()
            case ".geojson":
                content = export.map_file(self)
            case ending if ending in export.TABLES:
                content = export.TABLES[ending][1](self)
            case _:
                raise InvalidInput(f"an answer is saved as {', '.join(export.TABLES)}, .geojson or .json")
        with export.written(path) as place:
            place.write_bytes(content)

    def to_geojson(
        self, regions: Mapping[str, Any] | str | PathLike[str] | None = None, key: str = "name"
    ) -> dict[str, Any]:
        """The answers on a map: the cells of a grid of longitude and latitude, or the shapes of the grouped values."""
        return export.geojson(self, regions, key)

    def save_plot(self, path: str | PathLike[str], dpi: int = 160) -> None:
        """Writes the matplotlib picture to a file; the ending chooses the format."""
        from blowfishdb.present.chart_matplotlib import save_plot

        with export.written(path):
            save_plot(self, path, dpi)

    def interactive(self) -> page.Interactive:
        """A picture with values under the pointer, for notebooks and files; needs no network and no script."""
        return page.interactive(self)

    def terminal(self) -> RenderableType:
        """The plot for a terminal, to print with rich."""
        from blowfishdb.present.chart_terminal import drawing

        return drawing(self)

    def note(self) -> str:
        """The paragraph to paste under a figure."""
        return words.note(self)

    def __repr__(self) -> str:
        return export.as_text(self)

    def _repr_html_(self) -> str:
        return page.answer_fragment(self)


def joined_answer(title: str, parts: tuple[Answer, ...]) -> Answer:
    """Several answers of one release as one, their numbers one after the other."""
    ends = ("low", "high")
    together, alone = (
        Bounds(*(np.concatenate([getattr(one, end) for one in bounds]) for end in ends))
        for bounds in ([part.bounds for part in parts], [part.pointwise_bounds for part in parts])
    )
    starts = np.cumsum([0, *(part.raw.size for part in parts)])
    exact = [start + part.widths.exact for start, part in zip(starts, parts, strict=False)]
    widths = HalfWidths(
        np.concatenate([part.widths.per_answer for part in parts]),
        max(part.widths.simultaneous for part in parts),
        np.concatenate(exact).astype(np.int64),
    )
    notes = dict.fromkeys(part.consistent.note for part in parts if part.consistent.note)
    feasible = all(part.consistent.feasible for part in parts)
    return replace(
        parts[0],
        kind="joint",
        title=title,
        tables=tuple(table for part in parts for table in part.tables),
        raw=np.concatenate([part.raw for part in parts]),
        consistent=Consistent(np.concatenate([part.values for part in parts]), feasible, "; ".join(notes)),
        widths=widths,
        beta=max(part.beta for part in parts),
        simultaneous=together,
        pointwise=alone,
        columns=(),
        subject="",
        parts=parts,
    )


def now() -> str:
    """The time of a release, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


SCHEMA = "blowfishdb-answer/1"
LATER = ("counted", "subject", "question")
"""Fields that the first answers did not have; left out where there is nothing to say."""


def _document(answer: Answer) -> dict[str, Any]:
    """The answer as dictionaries, lists and arrays."""
    if answer.parts:
        return {
            "schema": SCHEMA,
            "kind": answer.kind,
            "title": answer.title,
            "parts": [_document(part) for part in answer.parts],
            **_shared_document(answer),
        }
    proof = answer.certificate
    axes = [[{**vars(axis), "edges": _edges(axis)} for axis in table.axes] for table in answer.tables]
    # An answer that costs nothing is exact altogether.
    exact = answer.widths.exact if answer.epsilon else answer.widths.exact[:0]
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
        "protected": answer.protected,
        "unprotected": answer.unprotected,
        "certificate": {
            "epsilon": str(proof.epsilon),
            "witness": proof.witness,
            "is_tight": proof.is_tight,
            "plan_digest": proof.plan_digest,
            "graph_digest": proof.graph_digest,
            "together": proof.constraint_note,
        },
        "tables": [{"crossed": table.crossed, "axes": along} for table, along in zip(answer.tables, axes, strict=True)],
        "values": answer.values,
        "raw": answer.raw,
        "half_widths": answer.widths.per_answer,
        **({"exact": exact.tolist()} if exact.size else {}),
        "together": None if answer.simultaneous is None else vars(answer.simultaneous),
        "alone": None if answer.pointwise is None else vars(answer.pointwise),
        "stages": [[allowance.stage, str(allowance.epsilon)] for allowance in answer.stages],
        **({"parameters": write_settings(answer.parameters)} if answer.parameters else {}),
        "caveat": answer.caveat,
        "evidence": None if answer.evidence is None else vars(answer.evidence),
        **{key: part for key in LATER if (part := getattr(answer, key))},
        **({"columns": [[column.name, column.function] for column in answer.columns]} if answer.columns else {}),
        **_shared_document(answer),
    }


def _edges(axis: AnswerAxis) -> Sequence[float] | Floats:
    return axis.edges if isinstance(axis.edges, EvenNumbers) else np.asarray(axis.edges)


def _shared_document(answer: Answer) -> dict[str, Any]:
    """The measured rows and what the answer rests on."""
    return {
        **({} if answer.measured is None else {"measured": answer.measured.to_dict()}),
        **({} if answer.charged is None else {"charged": str(answer.charged), "rests_on": list(answer.rests_on)}),
    }


def _read_answer(content: Fields) -> Answer:
    if "parts" in content:
        parts = content["parts"].each(lambda part: _read_answer(part.fields()))
        if not parts or any(part.parts for part in parts):
            raise InvalidInput("its parts are answers to one question each")
        whole = joined_answer(content["title"].text(), parts)
        return replace(whole, **_read_shared(content))
    evidence, mechanism = content.optional("evidence", _read_evidence), content["mechanism"].text()
    certificate = read_certificate(content["certificate"].fields())
    parameters = content.optional("parameters", read_parameters) or ()
    if content["epsilon"].text() != str(certificate.epsilon):
        raise InvalidInput("its epsilon is not the certificate's")
    if evidence is not None:
        version = version_of(certificate.plan_digest)
        again = partial(worked_out, evidence, mechanism, certificate.epsilon, version, parameters)
        certificate = replace(certificate, again=again)
    return Answer(
        kind=cast(Any, content["kind"].text()),
        title=content["title"].text(),
        tables=content["tables"].each(_read_table),
        raw=content["raw"].floats(),
        consistent=Consistent(content["values"].floats(), content["feasible"].truth(), content["remark"].text()),
        widths=_read_widths(content),
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
        parameters=parameters,
        caveat=content["caveat"].text(),
        evidence=evidence,
        columns=content["columns"].each(_read_column) if "columns" in content else (),
        counted=words.read_counted(content.optional("counted", Field.text) or _counted_of(evidence)),
        subject=content.optional("subject", Field.text) or "",
        question=content.optional("question", _plain),
        **_read_shared(content),
    )


def _read_shared(content: Fields) -> _SharedFields:
    return {
        "measured": content.optional("measured", _read_measured),
        "charged": content.optional("charged", Field.fraction),
        "rests_on": content["rests_on"].each(Field.whole) if "rests_on" in content else (),
    }


class _SharedFields(TypedDict):
    measured: MeasuredRows | None
    charged: Fraction | None
    rests_on: tuple[int, ...]


def _counted_of(evidence: Evidence | None) -> str:
    """Which rows an answer counts that was stored before answers said so."""
    policy = None if evidence is None else evidence.declared.get("policy")
    unit = policy.get("unit") if isinstance(policy, dict) else None
    if not isinstance(unit, dict):
        return ""
    return words.counted_words(Person(str(unit.get("person")), unit.get("at_most", 0), str(unit.get("order_by"))))


def _read_widths(content: Fields) -> HalfWidths:
    alone, exact = content["half_widths"].floats(), content.optional("exact", lambda places: places.each(Field.whole))
    if exact is None:
        return HalfWidths(alone, content["half_width"].number())
    if not all(0 <= place < alone.size for place in exact):
        raise InvalidInput("exact answers are places among its answers")
    return HalfWidths(alone, content["half_width"].number(), np.array(exact, dtype=np.int64))


def _read_column(column: Field) -> AnswerColumn:
    name, function = column.pair()
    return AnswerColumn(name.text(), function.text())


def _read_measured(measured: Field) -> MeasuredRows:
    rows = MeasuredRows.read(measured.value)
    if rows is None:
        raise measured.wrong("measured rows are whole numbers")
    return rows


def read_certificate(content: Fields) -> Certificate:
    """The certificate of an answer or a synopsis."""
    witness = content["witness"].optional(Field.pair)
    return Certificate(
        epsilon=content["epsilon"].fraction(),
        witness=None if witness is None else (witness[0].whole(), witness[1].whole()),
        is_tight=content["is_tight"].truth(),
        plan_digest=content["plan_digest"].text(),
        graph_digest=content["graph_digest"].text(),
        constraint_note=content.optional("together", Field.text) or "",
    )


def read_stage(stage: Field) -> Allowance:
    """A stage and its allowance."""
    name, epsilon = stage.pair()
    return Allowance(name.text(), epsilon.fraction())


def read_parameters(parameters: Field) -> ParameterValues:
    """The parameters of the mechanism that an answer or a synopsis names."""
    return tuple(sorted((name, value.fraction()) for name, value in parameters.fields().items()))


def _read_evidence(evidence: Field) -> Evidence:
    fields = evidence.fields()
    return Evidence(_plain(fields["declared"]), _plain(fields["question"]))


def _plain(part: Field) -> dict[str, Any]:
    return {key: field.value for key, field in part.fields().items()}


def _read_bounds(bounds: Field) -> Bounds:
    fields = bounds.fields()
    return Bounds(fields["low"].floats(), fields["high"].floats())


def _read_table(table: Field) -> AnswerTable:
    fields = table.fields()
    return AnswerTable(fields["axes"].each(read_axis), fields["crossed"].truth())


def read_axis(axis: Field) -> AnswerAxis:
    """The labels along one attribute of an answer or a synopsis."""
    fields = axis.fields()
    labels, edges = fields["labels"].value, fields["edges"].value
    return AnswerAxis(
        name=fields["name"].text(),
        labels=labels if isinstance(labels, LongList) else fields["labels"].texts(),
        plain=fields["plain"].whole(),
        edges=edges if isinstance(edges, EvenNumbers) else number_column(fields["edges"].floats()),
        in_days=fields["in_days"].truth(),
    )


def read_stored(text: str | bytes, schema: str, what: str) -> Fields:
    """The fields of a stored object of the given schema, JSON or columns; DocumentError for anything else."""

    try:
        content = Field(stored_document(text), what, DocumentError)
    except (ValueError, RecursionError, LookupError, OSError):
        raise DocumentError(f"this is not the JSON of {what}") from None
    fields = content.fields()
    if "schema" not in fields or fields["schema"].value != schema:
        raise DocumentError(f"this is not {what} in the form {schema!r}", path="schema")
    return fields


SEPARATORS = (",", ":")


class _LongArray(Exception):
    """An array that Arrow writes faster."""


def _list(values: Any) -> object:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _short_list(values: Any) -> object:
    if len(values) >= LONG:
        raise _LongArray
    return _list(values)


_encode = json.JSONEncoder(allow_nan=False, separators=SEPARATORS, default=_short_list).encode


def compact_json(value: object) -> str:
    """The JSON of dictionaries, lists and arrays; ValueError for numbers that JSON has not."""
    try:
        return _encode(value)
    except _LongArray:
        return _compact_parts(value)


def _compact_parts(value: object) -> str:
    if isinstance(value, np.ndarray | EvenNumbers):
        return _numbers(np.asarray(value))
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_compact_parts(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(map(_compact_parts, value)) + "]"
    return json.dumps(value, allow_nan=False, separators=SEPARATORS, default=_list)


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


ARROW = b"ARROW1"
"""How a file of Arrow begins."""
COLUMN, NAMES, EVEN, HEAD = "$column", "$names", "$even", b"blowfishdb"
"""A column, the names of whole numbers, even numbers; and the JSON that refers to them."""


def _packed(document: dict[str, Any]) -> bytes:
    """A document whose long lists are columns: a file of Arrow with one row, and the rest as JSON in its schema."""
    import pyarrow

    columns: list[Any] = []

    def lifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: lifted(part) for key, part in value.items()}
        if isinstance(value, list) and value and isinstance(value[0], dict | list):
            return [lifted(part) for part in value]
        if isinstance(value, str) or not hasattr(value, "__len__") or len(value) < LONG:
            return value
        if isinstance(value, WholeNames):
            return {NAMES: [value.first, value.size, list(value.others)]}
        even = EvenNumbers.of(value) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        if isinstance(even, EvenNumbers):
            return {EVEN: [even.start, even.step, even.size]}
        column = _narrow(value) if isinstance(value, np.ndarray) else value
        place = next((place for place, known in enumerate(columns) if _is_same(known, column)), len(columns))
        columns[place:] = columns[place:] or [column]
        return {COLUMN: place}

    def in_arrow(column: Any) -> Any:
        if isinstance(column, LongList):
            return column.array
        return pyarrow.array(column, None if isinstance(column, np.ndarray) else pyarrow.large_string())

    head = _encode(lifted(document))
    lists = [pyarrow.LargeListArray.from_arrays([0, len(column)], in_arrow(column)) for column in columns]
    batch = pyarrow.record_batch(lists, [str(place) for place in range(len(lists))], metadata={HEAD: head})
    sink, options = pyarrow.BufferOutputStream(), pyarrow.ipc.IpcWriteOptions(compression="lz4")
    with pyarrow.ipc.new_file(sink, batch.schema, options=options) as file:
        file.write_batch(batch)
    return bytes(sink.getvalue())


def _is_same(known: Any, column: Any) -> bool:
    """Whether two columns are arrays of the same numbers, bit by bit."""
    arrays = isinstance(known, np.ndarray) and isinstance(column, np.ndarray) and known.dtype == column.dtype
    return arrays and np.array_equal(known[:1], column[:1]) and known.tobytes() == column.tobytes()


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The numbers, as small whole ones where all of them are; ValueError for those that JSON has not either."""
    if not np.all(np.isfinite(values)):
        raise ValueError("an answer has finite numbers")
    low, high = values.min(), values.max()
    if values.dtype.kind == "f" and max(-low, high) < 2**31:
        whole = values.astype(np.int32)
        # Equal bits: minus zero stays what it is.
        if np.array_equal(whole.astype(np.float64).view(np.int64), values.view(np.int64)):
            return whole
    elif values.dtype.kind == "i" and max(-int(low), int(high)) < 2**31:
        return values.astype(np.int32)
    return values


LONGEST = 2**28
"""The length of the longest list that is read."""


def _length(number: object) -> int:
    """The length of a list; ValueError for what is none."""
    if type(number) is not int or not 0 <= number <= LONGEST:
        raise ValueError("this is not the length of a list")
    return number


def stored_document(payload: str | bytes) -> Any:
    """The plain data of what is stored, long lists as columns; ValueError for anything but a document."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not a number of an answer")

    if isinstance(payload, str) or not payload.startswith(ARROW):
        return json.loads(payload, parse_constant=refuse)
    import pyarrow

    # One thread: memory that another one filled is not used again by the next answer.
    options = pyarrow.ipc.IpcReadOptions(use_threads=False)
    with pyarrow.ipc.open_file(pyarrow.py_buffer(payload), options=options) as file:
        batch = file.get_batch(0)
    batch.validate(full=True)

    def lowered(value: Any) -> Any:
        if isinstance(value, list):
            return [lowered(part) for part in value]
        if not isinstance(value, dict):
            return value
        if [*value] == [COLUMN]:
            column = batch.column(value[COLUMN]).values
            return LongList(column) if pyarrow.types.is_large_string(column.type) else column_numbers(column)
        if [*value] == [NAMES]:
            first, count, others = value[NAMES]
            return WholeNames(Field(first).whole(), _length(count), Field(others).texts())
        if [*value] == [EVEN]:
            start, step, count = value[EVEN]
            return EvenNumbers(Field(start).number(), Field(step).number(), _length(count))
        return {key: lowered(part) for key, part in value.items()}

    return lowered(json.loads((batch.schema.metadata or {}).get(HEAD, b""), parse_constant=refuse))


LARGEST = 200_000
"""Declarations with more characters are left out of answers; the curator's document holds them."""


def evidence_of(domain: Domain, policy: Policy, query: Query) -> Evidence | None:
    """What a release leaves with its answer; None where the declarations are too large to travel with it."""
    declared = write_document(Document(domain, policy), "json")
    return None if len(declared) > LARGEST else Evidence(json.loads(declared), write_query(query))


def worked_out(
    evidence: Evidence, mechanism: str, epsilon: Fraction, version: int = VERSION, settings: ParameterValues = ()
) -> Certificate:
    """The certificate of the same question under the same policy by the same mechanism, computed from the start.

    Its digests are in the given version of their encoding.
    """
    try:
        document = read_document(json.dumps(evidence.declared), "json")
        compiled = compile_query(document.domain, document.policy, read_query(dict(evidence.question)))
        check_settings(PARAMETERS, mechanism, settings)
        if mechanism in DATA_AWARE:
            program = data_aware_with(mechanism, settings).program(compiled.problem, epsilon)
            return certify_program(replace(program, parameters=settings), compiled.problem.graph, version)
        if mechanism == EXPONENTIAL_QUANTILES and (order := quantile_order(compiled)) is not None:
            graph = compiled.problem.graph
            return certify_quantiles(propose_quantiles(graph, order.cells, order.levels, epsilon, order.axis), graph)
        if mechanism == GROUP_SELECTION and compiled.query.kind == "selection":
            return select_at(group_selection(compiled), compiled.problem.graph, epsilon, 0.5).certificate
        if mechanism not in MECHANISMS:
            raise DigestMismatch(f"this version of BlowfishDB has no mechanism {mechanism!r}")
        plan, _ = certified_strategy(compiled.problem, mechanism_with(mechanism, settings)(compiled.problem)).at(
            epsilon
        )
    except DigestMismatch:
        raise
    except BlowfishError as error:
        raise DigestMismatch(f"what this answer carries does not make a certificate: {error}") from None
    return certify(plan, compiled.problem.graph, version)
