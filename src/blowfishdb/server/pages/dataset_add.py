"""Adding a dataset: where the rows are, what the public may know of them, whose they are, and what they may lose."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import events, ui

from blowfishdb.analysis.risk import LARGEST_POWER, odds_words
from blowfishdb.catalog.dataset import SECRET, Dataset, read_family, read_join, refuse_password
from blowfishdb.catalog.guidance import (
    PERMANENT,
    PRESENCE_WORDS,
    PROFILES,
    SAFE_PRESENCE,
    Guidance,
    propose,
    read_profile,
)
from blowfishdb.engine.request import short_number
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
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import Presence
from blowfishdb.model.policy import ROW, Person, Policy, Row
from blowfishdb.server.pages.column_form import EVERYTHING, FIELD, FORMS, UNUSED, ColumnEditor, ColumnForm
from blowfishdb.server.pages.controls import (
    Heading,
    InputField,
    ask_after_warning,
    blaming,
    called,
    card,
    choice,
    figure,
    heading,
    in_row,
    notice,
    opened_dialog,
    plain_table,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, page
from blowfishdb.server.rest.datasets import add_dataset
from blowfishdb.sources.base import ColumnKind, ColumnType, Join

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


PARTS = (
    *("source", "joins", "profile", "name", "unit", "person", "at_most", "order_by", "presence", "epsilon"),
    "per_analyst",
)
DRAFT = "datasets/add"
TIED = "public constraints tie records here"
NOTHING_YET, WORKING = (
    partial(small, text, "margin-top:8px")
    for text in (
        "Shown as soon as a column is declared and everything typed makes sense.",
        "Being worked out from the declarations; no data is read …",
    )
)
"""What stands in the place of the guidance until there is some."""
WHO = {"": "Only me, until I grant it", "everyone": "All accounts, by their roles"}


@dataclass(eq=False)
class DatasetDraft:
    """What the forms declare so far; faults are shown beside its `fields`."""

    context: PageContext
    source: str = ""
    joins: str = ""
    """Joined tables in words, one on each line."""
    columns: list[ColumnEditor] = field(default_factory=list)
    profile: str = ""
    name: str = ""
    unit: str = "row"
    person: str = ""
    at_most: str = "5"
    order_by: str = ""
    presence: str = SAFE_PRESENCE
    epsilon: str = "1"
    per_analyst: str = ""
    everyone: str = ""
    """Who may use it from the beginning: everyone by their roles if anything is written here, else its curator."""
    fields: dict[str, InputField] = field(default_factory=dict)
    guidance: ui.element | None = None
    is_unguided: bool = True
    """Whether nothing was shown yet of what the draft protects and costs."""
    on_change: Callable[[], None] = lambda: None

    def content(self) -> dict[str, object]:
        """What is kept of it until the dataset is added: no password, and nothing that was read from the data."""
        parts = {part: getattr(self, part) for part in PARTS} | {"source": without_password(self.source)}
        return parts | {"columns": [editor.content() for editor in self.columns]}

    def restore(self, content: Mapping[str, Any]) -> None:
        """Takes over what `content` kept; nothing where a later version of the software wrote it differently."""
        with suppress(KeyError, TypeError, ValueError):
            self.joins, self.profile = str(content["joins"]), str(content["profile"])
            columns = [
                self.editor(
                    str(one["name"]),
                    ColumnType(ColumnKind(one["kind"]), str(one["native"]), one["digits"]),
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
        look, proposal = partial(_ask_to_look, self), None
        if self.profile in PROFILES:
            proposal = propose(PROFILES[self.profile], {name: column}).columns[name]
        return ColumnEditor(
            name, column, look, lambda: self.on_change(), usable, is_joined=name in given, proposal=proposal
        )

    def declared_joins(self) -> list[Join]:
        """The joins that were typed; CatalogError for words that are none."""
        return [read_join(line) for line in self.joins.splitlines() if line.strip()]

    def dataset(self, *, is_whole: bool = True) -> Dataset:
        """The dataset as it is declared; a typed error names the first thing that is missing.

        One that is not whole yet has the columns that are, and perhaps no name.
        """
        used = [editor for editor in self.columns if editor.form.is_used and (is_whole or editor.is_declared)]
        if not used:
            raise DomainError("no column is used: say for at least one what the public may know of it")
        return Dataset(
            self._name() if is_whole else self.name.strip() or "draft",
            source=self.source,
            domain=Domain(tuple((editor.name, editor.attribute()) for editor in used)),
            policy=self._policy(used),
            epsilon=self.epsilon,
            per_analyst=self.per_analyst.strip() or None,
            joins=self.declared_joins(),
        )

    def blame(self) -> bool:
        """Whether something that was typed makes no sense; the reason is shown beside it."""
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

    def begin_with(self, profile: str) -> None:
        """Takes over what a profile proposes: columns that are not declared yet, unit, presence and budgets."""
        proposal = propose(read_profile(profile), {editor.name: editor.column for editor in self.columns})
        self.profile, self.presence = profile, SAFE_PRESENCE
        for editor in self.columns:
            editor.propose(proposal.columns[editor.name])
        self.unit = "row" if proposal.person is None else "person"
        self.person, self.order_by = proposal.person or "", proposal.row_key or ""
        self.at_most, self.epsilon = str(proposal.profile.at_most), proposal.profile.epsilon
        self.per_analyst = proposal.profile.per_analyst or ""

    def _policy(self, used: list[ColumnEditor]) -> Policy:
        families = {editor.name: read_family(editor.form.policy) for editor in used if editor.form.policy != EVERYTHING}
        return Policy(families, presence=self.declared_presence(), unit=self._unit())

    def declared_presence(self) -> Presence:
        """Whether it is hidden who is in the table; the safe choice for any unknown text."""
        return next((presence for presence in PRESENCE_WORDS if presence == self.presence), SAFE_PRESENCE)

    def _name(self) -> str:
        if not self.name.strip():
            raise CatalogError("give the dataset a name, which analysts will use")
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


@page(
    "/datasets/add",
    "Add a dataset",
    "curate",
    everywhere=True,
    lead="Columns are read, rows are not. Nothing is inferred from data.",
)
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
            "This is what you typed before. Passwords, and what was read from the data, are not kept.", icon="history"
        ):
            called(ui.button("Start afresh", on_click=afresh).props("flat dense"), test_id="afresh")
    with card().style("margin-top:16px") as first:
        heading("1  Where the rows are")
        sent = ui.element("div").style("max-width:340px;margin-top:10px")
        rest = ui.element("div").style("margin-top:12px")
    later = ui.element("div").style("margin-top:16px")

    async def follow(is_wanted: IsWanted) -> None:
        if is_wanted():
            await context.run(partial(drafts.keep, context.check("curate").name, DRAFT, draft.content()))
            await _guide(draft, is_wanted)

    draft.on_change = Latest(context, first, follow).changed
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
        "relative to the configuration. Joined tables are in the same database, or are files too. Keep a password in "
        "the environment and write ${BLOWFISH_...} here.",
        "margin-top:10px;max-width:84ch",
    )

    async def look(address: str) -> None:
        tables.clear()
        curator = draft.context.curator()
        is_database = "://" in address and "#" not in address
        with blaming(box):
            refuse_password(address)
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

    def begin(profile: str) -> None:
        draft.begin_with(profile)
        _build_steps(draft, later)
        draft.on_change()

    with later:
        with card():
            heading("2  What it is about")
            small(
                "Proposes bounds, whose rows these are, and budgets, from names and types of the columns. You can "
                "change all of it.",
                "margin:4px 0 10px",
            )
            choice({name: one.title for name, one in PROFILES.items()}, draft.profile, begin, "What the table is about")
        with card().style("margin-top:16px"):
            heading("3  What the public may know of each column")
            small(
                f"{plural(len(draft.columns), 'column')}, no rows read. Say what the public may know; a column "
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
        with card().style("margin-top:16px"):
            heading("What this protects, and costs")
            draft.guidance = ui.element("div").props('aria-live=polite data-testid="guidance"')
            redraw(draft.guidance, NOTHING_YET)
            draft.is_unguided = True
        _finish(draft)
    draft.on_change()


def _whose(draft: DatasetDraft) -> None:
    heading("4  Whose rows these are")
    ways = ui.element("div").style("margin-top:10px")
    fields = in_row().style("margin-top:12px")
    names = [editor.name for editor in draft.columns]

    def build() -> None:
        if draft.unit == "row":
            small("Each row is protected on its own. Somebody with several rows is protected less.")
            return
        _bound(ui.select(names, label="Tells people apart").props(remove="options-dense"), draft, "person", 170)
        _bound(ui.input("Rows of each count"), draft, "at_most")
        _bound(ui.select(names, label="First by this key").props(remove="options-dense"), draft, "order_by", 170)
        caps = ui.button("What caps drop …", icon="visibility", on_click=lambda: _ask_for_caps(draft))
        called(caps.props("flat dense size=sm"), test_id="caps")

    def show(unit: str) -> None:
        draft.unit = unit
        for part in ("person", "at_most", "order_by"):
            draft.fields.pop(part, None)
        redraw(fields, build)
        draft.on_change()

    with ways:
        choice({"row": "One row each", "person": "Several rows per person"}, draft.unit, show, "Privacy unit")
    show(draft.unit)
    ui.label("Who is in the table").classes("bf-label").style("margin-top:16px")

    def hide(presence: str) -> None:
        draft.presence = presence
        tip.set_text(PRESENCE_WORDS[draft.declared_presence()])
        draft.on_change()

    choice({"secret": "Hidden", "public": "Public", "only": "All that is hidden"}, draft.presence, hide, "Presence")
    tip = small(PRESENCE_WORDS[draft.declared_presence()], "margin-top:6px").props("aria-live=polite")


def _bound(box: ui.input | ui.select, draft: DatasetDraft, part: str, width: int = 150) -> None:
    """A field of the draft; tests find it by its name."""
    called(box.props(FIELD), test_id=part).style(f"width:{width}px").bind_value(draft, part)
    box.on_value_change(lambda: draft.on_change())
    draft.fields[part] = box


def _budget(draft: DatasetDraft) -> None:
    heading("5  What it may lose")
    with in_row().style("margin-top:12px;align-items:flex-start"):
        _bound(ui.input("Epsilon in all"), draft, "epsilon")
        _bound(ui.input("Each analyst", placeholder="all of it"), draft, "per_analyst")
    hint = small(epsilon_hint(draft.epsilon, draft.per_analyst), "margin-top:8px").props("aria-live=polite")
    for part in ("epsilon", "per_analyst"):
        draft.fields[part].on_value_change(lambda: hint.set_text(epsilon_hint(draft.epsilon, draft.per_analyst)))


async def _guide(draft: DatasetDraft, is_wanted: IsWanted) -> None:
    """Shows what the draft protects and costs, once something is declared and makes sense."""
    box = draft.guidance
    if box is None or box.is_deleted:
        return
    missing = [editor.name for editor in draft.columns if editor.form.is_used and not editor.is_declared]
    try:
        dataset, curator = draft.dataset(is_whole=False), draft.context.curator()
    except BlowfishError:
        # What is wrong is told beside its field; here it only means that there is nothing to show yet.
        redraw(box, NOTHING_YET)
        return
    if draft.is_unguided:
        redraw(box, WORKING)
    draw: Callable[[], object]
    try:
        guidance = await draft.context.run(partial(curator.guidance, dataset))
        draw = partial(draw_guidance, guidance, missing)
    except InvalidInput as error:
        draw = partial(small, sentence(error.message), "margin-top:8px")
    if is_wanted() and not box.is_deleted:
        draft.is_unguided = False
        redraw(box, draw)


def draw_guidance(guidance: Guidance, missing: list[str]) -> None:
    """All columns with their protection at once, typical questions with their prices, and what becomes final."""
    if missing:
        small(f"Not declared yet: {', '.join(missing)}.", "margin:4px 0")
    columns = [Heading("Column"), Heading("Hidden"), Heading("Somebody who suspects with 1 % could believe")]
    rows = [
        (column.name, column.hidden, ". ".join(one.words for one in column.beliefs) or TIED)
        for column in guidance.columns
    ]
    plain_table(columns, rows, "What is hidden of each column")
    small(f"{guidance.presence} {guidance.unit}", "margin:8px 0 14px;max-width:84ch")
    heads = [
        Heading("Question, every count within 100 (95 %)"),
        Heading("Epsilon", "is-number"),
        *(Heading(sentence(head).removesuffix("."), "is-number") for head in guidance.heads),
    ]
    prices = [(one.words, one.refusal or figure(one.epsilon), *guidance.times(one)) for one in guidance.questions]
    plain_table(heads, prices, "What typical questions cost")
    if guidance.advice:
        notice(guidance.advice, "is-accent", "lightbulb").style("margin-top:8px")
    ui.label("After the first answer").classes("bf-label").style("margin-top:14px")
    with ui.element("ul").classes("bf-small").style("margin:4px 0 0 18px;list-style:disc"):
        for words in PERMANENT:
            with ui.element("li"):
                ui.label(words)


def _finish(draft: DatasetDraft) -> None:
    context = draft.context

    async def go() -> None:
        if draft.blame():
            return
        with blaming(draft.fields["name"]):
            dataset = draft.dataset()
            await context.change(partial(add_dataset, dataset, everyone=bool(draft.everyone)))
            await context.run(partial(context.app_state.drafts.drop, context.identity.name, DRAFT))
            await _try(context, dataset.name)

    with card().style("margin-top:16px"), spread():
        with in_row().style("align-items:flex-start"):
            _bound(ui.input("Name for analysts", placeholder="visits"), draft, "name", 260)
            _bound(ui.select(WHO, label="Who may use it"), draft, "everyone", 300)
            small("More ways to hide values, and their pictures, come next.", "padding-top:10px")
        ui.button("Add it", icon="check", on_click=go).props('unelevated data-testid="finish"')


async def _try(context: PageContext, name: str) -> None:
    """Tries a question about each column of a new dataset; what failed, or asks for care, is told before going on."""
    context.note("tried questions", name)
    curator = context.curator()
    cautions = await context.run(partial(curator.cautions, name))
    tried = await context.run(partial(curator.try_questions, name))
    failed = [one for one in tried if one.failure]
    onward = f"/policies?dataset={quote(name)}"
    if not failed and not cautions:
        ui.navigate.to(onward)
        return
    title = f"{name} is added, and {plural(len(failed), 'trial question')} failed" if failed else f"{name} is added"
    with opened_dialog(title, width=640) as dialog, called(ui.element("div"), "What was tried").props("role=alert"):
        for caution in cautions:
            notice(sentence(caution), "is-accent", "warning").style("margin-top:12px")
        for one in failed:
            notice(f"{one.question}: {one.failure}", "is-bad", "warning").style("margin-top:12px")
        small(
            f"{plural(len(tried), 'question')} tried. The counts were thrown away: nothing was released or charged.",
            "margin-top:12px",
        )
        with in_row().style("justify-content:flex-end;margin-top:18px"):
            ui.button("Go on", on_click=lambda: ui.navigate.to(onward)).props('unelevated data-testid="go-on"')
    dialog.props('persistent data-testid="trial"')


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

    text = "What is read is only filled in here and marked, and you can change it. The look itself is logged."
    ask_after_warning(
        f"Read {editor.name} from the data?", WARNING, "I understand, read it", read, "look-anyway", text=text
    )


CAPS = (1, 2, 3, 5, 10, 20)


def _ask_for_caps(draft: DatasetDraft) -> None:
    """Shows how many rows each cap drops, after a warning; the look is logged."""
    context = draft.context

    async def read() -> None:
        curator, person = context.curator(), Person(draft.person, 1, draft.order_by)
        context.note("looked at what caps drop", without_user(draft.source)[:200], {"column": draft.person})
        name = draft.name.strip() or "a table to be added"
        with blaming(draft.fields["at_most"]):
            seen = await context.run(partial(curator.look_at_caps, name, CAPS, person, draft.source))
            with opened_dialog("What caps drop", f"{plural(seen.rows, 'row')} of {seen.people:,} people."):
                heads = [Heading(head, "is-number") for head in ("At most", "Rows", "Dropped")]
                rows = [(f"{one.at_most:,}", f"{one.counted:,}", f"{seen.dropped(one):,}") for one in seen.caps]
                plain_table(heads, rows, "Rows that each cap counts and drops")

    ask_after_warning(
        "See how many rows each cap drops?",
        "These are true numbers about the rows. A cap that is chosen by them tells about the data; prefer one that "
        "follows from what is known anyway.",
        "I understand, read them",
        read,
        "caps-anyway",
        text="The look itself is logged.",
    )
