"""Adding a dataset: where the rows are, what the public may know of them, whose they are, and what they may lose."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import events, ui

from blowfishdb.catalog.dataset import Dataset, attribute_words, typed_value
from blowfishdb.errors import BlowfishError, CatalogError, DomainError, InvalidInput, PolicyError, TooLarge, plural
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Domain
from blowfishdb.model.policy import ROW, Person, Policy, Row, full
from blowfishdb.model.serialize import read_attribute
from blowfishdb.server.pages.controls import (
    ask_after_warning,
    called,
    card,
    choice,
    heading,
    in_row,
    pill,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext, sentence
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.ibis_source import Seen

FOLDER = "uploads"
ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
"""No ending is the end of another one."""


def place_for(folder: Path, name: str) -> Path:
    """Where a file of that name is kept; the name is cleaned, and made new so that no other file is replaced."""
    ending = next((ending for ending in ENDINGS if name.lower().endswith(ending)), None)
    if ending is None:
        raise InvalidInput(f"a file of rows ends in {', '.join(ENDINGS)}")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).name[: -len(ending)]).strip("-")[:60] or "rows"
    home = folder / FOLDER
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home / f"{plain}-{uuid.uuid4().hex[:8]}{ending}"


def check_size(size: int, largest: int) -> None:
    """TooLarge for a file beyond the limit of this server."""
    if size > largest:
        raise TooLarge("bytes of a file", size, largest, "Load it into a database and connect that.")


def without_user(address: str) -> str:
    """An address for the log: without the name and the password that it may hold."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else address


UNUSED, WHOLE, STEPS, DAYS, MOMENTS = "Not used", "Whole numbers", "Bins of numbers", "Dates", "Moments"
LISTED, RANKED = "Listed values", "Values in an order"
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
    values = "false, true" if column.kind is Kind.BOOLEAN and form == LISTED else ""
    step = {DAYS: "day", MOMENTS: "hour"}.get(form, "")
    return ColumnForm(form, values=values, step=step, outside=HIDDEN if form in (LISTED, RANKED) else ENDS)


def read_column(form: ColumnForm, column: ColumnType) -> Attribute:
    """The attribute that the form declares; DomainError says what is missing."""
    kind = column.kind if form.is_list else Kind.INTEGER
    entry = _read_values(form, column.kind) | _read_beside("null", form.null, form.null_value, kind)
    if form.outside == ENDS and not form.is_list:
        return read_attribute(entry | {"outside": CLAMP})
    return read_attribute(entry | _read_beside("outside", form.outside, form.outside_value, kind))


def filled(form: ColumnForm, seen: Seen) -> ColumnForm | None:
    """The form with what was read from the data; None where that serves no such form."""
    if form.is_list and seen.values:
        return replace(form, values=", ".join(seen.values))
    if not form.is_list and seen.low is not None and seen.high is not None:
        low, high = (text.removesuffix(".0").replace(" ", "T") for text in (seen.low, seen.high))
        return replace(form, low=low, high=high)
    return None


def _read_values(form: ColumnForm, kind: Kind) -> dict[str, Any]:
    if form.is_list:
        texts = [text.strip() for text in form.values.replace("\n", ",").split(",") if text.strip()]
        if not texts:
            raise DomainError("list the values that may occur, separated by commas")
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


def _read_beside(which: str, how: str, value: str, kind: Kind) -> dict[str, Any]:
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
        raise DomainError(f"{text[:40]!r} is no whole number") from None


SAMPLES = {DAYS: ("2024-01-01", "2025-12-31"), MOMENTS: ("2024-01-01T00:00", "2025-01-01T00:00")}
FIELD = "hide-bottom-space"


