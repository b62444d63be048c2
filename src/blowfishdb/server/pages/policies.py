"""The policy editor: what is hidden of each attribute, drawn and said in words, and what a change does to past loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
from nicegui import events, ui

from blowfishdb.catalog.dataset import Dataset, family_words, read_value
from blowfishdb.catalog.policy_change import Stretch
from blowfishdb.errors import BlowfishError, CannotCertify, InvalidInput, PolicyError, TooLarge, plural, sentence
from blowfishdb.ledger import VersionChange
from blowfishdb.ledger.amounts import BY, PER_EDGE, SUM, parallel_attribute
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraint_graph import changed_constraints
from blowfishdb.model.constraints import CountConstraint, as_constraints, read_constraint, write_constraint
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.graphs import Composition, Presence
from blowfishdb.model.groups import grouping
from blowfishdb.model.policy import ROW, Person, Policy, Row, full, person
from blowfishdb.present.chart import Chart, ChartAxis, Series
from blowfishdb.present.chart_echarts import draw
from blowfishdb.present.graph_picture import (
    CellsView,
    ConstraintsView,
    cells_svg,
    cells_words,
    constraints_svg,
    to_svg,
    view_cells,
    view_constraints,
    view_graph,
)
from blowfishdb.server.pages.column_form import ColumnEditor, column_form_of
from blowfishdb.server.pages.controls import (
    ask_reason,
    blame,
    bullets,
    called,
    card,
    choice,
    decision,
    figure,
    heading,
    in_row,
    listed_table,
    notice,
    opened_dialog,
    pill,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import IsWanted, Latest, PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.pages.policy_form import (
    JOINT_KINDS,
    FamilyEditor,
    FamilyForm,
    JointEditor,
    JointForm,
    form_of,
    joint_form_of,
    joint_kinds_for,
    kinds_for,
    read_form,
    read_joint_form,
    usual_joint,
)
from blowfishdb.server.pages.query_draft import AxisDraft, steps_of
from blowfishdb.server.rest.datasets import NewAccounting, put_in_force, set_accounting, tag_of
from blowfishdb.sources.base import ColumnType

CURVE_POINTS = 40
WINDOW = 15
"""Values of a large domain that are drawn: as many as have readable names at the width of the card."""
SIZE = re.compile(r'(<svg[^>]*?) width="[\d.]+" height="[\d.]+"')


def _show_picture(svg: str, label: str) -> None:
    """A graph in room that scrolls; it is a picture of ours, whose labels were escaped when it was drawn."""
    with called(ui.element("div").classes("bf-graph").props("tabindex=0 role=region"), label):
        ui.html(SIZE.sub(r"\1", svg, count=1), sanitize=False)


def _show_refusal(refusal: str, told: set[str]) -> None:
    """Why there is no picture, once on a page: `told` are the refusals that it shows already."""
    text = sentence(refusal)
    if text in told:
        small("No picture, for the reason that this page gives already.")
        return
    told.add(text)
    notice(text, "is-accent", "edit")


def draw_graph(domain: Domain, policy: Policy, name: str, around: str, told: set[str]) -> None:
    """Draws what the policy hides of one attribute, and warns of what it does not."""
    attribute = domain[name]
    try:
        place = read_value(around, attribute) if around.strip() else None
        view = view_graph(domain, policy, name, place)
        if not view.is_whole:
            view = view_graph(domain, policy, name, place, WINDOW)
        picture = to_svg(view)
    except BlowfishError as error:
        _show_refusal(error.message, told)
        return
    _show_picture(picture, f"Picture of the graph of {name}")
    for warning in view.warnings():
        notice(warning, "is-accent", "visibility_off").style("margin-top:10px")
    if not view.is_whole and attribute.ordered:
        _distance_curve(domain, policy, name, around)


def _distance_curve(domain: Domain, policy: Policy, name: str, around: str) -> None:
    """How many hidden steps lie between one value and all others: an observer's odds grow with them."""
    if changed_constraints(domain, policy):
        small("Public constraints tie records together, so no number of steps bounds what is learned of one.")
        return
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
        groups = {step: grouping(AxisDraft(name, step).axis(), attribute).count for step in steps_of(attribute)}
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
        axes = [AxisDraft(name, step).axis() for name, step in zip(self._axes, self._steps, strict=True)]
        return view_cells(compile_cells(self._domain, policy, axes, where))

    def draw(self, policy: Policy | None, told: set[str]) -> None:
        """Draws the picture, what it shows in words, and the same as a list."""
        self._box.clear()
        if policy is None:
            return
        with self._box:
            try:
                view = self.view(policy)
            except BlowfishError as error:
                _show_refusal(error.message, told)
                return
            self._draw_view(view)

    def _draw_view(self, view: CellsView) -> None:
        _show_picture(cells_svg(view, self._of), f"Picture of the graph of {' and '.join(view.axes)}")
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


