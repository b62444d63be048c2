"""The widget of a question in a real JupyterLab, in a browser that reaches nothing but the machine itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect, sync_playwright

import blowfishdb as bf
from tests.browser.fixture import launch
from tests.clients.test_superset import BUILD, running, wait_for
from tests.server.places import free_door
from tests.session.places import make_fixture

pytestmark = [pytest.mark.clients, pytest.mark.chromium]
CELL = """import blowfishdb as bf
db = bf.connect({config!r}, analyst="ana")
widget = db["visits"].histogram(bf.col("age").bins(10)).widget(alpha=50)
widget"""


def test_a_slider_a_price_and_a_confirmed_release(tmp_path: Path) -> None:
    home, config = BUILD / "jupyter", make_fixture(tmp_path)
    if not (home / "bin" / "jupyter-lab").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run(
            [str(home / "bin" / "pip"), "install", "--quiet", "jupyterlab>=4.5", "ipywidgets>=8.1"], check=True
        )
    kernel = tmp_path / "share" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.joinpath("kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "Python", "language": "python"})
    )
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None}
    about = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": about}
    work = tmp_path / "work"
    work.mkdir()
    work.joinpath("ask.ipynb").write_text(
        json.dumps({**notebook, "cells": [{**cell, "source": CELL.format(config=str(config))}]})
    )
    with free_door() as door:
        number = door.getsockname()[1]
    address = f"http://127.0.0.1:{number}"
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={number}",
        "--IdentityProvider.token=",
        f"--notebook-dir={work}",
    ]
    variables = {**os.environ, "JUPYTER_PATH": str(tmp_path / "share"), "HOME": str(tmp_path)}
    outside: list[str] = []

    def local_alone(route: Route) -> None:
        if route.request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    spent = bf.connect(config, analyst="ana").budget
    with (
        running([str(home / "bin" / "jupyter-lab"), *options], variables, tmp_path / "log"),
        sync_playwright() as playwright,
    ):
        wait_for(f"{address}/api")
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1300, "height": 1100})
        page.route("**/*", local_alone)
        page.goto(f"{address}/lab/tree/ask.ipynb?reset")
        expect(page.get_by_role("button", name="Python | Idle")).to_be_visible(timeout=120_000)
        page.get_by_text("widget = db").first.click()
        page.keyboard.press("Control+Enter")
        price = page.get_by_role("status").filter(has_text="costs epsilon")
        expect(price).to_contain_text("every answer within 50 (95 %): this costs epsilon", timeout=120_000)
        before = price.inner_text()
        slider = page.get_by_role("slider").first
        slider.focus()
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        expect(price).not_to_have_text(before)
        assert spent("visits").spent == 0
        page.get_by_role("button", name="Release ...").click()
        charge = page.get_by_role("button", name="Charge epsilon")
        expect(charge).to_be_visible()
        assert spent("visits").spent == 0
        charge.click()
        expect(page.locator(".jp-OutputArea svg[role=img]").first).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="costs nothing")).to_be_visible()
        slider.scroll_into_view_if_needed()
        (BUILD / "screenshots").mkdir(parents=True, exist_ok=True)
        page.screenshot(path=BUILD / "screenshots" / "jupyter.png")
        browser.close()
    assert 0 < spent("visits").spent < 0.2
    assert outside == []
