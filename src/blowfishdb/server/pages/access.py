"""Access: who may use a dataset and in which role, and questions that wait for a curator's yes."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from nicegui import ui

from blowfishdb.errors import plural
from blowfishdb.model.numbers import show
from blowfishdb.server.auth.approvals import DAYS, Approval
from blowfishdb.server.auth.grants import ACCOUNTS, GROUP, ROLES, Grant
from blowfishdb.server.pages.controls import (
    Cell,
    Column,
    ask_after_warning,
    blaming,
    called,
    card,
    decision,
    empty,
    figure,
    heading,
    in_row,
    opened_dialog,
    plain_table,
    small,
    spread,
)
from blowfishdb.server.pages.history import approval_state
from blowfishdb.server.pages.layout import PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.rest import access as rest

DUTIES = {
    "analyst": "asks questions about it and spends its budget",
    "curator": "changes its policy and budget, grants it to others, says yes or no to questions",
    "auditor": "reads its policy, its books and its log; asks and changes nothing",
}
"""What a role on one dataset lets somebody do."""
EVERYBODY = {group: f"all accounts of the role {role}" for group, role in ACCOUNTS.items()}


@page("/access", "Access", "curate", lead="For everybody who is not on this list, the dataset does not exist.")
async def access(context: PageContext) -> None:
    """Who may use one dataset, and what waits for a yes."""
    curator, state = context.curator(), context.app_state
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    grants, above, asked = await context.run(
        lambda: (state.grants.of(name), state.approvals.above(name), state.approvals.of(name))
    )
    holders = await context.run(lambda: [user.name for user in state.users.all()] + sorted(state.grants.groups()))
    with ui.element("div").classes("bf-row bf-actions"):
        dataset_choice("/access", curator.datasets(), name)
    with card():
        heading(f"Who may use {name}")
        columns = [Column("Who"), Column("Role"), Column("Limit", "is-number"), Column("Granted", "is-time is-spare")]
        plain_table([*columns, Column("")], [_row(context, one) for one in grants], "Grants")
    with card():
        heading("Grant it")
        _form(context, name, [*holders, *ACCOUNTS])
    with card():
        with spread():
            heading("Questions that wait for a yes")
            button = ui.button("Change …", on_click=partial(_ask_above, context, name, above)).props("outline")
            called(button, "Change the price from which questions wait", "ask-first")
        rule = "No question waits: analysts spend what their limits allow."
        if above is not None:
            rule = f"Questions above epsilon {figure(above)} wait here. Nothing is charged and no data is read before."
        small(rule, "margin:4px 0 12px").props('data-testid="rule"')
        _approvals(context, asked)


def _row(context: PageContext, grant: Grant) -> list[Cell]:
    def who() -> None:
        ui.label(grant.holder)
        if grant.holder in EVERYBODY:
            small(EVERYBODY[grant.holder])

    def revoke() -> None:
        label = f"Revoke the role {grant.role} of {grant.holder}"
        button = ui.button("Revoke …", on_click=partial(_ask_revoke, context, grant)).props("flat dense color=negative")
        called(button, label, f"revoke-{grant.holder}-{grant.role}")

    limit = "" if grant.epsilon is None else f"{figure(grant.epsilon)}{' each' if grant.holder[0] == GROUP else ''}"
    since = f"{grant.at[:10]} by {grant.by}" if grant.at else "as usual here"
    return [who, grant.role, limit, since, revoke]


def _ask_revoke(context: PageContext, grant: Grant) -> None:
    async def revoke() -> None:
        await context.change(lambda caller: rest.revoke(grant.dataset, grant.holder, caller, grant.role))
        ui.navigate.to(f"/access?dataset={grant.dataset}" if context.curates(grant.dataset) else "/access")

    text = "Without another role the dataset no longer exists for them, their own answers included. Nothing is deleted."
    title = f"{grant.holder} no longer {grant.role} of {grant.dataset}?"
    ask_after_warning(title, text, "Revoke it", revoke, "confirm-revoke", is_grave=grant.role == "curator")


def _form(context: PageContext, name: str, holders: list[str]) -> None:
    row = in_row().style("margin-top:12px;align-items:flex-start")
    duty = small(f"An analyst {DUTIES['analyst']}.", "margin-top:8px").props("aria-live=polite")
    with row:
        who = ui.select(holders, label="A user or a group", with_input=True).style("min-width:220px")
        who.props('data-testid="holder"')
        role = ui.select(list(ROLES), value="analyst", label="Role on this dataset").style("width:190px")
        limit = ui.input("May spend", placeholder="as everyone").style("width:150px").props('data-testid="limit"')

        def chosen() -> None:
            article = "A" if role.value == "curator" else "An"
            duty.set_text(f"{article} {role.value} {DUTIES[role.value]}.")
            limit.set_visibility(role.value == "analyst")

        role.on_value_change(chosen)
        role.props('data-testid="role"')

        async def grant() -> None:
            typed = (limit.value or "").strip() if role.value == "analyst" else ""
            sent = rest.NewGrant(role=role.value, epsilon=typed or None)
            with blaming(limit if typed else who):
                await context.change_here(partial(rest.grant, name, str(who.value or ""), sent))

        ui.button("Grant", icon="key", on_click=grant).props('unelevated data-testid="grant"')
    small("A limit holds before they first ask; for a group it is what each member may spend.", "margin-top:4px")
    if context.identity.may_everywhere("curate"):
        with in_row().style("gap:4px;margin-top:4px"):
            small("Somebody has no account yet?")
            ui.link("Let them in", "/users").classes("bf-small")


def _ask_above(context: PageContext, name: str, above: Fraction | None) -> None:
    """A dialog that sets the price above which questions wait."""
    text = (
        "What costs more waits until you, or another curator of it, say yes. Many small questions pass below it: "
        "limits bound what they spend together. Empty lets all pass."
    )
    with opened_dialog(f"Which questions about {name} wait?", text) as dialog:
        usual = "" if above is None else show(above)
        field = ui.input("Above epsilon", value=usual, placeholder="0.2").props('autofocus data-testid="above"')
        field.classes("w-full").style("margin-top:12px")

        async def set_above() -> None:
            sent = rest.NewThreshold(epsilon=(field.value or "").strip() or None)
            with blaming(field):
                await context.change_here(partial(rest.set_threshold, name, sent))

        decision(dialog, "Set it", set_above, test_id="set-above")


def _approvals(context: PageContext, asked: list[Approval]) -> None:
    if not asked:
        empty("hourglass_empty", "Nothing waits", "Questions above the price you set will stand here.")
        return
    columns = [Column("No.", "is-number is-spare"), Column("Question"), Column("Epsilon", "is-number")]
    rows = [_approval_row(context, one) for one in sorted(asked, key=lambda one: one.state != "waiting")]
    plain_table([*columns, Column("Your answer")], rows, "Approvals")
    waiting = sum(one.state == "waiting" for one in asked)
    small(
        f"{plural(waiting, 'question')} to decide. A yes is good for one release within {DAYS} days.", "margin-top:8px"
    )


def _approval_row(context: PageContext, one: Approval) -> list[Cell]:
    def question() -> None:
        ui.label(one.question)
        small(f"asked by {one.analyst}, {one.at[:10]}")

    def state() -> None:
        if one.state != "waiting":
            approval_state(one)
            return
        with in_row().style("gap:6px;"):
            for word, approve, looks in (
                ("Yes", True, "unelevated"),
                ("No …", False, "flat color=negative"),
            ):
                button = ui.button(word, on_click=partial(_decide, context, one, approve)).props(looks)
                label = f"{'Approve' if approve else 'Refuse'} number {one.number} of {one.analyst}"
                called(button, label, f"{'yes' if approve else 'no'}-{one.number}")

    return [str(one.number), question, figure(one.epsilon), state]


async def _decide(context: PageContext, one: Approval, approve: bool) -> None:
    async def decide(reason: str = "") -> None:
        sent = rest.Decision(approve=approve, reason=reason)
        await context.change_here(partial(rest.decide, one.dataset, one.number, sent))

    if approve:
        await decide()
        return
    with opened_dialog(f"No to number {one.number}?", f"{one.analyst} reads your reason.") as dialog:
        field = ui.input("Why", placeholder="ask for bins of 5").props('autofocus maxlength=400 data-testid="why"')
        field.classes("w-full").style("margin-top:12px")

        async def refuse() -> None:
            with blaming(field):
                await decide((field.value or "").strip())

        decision(dialog, "Refuse it", refuse, is_grave=True, test_id="refuse")
