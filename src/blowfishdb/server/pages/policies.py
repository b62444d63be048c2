"""The policy editor: what is hidden of each attribute, drawn and said in words, and what a change does to past loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote

import numpy as np
from nicegui import ui

from blowfishdb.catalog.dataset import Dataset, family_words, read_rows, read_value, write_row
from blowfishdb.catalog.stretch import Stretch
from blowfishdb.engine.preview import not_protected
from blowfishdb.errors import BlowfishError, InvalidInput, PolicyError, sentence
from blowfishdb.ledger import VersionChange
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.constraints import as_constraints, write_constraint
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.explain import explain, view_graph
from blowfishdb.model.graphs import Composition, Presence
from blowfishdb.model.policy import (
    Custom,
    Family,
    Partition,
    Policy,
    Threshold,
    custom,
    full,
    line,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.chart_echarts import draw
from blowfishdb.present.graph_picture import to_svg
from blowfishdb.server.pages.controls import (
    Tile,
    ask_reason,
    called,
    card,
    choice,
    figure,
    heading,
    in_row,
    notice,
    pill,
    redraw,
    small,
    spread,
    tiles,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.rest.datasets import policy_tag
from blowfishdb.server.rest.policies import put_in_force

LONGEST = 200_000
MOST_GROUPED = 200
"""Values that are listed in groups, at most, where they have an order."""
SIMPLE: dict[str, Family] = {"full": full(), "line": line(), "public": public()}


@dataclass(frozen=True)
class FamilyForm:
    """The kind of family and what was typed for it: theta, cut points, or blocks or pairs line by line."""

    kind: str = "full"
    text: str = ""


@dataclass(frozen=True)
class FamilyKind(Tile):
    """A kind of family for people; and the field it needs, if any, with what is said while it is empty."""

    field: str = ""
    missing: str = ""


FAMILY_KINDS = (
    FamilyKind("full", "Everything secret", "lock", "Any two values are hidden from each other: differential privacy."),
    FamilyKind(
        "threshold",
        "Within a distance",
        "swap_horiz",
        "Values at most so far apart are hidden from each other.",
        "Hidden up to this distance",
        "say up to which distance values are hidden from each other",
    ),
    FamilyKind("line", "Neighbours only", "linear_scale", "Each value is hidden from the next one only."),
    FamilyKind(
        "cuts",
        "Cut into blocks",
        "content_cut",
        "Values within a block are hidden from each other; which block is not.",
        "New blocks begin at",
        "say where new blocks begin, such as 18, 65",
    ),
    FamilyKind(
        "blocks",
        "Groups of values",
        "workspaces",
        "Values of one group are hidden from each other; which group is not.",
        "One group of values per line",
        "write one group of values per line",
    ),
    FamilyKind(
        "custom",
        "Listed pairs",
        "hub",
        "Exactly the pairs you list are hidden from each other.",
        "One pair of values per line",
        "write one pair of values per line, such as A1, A2",
    ),
    FamilyKind("public", "Public", "public", "Nothing about this attribute is hidden."),
)
KINDS = {kind.value: kind for kind in FAMILY_KINDS}


def kinds_for(attribute: Attribute) -> dict[str, FamilyKind]:
    """The families that fit an attribute."""
    unfit = set() if attribute.ordered else {"threshold", "line", "cuts"}
    if attribute.ordered and attribute.size > MOST_GROUPED:
        unfit.add("blocks")
    return {name: kind for name, kind in KINDS.items() if name not in unfit}


def read_form(form: FamilyForm, attribute: Attribute) -> Family:
    """The family that the form declares; PolicyError says what is missing."""
    text = form.text.strip()
    if len(text) > LONGEST:
        raise PolicyError(f"this is longer than {LONGEST:,} characters; declare it in a file and add it there")
    if form.kind in SIMPLE:
        return SIMPLE[form.kind]
    if not text:
        raise PolicyError(KINDS[form.kind].missing)
    if form.kind == "threshold":
        return threshold(text)
    if form.kind == "cuts":
        return partition(cuts=[cut for row in read_rows(text) for cut in row])
    lines = [[read_value(item, attribute) for item in row] for row in read_rows(text)]
    return partition(lines) if form.kind == "blocks" else custom(lines)


def form_of(family: Family) -> FamilyForm:
    """The form that declares a family."""
    match family:
        case Threshold(theta):
            return FamilyForm("threshold", show_theta(theta))
        case Partition(blocks, ()):
            return FamilyForm("blocks", "\n".join(map(write_row, blocks)))
        case Partition(_, cuts):
            return FamilyForm("cuts", write_row(cuts))
        case Custom(edges):
            return FamilyForm("custom", "\n".join(map(write_row, edges)))
        case _:
            return FamilyForm(next(kind for kind, simple in SIMPLE.items() if family == simple))


@dataclass(eq=False)
class FamilyEditor:
    """The form; `on_change` hears of every change."""

    attribute: Attribute
    form: FamilyForm
    on_change: Callable[[FamilyForm], None]

    def build(self) -> None:
        """Draws tiles for the kinds, and the field of the chosen one below them."""
        tiles(list(kinds_for(self.attribute).values()), self.form.kind, self._choose, "What is hidden")
        self._field = ui.element("div").style("margin-top:12px;min-height:58px")
        redraw(self._field, self._draw)

    def _choose(self, kind: str) -> None:
        self.form = FamilyForm(kind, self._usual(kind))
        redraw(self._field, self._draw)
        self.on_change(self.form)

    def _usual(self, kind: str) -> str:
        """A start that is valid, from the declared domain alone."""
        if kind == "threshold":
            by = self.attribute.by if isinstance(self.attribute, Dates | Timestamps) else ""
            return f"7 {by}s" if by else "5"
        middle = self.attribute.size // 2
        if kind == "cuts":
            return write_row([self.attribute.value_at(middle)])
        values = [self.attribute.value_at(place) for place in range(min(self.attribute.size, MOST_GROUPED))]
        if kind == "blocks":
            return f"{write_row(values[: len(values) // 2])}\n{write_row(values[len(values) // 2 :])}"
        return write_row(values[:2]) if kind == "custom" and len(values) > 1 else ""

    def _type(self, text: object) -> None:
        self.form = replace(self.form, text=str(text or ""))
        self.on_change(self.form)

    def _draw(self) -> None:
        kind, is_long = KINDS[self.form.kind], self.form.kind in ("blocks", "custom")
        if not kind.field:
            small(kind.tip)
            return
        make = ui.textarea if is_long else ui.input
        box = make(kind.field, value=self.form.text, on_change=lambda event: self._type(event.value))
        box.props(f'debounce=250 {"autogrow" if is_long else ""} data-testid="family"').classes("w-full")


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


@page("/policies", "Policies", "curate", "audit", lead="What is hidden, what is not, and what a change would do.")
async def policies(context: PageContext) -> None:
    """The editor of one dataset's policy; auditors read it."""
    curator = context.auditor()
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    dataset = curator.dataset(name)
    forms = {
        attribute: form_of(dataset.policy.family(attribute))
        for attribute in dataset.domain
        if dataset.policy.joint_of(attribute) is None
    }
    if not forms:
        notice("All attributes of this dataset are hidden together; a document changes that.")
        return
    wanted = context.request.query_params
    shown = wanted.get("attribute", "")
    shown = shown if shown in forms else next(iter(forms))
    if wanted.get("kind") in kinds_for(dataset.domain[shown]):
        forms[shown] = FamilyForm(wanted["kind"], wanted.get("text", "")[:LONGEST_TEXT])
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/policies", curator.datasets(), name)
    PolicyEditor(context, dataset, forms, shown)


