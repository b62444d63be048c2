"""Pictures of a policy: the graph of one attribute, and the composed graph as a question about two of them sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from nicegui import events, ui

from blowfishdb.catalog.dataset import read_value
from blowfishdb.errors import BlowfishError, sentence
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraints import CountConstraint, read_constraint
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import CellsView, view_cells, view_graph
from blowfishdb.model.groups import grouping
from blowfishdb.model.policy import Policy
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.chart_echarts import draw
from blowfishdb.present.graph_picture import cells_svg, cells_words, to_svg
from blowfishdb.server.pages.controls import called, in_row, listed_table, notice, redraw, small
from blowfishdb.server.pages.query_draft import grouped, steps_of

CURVE_POINTS = 40
WINDOW = 15
"""So many values of a large domain are drawn: as many as have readable names at the width of the card."""
SIZE = re.compile(r'(<svg[^>]*?) width="[\d.]+" height="[\d.]+"')


def draw_graph(domain: Domain, policy: Policy, name: str, around: str = "") -> None:
    """Draws what the policy hides of one attribute, and warns of what it does not."""
    attribute = domain[name]
    try:
        place = read_value(around, attribute) if around.strip() else None
        view = view_graph(domain, policy, name, place)
        if not view.is_whole:
            view = view_graph(domain, policy, name, place, WINDOW)
        picture = to_svg(view)
    except BlowfishError as error:
        notice(sentence(error.message), "is-accent", "edit")
        return
    with called(
        ui.element("div").classes("bf-graph").props("tabindex=0 role=region"), f"Picture of the graph of {name}"
    ):
        # Our own picture: its labels were escaped when it was drawn.
        ui.html(SIZE.sub(r"\1", picture, count=1), sanitize=False)
    for warning in view.warnings():
        notice(warning, "is-accent", "visibility_off").style("margin-top:10px")
    if not view.is_whole and attribute.ordered:
        _distance_curve(domain, policy, name, around)


def _distance_curve(domain: Domain, policy: Policy, name: str, around: str) -> None:
    """How many hidden steps lie between one value and all others: an observer's odds grow with them."""
    attribute = domain[name]
    centre = attribute.locate(read_value(around, attribute)) if around.strip() else attribute.size // 2
    places = sorted({*np.linspace(0, attribute.size - 1, CURVE_POINTS).round().astype(int).tolist(), centre})
    origin = attribute.value_at(centre)
    steps = [hidden_distance(domain, policy, name, origin, attribute.value_at(place)) for place in places]
    labels = [attribute.run_label(place, place) for place in places]
    ui.label(f"Hidden steps from {attribute.run_label(centre, centre)} to every other value").classes("bf-label")
    curve = Series("steps", np.array([np.nan if step is None else step for step in steps], dtype=np.float64))
    chart = Chart("lines", ChartAxis(name, tuple(labels)), ChartAxis("steps"), (curve,))
    ui.echart(draw(chart)).style("height:210px").props('role=img aria-label="Steps between one value and the others"')
    if None in steps:
        small("Where the curve has a gap, the two are not hidden from each other at all.")


NO_SECOND = "no second attribute"
SHOWN_GROUPS = 7
"""Values of an attribute above which a picture begins with groups of them."""


