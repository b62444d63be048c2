"""The policy editor: what is hidden of each attribute, drawn and said in words, and what a change does to past loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nicegui import ui

from blowfishdb.catalog.dataset import Dataset
from blowfishdb.catalog.declaring import family_words
from blowfishdb.engine.unprotected import not_protected
from blowfishdb.errors import BlowfishError, VersionMismatch
from blowfishdb.ledger import VersionChange
from blowfishdb.model.cellgraph import Composition, Presence
from blowfishdb.model.explain import explain
from blowfishdb.model.facts.text import write_fact
from blowfishdb.model.policy import Policy
from blowfishdb.server.curating.family_form import FamilyForm, form_of, read_form
from blowfishdb.server.pages.controls import choice
from blowfishdb.server.pages.curator_parts import ask_reason, dataset_choice, dress, figure, pill, wanted_dataset
from blowfishdb.server.pages.family_editor import FamilyEditor
from blowfishdb.server.pages.here import Here, sentence
from blowfishdb.server.pages.policy_picture import draw_graph
from blowfishdb.server.pages.shell import heading, notice, page
from blowfishdb.server.rest.documents import policy_tag

COMPOSITIONS = {"record": "All attributes at once", "attribute": "One attribute at a time"}
PRESENCES = {"public": "Public", "secret": "Hidden too", "only": "Only that is hidden"}
PAUSE = 0.25
"""Seconds without a change after which everything is worked out anew."""


@dataclass(eq=False)
class Draft:
    """The policy as it is being edited, beside the one in force."""

    here: Here
    dataset: Dataset
    forms: dict[str, FamilyForm]
    composition: Composition
    presence: Presence
    facts: str
    shown: str
    around: str = ""
    parts: dict[str, ui.element] = field(default_factory=dict)

    def policy(self) -> Policy:
        """What the forms declare; PolicyError names the first thing that makes no sense."""
        old, domain = self.dataset.policy, self.dataset.domain
        families = {}
        for name, said in self.forms.items():
            kept = name not in old.attributes and said.kind == "full"
            if not kept:
                families[name] = read_form(said, domain[name])
        facts = [line.strip() for line in self.facts.splitlines() if line.strip()]
        texts = {write_fact(fact): fact for fact in old.facts}
        new = replace(
            old,
            attributes=families,
            composition=self.composition,
            presence=self.presence,
            constraints=[texts.get(line, line) for line in facts],
        )
        new.check(domain)
        return new


@page("/policies", "Policies", "curate", "audit", lead="What is hidden, what is not, and what a change would do.")
def policies(here: Here) -> None:
    """The editor of one dataset's policy; auditors read it."""
    dress()
    curator = here.auditor()
    name = wanted_dataset(here, curator.datasets())
    if name is None:
        return
    dataset = curator.dataset(name)
    policy = dataset.policy
    own = [one for one in dataset.domain if policy.grid_of(one) is None]
    draft = Draft(
        here,
        dataset,
        {one: form_of(policy.family(one)) for one in own},
        policy.composition,
        policy.presence,
        "\n".join(write_fact(fact) for fact in policy.facts),
        here.request.query_params.get("attribute", "") if here.request.query_params.get("attribute") in own else own[0],
    )
    with ui.element("div").classes("bf-row").style("justify-content:flex-end;margin:-58px 0 20px"):
        dataset_choice("/policies", curator.datasets(), name)
    with ui.element("div").classes("bf-editor"):
        with ui.element("section").classes("bf-card"):
            _attributes(draft)
        with ui.element("div"):
            with ui.element("section").classes("bf-card"):
                _picture_card(draft)
            with ui.element("section").classes("bf-card"):
                heading("In words")
                draft.parts["words"] = ui.element("div").props("aria-live=polite")
            with ui.element("section").classes("bf-card"):
                _change_card(draft)
    _refresh(draft)


def _attributes(draft: Draft) -> None:
    """The left side: one attribute at a time, then what holds for whole records."""
    is_curator = "curate" in draft.here.visitor.scopes
    heading("What is hidden")
    ui.label("of").classes("bf-label")
    ui.select(list(draft.forms), value=draft.shown, on_change=lambda event: choose(str(event.value))).props(
        'outlined dense options-dense aria-label="Attribute" data-testid="attribute"'
    ).classes("w-full")
    room = ui.element("div").style("margin-top:12px")

    def choose(name: str) -> None:
        draft.shown, draft.around = name, ""
        draw()
        _refresh(draft)

    def changed(said: FamilyForm) -> None:
        draft.forms[draft.shown] = said
        _soon(draft)

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
    def set_part(part: str, value: str) -> None:
        setattr(draft, part, value)
        _soon(draft)

    ui.separator().style("margin:18px 0 4px")
    ui.label("Between two hidden records, what differs").classes("bf-label")
    choice(COMPOSITIONS, draft.composition, lambda value: set_part("composition", value), "Composition")
    ui.label("Whether somebody's row is there").classes("bf-label")
    choice(PRESENCES, draft.presence, lambda value: set_part("presence", value), "Presence")
    ui.label("Public facts, one per line").classes("bf-label")
    ui.textarea(
        value=draft.facts,
        placeholder="count(age < 18) = 120\nmarginal(ward)",
        on_change=lambda event: set_part("facts", str(event.value or "")),
    ).props('outlined dense autogrow debounce=300 aria-label="Public facts" data-testid="facts"').classes("w-full")
    ui.label("Counts that everybody knows already. They tie records together, and what ties costs.").classes(
        "bf-small bf-quiet"
    ).style("margin-top:4px")


