"""The picture of one attribute's graph: small ones whole, large ones as a window with a curve of distances."""

from __future__ import annotations

import re

from nicegui import ui

from blowfishdb.catalog.graph_files import read_value
from blowfishdb.engine.present.graph_picture import to_svg
from blowfishdb.errors import BlowfishError
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.graph_view import view_graph
from blowfishdb.model.policy import Policy
from blowfishdb.server.pages.charts import line_chart
from blowfishdb.server.pages.here import sentence
from blowfishdb.server.pages.shell import notice

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
    with ui.element("div").classes("bf-graph"):
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
    spread = sorted(
        {round(part * (attribute.size - 1) / (CURVE_POINTS - 1)) for part in range(CURVE_POINTS)} | {centre}
    )
    origin = attribute.value_at(centre)
    steps = [hidden_distance(domain, policy, name, origin, attribute.value_at(place)) for place in spread]
    labels = [attribute.run_label(place, place) for place in spread]
    ui.label(f"Hidden steps from {attribute.run_label(centre, centre)} to every other value").classes("bf-label")
    options = line_chart(labels, {"steps": steps}, name, "steps")
    options["legend"]["show"] = False
    options["yAxis"]["minInterval"] = 1
    options["grid"]["top"] = 34
    ui.echart(options).style("height:210px").props('role=img aria-label="Steps between one value and the others"')
    if None in steps:
        ui.label("Where the curve has a gap, the two are not hidden from each other at all.").classes(
            "bf-small bf-quiet"
        )
