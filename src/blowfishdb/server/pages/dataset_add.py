"""Adding a dataset: where the rows are, what the public may know of them, whose they are, and what they may lose."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import events, ui

from blowfishdb.analysis.risk import LARGEST_POWER, odds_words
from blowfishdb.catalog.dataset import SECRET, Dataset, attribute_words, read_join, read_list, typed_value, write_row
from blowfishdb.engine.target import short_number
from blowfishdb.errors import (
    BlowfishError,
    CatalogError,
    DomainError,
    InvalidInput,
    PolicyError,
    TooLarge,
    plural,
    sentence,
)
from blowfishdb.model.document import read_attribute
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Domain
from blowfishdb.model.policy import ROW, Person, Policy, Row, full
from blowfishdb.server.pages.controls import (
    Field,
    ask_after_warning,
    blaming,
    called,
    card,
    choice,
    figure,
    heading,
    in_row,
    notice,
    pill,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.rest.datasets import add_dataset
from blowfishdb.sources.base import ColumnType, Join, Kind
from blowfishdb.sources.ibis_source import Seen

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
        return replace(form, values=write_row(seen.values))
    if not form.is_list and seen.low is not None and seen.high is not None:
        low, high = (text.removesuffix(".0").replace(" ", "T") for text in (seen.low, seen.high))
        return replace(form, low=low, high=high)
    return None


def _read_values(form: ColumnForm, kind: Kind) -> dict[str, Any]:
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
    on_change: Callable[[], None]
    form: ColumnForm = field(default_factory=ColumnForm)
    is_from_data: bool = False
    is_joined: bool = False
    """Whether a join gives the column: only those of the main table are looked at."""

    def build(self) -> None:
        """Draws the form."""
        with called(ui.element("div").classes("bf-column").props("role=group"), self.name):
            with ui.element("div"):
                ui.label(self.name).style("font-weight:620;overflow-wrap:anywhere")
                kind = self.column.native.lower()
                ui.label(f"{kind}, joined" if self.is_joined else kind).classes("bf-quiet bf-small bf-mono")
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
            raise DomainError("nothing was filled in: too many values, or of another kind")
        self.form, self.is_from_data = form, True
        self._draw()

    def blame(self, text: str) -> None:
        """Says below the column why it cannot be used as declared."""
        redraw(self._verdict, partial(self._refuse, text))
        ui.run_javascript(f"document.getElementById('{self._verdict.html_id}').scrollIntoView({{block: 'center'}})")

    def content(self) -> dict[str, object]:
        """What a draft keeps; what was read from the data is no part of it."""
        form = replace(self.form, low="", high="", values="") if self.is_from_data else self.form
        kind = {"kind": self.column.kind.value, "native": self.column.native, "digits": self.column.digits}
        return {"name": self.name, **kind, "form": vars(form)}

    def _choose(self, form: str) -> None:
        self.form, self.is_from_data = suggested(self.column, form), False
        self._draw()
        self.on_change()

    def _set(self, part: str, value: object) -> None:
        self.form = replace(self.form, **{part: str(value or "")})
        if part in ("null", "outside"):
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
            return
        with in_row():
            if self.is_from_data:
                pill("read from the data", "is-accent")
            try:
                small(attribute_words(self.attribute(), full()))
            except BlowfishError as error:
                self._refuse(sentence(error.message))

    def _refuse(self, text: str) -> None:
        ui.label(text).classes("bf-small").style("color:var(--bf-accent)")


def roomy_select(options: list[str], value: str, label: str | None, on_change: Callable[[object], object]) -> ui.select:
    """A choice whose options stand apart, for people who see them for the first time."""
    select = ui.select(options, value=value, label=label, on_change=lambda event: on_change(event.value))
    return select.props(FIELD, remove="options-dense")


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


def without_password(address: str) -> str:
    """An address as a draft keeps it: a password counts only as the name of a variable, and options are left out."""
    scheme, separator, rest = re.sub(r"\?[^#]*", "", address).partition("://")
    credentials, at, place = rest.rpartition("@")
    user, colon, password = credentials.partition(":")
    if not separator or not colon or SECRET.fullmatch(password):
        return f"{scheme}{separator}{rest}"
    return f"{scheme}{separator}{user}{at}{place}"


WARNING = (
    "Bounds and lists of values are public: every analyst sees them, and nothing hides them afterwards. If they follow "
    "the data, they tell about it: the highest salary, a diagnosis that one person has. Prefer what is known "
    "anyway: a code book, a law, a rule of the form."
)


PARTS = ("source", "joins", "name", "unit", "person", "at_most", "order_by", "epsilon", "per_analyst")
DRAFT = "datasets/add"


@dataclass(eq=False)
class DatasetDraft:
    """What the forms declare so far; `fields` are those that a fault is told beside."""

    context: PageContext
    source: str = ""
    joins: str = ""
    """Joined tables in words, one on each line."""
    columns: list[ColumnEditor] = field(default_factory=list)
    name: str = ""
    unit: str = "row"
    person: str = ""
    at_most: str = "5"
    order_by: str = ""
    epsilon: str = "1"
    per_analyst: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None

    def content(self) -> dict[str, object]:
        """What is kept of it until the dataset is added: no password, and nothing that was read from the data."""
        parts = {part: getattr(self, part) for part in PARTS} | {"source": without_password(self.source)}
        return parts | {"columns": [editor.content() for editor in self.columns]}

    def restore(self, content: Mapping[str, Any]) -> None:
        """Takes over what `content` kept; nothing where a later version of the software wrote it differently."""
        with suppress(KeyError, TypeError, ValueError):
            self.joins = str(content["joins"])
            columns = [
                self.editor(
                    str(one["name"]),
                    ColumnType(Kind(one["kind"]), str(one["native"]), one["digits"]),
                    ColumnForm(**one["form"]),
                )
                for one in content["columns"]
            ]
            parts = {part: str(content[part]) for part in PARTS}
            self.columns = columns
            for part, value in parts.items():
                setattr(self, part, value)

    def editor(self, name: str, column: ColumnType, form: ColumnForm | None = None) -> ColumnEditor:
        """The editor of one column, perhaps with what was typed before."""
        usable = form if form is not None and form.form in (UNUSED, *FORMS[column.kind]) else ColumnForm()
        given: list[str] = []
        with suppress(BlowfishError):
            given = [attribute for join in self.declared_joins() for attribute in join.attributes]
        look = partial(_ask_to_look, self)
        return ColumnEditor(name, column, look, lambda: self.on_change(), usable, is_joined=name in given)

    def declared_joins(self) -> list[Join]:
        """The joins that were typed; CatalogError for words that are none."""
        return [read_join(line) for line in self.joins.splitlines() if line.strip()]

    def dataset(self) -> Dataset:
        """The dataset as it is declared; a typed error names the first thing that is missing."""
        name = self._name()
        used = [editor for editor in self.columns if editor.form.is_used]
        if not used:
            raise DomainError("no column is used: say for at least one what the public may know of it")
        return Dataset(
            name,
            source=self.source,
            domain=Domain(tuple((editor.name, editor.attribute()) for editor in used)),
            policy=Policy(unit=self._unit()),
            epsilon=self.epsilon,
            per_analyst=self.per_analyst.strip() or None,
            joins=self.declared_joins(),
        )

    def blame(self) -> bool:
        """Whether something that was typed makes no sense, which is then told beside it."""
        for editor in self.columns:
            try:
                _ = editor.attribute() if editor.form.is_used else None
            except BlowfishError as error:
                editor.blame(sentence(error.message))
                return True
        checks: dict[str, Callable[[], object]] = {
            "at_most": self._unit,
            "epsilon": partial(budget_of, self.epsilon),
            "per_analyst": lambda: self.per_analyst.strip() and budget_of(self.per_analyst),
            "name": self._name,
        }
        for part, check in checks.items():
            if part in self.fields:
                with blaming(self.fields[part]):
                    check()
                    continue
                return True
        return False

    def _name(self) -> str:
        if not self.name.strip():
            raise CatalogError("give the dataset a name; analysts will call it so")
        return self.name.strip()

    def _unit(self) -> Row | Person:
        if self.unit == "row":
            return ROW
        if not self.at_most.strip().isdecimal():
            raise PolicyError("say how many rows of each person count, at most")
        return Person(self.person, int(self.at_most), self.order_by)


def budget_of(text: str) -> Fraction:
    """The epsilon that was typed; InvalidInput for what is none."""
    epsilon = short_number(text.strip(), "epsilon")
    if epsilon < 0:
        raise CatalogError("budgets are not negative")
    return epsilon


def epsilon_hint(epsilon: str, per_analyst: str) -> str:
    """What the typed budgets let an observer learn, in words; of what makes no sense, nothing."""
    sentences = ["The smaller, the better protected."]
    for text, who in ((epsilon, "With epsilon {} in all"), (per_analyst, "With the {} of one analyst")):
        with suppress(BlowfishError):
            amount = budget_of(text)
            odds = odds_words(math.exp(float(amount)) if amount < LARGEST_POWER else math.inf)
            change = f"an observer's odds between two hidden neighbours change {odds}"
            sentences.append(f"{who.format(figure(amount))}, {change}, over all answers together.")
    return " ".join(sentences)


@page("/datasets/add", "Add a dataset", "curate", lead="Columns are read, rows are not. Nothing is inferred from data.")
async def add(context: PageContext) -> None:
    """Four steps on one page; later ones appear when the columns are known."""
    draft, drafts, user = DatasetDraft(context), context.app_state.drafts, context.identity.name
    stored = await context.run(partial(drafts.of, user, DRAFT))
    if stored is not None:
        draft.restore(stored)

    async def afresh() -> None:
        await context.run(partial(drafts.drop, user, DRAFT))
        ui.navigate.reload()

    if draft.source or draft.columns:
        with notice(
            "This is what you had typed. Passwords, and what was read from the data, are not kept.", icon="history"
        ):
            called(ui.button("Start afresh", on_click=afresh).props("flat dense"), test_id="afresh")
    with card().style("margin-top:16px") as first:
        heading("1  Where the rows are")
        sent = ui.element("div").style("max-width:340px;margin-top:10px")
        rest = ui.element("div").style("margin-top:12px")
    later = ui.element("div").style("margin-top:16px")

    async def keep(is_wanted: IsWanted) -> None:
        if is_wanted():
            await context.run(partial(drafts.keep, context.check("curate").name, DRAFT, draft.content()))

    draft.on_change = Latest(context, first, keep).changed
    ways = {"address": _by_address, "file": _by_file}

    def show(way: str) -> None:
        redraw(rest, lambda: ways[way](draft, later))

    with sent:
        choice({"address": "By address", "file": "Send a file"}, "address", show, "How the rows are reached")
    show("address")
    if draft.columns:
        _build_steps(draft, later)


def _by_address(draft: DatasetDraft, later: ui.element) -> None:
    def typed(address: str) -> None:
        draft.source = address.strip()
        draft.on_change()

    with in_row().style("align-items:flex-start"):
        box = ui.input(
            "Address",
            value=draft.source,
            placeholder="postgresql://reader:${BLOWFISH_CLINIC}@host/clinic#visits",
            on_change=lambda event: typed(event.value or ""),
        )
        box.props('data-testid="address"').style("flex:1;min-width:min(320px, 100%)")
        button = ui.button("Read the columns", icon="view_column", on_click=lambda: look(box.value.strip()))
        button.props('unelevated data-testid="read-columns"')
    tables = ui.element("div").style("margin-top:10px")
    joined = ui.textarea("Joined tables, one on each line", placeholder="patients on patient = id gives age, sex")
    joined.props(f"{FIELD} autogrow").style("max-width:640px;margin-top:10px")
    called(joined, test_id="joins").bind_value(draft, "joins").on_value_change(lambda: draft.on_change())
    small(
        "duckdb:///shop.duckdb#sales, sqlite, postgresql, mysql, spark, or a path such as data/people.parquet, "
        "relative to the configuration. Joined tables lie in the same database, or are files too. A password stands in "
        "the environment, written ${BLOWFISH_...} here.",
        "margin-top:10px;max-width:84ch",
    )

    async def look(address: str) -> None:
        tables.clear()
        curator = draft.context.curator()
        is_database = "://" in address and "#" not in address
        with blaming(box):
            names = await draft.context.run(lambda: curator.tables(address)) if is_database else []
            if not names:
                await _read_columns(draft, address, later)
                return
            with tables:
                table = ui.select(names, label=f"Table ({len(names):,} found)")
                table.props('data-testid="table"', remove="options-dense").style("max-width:340px")
                table.on_value_change(lambda event: choose(table, f"{address}#{event.value}"))

    async def choose(table: ui.select, address: str) -> None:
        with blaming(table):
            await _read_columns(draft, address, later)


def _by_file(draft: DatasetDraft, later: ui.element) -> None:
    settings = draft.context.app_state.settings

    def refuse(text: str) -> None:
        redraw(verdict, partial(notice, sentence(text), "is-bad", "error"))

    async def take(event: events.UploadEventArguments) -> None:
        draft.context.check("curate")
        verdict.clear()
        try:
            check_size(event.file.size(), settings.largest_upload)
            path = place_for(settings.folder, event.file.name)
            await event.file.save(path)
            path.chmod(0o600)
            draft.context.note("sent a file", path.name)
            await _read_columns(draft, str(path.relative_to(settings.folder)), later)
        except InvalidInput as error:
            refuse(error.message)

    choose = ui.button("Choose a file", icon="upload_file").props("unelevated").style("margin-bottom:10px")
    verdict = ui.element("div").props("role=alert").style("margin-bottom:10px")
    drop = ui.upload(
        max_file_size=settings.largest_upload,
        max_files=1,
        auto_upload=True,
        on_upload=take,
        on_rejected=lambda: refuse("this file is too large, or of another kind"),
    ).props(f'flat bordered accept="{",".join(ENDINGS)}" data-testid="file"')
    drop.classes("bf-drop").style("width:100%;max-width:520px")
    choose.on("click", js_handler=f"() => getElement({drop.id}).pickFiles()")
    text = f"{', '.join(ENDINGS)}. It is kept beside the configuration, readable by the server alone."
    small(text, "margin-top:8px")


async def _read_columns(draft: DatasetDraft, address: str, later: ui.element) -> None:
    """Reads the names and types of the columns, and shows the steps that need them; what was typed for one stays."""
    curator = draft.context.curator()
    joins = draft.declared_joins()
    columns = await draft.context.run(lambda: curator.columns(address, joins))
    forms = {editor.name: editor.form for editor in draft.columns}
    draft.source = address
    draft.columns = [draft.editor(name, kind, forms.get(name)) for name, kind in columns.items()]
    draft.on_change()
    _build_steps(draft, later)


def _build_steps(draft: DatasetDraft, later: ui.element) -> None:
    later.clear()
    draft.fields.clear()
    with later:
        with card():
            heading("2  What the public may know of each column")
            small(
                f"{plural(len(draft.columns), 'column')}, no rows read. Say what anybody may know anyway; a column "
                "without a domain is not used.",
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
        for part in ("person", "at_most", "order_by"):
            draft.fields.pop(part, None)
        redraw(fields, build)
        draft.on_change()

    with ways:
        choice({"row": "One row each", "person": "Several rows per person"}, draft.unit, show, "Privacy unit")
    show(draft.unit)


def _bound(box: ui.input | ui.select, draft: DatasetDraft, part: str, width: int = 150) -> None:
    """A field of the draft; tests find it by its name."""
    called(box.props(FIELD), test_id=part).style(f"width:{width}px").bind_value(draft, part)
    box.on_value_change(lambda: draft.on_change())
    draft.fields[part] = box


def _budget(draft: DatasetDraft) -> None:
    heading("4  What it may lose")
    with in_row().style("margin-top:12px;align-items:flex-start"):
        _bound(ui.input("Epsilon in all"), draft, "epsilon")
        _bound(ui.input("Each analyst", placeholder="all of it"), draft, "per_analyst")
    hint = small(epsilon_hint(draft.epsilon, draft.per_analyst), "margin-top:8px").props("aria-live=polite")
    for part in ("epsilon", "per_analyst"):
        draft.fields[part].on_value_change(lambda: hint.set_text(epsilon_hint(draft.epsilon, draft.per_analyst)))


def _finish(draft: DatasetDraft) -> None:
    context = draft.context

    async def go() -> None:
        if draft.blame():
            return
        with blaming(draft.fields["name"]):
            dataset = draft.dataset()
            await context.change(partial(add_dataset, dataset))
            await context.run(partial(context.app_state.drafts.drop, context.identity.name, DRAFT))
            ui.navigate.to(f"/policies?dataset={quote(dataset.name)}")

    with card().style("margin-top:16px"), spread():
        with in_row().style("align-items:flex-start"):
            _bound(ui.input("Name for analysts", placeholder="visits"), draft, "name", 260)
            small("It starts with everything secret; the policy comes next.", "padding-top:10px")
        ui.button("Add it", icon="check", on_click=go).props('unelevated data-testid="finish"')


def _ask_to_look(draft: DatasetDraft, editor: ColumnEditor) -> None:
    """Explains why reading bounds from the data matters, and reads them only after that."""
    context = draft.context

    async def read() -> None:
        curator = context.curator()
        context.note("read a column's bounds", without_user(draft.source)[:200], {"column": editor.name})
        try:
            editor.fill(await context.run(lambda: curator.look_at_column(draft.source, editor.name)))
        except InvalidInput as error:
            editor.blame(sentence(error.message))

    text = "What is read is only filled in here, marked, and yours to change. The look itself is logged."
    ask_after_warning(
        f"Read {editor.name} from the data?", WARNING, "I understand, read it", read, "look-anyway", text=text
    )
