"""The form of one column of a table that is being added: how it is used, what the public may know, what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from nicegui import ui

from blowfishdb.catalog.dataset import attribute_words, read_family, read_list, typed_value, write_row
from blowfishdb.catalog.dataset import read_attribute as read_words
from blowfishdb.catalog.guidance import ColumnProposal
from blowfishdb.errors import BlowfishError, DomainError, sentence
from blowfishdb.model.document import plain, read_attribute, write_attribute
from blowfishdb.model.domain import CELL, CLAMP, Attribute
from blowfishdb.server.pages.controls import called, in_row, pill, redraw, small
from blowfishdb.sources.base import ColumnKind, ColumnType
from blowfishdb.sources.ibis_source import ColumnSeen

UNUSED, WHOLE, STEPS, DAYS, MOMENTS = "Not used", "Whole numbers", "Bins of numbers", "Dates", "Moments"
LISTED, RANKED = "Listed values", "Values in an order"
FORMS: Mapping[ColumnKind, tuple[str, ...]] = {
    ColumnKind.INTEGER: (WHOLE, STEPS, LISTED, RANKED),
    ColumnKind.REAL: (STEPS,),
    ColumnKind.DECIMAL: (STEPS,),
    ColumnKind.BOOLEAN: (LISTED,),
    # Files of text tell no types: a column of theirs may hold anything.
    ColumnKind.TEXT: (LISTED, RANKED, WHOLE, STEPS, DAYS, MOMENTS),
    ColumnKind.DATE: (DAYS,),
    ColumnKind.TIMESTAMP: (MOMENTS, DAYS),
    ColumnKind.INSTANT: (MOMENTS,),
    ColumnKind.OTHER: (),
}
"""The ways in which a column of each kind can be declared, the usual one first."""
EVERYTHING, PUBLIC = "everything secret", "public"
HIDDEN, OPEN, VALUE, ENDS = "a hidden cell", "a public cell", "counted as a value", "at the ends"
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
    policy: str = EVERYTHING

    @property
    def is_used(self) -> bool:
        return self.form != UNUSED

    @property
    def is_list(self) -> bool:
        return self.form in (LISTED, RANKED)

    @property
    def is_time(self) -> bool:
        return self.form in (DAYS, MOMENTS)


def suggested(column: ColumnType, form: str) -> ColumnForm:
    """A form with what the column's type tells: the truth values of a boolean, units of a date; never a bound."""
    values = "false, true" if column.kind is ColumnKind.BOOLEAN and form == LISTED else ""
    step = {DAYS: "day", MOMENTS: "hour"}.get(form, "")
    return ColumnForm(form, values=values, step=step, outside=HIDDEN if form in (LISTED, RANKED) else ENDS)


def proposed_form(column: ColumnType, proposal: ColumnProposal) -> ColumnForm:
    """The form with the bounds that a profile proposes; a list of values is left to be filled in."""
    usual = FORMS[column.kind][:1]
    if not proposal.is_used or not usual:
        return ColumnForm()
    if not proposal.domain:
        return suggested(column, usual[0])
    form = column_form_of(read_words(proposal.domain, column.kind))
    return suggested(column, LISTED) if form is None or form.is_list else form


def column_form_of(attribute: Attribute) -> ColumnForm | None:
    """The form that declares an attribute; None for uneven bins and clocks of a place, which it has no fields for."""
    entry = write_attribute(attribute)
    form = {"integers": WHOLE, "bins": STEPS, "dates": DAYS, "timestamps": MOMENTS}.get(entry["kind"], LISTED)
    if "edges" in entry or entry.get("zone", "UTC") != "UTC":
        return None
    beside = {
        **_form_beside("null", attribute.null, is_public=attribute.null_public),
        **_form_beside("outside", attribute.outside, is_public=attribute.outside_public),
    }
    if form == LISTED:
        values = write_row(entry["values"])
        return ColumnForm(RANKED if entry["ordered"] else LISTED, values=values, **beside)
    low, high = (str(entry[end]) for end in (("low", "high") if form in (WHOLE, STEPS) else ("start", "end")))
    return ColumnForm(form, low, high, str(entry.get("width") or entry.get("by") or ""), **beside)


def _form_beside(which: str, target: object, *, is_public: bool) -> dict[str, str]:
    if target == CLAMP:
        return {which: ENDS}
    if target == CELL:
        return {which: OPEN if is_public else HIDDEN}
    return {which: VALUE, f"{which}_value": str(plain(target))}


