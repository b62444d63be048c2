"""Conditions that the engine checks itself, so that rows which a filter rejects are not even grouped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blowfishdb.model.arrays import Bools
from blowfishdb.model.domain import Bins, Categorical, Dates, Integers
from blowfishdb.model.filtering import passing
from blowfishdb.model.predicate import Both, Either, Negation, Predicate, atoms
from blowfishdb.model.segments import Segments
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.engine import Engine, Expr
from blowfishdb.sources.pushdown.choose import LIST_LIMIT
from blowfishdb.sources.pushdown.keys import segment_decoder
from blowfishdb.sources.pushdown.moments import day_literal
from blowfishdb.sources.pushdown.numeric import number_line

Cuts: TypeAlias = Mapping[str, Segments]
ATOM_LIMIT = 64
"""Comparisons of several attributes in one bracket; longer ones are left to the proxy."""
RUN_LIMIT = 8
"""Stretches of accepted values beyond which the values are grouped and the proxy decides."""


@dataclass(frozen=True)
class Line:
    """A column that compares like its declared values: the edge at each index, and where it is NULL in disguise."""

    value: Expr
    edge: Callable[[int], Expr]
    nan: bool = False


@dataclass(frozen=True)
class Pushed:
    """Conditions for the engine, and the parts of the filter that are left for the proxy."""

    conditions: list[Expr]
    left: Predicate | None


def push(where: Predicate | None, condition_of: Callable[[str, Bools], Expr | None], cuts: Cuts) -> Pushed:
    """Splits a filter into what the engine can decide and the rest; what is decided need not be grouped by."""
    conditions, left = list[Expr](), None
    for part in _conjuncts(where):
        found = _holds(part, True, condition_of, cuts)
        if found is not None:
            conditions.append(found)
        else:
            left = part if left is None else Both(left, part)
    return Pushed(conditions, left)


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
        asked = part if wanted else Negation(part)
        return condition_of(name, passing(asked, cuts, {name: places}))
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
        found = number_line(attribute, column, kind, engine)
        return None if found is None else _stretches(cut, accepted, Line(*found))
    if isinstance(attribute, Dates) and kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _stretches(cut, accepted, Line(column, day_literal(attribute, kind)))
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
    found = value.isin(wanted) if wanted else value != value
    if takes_others:
        found = ~found if wanted else value.notnull()
    return found | value.isnull() if takes_null else found


def _stretches(cut: Segments, accepted: Bools, line: Line) -> Expr | None:
    """A union of stretches of the line, in the order below, each segment, above."""
    segments = int(cut.starts.size)
    numbers: Sequence[object] = [*range(-1, segments + 1), None]
    taken = accepted[cut.of(segment_decoder(cut)([numbers]))]
    takes_null, taken = bool(taken[-1]), taken[:-1]
    changes = np.flatnonzero(np.diff(np.concatenate([[False], taken, [False]]).astype(np.int8)))
    runs = list(zip(changes[::2] - 1, changes[1::2] - 1, strict=True))
    if len(runs) > RUN_LIMIT:
        return None
    edges = [*(int(start) for start in cut.starts), cut.attribute.size]
    found = [_stretch(line, edges, int(first), int(after), segments) for first, after in runs]
    if takes_null:
        found += [line.value.isnull()] + ([line.value.isnan()] if line.nan else [])
    union = found[0]
    for other in found[1:]:
        union |= other
    return union


def _stretch(line: Line, edges: Sequence[int], first: int, after: int, segments: int) -> Expr:
    """Places `first` up to, not including, `after`: -1 lies below the first edge, `segments` above the last."""
    low = None if first < 0 else line.value >= line.edge(edges[first])
    if after <= segments:
        high = line.value < line.edge(edges[after])
        return high if low is None else low & high
    # What has no upper end would take NaN in, which engines hold to be the largest number.
    low = line.value.notnull() if low is None else low
    return low & ~line.value.isnan() if line.nan else low
