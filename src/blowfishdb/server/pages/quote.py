"""A question with its accuracy, ready to be quoted and to be run exactly as it was quoted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress
from blowfishdb.engine.preview import Offer, Preview
from blowfishdb.engine.target import Number
from blowfishdb.errors import BlowfishError
from blowfishdb.present.words import epsilon_words, readable
from blowfishdb.server.pages.controls import heading, in_row, notice, small
from blowfishdb.server.pages.page_context import sentence
from blowfishdb.server.pages.query_form import Asking, Wanted, asked
from blowfishdb.server.pages.result import snippet, sql_snippet
from blowfishdb.session.backend import Budget, Past
from blowfishdb.session.session import Session
from blowfishdb.session.table import Question
from blowfishdb.sql import ask, parse, read_question

SHORT = 1000
"""What is left is rounded down to so many parts of one: a price with few digits."""
SPARED = Fraction(99, 100)
"""Prices of an accuracy are rounded up, so a little is spared for the one that is named to be affordable."""


@dataclass(frozen=True, eq=False)
class Ready:
    """What a click on Run would release, and the code that does the same."""

    question: Question
    alpha: Number | None
    beta: Number | None
    confidence: Number | None
    epsilon: Number | None
    mechanism: str | None
    per_query: bool
    code: str

    def preview(self) -> Preview:
        """The price; reads no data."""
        return self.question.preview(
            self.alpha,
            self.beta,
            epsilon=self.epsilon,
            confidence=self.confidence,
            mechanism=self.mechanism,
            per_query=self.per_query,
        )

    def within(self, left: Fraction) -> float | None:
        """How near the truth the answers would be for what is left of a budget; None where nobody can promise it."""
        epsilon = Fraction(math.floor(left * SPARED * SHORT), SHORT)
        if epsilon <= 0:
            return None
        try:
            return self.question.preview(
                beta=self.beta, epsilon=epsilon, confidence=self.confidence, per_query=self.per_query
            ).alpha
        except BlowfishError:
            return None

    def release(self, progress: Progress) -> Answer:
        """The answer, charged."""
        return self.question.release(
            self.alpha,
            self.beta,
            epsilon=self.epsilon,
            confidence=self.confidence,
            mechanism=self.mechanism,
            per_query=self.per_query,
            progress=progress,
        )


def ready(session: Session, asking: Asking, wanted: Wanted, sql: str, url: str) -> Ready:
    """The question that the controls ask; typed errors where they ask nothing sensible."""
    alpha, epsilon = wanted.keywords()
    if asking.template != "sql":
        table = session[asking.dataset]
        code = snippet(asking, wanted, table.domain, url)
        return Ready(asked(asking, table), alpha, None, wanted.confidence, epsilon, wanted.mechanism, False, code)
    statement = parse(sql)
    table = session[statement.table]
    question, said = ask(table, read_question(statement, table.domain)), statement.options
    # What the statement says of its accuracy counts, and the controls only where it says nothing.
    if said.alpha is not None or said.epsilon is not None:
        alpha, epsilon = said.alpha, said.epsilon
    confidence = wanted.confidence if said.beta is None else None
    mechanism = said.mechanism or wanted.mechanism
    code = sql_snippet(sql, wanted, url)
    return Ready(question, alpha, said.beta, confidence, epsilon, mechanism, bool(said.per_query), code)


SHOWN_OFFERS = 6


@dataclass(frozen=True, eq=False)
class Priced:
    """A question with its quote and what is left of the budget.

    `before` is an answer of the past that looks the same; `instead` is how near the truth what is left would bring
    one that costs too much.
    """

    asked: Ready
    preview: Preview
    budget: Budget
    before: Past | None
    instead: float | None


def show_quote(priced: Priced, on_run: Callable[[], object]) -> None:
    """The quote of a question that could be run."""
    preview, before = priced.preview, priced.before
    after = None if preview.left is None else preview.left - preview.epsilon
    with ui.element("div").classes("bf-top"):
        with ui.element("div"):
            ui.label(preview.title).classes("bf-title")
            small(_promise(preview)).props('data-testid="promise"')
        run = ui.button("Run", icon="play_arrow", on_click=on_run).props('unelevated data-testid="run"')
        run.set_enabled(after is None or after >= 0)
    with in_row().style("align-items:baseline;gap:10px;margin:12px 0 10px"):
        ui.label(figure(preview.epsilon)).classes("bf-big").props('data-testid="price"')
        ui.label("epsilon" if preview.epsilon else "epsilon: free and exact").classes("bf-quiet")
        if after is not None and after < 0:
            ui.label("more than you have").classes("bf-pill is-bad")
    budget_bar(priced.budget, preview.epsilon, preview.left)
    if priced.instead is not None:
        said = f"What is left would bring it within ±{readable(priced.instead)}."
        notice(said, "is-accent", "lightbulb").style("margin-top:12px").props('data-testid="instead"')
    if before is not None:
        said = f"You have an answer like this, of {before.at[:10]}. If nothing differs, it is given again, free."
        with notice(said, icon="history").style("margin-top:12px"):
            ui.link("Open it", answer_link(before)).classes("bf-small").style("white-space:nowrap")
    for dear in preview.dear:
        saved = dear.if_public if dear.if_public is not None and dear.if_public < dear.now else None
        more = f" If {dear.column} were public it would be {saved:.3g}." if saved is not None else ""
        notice(f"The filter on {dear.column} makes this dear.{more}", "is-accent", "lightbulb").style("margin-top:12px")
    _offers(preview)
    with ui.expansion("What is protected").props("dense").classes("w-full").style("margin-top:4px"):
        for said in preview.protected:
            ui.label(said).classes("bf-small").style("margin-bottom:4px")
        if preview.unprotected:
            small("Not protected: " + " ".join(preview.unprotected))
        if preview.worst_pair:
            small(f"Hardest pair to hide: {preview.worst_pair.replace('<->', '↔')}.", "margin-top:4px")


def answer_link(past: Past) -> str:
    """Where an answer of the past is opened again."""
    return f"/history/answer?{urlencode({'of': answer_name(past)})}"


def answer_name(past: Past) -> str:
    """The name of an answer in links."""
    return f"{past.number} {past.dataset}"


def _promise(preview: Preview) -> str:
    """How good the answers would be, in words."""
    many = f"{preview.answers:,} answer{'' if preview.answers == 1 else 's'}"
    if preview.epsilon == 0:
        return f"{many}, exact: the policy hides nothing that they depend on"
    if preview.alpha is None:
        return f"{many}; how near the truth depends on the data"
    every = "each " if preview.target.guarantee == "per-query" else "all of them "
    near = f"within ±{preview.alpha:,.4g} with {preview.target.confidence} confidence"
    if preview.behind:
        return f"{many}; {preview.behind} {near}"
    return f"{many}, {near}" if preview.answers == 1 else f"{many}, {every}{near}"


def figure(epsilon: Fraction) -> str:
    """A price for people: exact where that is short, else three digits, rounded up."""
    return epsilon_words(epsilon) if epsilon else "0"


def budget_bar(budget: Budget, price: Fraction = Fraction(0), left: Fraction | None = None) -> None:
    """What is spent, what this would take, what stays, and what others have taken of the data's own budget."""
    rest = budget.remaining if left is None else left
    whole = max(budget.dataset_limit if budget.limit is None else budget.limit, budget.spent + rest)
    is_over, taken = price > rest, min(price, rest)
    gone = whole - budget.spent - rest
    said = [
        f"spent {figure(budget.spent)}",
        f"left {figure(rest)}" if is_over or not price else f"left after this {figure(rest - price)}",
    ]
    said += [f"used by others {figure(gone)}"] if gone > 0 else []
    said.append(f"of {figure(whole)}")
    with ui.element("div").classes("bf-bar").props(f'role="img" aria-label="{", ".join(said)}"'):
        for kind, part in (
            ("is-spent", budget.spent),
            ("is-over" if is_over else "is-next", taken),
            ("is-left", rest - taken),
            ("is-gone", gone),
        ):
            least = 0.6 if kind == "is-next" and price else 0.0
            ui.element("div").classes(kind).style(f"width:{max(100 * float(part / whole), least) if whole else 0:.2f}%")
    with ui.element("div").classes("bf-legend"):
        for words in said:
            ui.label(words)


