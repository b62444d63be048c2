"""Budget: what is left to spend on each dataset, and what typical questions would cost now."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.engine.request import AccuracyTarget, short_number
from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.controls import (
    Column,
    blaming,
    budget_left,
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
    why_nothing,
)
from blowfishdb.server.pages.layout import PageContext, page
from blowfishdb.server.pages.query_draft import AxisChoice, QueryDraft, Template, build_query, usual_step
from blowfishdb.session.backend import Budget
from blowfishdb.session.session import Session

MOST_ATTRIBUTES = 8
COLUMNS = (Column("Question"), Column("Epsilon", "is-number"), Column("Your budget would do", "is-number"))
TEMPLATES: dict[Template, str] = {"histogram": "Histogram", "cdf": "Cumulative"}


@page("/budget", "Budget", "ask", lead="What you may still spend. Answers of the past stay free, whatever is left.")
async def budgets(context: PageContext) -> None:
    """The page."""
    session = context.session()
    names = await context.run(session.datasets)
    if not names:
        text = "A curator declares one, with a budget for each analyst."
        empty("account_balance_wallet", "There is no dataset yet", text)
    for name in names:
        budget = await context.run(partial(session.budget, name))
        with card():
            _dataset(context, budget)


def _dataset(context: PageContext, budget: Budget) -> None:
    with spread():
        heading(budget.dataset)
        link_button("Explore", f"/explore?{urlencode({'dataset': budget.dataset})}", "insights", "flat dense")
    budget_left(budget)
    if budget.limit is not None:
        rest, whole = figure(budget.dataset_remaining), figure(budget.dataset_limit)
        text = f"All analysts together have {rest} of {whole} left on this data."
        small(text, "margin-top:8px")
    if budget.remaining <= 0:
        text = f"{why_nothing(budget)} You can open your answers again, ask synopses, or ask the curator to renew it."
        ui.label(text).classes("bf-small").style("margin-top:8px")
        return
    with in_row().style("margin:18px 0 6px"):
        ui.label("What typical questions would cost, every count within ±").classes("bf-label").style("margin:0")
        within = ui.input(value="100").props('debounce=300 aria-label="Within"').style("width:96px")
        small("with 95 % confidence")
    box = ui.element("div").style("min-height:120px").props("aria-live=polite")
    with box:
        small("Working out the prices …")

    async def price() -> None:
        session, alpha = context.session(), str(within.value or "")
        with blaming(within):
            AccuracyTarget(short_number(alpha, "the width"), None)
            rows = await context.run(lambda: typical(session, budget.dataset, alpha))
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
            times = "" if left is None or not price else f"{left // price:,} times"
            times = {"0 times": "not once", "1 times": "once"}.get(times, times)
            rows.append((preview.title, figure(price) if price else "free", times))
    return rows
