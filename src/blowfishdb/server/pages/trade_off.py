"""The trade-off: what accuracy costs under several policies, what an observer could learn, and how an answer looks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from nicegui import events, ui

from blowfishdb.catalog.dataset import Dataset, family_words
from blowfishdb.engine.target import USUAL_BETA, AccuracyTarget, short_number
from blowfishdb.model.policy import Policy, full
from blowfishdb.model.predicate import col
from blowfishdb.model.query import Kind, Query
from blowfishdb.model.query import query as make_query
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.chart_echarts import draw
from blowfishdb.server.pages.controls import (
    card,
    choice,
    dataset_choice,
    empty,
    heading,
    in_row,
    notice,
    small,
    spread,
    wanted_dataset,
)
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import IsWanted, Latest, PageContext
from blowfishdb.server.pages.query_form import is_calendar, steps_of, usual_step
from blowfishdb.server.pages.trade_off_curves import (
    BLOCKS,
    NEAR,
    OFFERS,
    Offer,
    Point,
    PointView,
    curves,
    points_of,
    show_point,
    thetas_of,
    with_family,
)

TEMPLATES: dict[str, str] = {"histogram": "Histogram", "cdf": "Cumulative"}
TITLES = {"histogram": "histogram", "cdf": "cumulative histogram"}
GOALS = {"epsilon": "What it costs", "alpha": "How far off"}
ALPHAS, EPSILONS = (1.0, 10_000.0), (0.01, 10.0)
"""The ends of the two sliders; both are logarithmic."""
AT_ZERO = (
    "Where a curve is at 0 the answer is exact: that policy hides nothing of what is asked, and protects nothing of it."
)
TICKS = 200
BATCH = 3
"""The chart is drawn again after so many new points."""


@dataclass(eq=False)
class Board:
    """What is compared: a question about one attribute, and how good or how expensive it may be."""

    context: PageContext
    dataset: Dataset
    attribute: str
    kind: Kind = "histogram"
    step: str = ""
    goal: str = "epsilon"
    alpha: float = 50.0
    epsilon: float = 0.5
    points: list[Point] = field(default_factory=list)
    offers: dict[Point, Offer | None] = field(default_factory=dict)
    parts: dict[str, ui.element] = field(default_factory=dict)
    latest: Latest = field(init=False)

    @property
    def wants_epsilon(self) -> bool:
        return self.goal == "epsilon"

    @property
    def value(self) -> float:
        return self.alpha if self.wants_epsilon else self.epsilon

    def query(self) -> Query:
        """The question of the template."""
        axis = col(self.attribute)
        if not self.step:
            return make_query(self.kind, axis)
        declared = self.dataset.domain[self.attribute]
        return make_query(self.kind, axis.by(self.step) if is_calendar(declared) else axis.bins(Fraction(self.step)))

    def target(self) -> AccuracyTarget:
        """The accuracy or the price, exactly as the slider shows it."""
        number = short_number(f"{self.value:.4g}" if self.value < 10_000 else str(round(self.value)), "the slider")
        return AccuracyTarget(number, None) if self.wants_epsilon else AccuracyTarget(None, number)

    def policy(self, point: Point) -> Policy:
        """The policy in force with the point's family for this attribute."""
        return with_family(self.dataset.policy, self.attribute, point.family)


@page("/trade-off", "Trade-off", "curate", lead="What accuracy costs under each policy. No data is read for this.")
def trade_off(context: PageContext) -> None:
    """Controls at the left, curves at the right, and the chosen point below them."""
    curator = context.curator()
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    dataset = curator.dataset(name)
    names = [one for one in dataset.domain if dataset.policy.grid_of(one) is None]
    if not names:
        notice("All attributes of this dataset are hidden together: there is no single one to compare.")
        return
    ordered = [one for one in names if dataset.domain[one].ordered]
    wanted = context.request.query_params.get("attribute", "")
    board = Board(context, dataset, wanted if wanted in names else (ordered or names)[0])
    board.step = usual_step(dataset.domain[board.attribute])
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/trade-off", curator.datasets(), name)
    with ui.element("div").classes("bf-explore") as root:
        board.latest = Latest(context, root, partial(_quote_all, board))
        with card():
            _controls(board, names)
        with ui.element("div"):
            with card():
                _chart_card(board)
            board.parts["point"] = ui.element("div").style("margin-top:16px")
    with board.parts["point"], card():
        empty("ads_click", "Choose a point", "Click one on a curve: its exact price, the risk, and an example answer.")
    _draw_curves(board)
    board.latest.changed()