def _offers(preview: Preview) -> None:
    """The mechanism that would run, and those that lose."""
    by_price = preview.target.epsilon is None
    with ui.element("div").style("margin-top:16px"):
        with ui.element("div").classes("bf-offer-head"):
            ui.label("Mechanisms").style("font-weight:600")
            ui.element("div").classes("bf-offer-bar")
            ui.label("epsilon").classes("is-number")
            ui.label("error").classes("is-number")
        top = max([_size(offer, by_price=by_price) for offer in preview.offers[:SHOWN_OFFERS]] + [1e-12])
        for place, offer in enumerate(preview.offers[:SHOWN_OFFERS]):
            size = _size(offer, by_price=by_price)
            with ui.element("div").classes(f"bf-offer {'is-first' if place == 0 else ''}"):
                ui.label(offer.mechanism)
                with ui.element("div").classes("bf-offer-bar"):
                    ui.element("div").style(f"width:{max(100 * size / top, 1):.1f}%")
                ui.label(figure(offer.epsilon)).classes("is-number")
                ui.label(_within(offer)).classes("is-number bf-quiet")
        more = len(preview.offers) - SHOWN_OFFERS
        said = [sentence(preview.why)]
        if more > 0:
            said.append(f"{more} more would be dearer still." if by_price else f"{more} more would be less accurate.")
        small(" ".join(said), "margin-top:6px")


