"""The last question before budget is spent, and the bar that shows how far a release is."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from nicegui import ui

from blowfishdb.engine.charged_release import Progress
from blowfishdb.server.pages.quote import figure

STEPS = {
    "quote": (0.2, "Planning"),
    "charge": (0.45, "Writing the charge to the ledger"),
    "answer": (0.8, "Counting and adding noise"),
    "done": (1.0, "Done"),
}


async def confirmed(
    what: str, price: Fraction, left: Fraction | None, more: Callable[[], object] | None = None
) -> bool:
    """Whether they agree to the price; nothing is spent without this step. `more` draws what else they should see."""
    rest = "" if left is None else f" You have {figure(left)}; this leaves {figure(left - price)}."
    said = (
        f"It is charged before any data is read, and there is no refund.{rest} What you asked before in the same way "
        "is given again, free."
    )
    named = 'aria-label="Confirm the price"'
    with ui.dialog().props(named) as dialog, ui.card().props(f'role="alertdialog" {named}'):
        ui.label(f"Spend epsilon {figure(price)}?").classes("bf-title").style("font-size:18px")
        ui.label(what).style("margin-top:6px")
        if more is not None:
            more()
        ui.label(said).classes("bf-quiet bf-small").style("margin-top:8px")
        with ui.element("div").classes("bf-row bf-ends"):
            ui.button("Cancel", on_click=lambda: dialog.submit("no")).props("flat")
            spend = ui.button(f"Spend {figure(price)} and run", on_click=lambda: dialog.submit("yes"))
            spend.props('unelevated autofocus data-testid="confirm"')
    answer = await dialog
    dialog.delete()
    return bool(answer == "yes")


def progress_bar() -> tuple[Progress, Callable[[], None]]:
    """Draws a bar; gives the function that hears the steps, from any thread, and the one that stops following."""
    heard = ["quote"]
    bar, label = ui.linear_progress(0.1, show_value=False), ui.label(STEPS["quote"][1])
    bar.props('aria-label="Progress"').style("margin-top:60px")
    label.classes("bf-quiet").style("text-align:center;margin-top:10px").props('role="status"')

    def follow() -> None:
        bar.value, label.text = STEPS[heard[-1]]

    timer = ui.timer(0.1, follow)
    return heard.append, timer.deactivate
