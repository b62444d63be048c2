"""The form of one column: how it is used, its bounds as the curator types them, and what NULL counts as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nicegui import ui

from blowfishdb.catalog.declaring import attribute_words
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Attribute
from blowfishdb.model.graphs.families import full
from blowfishdb.server.curating.column_form import (
    CLOCK_UNITS,
    DAYS,
    ENDS,
    FORMS,
    HIDDEN,
    LISTED,
    MOMENTS,
    OPEN,
    RANKED,
    STEPS,
    UNITS,
    UNUSED,
    VALUE,
    WHOLE,
    ColumnForm,
    filled,
    read_column,
    suggested,
)
from blowfishdb.server.pages.curator_parts import called, pill
from blowfishdb.server.pages.here import sentence
from blowfishdb.sources.base import ColumnType
from blowfishdb.sources.looking import Seen

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
                self._fields = ui.element("div").classes("bf-row")
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
        with self._verdict, ui.element("div").classes("bf-row"):
            if self.is_from_data:
                pill("read from the data", "is-accent")
            try:
                ui.label(attribute_words(self.attribute(), full())).classes("bf-small bf-quiet")
            except BlowfishError as error:
                ui.label(sentence(error.message)).classes("bf-small").style("color:var(--bf-accent)")
