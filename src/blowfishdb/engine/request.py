"""What is asked: a query with its accuracy target, as a request with one text, and both as plain data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

import numpy as np

from blowfishdb.accuracy.candidates import AnswerGuarantee
from blowfishdb.errors import AccuracyError, ParameterError, QueryError, TooLarge
from blowfishdb.mechanisms.parameters import ParameterValues, check_settings
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.document import write_attribute
from blowfishdb.model.numbers import exact, show, suggest
from blowfishdb.model.predicate import (
    PREDICATES,
    Axis,
    Both,
    Comparison,
    Condition,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Predicate,
)
from blowfishdb.model.query import Part, PartGroup, Query, levels_of
from blowfishdb.model.serialize import (
    LONGEST_NUMBER,
    LONGEST_TEXT,
    Field,
    Leaves,
    Plain,
    stored_fields,
    write,
    write_literal,
)
from blowfishdb.noise.distribution import MIN_SCALE

if TYPE_CHECKING:
    from blowfishdb.engine.compile import DatasetHandle


@dataclass(frozen=True)
class Relative:
    """An accuracy as a share, such as 5 %; what it is a share of is said when the question is known."""

    share: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise AccuracyError("an accuracy in percent lies above 0 and is at most 100 %")

    def __str__(self) -> str:
        return f"{show(100 * self.share)} %"


Number: TypeAlias = str | int | float | Decimal | Fraction | Relative
Parameters: TypeAlias = Mapping[str, Number] | ParameterValues | str
"""Parameters of a mechanism as people write them: {"split": "0.3"}, or "split=0.3, rounds=2"."""
USUAL_BETA = Fraction(1, 20)
AUTO = "auto"
"""Names no mechanism: rules choose one, data-aware ones included (engine/program.py:choose)."""
LARGEST = Fraction(10**15)
SMALLEST = Fraction(1, 10**15)
NUMBER_TEXT = re.compile(r"\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,2})?|\.\d{1,20}|\d{1,40}/\d{1,40}")
MOST_WRITTEN = 10**40
"""Numerators and denominators are smaller, so that every number which is taken can be written and read again."""


@dataclass(frozen=True)
class AccuracyTarget:
    """Either errors within `alpha` or a price `epsilon`; intervals hold with probability 1 - beta.

    An alpha that is still a share of something is `relative`; it becomes a number before anything is planned.
    """

    alpha: Fraction | None
    epsilon: Fraction | None
    beta: Fraction = USUAL_BETA
    guarantee: AnswerGuarantee = "simultaneous"
    mechanism: str | None = None
    fresh: bool = False
    """Whether the noise must be independent of all earlier answers."""
    relative: Relative | None = None
    parameters: ParameterValues = ()
    """The parameters of the mechanism that were set."""

    def __post_init__(self) -> None:
        if [self.alpha, self.epsilon, self.relative].count(None) != 2:
            raise AccuracyError(
                "say either how accurate (alpha=50; --within 50) or how expensive (epsilon='0.1'; --epsilon 0.1) the "
                "answer may be"
            )
        if self.alpha is not None and not 0 <= self.alpha <= LARGEST:
            raise AccuracyError("alpha is a number from 0 to 10^15")
        if self.epsilon is not None and not SMALLEST <= self.epsilon <= 10**6:
            raise AccuracyError("epsilon is more than 0, and at most a million")
        if not SMALLEST <= self.beta <= 1 - SMALLEST:
            raise AccuracyError("beta is a probability strictly between 0 and 1")
        if self.mechanism is not None:
            # Loaded here, because commands that ask nothing should not wait for every mechanism.
            from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS

            known = [AUTO, *MECHANISMS, *CHOICES, *DATA_AWARE]
            if self.mechanism not in known:
                raise AccuracyError(f"there is no mechanism {self.mechanism!r}; {suggest(self.mechanism, known)}")
        if self.parameters:
            from blowfishdb.mechanisms.table import PARAMETERS

            check_settings(PARAMETERS, self.mechanism, self.parameters)

    @property
    def is_data_aware(self) -> bool:
        """Whether the named mechanism chooses where to measure by looking at the data."""
        from blowfishdb.mechanisms.table import DATA_AWARE

        return self.mechanism in DATA_AWARE

    def by(self, mechanism: str | None) -> AccuracyTarget:
        """The same target by another mechanism, without the parameters of this one."""
        return self if mechanism == self.mechanism else replace(self, mechanism=mechanism, parameters=())

    @property
    def confidence(self) -> str:
        """The probability that the intervals hold, in percent."""
        return f"{show(100 * (1 - self.beta))} %"

    def to_dict(self) -> dict[str, Any]:
        """The target as plain data, the same for every way to write it; requests on record contain it."""
        content: dict[str, Any] = write(self)
        # Requests on record were written without these.
        if not self.fresh:
            del content["fresh"]
        del content["relative"], content["parameters"]
        return content if not self.parameters else {**content, "parameters": write_settings(self.parameters)}


class TargetOptions(TypedDict, total=False):
    """The part of an accuracy target that was given, in exact numbers; `accuracy_target(**options)` completes it."""

    alpha: Fraction | Relative
    beta: Fraction
    epsilon: Fraction
    mechanism: str
    per_query: bool
    fresh: bool
    parameters: ParameterValues


def write_settings(settings: ParameterValues) -> dict[str, str]:
    """The parameters as plain data, the same for every way to write them."""
    return {name: str(value) for name, value in settings}


def read_settings(given: Parameters) -> ParameterValues:
    """The parameters that an object or a text such as "split=0.3, rounds=2" sets; ParameterError for anything else."""
    pairs: Any = given
    if isinstance(given, str):
        parts = [part.split("=") for part in given.split(",") if part.strip()]
        if not all(len(part) == 2 for part in parts):
            raise ParameterError("parameters are written as name=value, with commas between them: split=0.3, rounds=2")
        pairs = [(name.strip(), value) for name, value in parts]
    elif isinstance(given, Mapping):
        pairs = given.items()
    elif not isinstance(given, tuple):
        raise ParameterError("parameters are an object with numbers, such as {'split': '0.3'}")
    try:
        settings = {name: short_number(value, f"the parameter {name}") for name, value in pairs}
    except ParameterError:
        raise
    except AccuracyError as error:
        raise ParameterError(error.message) from None
    if len(settings) != len(pairs):
        raise ParameterError("each parameter is set once")
    return tuple(sorted(settings.items()))


def target_options(
    alpha: Number | None = None,
    beta: Number | None = None,
    epsilon: Number | None = None,
    accuracy: Number | None = None,
    confidence: Number | None = None,
    mechanism: str | None = None,
    per_query: bool | None = None,
    fresh: bool | None = None,
    parameters: Parameters | None = None,
) -> TargetOptions:
    """What was given, in either vocabulary: `accuracy` is alpha, `confidence` is 1 - beta. Floats count as printed.

    An alpha such as "5 %" is relative.
    """
    if alpha is not None and accuracy is not None:
        raise AccuracyError("alpha and accuracy are the same thing: give one of them")
    if beta is not None and confidence is not None:
        raise AccuracyError("confidence is 1 - beta: give one of them")
    if mechanism is not None and not isinstance(mechanism, str):
        raise AccuracyError("a mechanism is named by text")
    within = accuracy if alpha is None else alpha
    numbers = {"beta": beta, "confidence": confidence, "epsilon": epsilon}
    options: dict[str, Any] = {} if within is None else {"alpha": read_alpha(within)}
    options |= {name: short_number(given, name) for name, given in numbers.items() if given is not None}
    if "confidence" in options:
        options["beta"] = 1 - options.pop("confidence")
        if not 0 < options["beta"] < 1:
            raise AccuracyError("confidence is a probability strictly between 0 and 1, such as 0.95")
    if fresh is not None and not isinstance(fresh, bool):
        raise AccuracyError("fresh is true or false: whether the noise must be independent of earlier answers")
    settings = None if parameters is None else read_settings(parameters)
    words = {"mechanism": mechanism, "per_query": per_query, "fresh": fresh, "parameters": settings}
    return cast(TargetOptions, options | {name: word for name, word in words.items() if word is not None})


def accuracy_target(
    alpha: Number | None = None,
    beta: Number | None = None,
    epsilon: Number | None = None,
    accuracy: Number | None = None,
    confidence: Number | None = None,
    mechanism: str | None = None,
    per_query: bool = False,
    fresh: bool = False,
    parameters: Parameters | None = None,
) -> AccuracyTarget:
    """An accuracy target from either vocabulary; beta is 0.05 where it is not given."""
    options = target_options(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query, fresh, parameters)
    within = options.get("alpha")
    return AccuracyTarget(
        alpha=None if isinstance(within, Relative) else within,
        epsilon=options.get("epsilon"),
        beta=options.get("beta", USUAL_BETA),
        guarantee="per-query" if per_query else "simultaneous",
        # Only data-independent mechanisms promise an accuracy, so there is nothing to choose for one.
        mechanism=None if mechanism == AUTO and epsilon is None else mechanism,
        fresh=fresh,
        relative=within if isinstance(within, Relative) else None,
        parameters=options.get("parameters", ()),
    )


def read_alpha(value: Number) -> Fraction | Relative:
    """The accuracy that a number or a text in percent writes."""
    if isinstance(value, Relative):
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        return Relative(short_number(value.strip().removesuffix("%"), "alpha") / 100)
    return short_number(value, "alpha")


def short_number(value: object, what: str) -> Fraction:
    """The exact value of a number that a person would write; refuses text of thousands of digits unread."""
    if not isinstance(value, int | float | str | Decimal | Fraction):
        raise AccuracyError(f"{what} is a number, not {type(value).__name__}")
    refusal = AccuracyError(f"{what} is a number such as 50, '0.1' or '1/3'")
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
        raise refusal
    if isinstance(value, Decimal) and not (value.is_finite() and abs(value.adjusted()) <= 40):
        raise refusal
    number = exact(value.strip() if isinstance(value, str) else value, what, AccuracyError)
    if max(abs(number.numerator), number.denominator) >= MOST_WRITTEN:
        raise refusal
    return number


def spending_cap(spend: Number | None) -> Fraction | None:
    """The most that a release may charge, as an exact number; None for no cap."""
    return None if spend is None else short_number(spend, "spend")


TARGET_KEYS = {"alpha", "epsilon", "beta", "guarantee", "mechanism", "fresh", "parameters"}


def read_target(content: object) -> AccuracyTarget:
    """The target that `AccuracyTarget.to_dict` wrote; keys may be left out. AccuracyError for anything else."""
    return accuracy_target(**read_target_options(content))


def read_target_options(content: object) -> TargetOptions:
    """The part of an accuracy target that an object gives; AccuracyError for anything else."""
    if not isinstance(content, Mapping) or not set(content) <= TARGET_KEYS:
        raise AccuracyError(f"an accuracy target is an object with some of {', '.join(sorted(TARGET_KEYS))}")
    guarantee = content.get("guarantee")
    if guarantee not in (None, "", "simultaneous", "per-query"):
        raise AccuracyError("the guarantee is 'simultaneous' or 'per-query'")
    return target_options(
        alpha=content.get("alpha"),
        beta=content.get("beta"),
        epsilon=content.get("epsilon"),
        mechanism=content.get("mechanism"),
        per_query=guarantee == "per-query" or None,
        fresh=content.get("fresh"),
        parameters=content.get("parameters"),
    )


STORED_KINDS = {"points": "node weights"}
"""Kinds that requests on record call by another name."""


@dataclass(frozen=True)
class Request:
    """A query, its accuracy target, and the text that the same request always has."""

    query: Query
    target: AccuracyTarget
    text: str

    @property
    def digest(self) -> str:
        """The hash of the text, by which ledgers find what was answered before."""
        return hashlib.sha256(self.text.encode()).hexdigest()


MOST_EPSILON = 1 / MIN_SCALE
"""For each row that a person may have. A row that a move changes loses at least 1 / scale, so no noise is finer."""


def make_request(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> Request:
    """The request; refuses queries that hold anything but plain values, and an epsilon that no mechanism serves.

    Its text is canonical JSON; ledgers hold its hash, so it never changes. Points are asked with an epsilon alone.
    """
    most = MOST_EPSILON * handle.policy.rows_per_person
    if target.epsilon is not None and target.epsilon > most:
        raise AccuracyError(f"epsilon is more than 0, and at most {show(most)} here")
    priced = {"epsilon": str(target.epsilon)} if query.kind == "points" else target.to_dict()
    question = {**write_query(query), "kind": STORED_KINDS.get(query.kind, query.kind)}
    content = {"question": question, "demand": priced, "versions": handle.versions()}
    return Request(query, target, json.dumps(content, sort_keys=True, ensure_ascii=True))


def subject_of(handle: DatasetHandle, query: Query, attributes: Iterable[str]) -> str:
    """A name for the true answer of a query: the rows, what counts of them, how values are read, and the question."""
    content = {
        "account": handle.account,
        "snapshot": handle.snapshot,
        "unit": repr(handle.policy.unit),
        "attributes": {name: write_attribute(handle.domain[name]) for name in sorted(attributes)},
        "question": write_query(query),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


MOST_CONDITIONS = 256
MOST_VALUES = 100_000


def write_query(query: Query) -> dict[str, Plain]:
    """Everything the question says; QueryError for values other than plain numbers, texts and dates."""
    _exactly(query, (Query,))
    values = sum(len(axis.edges) + sum(len(members) for _, members in axis.groups) for axis in query.axes)
    if query.ways is not None and type(query.ways) is not int:
        raise QueryError("ways is a whole number of attributes")
    _check("values that bins and groups list", values + len(query.boxes) + len(query.subsets), MOST_VALUES)
    content = _write_fields(query, always=(*ALWAYS, "rows") if query.aggregates else ALWAYS)
    return {name: part for name, part in content.items() if name != "rows" or not query.parts}


ALWAYS = ("kind", "axes", "where", "boxes", "subsets", "ways", "levels")
"""Fields of a query that are written even at their default; all others are left out then."""


def _write_fields(
    value: Query | Aggregate | Part | PartGroup, seen: list[int] | None = None, always: tuple[str, ...] = ()
) -> dict[str, Plain]:
    """The fields of a value; `seen` counts conditions, in each field of a query by itself."""
    parts = {field.name: (getattr(value, field.name), field.default) for field in stored_fields(value)}
    told = ((name, part) for name, (part, usual) in parts.items() if name in always or part != usual)
    return {name: _write(part, [0] if seen is None else seen) for name, part in told}


def _write(value: Any, seen: list[int]) -> Plain:
    """A part of a question; `seen` counts its conditions. Only exact types, whose behaviour nobody can change."""
    match value:
        case Query():
            return write_query(value)
        case Axis(attribute, width, edges, unit, groups):
            _exactly(value, (Axis,))
            return {
                "attribute": _write_text(attribute),
                "width": None if width is None else _literal(width),
                "edges": [_literal(edge) for edge in edges],
                "unit": None if unit is None else _write_text(unit),
                "groups": [[_write_text(name), [_literal(one) for one in values]] for name, values in groups],
            }
        case Aggregate() | Part() | PartGroup():
            _exactly(value, (Aggregate, Part, PartGroup))
            return _write_fields(value, seen)
        case Condition():
            return _write_predicate(cast(Predicate, value), seen)
        case tuple() | list():
            return [_write(part, seen) for part in value]
        case Fraction():
            return str(value)
        case None | bool():
            return value
        case int() | np.integer():
            return int(value)
    return _write_text(value)


def _write_predicate(part: Predicate, seen: list[int]) -> Plain:
    """The condition as nested lists; `seen` counts its parts, so that a chain of them is refused before it is deep."""
    _exactly(part, PREDICATES)
    seen[0] += 2 if isinstance(part, Both | Either | Negation) else 1
    _check("conditions of a filter", seen[0] // 2, MOST_CONDITIONS)
    match part:
        case Both() | Either():
            return [type(part).__name__, _write_predicate(part.first, seen), _write_predicate(part.second, seen)]
        case Negation():
            return ["Negation", _write_predicate(part.inner, seen)]
        case Comparison():
            return [part.op, _write_text(part.attribute), _literal(part.value)]
        case Member():
            _check("values of a filter", len(part.values), MOST_VALUES)
            return ["isin", _write_text(part.attribute), [_literal(value) for value in part.values]]
    return [type(part).__name__, _write_text(part.attribute)]


def _literal(value: object) -> Plain:
    return write_literal(value, QueryError)


def _exactly(part: object, kinds: tuple[type, ...]) -> None:
    """Refuses subclasses: their values could change between the quote and the count."""
    if type(part) not in kinds:
        raise QueryError(f"a question is made of columns, bins and conditions, not of {type(part).__name__}")


def _write_text(name: object) -> str:
    if type(name) is not str or not 0 < len(name) <= LONGEST_TEXT:
        raise QueryError(f"a name is a text of 1 to {LONGEST_TEXT:,} characters")
    return name


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise TooLarge(what, count, limit, "Ask for less at once.")


def read_query(content: object) -> Query:
    """The query that `write_query` wrote; QueryError for anything else."""
    try:
        query: Query = Field(content, "the query", QueryError).read(Query, LEAVES)
        for one in (query, *(part.query for part in query.parts)):
            if one.kind == "quantiles":
                levels_of(one.levels)
        write_query(query)
    except QueryError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise QueryError("this is not a query as BlowfishDB writes it") from None
    return query


def _read_predicate(condition: Field, seen: list[int]) -> Predicate:
    seen[0] += 1
    if seen[0] > 2 * MOST_CONDITIONS:
        raise QueryError(f"a filter has at most {MOST_CONDITIONS} conditions")
    head, *rest = condition.items()
    match head.value, len(rest):
        case "Both", 2:
            return Both(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Either", 2:
            return Either(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Negation", 1:
            return Negation(_read_predicate(rest[0], seen))
        case "isin", 2:
            return Member(rest[0].short_text(), rest[1].each(Field.literal))
        case "IsNull", 1:
            return IsNull(rest[0].short_text())
        case "IsOutside", 1:
            return IsOutside(rest[0].short_text())
        case "==" | "<" | "<=" | ">" | ">=", 2:
            return Comparison(rest[0].short_text(), head.value, rest[1].literal())
    raise QueryError("a condition is a comparison, isin, IsNull, IsOutside, Both, Either or Negation")


def _level(level: Field) -> Fraction:
    if len(level.text()) > LONGEST_NUMBER:
        raise QueryError("a level is a short number")
    return level.fraction()


LEAVES: Leaves = {
    str: Field.short_text,
    int: Field.whole,
    bool: Field.truth,
    object: Field.literal,
    Fraction: _level,
    Predicate: lambda condition: _read_predicate(condition, [0]),
}
