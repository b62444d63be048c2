"""The policy editor: what is hidden of each attribute, drawn and said in words, and what a change does to past loss."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import quote

import numpy as np
from nicegui import ui

from blowfishdb.catalog.dataset import Dataset, family_words, read_value
from blowfishdb.catalog.stretch import Stretch
from blowfishdb.engine.evidence import not_protected
from blowfishdb.errors import BlowfishError, InvalidInput, VersionMismatch
from blowfishdb.ledger import VersionChange
from blowfishdb.model.constraints import as_constraints, write_constraint
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain, view_graph
from blowfishdb.model.graphs import Composition, Presence
from blowfishdb.model.policy import Policy
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.chart_echarts import draw
from blowfishdb.present.graph_picture import to_svg
from blowfishdb.server.pages.controls import (
    ask_reason,
    card,
    choice,
    dataset_choice,
    figure,
    heading,
    in_row,
    notice,
    pill,
    redraw,
    small,
    spread,
    wanted_dataset,
)
from blowfishdb.server.pages.family_form import FamilyEditor, FamilyForm, form_of, kinds_for, read_form
from blowfishdb.server.pages.layout import page
from blowfishdb.server.pages.page_context import IsWanted, Latest, PageContext, sentence
from blowfishdb.server.rest.datasets import policy_tag

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
    curve = Series("steps", np.array([np.nan if step is None else step for step in steps], dtype=np.float64))
    chart = Chart("lines", ChartAxis(name, tuple(labels)), ChartAxis("steps"), (curve,))
    ui.echart(draw(chart)).style("height:210px").props('role=img aria-label="Steps between one value and the others"')
    if None in steps:
        small("Where the curve has a gap, the two are not hidden from each other at all.")


COMPOSITIONS = {"record": "All at once", "attribute": "One at a time"}
PRESENCES = {"public": "Public", "secret": "Hidden too", "only": "Hidden alone"}
CONSEQUENCES = {
    "record": "A hidden record may differ in every attribute: whole records are protected, and answers cost more.",
    "attribute": "A hidden record differs in one attribute: cheaper, but a whole record costs epsilon for each.",
    "public": "Everybody may know how many rows there are, and whose.",
    "secret": "Nobody learns whether somebody is in the table; any two records are then at most two steps apart.",
    "only": "Classical differential privacy: only whether a record is there is hidden.",
}
LONGEST_TEXT = 2000
"""What an address may bring along for one attribute."""


@dataclass(eq=False)
class Draft:
    """The policy as it is being edited, beside the one in force."""

    context: PageContext
    dataset: Dataset
    forms: dict[str, FamilyForm]
    composition: Composition
    presence: Presence
    constraints: str
    shown: str
    around: str = ""
    parts: dict[str, ui.element] = field(default_factory=dict)
    latest: Latest = field(init=False)

    def policy(self) -> Policy:
        """What the forms declare; PolicyError names the first thing that makes no sense."""
        old, domain = self.dataset.policy, self.dataset.domain
        families = {}
        for name, said in self.forms.items():
            kept = name not in old.attributes and said.kind == "full"
            if not kept:
                families[name] = read_form(said, domain[name])
        constraints = [line.strip() for line in self.constraints.splitlines() if line.strip()]
        texts = {write_constraint(constraint): constraint for constraint in old.constraints}
        new = replace(
            old,
            attributes=families,
            composition=self.composition,
            presence=self.presence,
            constraints=as_constraints(texts.get(line, line) for line in constraints),
        )
        new.check(domain)
        return new


@page("/policies", "Policies", "curate", "audit", lead="What is hidden, what is not, and what a change would do.")
async def policies(context: PageContext) -> None:
    """The editor of one dataset's policy; auditors read it."""
    curator = context.auditor()
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    dataset = curator.dataset(name)
    policy = dataset.policy
    own = [one for one in dataset.domain if policy.grid_of(one) is None]
    if not own:
        notice("All attributes of this dataset are hidden together; a document changes that.")
        return
    asked = context.request.query_params
    shown = asked.get("attribute", "") if asked.get("attribute") in own else own[0]
    forms = {one: form_of(policy.family(one)) for one in own}
    if asked.get("kind") in kinds_for(dataset.domain[shown]):
        forms[shown] = FamilyForm(asked["kind"], asked.get("text", "")[:LONGEST_TEXT])
    draft = Draft(
        context,
        dataset,
        forms,
        policy.composition,
        policy.presence,
        "\n".join(write_constraint(constraint) for constraint in policy.constraints),
        shown,
    )
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/policies", curator.datasets(), name)
    with ui.element("div").classes("bf-editor") as root:
        draft.latest = Latest(context, root, partial(_refresh, draft))
        with ui.element("div"):
            with card():
                _attributes(draft)
            if "curate" in context.identity.scopes:
                with card():
                    _change_card(draft)
        with ui.element("div"):
            with card():
                _picture_card(draft)
            with card():
                heading("In words")
                draft.parts["words"] = ui.element("div").props("aria-live=polite")
    draft.latest.changed()


