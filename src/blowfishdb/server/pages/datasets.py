"""Datasets: what is connected, what is left, and pausing; of each its budgets, its log, and whether that is sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import islice
from urllib.parse import quote

from nicegui import ui

from blowfishdb.catalog.curator import Curator
from blowfishdb.catalog.dataset import Dataset, column_words
from blowfishdb.catalog.guidance import budget_words
from blowfishdb.engine.request import short_number
from blowfishdb.errors import BlowfishError, plural, sentence
from blowfishdb.ledger import Account, AnalystBudget, Entry
from blowfishdb.present.words import minute_words
from blowfishdb.server.auth.grants import GROUP
from blowfishdb.server.authentication import Caller
from blowfishdb.server.pages.controls import (
    Heading,
    TableCell,
    ask_reason,
    called,
    card,
    empty,
    figure,
    heading,
    in_row,
    limit_bar,
    link_button,
    notice,
    pill,
    plain_table,
    redraw,
    small,
    spread,
)
from blowfishdb.server.pages.layout import PageContext, dataset_choice, page, wanted_dataset
from blowfishdb.server.rest import datasets as rest


@page("/datasets", "Datasets", "curate", lead="What is connected, what the public may know of it, and what is left.")
async def datasets(context: PageContext) -> None:
    """One card for each dataset."""
    curator = context.curator()
    names = curator.datasets()
    with ui.element("div").classes("bf-row bf-actions"):
        if context.identity.may_everywhere("curate"):
            called(link_button("Add a dataset", "/datasets/add", "add"), test_id="add")
    if not names:
        with card():
            text = "Add a table by its address, or send a file. Its columns are read; its rows are not."
            empty("storage", "Nothing is connected yet", text)
        return
    for name in names:
        dataset = curator.dataset(name)
        try:
            account = await context.run(partial(curator.account, name))
        except BlowfishError as error:
            with card():
                heading(name)
                notice(sentence(error.message), "is-bad", "error")
            continue
        _card(context, dataset, account)


def _card(context: PageContext, dataset: Dataset, account: Account) -> None:
    pause = context.app_state.pauses.of(dataset.name)
    with called(card(), dataset.name):
        with spread():
            with in_row():
                heading(dataset.name).classes("bf-title")
                pill(f"policy version {account.policy_version}", "is-brand")
                if pause is not None:
                    pill("paused", "is-accent")
            _links(context, dataset.name, is_paused=pause is not None)
        ui.label(dataset.source).classes("bf-mono bf-quiet").style("margin-top:4px;overflow-wrap:anywhere")
        if pause is not None:
            notice(f"Paused by {pause.by}: {pause.reason}", "is-accent", "pause_circle").style("margin-top:10px")
        with ui.element("div").style("margin:14px 0 12px;max-width:560px"):
            limit_bar(account.spent, account.limit, f"Budget of {dataset.name}")
        rows = [column_words(dataset, name) for name in dataset.domain]
        plain_table([Heading("Attribute"), Heading("The public may know"), Heading("Hidden")], rows, "Attributes")


def _links(context: PageContext, name: str, *, is_paused: bool) -> None:
    with in_row().style("gap:4px"):
        for label, icon, path in (
            ("Policy", "hub", "/policies"),
            ("Trade-off", "balance", "/trade-off"),
            ("Log", "receipt_long", "/ledger"),
        ):
            link_button(label, f"{path}?dataset={quote(name)}", icon, "flat dense no-caps")
        pause_button(context, name, is_paused=is_paused)
        more = ui.button(icon="more_vert").props("flat dense")
        with called(more, f"More about {name}", f"more-{name}"), ui.menu():
            _upkeep(context, name)


def _upkeep(context: PageContext, name: str) -> None:
    """What is done seldom: noting new rows, and taking a dataset out."""

    async def refreshed(description: str) -> None:
        sent = rest.Description(description=description, numbers_hold=True)
        await context.change(partial(rest.refreshed, name, sent))
        ui.notify("Noted: answers about the old rows no longer replay.", position="top")

    async def remove(reason: str) -> None:
        await context.change(lambda caller: rest.remove(name, caller, reason))
        ui.navigate.to("/datasets")

    fresh = (
        "Old answers no longer replay, and what was spent stays spent: new rows do not make people forget old answers. "
        "Numbers that public constraints give must be true of the new rows: put new ones in force first."
    )
    gone = (
        "Analysts can no longer ask about it. Its account, and what was spent, stay in the ledger should it come back."
    )
    ask_fresh = partial(ask_reason, f"New rows in {name}?", fresh, "Note it", refreshed)
    ask_gone = partial(ask_reason, f"Remove {name}?", gone, "Remove it", remove, is_grave=True)
    ui.menu_item("Rows were refreshed …", ask_fresh).props('data-testid="refreshed"')
    ui.menu_item("Remove …", ask_gone).props('data-testid="remove"')


def pause_button(context: PageContext, name: str, *, is_paused: bool) -> None:
    """Pauses a dataset, with a reason that analysts read, or resumes it."""

    async def pause(reason: str) -> None:
        await context.change_here(partial(rest.pause, name, rest.Reason(reason=reason)))

    if is_paused:
        resume = partial(context.change_here, partial(rest.go_on, name))
        ui.button("Go on", icon="play_circle", on_click=resume).props('flat dense data-testid="resume"')
        return
    text = "Nobody can preview or release until it is resumed. Analysts read the reason; earlier answers stay readable."
    ask = partial(ask_reason, f"Pause {name}?", text, "Pause it", pause)
    ui.button("Pause", icon="pause_circle", on_click=ask).props('flat dense data-testid="pause"')


SHOWN = 100
NUMBER, WHEN = Heading("No.", "is-number is-spare"), Heading("When (UTC)", "is-time")
LOG = (NUMBER, WHEN, Heading("Who"), Heading("What"), Heading("Epsilon", "is-number"))
AUDIT_LOG = (NUMBER, WHEN, Heading("Who"), Heading("Did", "is-short"), Heading("To"), Heading("Detail"))
LIMITS = {
    "all": (
        "What {name} may lose in all",
        "It can only be raised. What was spent stays spent, and every analyst's odds of learning grow with it.",
    ),
    "everyone": (
        "What each analyst may spend on {name}",
        "For everybody without an individual limit. Empty: only the overall limit holds.",
    ),
    "analyst": ("What {analyst} may spend on {name}", "Empty: the limit of everyone holds again."),
}
"""Whose limit is asked for: the title of the dialog and what it means."""


@page("/ledger", "Budget and log", "curate", "audit", lead="Who asked what, what it cost, and what is left.")
async def ledger(context: PageContext) -> None:
    """The budget of one dataset, its log, and the audit log."""
    curator = context.auditor()
    name = wanted_dataset(context, curator.datasets())
    if name is None:
        return
    account = await context.run(lambda: curator.account(name))
    with ui.element("div").classes("bf-row bf-actions"):
        ui.link("Its policy", f"/policies?dataset={quote(name)}").style("margin-right:6px")
        dataset_choice("/ledger", curator.datasets(), name)
    with ui.element("div").classes("bf-two"):
        with card():
            _budget(context, name, account)
        with card():
            _verification(context, name)
    with card().style("margin-top:16px"):
        _analysts(context, name, *await context.run(lambda: _spenders(context, curator, name)))
    with card():
        await _logs(context, curator, name)


def _budget(context: PageContext, name: str, account: Account) -> None:
    pause = context.app_state.pauses.of(name)
    is_curator = context.curates(name)
    with spread():
        heading(f"Budget of {name}")
        if pause is not None:
            pill("paused", "is-accent")
    with in_row().style("align-items:baseline;margin:10px 0"):
        ui.label(figure(account.remaining)).classes("bf-big").props('data-testid="left"')
        charged = f"{plural(account.charges, 'answer')} charged"
        ui.label(f"epsilon left of {figure(account.limit)}; {charged}").classes("bf-quiet")
    limit_bar(account.spent, account.limit, f"Budget of {name}")
    each = "only the limit in all" if account.analyst_limit is None else f"epsilon {figure(account.analyst_limit)}"
    small(f"Each analyst may spend: {each}.", "margin-top:8px")
    if pause is not None:
        notice(f"Paused by {pause.by}: {pause.reason}", "is-accent", "pause_circle").style("margin-top:10px")
    if is_curator:
        with in_row().style("margin-top:12px;gap:4px"):
            for label, icon, whose in (("Raise it …", "add_circle", "all"), ("Limit everyone …", "groups", "everyone")):
                ui.button(label, icon=icon, on_click=partial(_ask_limit, context, name, whose)).props("flat dense")
            pause_button(context, name, is_paused=pause is not None)


def _verification(context: PageContext, name: str) -> None:
    heading("Is the ledger sound?")
    small(
        "Every entry is chained to the one before it. A check recomputes all hashes and all balances.",
        "margin:4px 0 12px",
    )
    room = ui.element("div").props("aria-live=polite").style("margin-bottom:12px")

    async def check() -> None:
        curator = context.auditor()
        redraw(room, lambda: ui.spinner(size="28px"))
        outcome = await context.run(curator.verify)
        line = await context.run(context.app_state.audit_log.first_fault)
        room.clear()
        with room:
            if outcome.fault is not None:
                where = "" if outcome.fault.sequence is None else f" at entry {outcome.fault.sequence}"
                notice(f"Not sound{where}: {outcome.fault.reason}.", "is-bad", "gpp_bad")
            elif line is not None:
                notice(f"The audit log was changed at line {line}.", "is-bad", "gpp_bad")
            else:
                entries = plural(outcome.entries, "entry", "entries")
                notice(f"Sound: {entries} and the audit log, as recomputed.", "", "verified")
                head = ui.label(f"head {outcome.head}").classes("bf-mono bf-quiet")
                head.style("overflow-wrap:anywhere;margin-top:6px")

    with in_row():
        ui.button("Check the ledger", icon="fact_check", on_click=check).props('unelevated data-testid="verify"')
        export = f"/api/v1/ledger/export?dataset={quote(name)}"
        called(link_button("Export", export, "download", "flat"), test_id="export")
        record = f"/api/v1/ledger/record?dataset={quote(name)}"
        called(link_button("Record of processing", record, "description", "flat"), test_id="record")


def _spenders(context: PageContext, curator: Curator, name: str) -> tuple[list[AnalystBudget], list[str]]:
    """What each analyst spent, and analysts to whom it was granted by name or group and who have not asked yet."""
    budgets, grants = curator.analysts(name), context.app_state.grants
    groups = grants.groups()
    granted = {
        person
        for grant in grants.of(name)
        if grant.role == "analyst"
        for person in groups.get(grant.holder, [grant.holder])
        if not person.startswith(GROUP)
    }
    return budgets, sorted(granted - {budget.analyst for budget in budgets})


def _analysts(context: PageContext, name: str, budgets: list[AnalystBudget], new: list[str]) -> None:
    heading("Analysts")
    if not budgets and not new:
        ui.label("Nobody has asked yet.").classes("bf-quiet").style("margin-top:6px")
        return
    is_curator = context.curates(name)
    limit = Heading("Limit", "is-spare" if is_curator else "")
    columns = [Heading("Analyst"), Heading("Spent"), limit, *([Heading("")] if is_curator else [])]
    rows: list[list[TableCell]] = []
    for budget in budgets:
        whose = "of their own" if budget.is_individual else "as everyone"
        buttons: list[TableCell] = [partial(_buttons, context, name, budget.analyst)] if is_curator else []
        rows.append([budget.analyst, partial(_bar, budget), whose, *buttons])
    for analyst in new:
        buttons = [partial(_buttons, context, name, analyst)] if is_curator else []
        rows.append([analyst, "has not asked yet", "as everyone", *buttons])
    plain_table(columns, rows, "Analysts")


def _bar(budget: AnalystBudget) -> None:
    with ui.element("div").classes("bf-within"):
        limit_bar(budget.spent, budget.limit, f"Budget of {budget.analyst}")


def _buttons(context: PageContext, name: str, analyst: str) -> None:
    async def revoke(reason: str) -> None:
        await context.change_here(partial(rest.limit_analyst, name, analyst, rest.NewLimit(epsilon="0", reason=reason)))

    text = f"{analyst} can ask nothing more of {name}. Earlier answers stay readable."
    ask = partial(ask_reason, f"Revoke {analyst}?", text, "Revoke", revoke, is_grave=True)
    with in_row().style("gap:2px;justify-content:flex-end"):
        ui.button("Limit …", on_click=partial(_ask_limit, context, name, "analyst", analyst)).props("flat dense")
        button = ui.button("Revoke …", on_click=ask).props("flat dense color=negative")
        called(button, test_id=f"revoke-{analyst}")


def _ask_limit(context: PageContext, name: str, whose: str, analyst: str = "") -> None:
    """Asks for a number and a reason, and sets the limit."""
    title, text = LIMITS[whose]
    typed = {"epsilon": ""}

    def amount() -> ui.input:
        field = ui.input("Epsilon", placeholder="0.5").props('autofocus data-testid="amount"')
        field.classes("w-full").style("margin-top:14px").bind_value_to(typed, "epsilon")
        if whose == "all":
            account, dataset = context.curator().in_force(name)
            meaning = small("", "margin-top:8px").props("aria-live=polite")
            field.on_value_change(lambda event: meaning.set_text(_meaning(dataset, account.limit, event.value or "")))
        return field

    async def work(reason: str) -> None:
        epsilon = (typed["epsilon"] or "").strip() or None
        sent = rest.NewLimit(epsilon=epsilon, reason=reason)
        changes: dict[str, Callable[[Caller], object]] = {
            "all": partial(rest.renew, name, rest.NewTotal(epsilon=epsilon or "", reason=reason)),
            "everyone": partial(rest.limit_everyone, name, sent),
            "analyst": partial(rest.limit_analyst, name, analyst, sent),
        }
        await context.change_here(changes[whose])

    ask_reason(title.format(name=name, analyst=analyst), text, "Set it", work, first=amount)


def _meaning(dataset: Dataset, before: Fraction, text: str) -> str:
    """What a new budget lets somebody believe; empty for a text that is not a budget."""
    try:
        return budget_words(dataset, before, short_number(text.strip(), "epsilon"))
    except BlowfishError:
        return ""


async def _logs(context: PageContext, curator: Curator, name: str) -> None:
    # An answer that is stored follows its charge; the charge tells more.
    told = (entry for entry in curator.entries(name, newest_first=True) if entry.kind != "answer")
    newest = await context.run(lambda: list(islice(told, SHOWN)))
    changes = await context.run(lambda: curator.version_changes(name, newest))
    audit_log = await context.run(lambda: context.app_state.audit_log.last(SHOWN, context.caller("audit").reads))
    with ui.tabs().props("dense align=left no-caps inline-label") as tabs:
        losses = ui.tab("What the data lost", icon="receipt_long")
        doing = ui.tab("What users did", icon="history_edu")
    with ui.tab_panels(tabs, value=losses).classes("w-full"):
        with ui.tab_panel(losses):
            _entries(newest, changes)
        with ui.tab_panel(doing):
            rows = []
            for one in reversed(audit_log):
                detail = ", ".join(f"{key} {value}" for key, value in one.detail.items())
                rows.append([str(one.number), minute_words(one.at), one.who, one.action, one.target, detail])
            plain_table(AUDIT_LOG, rows, "Audit log")


def _entries(entries: list[Entry], changes: Mapping[int, Sequence[str]]) -> None:
    if not entries:
        empty("receipt_long", "Nothing yet", "Every charge and every change of terms will stand here.")
        return
    rows: list[list[TableCell]] = []
    for entry in entries:
        fields = entry.fields
        amount = fields.get("epsilon")
        cost = "" if amount is None else figure(Fraction(str(amount)))
        what = partial(_changed, entry, changes[entry.sequence]) if entry.sequence in changes else entry.words
        rows.append([str(entry.sequence), minute_words(str(fields.get("at", ""))), entry.who, what, cost])
    plain_table(LOG, rows, "Ledger entries")
    if len(entries) == SHOWN:
        small(f"The newest {SHOWN} entries; the export has them all.", "margin-top:8px")


def _changed(entry: Entry, sentences: Sequence[str]) -> None:
    """A new version, and what it changed."""
    ui.label(entry.words)
    for text in sentences:
        small(sentence(text), "margin-top:2px;max-width:92ch")
