"""Chooses the key of an attribute, and conditions that the engine checks itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.domain import Attribute, Bins, Categorical, Integers
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.predicate import Both, Either, Negation, Predicate, atoms
from blowfishdb.model.projection import passing
from blowfishdb.sources.base import ColumnType, Engine, Expr, Kind
from blowfishdb.sources.pushdown.calendar import date_key, day_literal, timestamp_key
from blowfishdb.sources.pushdown.keys import Fetched, Key, Line, as_objects, null_flag, raw_key, segment_decoder
from blowfishdb.sources.pushdown.numeric import number_key, number_line

LIST_LIMIT = 1024
"""Categories that are listed in the statement."""

NUMBER_KINDS = (Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.BOOLEAN, Kind.TEXT)
ALLOWED: dict[type[Attribute], tuple[Kind, ...]] = {
    Integers: NUMBER_KINDS,
    Bins: NUMBER_KINDS,
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


Cuts: TypeAlias = Mapping[str, Segments]
ATOM_LIMIT = 64
"""Comparisons of several attributes in one bracket; longer ones are left to the proxy."""
RUN_LIMIT = 8
"""Segments of accepted values beyond which the values are grouped and the proxy decides."""


def push(
    where: Predicate | None, condition_of: Callable[[str, Bools], Expr | None], cuts: Cuts
) -> tuple[list[Expr], Predicate | None]:
    """The conditions that the engine can decide, which need not be grouped by, and the rest of the filter."""
    conditions, left = list[Expr](), None
    for part in _conjuncts(where):
        condition = _holds(part, True, condition_of, cuts)
        if condition is not None:
            conditions.append(condition)
        else:
            left = part if left is None else Both(left, part)
    return conditions, left


def _conjuncts(where: Predicate | None) -> Iterator[Predicate]:
    waiting = [] if where is None else [where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Both):
            waiting += [part.second, part.first]
        else:
            yield part


def _holds(part: Predicate, wanted: bool, condition_of: Callable[[str, Bools], Expr | None], cuts: Cuts) -> Expr | None:
    """An expression that is true exactly where the part is true, or false if that is wanted; unknown is neither."""
    while isinstance(part, Negation):
        part, wanted = part.inner, not wanted
    conditions = atoms(part)
    names = {atom.attribute for atom in conditions}
    if len(names) == 1:
        name = names.pop()
        places = np.arange(cuts[name].count)
        predicate = part if wanted else Negation(part)
        return condition_of(name, passing(predicate, cuts, {name: places}))
    if not isinstance(part, Both | Either) or len(conditions) > ATOM_LIMIT:
        return None
    first, second = (_holds(side, wanted, condition_of, cuts) for side in (part.first, part.second))
    if first is None or second is None:
        return None
    return first & second if isinstance(part, Both) == wanted else first | second


def condition(cut: Segments, accepted: Bools, column: Expr, kind: ColumnType, engine: Engine) -> Expr | None:
    """True on exactly the rows whose value lies in an accepted segment; None where the engine is not asked."""
    attribute = cut.attribute
    if not accepted.any() or not engine.typed:
        return None
    if isinstance(attribute, Categorical):
        return _listed(attribute, cut, accepted, column, kind, engine)
    if isinstance(attribute, Integers | Bins):
        line = number_line(attribute, column, kind, engine)
        return None if line is None else _union(cut, accepted, line)
    if isinstance(attribute, Dates) and kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _union(cut, accepted, Line(column, day_literal(attribute, kind)))
    return None


def _listed(
    attribute: Categorical, cut: Segments, accepted: Bools, column: Expr, kind: ColumnType, engine: Engine
) -> Expr | None:
    if kind.kind not in (Kind.TEXT, Kind.INTEGER) or attribute.size > LIST_LIMIT:
        return None
    is_text = kind.kind == Kind.TEXT
    value = engine.text(column) if is_text else column
    taken = accepted[cut.of(np.arange(attribute.size))]
    nothing, yes = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
    zero = np.zeros(1, dtype=np.int64)
    takes_null, takes_others = (
        bool(accepted[cut.of(attribute.place((zero, null, others)))][0])
        for null, others in ((yes, nothing), (nothing, yes))
    )
    wanted = [
        v if is_text else int(v)
        for v, is_taken in zip(attribute.values, taken, strict=True)
        if is_taken != takes_others
    ]
    if not all(isinstance(v, str) or -(2**63) <= v < 2**63 for v in wanted):
        return None
    holds = value.isin(wanted) if wanted else value != value
    if takes_others:
        holds = ~holds if wanted else value.notnull()
    return holds | value.isnull() if takes_null else holds


def _union(cut: Segments, accepted: Bools, line: Line) -> Expr | None:
    """A union of segments of the line, in the order below, each segment, above."""
    segments = int(cut.starts.size)
    numbers: Sequence[object] = [*range(-1, segments + 1), None]
    taken = accepted[cut.of(segment_decoder(cut)([numbers]))]
    takes_null, taken = bool(taken[-1]), taken[:-1]
    changes = np.flatnonzero(np.diff(np.concatenate([[False], taken, [False]]).astype(np.int8)))
    runs = list(zip(changes[::2] - 1, changes[1::2] - 1, strict=True))
    if len(runs) > RUN_LIMIT:
        return None
    edges = [*(int(start) for start in cut.starts), cut.attribute.size]
    parts = [_segment(line, edges, int(first), int(after), segments) for first, after in runs]
    if takes_null:
        parts += [line.value.isnull()] + ([line.value.isnan()] if line.nan else [])
    union = parts[0]
    for other in parts[1:]:
        union |= other
    return union


def _segment(line: Line, edges: Sequence[int], first: int, after: int, segments: int) -> Expr:
    """Places `first` up to, not including, `after`: -1 lies below the first edge, `segments` above the last."""
    low = None if first < 0 else line.value >= line.edge(edges[first])
    if after <= segments:
        high = line.value < line.edge(edges[after])
        return high if low is None else low & high
    # What has no upper end would take NaN in, which engines hold to be the largest number.
    low = line.value.notnull() if low is None else low
    return low & ~line.value.isnan() if line.nan else low
