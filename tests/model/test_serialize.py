"""Typed reading of plain data: what is expected is read, everything else is refused with its place."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow
import pytest

from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.serialize import Field, column_numbers, write, write_literal


@dataclass(frozen=True)
class Inner:
    """A part of the whole."""

    amount: Fraction


@dataclass(frozen=True)
class Whole:
    """A value of every type that is read by its annotation."""

    name: str
    count: int
    share: float
    flag: bool
    kind: Literal["one", "two"]
    limit: Fraction | None
    parts: tuple[Inner, ...]
    reasons: dict[str, str]


WHOLE = Whole("a", 3, 0.5, True, "two", None, (Inner(Fraction(1, 3)), Inner(Fraction(2))), {"x": "y"})


def test_a_dataclass_reads_back() -> None:
    assert Field(write(WHOLE)).read(Whole) == WHOLE


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("name", 1, "whole.name: a text"),
        ("count", True, "whole.count: a whole number"),
        ("count", 1.0, "whole.count: a whole number"),
        ("share", "1", "whole.share: a number"),
        ("share", 10**400, "whole.share: a smaller number"),
        ("flag", 1, "whole.flag: true or false"),
        ("kind", "three", "whole.kind: one of one, two"),
        ("limit", 0.5, "whole.limit: a text"),
        ("limit", "1/0", "whole.limit: an exact number"),
        ("limit", "1e999999999", "whole.limit: an exact number"),
        ("parts", {}, "whole.parts: a list"),
        ("parts", [{"amount": "1"}, {}], r"whole.parts\[1\]: the key 'amount' is missing"),
        ("parts", [{"amount": "1", "other": 1}], r"whole.parts\[0\]: there is no key 'other'"),
        ("reasons", [], "whole.reasons: an object"),
    ],
)
def test_anything_else_is_refused_with_its_place(key: str, value: object, place: str) -> None:
    content = {**write(WHOLE), key: value}
    with pytest.raises(QueryError, match=f"^{place}"):
        Field(content, "whole", QueryError).read(Whole)


def test_types_that_no_annotation_describes_are_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        Field("1").read(Decimal)
    with pytest.raises(TypeError):
        write(object())


@pytest.mark.parametrize(
    "value",
    [
        True,
        7,
        0.1,
        "it's",
        Decimal("1.50"),
        Fraction(1, 3),
        datetime.date(2026, 2, 28),
        datetime.datetime(2026, 2, 28, 12, 30),
    ],
)
def test_literals_read_back_with_their_type(value: object) -> None:
    found = Field(write_literal(value)).literal()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("payload", [["int", "x"], ["bool", "1"], ["set", "1"], ["int"], ["int", "1" * 65], {}, None])
def test_no_other_literal_is_read(payload: Any) -> None:
    with pytest.raises(InvalidInput):
        Field(payload).literal()


def test_no_literal_of_another_type_is_written() -> None:
    class Sly(int):
        pass

    for value in (Sly(1), None, 10**40, "x" * 10_001):
        with pytest.raises(QueryError):
            write_literal(value, QueryError)


def test_lists_of_texts_and_numbers() -> None:
    assert Field(["a", "b"]).texts() == ("a", "b")
    assert Field([1, 0.5]).floats().tolist() == [1.0, 0.5]
    for wrong in (["a", 1], "ab", None):
        with pytest.raises(InvalidInput):
            Field(wrong).texts()
    for wrong in ([True], ["1"], [10**400], 1):
        with pytest.raises(InvalidInput):
            Field(wrong).floats()


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.int64])
def test_columns_of_numbers_are_read_where_they_lie(kind: type) -> None:
    column = pyarrow.array(np.array([3, -1, 4, -1, 5], dtype=kind))
    read = column_numbers(column[1:4])
    assert (read.dtype, read.tolist()) == (np.dtype(kind), [-1, 4, -1])
    assert read.ctypes.data == column.buffers()[1].address + read.itemsize


@pytest.mark.parametrize("column", [[1.5, None], [True, False], ["1", "2"], np.ones(2, np.float32), np.ones(2, "u4")])
def test_what_is_no_column_of_numbers_is_refused(column: Any) -> None:
    with pytest.raises(ValueError, match="column of numbers"):
        column_numbers(pyarrow.array(column))
