"""The form of one column: its bounds and what NULL counts as, read into an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nicegui import ui

from blowfishdb.catalog.dataset import attribute_words
from blowfishdb.errors import BlowfishError, DomainError
from blowfishdb.model.domain import CELL, CLAMP, Attribute
from blowfishdb.model.policy import full
from blowfishdb.model.serialize import read_attribute
from blowfishdb.server.pages.controls import called, in_row, pill, small
from blowfishdb.server.pages.page_context import sentence
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.ibis_source import Seen

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


WORDS = {
    UNUSED: "Not used",
    WHOLE: "Whole numbers",
    STEPS: "Bins of numbers",
    LISTED: "Listed values",
    RANKED: "Values in an order",
    DAYS: "Dates",
    MOMENTS: "Moments",
}
NULLS = {HIDDEN: "a hidden cell", OPEN: "a public cell", VALUE: "counted as a value"}
OUTSIDES = {ENDS: "at the ends", **NULLS}
FIELD = "outlined dense hide-bottom-space"


@dataclass(eq=False)
class ColumnEditor:
    """One column of the table that is being added; `look` reads it, after a warning."""

    name: str
    column: ColumnType
    look: Callable[[ColumnEditor], None]
    said: ColumnForm = field(default_factory=ColumnForm)
    is_from_data: bool = False
    _fields: ui.element | None = None
    _verdict: ui.element | None = None

    def build(self) -> None:
        """Draws the form."""
        with called(ui.element("div").classes("bf-column").props("role=group"), self.name):
            with ui.element("div"):
                ui.label(self.name).style("font-weight:620;overflow-wrap:anywhere")
                ui.label(self.column.native.lower()).classes("bf-quiet bf-small bf-mono")
            with ui.element("div").classes("bf-stack"):
                options = {form: WORDS[form] for form in (UNUSED, *FORMS[self.column.kind])}
                chosen = ui.select(
                    options, value=self.said.form, on_change=lambda event: self._choose(str(event.value))
                )
                called(chosen.props(FIELD), f"How {self.name} is used", f"use-{self.name}")
                chosen.style("max-width:230px")
                self._fields = in_row()
                self._verdict = ui.element("div").props("aria-live=polite")
            self._draw()

    def attribute(self) -> Attribute:
        """What is declared; DomainError when something is missing."""
        return read_column(self.said, self.column)

    def fill(self, seen: Seen) -> None:
        """Takes over what was read from the data, marked as such."""
        found = filled(self.said, seen)
        if found is None:
            ui.notify("Nothing was filled in: too many values, or of another kind.", position="top")
            return
        self.said, self.is_from_data = found, True
        self._draw()

    def _choose(self, form: str) -> None:
        self.said, self.is_from_data = suggested(self.column, form), False
        self._draw()

    def _set(self, part: str, value: object) -> None:
        self.said = replace(self.said, **{part: str(value or "")})
        self._judge()
        if part in ("null", "outside"):
            self._draw()

    def _draw(self) -> None:
        if self._fields is None:
            return
        self._fields.clear()
        with self._fields:
            if self.said.form in (WHOLE, STEPS, DAYS, MOMENTS):
                self._bounds()
            elif self.said.form in (LISTED, RANKED):
                self._list()
            if self.said.is_used:
                self._beside()
                button = ui.button("Look in the data …", icon="visibility", on_click=lambda: self.look(self))
                called(button.props("flat dense size=sm"), test_id=f"look-{self.name}")
        self._judge()

    def _bounds(self) -> None:
        said, is_time = self.said, self.said.form in (DAYS, MOMENTS)
        samples = {DAYS: ("2024-01-01", "2025-12-31"), MOMENTS: ("2024-01-01T00:00", "2025-01-01T00:00")}
        first, last = samples.get(said.form, ("0", "110"))
        self._text("low", "From", said.low, first, 150 if is_time else 96)
        self._text("high", "To", said.high, last, 150 if is_time else 96)
        if said.form == STEPS:
            self._text("step", "Width", said.step, "100", 84)
        elif is_time:
            units = list(UNITS if said.form == DAYS else CLOCK_UNITS)
            ui.select(units, value=said.step, label="By", on_change=lambda event: self._set("step", event.value)).props(
                FIELD
            ).style("width:104px")

    def _list(self) -> None:
        sample = "low, middle, high" if self.said.form == RANKED else "NC, VA, other"
        with ui.element("div").style("flex:1;min-width:260px"):
            self._text("values", "Values, separated by commas", self.said.values, sample, None)

    def _text(self, part: str, label: str, value: str, sample: str, width: int | None) -> None:
        box = ui.input(
            label, value=value, placeholder=sample, on_change=lambda event: self._set(part, event.value)
        ).props(FIELD)
        called(box, test_id=f"{part}-{self.name}").style("width:100%" if width is None else f"width:{width}px")

    def _beside(self) -> None:
        is_list = self.said.form in (LISTED, RANKED)
        for part, label, options in (
            ("null", "NULL is", NULLS),
            ("outside", "Other values are", NULLS if is_list else OUTSIDES),
        ):
            now = str(getattr(self.said, part))
            chosen = ui.select(
                options, value=now, label=label, on_change=lambda event, part=part: self._set(part, event.value)
            )
            called(chosen.props(FIELD).style("width:190px"), test_id=f"{part}-{self.name}")
            if now == VALUE:
                self._text(f"{part}_value", "Which value", str(getattr(self.said, f"{part}_value")), "0", 110)

    def _judge(self) -> None:
        if self._verdict is None:
            return
        self._verdict.clear()
        if not self.said.is_used:
            return
        with self._verdict, in_row():
            if self.is_from_data:
                pill("read from the data", "is-accent")
            try:
                small(attribute_words(self.attribute(), full()))
            except BlowfishError as error:
                ui.label(sentence(error.message)).classes("bf-small").style("color:var(--bf-accent)")