def read_column(form: ColumnForm, column: ColumnType) -> Attribute:
    """The attribute that the form declares; DomainError says what is missing."""
    kind = column.kind if form.is_list else ColumnKind.INTEGER
    entry = _read_values(form, column.kind) | _read_beside("null", form.null, form.null_value, kind)
    if form.outside == ENDS and not form.is_list:
        return read_attribute(entry | {"outside": CLAMP})
    return read_attribute(entry | _read_beside("outside", form.outside, form.outside_value, kind))


def filled(form: ColumnForm, seen: ColumnSeen) -> ColumnForm | None:
    """The form with what was read from the data; None where that serves no such form."""
    if form.is_list and seen.values:
        return replace(form, values=write_row(seen.values))
    if not form.is_list and seen.low is not None and seen.high is not None:
        low, high = (text.removesuffix(".0").replace(" ", "T") for text in (seen.low, seen.high))
        return replace(form, low=low, high=high)
    return None


def _read_values(form: ColumnForm, kind: ColumnKind) -> dict[str, Any]:
    if form.is_list:
        texts = read_list(form.values)
        if not texts:
            raise DomainError("list the values that may occur, separated by commas or one on each line")
        values = [typed_value(text, kind) for text in texts]
        return {"kind": "categorical", "values": values, "ordered": form.form == RANKED}
    if not form.is_used:
        raise DomainError("say how this column is to be used")
    low, high, step = form.low.strip(), form.high.strip(), form.step.strip()
    if not low or not high:
        raise DomainError("say the lowest and the highest value that the public may know of")
    if form.form == WHOLE:
        return {"kind": "integers", "low": _whole(low), "high": _whole(high)}
    if form.form == STEPS:
        if not step:
            raise DomainError("say how wide each bin is")
        return {"kind": "bins", "low": low, "high": high, "width": step}
    return {"kind": "dates" if form.form == DAYS else "timestamps", "start": low, "end": high, "by": step or "day"}


def _read_beside(which: str, how: str, value: str, kind: ColumnKind) -> dict[str, Any]:
    """How NULL, or a value outside, is treated."""
    if how != VALUE:
        return {which: CELL, f"{which}_public": how == OPEN}
    if not value.strip():
        raise DomainError(f"say which value {'NULL' if which == 'null' else 'a value outside'} counts as")
    return {which: typed_value(value.strip(), kind)}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DomainError(f"{text[:40]!r} is not a whole number") from None


SAMPLES = {DAYS: ("2024-01-01", "2025-12-31"), MOMENTS: ("2024-01-01T00:00", "2025-01-01T00:00")}
FIELD = "hide-bottom-space"


