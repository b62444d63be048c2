"""An answer on a page: its picture, its table, what it means, the code that asks the same, and files to keep."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from nicegui import ui

from blowfishdb.engine.answer import Answer
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Axis, condition_code
from blowfishdb.present.chart import chart_of
from blowfishdb.present.chart_echarts import DETAIL, draw, height_of
from blowfishdb.present.page import note_parts
from blowfishdb.present.table import column_names, row_labels
from blowfishdb.present.words import accuracy_words, digits_of, epsilon_words
from blowfishdb.server.pages.controls import choice, heading, in_row, notice, small
from blowfishdb.server.pages.page_context import PageContext
from blowfishdb.server.pages.query_form import Asking, Wanted

FORMATS: dict[str, str] = {
    "csv": "CSV table",
    "parquet": "Parquet table",
    "png": "PNG picture",
    "svg": "SVG picture",
    "json": "JSON with certificate",
}


def file_of(answer: Answer, ending: str) -> bytes:
    """The answer in one of the formats."""
    return WRITERS[ending](answer)


def name_of(answer: Answer, ending: str) -> str:
    """A name that tells what is in the file."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{answer.dataset} {answer.title}".lower()).strip("-")
    return f"{words[:80] or 'answer'}.{ending}"


def _csv(answer: Answer) -> bytes:
    rows = answer.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(answer: Answer) -> bytes:
    from pyarrow import BufferOutputStream
    from pyarrow.parquet import write_table

    target = BufferOutputStream()
    write_table(answer.to_arrow(), target)
    content: bytes = target.getvalue().to_pybytes()
    return content


def _png(answer: Answer) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.png"
        answer.save_plot(path)
        return path.read_bytes()


def _svg(answer: Answer) -> bytes:
    return answer.interactive().svg.encode()


def _json(answer: Answer) -> bytes:
    return answer.to_json(indent=2).encode()


WRITERS: dict[str, Callable[[Answer], bytes]] = {
    "csv": _csv,
    "parquet": _parquet,
    "png": _png,
    "svg": _svg,
    "json": _json,
}


MOST_ROWS = 2_000
"""A longer table is shown up to here; files hold all of it."""
PER_PAGE = 25
CONSISTENT, RAW = "Consistent", "As measured"


def show_answer(context: PageContext, answer: Answer, code: str, *, free: bool = False) -> None:
    """Fills the card around it with the answer."""
    with ui.element("div").classes("bf-top"):
        heading(answer.title)
        _downloads(context, answer)
    _pills(answer, free=free)
    if answer.caveat:
        notice(answer.caveat, "" if free else "is-accent").style("margin-top:12px")
    with ui.tabs().props("dense align=left no-caps inline-label").style("margin-top:10px") as tabs:
        picture, table = ui.tab("Chart"), ui.tab("Table")
        meaning, python = ui.tab("What it means"), ui.tab("Python")
    with ui.tab_panels(tabs, value=picture, animated=False).classes("w-full"):
        with ui.tab_panel(picture):
            _picture(answer)
        with ui.tab_panel(table):
            _table(answer)
        with ui.tab_panel(meaning):
            _meaning(answer)
        with ui.tab_panel(python):
            code_block(code)


def _pills(answer: Answer, *, free: bool) -> None:
    cost = "free: read off a synopsis" if free else f"epsilon {epsilon_words(answer.epsilon)}"
    with in_row().style("gap:6px;margin-top:6px"):
        for text, kind in (
            (accuracy_words(answer), "is-accent"),
            (cost, "is-brand"),
            (answer.mechanism, ""),
            (f"policy v{answer.policy_version}" if answer.policy_version else "", ""),
        ):
            if text:
                ui.label(text).classes(f"bf-pill {kind}")


def _picture(answer: Answer) -> None:
    label = f"Chart of {answer.title}: {accuracy_words(answer)}. The tab Table has the numbers."
    with ui.element("div").props(f'role="img" aria-label="{_quoted(label)}"').classes("w-full"):
        consistent = chart_of(answer, DETAIL)
        chart = ui.echart(draw(consistent)).classes("bf-chart").style(f"height:{height_of(consistent)}px")

    def choose(which: str) -> None:
        chart.options.clear()
        chart.options.update(draw(chart_of(answer, DETAIL, raw=which == RAW)))
        chart.update()

    if (answer.raw != answer.values).any():
        with ui.element("div").classes("bf-row bf-small bf-quiet").style("margin-top:12px"):
            ui.label("Values:")
            with ui.element("div").style("width:250px"):
                choice({CONSISTENT: CONSISTENT, RAW: RAW}, CONSISTENT, choose, "Which values to show")
            ui.label("Consistent values add up and are never negative; both lie inside the intervals.")


def _quoted(text: str) -> str:
    return text.replace('"', "'")


def _table(answer: Answer) -> None:
    names, digits = column_names(answer), digits_of(answer)
    size = min(answer.raw.size, MOST_ROWS)
    labels = row_labels(answer, range(size))
    columns = [{"name": f"l{n}", "label": name, "field": f"l{n}", "align": "left"} for n, name in enumerate(names)]
    for field, label in (
        ("value", answer.value_name),
        ("low", "low"),
        ("high", "high"),
        ("raw", "as measured"),
        ("pointwise_low", "low, on its own"),
        ("pointwise_high", "high, on its own"),
    ):
        columns.append({"name": field, "label": label, "field": field, "align": "right"})
    bounds, own = answer.bounds, answer.pointwise_bounds
    rows = [
        {f"l{n}": part for n, part in enumerate(labels[place])}
        | {
            "id": place,
            "value": digits.value(float(answer.values[place])),
            "low": digits.low(float(bounds.low[place])),
            "high": digits.high(float(bounds.high[place])),
            "raw": digits.value(float(answer.raw[place])),
            "pointwise_low": digits.low(float(own.low[place])),
            "pointwise_high": digits.high(float(own.high[place])),
        }
        for place in range(size)
    ]
    table = ui.table(columns=columns, rows=rows, row_key="id", pagination=PER_PAGE).props("flat dense")
    table.classes("w-full").props("" if size > PER_PAGE else "hide-bottom").props('aria-label="The numbers"')
    if answer.raw.size > size:
        small(f"The first {size:,} of {answer.raw.size:,} rows; a file holds them all.")