@dataclass(eq=False)
class ColumnEditor:
    """One column of the table that is being added; `look` reads it, after a warning."""

    name: str
    column: ColumnType
    look: Callable[[ColumnEditor], None]
    form: ColumnForm = field(default_factory=ColumnForm)
    is_from_data: bool = False

    def build(self) -> None:
        """Draws the form."""
        with called(ui.element("div").classes("bf-column").props("role=group"), self.name):
            with ui.element("div"):
                ui.label(self.name).style("font-weight:620;overflow-wrap:anywhere")
                ui.label(self.column.native.lower()).classes("bf-quiet bf-small bf-mono")
            with ui.element("div").classes("bf-stack"):
                use = roomy_select(
                    [UNUSED, *FORMS[self.column.kind]], self.form.form, None, lambda value: self._choose(str(value))
                )
                called(use, f"How {self.name} is used", f"use-{self.name}").style("max-width:230px")
                self._fields = in_row()
                self._verdict = ui.element("div").props("aria-live=polite")
            self._draw()

    def attribute(self) -> Attribute:
        """What is declared; DomainError when something is missing."""
        return read_column(self.form, self.column)

    def fill(self, seen: Seen) -> None:
        """Takes over what was read from the data, marked as such."""
        form = filled(self.form, seen)
        if form is None:
            ui.notify("Nothing was filled in: too many values, or of another kind.", position="top")
            return
        self.form, self.is_from_data = form, True
        self._draw()

    def _choose(self, form: str) -> None:
        self.form, self.is_from_data = suggested(self.column, form), False
        self._draw()

    def _set(self, part: str, value: object) -> None:
        self.form = replace(self.form, **{part: str(value or "")})
        if part in ("null", "outside"):
            self._draw()
        else:
            redraw(self._verdict, self._judge)

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
                self._text("values", "Values, separated by commas", sample, "100%")
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
        button = ui.button("Look in the data …", icon="visibility", on_click=lambda: self.look(self))
        called(button.props("flat dense size=sm"), test_id=f"look-{self.name}")

    def _text(self, part: str, label: str, sample: str, width: str) -> None:
        value = str(getattr(self.form, part))
        box = ui.input(label, value=value, placeholder=sample, on_change=lambda event: self._set(part, event.value))
        called(box.props(FIELD), test_id=f"{part}-{self.name}").style(f"width:{width}")

    def _choice(self, part: str, label: str, options: list[str]) -> None:
        now = str(getattr(self.form, part))
        select = roomy_select(options, now, label, lambda value: self._set(part, value))
        called(select.style("width:190px"), test_id=f"{part}-{self.name}")
        if now == VALUE:
            self._text(f"{part}_value", "Which value", "0", "110px")

    def _judge(self) -> None:
        if not self.form.is_used:
            return
        with in_row():
            if self.is_from_data:
                pill("read from the data", "is-accent")
            try:
                small(attribute_words(self.attribute(), full()))
            except BlowfishError as error:
                ui.label(sentence(error.message)).classes("bf-small").style("color:var(--bf-accent)")


def roomy_select(options: list[str], value: str, label: str | None, on_change: Callable[[object], object]) -> ui.select:
    """A choice whose options stand apart, for people who see them for the first time."""
    select = ui.select(options, value=value, label=label, on_change=lambda event: on_change(event.value))
    return select.props(FIELD, remove="options-dense")


WARNING = (
    "Bounds and lists of values are public: every analyst sees them, and nothing hides them afterwards. If they follow "
    "the data, they tell about it: the highest salary, a diagnosis that one person has. Prefer what is known "
    "anyway: a code book, a law, a rule of the form."
)