def _attributes(draft: Draft) -> None:
    """The left side: one attribute at a time, then what holds for whole records."""
    is_curator = "curate" in draft.context.identity.scopes
    heading("What is hidden")
    ui.label("of").classes("bf-label")
    ui.select(list(draft.forms), value=draft.shown, on_change=lambda event: choose(str(event.value))).props(
        'outlined dense options-dense aria-label="Attribute" data-testid="attribute"'
    ).classes("w-full")
    room = ui.element("div").style("margin-top:12px")

    def choose(name: str) -> None:
        draft.shown, draft.around = name, ""
        draw()
        draft.latest.changed()

    def changed(said: FamilyForm) -> None:
        draft.forms[draft.shown] = said
        draft.latest.changed()

    def draw() -> None:
        room.clear()
        with room:
            if is_curator:
                FamilyEditor(draft.dataset.domain[draft.shown], draft.forms[draft.shown], changed).build()
            else:
                pill(family_words(draft.dataset.policy.family(draft.shown)), "is-brand")

    draw()
    for grid in draft.dataset.policy.joint:
        notice(f"{' and '.join(grid.attributes)} are hidden together; a document changes that.").style(
            "margin-top:10px"
        )
    if is_curator:
        _whole_record(draft)


def _whole_record(draft: Draft) -> None:
    ui.separator().style("margin:18px 0 4px")
    for part, label, options in (
        ("composition", "In which attributes two hidden records differ", COMPOSITIONS),
        ("presence", "Whether somebody's row is there", PRESENCES),
    ):
        ui.label(label).classes("bf-label")
        _choice(draft, part, options)
    ui.label("Public constraints, one per line").classes("bf-label")
    ui.textarea(
        value=draft.constraints,
        placeholder="count(age < 18) = 120\nmarginal(ward)",
        on_change=lambda event: _set(draft, "constraints", str(event.value or "")),
    ).props('outlined dense autogrow debounce=300 aria-label="Public constraints" data-testid="constraints"').classes(
        "w-full"
    )
    small("Counts that everybody knows already. They tie records together, and what ties costs.", "margin-top:4px")


def _choice(draft: Draft, part: str, options: dict[str, str]) -> None:
    """A choice with its consequence below it."""

    def chosen(value: str) -> None:
        said.set_text(CONSEQUENCES[value])
        _set(draft, part, value)

    room = ui.element("div")
    said = small(CONSEQUENCES[str(getattr(draft, part))], "margin-top:4px")
    with room:
        choice(options, str(getattr(draft, part)), chosen, part.capitalize())


def _set(draft: Draft, part: str, value: str) -> None:
    setattr(draft, part, value)
    draft.latest.changed()


def _picture_card(draft: Draft) -> None:
    with spread():
        draft.parts["title"] = ui.element("div")

        ui.input("Around this value", on_change=lambda event: _set(draft, "around", str(event.value or ""))).props(
            "outlined dense debounce=300"
        ).style("width:170px")
    draft.parts["picture"] = ui.element("div").style("margin-top:8px")


