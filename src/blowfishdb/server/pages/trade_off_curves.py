"""The price of accuracy against theta as curves that read no data; one policy looked at closely, with an example."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from urllib.parse import urlencode

import numpy as np
from nicegui import ui

from blowfishdb.analysis.risk import Risk, risk
from blowfishdb.catalog.dataset import Dataset, read_value
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.preview import PolicyPrice, quotes_for, what_if
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError
from blowfishdb.model.calendar import Dates
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Family, Policy, full, partition, threshold
from blowfishdb.model.query import Query
from blowfishdb.present.chart import Series, chart_of, evenly
from blowfishdb.present.chart_echarts import DETAIL, Options, draw
from blowfishdb.present.words import question_words
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
from blowfishdb.server.pages.family_form import form_of
from blowfishdb.server.pages.page_context import PageContext, sentence
from blowfishdb.server.pages.policies import LONGEST_TEXT

ROWS = 20_000
"""So many made-up rows."""


@dataclass(frozen=True, eq=False)
class Example:
    """An answer as an analyst would get it, and what it would be without noise."""

    answer: Answer
    exact: Floats


def made_up_counts(cells: Cells) -> Ints:
    """Counts of a table that nobody has: two hills and a long tail, the same for every question of this shape."""
    shape = cells.graph.shape
    weights = np.ones(1)
    for size, whole in zip(cells.plain, shape, strict=True):
        place = (np.arange(size) + 0.5) / max(size, 1)
        hills = np.exp(-(((place - 0.28) / 0.11) ** 2)) + 0.55 * np.exp(-(((place - 0.62) / 0.09) ** 2))
        along = np.zeros(whole)
        along[:size] = hills + 0.25 * np.exp(-3.0 * place)
        weights = np.multiply.outer(weights, along).ravel()
    total = max(float(weights.sum()), 1e-12)
    return np.asarray(np.round(ROWS * weights / total), dtype=np.int64)


def example(
    domain: Domain, policy: Policy, query: Query, target: AccuracyTarget, counts: Ints | None = None
) -> Example:
    """One answer under the policy, drawn on the counts given, else on made-up ones. Nothing is charged or stored."""
    compiled = compile_query(domain, policy, query)
    best = quotes_for(compiled, target).best
    known = made_up_counts(compiled.cells) if counts is None else counts
    return Example(
        PlanRelease(compiled, best).answer(known),
        compiled.problem.workload.dot(known).astype(np.float64) / compiled.scale,
    )


MOST_DOTS = 60
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
    said: str
    policy: Policy
    query: Query
    target: AccuracyTarget


async def show_point(view: PointView) -> None:
    """The card of a point."""
    domain = view.dataset.domain
    (price,) = await view.context.run(lambda: what_if(domain, {view.said: view.policy}, view.query, view.target))
    with ui.element("div").classes("bf-pair"):
        with card().props('data-testid="point"'):
            _price(view, price)
            if price.epsilon is not None:
                _meter(view, price.epsilon)
        with card():
            heading("An answer would look like this")
            await _example(view)


def _price(view: PointView, price: PolicyPrice) -> None:
    heading(view.said.capitalize())
    if price.epsilon is None or price.alpha is None:
        notice(sentence(price.refusal), "is-accent", "block").style("margin-top:10px")
        return
    with in_row().style("margin:8px 0 2px;align-items:baseline"):
        ui.label(figure(price.epsilon)).classes("bf-big")
        ui.label(f"epsilon: every count within {figure(price.alpha)}, by {price.mechanism}").classes("bf-quiet")
    said = form_of(view.policy.family(view.attribute))
    place = {
        "dataset": view.dataset.name,
        "attribute": view.attribute,
        "kind": said.kind,
        "text": said.text[:LONGEST_TEXT],
    }
    ui.link("Take it to the policy editor", f"/policies?{urlencode(place)}").classes("bf-small").props(
        'data-testid="take"'
    )


def _meter(view: PointView, epsilon: Fraction) -> None:
    """How much better somebody can guess between two values after this one answer."""
    attribute = view.dataset.domain[view.attribute]
    low, near, far = (attribute.size * part // 100 for part in (20, 22, 80))
    first = attribute.run_label(low, low)
    pairs = [(low, max(near, min(low + 1, attribute.size - 1))), (low, far)]
    ui.label("Risk: how sure somebody may become, who was undecided between two values").classes("bf-label")
    room = ui.element("div").classes("bf-stack")

    def draw(text: str) -> None:
        room.clear()
        with room:
            for one, two in _asked_pairs(view, text) or [
                (attribute.value_at(a), attribute.value_at(b)) for a, b in pairs
            ]:
                try:
                    _gauge(risk(replace(view.dataset, policy=view.policy), epsilon, one, two, attribute=view.attribute))
                except BlowfishError as error:
                    notice(sentence(error.message), "is-accent")

    ui.input(
        "Two values of your own", placeholder=f"{first}, …", on_change=lambda event: draw(str(event.value or ""))
    ).props("outlined dense debounce=300").style("margin-top:12px;max-width:260px")
    draw("")


def _asked_pairs(view: PointView, text: str) -> list[tuple[object, object]]:
    one, comma, two = text.partition(",")
    if not comma or not one.strip() or not two.strip():
        return []
    attribute = view.dataset.domain[view.attribute]
    return [(read_value(one, attribute), read_value(two, attribute))]


def _gauge(found: Risk) -> None:
    """A bar from one half to what a belief can become."""
    sure = found.posterior()[1]
    kind = "is-good" if sure < 0.65 else "is-accent" if sure < 0.9 else "is-bad"
    with ui.element("div").classes("bf-gauge").props('role=group data-testid="gauge"'):
        with spread():
            ui.label(f"{found.one} or {found.two}?").style("font-weight:560")
            pill("not hidden" if found.steps is None else f"at most {100 * sure:.3g} % sure", kind)
        with ui.element("div").classes("bf-meter"):
            ui.element("div").classes(kind).style(f"width:{100 * sure:.1f}%")
            ui.element("i")
        small(sentence(found.words()[0]))


async def _example(view: PointView) -> None:
    """A drawn answer on made-up counts; on true ones only after a warning that is logged."""
    domain = view.dataset.domain
    room = ui.element("div")

    async def draw(counts: Ints | None) -> None:
        try:
            found = await view.context.run(lambda: example(domain, view.policy, view.query, view.target, counts))
        except BlowfishError as error:
            with room:
                notice(sentence(error.message), "is-accent", "block")
            return
        room.clear()
        with room:
            with in_row().style("margin-top:6px"):
                pill(
                    *(("made-up data", "is-good") if counts is None else ("true counts: for your eyes only", "is-bad"))
                )
                small("bars: the noisy answer · dots: without noise")
            ui.echart(_with_truth(found)).style("height:300px;width:100%").props(
                'role=img aria-label="An example answer" data-testid="example"'
            )

    async def look() -> None:
        curator, name = view.context.curator(), view.dataset.name
        detail = {"question": question_words(view.query)[:200], "policy": view.said[:200]}
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


def _with_truth(found: Example) -> Options:
    """The chart of the answer with the values without noise as dots upon it."""
    chart = chart_of(found.answer, DETAIL)
    exact = np.full(len(chart.places), np.nan)
    marks = evenly(exact.size, MOST_DOTS)
    exact[marks] = found.exact[[chart.places[mark] for mark in marks]]
    return draw(replace(chart, series=(*chart.series, Series("without noise", exact))))


ANCHORS = (Fraction(1, 10), Fraction(1))
MOST_THETAS = 9
KEPT = 4096
SECRET, NEAR, BLOCKS = "everything secret", "within θ", "blocks of θ"


@dataclass(frozen=True)
class Offer:
    """What accuracy costs under one policy: the largest error at each of the two anchor prices."""

    alphas: tuple[float, float]

    def epsilon_for(self, alpha: float) -> float:
        """About what errors of at most alpha cost."""
        low, high = self.alphas
        if high <= 0.0 or low <= 0.0 or alpha <= 0.0:
            return 0.0
        return float(ANCHORS[0]) * math.pow(low / alpha, 1.0 / self._slope())

    def alpha_for(self, epsilon: float) -> float:
        """About how large errors are at a price."""
        if self.alphas[0] <= 0.0:
            return 0.0
        return self.alphas[0] * math.pow(float(ANCHORS[0]) / epsilon, self._slope())

    def _slope(self) -> float:
        """How fast errors fall with the price, as a power; 1 for continuous noise."""
        low, high = self.alphas
        steps = math.log(float(ANCHORS[1] / ANCHORS[0]))
        return max(math.log(low / high) / steps, 0.2) if 0.0 < high < low else 1.0


@dataclass(frozen=True)
class Point:
    """One policy on a curve."""

    line: str
    theta: str
    family: Family


def thetas_of(attribute: Attribute) -> list[str]:
    """Distances worth a look, from the smallest to about half of the domain, each in the attribute's own units."""
    if isinstance(attribute, Dates):
        days = ("1 day", "7 days", "14 days", "30 days", "60 days", "90 days", "180 days", "365 days")
        return list(days) if attribute.by == "day" else [str(count) for count in _round(attribute.size)]
    step = attribute.width if isinstance(attribute, Bins) and attribute.width is not None else Fraction(1)
    return [show(step * count) for count in _round(attribute.size)]


