"""Values as plain data and back, typed; and values as bytes, for digests."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, suggest

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
T = TypeVar("T")

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


LONG = 20_000
"""Lists from this length on are worth the import of pyarrow."""


class LongList(Sequence[T]):
    """A long list in an array of Arrow, whose entries become Python values when they are asked for."""

    array: Any

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return tuple(self.array[index].to_pylist()) if isinstance(index, slice) else self.array[index].as_py()

    def __iter__(self) -> Iterator[T]:
        return iter(self.array.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.array.to_numpy(zero_copy_only=False), dtype, copy=copy)


class WholeNames(LongList[str]):
    """The names of the whole numbers from `first` on, and some others; the column is made when it is asked for."""

    def __init__(self, first: int, size: int, others: tuple[str, ...]) -> None:
        self.first, self.size, self.others = first, size, others

    @cached_property
    def array(self) -> Any:
        import pyarrow

        text = pyarrow.large_string()
        names = pyarrow.array(np.arange(self.first, self.first + self.size)).cast(text)
        return pyarrow.concat_arrays([names, pyarrow.array(self.others, text)])

    def __len__(self) -> int:
        return self.size + len(self.others)


class EvenNumbers(LongList[float]):
    """The numbers start, start + step, ...; the column is made when it is asked for."""

    def __init__(self, start: float, step: float, size: int) -> None:
        self.start, self.step, self.size = start, step, size

    @staticmethod
    def of(numbers: Floats) -> EvenNumbers | None:
        """The same numbers, bit by bit; None where they are not even."""
        start, following = numbers[:2].tolist()
        even = EvenNumbers(start, following - start, numbers.size)
        # The ends tell it of most; equal bits: minus zero stays what it is.
        if even.start + (numbers.size - 1) * even.step != numbers[-1]:
            return None
        return even if np.array_equal(even.numbers().view(np.int64), numbers.view(np.int64)) else None

    def numbers(self) -> Floats:
        """All of them."""
        return np.asarray(self.start + self.step * np.arange(self.size), dtype=np.float64)

    @cached_property
    def array(self) -> Any:
        import pyarrow

        return pyarrow.array(self.numbers())

    def __len__(self) -> int:
        return self.size


def number_column(numbers: Floats) -> Sequence[float]:
    """The numbers, in a column where they are many."""
    if numbers.size < LONG:
        return tuple(numbers.tolist())
    even = EvenNumbers.of(numbers)
    if even is not None:
        return even
    import pyarrow

    return LongList(pyarrow.array(numbers))


COLUMN_TYPES: Mapping[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}


def column_numbers(column: Any) -> np.ndarray[Any, Any]:
    """The numbers of a column of Arrow, read-only and without a copy; ValueError for what has other entries.

    Arrow's own way imports pandas, which takes longer than all else of an answer.
    """
    kind = COLUMN_TYPES.get(str(column.type))
    if kind is None or column.null_count:
        raise ValueError("this is not a column of numbers")
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


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

    def each(self, read: Callable[[Field], T]) -> tuple[T, ...]:
        """The entries of a list, each read in the same way."""
        return tuple(map(read, self.items()))

    def pair(self) -> tuple[Field, Field]:
        """The entries of a list of two."""
        items = self.items()
        if len(items) != 2:
            raise self.wrong("a list of two was expected")
        return items[0], items[1]

    def optional(self, read: Callable[[Field], T]) -> T | None:
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
        """The numbers of a list or an array."""
        if isinstance(self.value, EvenNumbers):
            return self.value.numbers()
        if isinstance(self.value, np.ndarray) and self.value.dtype.kind in "if":
            return self.value.astype(np.float64, copy=False)
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

    def read(self, kind: Any, leaves: Leaves | None = None) -> Any:
        """The value as the annotated type: a list, an optional value, a dataclass, or one of the `leaves`.

        The usual leaves are plain types and exact numbers, and a dataclass has all its fields. With others those that
        are at their default may be left out.
        """
        plain = PLAIN if leaves is None else leaves
        if kind in plain:
            return plain[kind](self)
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType) and NoneType in inner:
            known = reduce(operator.or_, [one for one in inner if one is not NoneType])
            return self.optional(lambda field: field.read(known, leaves))
        if origin is tuple and inner[1:] == (Ellipsis,):
            return self.each(lambda field: field.read(inner[0], leaves))
        if origin is tuple and len(inner) == 2:
            return tuple(field.read(one, leaves) for field, one in zip(self.pair(), inner, strict=True))
        if origin in (dict, Mapping):
            return {key: field.read(inner[1], leaves) for key, field in self.fields().items()}
        if origin is Literal:
            return self.one_of(*inner)
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            raise TypeError(f"{kind} cannot be read from plain data")
        kinds, listed = _hints(kind), stored_fields(kind)
        content = self.fields(field.name for field in listed)
        names = [one.name for one in listed if leaves is None or one.name in content or not _has_default(one)]
        return kind(**{name: content[name].read(kinds[name], leaves) for name in names})


Leaves: TypeAlias = Mapping[Any, Callable[[Field], Any]]
PLAIN: Leaves = {
    str: Field.text,
    int: Field.whole,
    bool: Field.truth,
    float: Field.number,
    Fraction: Field.fraction,
}
PASSING = {"stored": False}
"""Metadata of a field that is not part of the plain data."""


_hints = cache(get_type_hints)


def stored_fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a dataclass, or of one of its values, that its plain data has."""
    return _stored_fields(kind if isinstance(kind, type) else type(kind))


