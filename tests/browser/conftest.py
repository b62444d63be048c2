"""One server and one browser for all browser tests; every test gets a window of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.clinic import Place, launch, make_folder, serve

# What is expected is waited for and no longer; Playwright's own 5 seconds pass on a busy machine.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with serve(make_folder(tmp_path_factory.mktemp("clinic"))) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with the module: Playwright keeps an event loop running, beside which other tests cannot run theirs."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()
