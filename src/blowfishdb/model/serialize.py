"""Values as plain data and back: typed reading and writing, then the domains and policies of a document."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from blowfishdb.errors import DomainError, InvalidInput, PolicyError
from blowfishdb.model.calendar import Dates, Timestamps, dates, timestamps
from blowfishdb.model.constraints import Constraint, MarginalConstraint, read_constraint, write_constraint
from blowfishdb.model.domain import (
    Attribute,
    Bins,
    Categorical,
    Domain,
    Integers,
    bins,
    categorical,
    integers,
)
from blowfishdb.model.numbers import Floats, show, suggest
from blowfishdb.model.policy import (
    ROW,
    Custom,
    Family,
    Full,
    Grid,
    Line,
    Partition,
    Person,
    Policy,
    Public,
    Threshold,
    custom,
    full,
    grid,
    line,
    partition,
    public,
    show_theta,
    threshold,
)

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
Value = TypeVar("Value")

LONGEST_TEXT = 10_000
LONGEST_NUMBER = 64
"""No number and no date that we write has more characters; longer ones are refused before they are computed."""
LITERALS: dict[str, tuple[type, Callable[[str], object]]] = {
    "bool": (bool, lambda text: {"True": True, "False": False}[text]),
    "int": (int, int),
    "float": (float, float),
    "str": (str, str),
    "Decimal": (Decimal, Decimal),
    "Fraction": (Fraction, Fraction),
    "date": (datetime.date, datetime.date.fromisoformat),
    "datetime": (datetime.datetime, datetime.datetime.fromisoformat),
}


@dataclass(frozen=True)
class Field:
    """A value of parsed JSON and its place, to be read as one type; `error` is raised with the place otherwise.

    Messages name the place and the type that was expected, never the value.
    """

    value: object
    place: str = "the content"
    error: type[InvalidInput] = InvalidInput

    def wrong(self, problem: str) -> InvalidInput:
        """The error for this place."""
        return self.error(f"{self.place}: {problem}")

    def fields(self, keys: Iterable[str] | None = None) -> Fields:
        """The fields of an object; without `keys` it may hold any."""
        if not isinstance(self.value, Mapping) or not all(isinstance(key, str) for key in self.value):
            raise self.wrong("an object was expected")
        known = None if keys is None else list(keys)
        unknown = [key for key in self.value if known is not None and key not in known]
        if unknown:
            raise self.wrong(f"there is no key {unknown[0][:40]!r} here; {suggest(unknown[0][:40], known or ())}")
        return Fields(self)

    def items(self) -> list[Field]:
        """The entries of a list."""
        if not isinstance(self.value, list | tuple):
            raise self.wrong("a list was expected")
        return [Field(item, f"{self.place}[{place}]", self.error) for place, item in enumerate(self.value)]

    def each(self, read: Callable[[Field], Value]) -> tuple[Value, ...]:
        """The entries of a list, each read in the same way."""
        return tuple(map(read, self.items()))

    def pair(self) -> tuple[Field, Field]:
        """The entries of a list of two."""
        items = self.items()
        if len(items) != 2:
            raise self.wrong("a list of two was expected")
        return items[0], items[1]

    def optional(self, read: Callable[[Field], Value]) -> Value | None:
        """The value; None for null."""
        return None if self.value is None else read(self)

    def text(self) -> str:
        """The text."""
        if not isinstance(self.value, str):
            raise self.wrong("a text was expected")
        return self.value

    def short_text(self) -> str:
        """The text, of at most 10,000 characters."""
        text = self.text()
        if len(text) > LONGEST_TEXT:
            raise self.wrong(f"a text of at most {LONGEST_TEXT:,} characters was expected")
        return text

    def texts(self) -> tuple[str, ...]:
        """The texts of a list; answers have hundreds of thousands of labels."""
        if not isinstance(self.value, list | tuple) or not set(map(type, self.value)) <= {str}:
            raise self.wrong("a list of texts was expected")
        return tuple(self.value)

    def whole(self) -> int:
        """The whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.wrong("a whole number was expected")
        return self.value

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false was expected")
        return self.value

    def fraction(self) -> Fraction:
        """The exact number that is written as text."""
        text = self.text()
        try:
            if len(text) <= LONGEST_TEXT and "e" not in text.lower():
                return Fraction(text)
        except (ValueError, ZeroDivisionError):
            pass
        raise self.wrong("an exact number as text was expected, such as '1/3'")

    def number(self) -> float:
        """The number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.wrong("a number was expected")
        try:
            return float(self.value)
        except OverflowError:
            raise self.wrong("a smaller number was expected") from None

    def floats(self) -> Floats:
        """The numbers of a list."""
        if not isinstance(self.value, list) or not set(map(type, self.value)) <= {int, float}:
            raise self.wrong("a list of numbers was expected")
        try:
            return np.array(self.value, dtype=np.float64)
        except OverflowError:
            raise self.wrong("smaller numbers were expected") from None

    def one_of(self, *choices: str) -> str:
        """One of the listed words."""
        text = self.text()
        if text not in choices:
            raise self.wrong(f"one of {', '.join(choices)} was expected")
        return text

    def literal(self) -> object:
        """A value that `write_literal` wrote; plain numbers, texts and truth values stand for themselves."""
        if isinstance(self.value, bool | int | float):
            return self.value
        if isinstance(self.value, str):
            return self.short_text()
        kind, content = self.pair()
        kind.one_of(*LITERALS)
        text = content.short_text()
        if kind.value != "str" and len(text) > LONGEST_NUMBER:
            raise content.wrong(f"a number or a date of at most {LONGEST_NUMBER} characters was expected")
        try:
            return LITERALS[kind.text()][1](text)
        except (ValueError, KeyError, ArithmeticError):
            raise content.wrong(f"a {kind.value} was expected") from None

    def read(self, kind: Any) -> Any:
        """The value as the annotated type: a plain type, a Fraction, a list, an optional value or a dataclass."""
        plain = {str: Field.text, int: Field.whole, bool: Field.truth, float: Field.number, Fraction: Field.fraction}
        if kind in plain:
            return plain[kind](self)
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType) and NoneType in inner and len(inner) == 2:
            return self.optional(lambda field: field.read(next(one for one in inner if one is not NoneType)))
        if origin is tuple and inner[1:] == (Ellipsis,):
            return self.each(lambda field: field.read(inner[0]))
        if origin in (dict, Mapping):
            return {key: field.read(inner[1]) for key, field in self.fields().items()}
        if origin is Literal:
            return self.one_of(*inner)
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            raise TypeError(f"{kind} cannot be read from plain data")
        kinds = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        content = self.fields(names)
        return kind(**{name: content[name].read(kinds[name]) for name in names})


class Fields(dict[str, Field]):
    """The fields of an object by key; a key that is missing is refused where it is asked for."""

    def __init__(self, whole: Field) -> None:
        if isinstance(whole.value, Mapping):
            entries = whole.value.items()
            super().__init__({key: Field(value, f"{whole.place}.{key}", whole.error) for key, value in entries})
        self.whole = whole

    def __missing__(self, key: str) -> Field:
        raise self.whole.wrong(f"the key {key!r} is missing")

    def optional(self, key: str, read: Callable[[Field], Value]) -> Value | None:
        """The value under a key; None where the key is missing or null."""
        return self[key].optional(read) if key in self else None


def write(value: object) -> Any:
    """A value as `Field.read` reads it: dataclasses as objects, exact numbers as text, tuples as lists."""
    if isinstance(value, Fraction):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: write(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, Mapping):
        return {str(key): write(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [write(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be written as plain data")


def write_literal(value: object, error: type[InvalidInput] = InvalidInput) -> Plain:
    """A value with its type, so that 1, '1' and true differ; only exact types, whose behaviour nobody can change."""
    if type(value) not in [kind for kind, _ in LITERALS.values()]:
        raise error(f"a value is a number, a text, a date or a time, not {type(value).__name__}")
    text = str(value) if not isinstance(value, int) or abs(value) < 10**40 else None
    if text is None or len(text) > LONGEST_TEXT:
        raise error(f"a value is at most {LONGEST_TEXT:,} characters long, a number at most 40 digits")
    return [type(value).__name__, text]


ATTRIBUTES: dict[str, Callable[..., Attribute]] = {
    "categorical": categorical,
    "integers": integers,
    "bins": bins,
    "dates": dates,
    "timestamps": timestamps,
}
FAMILIES: dict[str, Callable[..., Family]] = {
    "full": full,
    "public": public,
    "line": line,
    "threshold": threshold,
    "partition": partition,
    "custom": custom,
}


def plain(value: object) -> object:
    """A value as JSON knows it; numbers that are not whole and dates become text."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else show(value)
    if isinstance(value, float | Decimal):
        return plain(Fraction(str(value)))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int):
        return value
    raise DomainError(f"{value!r} cannot be written in a document")


