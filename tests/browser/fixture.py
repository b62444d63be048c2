"""A server on loopback with people, a table of distinctive counts, and a browser to visit it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import uvicorn
from playwright.sync_api import Browser, Locator, Page, Playwright, TimeoutError, expect

import blowfishdb as bf
from blowfishdb.catalog.config import read_config
from blowfishdb.server.app import create_app, listening
from blowfishdb.server.auth.database import Clock
from blowfishdb.server.authentication import COOKIE
from blowfishdb.server.settings import read_settings
from blowfishdb.server.state import AppState, open_app_state
from tests.server.places import free_door
from tests.session.places import configuration

WARDS = {"Ash": 7_321, "Beech": 4_817, "Cedar": 9_463, "Elm": 2_759}
"""The true counts: no other number of a page looks like them."""
SECRET_NOTE = "row-of-a-person"
PASSWORD = "a long enough passphrase"
PEOPLE = {"cora": "curator", "ana": "analyst", "ben": "analyst", "aude": "auditor"}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=LocalNetworkAccessChecks",
]
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = (1440, 1024)


@dataclass(eq=False)
class MovedClock:
    """The time, which a test may move."""

    ahead: float = 0.0

    def seconds(self) -> float:
        return time.time() + self.ahead


@dataclass(frozen=True, eq=False)
class Place:
    """A server that runs."""

    url: str
    app_state: AppState
    folder: Path
    clock: MovedClock = field(default_factory=MovedClock)


def make_table(folder: Path, name: str) -> bf.Dataset:
    """A table of visits in a file of its own, and the dataset over it."""
    parts = " UNION ALL ".join(
        f"SELECT '{ward}' AS ward, (range * 37 + {place}) % 91 AS age, (range * 13) % 500 AS cost,"
        f" DATE '2025-01-01' + CAST(range % 365 AS INTEGER) AS admitted, '{SECRET_NOTE}' AS note FROM range({count})"
        for place, (ward, count) in enumerate(WARDS.items())
    )
    with duckdb.connect(str(folder / f"{name}.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS {parts}")
    return bf.Dataset(
        name,
        source=f"duckdb:///{name}.duckdb#visits",
        domain={
            "age": bf.integers(0, 99, null=0),
            "ward": bf.categorical([*WARDS, "Fir"], null="Fir", outside="Fir"),
            "cost": bf.bins(0, 500, width=1, null=0),
            "admitted": bf.dates("2025-01-01", "2025-12-31", null="2025-01-01"),
        },
        policy=bf.Policy({"age": bf.threshold(5), "cost": bf.threshold(50)}),
        epsilon="2",
        per_analyst="1",
    )


def make_folder(folder: Path) -> Path:
    """The table, its configuration and the dataset `clinic`."""
    dataset, config = make_table(folder, "clinic"), configuration(folder)
    with bf.curate(config, by="cora") as keeper:
        keeper.add(dataset)
    return config


@contextmanager
def serve(config: Path) -> Iterator[Place]:
    """Runs the server in a thread while the block lasts."""
    clock = MovedClock()
    door = free_door()
    settings = replace(read_settings(read_config(config)), port=door.getsockname()[1], sign_ins_per_minute=1000)
    app_state = open_app_state(config, Clock(clock.seconds), replace(settings, new_datasets="everyone"))
    for name, role in PEOPLE.items():
        app_state.users.add(name, role, PASSWORD, must_change=False)
    server = uvicorn.Server(listening(create_app(app_state), settings))
    thread = threading.Thread(target=server.run, args=([door],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield Place(settings.url, app_state, config.parent, clock)
    server.should_exit = True
    thread.join(20)


def launch(playwright: Playwright) -> Browser:
    """Chromium without a window: the build that has none, which needs less, or the usual one."""
    program = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
    return playwright.chromium.launch(executable_path=program, args=FLAGS)


ARRIVED = """async () => {
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  while (!window.did_handshake) await pause(20);
  await document.fonts.ready;
  let moved = performance.now();
  const watch = new MutationObserver(() => { moved = performance.now(); });
  watch.observe(document, {subtree: true, childList: true, attributes: true});
  const last = moved + 5000;
  while (performance.now() < Math.min(moved + 150, last)) await pause(30);
  watch.disconnect();
}"""
"""Connected to the server, drawn, and still: a page that arranges itself can lose a click that comes too early."""
HEARD = """async () => {
  // Longer than any control waits before it tells the server; then twice there and back, so that its answer is here.
  await new Promise((done) => setTimeout(done, 350));
  const told = {client_id: window.clientId, next_message_id: 0};
  for (const turn of [1, 2]) await new Promise((done) => window.socket.emit("ack", told, done));
}"""
"""The server has heard of everything that was done on the page, and the page shows that it has."""


def open_page(page: Page, place: Place, path: str) -> None:
    """Opens a page and waits until it can be used."""
    page.goto(f"{place.url}{path}")
    page.evaluate(ARRIVED)


def follow(page: Page, link: Locator) -> None:
    """Goes where a link leads; like a person, clicks once more where nothing comes of the first click."""
    before = page.url
    for patience in (10_000, 20_000, 60_000):
        link.click()
        try:
            page.wait_for_url(lambda url: url != before, timeout=patience)
        except TimeoutError:
            print(f"a click on a link led nowhere within {patience} ms")
        else:
            page.evaluate(ARRIVED)
            return
    raise AssertionError(f"no click on the link led away from {before}")


def settle(page: Page) -> None:
    """Waits until the price belongs to what the controls say."""
    page.evaluate(HEARD)
    page.wait_for_selector(".bf-quote:not(.is-stale)")


def open_tab(page: Page, name: str) -> None:
    """Shows what a tab holds; like a person, clicks once more where the page moved under the first click."""
    tab = page.get_by_role("tab", name=name)
    for patience in (5_000, 20_000, 60_000):
        tab.click()
        try:
            expect(tab).to_have_attribute("aria-selected", "true", timeout=patience)
        except AssertionError:
            print(f"a click on the tab {name} did nothing within {patience} ms")
        else:
            return
    raise AssertionError(f"no click opened the tab {name}")


def sign_in(page: Page, place: Place, name: str = "ana", then: str = "/") -> None:
    """Begins a login session, without the form, and opens a page."""
    secret = place.app_state.logins.begin(name).secret
    page.context.add_cookies([{"name": COOKIE, "value": secret, "url": place.url}])
    page.goto(f"{place.url}{then}")
    page.wait_for_selector("main#page")
    page.evaluate(ARRIVED)


def sign_in_by_form(page: Page, place: Place, name: str = "ana", then: str = "/") -> None:
    """Fills in the form and waits for the first page."""
    page.goto(f"{place.url}/sign-in?then={then}")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_selector("main#page")
    page.evaluate(ARRIVED)


def shoot(page: Page, name: str, *, whole: bool = True) -> None:
    """Keeps a picture of the page at each width, where SCREENSHOTS asks for them: they take a second each."""
    if not os.environ.get("SCREENSHOTS"):
        return
    SHOTS.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("window.scrollTo(0, 0)")
        page.wait_for_timeout(250)
        page.screenshot(path=SHOTS / f"{name}-{width}.png", full_page=whole)
    if before is not None:
        page.set_viewport_size(before)
