"""The price of a question on a page: what it costs, what that leaves, who offers more, and what is protected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

from nicegui import ui

from blowfishdb.engine.present.numbers import epsilon_words, readable
from blowfishdb.engine.preview import Offer, Preview
from blowfishdb.errors import BlowfishError
from blowfishdb.server.pages.here import sentence
from blowfishdb.server.pages.ready import Ready
from blowfishdb.server.pages.shell import heading, notice
from blowfishdb.session.desk import Budget, Past

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
            ui.label(_promise(preview)).classes("bf-quiet bf-small").props('data-testid="promise"')
        run = ui.button("Run", icon="play_arrow", on_click=on_run).props('unelevated data-testid="run"')
        run.set_enabled(after is None or after >= 0)
    with ui.element("div").classes("bf-row").style("align-items:baseline;gap:10px;margin:12px 0 10px"):
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
            ui.label("Not protected: " + " ".join(preview.unprotected)).classes("bf-small bf-quiet")
        if preview.worst_pair:
            ui.label(f"Hardest pair to hide: {preview.worst_pair.replace('<->', '↔')}.").classes(
                "bf-small bf-quiet"
            ).style("margin-top:4px")


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
    every = "each " if preview.demanded.guarantee == "per-query" else "all of them "
    near = f"within ±{preview.alpha:,.4g} with {preview.demanded.confidence} confidence"
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
    by_price = preview.demanded.epsilon is None
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
        ui.label(" ".join(said)).classes("bf-small bf-quiet").style("margin-top:6px")


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