def _size(offer: Offer, *, by_price: bool) -> float:
    return float(offer.epsilon) if by_price else offer.alpha or 0.0


def _within(offer: Offer) -> str:
    return "varies" if offer.alpha is None else f"±{offer.alpha:,.3g}"


def show_refusal(error: BlowfishError) -> None:
    """Why there is no quote, and what to do."""
    heading("No price yet").classes("bf-title")
    # The page calls alpha by the name of its field.
    said = f"within ± {error.message[6:]}" if error.message.startswith("alpha ") else error.message
    notice(sentence(said), "is-accent", "lightbulb").style("margin-top:12px").props('data-testid="refusal"')


def show_failure(error: BlowfishError) -> None:
    """Why a question was not answered."""
    notice(sentence(error.message), "is-bad", "error").props('data-testid="failure"')


STEPS = {
    "quote": (0.2, "Planning"),
    "charge": (0.45, "Writing the charge to the ledger"),
    "answer": (0.8, "Counting and adding noise"),
    "done": (1.0, "Done"),
}


async def confirmed(
    what: str, price: Fraction, left: Fraction | None, more: Callable[[], object] | None = None
) -> bool:
    """Whether they agree to the price; nothing is spent without this step. `more` draws what else they should see."""
    rest = "" if left is None else f" You have {figure(left)}; this leaves {figure(left - price)}."
    said = (
        f"It is charged before any data is read, and there is no refund.{rest} What you asked before in the same way "
        "is given again, free."
    )
    named = 'aria-label="Confirm the price"'
    with ui.dialog().props(named) as dialog, ui.card().props(f'role="alertdialog" {named}'):
        ui.label(f"Spend epsilon {figure(price)}?").classes("bf-title").style("font-size:18px")
        ui.label(what).style("margin-top:6px")
        if more is not None:
            more()
        small(said, "margin-top:8px")
        with ui.element("div").classes("bf-row bf-ends"):
            ui.button("Cancel", on_click=lambda: dialog.submit("no")).props("flat")
            spend = ui.button(f"Spend {figure(price)} and run", on_click=lambda: dialog.submit("yes"))
            spend.props('unelevated autofocus data-testid="confirm"')
    answer = await dialog
    dialog.delete()
    return bool(answer == "yes")


def progress_bar() -> tuple[Progress, Callable[[], None]]:
    """Draws a bar; gives the function that hears the steps, from any thread, and the one that stops following."""
    heard = ["quote"]
    bar, label = ui.linear_progress(0.1, show_value=False), ui.label(STEPS["quote"][1])
    bar.props('aria-label="Progress"').style("margin-top:60px")
    label.classes("bf-quiet").style("text-align:center;margin-top:10px").props('role="status"')

    def follow() -> None:
        bar.value, label.text = STEPS[heard[-1]]

    timer = ui.timer(0.1, follow)
    return heard.append, timer.deactivate