def _meaning(answer: Answer) -> None:
    with ui.element("div").classes("bf-stack").style("max-width:78ch"):
        for part in note_parts(answer):
            ui.label(part)
        copy_button(answer.note(), "Copy as a note")
        certificate = answer.certificate
        heading("Certificate", 3).classes("bf-title")
        constraints = {
            "Privacy loss": f"{certificate.epsilon} (exact)",
            "Plan": certificate.plan_digest,
            "Released": answer.released,
            "Made with": f"BlowfishDB {answer.version}",
        }
        with ui.element("dl").style("display:grid;grid-template-columns:120px 1fr;gap:4px 12px;margin:0"):
            for name, value in constraints.items():
                with ui.element("dt").classes("bf-quiet bf-small"):
                    ui.label(name)
                with ui.element("dd").style("margin:0;overflow-wrap:anywhere").classes("bf-mono"):
                    ui.label(value)
        said = "The JSON file holds the whole certificate; anybody can check it offline with bf.Answer.from_json."
        small(said)


def code_block(code: str) -> None:
    """Code to copy."""
    with ui.element("pre").classes("bf-code").props('tabindex=0 role=region aria-label="Code"'):
        ui.label(code).style("white-space:pre")

    copy_button(code, "Copy").style("margin-top:8px")


def copy_button(text: str, label: str) -> ui.button:
    """Copies the text."""

    def copy() -> None:
        ui.clipboard.write(text)
        ui.notify("Copied", position="top")

    return ui.button(label, icon="content_copy", on_click=copy).props("flat dense").style("align-self:flex-start")


def _downloads(context: PageContext, answer: Answer) -> None:
    with ui.button("Download", icon="download").props("outline dense padding='6px 12px'"), ui.menu():
        for ending, words in FORMATS.items():
            ui.menu_item(words, on_click=_saving(context, answer, ending)).props("role=menuitem")


def _saving(context: PageContext, answer: Answer, ending: str) -> Callable[[], object]:
    async def save() -> None:
        try:
            content = await context.run(lambda: file_of(answer, ending))
        except BlowfishError as error:
            context.tell(error)
            return
        ui.download(content, name_of(answer, ending))

    return save


def snippet(asking: Asking, wanted: Wanted, domain: Domain, url: str) -> str:
    """Python that asks a dataset the same question with the same accuracy."""
    asked = f"{_table_code(asking, domain)}.{_call(asking, domain)}"
    return _whole(
        url,
        [
            f"question = {asked}",
            f"print(question.preview({_accuracy(wanted)}))  # free",
            f"answer = question.release({_accuracy(wanted)})",
        ],
    )


def sql_snippet(text: str, wanted: Wanted, url: str) -> str:
    """Python that runs the same statement."""
    return _whole(url, [f'answer = db.sql("""{text.strip()}""", {_accuracy(wanted)})'])


def reopening(dataset: str, number: int, url: str) -> str:
    """Python that opens an answer of the past again."""
    return _whole(url, [f"answer = db.reopen({dataset!r}, {number})  # free"])


def synopsis_snippet(asking: Asking, domain: Domain, number: int, url: str) -> str:
    """Python that asks a published synopsis the same."""
    lines = [f"synopsis = db.synopsis({asking.dataset!r}, {number})"]
    filtered = "".join(f".where({condition_code(one)})" for one in asking.conditions(domain))
    return _whole(url, [*lines, f"answer = synopsis{filtered}.{_call(asking, domain)}  # free"])


def _whole(url: str, lines: list[str]) -> str:
    dates = ["import datetime", ""] if any("datetime." in line for line in lines) else []
    head = [*dates, "import blowfishdb as bf", "", f'db = bf.connect({url!r}, token="...")  # a token of yours']
    return "\n".join([*head, *lines, "answer.to_pandas()"])


def _table_code(asking: Asking, domain: Domain) -> str:
    filters = "".join(f".where({condition_code(one)})" for one in asking.conditions(domain))
    return f"db[{asking.dataset!r}]{filters}"


def _call(asking: Asking, domain: Domain) -> str:
    axes = ", ".join(_axis(axis) for axis in asking.axes())
    match asking.template:
        case "heat":
            return f"histogram2d({axes})"
        case "ranges":
            spans = asking.ranges(domain)
            listed = "" if spans is None else f", [{', '.join(f'({a!r}, {b!r})' for a, b in spans)}]"
            return f"ranges({axes}{listed})"
        case _:
            return f"{asking.template}({axes})"


def _axis(axis: Axis) -> str:
    if axis.width is not None:
        return f"bf.col({axis.attribute!r}).bins({axis.width!r})"
    return f"bf.col({axis.attribute!r}).by({axis.unit!r})" if axis.unit is not None else repr(axis.attribute)


def _accuracy(wanted: Wanted) -> str:
    alpha, epsilon = wanted.keywords()
    main = f"alpha={alpha}" if epsilon is None else f'epsilon="{epsilon}"'
    chosen = "" if wanted.mechanism is None else f", mechanism={wanted.mechanism!r}"
    return f"{main}, confidence={wanted.confidence}{chosen}"