def _controls(board: Board, names: list[str]) -> None:
    heading("The question")

    def set_attribute(name: str) -> None:
        board.attribute, board.step = name, usual_step(board.dataset.domain[name])
        draw_steps()
        board.latest.changed()

    def set_part(part: str, value: object) -> None:
        setattr(board, part, value)
        board.latest.changed()

    ui.label("Attribute").classes("bf-label")
    ui.select(names, value=board.attribute, on_change=lambda event: set_attribute(str(event.value))).props(
        'outlined dense options-dense aria-label="Attribute" data-testid="attribute"'
    ).classes("w-full")
    ui.label("Template").classes("bf-label")
    choice(TEMPLATES, board.kind, lambda kind: set_part("kind", kind), "Template")
    ui.label("Grouped in").classes("bf-label")
    room = ui.element("div")

    def draw_steps() -> None:
        room.clear()
        with room:
            ui.select(
                steps_of(board.dataset.domain[board.attribute]),
                value=board.step,
                on_change=lambda event: set_part("step", str(event.value)),
            ).props('outlined dense options-dense aria-label="Grouped in"').classes("w-full")

    draw_steps()
    ui.label("Show").classes("bf-label")
    choice(GOALS, board.goal, lambda goal: _set_goal(board, goal), "What the curves show")
    board.parts["slider"] = ui.element("div").style("margin-top:18px")
    _draw_slider(board)
    small(
        "Curves are quoted at two prices and follow the law of their noise between them; the point that you click is "
        "quoted exactly. Every answer holds at once, with 95 % confidence.",
        "margin-top:18px",
    )


def _set_goal(board: Board, goal: str) -> None:
    board.goal = goal
    _draw_slider(board)
    _draw_curves(board)


def _draw_slider(board: Board) -> None:
    low, high = ALPHAS if board.wants_epsilon else EPSILONS
    part = "alpha" if board.wants_epsilon else "epsilon"
    board.parts["slider"].clear()
    with board.parts["slider"]:
        said = ui.label(_said(board)).style("font-weight:620").props('data-testid="slider-value"')

        def move(event: events.ValueChangeEventArguments[float | None]) -> None:
            setattr(board, part, float(f"{low * (high / low) ** (float(event.value or 0.0) / TICKS):.3g}"))
            said.set_text(_said(board))
            _draw_curves(board)

        place = round(TICKS * math.log(board.value / low) / math.log(high / low))
        ui.slider(min=0, max=TICKS, value=place, on_change=move).props(
            'aria-label="Accuracy or price" data-testid="slider"'
        )
        with ui.element("div").classes("bf-spread bf-small bf-quiet"):
            ui.label(f"{low:,g}")
            ui.label(f"{high:,g}")


def _said(board: Board) -> str:
    return f"Every count within {board.alpha:,g}" if board.wants_epsilon else f"Epsilon {board.epsilon:g}"


def _chart_card(board: Board) -> None:
    with spread():
        board.parts["title"] = ui.element("div")
        board.parts["busy"] = small("").props("aria-live=polite")
    blank = Chart("lines", ChartAxis("", ("",)), ChartAxis(""), ())
    chart = ui.echart(draw(blank), on_point_click=lambda event: _choose(board, event))
    chart.classes("bf-chart").props('role=img aria-label="Price against theta" data-testid="curves"')
    board.parts["chart"] = chart
    board.parts["closer"] = in_row().style("margin-top:6px")
    board.parts["zero"] = small(AT_ZERO, "margin-top:8px")


def _draw_closer(board: Board) -> None:
    """The points again as a list, for keyboards and for those who do not see the chart."""
    named = {place: _named(point) for place, point in enumerate(board.points)}
    board.parts["closer"].clear()
    with board.parts["closer"]:
        ui.select(
            named, label="Look closer at", on_change=lambda event: _look_closer(board, board.points[int(event.value)])
        ).props('outlined dense options-dense data-testid="closer"').style("width:240px")
        small("or click a point")