def _round(size: int) -> list[int]:
    """1, 2, 5, 10, ... below the size; the larger ones stay when there are too many."""
    found = [lead * 10**power for power in range(9) for lead in (1, 2, 5) if lead * 10**power < size]
    return found if len(found) <= MOST_THETAS else [found[0], *found[1 - MOST_THETAS :]]


def points_of(attribute: Attribute) -> list[Point]:
    """The policies of all curves: everything secret, within theta, and blocks of theta."""
    if not attribute.ordered:
        return [Point(SECRET, "", full())]
    found = [Point(SECRET, "", full())]
    for theta in thetas_of(attribute):
        found.append(Point(NEAR, theta, threshold(theta)))
        blocks = _blocks(attribute, theta)
        if blocks is not None:
            found.append(Point(BLOCKS, theta, blocks))
    return found


def _blocks(attribute: Attribute, theta: str) -> Family | None:
    """Blocks that are theta wide; None where there would be one block, or where every value would be its own."""
    if isinstance(attribute, Integers):
        starts = range(attribute.low + int(theta), attribute.high + 1, int(theta))
        return partition(cuts=list(starts)) if int(theta) > 1 and len(starts) else None
    if isinstance(attribute, Bins) and attribute.width is not None:
        width, end = Fraction(theta), attribute.edge(attribute.size)
        count = math.ceil((end - attribute.start) / width) - 1
        if width > attribute.width and count >= 1:
            return partition(cuts=[attribute.start + width * (place + 1) for place in range(count)])
    return None