COMPOSITIONS = {"record": "All at once", "attribute": "One at a time"}
PRESENCES = {"public": "Public", "secret": "Hidden too", "only": "Hidden alone"}
CONSEQUENCES = {
    "record": "A hidden record may differ in every attribute: whole records are protected, and answers cost more.",
    "attribute": "A hidden record differs in one attribute: cheaper, but a whole record costs epsilon for each.",
    "public": "Everybody may know how many rows there are, and whose.",
    "secret": "Nobody learns whether somebody is in the table; any two records are then at most two steps apart.",
    "only": "Classical differential privacy: only whether a record is there is hidden.",
    "row": "Somebody with several rows is protected less. After the first answer this cannot become a person.",
    "person": "All counted rows of a person are one secret; answers about rows cost that many times more.",
}
UNITS = {"row": "Each row", "person": "All rows of a person"}
PERSON_FIELDS = ("Column that tells people apart", "Rows of each that count", "Row key: the first rows by it count")
FEWEST_TOGETHER = 2
LONGEST_TEXT = 2000
"""What an address may bring along for one attribute."""


def read_person(id: str, at_most: str, order_by: str) -> Person:
    """The unit that three fields declare; PolicyError says what is missing."""
    if not id.strip() or not order_by.strip():
        raise PolicyError("name the column that tells people apart, and the row key by which their rows are taken")
    if not at_most.strip().isdecimal():
        raise PolicyError("say how many rows of each person count: a whole number, at least 1")
    return person(id.strip(), at_most=int(at_most[:9]), order_by=order_by.strip())


ACCOUNTING = {
    SUM: "The losses of all answers are added up.",
    PER_EDGE: "Losses are added up for each attribute that can change, and the worst counts. Pays off where records "
    "differ in one attribute at a time.",
}
SEPARATE = "Losses on separate parts of {} run side by side: answers about one part do not count for another."


