"""The policy editor: what is hidden of each attribute, drawn and said in words, and what a change does to past loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast
from urllib.parse import quote

from nicegui import events, ui

from blowfishdb.catalog.dataset import Dataset, family_words, read_joint, read_rows, read_value, write_joint, write_row
from blowfishdb.catalog.stretch import Stretch
from blowfishdb.engine.preview import not_protected
from blowfishdb.errors import InvalidInput, PolicyError, TooLarge, sentence
from blowfishdb.ledger import VersionChange
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.constraints import as_constraints, write_constraint
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.explain import explain
from blowfishdb.model.graphs import Composition, Metric, Presence
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import (
    MOST_COMBINATIONS,
    Custom,
    Family,
    Grid,
    Joint,
    Partition,
    Policy,
    Threshold,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.server.pages.controls import (
    Tile,
    ask_reason,
    blame,
    called,
    card,
    choice,
    decision,
    figure,
    heading,
    in_row,
    notice,
    opened_dialog,
    pill,
    redraw,
    small,
    spread,
    tiles,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.pages.policy_pictures import QuestionPicture, draw_graph
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


@dataclass(frozen=True)
class JointForm:
    """Attributes that are hidden together, how, and what was typed for it; the metric is that of a distance."""

    names: tuple[str, ...]
    kind: str
    text: str
    metric: Metric = "l2"

    @property
    def title(self) -> str:
        """What the choice of attributes calls it."""
        return " + ".join(self.names)


JOINT_KINDS = {
    kind.value: kind
    for kind in (
        FamilyKind(
            "within",
            "Within a distance",
            "swap_horiz",
            "Places at most so far apart, all attributes counted, are hidden from each other.",
            "Hidden up to this distance",
            "say up to which distance places are hidden from each other",
        ),
        FamilyKind(
            "blocks",
            "Blocks",
            "workspaces",
            "Combinations of one block are hidden from each other; which block is not.",
            "The name of a block, then a value of each; * is any value, 18..64 a run",
            "write a line for each part of a block: its name, then a value of each attribute",
        ),
        FamilyKind(
            "pairs",
            "Listed pairs",
            "hub",
            "Exactly the pairs of combinations that you list are hidden from each other.",
            "One pair per line: a value of each, then a value of each again",
            "write one pair of combinations per line",
        ),
    )
}
METRICS: dict[str, str] = {"l2": "Straight line", "l1": "Added up", "linf": "Each on its own"}


def joint_kinds_for(names: Sequence[str], domain: Domain) -> dict[str, FamilyKind]:
    """The ways to hide some attributes together that fit them: only numbers have a distance."""
    numeric = all(isinstance(domain[name], Integers | Bins) for name in names)
    return {name: kind for name, kind in JOINT_KINDS.items() if numeric or name != "within"}


def read_joint_form(form: JointForm, domain: Domain) -> Grid | Joint:
    """The graph that the form declares; PolicyError says what is missing."""
    if len(form.text) > LONGEST:
        raise PolicyError(f"this is longer than {LONGEST:,} characters; declare it in a document")
    if not form.text.strip():
        raise PolicyError(JOINT_KINDS[form.kind].missing)
    if form.kind == "within":
        return grid(form.names, form.text.strip(), form.metric)
    return read_joint(form.text, form.names, domain, is_pairs=form.kind == "pairs")


def joint_form_of(graph: Grid | Joint, domain: Domain) -> JointForm:
    """The form that declares a joint graph."""
    if isinstance(graph, Grid):
        return JointForm(graph.attributes, "within", show(graph.theta), graph.metric)
    kind = "pairs" if isinstance(graph.family, Custom) else "blocks"
    return JointForm(graph.attributes, kind, write_joint(graph, domain))


def usual_joint(names: tuple[str, ...], kind: str, domain: Domain) -> JointForm:
    """A start that is valid, from the declared domain alone: the values of the first attribute in two blocks."""
    attributes = [domain[name] for name in names]
    values = [attributes[0].value_at(place) for place in range(min(attributes[0].size, 2))]
    others = [attribute.value_at(0) for attribute in attributes[1:]]
    if kind == "within":
        return JointForm(names, kind, "1")
    if kind == "pairs":
        return JointForm(names, kind, write_row([values[0], *others, values[-1], *others]))
    half = max(attributes[0].size // 2, 1)
    codes = itertools.product(*(range(attribute.size) for attribute in attributes))
    blocks: list[list[tuple[object, ...]]] = [[], []]
    if math.prod(attribute.size for attribute in attributes) <= MOST_COMBINATIONS:
        for code in codes:
            values_of = tuple(one.value_at(place) for one, place in zip(attributes, code, strict=True))
            blocks[code[0] >= half].append(values_of)
    listed = [block for block in blocks if block]
    return JointForm(names, kind, write_joint(joint(names, partition(listed)), domain) if listed else "")


def _too_long() -> None:
    ui.notify(f"A file may have {LONGEST:,} bytes at most.", position="top", type="warning")


@dataclass(eq=False)
class JointEditor:
    """The form of several attributes; `on_change` hears of every change, `on_leave` that each is on its own again."""

    domain: Domain
    form: JointForm
    on_change: Callable[[JointForm], None]
    on_leave: Callable[[], None]

    def build(self) -> None:
        """Draws tiles for the kinds, the field of the chosen one, and ways to fill it from a file or to give it up."""
        kinds = joint_kinds_for(self.form.names, self.domain)
        tiles(list(kinds.values()), self.form.kind, self._choose, "What is hidden of them together")
        self._field = ui.element("div").style("margin-top:12px")
        redraw(self._field, self._draw)
        leave = ui.button("Hide each on its own again", icon="call_split", on_click=self.on_leave)
        called(leave.props("flat dense size=sm"), test_id="apart")

    def _set(self, form: JointForm) -> None:
        self.form = form
        self.on_change(form)

    def _choose(self, kind: str) -> None:
        self._set(usual_joint(self.form.names, kind, self.domain))
        redraw(self._field, self._draw)

    def _draw(self) -> None:
        kind = JOINT_KINDS[self.form.kind]
        small(kind.tip, "margin-bottom:10px")
        make = ui.input if self.form.kind == "within" else ui.textarea
        box = make(value=self.form.text, on_change=lambda e: self._set(replace(self.form, text=str(e.value or ""))))
        box.props("debounce=300" + ("" if self.form.kind == "within" else " autogrow input-style=max-height:16em"))
        called(box, f"{kind.field} ({', '.join(self.form.names)})", "joint").classes("w-full")
        if self.form.kind == "within":
            choice(METRICS, self.form.metric, self._measure, "How distances are measured")
            return
        small(f"{kind.field}: {', '.join(self.form.names)}.", "margin-top:4px")
        if self.form.kind == "blocks":
            small("Combinations that no line names are one more block.")
        upload = ui.upload(auto_upload=True, max_file_size=LONGEST, on_upload=self._import, on_rejected=_too_long)
        called(upload.props("accept=.csv,.txt"), test_id="import").classes("hidden")
        pick = ui.button("Import a CSV file …", icon="upload_file", on_click=lambda: upload.run_method("pickFiles"))
        pick.props("flat dense size=sm").style("margin-top:6px")

    def _measure(self, metric: str) -> None:
        self._set(replace(self.form, metric=cast(Metric, metric)))

    async def _import(self, event: events.UploadEventArguments) -> None:
        try:
            text = (await event.file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            ui.notify("This file is no text in UTF-8: save it as CSV first.", position="top", type="warning")
            return
        self._set(replace(self.form, text=text))
        redraw(self._field, self._draw)


COMPOSITIONS = {"record": "All at once", "attribute": "One at a time"}
PRESENCES = {"public": "Public", "secret": "Hidden too", "only": "Hidden alone"}
CONSEQUENCES = {
    "record": "A hidden record may differ in every attribute: whole records are protected, and answers cost more.",
    "attribute": "A hidden record differs in one attribute: cheaper, but a whole record costs epsilon for each.",
    "public": "Everybody may know how many rows there are, and whose.",
    "secret": "Nobody learns whether somebody is in the table; any two records are then at most two steps apart.",
    "only": "Classical differential privacy: only whether a record is there is hidden.",
}
FEWEST_TOGETHER = 2
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
    joints = [joint_form_of(graph, dataset.domain) for graph in dataset.policy.joint]
    titles = [*forms, *(form.title for form in joints)]
    wanted = context.request.query_params
    shown = wanted.get("attribute", "")
    shown = shown if shown in titles else titles[0]
    if shown in forms and wanted.get("kind") in kinds_for(dataset.domain[shown]):
        forms[shown] = FamilyForm(wanted["kind"], wanted.get("text", "")[:LONGEST_TEXT])
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/policies", curator.datasets(), name)
    PolicyEditor(context, dataset, forms, {form.title: form for form in joints}, shown)


class PolicyEditor:
    """The state of one open page: the policy as it is being edited, beside the one in force."""

    def __init__(
        self,
        context: PageContext,
        dataset: Dataset,
        forms: dict[str, FamilyForm],
        joints: dict[str, JointForm],
        shown: str,
    ) -> None:
        self._context, self._dataset, self._shown, self._around = context, dataset, shown, ""
        self._forms, self._joints = forms, joints
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
                self._own = card()
                with self._own:
                    with spread():
                        self._title = ui.element("div")
                        around = ui.input("Around this value", on_change=lambda e: self._set("_around", e.value))
                        around.props("debounce=300").style("width:170px")
                    self._picture = ui.element("div").style("margin-top:8px")
                self._seen = card().props('data-testid="question-picture"')
                with self._seen:
                    heading("As a question sees it")
                    self._question = QuestionPicture(dataset.domain, self._latest.changed)
                    self._question.build(self._names())
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
            joint=tuple(read_joint_form(form, domain) for form in self._joints.values()),
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
        self._chooser = ui.element("div")
        redraw(self._chooser, self._build_chooser)
        self._family = ui.element("div").style("margin-top:12px")
        redraw(self._family, self._build_family)
        if self._is_curator:
            self._build_records()

    def _build_chooser(self) -> None:
        options = [*self._forms, *self._joints]
        attribute = ui.select(options, value=self._shown, on_change=lambda e: self._choose(str(e.value)))
        attribute.props('aria-label="Attribute" data-testid="attribute"').classes("w-full")
        if self._is_curator and len(self._forms) > 1:
            button = ui.button("Hide several together …", icon="join_inner", on_click=self._ask_together)
            called(button.props("flat dense size=sm"), test_id="together").style("margin-top:6px")

    def _names(self) -> tuple[str, ...]:
        """The attributes that are looked at."""
        return self._joints[self._shown].names if self._shown in self._joints else (self._shown,)

    def _choose(self, name: str) -> None:
        self._shown, self._around = name, ""
        redraw(self._family, self._build_family)
        self._question.look_at(self._names())
        self._latest.changed()

    def _ask_together(self) -> None:
        text = (
            "For secrets that lie in a combination: a ward and an illness, the two coordinates of a place. They get "
            "one common graph in place of one each."
        )
        with opened_dialog("Hide several together", text) as dialog:
            names = ui.select(list(self._forms), multiple=True, label="Attributes", value=[])
            called(names.props("use-chips"), test_id="names").classes("w-full").style("margin-top:14px")

            async def go() -> None:
                chosen = tuple(name for name in self._forms if name in names.value)
                if len(chosen) < FEWEST_TOGETHER:
                    blame(names, "Choose two attributes or more.")
                    return
                dialog.close()
                kind = next(iter(joint_kinds_for(chosen, self._dataset.domain)))
                self._tie(usual_joint(chosen, kind, self._dataset.domain))

            decision(dialog, "Hide them together", go)

    def _tie(self, form: JointForm) -> None:
        for name in form.names:
            del self._forms[name]
        self._joints[form.title] = form
        self._shown = form.title
        redraw(self._chooser, self._build_chooser)
        self._choose(form.title)

    def _untie(self) -> None:
        form = self._joints.pop(self._shown)
        forms = self._forms | {name: form_of(full()) for name in form.names}
        self._forms = {name: forms[name] for name in self._dataset.domain if name in forms}
        self._shown = form.names[0]
        redraw(self._chooser, self._build_chooser)
        self._choose(self._shown)

    def _build_family(self) -> None:
        def changed(form: FamilyForm) -> None:
            self._forms[self._shown] = form
            self._latest.changed()

        def changed_together(form: JointForm) -> None:
            self._joints[form.title] = form
            self._latest.changed()

        if self._shown in self._joints:
            form = self._joints[self._shown]
            if self._is_curator:
                JointEditor(self._dataset.domain, form, changed_together, self._untie).build()
            else:
                pill(JOINT_KINDS[form.kind].label, "is-brand")
                ui.label(form.text).classes("bf-mono bf-small").style("white-space:pre-wrap;margin-top:8px")
        elif self._is_curator:
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
        except (InvalidInput, TooLarge) as error:
            refusal = sentence(error.message)
        if not is_wanted():
            return
        self._own.set_visibility(self._shown in self._forms)
        self._seen.style(f"margin-top:{16 if self._shown in self._forms else 0}px")
        redraw(self._title, partial(heading, f"The graph of {self._shown}"))
        if self._is_curator:
            self._change.clear()
            with self._change:
                self._button.set_enabled(_show_change(change, refusal))
        self._picture.clear()
        self._words.clear()
        self._question.draw(policy)
        if policy is None:
            return
        if self._shown in self._forms:
            with self._picture:
                draw_graph(self._dataset.domain, policy, self._shown, self._around)
        with self._words:
            self._show_words(policy)

    def _show_words(self, policy: Policy) -> None:
        """What is hidden and what is not: of the shown attribute and of whole records, the others folded away."""
        domain = self._dataset.domain
        hidden, told = explain(domain, policy), not_protected(domain, policy)
        shown = self._names()
        others = tuple(f"{name}: " for name in domain if name not in shown)
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