def write_domain(domain: Domain) -> dict[str, Any]:
    """Each attribute by name."""
    return {name: write_attribute(attribute) for name, attribute in domain.attributes}


def write_attribute(attribute: Attribute) -> dict[str, Any]:
    """One attribute with everything that was declared."""
    entry = _write_kind(attribute)
    entry["null"] = plain(attribute.null)
    entry["outside"] = plain(attribute.outside)
    if attribute.null_public:
        entry["null_public"] = True
    if attribute.outside_public:
        entry["outside_public"] = True
    return entry


def _write_kind(attribute: Attribute) -> dict[str, Any]:
    if isinstance(attribute, Categorical):
        return {"kind": "categorical", "values": list(attribute.values), "ordered": attribute.is_ordered}
    if isinstance(attribute, Integers):
        return {"kind": "integers", "low": attribute.low, "high": attribute.high}
    if isinstance(attribute, Bins):
        if attribute.width is None:
            return {"kind": "bins", "edges": [plain(edge) for edge in attribute.edges]}
        ends = {"low": plain(attribute.start), "high": plain(attribute.edge(attribute.count))}
        return {"kind": "bins", **ends, "width": plain(attribute.width)}
    if isinstance(attribute, Dates):
        return {"kind": "dates", "start": plain(attribute.start), "end": plain(attribute.end), "by": attribute.by}
    if isinstance(attribute, Timestamps):
        ends = {"start": plain(attribute.start), "end": plain(attribute.end)}
        return {"kind": "timestamps", **ends, "by": attribute.by, "zone": attribute.zone}
    raise DomainError(f"a {type(attribute).__name__} cannot be written in a document")