class DeclarationCard:
    """What else is declared of a dataset: the values and NULL of each attribute, and how losses add up."""

    def __init__(self, context: PageContext, dataset: Dataset, shown: str) -> None:
        self._context, self._dataset, self._shown = context, dataset, shown
        self._columns: Mapping[str, ColumnType] = {}
        heading("What was declared")
        charges = context.auditor().account(dataset.name).charges
        text = (
            "Nothing was answered yet, so all of this can still change. After the first answer an attribute is not "
            "declared in another way any more: neither its values, nor what NULL counts as."
            if not charges
            else f"{plural(charges, 'answer')} rest on this: attributes cannot be declared in another way any more. "
            "Losses can be added up in another way; the worst so far then counts for all."
        )
        notice(text, "" if not charges else "is-accent", "lock_open" if not charges else "lock").style("margin:8px 0")
        ui.label("Values of").classes("bf-label")
        names = list(dataset.domain)
        choose = ui.select(names, value=shown, on_change=lambda event: self._choose(str(event.value)))
        called(choose, "Values of", "declared").classes("w-full")
        self._form = ui.element("div").style("margin-top:6px")
        self._verdict = ui.element("div").props("aria-live=polite").style("margin-top:8px")
        self._save = ui.button("Save the values", icon="check", on_click=self._ask_values)
        self._save.props('unelevated data-testid="save-values"').style("margin-top:10px")
        self._save.disable()
        self._latest = Latest(context, self._verdict, self._judge)
        self._build_accounting()
        self._latest.changed()

    def _choose(self, name: str) -> None:
        self._shown = name
        self._form.clear()
        self._editor = None
        self._latest.changed()

    _editor: ColumnEditor | None = None

    async def _judge(self, is_wanted: IsWanted) -> None:
        """Draws the form once the columns are known, and says what saving would do, or why it is refused."""
        domain, outcome, refusal = self._dataset.domain, None, ""
        if not self._columns:
            curator, source, joins = self._context.curator(), self._dataset.source, self._dataset.joins
            self._columns = await self._context.run(partial(curator.columns, source, joins))
        if self._editor is None:
            self._build_form()
        try:
            changed = self._domain()
            if changed != domain:
                work = partial(self._context.curator().what_would_change, self._dataset.name, domain=changed)
                outcome = await self._context.run(work)
        except (InvalidInput, TooLarge) as error:
            refusal = sentence(error.message)
        if is_wanted():
            self._verdict.clear()
            with self._verdict:
                self._save.set_enabled(_show_change(outcome, refusal))

    def _build_form(self) -> None:
        form, column = column_form_of(self._dataset.domain[self._shown]), self._columns.get(self._shown)
        self._form.clear()
        with self._form:
            if form is None or column is None:
                small("Uneven bins, and clocks of a place, are declared in a document.")
                return
            self._editor = ColumnEditor(
                self._shown, column, lambda _: None, self._latest.changed, form, is_declared_anew=True
            )
            self._editor.build()

    def _domain(self) -> Domain:
        """The domain as it is typed; DomainError says what is missing."""
        domain = self._dataset.domain
        if self._editor is None:
            return domain
        anew = {**dict(domain.attributes), self._shown: self._editor.attribute()}
        return Domain(tuple((name, anew[name]) for name in domain))

    def _ask_values(self) -> None:
        name, domain, tag = self._dataset.name, self._domain(), tag_of(self._dataset.domain)

        async def save(reason: str) -> None:
            await self._context.change(partial(put_in_force, name, tag, domain, reason))
            ui.navigate.to(f"/policies?dataset={quote(name)}&attribute={quote(self._shown)}")

        text = "It is in force for every answer from now on. The first answer makes it final."
        ask_reason(f"Declare {self._shown} anew?", text, "Save", save)

    def _build_accounting(self) -> None:
        dataset = self._dataset
        now = dataset.accounting
        parts = {f"{BY}{name}": f"By parts of {name}" for name in dataset.domain}
        options = {SUM: "As a sum", PER_EDGE: "By attribute", **parts}
        ui.label("How losses add up").classes("bf-label").style("margin-top:18px")
        tip = small(accounting_words(now), "margin-top:4px")

        def show(accounting: str) -> None:
            tip.set_text(accounting_words(accounting))
            change.set_enabled(accounting != now)

        ways = ui.select(options, value=now, on_change=lambda event: show(str(event.value)))
        called(ways, "How losses add up", "accounting").classes("w-full")
        tip.move(target_index=-1)

        async def save(reason: str) -> None:
            sent = NewAccounting(accounting=str(ways.value), reason=reason)
            await self._context.change_here(partial(set_accounting, dataset.name, sent))

        text = "What was spent so far stays spent: the worst of it counts for every part from now on."
        ask = partial(ask_reason, "Add up losses in another way?", text, "Change it", save)
        change = ui.button("Change it", icon="check", on_click=ask)
        change.props('unelevated data-testid="save-accounting"').style("margin-top:10px")
        change.disable()