@dataclass(eq=False)
class ColumnEditor:
    """One column of the table that is being added; `look` reads it, after a warning."""

    name: str
    column: ColumnType
    look: Callable[[ColumnEditor], None]
    on_change: Callable[[], None]
    form: ColumnForm = field(default_factory=ColumnForm)
    is_from_data: bool = False
    is_joined: bool = False
    """Whether a join gives the column: only those of the main table are looked at."""
    proposal: ColumnProposal | None = None
    """What the chosen profile says of it."""
    is_declared_anew: bool = False
    """Whether the table was added before: what is hidden of the column is chosen elsewhere."""

    def build(self) -> None:
        """Draws the form."""
        with called(ui.element("div").classes("bf-column").props("role=group"), self.name):
            with ui.element("div"):
                ui.label(self.name).style("font-weight:620;overflow-wrap:anywhere")
                kind = self.column.native.lower()
                ui.label(f"{kind}, joined" if self.is_joined else kind).classes("bf-quiet bf-small bf-mono")
            with ui.element("div").classes("bf-stack"):
                uses = [*([] if self.is_declared_anew else [UNUSED]), *FORMS[self.column.kind]]
                use = roomy_select(uses, self.form.form, None, lambda value: self._choose(str(value)))
                called(use, f"How {self.name} is used", f"use-{self.name}").style("max-width:230px")
                self._fields = in_row()
                self._verdict = ui.element("div").props("aria-live=polite")
            self._draw()

    def attribute(self) -> Attribute:
        """What is declared; DomainError when something is missing."""
        return read_column(self.form, self.column)

    @property
    def is_declared(self) -> bool:
        """Whether the form says all that an attribute needs."""
        try:
            self.attribute()
        except BlowfishError:
            return False
        return True

    def propose(self, proposal: ColumnProposal) -> None:
        """Takes over what a profile proposes, unless something was declared already; a use alone is filled in."""
        self.proposal, proposed = proposal, proposed_form(self.column, proposal)
        is_empty = self.form == suggested(self.column, self.form.form)
        if not self.form.is_used or (is_empty and self.form.form == proposed.form):
            self.form = proposed

    def fill(self, seen: ColumnSeen) -> None:
        """Takes over what was read from the data, marked as such."""
        form = filled(self.form, seen)
        if form is None:
            raise DomainError("nothing was filled in: too many values, or of another kind")
        self.form, self.is_from_data = form, True
        self._draw()

    def blame(self, text: str) -> None:
        """Says below the column why it cannot be used as declared."""
        redraw(self._verdict, partial(self._refuse, text))
        ui.run_javascript(f"document.getElementById('{self._verdict.html_id}').scrollIntoView({{block: 'center'}})")

    def content(self) -> dict[str, object]:
        """What a draft keeps; nothing that was read from the data."""
        form = replace(self.form, low="", high="", values="") if self.is_from_data else self.form
        kind = {"kind": self.column.kind.value, "native": self.column.native, "digits": self.column.digits}
        return {"name": self.name, **kind, "form": vars(form)}

    def _choose(self, form: str) -> None:
        self.form, self.is_from_data = suggested(self.column, form), False
        self._draw()
        self.on_change()

    def _set(self, part: str, value: object) -> None:
        self.form = replace(self.form, **{part: str(value or "")})
        if part in ("null", "outside", "policy"):
            self._draw()
        else:
            redraw(self._verdict, self._judge)
        self.on_change()

    def _draw(self) -> None:
        redraw(self._fields, self._build_fields)
        redraw(self._verdict, self._judge)

    def _build_fields(self) -> None:
        form = self.form
        if not form.is_used:
            return
        if form.is_list:
            with ui.element("div").style("flex:1;min-width:260px"):
                sample = "low, middle, high" if form.form == RANKED else "NC, VA, other"
                self._text("values", "Values, separated by commas or one on each line", sample, "100%", is_long=True)
        else:
            first, last = SAMPLES.get(form.form, ("0", "110"))
            self._text("low", "From", first, "150px" if form.is_time else "96px")
            self._text("high", "To", last, "150px" if form.is_time else "96px")
        if form.form == STEPS:
            self._text("step", "Width", "100", "84px")
        if form.is_time:
            units = list(UNITS if form.form == DAYS else CLOCK_UNITS)
            roomy_select(units, form.step, "By", lambda value: self._set("step", value)).style("width:104px")
        self._choice("null", "NULL is", [HIDDEN, OPEN, VALUE])
        ends = [] if form.is_list else [ENDS]
        self._choice("outside", "Other values are", [*ends, HIDDEN, OPEN, VALUE])
        if self.is_declared_anew:
            return
        looser = [] if self.proposal is None or not self.proposal.looser else [self.proposal.looser]
        self._choice("policy", "Hidden", list(dict.fromkeys([EVERYTHING, *looser, form.policy, PUBLIC])))
        if not self.is_joined:
            button = ui.button("Look in the data …", icon="visibility", on_click=lambda: self.look(self))
            called(button.props("flat dense size=sm"), test_id=f"look-{self.name}")

    def _text(self, part: str, label: str, sample: str, width: str, *, is_long: bool = False) -> None:
        value, make = str(getattr(self.form, part)), ui.textarea if is_long else ui.input
        box = make(label, value=value, placeholder=sample, on_change=lambda event: self._set(part, event.value))
        box.props(f"{FIELD} {'autogrow input-style=max-height:14em' if is_long else ''}")
        called(box, test_id=f"{part}-{self.name}").style(f"width:{width}")

    def _choice(self, part: str, label: str, options: list[str]) -> None:
        now = str(getattr(self.form, part))
        select = roomy_select(options, now, label, lambda value: self._set(part, value))
        called(select.style("width:190px"), test_id=f"{part}-{self.name}")
        if now == VALUE:
            self._text(f"{part}_value", "Which value", "0", "110px")

    def _judge(self) -> None:
        if not self.form.is_used:
            if self.proposal is not None:
                small(sentence(self.proposal.why))
            return
        with in_row():
            if self.is_from_data:
                pill("read from the data", "is-accent")
            try:
                small(attribute_words(self.attribute(), read_family(self.form.policy)))
                proposal = self.proposal
                if proposal is not None and proposal.looser == self.form.policy:
                    small(f"No longer hidden: {proposal.gives_up}.")
            except BlowfishError as error:
                self._refuse(sentence(error.message))

    def _refuse(self, text: str) -> None:
        ui.label(text).classes("bf-small").style("color:var(--bf-accent)")


def roomy_select(options: list[str], value: str, label: str | None, on_change: Callable[[object], object]) -> ui.select:
    """A choice whose options stand apart, for people who see them for the first time."""
    select = ui.select(options, value=value, label=label, on_change=lambda event: on_change(event.value))
    return select.props(FIELD, remove="options-dense")