@dataclass(eq=False)
class DatasetDraft:
    """What the forms declare so far."""

    context: PageContext
    source: str = ""
    columns: list[ColumnEditor] = field(default_factory=list)
    name: str = ""
    unit: str = "row"
    person: str = ""
    at_most: str = "5"
    order_by: str = ""
    epsilon: str = "1"
    per_analyst: str = ""

    def dataset(self) -> Dataset:
        """The dataset as it is declared; a typed error names the first thing that is missing."""
        if not self.name.strip():
            raise CatalogError("give the dataset a name; analysts will call it so")
        used = [editor for editor in self.columns if editor.form.is_used]
        if not used:
            raise DomainError("no column is used: say for at least one what the public may know of it")
        return Dataset(
            self.name.strip(),
            source=self.source,
            domain=Domain(tuple((editor.name, editor.attribute()) for editor in used)),
            policy=Policy(unit=self._unit()),
            epsilon=self.epsilon,
            per_analyst=self.per_analyst.strip() or None,
        )

    def _unit(self) -> Row | Person:
        if self.unit == "row":
            return ROW
        if not self.at_most.strip().isdecimal():
            raise PolicyError("say how many rows of each person count, at most")
        return Person(self.person, int(self.at_most), self.order_by)


@page("/datasets/add", "Add a dataset", "curate", lead="Columns are read, rows are not. Nothing is inferred from data.")
def add(context: PageContext) -> None:
    """Four steps on one page; later ones appear when the columns are known."""
    draft = DatasetDraft(context)
    with card():
        heading("1  Where the rows are")
        sent = ui.element("div").style("max-width:340px;margin-top:10px")
        rest = ui.element("div").style("margin-top:12px")
    later = ui.element("div").style("margin-top:16px")

    ways = {"address": _by_address, "file": _by_file}

    def show(way: str) -> None:
        redraw(rest, lambda: ways[way](draft, later))

    with sent:
        choice({"address": "By address", "file": "Send a file"}, "address", show, "How the rows are reached")
    show("address")


def _by_address(draft: DatasetDraft, later: ui.element) -> None:
    with in_row().style("align-items:flex-start"):
        box = ui.input("Address", placeholder="postgresql://reader:${BLOWFISH_CLINIC}@host/clinic#visits")
        box.props('data-testid="address"').style("flex:1;min-width:320px")
        button = ui.button("Read the columns", icon="view_column", on_click=lambda: look(box.value.strip()))
        button.props('unelevated data-testid="read-columns"')
    tables = ui.element("div").style("margin-top:10px")
    small(
        "duckdb:///shop.duckdb#sales, sqlite, postgresql, mysql, spark, or a path such as data/people.parquet, "
        "relative to the configuration. A password stands in the environment, written ${BLOWFISH_...} here.",
        "margin-top:10px;max-width:84ch",
    )

    async def look(address: str) -> None:
        tables.clear()
        curator = draft.context.curator()
        is_database = "://" in address and "#" not in address
        names = await draft.context.run(lambda: curator.tables(address)) if is_database else []
        if not names:
            await _read_columns(draft, address, later)
            return
        with tables:
            table = ui.select(
                names,
                label=f"Table ({len(names):,} found)",
                on_change=lambda event: _read_columns(draft, f"{address}#{event.value}", later),
            )
            table.props('data-testid="table"', remove="options-dense").style("max-width:340px")


def _by_file(draft: DatasetDraft, later: ui.element) -> None:
    settings = draft.context.app_state.settings

    async def take(event: events.UploadEventArguments) -> None:
        draft.context.check("curate")
        check_size(event.file.size(), settings.largest_upload)
        path = place_for(settings.folder, event.file.name)
        await event.file.save(path)
        path.chmod(0o600)
        draft.context.note("sent a file", path.name)
        await _read_columns(draft, str(path.relative_to(settings.folder)), later)

    choose = ui.button("Choose a file", icon="upload_file").props("unelevated").style("margin-bottom:10px")
    drop = ui.upload(
        max_file_size=settings.largest_upload,
        max_files=1,
        auto_upload=True,
        on_upload=take,
        on_rejected=lambda: ui.notify("This file is too large, or of another kind.", type="negative", position="top"),
    ).props(f'flat bordered accept="{",".join(ENDINGS)}" data-testid="file"')
    drop.classes("bf-drop").style("width:100%;max-width:520px")
    choose.on("click", js_handler=f"() => getElement({drop.id}).pickFiles()")
    text = f"{', '.join(ENDINGS)}. It is kept beside the configuration, readable by the server alone."
    small(text, "margin-top:8px")


