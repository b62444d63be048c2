"""The dialog that sets a limit: of the data, of everyone, or of one analyst."""

from __future__ import annotations

from typing import Literal

from nicegui import ui

from blowfishdb.server.pages.curator_parts import called
from blowfishdb.server.pages.here import Here

Whose = Literal["all", "everyone", "analyst"]
TITLES: dict[Whose, str] = {
    "all": "What {name} may lose in all",
    "everyone": "What each analyst may spend on {name}",
    "analyst": "What {analyst} may spend on {name}",
}
NOTES: dict[Whose, str] = {
    "all": "It can only be raised. What was spent stays spent, and every analyst's odds of learning grow with it.",
    "everyone": "For all who have no limit of their own. Empty: only the limit in all holds.",
    "analyst": "Empty: the limit of everyone holds again.",
}


def ask_limit(here: Here, name: str, whose: Whose, analyst: str = "") -> None:
    """Asks for a number and a reason, and sets the limit."""
    title = TITLES[whose].format(name=name, analyst=analyst)
    with called(ui.dialog(), title) as dialog, ui.card().style("width:460px"):
        ui.label(title).classes("bf-title")
        ui.label(NOTES[whose]).classes("bf-quiet bf-small").style("margin-top:4px")
        amount = ui.input("Epsilon", placeholder="0.5").props('outlined dense autofocus data-testid="amount"')
        amount.classes("w-full").style("margin-top:14px")
        reason = ui.input("Why, for the record").props('outlined dense maxlength=200 data-testid="reason"')
        reason.classes("w-full").style("margin-top:10px")

        async def go() -> None:
            curator = here.curator()
            wanted, why = amount.value.strip() or None, reason.value.strip()

            def work() -> object:
                if whose == "all":
                    return curator.renew(name, wanted or "", reason=why)
                if whose == "everyone":
                    return curator.limit_everyone(name, wanted, reason=why)
                return curator.limit_analyst(name, analyst, wanted, reason=why)

            await here.run(work)
            detail = {"epsilon": wanted, "reason": why, **({"analyst": analyst} if analyst else {})}
            here.office.actions.note(here.visitor.name, "set a limit", name, detail)
            dialog.close()
            ui.navigate.reload()

        with ui.element("div").classes("bf-row").style("justify-content:flex-end;margin-top:18px"):
            ui.button("Leave it", on_click=dialog.close).props("flat")
            ui.button("Set it", on_click=go).props('unelevated data-testid="go"')
    dialog.open()
