"""A question as a widget in a notebook: a slider for the accuracy with its live price, and the answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import Number, short_number
from blowfishdb.errors import BlowfishError, amount, sentence
from blowfishdb.present.chart_svg import element, escaped
from blowfishdb.present.export import needed
from blowfishdb.present.words import readable
from blowfishdb.session.backend import Backend

CONFIDENCES = ("0.9", "0.95", "0.99", "0.999")
WIDTH = "780px"
"""Room for a chart and the border around it."""
STEPS = 20
"""Places of the slider between an accuracy and one ten times as good."""


class WidgetQuestion(Protocol):
    """What the widget needs of a question."""

    @property
    def dataset(self) -> str:
        """The dataset that it is about."""

    def preview(self, alpha: Number, *, confidence: Number) -> Preview:
        """What a release would cost."""

    def release(self, alpha: Number, *, confidence: Number, spend: Number) -> Answer:
        """The answer, for no more than the given epsilon."""


class QuestionWidget:
    """What a notebook shows of a question. Nothing is charged before *Charge* is pressed; then `answer` is there."""

    def __init__(self, question: WidgetQuestion, backend: Backend, alpha: Number, confidence: Number) -> None:
        widgets = needed("ipywidgets", "notebook")
        self.question, self._backend = question, backend
        self.answer: Answer | None = None
        self._preview: Preview | None = None
        start = float(short_number(alpha, "alpha"))
        wide = widgets.Layout(width="100%", max_width=WIDTH)
        self.accuracy = widgets.FloatLogSlider(
            value=start,
            min=math.log10(start) - 1,
            max=math.log10(start) + 1,
            step=1 / STEPS,
            description="Within",
            readout_format=".3g",
            continuous_update=False,
            layout=wide,
        )
        stated = str(confidence)
        choices = sorted({*CONFIDENCES, stated}, key=float)
        self.confidence = widgets.Dropdown(
            options=[(f"{100 * float(one):g} %", one) for one in choices], value=stated, description="Confidence"
        )
        self.price = widgets.HTML(layout=wide)
        self.offers = widgets.Accordion([widgets.HTML()], titles=["All mechanisms, and what is behind the price"])
        self.offers.layout = wide
        self.release_button = widgets.Button(description="Release ...", button_style="primary")
        self.charge_button = widgets.Button(description="", button_style="warning", layout=widgets.Layout(width="auto"))
        self.keep_button = widgets.Button(description="Not now")
        self.confirmation = widgets.HBox([self.charge_button, self.keep_button])
        self.result = widgets.HTML(layout=wide)
        self.box = widgets.VBox(
            [
                *(self.accuracy, self.confidence, self.price, self.offers),
                *(self.release_button, self.confirmation, self.result),
            ]
        )
        for control in (self.accuracy, self.confidence):
            control.observe(lambda _: self.update(), names="value")
        self.release_button.on_click(lambda _: self._ask())
        self.charge_button.on_click(lambda _: self._charge())
        self.keep_button.on_click(lambda _: self.update())
        self.update()

    def update(self) -> None:
        """Shows the price of the accuracy that is chosen now; nothing is charged."""
        self.confirmation.layout.display = "none"
        self.release_button.disabled = True
        try:
            self._preview = self.question.preview(alpha=self._alpha(), confidence=self.confidence.value)
            left = self._backend.budget(self.question.dataset).remaining
        except BlowfishError as error:
            self._preview = None
            self.price.value = _alert(error.message)
            return
        price = self._preview.epsilon
        words = "costs nothing" if price == 0 else f"costs epsilon {readable(float(price))}"
        words += "" if price == 0 or left is None else f" of {amount(left)} left"
        counted = f" {sentence(self._preview.counted)}" if self._preview.counted else ""
        self.price.value = _line(f"{self._preview.head()}: this {words}.{counted}")
        self.offers.children[0].value = self._preview._repr_html_()
        self.release_button.disabled = left is not None and price > left
        if self.release_button.disabled:
            self.price.value += _alert("This is more than is left. Ask for less accuracy.")

    def _alpha(self) -> Fraction:
        """The accuracy as the slider shows it."""
        return Fraction(f"{self.accuracy.value:.3g}")

    def _ask(self) -> None:
        """Shows what is about to be charged; a free answer is given at once."""
        if self._preview is None:
            return
        if self._preview.epsilon == 0:
            self._charge()
            return
        self.charge_button.description = f"Charge epsilon {readable(float(self._preview.epsilon))}"
        self.confirmation.layout.display = "flex"
        self.release_button.disabled = True

    def _charge(self) -> None:
        """Releases what the preview showed, and no more: a price that has risen meanwhile is refused."""
        preview = self._preview
        if preview is None:
            return
        self.charge_button.disabled = True
        try:
            self.answer = self.question.release(
                alpha=self._alpha(), confidence=self.confidence.value, spend=preview.epsilon
            )
            self.result.value = self.answer._repr_html_()
        except BlowfishError as error:
            self.result.value = _alert(error.message)
        finally:
            self.charge_button.disabled = False
            self.update()

    def _repr_mimebundle_(self, **options: object) -> object:
        """What a notebook shows."""
        return self.box._repr_mimebundle_(**options)


def _line(text: str) -> str:
    return element("div", {"role": "status", "style": "margin:4px 0"}, escaped(text))


def _alert(text: str) -> str:
    return element("div", {"role": "alert", "style": "margin:4px 0;color:#b3261e;font-weight:600"}, escaped(text))