class QuestionPicture:
    """The composed graph of one or two attributes, grouped and filtered as a question would be."""

    def __init__(self, domain: Domain, on_change: Callable[[], None]) -> None:
        self._domain, self._on_change = domain, on_change
        self._axes: list[str] = []
        self._steps: list[str] = []
        self._where, self._of = "", ""

    def build(self, names: tuple[str, ...]) -> None:
        """Draws the controls and room for the picture."""
        small(
            "Values grouped as a question asks: two groups are joined where the policy hides some value of the one "
            "from some value of the other. What the filter rejects is one more place to move to.",
            "margin:4px 0 10px;max-width:76ch",
        )
        self._controls = in_row().style("align-items:flex-start")
        with in_row().style("margin-top:8px"):
            where = ui.input("Only rows where", placeholder="age >= 18", on_change=lambda e: self._set_where(e.value))
            called(where.props("debounce=400"), test_id="picture-where").style("width:230px")
        self._box = ui.element("div").style("margin-top:10px").props("aria-live=polite")
        self.look_at(names)

    def look_at(self, names: tuple[str, ...]) -> None:
        """Turns to other attributes: the first two of several, value by value, or one and the next of the table."""
        others = [name for name in self._domain if name not in names]
        self._axes = [*names[:2], *(others[:1] if len(names) == 1 else [])]
        self._steps = [self._first_step(name) if len(names) == 1 else "" for name in self._axes]
        self._of = ""
        redraw(self._controls, self._build_controls)

    def _first_step(self, name: str) -> str:
        attribute = self._domain[name]
        groups = {step: grouping(grouped(attribute, name, step), attribute).count for step in steps_of(attribute)}
        return next(
            (step for step, count in groups.items() if count <= SHOWN_GROUPS), min(groups, key=groups.__getitem__)
        )

    def _build_controls(self) -> None:
        names = list(self._domain)
        for place, axis in enumerate(self._axes):
            options = names if place == 0 else [NO_SECOND, *names]
            chosen = ui.select(options, value=axis, on_change=partial(self._set_axis, place))
            called(chosen, "By" if place == 0 else "And by", f"axis-{place}").style("width:170px")
            grouped = ui.select(
                steps_of(self._domain[axis]), value=self._steps[place], on_change=partial(self._set_step, place)
            )
            called(grouped, f"{axis} grouped in", f"step-{place}").style("width:170px")
        if len(self._axes) == 1 and len(names) > 1:
            chosen = ui.select([NO_SECOND, *names], value=NO_SECOND, on_change=partial(self._set_axis, 1))
            called(chosen, "And by", "axis-1").style("width:170px")

    def _set_axis(self, place: int, event: events.ValueChangeEventArguments[Any]) -> None:
        name = str(event.value)
        others = [one for number, one in enumerate(self._axes) if number != place and one != name]
        self._axes = [*others, name] if place else [name, *others]
        self._axes = [one for one in self._axes if one != NO_SECOND]
        self._steps = [self._first_step(one) for one in self._axes]
        self._of = ""
        redraw(self._controls, self._build_controls)
        self._on_change()

    def _set_step(self, place: int, event: events.ValueChangeEventArguments[Any]) -> None:
        self._steps[place], self._of = str(event.value or ""), ""
        self._on_change()

    def _set_where(self, value: object) -> None:
        self._where = str(value or "")
        self._on_change()

    def view(self, policy: Policy) -> CellsView:
        """The graph of the policy on what is asked; QueryError or PolicyError where there is none."""
        where = None
        if self._where.strip():
            constraint = read_constraint(f"count({self._where})")
            where = constraint.condition if isinstance(constraint, CountConstraint) else None
        axes = [grouped(self._domain[name], name, step) for name, step in zip(self._axes, self._steps, strict=True)]
        return view_cells(compile_cells(self._domain, policy, axes, where))

    def draw(self, policy: Policy | None) -> None:
        """Draws the picture, what it shows in words, and the same as a list."""
        self._box.clear()
        if policy is None:
            return
        with self._box:
            try:
                view = self.view(policy)
            except BlowfishError as error:
                notice(sentence(error.message), "is-accent", "edit")
                return
            self._draw_view(view)

    def _draw_view(self, view: CellsView) -> None:
        words = f"Picture of the graph of {' and '.join(view.axes)}"
        with called(ui.element("div").classes("bf-graph").props("tabindex=0 role=region"), words):
            # Our own picture: its labels were escaped when it was drawn.
            ui.html(SIZE.sub(r"\1", cells_svg(view, self._of), count=1), sanitize=False)
        for line in cells_words(view, self._of):
            small(sentence(line))

        def show(of: str) -> None:
            self._of = of
            redraw(self._box, partial(self._draw_view, view))

        lines = ui.select(
            {"": "all that fit", **{name: name for name in view.names}},
            value=self._of,
            label="Lines of",
            on_change=lambda event: show(str(event.value or "")),
        )
        called(lines, test_id="lines-of").style("width:230px;margin-top:10px")
        with ui.expansion("The picture as a list").classes("w-full").props('data-testid="as-list"'):
            listed_table(["Group", "Hidden from"], 2, view.neighbours(), "Each group and those that it is hidden from")