def _change_card(draft: Draft) -> None:
    heading("What saving does")
    draft.parts["change"] = ui.element("div").props("aria-live=polite").style("margin-top:8px")

    async def save(reason: str) -> None:
        context, name = draft.context, draft.dataset.name
        curator = context.curator()
        new = draft.policy()

        def work() -> VersionChange:
            account, before = curator.in_force(name)
            if policy_tag(before.policy) != policy_tag(draft.dataset.policy):
                raise VersionMismatch("policy", policy_tag(before.policy))
            return curator.set_policy(name, new, reason=reason, seen=account.policy_version)

        change = await context.run(work)
        context.app_state.audit_log.note(
            context.identity.name, "changed a policy", name, {"version": change.next_version}
        )
        ui.navigate.to(f"/policies?dataset={quote(name)}&attribute={quote(draft.shown)}")

    said = "It is in force for every answer from now on, and the reason is kept in the ledger."
    button = ui.button(
        "Save the policy", icon="check", on_click=lambda: ask_reason("Put it in force?", said, "Save", save)
    )
    draft.parts["save"] = button.props('unelevated data-testid="save"').style("margin-top:14px")


async def _refresh(draft: Draft, is_wanted: IsWanted) -> None:
    """Draws the graph, the words and the consequences of the policy as it is now."""
    policy: Policy | None = None
    found: tuple[VersionChange, Stretch] | None = None
    refusal = ""
    try:
        curator = draft.context.auditor()
        policy = draft.policy()
        if policy != draft.dataset.policy:
            found = await draft.context.run(partial(curator.what_would_change, draft.dataset.name, policy=policy))
    except InvalidInput as error:
        refusal = sentence(error.message)
    if not is_wanted():
        return
    redraw(draft.parts["title"], partial(heading, f"The graph of {draft.shown}"))
    for part in ("picture", "words"):
        draft.parts[part].clear()
    button = draft.parts.get("save")
    if isinstance(button, ui.button):
        draft.parts["change"].clear()
        with draft.parts["change"]:
            button.set_enabled(_change(found, refusal))
    if policy is None:
        return
    with draft.parts["picture"]:
        draw_graph(draft.dataset.domain, policy, draft.shown, draft.around)
    with draft.parts["words"]:
        _words(draft, policy)


def _words(draft: Draft, policy: Policy) -> None:
    """What is hidden and what is not: of the shown attribute and of whole records, the others folded away."""
    domain = draft.dataset.domain
    hidden, told = explain(domain, policy), not_protected(domain, policy)
    others = tuple(f"{name}: " for name in domain if name != draft.shown)
    near = [text for text in hidden if not text.startswith(others)]
    with ui.element("div").classes("bf-two").style("margin-top:10px"):
        with ui.element("div"):
            _sentences("What the policy says", "hub", "brand", near)
        with ui.element("div"):
            _sentences("Not hidden", "visibility", "accent", told or ("Nothing: everything about a record is hidden.",))
    if len(near) < len(hidden):
        with ui.expansion("The other attributes").classes("w-full"), ui.element("ul").classes("bf-list"):
            _items([text for text in hidden if text.startswith(others)])


def _sentences(title: str, icon: str, kind: str, said: Sequence[str]) -> None:
    with in_row().style("gap:7px"):
        ui.icon(icon).style(f"color:var(--bf-{kind});font-size:19px").props("aria-hidden=true")
        ui.label(title).style("font-weight:620")
    with ui.element("ul").classes("bf-list"):
        _items(said)


def _items(said: Sequence[str]) -> None:
    for text in said:
        with ui.element("li"):
            ui.label(text)


def _change(found: tuple[VersionChange, Stretch] | None, refusal: str) -> bool:
    """Says what would happen to what past answers promised, and whether it can be done."""
    if refusal:
        notice(refusal, "is-accent", "edit")
        return False
    if found is None:
        ui.label("Nothing has been changed yet.").classes("bf-quiet")
        return False
    change, stretch = found
    if change.refusal is not None:
        notice(f"{sentence(change.refusal)} {sentence(stretch.why)}", "is-bad", "block")
        return False
    if change.stretch == 1:
        ui.label(f"Version {change.next_version}. What was spent stays as it is: {figure(change.spent_after)}.").style(
            "font-weight:560"
        )
    else:
        ui.label(
            f"Version {change.next_version}. Past loss counts {figure(change.stretch)} times: epsilon "
            f"{figure(change.spent_before)} spent becomes {figure(change.spent_after)} of {figure(change.limit)}."
        ).style("font-weight:560")
    small(sentence(stretch.why), "margin-top:2px")
    return True