async def _quote_all(board: Board, is_wanted: IsWanted) -> None:
    """Quotes every point, the chart following; a newer question ends the work on an older one."""
    board.points, board.offers = _points(board), {}
    _draw_curves(board)
    _draw_closer(board)
    query, domain = board.query(), board.dataset.domain
    for number, point in enumerate(board.points, 1):
        policy = board.policy(point)
        offer = await board.context.run(partial(OFFERS.offer, domain, policy, query, USUAL_BETA))
        if not is_wanted():
            return
        board.offers[point] = offer
        if number % BATCH == 0 or number == len(board.points):
            _draw_curves(board)


def _points(board: Board) -> list[Point]:
    """The points of the curves, with the policy in force as one of its own where no curve has it."""
    found = points_of(board.dataset.domain[board.attribute])
    current = board.dataset.policy.family(board.attribute)
    if current != full() and all(point.family != current for point in found):
        found.append(Point(f"in force: {family_words(current)[:40]}", "", current))
    return found


def _draw_curves(board: Board) -> None:
    attribute = board.dataset.domain[board.attribute]
    thetas = thetas_of(attribute) if attribute.ordered else ["any policy"]
    y = "epsilon" if board.wants_epsilon else "largest error"
    lines = curves(board.points, board.offers, board.value, wants_epsilon=board.wants_epsilon)
    lines = {name: row for name, row in lines.items() if any(number is not None for number in row)}
    chart = board.parts["chart"]
    if isinstance(chart, ui.echart):
        groups = ChartAxis("θ: values up to so far apart are hidden from each other", tuple(thetas))
        drawn = Chart("lines", groups, ChartAxis(y), tuple(_series(board, name, row) for name, row in lines.items()))
        chart.options.clear()
        chart.options.update(draw(drawn))
        chart.update()
    board.parts["zero"].set_visibility(any(0.0 in row for row in lines.values()))
    board.parts["title"].clear()
    with board.parts["title"]:
        goal = "What it costs" if board.wants_epsilon else "How far off answers are"
        heading(f"{goal}: {TITLES[board.kind]} of {board.attribute}")
    left = len(board.points) - len(board.offers)
    label = board.parts["busy"]
    if isinstance(label, ui.label):
        label.set_text("no data was read" if board.points and not left else f"quoting {left or ''} …")


def _series(board: Board, name: str, row: list[float | None]) -> Series:
    """One curve; the point of the policy in force is flagged, and policies without a theta are dashed."""
    thetas = list(dict.fromkeys(point.theta for point in board.points if point.theta))
    current = board.dataset.policy.family(board.attribute)
    in_force = [
        thetas.index(point.theta)
        for point in board.points
        if point.theta and point.line == name and point.family == current
    ]
    values = np.array([np.nan if number is None else number for number in row], dtype=np.float64)
    return Series(name, values, dashed=name not in (NEAR, BLOCKS), flags=dict.fromkeys(in_force[:1], "in force"))


async def _choose(board: Board, event: events.EChartPointClickEventArguments) -> None:
    """Shows the clicked point."""
    point = _clicked(board, str(event.series_name), int(event.data_index))
    if point is not None:
        await _look_closer(board, point)


async def _look_closer(board: Board, point: Point) -> None:
    """Shows one policy: its price, its risk and an example."""
    board.parts["point"].clear()
    view = PointView(
        board.context,
        board.dataset,
        board.attribute,
        _named(point),
        board.policy(point),
        board.query(),
        board.target(),
    )
    with board.parts["point"]:
        await show_point(view)


def _named(point: Point) -> str:
    return point.line.replace("θ", point.theta)


def _clicked(board: Board, line: str, place: int) -> Point | None:
    rows = [point for point in board.points if point.line == line]
    if len(rows) == 1 and not rows[0].theta:
        return rows[0]
    thetas = list(dict.fromkeys(point.theta for point in board.points if point.theta))
    if not 0 <= place < len(thetas):
        return None
    return next((point for point in rows if point.theta == thetas[place]), None)
