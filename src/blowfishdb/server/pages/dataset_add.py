"""Adding a dataset: where the rows are, what the public may know of them, whose they are, and what they may lose."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from nicegui import events, ui

from blowfishdb.catalog.dataset import Dataset
from blowfishdb.errors import CatalogError, DomainError, InvalidInput, PolicyError, TooLarge
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import ROW, Person, Policy, Row
from blowfishdb.server.pages.column_form import FIELD, ColumnEditor
from blowfishdb.server.pages.controls import ask_after_warning, card, choice, heading, in_row, small, spread
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext

FOLDER = "uploads"
ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")


def ending_of(name: str) -> str:
    """The ending of a file that holds rows; InvalidInput names those that serve."""
    found = next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(ending)), None)
    if found is None:
        raise InvalidInput(f"a file of rows ends in {', '.join(ENDINGS)}")
    return found


def place_for(folder: Path, name: str) -> Path:
    """Where a file of that name is kept; the name is cleaned, and made new so that no other file is replaced."""
    ending = ending_of(name)
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


WARNING = (
    "Bounds and lists of values are public: every analyst sees them, and nothing hides them afterwards. If they follow "
    "the data, they tell about it: the highest salary, a diagnosis that one person has. Prefer what is known "
    "anyway: a code book, a law, a rule of the form."
)


@dataclass(eq=False)
class DatasetDraft:
    """What has been said so far."""

    context: PageContext
    source: str = ""
    columns: list[ColumnEditor] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
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
        used = [editor for editor in self.columns if editor.said.is_used]
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
        rest.clear()
        with rest:
            ways[way](draft, later)

    with sent:
        choice({"address": "By address", "file": "Send a file"}, "address", show, "How the rows are reached")
    show("address")


def _by_address(draft: DatasetDraft, later: ui.element) -> None:
    with in_row().style("align-items:flex-start"):
        box = ui.input("Address", placeholder="postgresql://reader:${BLOWFISH_CLINIC}@host/clinic#visits")
        box.props('outlined dense data-testid="address"').style("flex:1;min-width:320px")
        ui.button("Read the columns", icon="view_column", on_click=lambda: look(box.value)).props(
            'unelevated data-testid="read-columns"'
        )
    tables = ui.element("div").style("margin-top:10px")
    small(
        "duckdb:///shop.duckdb#sales, sqlite, postgresql, mysql, spark, or a path such as data/people.parquet, "
        "relative to the configuration. A password stands in the environment, written ${BLOWFISH_...} here.",
        "margin-top:10px;max-width:84ch",
    )

    async def look(address: str) -> None:
        tables.clear()
        curator = draft.context.curator()
        given = address.strip()
        if "://" in given and "#" not in given:
            found = await draft.context.run(lambda: curator.tables(given))
            if found:
                with tables:
                    ui.select(
                        found,
                        label=f"Table ({len(found):,} found)",
                        on_change=lambda event: read(f"{given}#{event.value}"),
                    ).props('outlined dense data-testid="table"').style("max-width:340px")
                return
        await read(given)

    async def read(address: str) -> None:
        await _read_columns(draft, address, later)


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
    said = f"{', '.join(ENDINGS)}. It is kept beside the configuration, readable by the server alone."
    small(said, "margin-top:8px")


async def _read_columns(draft: DatasetDraft, address: str, later: ui.element) -> None:
    """Reads the names and types of the columns, and shows the steps that need them."""
    curator = draft.context.curator()
    columns = await draft.context.run(lambda: curator.columns(address))
    draft.source = address
    draft.columns = [
        ColumnEditor(name, kind, lambda editor: _ask_to_look(draft, editor)) for name, kind in columns.items()
    ]
    draft.names = list(columns)
    later.clear()
    with later:
        with card():
            heading("2  What the public may know of each column")
            small(
                f"{len(columns)} columns, no rows read. Say what anybody may know anyway; a column without a domain is "
                "not used.",
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

    def show(unit: str) -> None:
        draft.unit = unit
        fields.clear()
        with fields:
            if unit == "row":
                small("Each row is protected on its own. Somebody with several rows is protected less.")
                return
            ui.select(draft.names, label="Tells people apart").props(FIELD).style("width:170px").bind_value(
                draft, "person"
            )
            ui.input("Rows of each that count").props(FIELD).style("width:150px").bind_value(draft, "at_most")
            ui.select(draft.names, label="First by this key").props(FIELD).style("width:170px").bind_value(
                draft, "order_by"
            )

    with ways:
        choice({"row": "One row each", "person": "Several rows per person"}, draft.unit, show, "Privacy unit")
    show(draft.unit)


def _budget(draft: DatasetDraft) -> None:
    heading("4  What it may lose")
    with in_row().style("margin-top:12px"):
        ui.input("Epsilon in all").props(f'{FIELD} data-testid="epsilon"').style("width:150px").bind_value(
            draft, "epsilon"
        )
        ui.input("Each analyst", placeholder="all of it").props(FIELD).style("width:150px").bind_value(
            draft, "per_analyst"
        )
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
            ui.input("Name for analysts", placeholder="visits").props(f'{FIELD} data-testid="name"').style(
                "width:220px"
            ).bind_value(draft, "name")
            small("It starts with everything secret; the policy comes next.")
        ui.button("Add it", icon="check", on_click=go).props('unelevated data-testid="finish"')


def _ask_to_look(draft: DatasetDraft, editor: ColumnEditor) -> None:
    """Explains why reading bounds from the data matters, and reads them only after that."""
    context = draft.context

    async def read() -> None:
        curator = context.curator()
        context.note("read a column's bounds", without_user(draft.source)[:200], {"column": editor.name})
        editor.fill(await context.run(lambda: curator.look_at_column(draft.source, editor.name)))

    said = "What is read is only filled in here, marked, and yours to change. The look itself is logged."
    ask_after_warning(
        f"Read {editor.name} from the data?", WARNING, "I understand, read it", read, "look-anyway", said=said
    )
