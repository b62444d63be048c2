"""Datasets: what is connected, what is left of each budget, and whether analysts may ask."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from nicegui import ui

from blowfishdb.catalog.dataset import Dataset, column_words
from blowfishdb.errors import BlowfishError, sentence
from blowfishdb.ledger import Account
from blowfishdb.server.pages.controls import (
    Column,
    ask_reason,
    called,
    card,
    empty,
    heading,
    in_row,
    limit_bar,
    link_button,
    notice,
    pill,
    plain_table,
    spread,
)
from blowfishdb.server.pages.layout import PageContext, page
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
        plain_table([Column("Attribute"), Column("The public may know"), Column("Hidden")], rows, "Attributes")


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
    """Pauses a dataset, with a reason that analysts read, or lets it go on."""

    async def pause(reason: str) -> None:
        await context.change_here(partial(rest.pause, name, rest.Reason(reason=reason)))

    if is_paused:
        resume = partial(context.change_here, partial(rest.go_on, name))
        ui.button("Go on", icon="play_circle", on_click=resume).props('flat dense data-testid="resume"')
        return
    text = "Nobody can preview or release until it goes on. Analysts read the reason; earlier answers stay readable."
    ask = partial(ask_reason, f"Pause {name}?", text, "Pause it", pause)
    ui.button("Pause", icon="pause_circle", on_click=ask).props('flat dense data-testid="pause"')
