"""Budget: what is left to spend on each dataset, and what typical questions would cost now."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.controls import (
    Column,
    card,
    empty,
    figure,
    heading,
    in_row,
    link_button,
    plain_table,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import AxisChoice, QueryDraft, Template, build_query, usual_step
from blowfishdb.server.pages.quote import budget_bar
from blowfishdb.session.backend import Budget
from blowfishdb.session.session import Session

MOST_ATTRIBUTES = 8
COLUMNS = (Column("Question"), Column("Epsilon", is_number=True), Column("Your budget would do", is_number=True))
TEMPLATES: dict[Template, str] = {"histogram": "Histogram", "cdf": "Cumulative"}


@page("/budget", "Budget", "ask", lead="What you may still spend. Answers of the past stay free, whatever is left.")
async def budget(context: PageContext) -> None:
    """The page."""
    session = context.session()
    names = await context.run(session.datasets)
    if not names:
        said = "A curator declares one, with a budget for each analyst."
        empty("account_balance_wallet", "There is no dataset yet", said)
    for name in names:
        found = await context.run(partial(session.budget, name))
        with card():
            _dataset(context, found)


def _dataset(context: PageContext, found: Budget) -> None:
    with spread():
        heading(found.dataset)
        link_button("Explore", f"/explore?{urlencode({'dataset': found.dataset})}", "insights", "flat dense")
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
        rows = await context.run(lambda: typical(context.session(), found.dataset, within.value))
        redraw(box, partial(plain_table, COLUMNS, rows, "Typical questions"))

    within.on_value_change(price)
    ui.timer(0.05, price, once=True)


def typical(session: Session, dataset: str, alpha: str) -> list[tuple[str, str, str]]:
    """Histograms and cumulative histograms of the first attributes: the price, and how often the rest would pay it."""
    table = session[dataset]
    rows = []
    for name in list(table.domain)[:MOST_ATTRIBUTES]:
        attribute = table.domain[name]
        for template, words in TEMPLATES.items():
            if template == "cdf" and not attribute.ordered:
                continue
            axis = AxisChoice(name, usual_step(attribute) if template == "histogram" else "")
            try:
                preview = build_query(QueryDraft(dataset, template, (axis,)), table).preview(alpha)
            except BlowfishError:
                rows.append((f"{words} of {name}", "not offered", ""))
                continue
            left, price = preview.left, preview.epsilon
            times = "" if left is None or not price else often(left // price)
            rows.append((preview.title, figure(price) if price else "free", times))
    return rows


def often(times: int) -> str:
    """How many times, in words."""
    return {0: "not once", 1: "once"}.get(times, f"{times:,} times")
