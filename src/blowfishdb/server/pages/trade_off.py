"""The trade-off: what accuracy costs under several policies as curves that read no data, and one of them up close."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from urllib.parse import urlencode

import numpy as np
from nicegui import events, ui

from blowfishdb.analysis.risk import Risk, risk, usual_pairs
from blowfishdb.catalog.dataset import Dataset, family_words, read_rows, read_value
from blowfishdb.catalog.guidance import PolicyPrice, saves_little, what_if
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compute, compile_query, compute_here, query_effort
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, short_number
from blowfishdb.errors import BlowfishError, PolicyError, sentence
from blowfishdb.model.calendar import Dates
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Family, Policy, full, partition, public, threshold, value_graph
from blowfishdb.model.query import Kind, Query, query
from blowfishdb.present.chart import Chart, ChartAxis, Series, chart_of, evenly
from blowfishdb.present.chart_echarts import DETAIL, Options, draw
from blowfishdb.present.words import question_words, upper_end
from blowfishdb.server.pages.controls import (
    ask_after_warning,
    called,
    card,
    choice,
    empty,
    figure,
    heading,
    in_row,
    notice,
    pill,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.pages.policies import LONGEST_TEXT, NO_SECOND
from blowfishdb.server.pages.policy_form import form_of
from blowfishdb.server.pages.query_draft import AxisDraft, steps_of, usual_step

ANCHORS = (Fraction(1, 10), Fraction(1))
MOST_THETAS = 9
MOST_OFFERS = 4096
MOST_GROUPED = 1000
"""Values without an order that are offered in groups, at most."""
SECRET, NEAR, BLOCKS = "everything secret", "within θ", "blocks of θ"
IN_FORCE = "in force"


@dataclass(frozen=True)
class PriceCurve:
    """What accuracy costs under one policy: the largest error at each of the two anchor prices."""

    alphas: tuple[float, float]

    def epsilon_for(self, alpha: float) -> float:
        """About what errors of at most alpha cost."""
        if min(alpha, *self.alphas) <= 0.0:
            return 0.0
        return float(ANCHORS[0]) * math.pow(self.alphas[0] / alpha, 1.0 / self._slope())

    def alpha_for(self, epsilon: float) -> float:
        """About how large errors are at a price."""
        return max(self.alphas[0], 0.0) * math.pow(float(ANCHORS[0]) / epsilon, self._slope())

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

    @property
    def words(self) -> str:
        """What it hides, in words."""
        return self.line.replace("θ", self.theta)


def thetas_of(attribute: Attribute) -> list[str]:
    """Distances worth a look, from the smallest to about half of the domain, each in the attribute's own units."""
    if isinstance(attribute, Dates) and attribute.by == "day":
        return ["1 day", *(f"{days} days" for days in (7, 14, 30, 60, 90, 180, 365))]
    step = attribute.width if isinstance(attribute, Bins) and attribute.width is not None else Fraction(1)
    # The larger ones stay when there are too many.
    counts = [lead * 10**power for power in range(9) for lead in (1, 2, 5) if lead * 10**power < attribute.size]
    return [show(step * count) for count in counts[:1] + counts[1:][1 - MOST_THETAS :]]


MOST_OWN = 24


def read_thetas(text: str, attribute: Attribute) -> list[str]:
    """Distances of somebody's own, from a list; none for an empty one. PolicyError where one does not fit."""
    thetas = list(dict.fromkeys(theta for row in read_rows(text) for theta in row))
    if len(thetas) > MOST_OWN:
        raise PolicyError(f"a chart compares up to {MOST_OWN} distances, not {len(thetas)}")
    for theta in thetas:
        value_graph(threshold(theta), attribute)
    return thetas


