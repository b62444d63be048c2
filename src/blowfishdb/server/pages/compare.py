"""Two answers side by side on one scale and, where they answer the same question, taken together."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.present.numbers import accuracy_words, digits_of, epsilon_words, percent
from blowfishdb.engine.present.text import row_labels
from blowfishdb.server.pages.charts import chart_of, height_of, top_of
from blowfishdb.server.pages.here import Here
from blowfishdb.server.pages.history import named
from blowfishdb.server.pages.shell import empty, heading, page

MOST_ROWS = 500
PER_PAGE = 25


@page("/history/compare", "Two answers side by side", "ask", lead="On the same scale. Comparing is free.")
async def compare(here: Here) -> None:
    """The two that the link names."""
    session = here.session()
    names = [named(here.request.query_params.get(which, "")) for which in ("one", "two")]
    found = [await here.run(partial(session.reopen, dataset, number)) for dataset, number in names]
    answers = [one for one in found if isinstance(one, Answer)]
    ui.link("← All answers", "/history").classes("bf-small")
    if len(answers) != len(names):
        empty(
            "compare",
            "Only answers can be compared",
            "One of the two is a synopsis or a set of weights. Choose others in the history.",
        )
        return
    first, second = answers
    top = top_of(first, second) if first.is_counts and second.is_counts else None
    with ui.element("div").classes("bf-two").style("margin-top:10px"):
        for answer in answers:
            with ui.element("section").classes("bf-card"):
                heading(answer.title)
                with ui.element("div").classes("bf-row").style("gap:6px;margin:6px 0 8px"):
                    ui.label(accuracy_words(answer)).classes("bf-pill is-accent")
                    ui.label(f"epsilon {epsilon_words(answer.epsilon)}").classes("bf-pill is-brand")
                    ui.label(f"{answer.mechanism}, {answer.released[:10]}").classes("bf-pill")
                ui.echart(chart_of(answer, top=top)).classes("bf-chart").style(
                    f"height:{min(height_of(answer), 640)}px"
                )
    if first.tables == second.tables and first.kind == second.kind:
        with ui.element("section").classes("bf-card").style("margin-top:16px"):
            _together(first, second)


def _together(first: Answer, second: Answer) -> None:
    """What both say: the true value lies in both intervals, except with the sum of their error probabilities."""
    sure = percent(min(first.beta + second.beta, 1.0))
    heading("Taken together")
    said = (
        f"Each true value lies in both intervals, with {sure} confidence for all of them at once, as long as the data "
        "has not changed in between."
    )
    ui.label(said).classes("bf-quiet bf-small").style("margin:4px 0 10px")
    digits = digits_of(first)
    size = min(first.raw.size, MOST_ROWS)
    rows = []
    for place, label in enumerate(row_labels(first, range(size))):
        low = max(float(first.bounds.low[place]), float(second.bounds.low[place]))
        high = min(float(first.bounds.high[place]), float(second.bounds.high[place]))
        rows.append(
            {
                "id": place,
                "label": " × ".join(part for part in label if part),
                "first": digits.value(float(first.values[place])),
                "second": digits.value(float(second.values[place])),
                "change": digits.value(float(second.values[place] - first.values[place])),
                "both": f"{digits.low(low)} to {digits.high(high)}" if low <= high else "they disagree",
            }
        )
    columns = [
        {"name": name, "label": words, "field": name, "align": "left" if name == "label" else "right"}
        for name, words in (
            ("label", ""),
            ("first", "First"),
            ("second", "Second"),
            ("change", "Difference"),
            ("both", "Both intervals"),
        )
    ]
    table = ui.table(columns=columns, rows=rows, row_key="id", pagination=PER_PAGE).props("flat dense")
    table.classes("w-full").props("" if size > PER_PAGE else "hide-bottom")