async def _read_columns(draft: DatasetDraft, address: str, later: ui.element) -> None:
    """Reads the names and types of the columns, and shows the steps that need them."""
    curator = draft.context.curator()
    columns = await draft.context.run(lambda: curator.columns(address))
    draft.source = address
    draft.columns = [ColumnEditor(name, kind, partial(_ask_to_look, draft)) for name, kind in columns.items()]
    later.clear()
    with later:
        with card():
            heading("2  What the public may know of each column")
            small(
                f"{plural(len(columns), 'column')}, no rows read. Say what anybody may know anyway; a column without a "
                "domain is not used.",
                "margin:4px 0 8px",
            )
            for editor in draft.columns:
                editor.build()
        with ui.element("div").classes("bf-two").style("margin-top:16px"):
            with card():
                _whose(draft)
            with card():
                _budget(draft)
        _finish(draft)


def _whose(draft: DatasetDraft) -> None:
    heading("3  Whose rows these are")
    ways = ui.element("div").style("margin-top:10px")
    fields = in_row().style("margin-top:12px")
    names = [editor.name for editor in draft.columns]

    def build() -> None:
        if draft.unit == "row":
            small("Each row is protected on its own. Somebody with several rows is protected less.")
            return
        _bound(ui.select(names, label="Tells people apart").props(remove="options-dense"), draft, "person", 170)
        _bound(ui.input("Rows of each that count"), draft, "at_most")
        _bound(ui.select(names, label="First by this key").props(remove="options-dense"), draft, "order_by", 170)

    def show(unit: str) -> None:
        draft.unit = unit
        redraw(fields, build)

    with ways:
        choice({"row": "One row each", "person": "Several rows per person"}, draft.unit, show, "Privacy unit")
    show(draft.unit)


def _bound(box: ui.input | ui.select, draft: DatasetDraft, part: str, width: int = 150) -> None:
    """A field of the draft; tests find it by its name."""
    called(box.props(FIELD), test_id=part).style(f"width:{width}px").bind_value(draft, part)


def _budget(draft: DatasetDraft) -> None:
    heading("4  What it may lose")
    with in_row().style("margin-top:12px"):
        _bound(ui.input("Epsilon in all"), draft, "epsilon")
        _bound(ui.input("Each analyst", placeholder="all of it"), draft, "per_analyst")
    small(
        "The smaller, the better protected: with epsilon 1 in all, an observer's odds between two hidden neighbours "
        "change at most 2.7-fold, over all answers together.",
        "margin-top:8px",
    )


def _finish(draft: DatasetDraft) -> None:
    async def go() -> None:
        dataset = draft.dataset()
        await draft.context.change("added a dataset", dataset.name, lambda curator: curator.add(dataset))
        ui.navigate.to(f"/policies?dataset={quote(dataset.name)}")

    with card().style("margin-top:16px"), spread():
        with in_row():
            _bound(ui.input("Name for analysts", placeholder="visits"), draft, "name", 220)
            small("It starts with everything secret; the policy comes next.")
        ui.button("Add it", icon="check", on_click=go).props('unelevated data-testid="finish"')


def _ask_to_look(draft: DatasetDraft, editor: ColumnEditor) -> None:
    """Explains why reading bounds from the data matters, and reads them only after that."""
    context = draft.context

    async def read() -> None:
        curator = context.curator()
        context.note("read a column's bounds", without_user(draft.source)[:200], {"column": editor.name})
        editor.fill(await context.run(lambda: curator.look_at_column(draft.source, editor.name)))

    text = "What is read is only filled in here, marked, and yours to change. The look itself is logged."
    ask_after_warning(
        f"Read {editor.name} from the data?", WARNING, "I understand, read it", read, "look-anyway", text=text
    )