def read_attribute(entry: Mapping[str, Any]) -> Attribute:
    """The attribute that a checked entry declares: its keys are the options of the constructor."""
    return ATTRIBUTES[entry["kind"]](**{key: value for key, value in entry.items() if key != "kind"})


def write_policy(policy: Policy) -> dict[str, Any]:
    """The policy; attributes that are not named stay full."""
    entry: dict[str, Any] = {"composition": policy.composition, "presence": policy.presence}
    if isinstance(policy.unit, Person):
        unit = policy.unit
        entry["unit"] = {"person": unit.id, "at_most": unit.at_most, "order_by": unit.order_by}
    if policy.attributes:
        entry["attributes"] = {name: _write_family(family) for name, family in policy.attributes.items()}
    if policy.joint:
        entry["joint"] = [
            {"attributes": list(joint.attributes), "theta": plain(joint.theta), "metric": joint.metric}
            for joint in policy.joint
        ]
    if policy.constraints:
        entry["constraints"] = [_write_constraint(constraint) for constraint in policy.constraints]
    return entry


def _write_family(family: Family) -> dict[str, Any]:
    match family:
        case Full() | Public() | Line():
            return {"kind": type(family).__name__.lower()}
        case Threshold(theta):
            return {"kind": "threshold", "theta": plain(theta) if isinstance(theta, Fraction) else show_theta(theta)}
        case Partition(blocks, ()):
            return {"kind": "partition", "blocks": [[plain(value) for value in block] for block in blocks]}
        case Partition(_, cuts):
            return {"kind": "partition", "cuts": [plain(cut) for cut in cuts]}
        case Custom(edges):
            return {"kind": "custom", "edges": [[plain(one), plain(two)] for one, two in edges]}


def _write_constraint(constraint: Constraint) -> str | dict[str, Any]:
    if not isinstance(constraint, MarginalConstraint) or constraint.values is None:
        return write_constraint(constraint)
    listed = [[*(plain(value) for value in combination), count] for combination, count in constraint.values]
    return {"fact": write_constraint(constraint), "values": listed}


def read_stored_constraint(entry: str | Mapping[str, Any]) -> Constraint:
    """The public constraint that a checked entry declares: its text, or a marginal with its counts."""
    if isinstance(entry, str):
        return read_constraint(entry)
    constraint = read_constraint(entry["fact"])
    if not isinstance(constraint, MarginalConstraint):
        raise PolicyError(f"{entry['fact']}: only marginals list values; write the number behind it, = 120")
    return MarginalConstraint(constraint.attributes, tuple((tuple(line[:-1]), line[-1]) for line in entry["values"]))


def read_policy(entry: Mapping[str, Any]) -> Policy:
    """The policy that a checked entry declares."""
    unit = entry.get("unit")
    return Policy(
        {name: read_family(family) for name, family in entry.get("attributes", {}).items()},
        composition=entry.get("composition", "record"),
        presence=entry.get("presence", "public"),
        unit=ROW if unit is None else Person(unit["person"], unit["at_most"], unit["order_by"]),
        joint=[read_grid(joint) for joint in entry.get("joint", ())],
        constraints=[read_stored_constraint(constraint) for constraint in entry.get("constraints", ())],
    )


def read_grid(entry: Mapping[str, Any]) -> Grid:
    """The joint threshold that a checked entry declares."""
    return grid(**entry)


def read_family(entry: Mapping[str, Any]) -> Family:
    """The family that a checked entry declares: its keys are the options of the constructor."""
    return FAMILIES[entry["kind"]](**{key: value for key, value in entry.items() if key != "kind"})