class PolicyEditor:
    """The state of one open page: the policy as it is being edited, beside the one in force."""

    def __init__(self, context: PageContext, dataset: Dataset, forms: dict[str, FamilyForm], shown: str) -> None:
        self._context, self._dataset, self._forms, self._shown, self._around = context, dataset, forms, shown, ""
        self._composition: Composition = dataset.policy.composition
        self._presence: Presence = dataset.policy.presence
        self._constraints = "\n".join(write_constraint(constraint) for constraint in dataset.policy.constraints)
        self._is_curator = context.curates(dataset.name)
        with ui.element("div").classes("bf-editor") as root:
            self._latest = Latest(context, root, self._refresh)
            with ui.element("div"):
                with card():
                    self._build_attributes()
                if self._is_curator:
                    with card():
                        self._build_change()
            with ui.element("div"):
                with card():
                    with spread():
                        self._title = ui.element("div")
                        around = ui.input("Around this value", on_change=lambda e: self._set("_around", e.value))
                        around.props("debounce=300").style("width:170px")
                    self._picture = ui.element("div").style("margin-top:8px")
                with card():
                    heading("In words")
                    self._words = ui.element("div").props("aria-live=polite")
        self._latest.changed()

    def _policy(self) -> Policy:
        """What the forms declare; PolicyError names the first thing that makes no sense."""
        old, domain = self._dataset.policy, self._dataset.domain
        families = {
            name: read_form(form, domain[name])
            for name, form in self._forms.items()
            if name in old.attributes or form.kind != "full"
        }
        texts = {write_constraint(constraint): constraint for constraint in old.constraints}
        lines = [line.strip() for line in self._constraints.splitlines() if line.strip()]
        policy = replace(
            old,
            attributes=families,
            composition=self._composition,
            presence=self._presence,
            constraints=as_constraints(texts.get(line, line) for line in lines),
        )
        policy.check(domain)
        return policy

    def _set(self, part: str, value: object) -> None:
        setattr(self, part, str(value or ""))
        self._latest.changed()

    def _build_attributes(self) -> None:
        """The left side: one attribute at a time, then what holds for whole records."""
        heading("What is hidden")
        ui.label("of").classes("bf-label")
        attribute = ui.select(list(self._forms), value=self._shown, on_change=lambda e: self._choose(str(e.value)))
        attribute.props('aria-label="Attribute" data-testid="attribute"').classes("w-full")
        self._family = ui.element("div").style("margin-top:12px")
        redraw(self._family, self._build_family)
        for grid in self._dataset.policy.joint:
            text = f"{' and '.join(grid.attributes)} are hidden together; a document changes that."
            notice(text).style("margin-top:10px")
        if self._is_curator:
            self._build_records()

    def _choose(self, name: str) -> None:
        self._shown, self._around = name, ""
        redraw(self._family, self._build_family)
        self._latest.changed()

    def _build_family(self) -> None:
        def changed(form: FamilyForm) -> None:
            self._forms[self._shown] = form
            self._latest.changed()

        if self._is_curator:
            FamilyEditor(self._dataset.domain[self._shown], self._forms[self._shown], changed).build()
        else:
            pill(family_words(self._dataset.policy.family(self._shown)), "is-brand")

    def _build_records(self) -> None:
        ui.separator().style("margin:18px 0 4px")
        ui.label("In which attributes two hidden records differ").classes("bf-label")
        self._build_choice("_composition", COMPOSITIONS, "Composition")
        ui.label("Whether somebody's row is there").classes("bf-label")
        self._build_choice("_presence", PRESENCES, "Presence")
        ui.label("Public constraints, one per line").classes("bf-label")
        ui.textarea(
            value=self._constraints,
            placeholder="count(age < 18) = 120\nmarginal(ward)",
            on_change=lambda event: self._set("_constraints", event.value),
        ).props('autogrow debounce=300 aria-label="Public constraints" data-testid="constraints"').classes("w-full")
        small("Counts that everybody knows already. They tie records together, and what ties costs.", "margin-top:4px")

    def _build_choice(self, part: str, options: dict[str, str], label: str) -> None:
        """A choice with its consequence below it."""

        def choose(value: str) -> None:
            consequence.set_text(CONSEQUENCES[value])
            self._set(part, value)

        value = str(getattr(self, part))
        with ui.element("div"):
            choice(options, value, choose, label)
        consequence = small(CONSEQUENCES[value], "margin-top:4px")

    def _build_change(self) -> None:
        heading("What saving does")
        self._change = ui.element("div").props("aria-live=polite").style("margin-top:8px")
        text = "It is in force for every answer from now on, and the reason is kept in the ledger."
        self._button = ui.button(
            "Save the policy", icon="check", on_click=lambda: ask_reason("Put it in force?", text, "Save", self._save)
        )
        self._button.props('unelevated data-testid="save"').style("margin-top:14px")

    async def _save(self, reason: str) -> None:
        name, policy, tag = self._dataset.name, self._policy(), policy_tag(self._dataset.policy)
        await self._context.change(partial(put_in_force, name, tag, policy, reason))
        ui.navigate.to(f"/policies?dataset={quote(name)}&attribute={quote(self._shown)}")

    async def _refresh(self, is_wanted: IsWanted) -> None:
        """Draws the graph, the words and the consequences of the policy as it is now."""
        policy: Policy | None = None
        change: tuple[VersionChange, Stretch] | None = None
        refusal = ""
        try:
            curator = self._context.auditor()
            policy = self._policy()
            if policy != self._dataset.policy:
                work = partial(curator.what_would_change, self._dataset.name, policy=policy)
                change = await self._context.run(work)
        except InvalidInput as error:
            refusal = sentence(error.message)
        if not is_wanted():
            return
        redraw(self._title, partial(heading, f"The graph of {self._shown}"))
        if self._is_curator:
            self._change.clear()
            with self._change:
                self._button.set_enabled(_show_change(change, refusal))
        self._picture.clear()
        self._words.clear()
        if policy is None:
            return
        with self._picture:
            draw_graph(self._dataset.domain, policy, self._shown, self._around)
        with self._words:
            self._show_words(policy)

    def _show_words(self, policy: Policy) -> None:
        """What is hidden and what is not: of the shown attribute and of whole records, the others folded away."""
        domain = self._dataset.domain
        hidden, told = explain(domain, policy), not_protected(domain, policy)
        others = tuple(f"{name}: " for name in domain if name != self._shown)
        near = [text for text in hidden if not text.startswith(others)]
        far = [text for text in hidden if text.startswith(others)]
        with ui.element("div").classes("bf-two").style("margin-top:10px"):
            for title, icon, kind, sentences in (
                ("What the policy says", "hub", "brand", near),
                ("Not hidden", "visibility", "accent", told or ("Nothing: everything about a record is hidden.",)),
            ):
                with ui.element("div"):
                    with in_row().style("gap:7px"):
                        ui.icon(icon).style(f"color:var(--bf-{kind});font-size:19px").props("aria-hidden=true")
                        ui.label(title).style("font-weight:620")
                    _list(sentences)
        if far:
            with ui.expansion("The other attributes").classes("w-full"):
                _list(far)


def _list(sentences: Sequence[str]) -> None:
    with ui.element("ul").classes("bf-list"):
        for text in sentences:
            with ui.element("li"):
                ui.label(text)


def _show_change(outcome: tuple[VersionChange, Stretch] | None, refusal: str) -> bool:
    """Says what would happen to what past answers promised, and whether it can be done."""
    if refusal:
        notice(refusal, "is-accent", "edit")
        return False
    if outcome is None:
        ui.label("Nothing has been changed yet.").classes("bf-quiet")
        return False
    change, stretch = outcome
    if change.refusal is not None:
        notice(f"{sentence(change.refusal)} {sentence(stretch.why)}", "is-bad", "block")
        return False
    ui.label(f"Version {change.next_version}. {change.words(figure)}").style("font-weight:560")
    if change.charges:
        small(sentence(stretch.why), "margin-top:2px")
    return True
