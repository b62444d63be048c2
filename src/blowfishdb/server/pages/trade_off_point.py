"""One policy looked at closely: its exact price, the risk that it leaves, and an example answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from urllib.parse import urlencode

import numpy as np
from nicegui import ui

from blowfishdb.analysis.risk import Risk, risk
from blowfishdb.catalog.dataset import Dataset, read_rows, read_value
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.effort import query_effort
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.engine.what_if import PolicyPrice, what_if
from blowfishdb.errors import BlowfishError
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.present.chart import Series, chart_of, evenly
from blowfishdb.present.chart_echarts import DETAIL, Options, draw
from blowfishdb.present.words import question_words, upper_end
from blowfishdb.server.pages.controls import (
    ask_after_warning,
    card,
    figure,
    heading,
    in_row,
    notice,
    pill,
    small,
    spread,
)
from blowfishdb.server.pages.page_context import IsWanted, PageContext, sentence
from blowfishdb.server.pages.policies import LONGEST_TEXT, form_of

ROWS = 20_000
"""So many made-up rows."""


def made_up_counts(cells: Cells) -> Ints:
    """Counts of a table that nobody has: two hills and a long tail, the same for every question of this shape."""
    weights = np.ones(1)
    for size, whole in zip(cells.plain, cells.graph.shape, strict=True):
        place = (np.arange(size) + 0.5) / max(size, 1)
        hills = np.exp(-(((place - 0.28) / 0.11) ** 2)) + 0.55 * np.exp(-(((place - 0.62) / 0.09) ** 2))
        along = np.zeros(whole)
        along[:size] = hills + 0.25 * np.exp(-3.0 * place)
        weights = np.multiply.outer(weights, along).ravel()
    total = max(float(weights.sum()), 1e-12)
    return np.asarray(np.round(ROWS * weights / total), dtype=np.int64)


def best_release(domain: Domain, policy: Policy, query: Query, target: AccuracyTarget) -> PlanRelease:
    """The release that would answer a query under a policy; nothing is charged or stored."""
    compiled = compile_query(domain, policy, query)
    return PlanRelease(compiled, quotes_for(compiled, target).best)


def example(release: PlanRelease, counts: Ints | None = None) -> tuple[Answer, Floats]:
    """One answer on the counts given, else on made-up ones; and its values without noise."""
    compiled = release.compiled
    if counts is None:
        counts = made_up_counts(compiled.cells)
    answer = release.answer(counts)
    scale = 1 if compiled.measure is None else compiled.measure.scale
    return answer, compiled.problem.workload.dot(counts).astype(np.float64) / scale


MOST_DOTS = 60
PAIR = 2
WARNING = (
    "True counts are secret. Whoever chooses a policy after seeing them chooses by the data, and the choice itself can "
    "tell about it. Nothing of what you see here leaves this page; that you looked is written to the log."
)


@dataclass(frozen=True, eq=False)
class PointView:
    """A policy for one attribute and a question under it."""

    context: PageContext
    dataset: Dataset
    attribute: str
    words: str
    policy: Policy
    query: Query
    target: AccuracyTarget


async def show_point(view: PointView, box: ui.element, is_wanted: IsWanted) -> None:
    """Fills the box with the cards of a point, unless another one is wanted by then."""
    domain = view.dataset.domain
    effort = partial(query_effort, domain, view.policy, view.query)
    policies = {view.words: view.policy}
    work = partial(view.context.compute, effort, what_if, domain, policies, view.query, view.target)
    (price,) = await view.context.run(work)
    if not is_wanted():
        return
    box.clear()
    with box, ui.element("div").classes("bf-pair"):
        with card().props('data-testid="point"'):
            _price(view, price)
            if price.epsilon is not None:
                _meter(view, price.epsilon)
        with card():
            heading("An answer would look like this")
            await _example(view)


def _price(view: PointView, price: PolicyPrice) -> None:
    heading(view.words.capitalize())
    if price.epsilon is None or price.alpha is None:
        notice(sentence(price.refusal), "is-accent", "block").style("margin-top:10px")
        return
    with in_row().style("margin:8px 0 2px;align-items:baseline"):
        ui.label(figure(price.epsilon)).classes("bf-big")
        ui.label(f"epsilon: every count within {figure(price.alpha)}, by {price.mechanism}").classes("bf-quiet")
    form = form_of(view.policy.family(view.attribute))
    if len(form.text) > LONGEST_TEXT:
        small("Its list of values is too long to take along; write it in the policy editor.")
        return
    place = {"dataset": view.dataset.name, "attribute": view.attribute, "kind": form.kind, "text": form.text}
    link = ui.link("Take it to the policy editor", f"/policies?{urlencode(place)}").classes("bf-small")
    link.props('data-testid="take"')


def _meter(view: PointView, epsilon: Fraction) -> None:
    """How much better somebody can guess between two values after this one answer."""
    attribute = view.dataset.domain[view.attribute]
    low, near, far = (attribute.size * part // 100 for part in (20, 22, 80))
    near = max(near, min(low + 1, attribute.size - 1))
    usual = [(attribute.value_at(low), attribute.value_at(other)) for other in dict.fromkeys((near, far))]
    ui.label("Risk: how sure somebody may become, who was undecided between two values").classes("bf-label")
    room = ui.element("div").classes("bf-stack")

    def draw(text: str) -> None:
        values = [read_value(value, attribute) for row in read_rows(text) for value in row]
        room.clear()
        with room:
            for one, two in [(values[0], values[1])] if len(values) == PAIR else usual:
                try:
                    _gauge(risk(replace(view.dataset, policy=view.policy), epsilon, one, two, attribute=view.attribute))
                except BlowfishError as error:
                    notice(sentence(error.message), "is-accent")

    sample = f"{attribute.run_label(low, low)}, …"
    box = ui.input("Two values of your own", placeholder=sample, on_change=lambda event: draw(str(event.value or "")))
    box.props("debounce=300").style("margin-top:12px;max-width:260px")
    draw("")


def _gauge(meter: Risk) -> None:
    """A bar from one half to what a belief can become."""
    sure = meter.posterior()[1]
    kind = "is-good" if sure < 0.65 else "is-accent" if sure < 0.9 else "is-bad"
    with ui.element("div").classes("bf-gauge").props('role=group data-testid="gauge"'):
        with spread():
            ui.label(f"{meter.one} or {meter.two}?").style("font-weight:560")
            pill("not hidden" if meter.steps is None else f"at most {upper_end(100 * sure, 3):g} % sure", kind)
        with ui.element("div").classes("bf-meter"):
            ui.element("div").classes(kind).style(f"width:{100 * sure:.1f}%")
            ui.element("i")
        small(sentence(meter.words()[0]))


async def _example(view: PointView) -> None:
    """A drawn answer on made-up counts; on true ones only after a warning that is logged."""
    domain = view.dataset.domain
    room = ui.element("div")

    def work(counts: Ints | None) -> tuple[Answer, Floats]:
        effort = partial(query_effort, domain, view.policy, view.query)
        release = view.context.compute(effort, best_release, domain, view.policy, view.query, view.target)
        return example(release, counts)

    async def draw(counts: Ints | None) -> None:
        try:
            answer, exact = await view.context.run(partial(work, counts))
        except BlowfishError as error:
            room.clear()
            with room:
                notice(sentence(error.message), "is-accent", "block")
            return
        kind = ("made-up data", "is-good") if counts is None else ("true counts: for your eyes only", "is-bad")
        room.clear()
        with room:
            with in_row().style("margin-top:6px"):
                pill(*kind)
                small("bars: the noisy answer · dots: without noise")
            chart = ui.echart(_with_dots(answer, exact)).style("height:300px;width:100%")
            chart.props('role=img aria-label="An example answer" data-testid="example"')

    async def look() -> None:
        curator, name = view.context.curator(), view.dataset.name
        detail = {"question": question_words(view.query)[:200], "policy": view.words[:200]}
        view.context.note("looked at true answers", name, detail)
        compiled = compile_query(domain, view.policy, view.query)
        await draw(await view.context.run(lambda: curator.true_counts(name, compiled)))

    def ask() -> None:
        ask_after_warning("Show true answers?", WARNING, "I understand, show them", look, "show-truth", is_grave=True)

    await draw(None)
    with in_row().style("margin-top:6px"):
        ui.button("Draw again", icon="refresh", on_click=lambda: draw(None)).props("flat dense")
        button = ui.button("Show true answers …", icon="visibility", on_click=ask)
        button.props('flat dense data-testid="truth"')


def _with_dots(answer: Answer, exact: Floats) -> Options:
    """The chart of the answer with the values without noise as dots upon it."""
    chart = chart_of(answer, DETAIL)
    dots = np.full(len(chart.places), np.nan)
    marks = evenly(dots.size, MOST_DOTS)
    dots[marks] = exact[[chart.places[mark] for mark in marks]]
    return draw(replace(chart, series=(*chart.series, Series("without noise", dots))))
