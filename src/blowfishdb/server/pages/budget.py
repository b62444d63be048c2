"""Budget: what is left to spend on each dataset, and what typical questions would cost now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from nicegui import ui

from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.controls import card, empty, heading, in_row, small, spread
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import Asking, Chosen, Template, asked, usual_step
from blowfishdb.server.pages.quote import budget_bar, figure
from blowfishdb.session.backend import Budget
from blowfishdb.session.session import Session

MOST_ATTRIBUTES = 8
TEMPLATES: dict[Template, str] = {"histogram": "Histogram", "cdf": "Cumulative"}


@dataclass(frozen=True)
class Typical:
    """A question that many would ask, and what it costs; `times` says how often the rest of the budget would do."""

    title: str
    price: str
    times: str


@page("/budget", "Budget", "ask", lead="What you may still spend. Answers of the past stay free, whatever is left.")
async def budget(context: PageContext) -> None:
    """The page."""
    session = context.session()
    names = await context.run(session.datasets)
    if not names:
        empty(
            "account_balance_wallet",
            "There is no dataset yet",
            "A curator declares one, with a budget for each analyst.",
        )
    for name in names:
        found = await context.run(partial(session.budget, name))
        with card():
            _dataset(context, found)


def _dataset(context: PageContext, found: Budget) -> None:
    with spread():
        heading(found.dataset)
        where = f"/explore?dataset={found.dataset}"
        ui.button("Explore", icon="insights", on_click=lambda: ui.navigate.to(where)).props("flat dense")
    with in_row().style("align-items:baseline;gap:10px;margin:8px 0 10px"):
        ui.label(figure(found.remaining)).classes("bf-big").props('data-testid="left"')
        ui.label("epsilon left for you").classes("bf-quiet")
    budget_bar(found)
    if found.limit is not None:
        rest, whole = figure(found.dataset_remaining), figure(found.dataset_limit)
        said = f"All analysts together have {rest} of {whole} left on this data."
        small(said, "margin-top:8px")
    if found.remaining <= 0:
        said = "Your budget is used up. You can open your answers again, ask synopses, or ask the curator to renew it."
        ui.label(said).classes("bf-small").style("margin-top:8px")
        return
    with in_row().style("margin:18px 0 6px"):
        ui.label("What typical questions would cost, every count within ±").classes("bf-label").style("margin:0")
        within = ui.input(value="100").props('outlined dense debounce=300 aria-label="Within"').style("width:96px")
        small("with 95 % confidence")
    box = ui.element("div").style("min-height:120px").props("aria-live=polite")
    with box:
        small("Working out the prices …")

    async def price() -> None:
        try:
            listed = await context.run(lambda: typical(context.session(), found.dataset, within.value))
        except BlowfishError as error:
            context.tell(error)
            return
        box.clear()
        with box:
            _table(listed)

    within.on_value_change(price)
    ui.timer(0.05, price, once=True)


def typical(session: Session, dataset: str, alpha: str) -> list[Typical]:
    """Histograms and cumulative histograms of the first attributes, priced; reads no data."""
    table = session[dataset]
    found = []
    for name in list(table.domain)[:MOST_ATTRIBUTES]:
        attribute = table.domain[name]
        for template, words in TEMPLATES.items():
            if template == "cdf" and not attribute.ordered:
                continue
            chosen = Chosen(name, usual_step(attribute) if template == "histogram" else "")
            try:
                preview = asked(Asking(dataset, template, (chosen,)), table).preview(alpha)
            except BlowfishError:
                found.append(Typical(f"{words} of {name}", "not offered", ""))
                continue
            left, price = preview.left, preview.epsilon
            times = "" if left is None or not price else often(left // price)
            found.append(Typical(preview.title, figure(price) if price else "free", times))
    return found


def often(times: int) -> str:
    """How many times, in words."""
    return {0: "not once", 1: "once"}.get(times, f"{times:,} times")


def _table(listed: list[Typical]) -> None:
    columns = [
        {"name": name, "label": words, "field": name, "align": align}
        for name, words, align in (
            ("title", "Question", "left"),
            ("price", "Epsilon", "right"),
            ("times", "Your budget would do", "right"),
        )
    ]
    rows = [{"title": one.title, "price": one.price, "times": one.times} for one in listed]
    ui.table(columns=columns, rows=rows, row_key="title").props("flat dense hide-bottom").classes("w-full bf-wraps")
