"""Before a question: the data dictionary with examples, and the budget with what typical questions cost now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.catalog.catalog import PEOPLE
from blowfishdb.catalog.dataset import hidden_words, is_protected
from blowfishdb.engine.request import AccuracyTarget, short_number
from blowfishdb.errors import BlowfishError, CatalogError, QueryError, plural, sentence
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.policy import Person, Policy, Public
from blowfishdb.present.words import counted_words, question_words, shortened
from blowfishdb.server.pages.controls import (
    Heading,
    TableCell,
    blaming,
    budget_left,
    bullets,
    called,
    card,
    empty,
    figure,
    heading,
    in_row,
    link_button,
    notice,
    plain_table,
    redraw,
    small,
    spread,
    why_nothing,
)
from blowfishdb.server.pages.layout import PageContext, dataset_choice, page
from blowfishdb.server.pages.query_draft import (
    AccuracyDraft,
    AxisDraft,
    QueryDraft,
    QuestionDraft,
    Template,
    build_query,
    usual_axis,
    usual_step,
    with_template,
)
from blowfishdb.session.backend import Budget
from blowfishdb.session.session import Session
from blowfishdb.session.table import Table

SHOWN_VALUES = 30
"""A longer list of values is shown up to here, until it is opened."""
TEMPLATES: tuple[Template, ...] = ("histogram", "number", "quantiles", "shares", "top", "compare", "heat", "cdf")
SMALL_PART = 20
"""The part of the remaining budget that an example question may cost."""
TABLES = (Heading("Table"), Heading("Gives"), Heading("Protected"), Heading("In SQL"))
COLUMNS = (
    Heading("Column"),
    Heading("Holds"),
    Heading("Values that may occur"),
    Heading("Hidden"),
    Heading("NULL, others"),
)


@page(
    "/dictionary", "Data dictionary", "ask", lead="What is known about the columns of each dataset before any answer."
)
async def dictionary(context: PageContext) -> None:
    """The page of one dataset."""
    session = context.session()
    names = await context.run(session.datasets)
    if not names:
        with card():
            empty("menu_book", "There is no dataset yet", "A curator declares one; its columns are then listed here.")
        return
    wanted = context.request.query_params.get("dataset", "")
    name = wanted if wanted in names else names[0]
    table = session[name]
    budget, sentences, tables = await context.run(
        lambda: (session.budget(name), table.policy_words(), tables_of(session, name))
    )
    if len(names) > 1:
        with ui.element("div").classes("bf-row bf-ends bf-beside-head"):
            dataset_choice("/dictionary", names, name)
    with card():
        _overview(table, budget)
    with card():
        heading("Columns")
        small("Declared by the curator, and public. Rows are never shown.", "margin:2px 0 8px")
        rows = [_row(table, column) for column in table.domain]
        plain_table(COLUMNS, rows, "Columns")
    if tables:
        with card():
            heading("Tables")
            words = "Columns of joined tables belong to the dataset: a JOIN may be written, and need not be."
            small(words, "margin:2px 0 8px")
            plain_table(TABLES, tables, "Tables")
    with card():
        heading("What is hidden")
        bullets(sentences)
    with card():
        heading("Questions to begin with")
        small("A click opens the question with its price. Nothing is spent before you confirm it.", "margin:2px 0 10px")
        with ui.element("ul").classes("bf-examples"):
            for words, price, link in example_links(table, budget):
                with ui.element("li"):
                    ui.link(words, link)
                    small(price)


def _overview(table: Table, budget: Budget) -> None:
    unit = table.policy.unit
    with spread():
        heading(table.name)
        link_button("Explore", f"/explore?{urlencode({'dataset': table.name})}", "insights", "flat dense")
    with ui.element("div").classes("bf-facts"):
        for name, words in (
            ("Columns", f"{len(table.domain.names):,}"),
            ("Protected", f"each {unit.id}, with all their rows" if isinstance(unit, Person) else "each row"),
            ("Counted", sentence(counted_words(unit)) if isinstance(unit, Person) else "Every row."),
            ("Number of rows", "public" if table.policy.presence == "public" else "hidden"),
        ):
            with ui.element("div"):
                small(name)
                ui.label(words)
    budget_left(budget)
    if budget.is_used_up:
        notice(f"{why_nothing(budget)} The curator can renew it.", "is-accent").style("margin-top:12px")


def tables_of(session: Session, name: str) -> list[tuple[str, str, str, str]]:
    """Each table behind a dataset: what it gives, what is protected of it, and how SQL names it; none where one is."""
    table = session[name]
    unit, joined = table.policy.unit, [column for join in table.joins for column in join.attributes]
    each = f"with each {unit.id}" if isinstance(unit, Person) else "each row"
    rows = [
        (
            join.table,
            ", ".join(column for column in join.attributes if column in table.domain) or "keys",
            each if is_protected(join, table.policy) else "public: only which of its rows is meant is hidden",
            f"JOIN {join.table} USING ({join.key})"
            if join.key == join.foreign_key
            else f"JOIN {join.table} ON {join.foreign_key} = {join.table}.{join.key}",
        )
        for join in table.joins
    ]
    if isinstance(unit, Person):
        with suppress(CatalogError):  # A joined attribute may be called like the number of a person's rows.
            people = session[f"{name}{PEOPLE}"]
            given = f"a record for each {unit.id}: {', '.join(people.domain)}"
            rows.append((people.name, given, each, f"FROM {people.name}"))
    main = ", ".join(column for column in table.domain if column not in joined)
    return [(name, main or "its rows", each, f"FROM {name}"), *rows] if rows else []


def _row(table: Table, name: str) -> list[TableCell]:
    attribute, policy = table.domain[name], table.policy
    values = partial(_values, name, attribute)
    return [name, kind_words(attribute), values, hidden_words(name, policy), special_words(attribute, name, policy)]


def kind_words(attribute: Attribute) -> str:
    """What a column holds, in a few words."""
    match attribute:
        case Integers():
            return "whole numbers"
        case Bins(width=width) if width is not None:
            return f"numbers, in bins of {figure(float(width))}"
        case Bins():
            return "numbers, in bins"
        case Dates(by=by):
            return f"dates, by {by}"
        case Timestamps(by=by):
            return f"moments, by {by}"
        case Categorical() if attribute.ordered:
            return "values in an order"
    return "a category"


def _values(name: str, attribute: Attribute) -> None:
    """All values of a category, or the ends of anything else."""
    if not isinstance(attribute, Categorical):
        first, last = (attribute.run_label(place, place) for place in (0, attribute.size - 1))
        ui.label(f"{first} … {last}")
        small(plural(attribute.size, "bin" if isinstance(attribute, Bins) else "value"))
        return
    values = [shortened(str(value)) for value in attribute.values]
    if len(values) <= SHOWN_VALUES:
        ui.label(", ".join(values))
        return
    with (
        ui.expansion(f"{plural(len(values), 'value')}: {values[0]} … {values[-1]}").props("dense").classes("bf-values")
    ):
        search = ui.input("Search").props("debounce=200 clearable type=search").style("max-width:240px")
        called(search, f"Search the values of {name}")
        shown = small(", ".join(values), "margin-top:6px;max-height:220px;overflow:auto")
        called(shown.props("tabindex=0 role=region"), f"Values of {name}")

        def narrow(text: str | None) -> None:
            wanted = (text or "").strip().casefold()
            shown.text = ", ".join(value for value in values if wanted in value.casefold()) or "No value holds that."

        search.on_value_change(lambda e: narrow(e.value))


def special_words(attribute: Attribute, name: str, policy: Policy) -> str:
    """What becomes of NULL and of values that were not declared."""
    is_open = isinstance(policy.family(name), Public)

    def cell(*, is_public: bool) -> str:
        return f"counted apart, {'public' if is_public or is_open else 'hidden'}"

    null = cell(is_public=attribute.null_public) if attribute.null == CELL else f"counts as {attribute.null}"
    outside = f"count as {attribute.outside}"
    if attribute.outside == CELL:
        outside = cell(is_public=attribute.outside_public)
    elif attribute.outside == CLAMP:
        outside = "moved to the nearest end"
    return f"NULL {null}; others {outside}"


def examples(dataset: str, domain: Domain) -> Iterator[QueryDraft]:
    """Questions of every usual kind, by the category with the fewest values; a top list of the one with the most."""
    categories = [name for name in domain if isinstance(domain[name], Categorical) and domain[name].size > 1]
    categories.sort(key=lambda name: domain[name].size)
    names = categories or list(domain)
    few, many = usual_axis(domain, names[0]), usual_axis(domain, names[-1])
    yield QueryDraft(dataset, "number", function="count")
    for template in TEMPLATES:
        blank = QueryDraft(dataset, "histogram", (many if template == "top" else few,))
        draft = with_template(blank, template, domain)
        yield draft
        if template == "number" and draft.of != few.attribute:
            yield replace(draft, chosen=(few,))


def example_links(table: Table, budget: Budget) -> list[tuple[str, str, str]]:
    """The examples: their words, what they would cost, and where they are asked."""
    epsilon = example_epsilon(budget.remaining)
    accuracy, links = AccuracyDraft("budget", epsilon=epsilon), []
    for draft in examples(table.name, table.domain):
        with suppress(QueryError):  # There may be no numbers, or no second column.
            words = example_words(draft, question_words(build_query(draft, table).query))
            links.append((words, f"at most epsilon {epsilon}", QuestionDraft(draft, accuracy).link()))
    return links


def example_epsilon(left: Fraction | None) -> str:
    """A round small part of what is left of a budget; a hundredth where nothing is, or nobody knows."""
    return f"{Decimal(f'{float(left) / SMALL_PART:.1g}'):f}" if left else "0.01"


def example_words(draft: QueryDraft, title: str) -> str:
    """The question as somebody would ask it."""
    if draft.template == "top":
        return f"The {draft.most} most frequent values of {draft.chosen[0].attribute}"
    if draft.template == "compare":
        sides = [", ".join(side) for side in (draft.first, draft.second)]
        groups = " with ".join(sides) if draft.first else f"below {draft.cut} with the rest"
        return f"{title.partition(' by ')[0]}, comparing {draft.chosen[0].attribute} {groups}"
    return title


MOST_ATTRIBUTES = 8
PRICES = (Heading("Question"), Heading("Epsilon", "is-number"), Heading("Your budget would do", "is-number"))
TYPICAL: dict[Template, str] = {"histogram": "Histogram", "cdf": "Cumulative"}


@page("/budget", "Budget", "ask", lead="What you may still spend. Earlier answers stay free, whatever is left.")
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
            _budget(context, budget)


def _budget(context: PageContext, budget: Budget) -> None:
    with spread():
        heading(budget.dataset)
        link_button("Explore", f"/explore?{urlencode({'dataset': budget.dataset})}", "insights", "flat dense")
    budget_left(budget)
    if budget.limit is not None and budget.dataset_remaining is not None and budget.dataset_limit is not None:
        rest, whole = figure(budget.dataset_remaining), figure(budget.dataset_limit)
        text = f"All analysts together have {rest} of {whole} left on this data."
        small(text, "margin-top:8px")
    if budget.is_used_up:
        text = f"{why_nothing(budget)} You can open your answers again, ask synopses, or ask the curator to renew it."
        ui.label(text).classes("bf-small").style("margin-top:8px")
        return
    with in_row().style("margin:18px 0 6px"):
        ui.label("What typical questions would cost, every count within ±").classes("bf-label").style("margin:0")
        within = ui.input(value="100").props('debounce=300 aria-label="Within"').style("width:96px")
        small("with 95 % confidence")
    box = ui.element("div").style("min-height:120px").props("aria-live=polite")

    async def price() -> None:
        session, alpha = context.session(), str(within.value or "")
        with blaming(within):
            AccuracyTarget(short_number(alpha, "the width"), None)
            redraw(box, partial(small, "Working out the prices …"))
            rows = await context.run(lambda: typical(session, budget.dataset, alpha))
            if alpha == str(within.value or ""):
                redraw(box, partial(plain_table, PRICES, rows, "Typical questions"))
            return
        # What stands there is about another width.
        box.clear()

    within.on_value_change(price)
    ui.timer(0.05, price, once=True)


def typical(session: Session, dataset: str, alpha: str) -> list[tuple[str, str, str]]:
    """Histograms and cumulative histograms of the first attributes: the price, and how often the rest would pay it."""
    table = session[dataset]
    rows = []
    for name in list(table.domain)[:MOST_ATTRIBUTES]:
        attribute = table.domain[name]
        for template, words in TYPICAL.items():
            if template == "cdf" and not attribute.ordered:
                continue
            axis = AxisDraft(name, usual_step(attribute) if template == "histogram" else "")
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
