"""A count that hangs, as a person sees it in a browser: a button ends it, and asked again it is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fixture import ARRIVED, settle, shoot
from tests.server.places import PASSWORD
from tests.server.silence import FAR, silent_engine

pytestmark = [pytest.mark.chromium, pytest.mark.postgres, pytest.mark.nightly]


def test_a_button_ends_a_count_that_hangs(page: Page, tmp_path: Path, postgres_url: str) -> None:
    with silent_engine(tmp_path, postgres_url) as engine:
        engine.start()
        page.goto(f"{engine.address}/sign-in?then=/explore?dataset={FAR}")
        page.fill("#name", "ana")
        page.fill("#password", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_selector("main#page")
        page.evaluate(ARRIVED)
        page.get_by_label("Within ±").fill("40")
        settle(page)
        with engine.counting() as fall_silent:
            page.get_by_test_id("run").click()
            page.get_by_test_id("confirm").click()
            fall_silent()
            expect(page.get_by_role("progressbar")).to_be_visible()
            shoot(page, "explore-count-that-hangs")
            page.get_by_role("button", name="Cancel").click()
            expect(page.get_by_test_id("failure")).to_contain_text("cancelled")
            shoot(page, "explore-cancelled")
        paid = engine.spent()
        assert paid > 0
        settle(page)
        expect(page.get_by_test_id("shared")).to_contain_text("has no answer yet")
        page.get_by_test_id("run").click()
        expect(page.get_by_role("alertdialog")).to_contain_text("nothing is charged")
        page.get_by_test_id("confirm").click()
        expect(page.locator(".bf-chart canvas")).to_be_visible()
        assert engine.spent() == paid
