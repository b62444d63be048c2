"""HTML and SVG are well formed, hold nothing active, and no label can break out of its place."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.engine.answer import Answer
from blowfishdb.present.chart import PAPER
from tests.effort import effort
from tests.present.cases import QUESTIONS, answers, constructed, released

HOSTILE = "<script>alert('x')</script>\"' onload=\"alert(1)\" &amp; <img src=x onerror=alert(2)>"
VOID = {"meta"}
KNOWN = {"html", "head", "meta", "title", "style", "body", "div", "h1", "p"}
KNOWN |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
DRAWN = {"svg", "g", "title", "desc", "style", "rect", "line", "path", "circle", "text"}


class Reader(HTMLParser):
    """Collects tags, attributes and words, and insists that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def check_inert(reader: Reader) -> None:
    assert set(reader.tags) <= KNOWN | DRAWN
    assert [name for name, _ in reader.attributes if name.startswith("on") or name in ("href", "src")] == []
    values = " ".join(value or "" for name, value in reader.attributes if name != "xmlns")
    assert "url(" not in values
    assert "://" not in values


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.sampled(3)
def test_fragments_and_pages_are_well_formed_and_inert(name: str) -> None:
    answer = released(name)
    for html in (answer._repr_html_(), answer.interactive()._repr_html_(), answer.interactive().page):
        check_inert(read(html))
    ElementTree.fromstring(answer.interactive().svg)


def hostile(kind: str) -> Answer:
    return constructed([HOSTILE, "b"], [30.0, 40.0], kind=kind, title=f"Histogram where x = '{HOSTILE}'")


@pytest.mark.parametrize("kind", ["histogram", "cdf", "ranges"])
def test_markup_in_labels_stays_text(kind: str) -> None:
    page = hostile(kind).interactive().page
    reader = read(page)
    check_inert(reader)
    assert "<script" not in page
    assert "<img" not in page
    assert any("<script>alert('x')" in part for part in reader.words)


def test_the_check_of_these_tests_sees_live_markup() -> None:
    with pytest.raises(AssertionError):
        check_inert(read(f"<div>{HOSTILE.replace('<img src=x onerror=alert(2)>', '')}</div>"))
    with pytest.raises(AssertionError):
        check_inert(read('<svg><rect onload="x"></rect></svg>'))


@effort(20)
@given(answers(st.floats(-1e15, 1e15)))
def test_any_words_and_numbers_give_well_formed_markup(answer: Answer) -> None:
    check_inert(read(answer._repr_html_()))
    check_inert(read(answer.interactive().page))
    ElementTree.fromstring(answer.interactive().svg)


def test_every_bar_tells_its_value_and_interval_under_the_pointer() -> None:
    root = ElementTree.fromstring(constructed(["a", "b", "c"], [12.0, 3.0, 1234.0]).interactive().svg)
    tips = [
        ["".join(text.itertext()) for text in tip.iter("{http://www.w3.org/2000/svg}text")]
        for tip in root.iter()
        if tip.get("class") == "w"
    ]
    assert tips == [["a", "12  (7 to 17)"], ["b", "3  (0 to 8)"], ["c", "1,234  (1,229 to 1,239)"]]


def test_the_picture_has_a_name_a_description_and_a_table_beside_it() -> None:
    html = released("histogram")._repr_html_()
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    ids = {element.get("id"): "".join(element.itertext()) for element in svg.iter() if element.get("id")}
    name, description = svg.get("aria-labelledby", "").split()
    assert svg.get("role") == "img"
    assert ids[name] == "Histogram of age in bins of 10"
    assert "10 values, epsilon" in ids[description]
    assert html.count('scope="col"') == 4


def test_long_answers_show_their_first_and_last_rows_and_stay_small() -> None:
    answer = constructed([str(place) for place in range(50_000)], [float(place % 97) for place in range(50_000)])
    html = answer._repr_html_()
    assert len(html) < 400_000
    assert "49,990 more rows" in html
    assert re.findall(r">(49999|4999)<", html) == ["49999"]


def test_a_saved_page_stands_alone(tmp_path: Path) -> None:
    answer = released("cdf")
    answer.interactive().save(tmp_path / "cdf.html")
    page = (tmp_path / "cdf.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    reader = read(page.removeprefix("<!DOCTYPE html>"))
    assert reader.tags.count("tr") == 101
    assert "script" not in reader.tags
    assert "link" not in reader.tags
    assert any(part.startswith("CDF of age where ward = 'A1', from the dataset visits.") for part in reader.words)


def test_tables_lie_on_their_own_paper_where_the_notebook_is_dark() -> None:
    html = released("histogram")._repr_html_()
    assert html.count("<tr ") == html.count(f'<tr style="background:{PAPER}"') == 11
    assert f"background:{PAPER}" in html[html.index("<table") : html.index("<caption")]