@cache
def _stored_fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(one for one in dataclasses.fields(kind) if one.init and one.metadata.get("stored", True))


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


class Fields(dict[str, Field]):
    """The fields of an object by key; a key that is missing is refused where it is asked for."""

    def __init__(self, whole: Field) -> None:
        if isinstance(whole.value, Mapping):
            entries = whole.value.items()
            super().__init__({key: Field(value, f"{whole.place}.{key}", whole.error) for key, value in entries})
        self.whole = whole

    def __missing__(self, key: str) -> Field:
        raise self.whole.wrong(f"the key {key!r} is missing")

    def optional(self, key: str, read: Callable[[Field], T]) -> T | None:
        """The value under a key; None where the key is missing or null."""
        return self[key].optional(read) if key in self else None


def write(value: object) -> Any:
    """A value as `Field.read` reads it: dataclasses as objects, exact numbers as text, tuples as lists."""
    if isinstance(value, Fraction):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: write(getattr(value, field.name)) for field in stored_fields(value)}
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


VERSION = 2
"""The version of this encoding; digests carry it. Those without a version are in the first one, see plan/plan.py."""
MARK = f"{VERSION}:"
LENGTH = 8

Encodable: TypeAlias = "bool | int | str | bytes | Fraction | tuple[Any, ...] | list[Any] | np.ndarray[Any, Any] | None"


def encode(value: Encodable) -> bytes:
    """Bytes that determine the value and its type; TypeError for anything but a plain exact value; floats are refused.

    A value becomes a tag, the length of its body in eight bytes, and the body. Tag and length tell where a value ends,
    so bytes can be read back in one way only (proof: docs/proofs/certificate.md, Digests).
    """
    return b"".join(_pieces(value))


def digest(value: Encodable) -> str:
    """A hash of the encoded value, after the version of the encoding."""
    hashed = hashlib.sha256()
    for piece in _pieces(value):
        hashed.update(piece)
    return MARK + hashed.hexdigest()


def version_of(digest_text: str) -> int:
    """The version of the encoding that a digest was made with."""
    return VERSION if digest_text.startswith(MARK) else 1


Piece: TypeAlias = "bytes | memoryview"


def _pieces(value: Encodable) -> list[Piece]:
    """The encoding in pieces, so that no long array is copied before it is needed as one."""
    tag, body = _tagged(value)
    return [tag + sum(map(len, body)).to_bytes(LENGTH, "big"), *body]


def _tagged(value: Encodable) -> tuple[bytes, list[Piece]]:
    if value is None:
        return b"N", []
    if isinstance(value, bool | np.bool_):
        return b"B", [b"\1" if value else b"\0"]
    if isinstance(value, int | np.integer):
        return b"I", [_whole(int(value))]
    if isinstance(value, str):
        return b"S", [value.encode("utf-8", "surrogatepass")]
    if isinstance(value, bytes):
        return b"Y", [value]
    if isinstance(value, Fraction):
        return b"F", [*_pieces(value.numerator), *_pieces(value.denominator)]
    if isinstance(value, tuple | list):
        return b"T" if isinstance(value, tuple) else b"L", [piece for part in value for piece in _pieces(part)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub":
        return b"A", _array(value)
    raise TypeError(f"a digest is made of whole numbers, fractions, texts and arrays of them, not {type(value)}")


def _whole(number: int) -> bytes:
    """The shortest two's complement that holds the number and its sign."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _array(array: np.ndarray[Any, Any]) -> list[Piece]:
    """Type, shape and entries, in the same order of bytes on every machine."""
    kind = array.dtype.newbyteorder("<")
    entries = np.ascontiguousarray(array, kind).reshape(-1).view(np.uint8)
    return [*_pieces(kind.str), *_pieces(array.shape), entries.data]
