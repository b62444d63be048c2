"""One server and one browser for all browser tests; every test gets a page of its own, with no cookies."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.fixture import Place, launch, make_folder, serve

# What is expected is waited for and no longer; Playwright's own 5 and 30 seconds pass on a busy machine.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """One for all tests of a module: the framework's scripts are fetched and compiled once."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(window: BrowserContext) -> Iterator[Page]:
    window.clear_cookies()
    opened = window.new_page()
    tell(opened)
    yield opened
    opened.close()


def tell(page: Page) -> None:
    """Prints what the browser does: who reads of a failure sees what led to it."""
    begun = time.monotonic()

    def say(*words: object) -> None:
        print(f"{time.monotonic() - begun:7.2f}", *words)

    page.on("console", lambda line: say("console:", line.text))
    page.on("framenavigated", lambda frame: say("is at", frame.url))
    page.on("requestfailed", lambda request: say("failed:", request.failure, request.url))
    page.on("websocket", lambda socket: say("connects"))
    page.on(
        "request", lambda request: say("asks", request.method, request.url) if request.is_navigation_request() else None
    )
