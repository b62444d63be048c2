"""History: every answer of the past, free to open again; any two of them side by side, and taken together."""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import TableSelectionEventArguments

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.errors import InvalidInput
from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.quote import answer_link, answer_name, figure
from blowfishdb.server.pages.result import code_block, show_answer
from blowfishdb.server.pages.shell import empty, page, paragraph
from blowfishdb.server.pages.snippet import reopening
from blowfishdb.session.desk import Past
from blowfishdb.session.session import Session

BOTH = 2
PER_PAGE = 20
LINKED = (
    '<q-td :props="props"><a :href="props.row.link">{{ props.value }}</a>'
    '<span v-if="!props.row.current" class="bf-pill" style="margin-left:8px">older version</span></q-td>'
)
TICKED = """<q-checkbox v-model="props.selected" :aria-label="'Compare ' + props.row.question" />"""


@page("/history", "History", "ask", lead="Everything you asked. To open an answer again, or to compare two, is free.")
async def history(here: Here) -> None:
    """The list."""
    session = here.session()
    found = await here.run(lambda: all_past(session))
    if not found:
        with ui.element("section").classes("bf-card"):
            empty(
                "history", "Nothing asked yet", "Your answers will be listed here, to open, compare and download again."
            )
            with ui.element("div").classes("bf-row").style("justify-content:center;margin-bottom:20px"):
                ui.button("Ask something", on_click=lambda: ui.navigate.to("/explore")).props("unelevated")
        return
    with ui.element("section").classes("bf-card"):
        with ui.element("div").classes("bf-spread"):
            said = ui.label("Tick two answers to compare them.").classes("bf-quiet bf-small")
            button = ui.button("Compare", icon="compare", on_click=lambda: ui.navigate.to(compared(chosen)))
            button.props("unelevated").set_enabled(False)
        chosen: list[str] = []

        def choose(event: TableSelectionEventArguments) -> None:
            table.selected = event.selection[-BOTH:]
            chosen[:] = [row["name"] for row in table.selected]
            button.set_enabled(len(chosen) == BOTH)
            said.text = {0: "Tick two answers to compare them.", 1: "Tick one more."}.get(
                len(chosen), "Ready to compare."
            )

        table = ui.table(
            columns=COLUMNS,
            rows=[_row(past) for past in found],
            row_key="name",
            selection="multiple",
            on_select=choose,
            pagination=PER_PAGE,
        )
        table.props('flat hide-selected-banner aria-label="Answers of the past"').classes("w-full bf-wraps")
        table.add_slot("body-cell-question", LINKED)
        table.add_slot("header-selection", '<span class="bf-unseen">To compare</span>')
        table.add_slot("body-selection", TICKED)
        if len(found) <= PER_PAGE:
            table.props("hide-bottom")


COLUMNS: list[dict[str, object]] = [
    {"name": "question", "label": "Question", "field": "question", "align": "left"},
    {"name": "dataset", "label": "Dataset", "field": "dataset", "align": "left", "sortable": True},
    {"name": "at", "label": "When (UTC)", "field": "at", "align": "left", "sortable": True},
    {"name": "mechanism", "label": "Mechanism", "field": "mechanism", "align": "left", "sortable": True},
    {"name": "epsilon", "label": "Epsilon", "field": "epsilon", "align": "right"},
]


def all_past(session: Session) -> list[Past]:
    """The charges of all datasets, newest first."""
    found = [past for name in session.datasets() for past in session.history(name)]
    return sorted(found, key=lambda past: past.at, reverse=True)


def _row(past: Past) -> dict[str, object]:
    return {
        "name": answer_name(past),
        "link": answer_link(past),
        "question": f"Synopsis: {past.question}" if past.is_synopsis else past.question,
        "dataset": past.dataset,
        "at": past.at[:16].replace("T", " "),
        "mechanism": past.mechanism,
        "epsilon": figure(past.epsilon),
        "current": past.is_current,
    }


def compared(names: list[str]) -> str:
    """Where two answers stand side by side."""
    return f"/history/compare?{urlencode({'one': names[0], 'two': names[1]})}"


def named(name: str) -> tuple[str, int]:
    """The dataset and the number of an answer, from its name in a link."""
    number, _, dataset = name.partition(" ")
    if not number.isdecimal() or len(number) > 18 or not dataset:  # no ledger is as long
        raise InvalidInput("this link leads to no answer; open it from the history")
    return dataset, int(number)


@page("/history/answer", "An answer of the past", "ask")
async def one_answer(here: Here) -> None:
    """One answer, opened again."""
    session = here.session()
    dataset, number = named(here.request.query_params.get("of", ""))
    found = await here.run(lambda: session.reopen(dataset, number))
    ui.link("← All answers", "/history").classes("bf-small")
    with ui.element("section").classes("bf-card").style("margin-top:10px"):
        code = reopening(dataset, number, here.office.settings.url)
        if isinstance(found, Answer):
            show_answer(here, found, code)
        elif isinstance(found, Synopsis):
            paragraph(f"A synopsis of {', '.join(found.artefact.names)}. Anybody may ask it, free.")
            where = f"/synopses/ask?{urlencode({'of': f'{number} {dataset}'})}"
            ui.button("Ask it", on_click=lambda: ui.navigate.to(where)).props("unelevated").style("margin-top:12px")
        elif isinstance(found, NodeWeights):
            paragraph("Weights for k-means. They are used from Python:")
            code_block(code)