def _picture_card(draft: Draft) -> None:
    with ui.element("div").classes("bf-spread"):
        draft.parts["title"] = ui.element("div")

        def look(text: object) -> None:
            draft.around = str(text or "")
            _soon(draft)

        ui.input("Around this value", on_change=lambda event: look(event.value)).props(
            "outlined dense debounce=300"
        ).style("width:170px")
    draft.parts["picture"] = ui.element("div").style("margin-top:8px")


def _change_card(draft: Draft) -> None:
    heading("What saving does to past loss")
    draft.parts["change"] = ui.element("div").props("aria-live=polite").style("margin-top:8px")
    if "curate" not in draft.here.visitor.scopes:
        return

    async def save(reason: str) -> None:
        here, name = draft.here, draft.dataset.name
        curator = here.curator()
        new = draft.policy()

        def work() -> VersionChange:
            with here.office.editing:
                if policy_tag(curator.dataset(name).policy) != policy_tag(draft.dataset.policy):
                    raise VersionMismatch("policy", policy_tag(curator.dataset(name).policy))
                return curator.set_policy(name, new, reason=reason)

        change = await here.run(work)
        here.office.actions.note(here.visitor.name, "changed a policy", name, {"version": change.next_version})
        ui.navigate.to(f"/policies?dataset={name}&attribute={draft.shown}")

    said = "It is in force for every answer from now on, and the reason is kept in the ledger."
    button = ui.button(
        "Save the policy", icon="check", on_click=lambda: ask_reason("Put it in force?", said, "Save", save)
    )
    draft.parts["save"] = button.props('unelevated data-testid="save"').style("margin-top:14px")


def _soon(draft: Draft) -> None:
    """Works everything out once nothing has changed for a moment."""
    waiting = draft.parts.pop("timer", None)
    if waiting is not None:
        waiting.delete()
    with draft.parts["words"].parent_slot or ui.element("div"):
        draft.parts["timer"] = ui.timer(PAUSE, lambda: _refresh(draft), once=True)


def _refresh(draft: Draft) -> None:
    draft.parts.pop("timer", None)
    for part in ("title", "picture", "words", "change"):
        draft.parts[part].clear()
    with draft.parts["title"]:
        heading(f"The graph of {draft.shown}")
    try:
        policy = draft.policy()
    except BlowfishError as error:
        with draft.parts["picture"]:
            notice(sentence(error.message), "is-accent", "edit")
        _allow(draft, possible=False)
        return
    with draft.parts["picture"]:
        draw_graph(draft.dataset.domain, policy, draft.shown, draft.around)
    with draft.parts["words"]:
        _words(draft, policy)
    with draft.parts["change"]:
        _change(draft, policy)


def _words(draft: Draft, policy: Policy) -> None:
    domain = draft.dataset.domain
    hidden, told = explain(domain, policy), not_protected(domain, policy)
    with ui.element("div").classes("bf-two").style("margin-top:10px"):
        for title, icon, kind, said in (
            ("Protected", "verified_user", "good", hidden),
            ("Not protected", "visibility", "accent", told or ("Nothing: everything about a record is hidden.",)),
        ):
            with ui.element("div"):
                with ui.element("div").classes("bf-row").style("gap:7px"):
                    ui.icon(icon).style(f"color:var(--bf-{kind});font-size:19px").props("aria-hidden=true")
                    ui.label(title).style("font-weight:620")
                with ui.element("ul").classes("bf-list"):
                    for text in said:
                        with ui.element("li"):
                            ui.label(sentence(text))


def _change(draft: Draft, policy: Policy) -> None:
    """What would happen to what past answers promised."""
    if policy == draft.dataset.policy:
        ui.label("Nothing has been changed yet.").classes("bf-quiet")
        _allow(draft, possible=False)
        return
    try:
        change, stretch = draft.here.auditor().what_would_change(draft.dataset.name, policy=policy)
    except BlowfishError as error:
        notice(sentence(error.message), "is-bad", "block")
        _allow(draft, possible=False)
        return
    if change.refusal is not None:
        notice(f"{sentence(change.refusal)} {sentence(stretch.why)}", "is-bad", "block")
        _allow(draft, possible=False)
        return
    times = figure(change.stretch)
    ui.label(
        f"Version {change.next_version}. Past loss counts {times} times: epsilon {figure(change.spent_before)} spent "
        f"becomes {figure(change.spent_after)} of {figure(change.limit)}."
    ).style("font-weight:560")
    ui.label(sentence(stretch.why)).classes("bf-small bf-quiet").style("margin-top:2px")
    _allow(draft, possible=True)


def _allow(draft: Draft, *, possible: bool) -> None:
    button = draft.parts.get("save")
    if isinstance(button, ui.button):
        button.set_enabled(possible)