def accounting_words(accounting: str) -> str:
    """What a way of accounting does, in a sentence."""
    return ACCOUNTING.get(accounting) or SEPARATE.format(parallel_attribute(accounting))


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
    attribute = wanted.get("attribute", "")
    # An attribute that is hidden together with others is shown with them.
    shown = next((form.title for form in joints if attribute in form.names), attribute)
    shown = shown if shown in titles else titles[0]
    if shown in forms and wanted.get("kind") in kinds_for(dataset.domain[shown]):
        forms[shown] = FamilyForm(wanted["kind"], wanted.get("text", "")[:LONGEST_TEXT])
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/policies", curator.datasets(), name)
    if context.curates(name) and not await context.run(lambda: context.app_state.grants.has_analysts(name)):
        with notice(f"Nobody may ask about {name} yet.", icon="key").style("margin-bottom:16px"):
            ui.link("Grant it to analysts", f"/access?dataset={quote(name)}").style("white-space:nowrap")
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
        unit = dataset.policy.unit
        self._unit = "person" if isinstance(unit, Person) else "row"
        self._person = ["", "1", ""] if isinstance(unit, Row) else [unit.id, str(unit.at_most), unit.order_by]
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
                self._tied = card().props('data-testid="constraint-graph"')
                self._in_words = card()
                with self._in_words:
                    heading("In words")
                    self._words = ui.element("div").props("aria-live=polite")
                if self._is_curator:
                    with card().props('data-testid="declaration"'):
                        DeclarationCard(context, dataset, self._names()[0])
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
            unit=ROW if self._unit == "row" else read_person(*self._person),
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
        ui.label("Whose rows are protected together").classes("bf-label")
        self._build_choice("_unit", UNITS, "Privacy unit")
        self._people = in_row().style("margin-top:8px")
        redraw(self._people, self._build_person)
        ui.label("Public constraints, one per line").classes("bf-label")
        ui.textarea(
            value=self._constraints,
            placeholder="count(age < 18) = 120\nmarginal(ward)",
            on_change=lambda event: self._set("_constraints", event.value),
        ).props('autogrow debounce=300 aria-label="Public constraints" data-testid="constraints"').classes("w-full")
        small(
            "Counts that everybody already knows. They tie records together, and that raises prices.", "margin-top:4px"
        )

    def _build_person(self) -> None:
        def type_in(place: int, value: object) -> None:
            self._person[place] = str(value or "")
            self._latest.changed()

        for place, label in enumerate(PERSON_FIELDS) if self._unit == "person" else ():
            box = ui.input(label, value=self._person[place], on_change=lambda e, n=place: type_in(n, e.value))
            called(box.props("debounce=300"), test_id=f"person-{place}").style("width:100%")

    def _build_choice(self, part: str, options: dict[str, str], label: str) -> None:
        """A choice with its consequence below it."""

        def choose(value: str) -> None:
            consequence.set_text(CONSEQUENCES[value])
            self._set(part, value)
            if part == "_unit":
                redraw(self._people, self._build_person)

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
        name, policy, tag = self._dataset.name, self._policy(), tag_of(self._dataset.policy)
        await self._context.change(partial(put_in_force, name, tag, policy, reason))
        ui.navigate.to(f"/policies?dataset={quote(name)}&attribute={quote(self._shown)}")

    async def _refresh(self, is_wanted: IsWanted) -> None:
        """Draws the graph, the words and the consequences of the policy as it is now."""
        policy: Policy | None = None
        change: tuple[VersionChange, Stretch] | None = None
        tied: ConstraintsView | None = None
        refusal, told = "", set[str]()
        try:
            curator = self._context.auditor()
            policy = self._policy()
            if policy.constraints:
                tied = await self._context.run(partial(view_constraints, self._dataset.domain, policy))
            if policy != self._dataset.policy:
                work = partial(curator.what_would_change, self._dataset.name, policy=policy)
                change = await self._context.run(work)
        except (CannotCertify, InvalidInput, TooLarge) as error:
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
            told.add(refusal)
        self._picture.clear()
        self._words.clear()
        self._tied.clear()
        self._tied.set_visibility(tied is not None)
        if tied is not None:
            with self._tied:
                _draw_constraints(tied, told)
        if policy is not None and self._shown in self._forms:
            with self._picture:
                draw_graph(self._dataset.domain, policy, self._shown, self._around, told)
        self._question.draw(policy, told)
        explained = policy if tied is None or not tied.refusal else None
        self._in_words.set_visibility(explained is not None)
        if explained is not None:
            with self._words:
                self._show_words(explained)

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
                    bullets(sentences)
        if far:
            with ui.expansion("The other attributes").classes("w-full"):
                bullets(far)


def _draw_constraints(view: ConstraintsView, told: set[str]) -> None:
    """Draws which public constraints are tied together, with what each costs by itself and all together."""
    heading("What the public constraints tie together")
    _show_picture(constraints_svg(view), "Picture of the constraints")
    is_told = view.refusal != "" and sentence(view.refusal) in told
    for line in ("All together have no price.",) if is_told else view.words():
        small(line)
    told.add(sentence(view.refusal))
    columns = ["Constraint", "Multiplies prices by itself", "Tied to"]
    listed_table(columns, len(columns), view.rows(), "Each constraint, its cost by itself, and those it is tied to")


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
