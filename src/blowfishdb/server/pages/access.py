"""Who may do what: roles on a dataset, questions that wait for a yes; users, groups and tokens; one's account."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial

from nicegui import ui

from blowfishdb.errors import plural
from blowfishdb.model.numbers import show
from blowfishdb.present.words import minute_words
from blowfishdb.server.auth.approvals import DAYS, Approval
from blowfishdb.server.auth.grants import ACCOUNTS, GROUP, ROLES, SCOPES, Grant
from blowfishdb.server.auth.users import Token, User
from blowfishdb.server.pages.controls import (
    Heading,
    TableCell,
    ask_after_warning,
    ask_text,
    blame,
    blaming,
    called,
    card,
    decision,
    empty,
    figure,
    heading,
    icon_button,
    in_row,
    link_button,
    notice,
    opened_dialog,
    pill,
    plain_table,
    small,
    spread,
)
from blowfishdb.server.pages.history import approval_state
from blowfishdb.server.pages.layout import PASSWORD, PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.pages.result import code_block
from blowfishdb.server.rest import access as rest
from blowfishdb.server.rest import users as accounts

DUTIES = {
    "analyst": "asks questions about it and spends its budget",
    "curator": "changes its policy and budget, grants it to others, says yes or no to questions",
    "auditor": "reads its policy, its ledger and its log; asks and changes nothing",
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
        columns = [
            Heading("Who"),
            Heading("Role"),
            Heading("Limit", "is-number"),
            Heading("Granted", "is-time is-spare"),
        ]
        plain_table([*columns, Heading("")], [_row(context, one) for one in grants], "Grants")
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


def _row(context: PageContext, grant: Grant) -> list[TableCell]:
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
            if not who.value:
                blame(who, "Choose a user or a group.")
                return
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

    async def set_above(typed: str) -> None:
        await context.change_here(partial(rest.set_threshold, name, rest.NewThreshold(epsilon=typed or None)))

    usual = "" if above is None else show(above)
    title = f"Which questions about {name} wait?"
    ask_text(title, text, "Above epsilon", "Set it", set_above, ("above", "set-above"), value=usual, placeholder="0.2")


def _approvals(context: PageContext, asked: list[Approval]) -> None:
    if not asked:
        empty("hourglass_empty", "Nothing waits", "Questions above the price you set will stand here.")
        return
    columns = [Heading("No.", "is-number is-spare"), Heading("Question"), Heading("Epsilon", "is-number")]
    rows = [_approval_row(context, one) for one in sorted(asked, key=lambda one: one.state != "waiting")]
    plain_table([*columns, Heading("Your answer")], rows, "Approvals")
    waiting = sum(one.state == "waiting" for one in asked)
    small(
        f"{plural(waiting, 'question')} to decide. A yes is good for one release within {DAYS} days.", "margin-top:8px"
    )


def _approval_row(context: PageContext, one: Approval) -> list[TableCell]:
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
    ask_text(
        f"No to number {one.number}?",
        f"{one.analyst} reads your reason.",
        "Why",
        "Refuse it",
        decide,
        ("why", "refuse"),
        placeholder="ask for bins of 5",
        longest=400,
        is_grave=True,
    )


ACCOUNT_DUTIES = {
    "curator": "declares datasets and policies, keeps budgets and users; sees no answers of analysts",
    "analyst": "asks questions and spends budget; sees no data and no ledger",
    "auditor": "reads policies, the ledger and the audit log; changes nothing",
}


@page(
    "/users", "Users", "curate", everywhere=True, lead="Who may do what. Passwords are made for one use and shown once."
)
async def users(context: PageContext) -> None:
    """Everybody, and the form for one more."""
    context.check("curate")
    state = context.app_state
    everybody, tokens, groups = await context.run(
        lambda: (state.users.all(), state.tokens.all(), state.grants.groups())
    )
    with card():
        heading("Let somebody in")
        _user_form(context)
    with card():
        heading(plural(len(everybody), "user"))
        since = Heading("Since (UTC)", "is-time is-spare")
        columns = [Heading("Name"), Heading("Role"), Heading("State"), since, Heading("")]
        plain_table(columns, [_user_row(context, user) for user in everybody], "Users")
    with card():
        with spread():
            heading("Groups")
            ui.button("New group …", icon="group_add", on_click=partial(_ask_group, context, "", [])).props(
                'outline data-testid="new-group"'
            )
        text = "A dataset is granted to a group on the page Access; what holds for it holds for all its members."
        small(text, "margin:2px 0 12px")
        if groups:
            rows = [_group_row(context, name, members) for name, members in groups.items()]
            plain_table([Heading("Group"), Heading("Members"), Heading("")], rows, "Groups")
    with card():
        heading("Tokens of tools")
        text = (
            "On the PostgreSQL port a tool spends nothing by itself, unless its token has a cap. A token with a cap "
            "may spend up to it in all, REST included."
        )
        small(text, "margin:2px 0 12px;max-width:84ch")
        columns = [
            Heading("Of"),
            Heading("What for"),
            Heading("Until", "is-time is-spare"),
            Heading("Cap", "is-number"),
        ]
        columns += [Heading("Spent", "is-number"), Heading("")]
        asking = [_token_row(context, token) for token in tokens if "ask" in token.scopes]
        if asking:
            plain_table(columns, asking, "Tokens")
        else:
            small("No analyst has made a token yet.")


def _user_form(context: PageContext) -> None:
    row = in_row().style("margin-top:12px;align-items:flex-start")
    text = small(ACCOUNT_DUTIES["analyst"], "margin-top:8px")
    with row:
        name = ui.input("Name").props('maxlength=100 data-testid="new-name"').style("width:220px")
        role = ui.select(
            list(ROLES), value="analyst", label="Role", on_change=lambda e: text.set_text(ACCOUNT_DUTIES[e.value])
        )
        role.props('data-testid="new-role"').style("width:150px")

        async def add() -> None:
            sent = accounts.NewUser(name=name.value.strip(), role=str(role.value))
            with blaming(name):
                _show_password(await context.change(partial(accounts.add, sent)))

        ui.button("Add", icon="person_add", on_click=add).props('unelevated data-testid="add-user"')


def _user_row(context: PageContext, user: User) -> list[TableCell]:
    def state() -> None:
        if user.is_disabled:
            pill("shut out", "is-bad")
        elif user.must_change:
            pill("first password", "is-accent")
        else:
            pill("active", "is-good")

    return [user.name, user.role, state, minute_words(user.created), lambda: _buttons(context, user)]


def _buttons(context: PageContext, user: User) -> None:
    disable = partial(accounts.disable, user.name, accounts.Disabled(disabled=not user.is_disabled))

    async def renew() -> None:
        _show_password(await context.change(partial(accounts.new_one, user.name)))

    with in_row().style("gap:2px;justify-content:flex-end"):
        if user.name != context.identity.name:
            ui.button("New password", on_click=renew).props("flat dense")
            word, colour = ("Let in again", "primary") if user.is_disabled else ("Shut out", "negative")
            button = ui.button(word, on_click=partial(context.change_here, disable)).props(f"flat dense color={colour}")
            called(button, test_id=f"disable-{user.name}")
        else:
            small("you", "padding:6px 8px")


def _group_row(context: PageContext, name: str, members: list[str]) -> list[TableCell]:
    def button() -> None:
        change = ui.button("Change …", on_click=partial(_ask_group, context, name, members)).props("flat dense")
        called(change, f"Change the members of {name}", f"group-{name}")

    return [name, ", ".join(members), button]


def _ask_group(context: PageContext, name: str, members: list[str]) -> None:
    """A dialog that says who is in a group."""
    people = [user.name for user in context.app_state.users.all()]
    with opened_dialog(f"Who is in {name}?" if name else "A new group") as dialog:
        field = ui.input("Name", value=name or GROUP, placeholder="@cardiology").props('data-testid="group-name"')
        field.classes("w-full").style("margin-top:12px").set_enabled(not name)
        chosen = ui.select(people, value=members, multiple=True, label="Members").props(
            'use-chips data-testid="members"'
        )
        chosen.classes("w-full").style("margin-top:12px")

        async def save() -> None:
            sent = rest.Members(members=list(chosen.value or []))
            with blaming(chosen if name else field):
                await context.change_here(partial(rest.set_group, (field.value or "").strip(), sent))

        decision(dialog, "Save it", save, test_id="save-group")


def _token_row(context: PageContext, token: Token) -> list[TableCell]:
    cap, spent = ("none", "") if token.cap is None else (figure(token.cap), figure(token.spent))
    label = f"Cap of {token.label} of {token.name}"

    def button() -> None:
        with in_row().style("justify-content:flex-end"):
            called(ui.button("Set cap", on_click=lambda: _ask_cap(context, token)).props("flat dense"), label)

    return [token.name, token.label, token.until, cap, spent, button]


def _ask_cap(context: PageContext, token: Token) -> None:
    """A dialog that sets the most to be spent with a token, or takes the cap away."""
    title = f"What may {token.label} of {token.name} spend?"
    text = (
        "In all, including what was spent under an earlier cap; the tool spends it without asking. Leave it empty to "
        "remove the cap."
    )

    async def set_cap(typed: str) -> None:
        await context.change_here(partial(accounts.set_cap, token.name, token.id, accounts.Cap(epsilon=typed or None)))

    usual = "" if token.cap is None else show(token.cap)
    ask_text(title, text, "Epsilon", "Set it", set_cap, ("cap", "set-cap"), value=usual, placeholder="0.2")


def _show_password(user: Mapping[str, str]) -> None:
    """The one time that a password is shown."""
    text = "It is shown this once and must be changed at the first sign-in. Pass it on in person."
    with opened_dialog(f"The first password of {user['name']}", text, width=440) as dialog:
        dialog.props("persistent")
        ui.label(user["password"]).classes("bf-code").style("margin-top:12px").props('data-testid="password"')
        with in_row().style("justify-content:flex-end;margin-top:18px"):
            ui.button("Done", on_click=lambda: ui.navigate.to("/users")).props('unelevated data-testid="done"')


TOKEN_DAYS = {7: "a week", 30: "30 days", 90: "90 days", 365: "a year"}


@page("/account", "Your account", *SCOPES, lead="Your password, and tokens with which programs act in your name.")
async def account(context: PageContext) -> None:
    """The page."""
    with card(), spread():
        with ui.element("div"):
            heading(context.identity.name)
            small(f"Role: {context.identity.role}")
        link_button("Change password", PASSWORD, "key", "outline")
    with card():
        heading("Tokens")
        does = "ask as you, with your budget" if "ask" in context.identity.scopes else "do what you may do"
        text = f"A token lets a script or a notebook {does}. Its secret is shown once."
        small(text, "margin:2px 0 12px")
        TokenList(context)


class TokenList:
    """The tokens, and the form for one more."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        with in_row().style("align-items:flex-start"):
            self._label = ui.input("What for?", placeholder="my notebook").props("maxlength=100")
            self._days = ui.select(TOKEN_DAYS, value=30, label="For").style("width:130px")
            ui.button("Make a token", icon="add", on_click=self._make).props("unelevated")
        self._secret, self._list = ui.element("div"), ui.element("div").style("margin-top:14px")
        self._show()

    def _make(self) -> None:
        caller, label = self._context.caller(*SCOPES), (self._label.value or "").strip()
        self._secret.clear()
        with blaming(self._label):
            sent = accounts.NewToken(label=label, scopes=sorted(caller.identity.scopes), days=self._days.value)
            secret = accounts.issue(sent, caller)["secret"]
            with self._secret:
                notice("Copy it now: it is not shown again.", "is-accent", "key").style("margin:14px 0 10px")
                url = caller.app_state.settings.url
                code_block(f'import blowfishdb as bf\n\ndb = bf.connect({url!r}, token="{secret}")')
            self._label.value = ""
            self._show()

    def _end(self, token: Token) -> None:
        accounts.revoke(token.id, self._context.caller(*SCOPES))
        self._show()

    def _show(self) -> None:
        tokens = self._context.app_state.tokens.of(self._context.identity.name)
        self._list.clear()
        with self._list:
            if not tokens:
                small("You have no tokens.")
            for token in tokens:
                self._row(token)

    def _row(self, token: Token) -> None:
        with in_row().style("padding:6px 0;border-top:1px solid var(--bf-line)"):
            ui.label(token.label).style("flex:1;font-weight:560")
            cap = "" if token.cap is None else f"; {figure(token.spent)} spent of its cap of {figure(token.cap)}"
            small(f"may {' and '.join(token.scopes)}, until {token.until}{cap}")
            icon_button("delete", f"End the token {token.id}", lambda: self._end(token))
