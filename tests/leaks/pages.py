"""The pages over a world, in a browser. One process serves them once: `python -m tests.leaks.pages NAME [LEAK]`."""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from nicegui import Client
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from blowfishdb.audit.coupling import MadeEqual, RepeatedBytes
from blowfishdb.audit.twin_questions import WARD, neighbouring
from blowfishdb.audit.twins import ANALYST, Heard, compare
from blowfishdb.server.app import create_app, listening
from blowfishdb.server.authentication import COOKIE
from blowfishdb.server.dashboards import DashboardTile
from blowfishdb.server.state import AppState
from tests.browser.fixture import ARRIVED, HEARD, launch, open_tab, settle
from tests.leaks import planted
from tests.leaks.faces import SERVED_EQUAL, app_state_of
from tests.leaks.test_others import OTHER_ROWS, SAME_ROWS, bob
from tests.server.places import free_door

PATIENCE = 60_000
STILL = "() => !/Working out|Just a moment/.test(document.body.innerText) && !document.querySelector('.q-ripple')"
"""What is worked out beside the page has followed it, and no click is drawn any more."""
NUMBERED = """(() => {
  let turn = 0;
  crypto.randomUUID = () => `00000000-0000-4000-8000-${String(++turn).padStart(12, "0")}`;
  crypto.getRandomValues = (bytes) => bytes.fill(++turn);
  Math.random = () => (++turn % 1000) / 1000;
})();"""
"""Random names in the browser are numbered, as those of the server are."""
PAGES_EQUAL = (
    *SERVED_EQUAL,
    MadeEqual(
        "nicegui.event_listener", "uuid", lambda: RepeatedBytes(uuid), "what the browser calls has a random name"
    ),
    MadeEqual("blowfishdb.server.pages.layout", "PATIENCE", lambda: 60.0, "content that is late follows its frame"),
    MadeEqual("blowfishdb.server.dashboards", "new_password", lambda: partial(str, "a-board"), "a link is random"),
)
"""What is made equal beside what it is for other faces; the clock of the browser stands, too."""
VARYING = {"date", "set-cookie", "content-length", "x-request-id"}
"""Headers of a page that say when, or to whom; and how much of a page is sent before the rest follows."""


@dataclass
class Current:
    """The application state of the world that is visited; the app that serves the pages outlives it."""

    world: AppState | None = None
    address: str = ""
    stop: list[uvicorn.Server] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def visit(self, app_state: AppState) -> None:
        """Serves this world from now on."""
        self.world = app_state
        if self.address:
            return
        door = free_door()
        settings = replace(app_state.settings, host="127.0.0.1", port=door.getsockname()[1])
        config = listening(create_app(self), settings)  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, args=([door],), daemon=True).start()
        while not server.started:
            time.sleep(0.02)
        self.stop.append(server)
        self.address = f"http://127.0.0.1:{door.getsockname()[1]}"


def shown(page: Page, label: str) -> Iterator[Heard]:
    """All that a page holds: its markup, and each element as the server has sent it, with the values of charts."""
    page.evaluate(HEARD)
    page.wait_for_function(STILL)
    yield Heard(label, "markup", page.locator("main#page").evaluate("element => element.outerHTML").encode())
    newest = list(Client.instances.values())[-1]
    for number, element in sorted(newest.elements.items()):
        yield Heard(label, f"element {number}", json.dumps(element._to_dict(), sort_keys=True, default=str).encode())


def opened(page: Page, current: Current, path: str) -> Iterator[Heard]:
    """A page with the status and the headers of its answer."""
    response = page.goto(f"{current.address}{path}")
    assert response is not None
    page.wait_for_selector("main#page, .bf-plain main")
    headers = sorted((name, value) for name, value in response.headers.items() if name not in VARYING)
    yield Heard(path, "status and headers", f"{response.status} {headers}".encode())
    if page.locator("main#page").count():
        page.evaluate(ARRIVED)
        yield from shown(page, path)
    else:
        # A refusal is a page of its own.
        yield Heard(path, "refusal", page.content().encode())


def explored(page: Page, current: Current, name: str) -> Iterator[Heard]:
    """A question asked on Explore: its price, its answer, and what its tabs and a download hold."""
    yield from opened(page, current, f"/explore?dataset={name}")
    page.get_by_label("Attribute", exact=True).first.click()
    page.get_by_role("option", name="ward").first.click()
    # Settled after each change: a price that is drawn once more leaves other numbers of elements.
    settle(page)
    page.get_by_label("Within ±").fill("20")
    settle(page)
    yield from shown(page, "the price")
    page.get_by_test_id("run").click()
    page.get_by_test_id("confirm").click()
    expect(page.locator(".bf-chart canvas")).to_be_visible(timeout=PATIENCE)
    settle(page)
    for tab in ("Table", "What it means", "Python"):
        open_tab(page, tab)
        yield from shown(page, f"the answer, {tab}")
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="JSON").click()
    yield Heard("the answer", "download", Path(waiting.value.path()).read_bytes())


def visited(context: BrowserContext, current: Current, app_state: AppState, name: str) -> Iterator[Heard]:
    """A whole visit of the analyst."""
    app_state.session(ANALYST)[name].top(2, WARD).release(epsilon="1/4")
    login = app_state.logins.begin(ANALYST)
    context.add_cookies([{"name": COOKIE, "value": login.secret, "url": current.address}])
    page = context.new_page()
    yield from explored(page, current, name)
    newest, oldest = (past.number for past in app_state.session(ANALYST).history(name))
    board = app_state.dashboards.create(ANALYST, "a board").with_tile(DashboardTile(name, newest))
    app_state.dashboards.save(board.with_tile(DashboardTile(name, oldest)))
    view = urlencode({"of": f"{newest} {name}"})
    for path in (
        "/history",
        f"/history/answer?{view}",
        f"/history/answer?{urlencode({'of': f'{newest + 40} {name}'})}",
        f"/dashboards/view?{urlencode({'of': board.id})}",
        "/dashboards",
        "/budget",
        "/questions",
        "/synopses",
        "/dictionary",
    ):
        yield from opened(page, current, path)
    page.close()


@contextmanager
def planting(leak: str | None) -> Iterator[None]:
    """A leak of this name, where one is given."""
    with pytest.MonkeyPatch.context() as patch:
        if leak is not None:
            spy = planted.Spy()
            spy.watch(patch)
            getattr(planted, leak)(spy, patch)
        yield


OTHERS = "others"


def main(name: str, leak: str | None = None) -> int:
    """Prints what differs between the pages of two worlds, how much was told, and how often data was read.

    With "others" in place of a leak the tables are the same, and another analyst has asked other questions before.
    """
    current, others = Current(), (bob(name, *SAME_ROWS), bob(name, *OTHER_ROWS)) if leak == OTHERS else None
    leak = None if leak == OTHERS else leak
    with sync_playwright() as playwright, planting(leak):
        browser = launch(playwright)

        def script(config: Path) -> Iterator[Heard]:
            with app_state_of(config) as (app_state, _):
                current.visit(app_state)
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                context.set_default_timeout(PATIENCE)
                context.add_init_script(NUMBERED)
                context.clock.set_fixed_time(1_700_000_000_000)
                yield from visited(context, current, app_state, name)
                context.close()

        found = compare(neighbouring((name,)), script, others=others, equal=PAGES_EQUAL, everywhere=True)
        browser.close()
    print(json.dumps({"differences": found.differences, "told": found.told, "accesses": found.accesses}))
    for server in current.stop:
        server.should_exit = True
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
