"""Dashboards in a real browser: made by an analyst, opened by another, published by a curator, read by everybody."""

from __future__ import annotations

import duckdb
import pytest
from playwright.sync_api import Page, expect

import blowfishdb as bf
from tests.browser.fixture import HEARD, PASSWORD, Place, follow, open_page, settle, shoot, sign_in

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def boards(place: Place) -> Place:
    """A dataset of its own with two answers of an analyst of its own."""
    with duckdb.connect(str(place.folder / "trips.duckdb")) as connection:
        connection.execute("CREATE TABLE trips AS SELECT range % 60 AS minutes, range % 3 AS line FROM range(6000)")
    domain = {"minutes": bf.integers(0, 59, null=0), "line": bf.integers(0, 2, null=0)}
    place.app_state.curator("cora").add(
        bf.Dataset("trips", source="duckdb:///trips.duckdb#trips", domain=domain, epsilon="2")
    )
    place.app_state.users.add("dora", "analyst", PASSWORD, must_change=False)
    trips = place.app_state.session("dora")["trips"]
    trips.where(bf.col("line") >= 1).histogram(bf.col("minutes").bins(10)).release(epsilon="1/4")
    trips.aggregate(bf.Aggregate("mean", ("minutes",)), by=["line"]).release(epsilon="1/4")
    return place


@pytest.mark.nightly
def test_an_analyst_arranges_another_opens_and_a_curator_publishes(page: Page, boards: Place) -> None:
    session, store = boards.app_state.session("dora"), boards.app_state.dashboards
    spent = session.budget("trips").spent
    means, histogram = (past.number for past in session.history("trips"))
    sign_in(page, boards, "dora", then=f"/history/answer?of={histogram}+trips")
    page.get_by_test_id("keep").click()
    page.wait_for_url("**/dashboards/view**")
    page.evaluate(HEARD)
    expect(page.get_by_test_id("title")).to_contain_text("trips")
    page.get_by_test_id("arrange").click()
    title = page.get_by_test_id("board-title")
    title.fill("Trips by <b>line</b>")
    title.blur()
    expect(page.get_by_test_id("title")).to_contain_text("Trips by <b>line</b>")
    page.get_by_test_id("past").click()
    page.get_by_role("option", name="Mean of minutes", exact=False).first.click()
    page.get_by_test_id("add-tile").click()
    expect(page.get_by_role("region", name="Answer 2").or_(page.locator('[aria-label="Answer 2"]'))).to_be_visible()
    page.get_by_label("Move answer 2 up").click()
    page.evaluate(HEARD)
    page.get_by_label("Make answer 2 wider").click()
    page.evaluate(HEARD)
    page.get_by_test_id("access").click()
    page.get_by_role("option", name="offered to the curator", exact=False).click()
    expect(page.get_by_test_id("link")).to_contain_text("/dashboards/view?of=")
    (board,) = store.of("dora")
    assert [(tile.number, tile.is_wide) for tile in board.tiles] == [(means, False), (histogram, True)]
    shoot(page, "dashboard-arrange")
    page.get_by_test_id("arrange").click()
    page.evaluate(HEARD)
    shoot(page, "dashboard")

    # The question comes along, its filter and accuracy too.
    follow(page, page.get_by_test_id("edit").last)
    settle(page)
    expect(page.get_by_test_id("promise")).to_be_visible()
    expect(page.locator(".bf-quote .bf-title").first).to_contain_text("Histogram of minutes")
    expect(page.locator(".bf-quote .bf-title").first).to_contain_text("line >= 1")

    link = f"/dashboards/view?of={board.id}"
    page.context.clear_cookies()
    sign_in(page, boards, "ben", then=link)
    expect(page.get_by_test_id("title")).to_contain_text("Trips by")
    expect(page.locator(".bf-chart canvas").first).to_be_visible()
    expect(page.get_by_test_id("arrange")).to_have_count(0)

    page.context.clear_cookies()
    assert page.goto(f"{boards.url}/published/{board.id}").status == 404  # type: ignore[union-attr]
    sign_in(page, boards, "cora", then="/dashboards")
    follow(page, page.get_by_role("link", name="Trips by"))
    page.get_by_test_id("publish").click()
    page.get_by_test_id("confirm-publish").click()
    expect(page.get_by_test_id("published")).to_be_visible()
    shoot(page, "dashboard-curator")

    page.context.clear_cookies()
    page.goto(f"{boards.url}/published/{board.id}")
    expect(page.get_by_role("heading", name="Trips by <b>line</b>")).to_be_visible()
    expect(page.locator("section svg")).to_have_count(2)
    page.get_by_text("Numbers and note").first.click()
    expect(page.locator("section table").first).to_be_visible()
    shoot(page, "dashboard-published")
    assert session.budget("trips").spent == spent, "opening costs nothing"
    done = [(line.who, line.action) for line in boards.app_state.audit_log.last()]
    assert ("cora", "published a dashboard") in done
    assert ("dora", "changed who opens a dashboard") in done

    sign_in(page, boards, "cora", then=link)
    page.get_by_test_id("withdraw").click()
    expect(page.get_by_test_id("published")).to_have_count(0)
    page.context.clear_cookies()
    assert page.goto(f"{boards.url}/published/{board.id}").status == 404  # type: ignore[union-attr]


@pytest.mark.nightly
def test_a_curator_sets_the_cap_of_a_token(page: Page, boards: Place) -> None:
    boards.app_state.tokens.issue("dora", "superset", ["ask"], 30)
    sign_in(page, boards, "cora", then="/users")
    page.get_by_label("Cap of superset of dora").click()
    page.get_by_test_id("cap").fill("a lot")
    page.get_by_test_id("set-cap").click()
    expect(page.get_by_role("alert").filter(has_text="number such as")).to_be_visible()
    page.get_by_test_id("cap").fill("0.2")
    page.get_by_test_id("set-cap").click()
    expect(page.get_by_role("row", name="dora superset")).to_contain_text("0.2")
    shoot(page, "users-caps")
    (token,) = boards.app_state.tokens.of("dora")
    assert str(token.cap) == "1/5"
    page.context.clear_cookies()
    sign_in(page, boards, "dora", then="/account")
    expect(page.get_by_text("0 spent of its cap of 0.2")).to_be_visible()
    open_page(page, boards, "/dashboards")
    shoot(page, "dashboards")
