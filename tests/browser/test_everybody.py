"""Every page for everybody: WCAG 2.1 AA, hostile names and values, and what must not get lost or pile up."""

from __future__ import annotations

import csv
import gc
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import duckdb
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from fastapi.routing import APIRoute
from nicegui import app
from playwright.sync_api import Browser, Page, expect

import blowfishdb as bf
from blowfishdb.present.words import shortened
from blowfishdb.server.dashboards import DashboardTile
from blowfishdb.server.pages.layout import PageContext
from tests.browser.fixture import HEARD, PASSWORD, Place, open_page, settle, sign_in
from tests.browser.test_curator import pick

pytestmark = pytest.mark.chromium

VIEWS = tuple(itertools.product((1440, 1024, 390), ("light", "dark")))
CHECK = """async () => (await axe.run(document, {
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], resultTypes: ['violations'],
})).violations.flatMap(one => one.nodes.map(node => `${one.id}: ${node.html.slice(0, 160)}`))"""
STILL = """async () => {
  const frame = () => new Promise(done => requestAnimationFrame(done));
  const moves = () => document.getAnimations().some(one => one.playState === 'running');
  for (let turn = 0; turn < 3 || moves(); turn++) await frame();
}"""


STICKS_OUT = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 8).map(one => one.outerHTML.slice(0, 120))"""


class Checker:
    """Checks pages at several widths, light and dark: at all of `VIEWS`, or each at the next one."""

    def __init__(self, page: Page, *, everywhere: bool) -> None:
        self.page, self.faults, self.visited = page, set[str](), set[str]()
        self._views, self._many = itertools.cycle(VIEWS), len(VIEWS) if everywhere else 1

    def check(self, name: str) -> None:
        self.visited.add(urlsplit(self.page.url).path)
        self.page.evaluate(AXE_SCRIPT)
        for width, theme in itertools.islice(self._views, self._many):
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            self.page.evaluate(STILL)
            self.faults |= {f"{name}, {width}, {theme}: {fault}" for fault in self.page.evaluate(CHECK)}
            self.faults |= {f"{name}, {width}: sticks out: {one}" for one in self.page.evaluate(STICKS_OUT)}
        self.page.set_viewport_size({"width": 1440, "height": 900})


@pytest.fixture
def calm(page: Page) -> Page:
    """A page of somebody who wants no animations: nothing is caught in the middle of one."""
    page.emulate_media(reduced_motion="reduce")
    return page


@pytest.fixture(scope="module")
def past(place: Place) -> None:
    """An analyst with an answer, a synopsis and a token; a dataset without an order of its values."""
    place.app_state.users.add("eve", "analyst", PASSWORD, must_change=False)
    session = place.app_state.session("eve")
    session["clinic"].histogram("ward").release(epsilon="1/50")
    session["clinic"].cdf("age").release(epsilon="1/50")
    session["clinic"].mean("cost").release(epsilon="1/50")
    session["clinic"].histogram("ward").publish(epsilon="1/50")
    place.app_state.tokens.issue("eve", "my notebook", ("ask",), 30)


def walk_analyst(page: Page, place: Place, check: Callable[[str], object]) -> None:
    """Opens every page of an analyst, with its dialogs, and checks each."""
    page.goto(f"{place.url}/sign-in")
    check("sign in")
    past = place.app_state.session("eve").history("clinic")
    synopsis, mean, other, answer = (f"{one.number} clinic" for one in past[:4])
    sign_in(page, place, "eve", then=f"/explore?{urlencode({'answer': answer})}")
    settle(page)
    page.get_by_role("button", name="Add", exact=True).click()
    check("explore with an answer")
    for tab in ("Table", "What it means", "Python"):
        page.get_by_role("tab", name=tab).click()
        check(f"answer, {tab}")
    for template in ("Number", "Quantiles", "Shares", "Top list", "Compare", "Ranges", "Marginals", "SQL"):
        page.get_by_role("radio", name=template).click()
        settle(page)
        check(f"explore, {template}")
    page.get_by_label("Within ±").fill("a lot")
    expect(page.get_by_text("Within ± is a number").first).to_be_visible()
    check("explore, refused")
    page.get_by_label("Within ±").fill("900")
    settle(page)
    page.get_by_test_id("run").click()
    page.get_by_test_id("confirm").wait_for()
    check("the price")
    collect_and_price(page, place)
    check("my questions")
    board = made_board(place, "eve", "Wards", answer)
    for path in (
        "/dashboards",
        f"/dashboards/view?{urlencode({'of': board})}",
        "/dictionary",
        "/history",
        f"/history/answer?{urlencode({'of': mean})}",
        f"/history/answer?{urlencode({'of': answer})}",
        f"/history/compare?{urlencode({'one': answer, 'two': other})}",
        "/budget",
        "/synopses",
        f"/synopses/ask?{urlencode({'of': synopsis})}",
        "/synopses/publish",
        "/account",
        "/no-such-page",
    ):
        page.goto(f"{place.url}{path}") if "no-such" in path else open_page(page, place, path)
        check(path)


def made_board(place: Place, owner: str, title: str, answer: str) -> str:
    """The id of a published dashboard with one answer of its owner."""
    store, (number, dataset) = place.app_state.dashboards, answer.split(maxsplit=1)
    board = store.create(owner, title).with_tile(DashboardTile(dataset, int(number), title))
    store.publish(store.save(replace(board, access="offered")), "cora")
    return board.id


def collect_and_price(page: Page, place: Place) -> None:
    """Collects a question in Explore and two statements, and waits for their price."""
    page.get_by_role("button", name="Cancel").click()
    page.get_by_test_id("collect").click()
    open_page(page, place, "/questions")
    expect(page.get_by_text("1 collected")).to_be_visible()
    page.get_by_text("Add questions in SQL").click()
    statements = "SELECT ward, COUNT(*) FROM clinic GROUP BY ward; SELECT COUNT(*) FROM clinic WHERE ward = 'Elm'"
    page.get_by_test_id("sql").fill(statements)
    page.get_by_test_id("add").click()
    expect(page.get_by_text("3 collected")).to_be_visible()
    page.get_by_test_id("release").wait_for()


def walk_curator(page: Page, place: Place, check: Callable[[str], object]) -> None:
    """Opens every page of a curator, with its dialogs, and checks each."""
    sign_in(page, place, "cora")
    check("/datasets")
    open_page(page, place, "/datasets/add")
    page.get_by_test_id("address").fill("nothing.csv")
    page.get_by_test_id("read-columns").click()
    page.get_by_role("alert").filter(has_text="No file matches").wait_for()
    check("add, refused")
    page.get_by_test_id("address").fill("duckdb:///clinic.duckdb#visits")
    page.get_by_test_id("read-columns").click()
    pick(page, "use-age", "Whole numbers")
    pick(page, "use-ward", "Listed values")
    page.get_by_role("radio", name="Several rows per person").click()
    page.get_by_test_id("at_most").wait_for()
    check("add, columns")
    page.get_by_test_id("look-ward").click()
    page.get_by_test_id("look-anyway").wait_for()
    check("add, warning")
    page.get_by_role("button", name="Leave it").click()
    page.get_by_role("radio", name="Patients and visits").click()
    page.get_by_test_id("guidance").get_by_role("cell", name="Histogram of age").first.wait_for()
    check("add, what it protects and costs")
    for path in ("/policies?dataset=clinic", "/policies?dataset=clinic&attribute=ward&kind=blocks&text=Ash"):
        open_page(page, place, path)
        page.locator(".bf-graph svg, .bf-notice").first.wait_for()
        check(path)
    for attribute in ("ward", "age"):
        open_page(page, place, f"/trade-off?dataset=clinic&attribute={attribute}")
        expect(page.get_by_text("no data was read")).to_be_visible()
        pick(page, "closer", "everything secret")
        page.get_by_test_id("example").wait_for()
        check(f"trade-off of {attribute}")
    open_page(page, place, "/policies?dataset=clinic")
    page.get_by_test_id("constraints").fill("count(age < 18)\nmarginal(ward)")
    page.get_by_test_id("constraint-graph").locator("svg").wait_for()
    check("policies, public constraints")
    page.get_by_test_id("together").click()
    page.get_by_test_id("names").wait_for()
    check("policies, several together")
    open_page(page, place, "/access?dataset=clinic")
    page.get_by_test_id("ask-first").click()
    page.get_by_test_id("above").wait_for()
    check("access, which questions wait")
    open_page(page, place, "/dashboards")
    check("/dashboards")
    open_page(page, place, "/ledger?dataset=clinic")
    check("/ledger")
    page.get_by_role("button", name="Raise it").click()
    page.get_by_test_id("amount").fill("4")
    expect(page.get_by_text("a suspicion of 1 % could become")).to_be_visible()
    check("ledger, a higher budget")
    open_page(page, place, "/ledger?dataset=clinic")
    page.get_by_test_id("pause").click()
    page.get_by_test_id("go").click()
    page.get_by_role("alert").filter(has_text="A reason is kept").wait_for()
    check("ledger, a reason is missing")
    open_page(page, place, "/users")
    page.get_by_test_id("add-user").click()
    page.get_by_role("alert").filter(has_text="A name is text").wait_for()
    check("/users")
    page.get_by_test_id("new-group").click()
    page.get_by_test_id("members").wait_for()
    check("users, a group")


WALKS = {"analyst": walk_analyst, "curator": walk_curator}
ANALYSTS = frozenset(
    ("/explore", "/dictionary", "/questions", "/history", "/history/answer", "/history/compare", "/dashboards")
) | {"/dashboards/view", "/budget", "/synopses", "/synopses/ask", "/synopses/publish", "/account"}
CURATORS = frozenset(("/datasets", "/datasets/add", "/policies", "/trade-off", "/ledger", "/access", "/users"))
PLAIN = frozenset(("/", "/sign-in", "/password"))


def test_no_page_is_left_out_of_the_walks(place: Place) -> None:
    del place
    routes = [(route.path, route.endpoint.__module__) for route in app.routes if isinstance(route, APIRoute)]
    pages = {path for path, module in routes if "{" not in path and path.count("/api/") == 0 and ".pages." in module}
    assert pages == ANALYSTS | CURATORS | PLAIN


@pytest.mark.nightly
@pytest.mark.usefixtures("past")
@pytest.mark.parametrize("role", WALKS)
def test_every_page_passes_wcag_2_1_aa(calm: Page, place: Place, role: str) -> None:
    """The short form is the walk over hostile names below: every page at one width and in one theme."""
    checker = Checker(calm, everywhere=True)
    WALKS[role](calm, place, checker.check)
    assert checker.faults == set()
    assert checker.visited >= (ANALYSTS if role == "analyst" else CURATORS)


def test_the_check_finds_what_is_wrong(calm: Page, place: Place) -> None:
    checker = Checker(calm, everywhere=False)
    calm.goto(f"{place.url}/sign-in")
    calm.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color:#ccc\">faint</p><img src=x>')")
    checker.check("spoiled")
    assert {fault.split(": ")[1] for fault in checker.faults} == {"color-contrast", "image-alt"}


BAD = "<img src=x onerror=window.bad=1><script>window.bad=1<\\script>{{constructor.constructor('window.bad=1')()}}"
NAMED = f"\"'`${{window.bad=1}} javascript:window.bad=1 {BAD}"
"""Markup, templates of two kinds, quotes, an address that is a script; no slash, so that it may name users too."""
VALUES = [
    NAMED,
    "</textarea></script><svg onload=window.bad=1>",
    "\u202egnp.exe",
    "a\nb\tc\r\x07\x1b[31m",
    "\u200b\ufeff zero",
    "Zͫͫa̡̛l̨͝g҉̀o",
    "😀👩‍👩‍👧‍👦",
    "العربية",
    "w" * 900,
    "many words " * 80,
    "a, b",
    " spaces ",
]
COLUMN, LONG = f"{NAMED[:150]} \x07\n", "c" * 250


@pytest.fixture(scope="module")
def hostile(place: Place) -> str:
    """The name of a dataset whose names and values are full of markup, scripts and odd characters."""
    name, analyst = f"{NAMED[:120]} {'d' * 70}", BAD[:100]
    with duckdb.connect(str(place.folder / "hostile.duckdb")) as connection:
        first, second = ('"' + column.replace('"', '""') + '"' for column in (COLUMN, LONG))
        connection.execute(f"CREATE TABLE odd ({first} VARCHAR, {second} INTEGER)")
        rows = [(VALUES[number % len(VALUES)], number % 40) for number in range(600)]
        connection.executemany("INSERT INTO odd VALUES (?, ?)", rows)
    place.app_state.curator("cora").add(
        bf.Dataset(
            name,
            source="duckdb:///hostile.duckdb#odd",
            domain={COLUMN: bf.categorical(VALUES), LONG: bf.integers(0, 39, null=0)},
            policy=bf.Policy({COLUMN: bf.partition([VALUES[:6], VALUES[6:]]), LONG: bf.threshold(5)}),
            epsilon="5",
        )
    )
    place.app_state.users.add(analyst, "analyst", PASSWORD, must_change=False)
    place.app_state.tokens.issue(analyst, NAMED[:100], ("ask",), 30)
    session = place.app_state.session(analyst)
    table = session[name]
    table.histogram(COLUMN).release(epsilon="1/2")
    table.where(bf.col(COLUMN) == VALUES[0]).histogram(bf.col(LONG).bins(10)).release(epsilon="1/2")
    table.histogram(COLUMN).publish(epsilon="1/2")
    place.app_state.audit_log.note(analyst, NAMED[:100], NAMED[:150], {"reason": BAD})
    return name


SHOWN = """() => document.getElementById('app').textContent
  + [...document.querySelectorAll('input, textarea')].map(one => one.value).join('\\n')"""


class Watcher:
    """Sees to it that no script of others runs on a page, that names are shown whole, and that everybody can use it."""

    def __init__(self, page: Page) -> None:
        self.page, self.faults, self._checker = page, list[str](), Checker(page, everywhere=False)
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error.message}"))

    def check(self, name: str, *texts: str) -> None:
        """Looks at the page as it is; each text is on it somewhere, every character of it."""
        self.page.evaluate(HEARD)
        if self.page.evaluate("window.bad") is not None:
            self.faults.append(f"{name}: a script ran")
        if self.page.evaluate("document.querySelectorAll('#app :is(img, script, svg[onload])').length"):
            self.faults.append(f"{name}: a name became markup")
        shown = self.page.evaluate(SHOWN)
        self.faults += [f"{name}: lost {text[:60]!r}" for text in texts if text not in shown]
        self._checker.check(name)

    @property
    def visited(self) -> set[str]:
        """The paths that were looked at."""
        return self._checker.visited

    def all(self) -> str:
        """All that is wrong."""
        return "\n".join([*self.faults, *sorted(self._checker.faults)])


def test_hostile_names_and_values_on_every_page_of_an_analyst(calm: Page, place: Place, hostile: str) -> None:
    analyst, watcher = BAD[:100], Watcher(calm)
    history = place.app_state.session(analyst).history(hostile)
    sides = {"first": VALUES[:1], "second": VALUES[1:3], "of": LONG}
    groups = {"dataset": hostile, "template": "compare", "chosen": [{"attribute": COLUMN}], **sides}
    synopsis, filtered, plain = (f"{one.number} {hostile}" for one in history)
    sign_in(calm, place, analyst)
    open_page(calm, place, f"/explore?{urlencode({'dataset': hostile, 'answer': plain})}")
    settle(calm)
    calm.get_by_role("button", name="Add", exact=True).click()
    calm.get_by_label("Values", exact=True).click()
    calm.get_by_role("option", name=VALUES[1]).click()
    calm.keyboard.press("Escape")
    settle(calm)
    watcher.check("explore", analyst, hostile, VALUES[1])
    calm.get_by_role("tab", name="Table").click()
    watcher.check("the table of an answer", *map(shortened, VALUES))
    calm.get_by_role("button", name="Download").click()
    with calm.expect_download() as waiting:
        calm.get_by_role("menuitem", name="CSV").click()
    with Path(waiting.value.path()).open(newline="") as file:
        assert [row[COLUMN] for row in csv.DictReader(file)][: len(VALUES)] == VALUES, "a file holds them whole"
    for tab in ("What it means", "Python"):
        calm.get_by_role("tab", name=tab).click()
        watcher.check(f"{tab}, of an answer")
    calm.get_by_test_id("run").click()
    calm.get_by_test_id("confirm").wait_for()
    watcher.check("the price")
    board = made_board(place, analyst, VALUES[1], plain)
    for path, texts in {
        f"/explore?{urlencode({'question': json.dumps(groups)})}": [COLUMN, VALUES[1]],
        f"/dictionary?{urlencode({'dataset': hostile})}": [hostile, COLUMN, LONG],
        "/history": [hostile, COLUMN],
        f"/history/answer?{urlencode({'of': filtered})}": [COLUMN],
        f"/history/compare?{urlencode({'one': plain, 'two': filtered})}": [COLUMN],
        "/budget": [hostile],
        "/synopses": [hostile, COLUMN],
        f"/synopses/ask?{urlencode({'of': synopsis})}": [COLUMN],
        "/synopses/publish": [],
        "/questions": [],
        "/dashboards": [VALUES[1]],
        "/account": [analyst, NAMED[:100]],
        f"/dashboards/view?{urlencode({'of': board})}": [VALUES[1], COLUMN],
    }.items():
        open_page(calm, place, path)
        watcher.check(path.partition("?")[0], *texts)
    calm.goto(f"{place.url}/published/{board}")
    assert calm.evaluate("window.bad") is None
    assert VALUES[1] in str(calm.locator("main").text_content())
    published = Checker(calm, everywhere=True)
    published.check("a published dashboard")
    assert published.faults == set()
    assert watcher.all() == ""
    assert watcher.visited >= ANALYSTS


def test_hostile_names_and_values_on_every_page_of_a_curator(calm: Page, place: Place, hostile: str) -> None:
    watcher = Watcher(calm)
    sign_in(calm, place, "cora")
    watcher.check("datasets", hostile, COLUMN, LONG)
    open_page(calm, place, "/datasets/add")
    calm.get_by_test_id("address").fill("duckdb:///hostile.duckdb#odd")
    calm.get_by_test_id("read-columns").click()
    pick(calm, f"use-{COLUMN}", "Listed values")
    calm.get_by_test_id(f"look-{COLUMN}").click()
    watcher.check("the warning before a look")
    calm.get_by_test_id("look-anyway").click()
    expect(calm.get_by_text(f"{len(VALUES)} values:")).to_be_visible()
    watcher.check("the columns", COLUMN, LONG, VALUES[1])
    for attribute, text in ((COLUMN, VALUES[1]), (LONG, LONG)):
        open_page(calm, place, f"/policies?{urlencode({'dataset': hostile, 'attribute': attribute})}")
        calm.get_by_test_id("question-picture").locator("svg").wait_for()
        watcher.check("policies", hostile, text)
        open_page(calm, place, f"/trade-off?{urlencode({'dataset': hostile, 'attribute': attribute})}")
        expect(calm.get_by_text("no data was read")).to_be_visible()
        pick(calm, "closer", "everything secret")
        calm.get_by_test_id("example").wait_for()
        watcher.check("trade-off", hostile, attribute)
    open_page(calm, place, f"/ledger?dataset={quote(hostile)}")
    calm.get_by_role("tab", name="What users did").click()
    watcher.check("ledger", hostile, BAD[:100], NAMED[:100], NAMED[:150])
    calm.get_by_test_id(f"revoke-{BAD[:100]}").click()
    calm.get_by_test_id("go").click()
    calm.get_by_role("alert").filter(has_text="A reason is kept").wait_for()
    watcher.check("the question why")
    open_page(calm, place, "/users")
    watcher.check("users", BAD[:100])
    open_page(calm, place, f"/access?dataset={quote(hostile)}")
    watcher.check("access", hostile)
    assert watcher.all() == ""
    assert watcher.visited >= CURATORS


@pytest.mark.nightly
def test_a_question_and_its_answer_outlive_a_reload(page: Page, place: Place) -> None:
    place.app_state.users.add("rita", "analyst", PASSWORD, must_change=False)
    session = place.app_state.session("rita")
    sign_in(page, place, "rita")
    page.get_by_role("radio", name="Cumulative").click()
    page.get_by_role("radio", name="Choose budget").click()
    page.get_by_label("Spend epsilon").fill("0.07")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("From", exact=True).fill("18")
    settle(page)
    page.get_by_test_id("run").click()
    page.get_by_test_id("confirm").click()
    expect(page.locator("#answer canvas")).to_be_visible()
    expect(page).to_have_url(re.compile("answer="))
    spent = session.budget("clinic").spent
    page.reload()
    settle(page)
    expect(page.get_by_role("radio", name="Cumulative")).to_have_attribute("aria-checked", "true")
    expect(page.get_by_label("Spend epsilon")).to_have_value("0.07")
    expect(page.get_by_label("From", exact=True)).to_have_value("18")
    expect(page.locator("#answer canvas")).to_be_visible()
    expect(page.locator("#answer")).to_contain_text("CDF of age")
    assert session.budget("clinic").spent == spent, "the answer is replayed, free"
    open_page(page, place, f"/explore?{urlencode({'answer': '1 clinic', 'question': '{}'})}")
    expect(page.get_by_text("No answer yet")).to_be_visible()


@pytest.mark.nightly
def test_a_typed_form_is_there_again_and_errors_stand_beside_their_fields(page: Page, place: Place) -> None:
    place.app_state.users.add("carla", "curator", PASSWORD, must_change=False)
    sign_in(page, place, "carla", then="/datasets/add")
    page.get_by_test_id("address").fill("postgresql://reader:hunter2@nowhere.invalid/db#t")
    for _ in range(3):
        page.get_by_test_id("read-columns").click()
        beside = page.locator(".q-field", has=page.get_by_test_id("address")).get_by_role("alert")
        expect(beside).to_have_count(1)
    expect(beside).to_contain_text("A password does not belong in the configuration")
    described = page.get_by_test_id("address").get_attribute("aria-describedby")
    assert described == beside.get_attribute("id"), "a screen reader reads it with the field"
    assert page.locator(".q-notification").count() == 0, "nothing piles up"
    page.get_by_test_id("address").fill("duckdb:///clinic.duckdb#visits")
    page.get_by_test_id("read-columns").click()
    pick(page, "use-ward", "Listed values")
    expect(beside).to_have_count(0)
    page.get_by_test_id("values-ward").focus()
    page.keyboard.insert_text("Ash\nBeech\r\nCedar tree\n")
    expect(page.get_by_text("3 values: Ash … Cedar tree")).to_be_visible()
    for typed, fold in (("2", "7.39-fold"), ("0.5", "1.65-fold")):
        page.get_by_test_id("epsilon").fill(typed)
        expect(page.get_by_text(f"With epsilon {typed} in all")).to_contain_text(fold)
    page.get_by_test_id("epsilon").fill("much")
    page.get_by_test_id("name").fill("wards")
    page.get_by_test_id("finish").click()
    expect(page.locator(".q-field", has=page.get_by_test_id("epsilon")).get_by_role("alert")).to_be_visible()
    page.get_by_test_id("epsilon").fill("0.5")
    page.evaluate(HEARD)
    kept = place.app_state.drafts.of("carla", "datasets/add")
    assert kept is not None
    assert "hunter2" not in str(kept)
    page.context.clear_cookies()
    sign_in(page, place, "carla", then="/datasets/add")
    expect(page.get_by_test_id("address")).to_have_value("duckdb:///clinic.duckdb#visits")
    expect(page.get_by_test_id("values-ward")).to_have_value("Ash\nBeech\nCedar tree\n")
    expect(page.get_by_test_id("name")).to_have_value("wards")
    page.get_by_test_id("afresh").click()
    expect(page.get_by_test_id("address")).to_have_value("")
    assert place.app_state.drafts.of("carla", "datasets/add") is None


@pytest.mark.nightly
def test_the_trade_off_forgets_the_last_attribute(page: Page, place: Place) -> None:
    sign_in(page, place, "cora", then="/trade-off?dataset=clinic&attribute=age")
    expect(page.get_by_text("no data was read")).to_be_visible()
    pick(page, "closer", "within 5")
    expect(page.get_by_test_id("point")).to_contain_text("Within 5")
    pick(page, "attribute", "ward")
    expect(page.get_by_role("heading", name="histogram of ward")).to_be_visible()
    expect(page.get_by_test_id("point")).to_have_count(0)
    expect(page.get_by_text("no data was read")).to_be_visible()
    chart = "getElement(Number(document.querySelector('[data-testid=curves]').id.slice(1))).chart.getOption()"
    names = ["everything secret", "two groups", "groups of 2", "public"]
    assert page.evaluate(f"{chart}.xAxis[0].data") == names
    assert page.evaluate(f"{chart}.series.map(one => one.type)") == ["bar"]
    pick(page, "closer", "two groups")
    expect(page.get_by_test_id("point")).to_contain_text("Two groups")


def test_the_frame_is_there_before_any_script(chromium: Browser, place: Place) -> None:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page = context.new_page()
    sign_in(page, place, "cora")
    page.route("**/*.js", lambda route: route.abort())
    page.goto(f"{place.url}/ledger", wait_until="commit")
    first = page.locator(".bf-first")
    expect(first.get_by_role("heading", name="Budget and log")).to_be_visible()
    expect(first.get_by_role("link", name="Budget and log")).to_have_attribute("aria-current", "page")
    assert page.evaluate("document.body.classList.contains('body--dark')"), "and in the colours of the theme"
    page.unroute_all()
    open_page(page, place, "/ledger")
    expect(first).to_be_hidden()
    context.close()


def states(name: str) -> int:
    """How many pages of somebody the server holds."""
    gc.collect()
    return sum(isinstance(one, PageContext) and one.identity.name == name for one in gc.get_objects())


@pytest.mark.nightly
def test_pages_that_are_closed_let_go_of_their_state(
    chromium: Browser, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.app_state.users.add("tom", "analyst", PASSWORD, must_change=False)
    context = chromium.new_context()
    sign_in(context.new_page(), place, "tom", then="/history")
    for _ in range(3):
        open_page(context.new_page(), place, "/history")
    assert states("tom") >= 4
    monkeypatch.setattr(app.config, "reconnect_timeout", 0.0)
    context.close()
    last = time.monotonic() + 20
    while states("tom") and time.monotonic() < last:
        time.sleep(0.2)
    assert states("tom") == 0, "what was closed is gone from memory"
