"""An analyst's visit in a real browser, from signing in to files in hand; what ends it, and what it must never show."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, Route, WebSocket, expect

import blowfishdb as bf
from blowfishdb.engine import measure
from blowfishdb.noise.certified import Noise, tell
from blowfishdb.present.chart_echarts import UPRIGHT
from blowfishdb.present.words import readable
from blowfishdb.server.pages import history
from tests.browser.fixture import (
    HEARD,
    PASSWORD,
    SECRET_NOTE,
    WARDS,
    Place,
    follow,
    make_table,
    open_page,
    open_tab,
    settle,
    shoot,
    sign_in,
    sign_in_by_form,
)

pytestmark = pytest.mark.chromium


def choose(page: Page, label: str, option: str) -> None:
    """Picks an option of a select."""
    page.get_by_label(label, exact=True).first.click()
    page.get_by_role("option", name=option, exact=False).first.click()


def ask_wards(page: Page, within: str = "400") -> None:
    """Asks for the histogram of wards."""
    choose(page, "Attribute", "ward")
    page.get_by_label("Within ±").fill(within)
    settle(page)


def run(page: Page) -> None:
    """Runs what is quoted, confirmed."""
    page.get_by_test_id("run").click()
    page.get_by_test_id("confirm").click()


def audited(place: Place) -> list[tuple[str, str, str]]:
    """Who did what to what, by the audit log."""
    return [(line.who, line.action, line.target) for line in place.app_state.audit_log.last()]


def test_from_sign_in_to_files(page: Page, place: Place) -> None:
    page.goto(place.url)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    shoot(page, "sign-in")
    page.fill("#name", "ana")
    page.fill("#password", "not her password")
    page.click("button[type=submit]")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    sign_in_by_form(page, place)
    expect(page.get_by_role("link", name="Explore")).to_have_attribute("aria-current", "page")

    ask_wards(page)
    expect(page.get_by_test_id("promise")).to_contain_text("within ±400")
    price = page.get_by_test_id("price").inner_text()
    assert 0 < float(price.removeprefix("≈ ")) < 1
    assert page.locator(".bf-offer").count() > 1, "the losing mechanisms are shown too"
    assert place.app_state.session("ana").history("clinic") == [], "a price charges nothing"
    shoot(page, "explore-price")

    page.get_by_test_id("run").click()
    expect(page.get_by_role("alertdialog")).to_contain_text(f"Spend epsilon {price}?")
    page.get_by_role("button", name="Cancel").click()
    assert place.app_state.session("ana").history("clinic") == [], "cancelled: nothing was charged"
    run(page)
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    settle(page)
    shoot(page, "explore-answer")
    (past,) = place.app_state.session("ana").history("clinic")
    assert past.question == "Histogram of ward"
    assert ("ana", "asked for an answer", "clinic") in audited(place)

    open_tab(page, "Table")
    expect(page.locator(".q-table tbody tr")).to_have_count(len(WARDS) + 1)
    open_tab(page, "Python")
    expect(page.locator("pre.bf-code")).to_contain_text('.histogram("ward")'.replace('"', "'"))
    expect(page.get_by_test_id("shared")).to_contain_text("It costs nothing: what entry")
    expect(page.get_by_test_id("shared").get_by_role("link", name="Open it")).to_be_visible()
    page.get_by_test_id("run").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("nothing is charged")
    page.get_by_role("button", name="Cancel").click()

    for words, start in (("CSV", b"ward,count,low"), ("Parquet", b"PAR1"), ("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        page.get_by_role("button", name="Download").click()
        with page.expect_download() as waiting:
            page.get_by_role("menuitem", name=words).click()
        assert Path(waiting.value.path()).read_bytes().startswith(start), words
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="JSON").click()
    answer = bf.Answer.from_json(Path(waiting.value.path()).read_bytes())
    assert answer.certificate.epsilon == past.epsilon


TEMPLATES = {
    "Number": "Mean of age",
    "Quantiles": "Quantiles of age",
    "Shares": "Percentages by age",
    "Top list": "with the most records",
    "Compare": "by ward in 2 groups",
    "Cumulative": "CDF of",
    "Heat map": "×",
    "Ranges": "All ranges",
    "Marginals": "2-way",
    "SQL": "Histogram of",
}


def test_nothing_that_was_made_is_thrown_away(page: Page, place: Place) -> None:
    sign_in(page, place)
    choose(page, "Attribute", "ward")
    page.get_by_role("button", name="Add", exact=True).click()
    rows = page.get_by_label("Attribute of the filter")
    for template in ("Cumulative", "Marginals", "Histogram"):
        page.get_by_role("radio", name=template).click()
        settle(page)
        expect(rows, f"a row that is not filled in yet stays in {template}").to_have_count(1)
    expect(page.get_by_label("Attribute", exact=True).first).to_have_value("ward")
    choose(page, "Attribute of the filter", "age")
    page.get_by_label("From", exact=True).fill("20")
    settle(page)

    page.get_by_role("radio", name="SQL").click()
    statement = page.get_by_label("Statement")
    expect(statement).to_have_value("SELECT ward, COUNT(*) FROM clinic WHERE age >= 20 GROUP BY ward")
    expect(page.get_by_test_id("from-controls")).to_have_count(0)
    settle(page)
    shoot(page, "explore-sql-from-controls")
    mine = "SELECT AVG(age) FROM clinic"
    statement.fill(mine)
    settle(page)
    page.get_by_role("radio", name="Histogram").click()
    settle(page)
    expect(page.get_by_label("From", exact=True)).to_have_value("20")
    page.get_by_role("radio", name="SQL").click()
    settle(page)
    expect(statement).to_have_value(mine)
    shoot(page, "explore-sql-own")
    page.get_by_test_id("from-controls").click()
    settle(page)
    expect(statement).to_have_value("SELECT ward, COUNT(*) FROM clinic WHERE age >= 20 GROUP BY ward")


def test_every_template_has_a_price(page: Page, place: Place) -> None:
    sign_in(page, place)
    # One by one: a price of a mean says how near the mean is, in its own unit.
    for template, words in TEMPLATES.items():
        page.get_by_role("radio", name=template).click()
        settle(page)
        expect(page.locator(".bf-quote .bf-title").first).to_contain_text(words)
        expect(page.get_by_test_id("price")).to_be_visible()
        shoot(page, f"explore-{template.lower().replace(' ', '-')}")


TOWNS = [f"{name}{end}" for name in ("Ash", "Birch", "Deer", "Wolf") for end in (f"ford {n}" for n in range(50))]
NAMES = """() => {
  const shown = document.querySelector('#page .bf-chart');
  return getElement(Number(shown.id.slice(1))).chart.getOption().yAxis[0].data;
}"""


@pytest.fixture(scope="module")
def towns(place: Place) -> Place:
    """A dataset with a category of 200 values, and three answers of hers."""
    with duckdb.connect(str(place.folder / "towns.duckdb")) as connection:
        connection.execute("CREATE TABLE people (town VARCHAR, sex VARCHAR, age INTEGER)")
        rows = [(TOWNS[number % 200 if number % 3 else 7], "FM"[number % 2], number % 80) for number in range(3000)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    domain = {
        "town": bf.categorical(TOWNS, null=TOWNS[0], outside=TOWNS[0]),
        "sex": bf.categorical(["F", "M"], null="F", outside="F"),
        "age": bf.integers(0, 99, null=0),
    }
    place.app_state.curator("cora").add(
        bf.Dataset("towns", source="duckdb:///towns.duckdb#people", domain=domain, epsilon="100")
    )
    place.app_state.users.add("tess", "analyst", PASSWORD, must_change=False)
    table = place.app_state.session("tess")["towns"]
    # Epsilon 20: that noise lifts another town above the 1000 records of the seventh has odds below 10^-9.
    table.histogram("town").release(epsilon=20)
    table.aggregate(bf.Aggregate("mean", ("age",)), by=["sex"]).release(epsilon=5)
    table.histogram2d("sex", bf.col("age").bins(10)).release(epsilon=Fraction(1, 50))
    return place


@pytest.mark.nightly
def test_long_lists_numbers_and_noise_by_keyboard(page: Page, towns: Place) -> None:
    names = [f"{past.number} towns" for past in towns.app_state.session("tess").history("towns")]
    heat, means, counts = names
    sign_in(page, towns, "tess", then=f"/history/answer?{urlencode({'of': counts})}")
    assert page.evaluate(NAMES)[0] == TOWNS[7], "the largest first"
    assert len(page.evaluate(NAMES)) == 200
    shoot(page, "answer-200-values")
    by_name = page.get_by_role("radio", name="By name")
    by_name.focus()
    page.keyboard.press("Enter")
    expect(by_name).to_have_attribute("aria-checked", "true")
    page.get_by_test_id("search").focus()
    page.keyboard.insert_text("wolfford 4")
    page.evaluate(HEARD)
    assert page.evaluate(NAMES) == ["Wolfford 4", *(f"Wolfford 4{digit}" for digit in range(10))]
    page.get_by_role("radio", name="Percent").focus()
    page.keyboard.press("Enter")
    page.evaluate(HEARD)
    assert "percent of the records" in page.evaluate(NAMES.replace("yAxis[0].data", "xAxis[0].name"))
    open_page(page, towns, f"/history/answer?{urlencode({'of': means})}")
    open_tab(page, "Difference")
    expect(page.get_by_test_id("number")).to_have_count(4)
    expect(page.get_by_test_id("number").first).to_contain_text("with 95 % confidence")
    shoot(page, "answer-difference")
    open_page(page, towns, f"/history/answer?{urlencode({'of': heat})}")
    expect(page.get_by_test_id("remark").first).to_contain_text("Dotted: within the noise")
    shoot(page, "answer-noise")


@pytest.mark.nightly
def test_the_questions_of_the_dictionary_work_when_clicked(page: Page, towns: Place) -> None:
    sign_in(page, towns, "tess", then="/dictionary?dataset=towns")
    expect(page.get_by_text("200 values: Ashford 0 … Wolfford 49")).to_be_visible()
    shoot(page, "dictionary")
    follow(page, page.get_by_role("link", name="Mean of age, comparing sex F with M"))
    settle(page)
    expect(page.get_by_test_id("price")).to_be_visible()
    run(page)
    expect(page.get_by_test_id("number")).to_have_count(4)
    expect(page).to_have_url(re.compile("answer="))
    page.reload()
    settle(page)
    expect(page.get_by_test_id("number")).to_have_count(4)


def test_filters_budget_and_refusals_teach(page: Page, place: Place) -> None:
    sign_in(page, place)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("From", exact=True).fill("18")
    page.get_by_label("To", exact=True).fill("65")
    settle(page)
    expect(page.locator(".bf-quote .bf-title").first).to_contain_text("where age between 18 and 65")
    page.get_by_role("radio", name="Choose budget").click()
    page.get_by_label("Spend epsilon").fill("0.05")
    settle(page)
    expect(page.get_by_test_id("price")).to_have_text("0.05")
    page.get_by_label("Spend epsilon").fill("a little")
    settle(page)
    expect(page.get_by_test_id("refusal")).to_contain_text("epsilon is a number", ignore_case=True)
    shoot(page, "explore-refusal")
    page.get_by_role("radio", name="SQL").click()
    page.get_by_label("Statement").fill("SELECT * FROM clinic")
    page.get_by_label("Spend epsilon").fill("0.05")
    settle(page)
    expect(page.get_by_test_id("refusal")).to_contain_text("Rows are never shown")


def test_experts_set_parameters_of_a_mechanism(page: Page, place: Place) -> None:
    sign_in(page, place)
    page.get_by_role("radio", name="Choose budget").click()
    settle(page)
    page.get_by_text("Mechanism", exact=True).click()
    choose(page, "Mechanism", "kdtree")
    page.get_by_text("Parameters, for experts").click()
    field = page.get_by_test_id("parameter-split")
    field.fill("2")
    settle(page)
    expect(page.get_by_test_id("refusal")).to_contain_text("number from 0.01 to 0.99")
    expect(page.locator(".q-field--error")).to_have_count(1)
    field.fill("0.3")
    settle(page)
    expect(page.locator(".bf-quote")).to_contain_text("was asked for with split=0.3")
    expect(page.locator(".q-field--error")).to_have_count(0)
    choose(page, "Mechanism", "dawa")
    settle(page)
    expect(page.locator(".bf-quote")).not_to_contain_text("split=0.3")
    expect(page.get_by_test_id("parameter-clearance")).to_have_count(0)


@pytest.mark.nightly
def test_history_compare_budget_and_synopses(page: Page, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.app_state.users.add("hanna", "analyst", PASSWORD, must_change=False)
    session = place.app_state.session("hanna")
    sign_in(page, place, "hanna", then="/history")
    expect(page.get_by_role("heading", name="Nothing asked yet")).to_be_visible()
    open_page(page, place, "/synopses")
    shoot(page, "synopses-empty")

    ages = session["clinic"].histogram(bf.col("age").bins(10))
    ages.release(alpha=900)
    ages.release(alpha=600)
    page.get_by_role("button", name="Publish one").click()
    page.get_by_role("radio", name="Several").click()
    page.get_by_label("Spend epsilon").fill("0.05")
    shoot(page, "synopses-publish")
    page.get_by_label("Spend epsilon").fill("100")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("more than you have")
    expect(page.get_by_test_id("confirm")).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_label("Spend epsilon").fill("0.05")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Spend epsilon 0.05?")
    expect(page.get_by_role("table", name="What it will answer")).to_contain_text("Number of records")
    shoot(page, "synopses-price")
    page.get_by_test_id("confirm").click()
    expect(page.get_by_role("button", name="Ask it, free")).to_be_visible()
    shoot(page, "synopses")
    assert "asked for a synopsis" in {action for _, action, _ in audited(place)}
    spent = session.budget("clinic").spent
    open_page(page, place, "/history")
    boxes = page.get_by_role("checkbox")
    expect(boxes).to_have_count(3)
    shoot(page, "history")
    with monkeypatch.context() as patch:
        patch.setattr(history, "LISTED", 2)
        open_page(page, place, "/history")
        expect(boxes).to_have_count(2)
        shoot(page, "history-newest")
        follow(page, page.get_by_role("link", name="Older answers"))
        expect(boxes).to_have_count(1)
        follow(page, page.get_by_role("link", name="Newest answers"))
    open_page(page, place, "/history")
    expect(boxes).to_have_count(3)
    boxes.nth(1).click()
    boxes.nth(2).click()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Taken together")).to_be_visible()
    expect(page.locator(".bf-chart canvas")).to_have_count(2)
    expect(page.get_by_text("with 90 % confidence")).to_be_visible()
    shoot(page, "compare")
    open_page(page, place, "/history")
    follow(page, page.get_by_role("link", name="Histogram of age in bins of 10", exact=True).first)
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    shoot(page, "history-answer")

    open_page(page, place, "/budget")
    expect(page.get_by_test_id("left").first).to_have_text(f"{float(1 - spent):g}")
    expect(page.get_by_text("CDF of cost")).to_be_visible()
    shoot(page, "budget")
    page.get_by_label("Within").first.fill("-3")
    expect(page.get_by_text("The width is a number")).to_be_visible()
    expect(page.get_by_text("CDF of cost")).to_have_count(0)
    expect(page.get_by_text("Working out the prices")).to_have_count(0)
    page.get_by_label("Within").first.fill("300")
    expect(page.get_by_text("CDF of cost")).to_be_visible()

    open_page(page, place, "/synopses")
    page.get_by_role("button", name="Ask it, free").first.click()
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    page.get_by_role("radio", name="Cumulative").click()
    expect(page.get_by_role("heading", name="CDF of age")).to_be_visible()
    shoot(page, "synopsis")
    assert session.budget("clinic").spent == spent, "looking back and asking synopses is free"


def test_intervals_of_very_narrow_bars_do_not_cover_the_bars(page: Page) -> None:
    look = f"""width => {{
      const api = {{value: (place) => [3, 10, 20][place], coord: (point) => point, size: () => [width, 1]}};
      const {{ children }} = ({UPRIGHT})({{}}, api);
      return [children.length, children[0].style.opacity, children[0].style.lineWidth <= width];
    }}"""
    assert page.evaluate(look, 40) == [3, 1, True], "a line with two caps"
    lines, opacity, is_within = page.evaluate(look, 0.7)
    assert (lines, is_within) == (1, True) and opacity < 0.5, "no caps, and a line that the bar is seen through"


@pytest.mark.nightly
def test_more_accuracy_is_released_by_the_slider_after_its_price_was_confirmed(page: Page, place: Place) -> None:
    place.app_state.users.add("mara", "analyst", PASSWORD, must_change=False)
    session = place.app_state.session("mara")
    wards = session["clinic"].histogram("ward")
    width = wards.release(alpha=400).widths.simultaneous
    (past,) = session.history("clinic")
    sign_in(page, place, "mara", then=f"/history/answer?{urlencode({'of': f'{past.number} clinic'})}")
    button, words = page.get_by_test_id("sharpen"), page.get_by_test_id("marginal")
    expect(words).to_contain_text("It costs nothing")
    expect(button).to_be_disabled()
    # By keyboard: two steps of five percent, each with its price.
    for percent in (95, 90):
        page.locator(".q-slider [tabindex='0']").press("ArrowRight")
        within = readable(width * percent / 100)
        expect(words).to_contain_text(f"Within ±{within}: It costs", timeout=60_000)
    preview = wards.preview(alpha=within)
    assert 0 < preview.epsilon < wards.preview(alpha=within, fresh=True).epsilon
    assert session.budget("clinic").spent == past.epsilon, "a price charges nothing"
    shoot(page, "more-accuracy")
    button.click()
    expect(page.get_by_role("alertdialog")).to_contain_text(f"within ±{within}")
    page.get_by_role("button", name="Cancel").click()
    assert session.budget("clinic").spent == past.epsilon
    button.click()
    page.get_by_test_id("confirm").click()
    page.wait_for_url(lambda url: f"{past.number}+clinic" not in url)
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    assert session.budget("clinic").spent == past.epsilon + preview.epsilon
    assert ("mara", "asked for more accuracy", "clinic") in audited(place)


def test_the_name_of_the_largest_group_has_no_count(page: Page, place: Place) -> None:
    """At epsilon 0.2 the largest ward is hundreds of scales ahead, so another is named with odds below 1e-9."""
    place.app_state.users.add("nina", "analyst", PASSWORD, must_change=False)
    sign_in(page, place, "nina")
    page.get_by_role("radio", name="SQL").click()
    page.get_by_label("Statement").fill("SELECT ward FROM clinic GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1")
    page.get_by_role("radio", name="Choose budget").click()
    page.get_by_label("Spend epsilon").fill("0.2")
    settle(page)
    expect(page.locator(".bf-quote .bf-title").first).to_contain_text("The group of ward with the most records")
    expect(page.get_by_test_id("price")).to_have_text("0.2")
    shoot(page, "explore-names")
    run(page)
    expect(page.get_by_text("names of groups, without counts").first).to_be_visible()
    shoot(page, "answer-names")
    expect(page.get_by_role("cell", name="Cedar")).to_be_visible()
    expect(page.get_by_role("tab", name="Number")).to_have_count(0)


@pytest.mark.nightly
def test_several_statements_are_taken_along_to_where_they_are_priced(page: Page, place: Place) -> None:
    sign_in(page, place)
    page.get_by_role("radio", name="SQL").click()
    one, two = "SELECT COUNT(*) FROM clinic WHERE age < 18", "SELECT ward, COUNT(*) FROM clinic GROUP BY ward"
    page.get_by_label("Statement").fill(f"{one}; {two}")
    settle(page)
    expect(page.get_by_test_id("refusal")).to_contain_text("My questions")
    page.get_by_test_id("take-along").click()
    page.wait_for_url(re.compile("/questions"))
    expect(page.get_by_test_id("total")).to_be_visible()
    expect(page.get_by_text("2 collected")).to_be_visible()
    # Back again, nothing of what was typed is lost.
    page.go_back()
    settle(page)
    expect(page.get_by_label("Statement")).to_have_value(f"{one}; {two}")


def test_the_budget_runs_out(page: Page, place: Place) -> None:
    place.app_state.users.add("poor", "analyst", PASSWORD, must_change=False)
    session = place.app_state.session("poor")
    session["clinic"].count().release(epsilon="0.001")
    sign_in(page, place, "poor")
    ask_wards(page, "1")
    expect(page.get_by_text("more than you have")).to_be_visible()
    expect(page.get_by_test_id("run")).to_be_disabled()
    shoot(page, "explore-too-expensive")
    page.get_by_test_id("ask-instead").click()
    settle(page)
    expect(page.get_by_test_id("run")).to_be_enabled()
    page.get_by_role("radio", name="SQL", exact=True).click()
    page.get_by_label("Statement").fill("SELECT ward, COUNT(*) AS n, SUM(cost) FROM clinic GROUP BY ward")
    page.get_by_label("Within ±").fill("50")
    settle(page)
    expect(page.get_by_text("more than you have")).to_be_visible()
    # The columns have units of their own: the count alone says nothing of the sum, and no one number asks for both.
    expect(page.get_by_test_id("instead")).to_contain_text(re.compile(r"would bring n within [\d.,]+, sum_cost within"))
    expect(page.get_by_test_id("ask-instead")).to_have_count(0)
    expect(page.locator(".bf-offer").first).to_contain_text("by column")
    page.get_by_role("radio", name="Histogram", exact=True).click()
    ask_wards(page, "100")
    page.get_by_test_id("run").click()
    # Meanwhile the rest is spent on another question: the ledger refuses, whatever this page was told.
    left = session.budget("clinic").remaining
    session["clinic"].histogram("age").release(epsilon=left - Fraction(1, 10_000))
    page.get_by_test_id("confirm").click()
    expect(page.get_by_test_id("failure")).to_contain_text("nothing charged")
    shoot(page, "explore-refused")


LOSE_CONNECTION = """() => {
  window.kept = true;
  window.socket.once("disconnect", () => { window.lost = true; });
  window.socket.io.reconnectionDelay(3500).reconnectionDelayMax(3500).randomizationFactor(0);
  window.socket.io.engine.close();
}"""


@pytest.mark.nightly
def test_a_lost_connection_loses_nothing_that_was_typed(page: Page, place: Place) -> None:
    """A laptop that sleeps, a busy machine: the framework would wait three seconds by itself.

    Who has no answer yet gets exactly the accuracy that was asked for.
    """
    place.app_state.users.add("lou", "analyst", PASSWORD, must_change=False)
    sign_in(page, place, "lou")
    ask_wards(page, "700")
    price = page.get_by_test_id("price").inner_text()
    page.evaluate(LOSE_CONNECTION)
    page.wait_for_function("window.lost && window.socket.connected")
    assert page.evaluate("window.kept"), "the page was not loaded anew"
    expect(page.get_by_test_id("price")).to_have_text(price)
    page.get_by_label("Within ±").fill("350")
    expect(page.get_by_test_id("promise")).to_contain_text("within ±350")


def test_a_visit_ends(page: Page, place: Place) -> None:
    sign_in(page, place)
    settle(page)
    before = place.app_state.session("ana").budget("clinic").spent
    place.clock.ahead += 13 * 60 * 60
    page.get_by_label("Within ±").fill("350")
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    shoot(page, "session-ended")
    assert place.app_state.session("ana").budget("clinic").spent == before
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"{place.url}/explore")
    assert "/sign-in?then=" in page.url
    for refused, words in (("provider-unavailable", "does not answer"), ("sign-in-refused", "vouch"), ("<b>", "")):
        page.goto(f"{place.url}/sign-in?{urlencode({'refused': refused})}")
        expect(page.get_by_role("alert")).to_have_text(re.compile(words or "^$"))
        assert "password is wrong" not in page.content()


def test_a_first_password_must_be_changed(page: Page, place: Place) -> None:
    place.app_state.users.add("nora", "analyst", "made for her, once", must_change=True)
    page.goto(f"{place.url}/explore")
    page.fill("#name", "nora")
    page.fill("#password", "made for her, once")
    page.click("button[type=submit]")
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    shoot(page, "first-password")
    page.goto(f"{place.url}/explore")
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    page.fill("#password", "made for her, once")
    page.fill("#new", "one of her own choice")
    page.fill("#again", "one of another choice")
    page.click("button[type=submit]")
    expect(page.get_by_role("alert")).to_contain_text("not the same")
    page.fill("#again", "one of her own choice")
    page.click("button[type=submit]")
    page.wait_for_selector("main#page")
    assert urlsplit(page.url).path == "/explore"


@pytest.mark.nightly
def test_dark_tablet_and_keyboard(page: Page, place: Place) -> None:
    sign_in(page, place)
    settle(page)
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_selector("body.body--dark")
    run(page)
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    shoot(page, "explore-dark")
    page.reload()
    page.wait_for_selector("body.body--dark")
    page.set_viewport_size({"width": 800, "height": 1100})
    settle(page)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 800, "nothing sticks out on a tablet"
    page.get_by_role("radio", name="Heat map").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="Heat map")).to_have_attribute("aria-checked", "true")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_tokens_are_made_and_ended(page: Page, place: Place) -> None:
    sign_in(page, place, "ben", then="/account")
    page.get_by_label("What for?").fill("my notebook")
    page.get_by_role("button", name="Make a token").click()
    code = page.locator("pre.bf-code")
    expect(code).to_contain_text("bf.connect(")
    shoot(page, "account")
    found = re.search(r'token="([^"]+)"', code.inner_text())
    assert found is not None
    identity = place.app_state.tokens.resume(found[1])
    assert identity is not None
    assert (identity.name, identity.scopes) == ("ben", {"ask"})
    page.get_by_role("button", name="End the token").click()
    expect(page.get_by_text("You have no tokens")).to_be_visible()
    assert place.app_state.tokens.resume(found[1]) is None


def test_links_lead_nowhere_else(page: Page, place: Place) -> None:
    sign_in_by_form(page, place, then="//example.org/")
    assert page.url.startswith(place.url)
    page.goto(f"{place.url}/history/answer?of=999999 clinic")
    expect(page.get_by_text("You have no answer 999999")).to_be_visible()
    page.goto(f"{place.url}/history/answer?of=-1 clinic")
    expect(page.get_by_text("This link leads to no answer")).to_be_visible()
    page.goto(f"{place.url}/no-such-page")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    page.context.clear_cookies()
    page.goto(f"{place.url}/sign-in?then=/explore")
    page.fill("#name", "cora")
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    expect(page.get_by_role("heading", name="Not for you")).to_be_visible()


def traffic_of(chromium: Browser, place: Place, identity: str) -> tuple[str, set[str]]:
    """Everything that went between an analyst's browser and the server on a whole visit, and the hosts it asked."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    heard: list[str] = []
    hosts: set[str] = set()

    def keep(payload: str | bytes) -> None:
        heard.append(payload if isinstance(payload, str) else payload.decode("utf-8", "replace"))

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", keep)
        socket.on("framesent", keep)

    def is_telling(url: str) -> bool:
        """The framework's own scripts and styles are the same for everybody."""
        return "/_nicegui/" not in url or "/static/" not in url

    def pass_on(route: Route) -> None:
        response = route.fetch(max_redirects=0)
        keep(response.body())
        keep(str(response.headers))
        route.fulfill(response=response)

    page.on("websocket", listen)
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.route(is_telling, pass_on)
    sign_in_by_form(page, place, identity)
    open_page(page, place, "/explore?dataset=spied")
    ask_wards(page, "300")
    run(page)
    expect(page.locator(".bf-chart canvas")).to_be_visible()
    for tab in ("Table", "What it means", "Python"):
        open_tab(page, tab)
        page.evaluate(HEARD)
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="JSON").click()
    heard.append(Path(waiting.value.path()).read_text())
    for path in ("history", "budget", "synopses"):
        open_page(page, place, f"/{path}")
        page.evaluate(HEARD)
    page.unroute_all(behavior="wait")
    context.close()
    return "\n".join(heard), hosts