def points_of(attribute: Attribute, current: Family, thetas: Sequence[str] = ()) -> list[Point]:
    """The policies to compare, with the one in force among them.

    Of an attribute with an order: everything secret, within theta, and blocks of theta, for the thetas given or for
    usual ones. Of one without, policies that differ in kind: everything secret, groups of the listed values, public.
    """
    points = [Point(SECRET, "", full())]
    if attribute.ordered:
        for theta in thetas or thetas_of(attribute):
            points.append(Point(NEAR, theta, threshold(theta)))
            blocks = _blocks(attribute, theta)
            if blocks is not None:
                points.append(Point(BLOCKS, theta, blocks))
    else:
        for words, size in _group_sizes(attribute.size).items():
            starts = range(0, attribute.size, size)
            groups = [
                [attribute.value_at(place) for place in range(start, min(start + size, attribute.size))]
                for start in starts
            ]
            points.append(Point(words, "", partition(groups)))
        points.append(Point("public", "", public()))
    if all(point.family != current for point in points):
        points.append(Point(f"{IN_FORCE}: {family_words(current)[:40]}", "", current))
    return points


def _group_sizes(size: int) -> dict[str, int]:
    """How many listed values each group has, in words: two groups in all, tens, and pairs."""
    if size > MOST_GROUPED:
        return {}
    offers = {"two groups": -(-size // 2), "groups of 10": 10, "groups of 2": 2}
    sizes = {count: words for words, count in reversed(offers.items()) if 1 < count < size}
    return {words: count for count, words in sorted(sizes.items(), reverse=True)}


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


@dataclass
class PriceCurves:
    """Offers that were made before, so that a curve is quoted once; pages of all curators share them."""

    _offers: OrderedDict[str, PriceCurve | None] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def offer(self, domain: Domain, policy: Policy, query: Query, compute: Compute = compute_here) -> PriceCurve | None:
        """The offer under one policy; None where no mechanism serves."""
        key = repr((domain, policy, query))
        with self._turn:
            if key in self._offers:
                self._offers.move_to_end(key)
                return self._offers[key]
        offer = compute(partial(query_effort, domain, policy, query), _offer, domain, policy, query)
        with self._turn:
            self._offers[key] = offer
            while len(self._offers) > MOST_OFFERS:
                self._offers.popitem(last=False)
        return offer


PRICE_CURVES = PriceCurves()


def _offer(domain: Domain, policy: Policy, query: Query) -> PriceCurve | None:
    try:
        low, high = (what_if(domain, {"": policy}, query, AccuracyTarget(None, price))[0].alpha for price in ANCHORS)
    except BlowfishError:
        return None
    return None if low is None or high is None else PriceCurve((low, high))


def curves(
    points: list[Point], offers: dict[Point, PriceCurve | None], value: float, *, wants_epsilon: bool
) -> dict[str, Floats]:
    """For each line one number per theta, in order: the price of an error of `value`, or the error at that price.

    Where nothing is offered the number is NaN, and a line without any offer is left out.
    """
    thetas = _thetas(points)
    lines: dict[str, Floats] = {}
    for point in points:
        row = lines.setdefault(point.line, np.full(max(len(thetas), 1), np.nan))
        offer = offers.get(point)
        if offer is not None:
            place = thetas.index(point.theta) if point.theta else slice(None)
            row[place] = offer.epsilon_for(value) if wants_epsilon else offer.alpha_for(value)
    return {line: row for line, row in lines.items() if not np.isnan(row).all()}


def _thetas(points: list[Point]) -> list[str]:
    return list(dict.fromkeys(point.theta for point in points if point.theta))


def picture(
    points: list[Point], offers: dict[Point, PriceCurve | None], current: Family, value: float, *, wants_epsilon: bool
) -> Options:
    """Curves along theta, or one bar for each policy where there is no theta; the policy in force is flagged."""
    lines = curves(points, offers, value, wants_epsilon=wants_epsilon)
    height = ChartAxis("epsilon" if wants_epsilon else "largest error")
    thetas = _thetas(points)
    if not thetas:
        names = tuple(point.words for point in points)
        row = np.array([lines[point.line][0] if point.line in lines else np.nan for point in points])
        flags = {place: IN_FORCE for place, point in enumerate(points) if point.family == current}
        bars = (Series(height.name, row, flags=flags),) if lines else ()
        options = draw(Chart("lines", ChartAxis("what is hidden", names), height, bars))
        options["xAxis"] |= {"boundaryGap": True, "nameGap": 54}
        options["xAxis"]["axisLabel"] |= {"interval": 0, "lineHeight": 14, ":formatter": IN_LINES}
        options["series"] = [one | {"type": "bar", "barMaxWidth": 72} for one in options["series"]]
        return options
    series = []
    for line, row in lines.items():
        in_force = [
            thetas.index(one.theta) for one in points if (one.line, one.family) == (line, current) and one.theta
        ]
        flags = dict.fromkeys(in_force[:1], IN_FORCE)
        series.append(Series(line, row, dashed=line not in (NEAR, BLOCKS), flags=flags))
    groups = ChartAxis("θ: values at most this far apart are hidden from each other", tuple(thetas))
    return draw(Chart("lines", groups, height, tuple(series)))


IN_LINES = """name => name.split(' ').reduce((lines, word) => {
  const longer = (lines.at(-1) + ' ' + word).trim();
  return longer.length > 9 ? [...lines, word] : [...lines.slice(0, -1), longer];
}, ['']).slice(0, 3).join('\\n')"""
"""Words of a policy below its bar, in up to three lines, so that none is left out."""
TEMPLATES: dict[Kind, str] = {"histogram": "Histogram", "cdf": "Cumulative", "quantiles": "Quantiles"}
TITLES = {"histogram": "histogram", "cdf": "cumulative histogram", "quantiles": "quartiles"}
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


def within_words(kind: Kind, alpha: str) -> str:
    """What is promised of each answer to a question of a kind."""
    return f"every quantile within {alpha} ranks" if kind == "quantiles" else f"every count within {alpha}"


GOALS = {"epsilon": "What it costs", "alpha": "How far off"}
ALPHAS, EPSILONS = (1.0, 10_000.0), (0.01, 10.0)
"""The ends of the two sliders; both are logarithmic."""
AT_ZERO = "At 0 the answer is exact: that policy hides nothing of what is asked, and protects nothing of it."
TICKS = 200
BATCH = 3
"""The number of new points after which the chart is drawn again."""


@page("/trade-off", "Trade-off", "curate", lead="What accuracy costs under each policy. No data is read for this.")
def trade_off(context: PageContext) -> None:
    """Controls at the left, curves at the right, and the chosen point below them."""
    curator = context.curator()
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    dataset = curator.dataset(name)
    names = [one for one in dataset.domain if dataset.policy.joint_of(one) is None]
    if not names:
        notice("All attributes of this dataset are hidden together: there is no single one to compare.")
        return
    ordered = [one for one in names if dataset.domain[one].ordered]
    wanted = context.request.query_params.get("attribute", "")
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/trade-off", curator.datasets(), name)
    TradeOffPage(context, dataset, names, wanted if wanted in names else (ordered or names)[0])


def _nothing_chosen() -> None:
    with card():
        empty(
            "ads_click", "Choose a point", "Click one in the picture: its exact price, the risk, and an example answer."
        )


class TradeOffPage:
    """The state of one open page: a question about one attribute, and how good or how expensive it may be."""

    def __init__(self, context: PageContext, dataset: Dataset, names: list[str], attribute: str) -> None:
        self._context, self._dataset = context, dataset
        self._attribute, self._step = attribute, usual_step(dataset.domain[attribute])
        self._kind: Kind = "histogram"
        self._second, self._second_step, self._thetas = NO_SECOND, "", ""
        self._wants_epsilon, self._alpha, self._epsilon = True, 50.0, 0.5
        self._points: list[Point] = []
        self._offers: dict[Point, PriceCurve | None] = {}
        self._shown: Point | None = None
        with ui.element("div").classes("bf-explore") as root:
            self._latest = Latest(context, root, self._quote_all)
            with card():
                self._build_controls(names)
            with ui.element("div"):
                with card():
                    self._build_chart()
                self._point_box = ui.element("div").style("margin-top:16px")
        with self._point_box:
            self._looking = Latest(context, self._point_box, self._look)
        self._draw_slider()
        self._ask_anew()

    @property
    def _value(self) -> float:
        return self._alpha if self._wants_epsilon else self._epsilon

    def _query(self) -> Query:
        axis = AxisDraft(self._attribute, self._step).axis()
        if self._second == NO_SECOND:
            return query(self._kind, axis, levels=QUARTILES if self._kind == "quantiles" else None)
        return query("histogram2d", [axis, AxisDraft(self._second, self._second_step).axis()])

    def _policy(self, point: Point) -> Policy:
        """The policy in force with the point's family for this attribute."""
        return self._dataset.policy.with_family(self._attribute, point.family)

    def _build_controls(self, names: list[str]) -> None:
        heading("The question")
        ui.label("Attribute").classes("bf-label")
        ui.select(names, value=self._attribute, on_change=lambda event: self._set_attribute(str(event.value))).props(
            'aria-label="Attribute" data-testid="attribute"'
        ).classes("w-full")
        ui.label("Grouped in").classes("bf-label")
        self._step_box = ui.element("div")
        redraw(self._step_box, self._build_steps)
        ui.label("And by").classes("bf-label")
        self._second_box = ui.element("div")
        redraw(self._second_box, self._build_second)
        self._template = ui.element("div")
        redraw(self._template, self._build_template)
        self._theta_box = ui.element("div")
        redraw(self._theta_box, self._build_thetas)
        ui.label("Show").classes("bf-label")
        choice(GOALS, "epsilon", self._set_goal, "What the curves show")
        self._slider_box = ui.element("div").style("margin-top:18px")
        small(
            "Curves are quoted at two prices and follow the law of their noise between them; the point that you click "
            "is quoted exactly. Every answer holds at once, with 95 % confidence.",
            "margin-top:18px",
        )

    def _build_steps(self) -> None:
        steps = steps_of(self._dataset.domain[self._attribute])
        ui.select(steps, value=self._step, on_change=lambda event: self._set("_step", str(event.value))).props(
            'aria-label="Grouped in"'
        ).classes("w-full")

    def _build_second(self) -> None:
        domain = self._dataset.domain
        options = [NO_SECOND, *(name for name in domain if name != self._attribute)]
        second = ui.select(options, value=self._second, on_change=lambda event: self._set_second(str(event.value)))
        called(second, "And by", "second").classes("w-full")
        if self._second != NO_SECOND:
            steps = ui.select(
                steps_of(domain[self._second]),
                value=self._second_step,
                on_change=lambda event: self._set("_second_step", str(event.value or "")),
            )
            called(steps, f"{self._second} grouped in", "second-step").classes("w-full").style("margin-top:8px")

    def _set_second(self, name: str) -> None:
        self._second = name
        self._second_step = "" if name == NO_SECOND else usual_step(self._dataset.domain[name])
        redraw(self._template, self._build_template)
        redraw(self._second_box, self._build_second)
        self._draw_slider()
        self._ask_anew()

    def _build_template(self) -> None:
        """What has no order, or two attributes, is only counted."""
        if self._second != NO_SECOND or not self._dataset.domain[self._attribute].ordered:
            self._kind = "histogram"
            return
        ui.label("Template").classes("bf-label")
        choice({str(kind): words for kind, words in TEMPLATES.items()}, self._kind, self._set_kind, "Template")

    def _set_kind(self, name: str) -> None:
        self._kind = next(kind for kind in TEMPLATES if kind == name)
        self._draw_slider()
        self._ask_anew()

    def _build_thetas(self) -> None:
        if not self._dataset.domain[self._attribute].ordered:
            return
        ui.label("Distances θ of your own").classes("bf-label")
        box = ui.input(placeholder="usual ones, or 2, 7, 30", on_change=lambda event: type_in(str(event.value or "")))
        called(box.props("debounce=400"), "Distances of your own", "thetas").classes("w-full")
        wrong = small("", "margin-top:4px;color:var(--bf-accent)").props("role=alert")

        def type_in(text: str) -> None:
            try:
                read_thetas(text, self._dataset.domain[self._attribute])
            except PolicyError as error:
                wrong.set_text(sentence(error.message))
                return
            wrong.set_text("")
            self._set("_thetas", text)

    def _build_chart(self) -> None:
        with spread():
            self._title = ui.element("div")
            self._busy = small("").props("aria-live=polite")
        self._chart = ui.echart({}, on_point_click=self._clicked)
        self._chart.classes("bf-chart").props('role=img data-testid="curves"')
        self._little = small("", "margin-top:8px;max-width:84ch").props('data-testid="saves-little"')
        self._closer = in_row().style("margin-top:6px")
        self._zero = small(AT_ZERO, "margin-top:8px")

    def _set(self, part: str, value: object) -> None:
        setattr(self, part, value)
        self._ask_anew()

    def _set_attribute(self, name: str) -> None:
        self._step = usual_step(self._dataset.domain[name])
        self._attribute, self._thetas = name, ""
        if self._second == name:
            self._second, self._second_step = NO_SECOND, ""
        redraw(self._template, self._build_template)
        self._draw_slider()
        redraw(self._step_box, self._build_steps)
        redraw(self._second_box, self._build_second)
        redraw(self._theta_box, self._build_thetas)
        self._ask_anew()

    def _ask_anew(self) -> None:
        """Begins with another question: nothing of the last one stays on the page."""
        current = self._dataset.policy.family(self._attribute)
        attribute = self._dataset.domain[self._attribute]
        self._points, self._offers = points_of(attribute, current, read_thetas(self._thetas, attribute)), {}
        self._shown = None
        self._looking.changed()
        why = saves_little(self._dataset, self._attribute, "" if self._second == NO_SECOND else self._second)
        self._little.set_text(sentence(why) if why else "")
        redraw(self._point_box, _nothing_chosen)
        redraw(self._closer, self._draw_closer)
        self._draw_curves()
        self._latest.changed()

    def _set_goal(self, goal: str) -> None:
        self._wants_epsilon = goal == "epsilon"
        self._draw_slider()
        self._draw_curves()
        self._looking.changed()

    def _draw_slider(self) -> None:
        low, high = ALPHAS if self._wants_epsilon else EPSILONS

        def words() -> str:
            promise = within_words(self._kind, f"{self._alpha:,g}").capitalize()
            return promise if self._wants_epsilon else f"Epsilon {self._epsilon:g}"

        def move(event: events.ValueChangeEventArguments[float | None]) -> None:
            value = float(f"{low * (high / low) ** (float(event.value or 0.0) / TICKS):.3g}")
            setattr(self, "_alpha" if self._wants_epsilon else "_epsilon", value)
            label.set_text(words())
            self._draw_curves()
            self._looking.changed()

        self._slider_box.clear()
        with self._slider_box:
            label = ui.label(words()).style("font-weight:620").props('data-testid="slider-value"')
            place = round(TICKS * math.log(self._value / low) / math.log(high / low))
            slider = ui.slider(min=0, max=TICKS, value=place, on_change=move)
            slider.props('aria-label="Accuracy or price" data-testid="slider"')
            with ui.element("div").classes("bf-spread bf-small bf-quiet"):
                ui.label(f"{low:,g}")
                ui.label(f"{high:,g}")

    def _draw_closer(self) -> None:
        """The points again as a list, for keyboards and for those who do not see the chart."""
        words = {place: point.words for place, point in enumerate(self._points)}
        look = ui.select(words, label="Look closer at", on_change=lambda event: self._show(self._points[event.value]))
        look.props('data-testid="closer"').style("width:240px")
        small("or click a point")

    async def _quote_all(self, is_wanted: IsWanted) -> None:
        """Quotes every point, the chart following; a newer question ends the work on an older one."""
        points, query, domain, compute = self._points, self._query(), self._dataset.domain, self._context.compute
        policies = [self._policy(point) for point in points]
        for number, (point, policy) in enumerate(zip(points, policies, strict=True), 1):
            offer = await self._context.run(partial(PRICE_CURVES.offer, domain, policy, query, compute))
            if not is_wanted() or points is not self._points:
                return
            self._offers[point] = offer
            if number % BATCH == 0 or number == len(points):
                self._draw_curves()

    def _draw_curves(self) -> None:
        goal = "What it costs" if self._wants_epsilon else "How far off answers are"
        what = f"{TITLES[self._kind]} of {self._attribute}"
        title = f"{goal}: {what if self._second == NO_SECOND else f'{self._attribute} by {self._second}'}"
        redraw(self._title, partial(heading, title))
        current = self._dataset.policy.family(self._attribute)
        options = picture(self._points, self._offers, current, self._value, wants_epsilon=self._wants_epsilon)
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()
        called(self._chart, f"{title}. The list below the chart has every point.")
        lines = curves(self._points, self._offers, self._value, wants_epsilon=self._wants_epsilon)
        self._zero.set_visibility(any(0.0 in row for row in lines.values()))
        left = len(self._points) - len(self._offers)
        self._busy.set_text(f"quoting {left} …" if left else "no data was read")

    def _clicked(self, event: events.EChartPointClickEventArguments) -> None:
        place, thetas = int(event.data_index), _thetas(self._points)
        if not thetas:
            self._show(self._points[place])
            return
        for point in self._points:
            if point.line == event.series_name and point.theta in ("", thetas[place]):
                self._show(point)
                return

    def _show(self, point: Point) -> None:
        """Looks closer at one policy, from now on and whatever accuracy is chosen."""
        self._shown = point
        self._looking.changed()

    async def _look(self, is_wanted: IsWanted) -> None:
        """The chosen policy: its price, its risk and an example."""
        point = self._shown
        if point is None:
            return
        # The accuracy or the price exactly as the slider shows it.
        number = short_number(f"{self._value:.4g}" if self._value < 10_000 else str(round(self._value)), "the slider")
        target = AccuracyTarget(number, None) if self._wants_epsilon else AccuracyTarget(None, number)
        policy, query = self._policy(point), self._query()
        view = PointView(self._context, self._dataset, self._attribute, point.words, policy, query, target)
        await show_point(view, self._point_box, is_wanted)


ROWS = 20_000
"""The number of made-up rows."""


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
    curator, policies = view.context.curator(), {view.words: view.policy}
    work = partial(curator.what_if, view.dataset.name, policies, view.query, view.target)
    (price,) = await view.context.run(work)
    if not is_wanted():
        return
    box.clear()
    with box, ui.element("div").classes("bf-pair"):
        with card().props('data-testid="point"'):
            _price(view, price)
            if price.epsilon is not None:
                _meter(view, price.epsilon)
        if view.query.kind == "quantiles":
            return
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
        ui.label(f"epsilon: {within_words(view.query.kind, figure(price.alpha))}, by {price.mechanism}").classes(
            "bf-quiet"
        )
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
    ui.label("Risk: how sure somebody may become who was undecided between two values").classes("bf-label")
    room = ui.element("div").classes("bf-stack")

    def draw(text: str) -> None:
        values = [read_value(value, attribute) for row in read_rows(text) for value in row]
        room.clear()
        with room:
            for one, two in [(values[0], values[1])] if len(values) == PAIR else usual_pairs(attribute):
                try:
                    _gauge(risk(replace(view.dataset, policy=view.policy), epsilon, one, two, attribute=view.attribute))
                except BlowfishError as error:
                    notice(sentence(error.message), "is-accent")

    first = attribute.size // 5
    sample = f"{attribute.run_label(first, first)}, …"
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
                if view.query.kind != "histogram2d":
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
    """The chart of the answer, with the values without noise as dots upon that of one attribute."""
    chart = chart_of(answer, DETAIL)
    if chart.kind == "heat":
        return draw(chart)
    dots = np.full(len(chart.places), np.nan)
    marks = evenly(dots.size, MOST_DOTS)
    dots[marks] = exact[[chart.places[mark] for mark in marks]]
    return draw(replace(chart, series=(*chart.series, Series("without noise", dots))))
