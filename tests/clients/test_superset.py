"""Apache Superset over the PostgreSQL port: a dataset, charts and a dashboard, looked at in a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.fixture import launch
from tests.server.places import free_door
from tests.server.wire.places import WirePlace

pytestmark = [pytest.mark.clients, pytest.mark.chromium]
BUILD = Path(__file__).resolve().parents[2] / "build"
PACKAGES = ("apache-superset==6.1.0", "flask-caching<2.4", "rich", "cachetools", "psycopg2-binary")
"""Superset, and what its own requirements forget."""
SETTINGS = """
SECRET_KEY = {key!r}
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""
ALLOWED = "-c blowfish.epsilon=0.25 -c blowfish.spend=0.5"


class Superset:
    """A running Superset, whose REST interface an administrator talks to."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._headers = {"Content-Type": "application/json"}

    def sign_in(self) -> None:
        """As the administrator."""
        who = {"username": "admin", "password": "admin", "provider": "db"}
        self._headers["Authorization"] = f"Bearer {self.post('security/login', who)['access_token']}"

    def post(self, path: str, content: dict[str, Any]) -> Any:
        """What Superset answers; the test fails with its words where it refuses."""
        url = f"{self.address}/api/v1/{path}"
        request = urllib.request.Request(url, json.dumps(content).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            pytest.fail(f"{path}: {refusal.code} {refusal.read().decode()[:2000]}")

    def rows(self, dataset: int, **query: object) -> list[dict[str, object]]:
        """The rows of a chart that is computed now, not taken from Superset's own cache."""
        source = {"id": dataset, "type": "table"}
        asked = {"datasource": source, "queries": [query], "result_type": "full", "force": True}
        return list(self.post("chart/data", asked)["result"][0]["data"])

    def chart(self, dataset: int, name: str, form: dict[str, Any]) -> int:
        """A saved chart."""
        parameters = {"datasource": f"{dataset}__table", **form}
        saved = {"slice_name": name, "viz_type": form["viz_type"], "datasource_id": dataset}
        return int(self.post("chart/", {**saved, "datasource_type": "table", "params": json.dumps(parameters)})["id"])


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Superset]:
    """Superset in an environment of its own, which later runs find again."""
    home, environment = BUILD / "superset", tmp_path_factory.mktemp("superset")
    if not (home / "bin" / "superset").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *PACKAGES], check=True)
    settings = environment / "superset_config.py"
    settings.write_text(SETTINGS.format(key=os.urandom(32).hex(), folder=environment))
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "SUPERSET_CONFIG_PATH": str(settings),
        "SUPERSET_HOME": str(environment),
        "FLASK_APP": "superset",
    }
    program = str(home / "bin" / "superset")
    names = ("--username", "admin", "--firstname", "A", "--lastname", "B", "--email", "a@example.org")
    for command in (["db", "upgrade"], ["fab", "create-admin", *names, "--password", "admin"], ["init"]):
        subprocess.run([program, *command], env=variables, check=True, capture_output=True)
    with free_door() as door:
        number = door.getsockname()[1]
    with running([program, "run", "-p", str(number), "--with-threads"], variables, environment / "log"):
        one = Superset(f"http://127.0.0.1:{number}")
        wait_for(f"{one.address}/health")
        one.sign_in()
        yield one


@contextmanager
def running(command: list[str], variables: dict[str, str], log: Path) -> Iterator[None]:
    """The program in the background, ended at the end."""
    with log.open("wb") as lines, subprocess.Popen(command, env=variables, stdout=lines, stderr=lines) as program:
        try:
            yield
        finally:
            program.terminate()


def wait_for(address: str) -> None:
    """Until somebody answers there."""
    for _ in range(240):
        try:
            with urllib.request.urlopen(address, timeout=10):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"nobody answers at {address}")


def test_a_dashboard_shows_private_counts_and_refreshing_it_is_free(superset: Superset, port: WirePlace) -> None:
    spent = port.app_state.session("bob").budget
    extra = {"engine_params": {"connect_args": {"options": ALLOWED}}}
    database = {"database_name": "clinic", "sqlalchemy_uri": port.url("bob"), "extra": json.dumps(extra)}
    number = superset.post("database/", database)["id"]
    table = {"database": number, "schema": "public", "table_name": "visits"}
    dataset = superset.post("dataset/", table)["id"]
    by_ward = {"columns": ["ward"], "metrics": ["count"], "orderby": [["count", False]], "row_limit": 100}
    rows = superset.rows(dataset, **by_ward)
    assert sorted(str(row["ward"]) for row in rows) == ["A1", "A2", "A3"]
    assert spent("visits").spent == 0.25
    mean = {"expressionType": "SIMPLE", "column": {"column_name": "cost"}, "aggregate": "AVG", "label": "mean cost"}
    adults = [{"col": "age", "op": ">=", "val": 18}]
    means = superset.rows(dataset, columns=["ward"], metrics=["count", mean], filters=adults)
    assert all(100 < float(str(row["mean cost"])) < 400 for row in means)
    assert spent("visits").spent == 0.5
    # A refresh asks the same again.
    assert superset.rows(dataset, **by_ward) == rows
    assert spent("visits").spent == 0.5

    bars = {"viz_type": "table", "groupby": ["ward"], "metrics": ["count"], "row_limit": 100, "order_desc": True}
    pie = {"viz_type": "pie", "groupby": ["ward"], "metric": "count", "row_limit": 100, "sort_by_metric": True}
    charts = [superset.chart(dataset, "Visits by ward", bars), superset.chart(dataset, "Shares of wards", pie)]
    dashboard = superset.post(
        "dashboard/",
        {"dashboard_title": "Clinic", "published": True, "position_json": json.dumps(positions(charts))},
    )["id"]
    for chart in charts:
        with_dashboard = json.dumps({"dashboards": [dashboard]}).encode()
        address = f"{superset.address}/api/v1/chart/{chart}"
        request = urllib.request.Request(address, with_dashboard, superset._headers, method="PUT")
        urllib.request.urlopen(request, timeout=60).close()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1200, "height": 700})
        page.goto(f"{superset.address}/login/")
        page.locator("#username, [name=username]").first.fill("admin")
        page.locator("#password, [name=password]").first.fill("admin")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "login" not in url)
        page.goto(f"{superset.address}/superset/dashboard/{dashboard}/?standalone=2")
        expect(page.get_by_text("Visits by ward").first).to_be_visible()
        for row in rows:
            expect(page.locator("td", has_text=str(row["ward"]))).to_be_visible()
        expect(page.locator("canvas")).to_be_visible()
        page.wait_for_timeout(2000)
        (BUILD / "screenshots").mkdir(parents=True, exist_ok=True)
        page.screenshot(path=BUILD / "screenshots" / "superset.png")
        browser.close()
    assert spent("visits").spent == 0.5


def positions(charts: list[int]) -> dict[str, object]:
    """A dashboard with the charts side by side."""
    blocks: dict[str, object] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": ["ROW-1"], "parents": ["ROOT_ID"]},
        "ROW-1": {
            "type": "ROW",
            "id": "ROW-1",
            "children": [f"CHART-{chart}" for chart in charts],
            "parents": ["ROOT_ID", "GRID_ID"],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        },
    }
    for chart in charts:
        blocks[f"CHART-{chart}"] = {
            "type": "CHART",
            "id": f"CHART-{chart}",
            "children": [],
            "parents": ["ROOT_ID", "GRID_ID", "ROW-1"],
            "meta": {"chartId": chart, "width": 6, "height": 50},
        }
    return blocks