def still(unit: Fraction, weights: NDArray[np.int64], size: int | None = None) -> NDArray[np.int64]:
    """Noise that is the same in every run: drawn noise makes a number that is shown a true count now and then."""
    drawn = np.resize(np.array([41, -26, 77, 13, -58], dtype=np.int64), np.size(weights) if size is None else size)
    tell(Noise("laplace", unit, weights, drawn.size))
    return drawn


def test_no_true_count_or_row_in_any_traffic(chromium: Browser, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "sample", still)
    place.app_state.users.add("spy", "analyst", PASSWORD, must_change=False)
    # What others were told of the wards of the clinic would be combined with the noise that is known here.
    place.app_state.curator("cora").add(make_table(place.folder, "spied"))
    heard, hosts = traffic_of(chromium, place, "spy")
    session = place.app_state.session("spy")
    answer = session.reopen("spied", session.history("spied")[0].number)
    assert isinstance(answer, bf.Answer)
    noisy = {int(value) for value in answer.raw}
    assert all(_has(heard, value) for value in noisy if value > 0), "the search finds numbers that are there"
    assert noisy.isdisjoint(WARDS.values())
    assert [count for count in WARDS.values() if _has(heard, count)] == []
    # How many rows there are is public under this policy, and free: it stands among the exact rows, nowhere else.
    total = sum(WARDS.values())
    assert session["spied"].count().preview(epsilon=1).is_exact
    rest, places = re.subn(rf'"exact":\s*\[\s*{total}\s*\],\s*"total":\s*{total}\.0', "", heard)
    assert places
    assert not _has(rest, total)
    assert SECRET_NOTE not in heard
    assert hosts == {place.url.split("/")[2]}, "no request leaves this server"


def _has(text: str, count: int) -> bool:
    """Whether the number stands there by itself, and not within one of the random words that name requests."""
    grouped = f"{count:,}"
    return re.search(rf"(?<![\w.-])(?:{count}|{re.escape(grouped)})(?![\w-])", text) is not None
