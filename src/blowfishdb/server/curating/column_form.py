"""What a curator says about one column in a form, read into an attribute. Suggestions come from the type alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from blowfishdb.errors import DomainError
from blowfishdb.model.domain import CELL, CLAMP, Attribute
from blowfishdb.model.written import read_attribute
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.looking import Seen

UNUSED, WHOLE, STEPS, LISTED, RANKED, DAYS, MOMENTS = (
    "unused",
    "whole numbers",
    "bins",
    "listed values",
    "ordered values",
    "dates",
    "moments",
)
FORMS: Mapping[Kind, tuple[str, ...]] = {
    Kind.INTEGER: (WHOLE, STEPS, LISTED, RANKED),
    Kind.REAL: (STEPS,),
    Kind.DECIMAL: (STEPS,),
    Kind.BOOLEAN: (LISTED,),
    # Files of text tell no types: a column of theirs may hold anything.
    Kind.TEXT: (LISTED, RANKED, WHOLE, STEPS, DAYS, MOMENTS),
    Kind.DATE: (DAYS,),
    Kind.TIMESTAMP: (MOMENTS, DAYS),
    Kind.INSTANT: (MOMENTS,),
    Kind.OTHER: (),
}
"""The ways in which a column of each kind can be declared, the usual one first."""
HIDDEN, OPEN, VALUE, ENDS = "hidden cell", "public cell", "value", "ends"
UNITS = ("day", "week", "month", "quarter", "year")
CLOCK_UNITS = ("hour", "minute", "day")


@dataclass(frozen=True)
class ColumnForm:
    """What the form of one column holds now; texts as they were typed."""

    form: str = UNUSED
    low: str = ""
    high: str = ""
    step: str = ""
    values: str = ""
    null: str = HIDDEN
    null_value: str = ""
    outside: str = ENDS
    outside_value: str = ""

    @property
    def is_used(self) -> bool:
        return self.form != UNUSED


def suggested(column: ColumnType, form: str) -> ColumnForm:
    """A form with what the column's type tells: the truth values of a boolean, units of a date; never a bound."""
    values = "false, true" if column.kind is Kind.BOOLEAN and form == LISTED else ""
    step = {DAYS: "day", MOMENTS: "hour"}.get(form, "")
    is_list = form in (LISTED, RANKED)
    return ColumnForm(form=form, values=values, step=step, outside=HIDDEN if is_list else ENDS)


def read_column(said: ColumnForm, column: ColumnType) -> Attribute:
    """The attribute that the form declares; DomainError says what is missing."""
    written = _written(said, column.kind)
    is_list = said.form in (LISTED, RANKED)
    written |= _beside("null", said.null, said.null_value, column.kind if is_list else Kind.INTEGER)
    if said.outside == ENDS and not is_list:
        written["outside"] = CLAMP
    else:
        written |= _beside("outside", said.outside, said.outside_value, column.kind if is_list else Kind.INTEGER)
    return read_attribute(written)


def filled(said: ColumnForm, seen: Seen) -> ColumnForm | None:
    """The form with what was read from the data; None where that serves no such form."""
    is_list = said.form in (LISTED, RANKED)
    if is_list and seen.values:
        return replace(said, values=", ".join(seen.values))
    if not is_list and seen.low is not None and seen.high is not None:
        return replace(said, low=_plain(seen.low), high=_plain(seen.high))
    return None


def _plain(text: str) -> str:
    return text.removesuffix(".0").replace(" ", "T")


def _written(said: ColumnForm, kind: Kind) -> dict[str, Any]:
    if said.form in (LISTED, RANKED):
        texts = [text.strip() for text in said.values.replace("\n", ",").split(",") if text.strip()]
        if not texts:
            raise DomainError("list the values that may occur, separated by commas")
        return {
            "kind": "categorical",
            "values": [_typed(text, kind) for text in texts],
            "ordered": said.form == RANKED,
        }
    if said.form not in (WHOLE, STEPS, DAYS, MOMENTS):
        raise DomainError("say how this column is to be used")
    if not said.low.strip() or not said.high.strip():
        raise DomainError("say the lowest and the highest value that the public may know of")
    low, high, step = said.low.strip(), said.high.strip(), said.step.strip()
    if said.form == WHOLE:
        return {"kind": "integers", "low": _whole(low), "high": _whole(high)}
    if said.form == STEPS:
        if not step:
            raise DomainError("say how wide each bin is")
        return {"kind": "bins", "low": low, "high": high, "width": step}
    kinds = {DAYS: "dates", MOMENTS: "timestamps"}
    return {"kind": kinds[said.form], "start": low, "end": high, "by": step or "day"}


def _beside(which: str, how: str, value: str, kind: Kind) -> dict[str, Any]:
    """How NULL, or a value outside, is treated."""
    if how == VALUE:
        if not value.strip():
            raise DomainError(f"say which value {'NULL' if which == 'null' else 'a value outside'} counts as")
        return {which: _typed(value.strip(), kind)}
    return {which: CELL, f"{which}_public": how == OPEN}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DomainError(f"{text[:40]!r} is no whole number") from None


def _typed(text: str, kind: Kind) -> str | int | bool:
    if kind is Kind.BOOLEAN and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is Kind.INTEGER and text.removeprefix("-").isdecimal() and len(text) <= 18:
        return int(text)
    return text
