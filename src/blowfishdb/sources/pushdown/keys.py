"""What one attribute contributes to the GROUP BY, and how what comes back becomes value codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Attribute, Bins, Categorical, Dates, Integers, Timestamps
from blowfishdb.model.segments import Segments
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.engine import Engine, Expr
from blowfishdb.sources.pushdown.expressions import null_flag

Fetched: TypeAlias = Sequence[Sequence[object]]
CHOICE_LIMIT = 256
"""Edges that are compared one by one; a choice of 256 is eight comparisons deep."""
STEP_LIMIT = 2**16
"""Steps beyond which fewer, compared segments are grouped rather than the steps themselves."""
LIST_LIMIT = 1024
"""Categories that are listed in the statement."""

NUMBERS = (Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.BOOLEAN, Kind.TEXT)
ALLOWED: dict[type[Attribute], tuple[Kind, ...]] = {
    Integers: NUMBERS,
    Bins: NUMBERS,
    Dates: (Kind.DATE, Kind.TIMESTAMP, Kind.TEXT),
    Timestamps: (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.TEXT),
}


@dataclass(frozen=True)
class Key:
    """Columns to group the rows by, what is made of them once they are grouped, and their reading in the proxy.

    `finish` runs on groups, not on rows: it keeps values beyond the declared ones from travelling.
    """

    columns: tuple[Expr, ...]
    decode: Callable[[Fetched], Ints]
    finish: Callable[[Sequence[Expr]], tuple[Expr, ...]] | None = None
    fetched: int = 1
    """How many columns come back."""


def check_type(name: str, attribute: Attribute, column: ColumnType) -> None:
    """Refuses a column that cannot hold what is declared; looks at types only."""
    if isinstance(attribute, Categorical):
        text = isinstance(attribute.values[0], str)
        allowed: tuple[Kind, ...] = (Kind.TEXT,) if text else (Kind.INTEGER, Kind.BOOLEAN, Kind.DECIMAL, Kind.REAL)
    else:
        allowed = ALLOWED[type(attribute)]
    if column.kind not in allowed:
        declared = type(attribute).__name__.lower()
        wanted = ", ".join(allowed)
        raise SourceError(f"{name} is declared as {declared}, which is read from {wanted}, not from {column.native}")


def make_key(cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """The key of one attribute for one column of the given type."""
    from blowfishdb.sources.pushdown.moments import date_key, timestamp_key
    from blowfishdb.sources.pushdown.numeric import number_key

    attribute = cut.attribute
    if isinstance(attribute, Categorical):
        return _category_key(attribute, column, kind, engine)
    if kind.kind == Kind.TEXT or (not engine.typed and isinstance(attribute, Dates | Timestamps)):
        return raw_key(attribute, engine.text(column) if kind.kind == Kind.TEXT else column)
    if isinstance(attribute, Dates):
        return date_key(attribute, cut, column, kind)
    if isinstance(attribute, Timestamps):
        return timestamp_key(attribute, cut, column, kind, engine)
    if isinstance(attribute, Integers | Bins):
        return number_key(attribute, cut, column, kind, engine)
    raise SourceError(f"{type(attribute).__name__} attributes cannot be counted by a data source")


def raw_key(attribute: Attribute, column: Expr) -> Key:
    """Groups by the values as they are; the proxy reads them."""
    return Key((column,), lambda fetched: attribute.encode(_objects(fetched[0])))


def _objects(values: Sequence[object]) -> object:
    column = np.empty(len(values), dtype=object)
    column[:] = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    return column


def _category_key(attribute: Categorical, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """Groups by the values; of the groups only the declared values leave the engine."""
    import ibis

    is_text = kind.kind == Kind.TEXT
    plain = engine.text(column) if is_text else column
    if kind.kind not in (Kind.TEXT, Kind.INTEGER):
        return raw_key(attribute, plain)
    if attribute.size > LIST_LIMIT:
        # One more than the longest value: whatever is longer stays longer than every declared value.
        longest = max(len(str(value).encode()) for value in attribute.values)
        return raw_key(attribute, plain.substr(0, longest + 1) if is_text else plain)
    listed = [value if is_text else int(value) for value in attribute.values]
    listed = [value for value in listed if isinstance(value, str) or -(2**63) <= value < 2**63]

    def finish(grouped: Sequence[Expr]) -> tuple[Expr, ...]:
        value = grouped[0]
        nothing = ibis.null("string" if is_text else "int64")
        return ibis.cases((value.isin(listed), value), else_=nothing), null_flag(value)

    def decode(fetched: Fetched) -> Ints:
        index, unlisted, _ = attribute.read(_objects(fetched[0]))
        is_null = np.array(fetched[1], dtype=np.bool_)
        return attribute.place((index, is_null, unlisted & ~is_null))

    return Key((plain,), decode, finish, fetched=2)


def _double(value: object) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else np.nan


def segment_decoder(cut: Segments) -> Callable[[Fetched], Ints]:
    """Reads numbers of segments: -1 lies below the first, the number of segments above the last, NULL is NULL."""
    return step_decoder(cut.attribute, cut.starts, 0)


def step_decoder(attribute: Attribute, firsts: Ints | int, origin: int) -> Callable[[Fetched], Ints]:
    """Reads numbers of steps from `origin` on, given the first value of each step, or how many values each has."""

    def decode(fetched: Fetched) -> Ints:
        found = np.array([_double(value) for value in fetched[0]], dtype=np.float64)
        is_null = np.isnan(found)
        count = -(-attribute.size // firsts) if isinstance(firsts, int) else int(firsts.size)
        clamped = np.clip(np.where(is_null, origin, found), origin - 1, origin + count)
        number = clamped.astype(np.int64) - origin
        is_outside = ~is_null & ((number < 0) | (number >= count))
        inside = np.clip(number, 0, count - 1)
        index = inside * firsts if isinstance(firsts, int) else firsts[inside]
        index = np.where(number >= count, attribute.size - 1, index)
        return attribute.place((index.astype(np.int64), is_null, is_outside))

    return decode
