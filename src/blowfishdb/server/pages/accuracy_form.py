"""The controls of accuracy: how near the truth the answers shall be, or how much budget they may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nicegui import ui

from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.server.pages.asking import Wanted
from blowfishdb.server.pages.controls import choice

CONFIDENCES = {"0.9": "90 %", "0.95": "95 %", "0.99": "99 %", "0.999": "99.9 %"}
AUTOMATIC = "automatic"


class AccuracyForm:
    """Either alpha with a confidence, or epsilon; `wanted` is what the controls say now."""

    def __init__(self, on_change: Callable[[], object]) -> None:
        self.wanted = Wanted()
        self._on_change = on_change
        choice({"accuracy": "Choose accuracy", "budget": "Choose budget"}, "accuracy", self._by, "Accuracy or budget")
        self._box = ui.element("div").style("margin-top:12px")
        self._build()

    def _by(self, chosen: str) -> None:
        self.wanted = replace(self.wanted, by="budget" if chosen == "budget" else "accuracy", mechanism=None)
        self._build()
        self._on_change()

    def _put(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._on_change()

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            with ui.element("div").classes("bf-pair"):
                if self.wanted.by == "accuracy":
                    within = ui.input("Within ±", value=self.wanted.alpha).props("outlined dense debounce=200")
                    within.on_value_change(lambda e: self._put(replace(self.wanted, alpha=e.value or "")))
                else:
                    spend = ui.input("Spend epsilon", value=self.wanted.epsilon).props("outlined dense debounce=200")
                    spend.on_value_change(lambda e: self._put(replace(self.wanted, epsilon=e.value or "")))
                sure = ui.select(CONFIDENCES, value=self.wanted.confidence, label="Confidence")
                sure.props("outlined dense options-dense")
                sure.on_value_change(lambda e: self._put(replace(self.wanted, confidence=e.value)))
            self._mechanism()

    def _mechanism(self) -> None:
        """Which mechanism to use; those that look at the data promise no accuracy, so they need a budget."""
        aware = list(DATA_AWARE) if self.wanted.by == "budget" else []
        options = {AUTOMATIC: "the best for this question"} | {name: name for name in MECHANISMS}
        options |= {name: f"{name} (looks at the data)" for name in aware}
        with ui.expansion("Mechanism").props("dense").classes("w-full").style("margin-top:6px"):
            select = ui.select(options, value=self.wanted.mechanism or AUTOMATIC).props("outlined dense options-dense")
            select.classes("w-full").props('aria-label="Mechanism"')
            select.on_value_change(
                lambda e: self._put(replace(self.wanted, mechanism=None if e.value == AUTOMATIC else e.value))
            )
