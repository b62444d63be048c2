"""One policy looked at closely: its exact price, what an observer could learn, and an example answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import urlencode

import numpy as np
from nicegui import ui

from blowfishdb.analysis.risk import Risk, risk
from blowfishdb.catalog.dataset import Dataset
from blowfishdb.catalog.graph_files import read_value
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.what_if import PolicyPrice, what_if
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.server.curating.example import Example, example
from blowfishdb.server.curating.family_form import form_of
from blowfishdb.server.pages.charts import Options, chart_of
from blowfishdb.server.pages.curator_parts import called, figure, pill
from blowfishdb.server.pages.here import Here, sentence
from blowfishdb.server.pages.policies import LONGEST_TEXT
from blowfishdb.server.pages.shell import heading, notice

TRUTH = "#9a6fc0"
WARNING = (
    "True counts are secret. Whoever chooses a policy after seeing them chooses by the data, and the choice itself can "
    "tell about it. Nothing of what you see here leaves this page; that you looked is written to the log."
)


@dataclass(frozen=True, eq=False)
class PointView:
    """A policy for one attribute and a question under it."""

    here: Here
    dataset: Dataset
    attribute: str
    said: str
    policy: Policy
    asked: Query
    demanded: Demand


async def show_point(view: PointView) -> None:
    """The card of a point."""
    domain = view.dataset.domain
    (price,) = await view.here.run(lambda: what_if(domain, {view.said: view.policy}, view.asked, view.demanded))
    with ui.element("div").classes("bf-pair"):
        with ui.element("section").classes("bf-card").props('data-testid="point"'):
            _price(view, price)
            if price.epsilon is not None:
                _meter(view, price.epsilon)
        with ui.element("section").classes("bf-card"):
            heading("An answer would look like this")
            await _example(view)


def _price(view: PointView, price: PolicyPrice) -> None:
    heading(view.said.capitalize())
    if price.epsilon is None or price.alpha is None:
        notice(sentence(price.refusal), "is-accent", "block").style("margin-top:10px")
        return
    with ui.element("div").classes("bf-row").style("margin:8px 0 2px;align-items:baseline"):
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
                    _gauge(
                        risk(view.dataset.declared_as(policy=view.policy), epsilon, one, two, attribute=view.attribute)
                    )
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
        with ui.element("div").classes("bf-spread"):
            ui.label(f"{found.one} or {found.two}?").style("font-weight:560")
            pill("not hidden" if found.steps is None else f"at most {100 * sure:.3g} % sure", kind)
        with ui.element("div").classes("bf-meter"):
            ui.element("div").classes(kind).style(f"width:{100 * sure:.1f}%")
            ui.element("i")
        ui.label(sentence(found.words()[0])).classes("bf-small bf-quiet")


async def _example(view: PointView) -> None:
    """A drawn answer on made-up counts; on true ones only after a warning that is logged."""
    domain = view.dataset.domain
    room = ui.element("div")

    async def draw(counts: Ints | None) -> None:
        try:
            found = await view.here.run(lambda: example(domain, view.policy, view.asked, view.demanded, counts))
        except BlowfishError as error:
            with room:
                notice(sentence(error.message), "is-accent", "block")
            return
        room.clear()
        with room:
            with ui.element("div").classes("bf-row").style("margin-top:6px"):
                pill(
                    *(("made-up data", "is-good") if counts is None else ("true counts: for your eyes only", "is-bad"))
                )
                ui.label("bars: the noisy answer · dots: without noise").classes("bf-small bf-quiet")
            ui.echart(_with_truth(found)).style("height:300px;width:100%").props(
                'role=img aria-label="An example answer" data-testid="example"'
            )

    async def look() -> None:
        dialog.close()
        curator = view.here.curator()
        here, name = view.here, view.dataset.name
        here.office.actions.note(
            here.check("curate").name,
            "looked at true answers",
            name,
            {"question": question_words(view.asked)[:200], "policy": view.said[:200]},
        )
        compiled = compile_query(domain, view.policy, view.asked)
        await draw(await here.run(lambda: curator.true_counts(name, compiled)))

    with called(ui.dialog(), "Show true answers?") as dialog, ui.card().style("width:520px"):
        ui.label("Show true answers?").classes("bf-title")
        notice(WARNING, "is-bad", "warning").style("margin-top:12px")
        with ui.element("div").classes("bf-row").style("justify-content:flex-end;margin-top:18px"):
            ui.button("Leave it", on_click=dialog.close).props("flat")
            ui.button("I understand, show them", on_click=look).props(
                'unelevated color=negative data-testid="show-truth"'
            )
    await draw(None)
    with ui.element("div").classes("bf-row").style("margin-top:6px"):
        ui.button("Draw again", icon="refresh", on_click=lambda: draw(None)).props("flat dense")
        ui.button("Show true answers …", icon="visibility", on_click=dialog.open).props(
            'flat dense data-testid="truth"'
        )


def _with_truth(found: Example) -> Options:
    """The answer's own chart with what it would be without noise as dots upon it."""
    options = chart_of(found.answer)
    size = len(options["xAxis"]["data"]) if isinstance(options["xAxis"].get("data"), list) else 0
    if size and size <= found.exact.size:
        places = np.linspace(0, size - 1, min(size, 60)).round().astype(int).tolist()
        options["series"].append(
            {
                "type": "scatter",
                "name": "without noise",
                "data": [[place, float(found.exact[place])] for place in places],
                "symbolSize": 6,
                "itemStyle": {"color": TRUTH},
                "z": 5,
                "silent": True,
            }
        )
    return options
