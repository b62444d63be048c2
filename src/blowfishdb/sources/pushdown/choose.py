"""Chooses the key of an attribute from what is declared and from the type of its column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Attribute, Bins, Categorical, Dates, Integers, Timestamps
from blowfishdb.model.segments import Segments
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.engine import Engine, Expr
from blowfishdb.sources.pushdown.expressions import null_flag
from blowfishdb.sources.pushdown.keys import Fetched, Key, as_objects, raw_key
from blowfishdb.sources.pushdown.moments import date_key, timestamp_key
from blowfishdb.sources.pushdown.numeric import number_key

LIST_LIMIT = 1024
"""Categories that are listed in the statement."""

NUMBERS = (Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.BOOLEAN, Kind.TEXT)
ALLOWED: dict[type[Attribute], tuple[Kind, ...]] = {
    Integers: NUMBERS,
    Bins: NUMBERS,
    Dates: (Kind.DATE, Kind.TIMESTAMP, Kind.TEXT),
    Timestamps: (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.TEXT),
}


def check_type(name: str, attribute: Attribute, column: ColumnType) -> None:
    """Refuses a column that cannot hold what is declared; looks at types only."""
    if isinstance(attribute, Categorical):
        text = isinstance(attribute.values[0], str)
        allowed: tuple[Kind, ...] = (Kind.TEXT,) if text else (Kind.INTEGER, Kind.BOOLEAN, Kind.DECIMAL, Kind.REAL)
    else:
        allowed = ALLOWED[type(attribute)]
    if column.kind not in allowed:
        declared = "listed values" if isinstance(attribute, Categorical) else type(attribute).__name__.lower()
        wanted = ", ".join(allowed)
        zoned = column.kind == Kind.INSTANT and Kind.TIMESTAMP in allowed
        advice = "; declare timestamps in a time zone" if zoned else ""
        raise SourceError(f"{name}: {declared} are read from {wanted}, not from {column.native}{advice}")


def make_key(cut: Segments, column: Expr, kind: ColumnType, engine: Engine) -> Key:
    """The key of one attribute for one column of the given type."""
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
        index, unlisted, _ = attribute.read(as_objects(fetched[0]))
        is_null = np.array(fetched[1], dtype=np.bool_)
        return attribute.place((index, is_null, unlisted & ~is_null))

    return Key((plain,), decode, finish, fetched=2)