def with_family(policy: Policy, name: str, family: Family) -> Policy:
    """The policy with another family for one attribute."""
    return replace(policy, attributes={**policy.attributes, name: family})


@dataclass
class Offers:
    """Offers that were made before, so that a curve is quoted once; pages of all curators share them."""

    _kept: OrderedDict[str, Offer | None] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def offer(self, domain: Domain, policy: Policy, query: Query, beta: Fraction) -> Offer | None:
        """The offer under one policy; None where no mechanism serves."""
        key = repr((domain, policy, query, beta))
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = _offer(domain, policy, query, beta)
        with self._turn:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


OFFERS = Offers()


def _offer(domain: Domain, policy: Policy, query: Query, beta: Fraction) -> Offer | None:
    try:
        compiled = compile_query(domain, policy, query)
        low, high = (_alpha(compiled, epsilon, beta) for epsilon in ANCHORS)
    except BlowfishError:
        return None
    return Offer((low, high))


def _alpha(compiled: Compiled, epsilon: Fraction, beta: Fraction) -> float:
    return quotes_for(compiled, AccuracyTarget(None, epsilon, beta)).best.alpha / compiled.scale


def curves(
    points: list[Point], offers: dict[Point, Offer | None], value: float, *, wants_epsilon: bool
) -> dict[str, list[float | None]]:
    """For each line one number per theta, in order: the price of an error of `value`, or the error at that price."""
    thetas = list(dict.fromkeys(point.theta for point in points if point.theta))
    found: dict[str, list[float | None]] = {}
    for point in points:
        offer = offers.get(point)
        number = None if offer is None else offer.epsilon_for(value) if wants_epsilon else offer.alpha_for(value)
        if not point.theta:
            found[point.line] = [number] * max(len(thetas), 1)
        else:
            row = found.setdefault(point.line, [None] * len(thetas))
            row[thetas.index(point.theta)] = number
    return found
