"""The site builds without a warning and asks no other host for anything; its pictures are those that the code draws.

Building it takes long, so that every run looks at the pages that it is made of, here and in tests/ground/test_docs.py.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import sync_playwright

import blowfishdb as bf
from tests.browser.fixture import launch
from tests.docs.blocks import DOCS, ROOT
from tools.docs_site.hooks import requests_of, without_requests
from tools.docs_site.pictures import FOLDER, all_pictures, kept_answer
from tools.docs_site.reference import GENERATED, ROOT_PAGES

GLOSSARY = """
    ordered mechanism; ordered hierarchical mechanism; policy specific global sensitivity; discriminative pair;
    secret graph; full domain secrets; attribute secrets; partition secrets; distance threshold secrets; line
    secrets; dynamic Blowfish; attribute composable; transformational equivalence; sequential composition; parallel
    composition; Pufferfish; SuLQ k-means; constraint graph; lift and lower; uniform expansion; L1 partition;
    GreedyH; Privelet; MWEM; EFPA; P-HP; StructureFirst; DPCube; UGrid; AGrid; QuadTree; cell-based partitioning;
    kd-tree; (epsilon, delta)-usefulness; PINQ; OLAP; record linkage; APEx; DAWA; differential privacy (DP);
    bounded DP; unbounded DP; pure DP; approximate DP and (ε, δ)-DP; zCDP; local DP; Blowfish privacy;
    post-processing; group privacy; auxiliary knowledge; sensitivity; Laplace mechanism; geometric mechanism;
    Gaussian mechanism; exponential mechanism; matrix mechanism; hierarchical mechanism; accuracy; alpha; beta;
    accuracy translation; workload; consistency; synthetic data; non-interactive release; curator; analyst; privacy
    budget; privacy loss; privacy accountant; ledger; odometer; contribution bound; neighbouring tables; privacy
    auditing; confidence interval
"""
"""The words of the papers and of the field that somebody may search for."""
TERMS = [" ".join(term.split()) for term in GLOSSARY.split(";")]


class Links(HTMLParser):
    """The addresses and the anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[key] or "" for key in ("id", "name") if given.get(key)}
        self.links += [given[key] or "" for key in ("href", "src") if given.get(key)]


def links_of(page: Path) -> Links:
    found = Links()
    found.feed(page.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The site without its notebooks being run, built once for all test processes; another test runs the notebooks."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    target, built = shared / "site", shared / "site-built"
    with (shared / "site-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            built.touch()
    return target


@pytest.mark.nightly
def test_every_page_is_there(site: Path) -> None:
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    for name in (*pages, *GENERATED, *ROOT_PAGES.values()):
        assert (site / name).with_suffix(".html").exists(), name


@pytest.mark.nightly
def test_no_link_inside_is_dead(site: Path) -> None:
    pages = {str(page): links_of(page) for page in site.rglob("*.html")}
    present = {str(path) for path in site.rglob("*")}
    dead = []
    for page, found in pages.items():
        folder, name = os.path.split(page)
        for link in set(found.links):
            path, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or name == "404.html":
                continue
            target = os.path.normpath(os.path.join(folder, unquote(path.partition("?")[0]))) if path else page
            inner = pages.get(target)
            if target not in present or (anchor and inner is not None and unquote(anchor) not in inner.anchors):
                dead.append(f"{page}: {link}")
    assert dead == []


def entries_of_the_glossary(site: Path) -> dict[str, str]:
    """The texts of the glossary in the index of the site's search, by their titles in small letters."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    entries = [entry for entry in index["docs"] if entry["location"].startswith("glossary.html#")]
    return {unescape(entry["title"]).lower(): entry["text"] for entry in entries}


def not_found(entries: dict[str, str]) -> list[str]:
    """The terms without an entry that says what they are called here, or that they are not offered."""
    return [term for term in TERMS if not re.search(r"Here: |Not offered", entries.get(term.lower(), ""))]


def check_the_words(entries: dict[str, str]) -> None:
    assert not_found(entries) == []
    for term in TERMS:
        without = {title: text for title, text in entries.items() if title != term.lower()}
        assert not_found(without) == [term]


def test_the_glossary_explains_the_words_of_the_field() -> None:
    sections = (DOCS / "glossary.md").read_text(encoding="utf-8").split("\n### ")[1:]
    check_the_words({title.lower(): text for title, _, text in (section.partition("\n") for section in sections)})


@pytest.mark.nightly
def test_the_search_finds_the_words_of_the_field(site: Path) -> None:
    check_the_words(entries_of_the_glossary(site))


def test_every_entry_of_the_glossary_is_looked_up() -> None:
    """A term that leaves the page, or this list, is noticed."""
    written = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [term.lower() for term in written] == list(dict.fromkeys(term.lower() for term in written))
    assert {term.lower() for term in written} == {term.lower() for term in TERMS}


def test_no_page_is_made_of_what_asks_another_host() -> None:
    pages = [path for path in DOCS.rglob("*") if path.suffix in (".md", ".css")]
    assert len(pages) > 80
    assert {str(page): requests_of(page.read_text(encoding="utf-8")) for page in pages} == {str(p): [] for p in pages}


@pytest.mark.nightly
def test_no_page_asks_another_host(site: Path) -> None:
    asked = {
        path.name: requests_of(path.read_text(encoding="utf-8"))
        for path in site.rglob("*")
        if path.suffix in (".html", ".css")
    }
    assert {name: found for name, found in asked.items() if found} == {}


@pytest.mark.nightly
@pytest.mark.chromium
def test_a_browser_asks_only_the_site_itself(site: Path) -> None:
    asked: list[str] = []
    with served(site) as address, sync_playwright() as playwright:
        browser = launch(playwright)
        window = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark").new_page()
        window.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "tutorials/census_table.html", "reference/python.html"):
            window.goto(f"{address}/{name}")
            window.wait_for_load_state("networkidle")
            wider = window.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, f"{name} must not be wider than a telephone"
            # Every page asks for the index of the search and works on it for seconds; that of the first is enough.
            window.route("**/search_index.json", lambda route: route.abort())
        browser.close()
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_requests_are_seen_and_taken_out() -> None:
    bad = '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="https://cdn.example/x.css">'
    assert requests_of(bad) == ["https://cdn.example/x.js", "https://cdn.example/x.css"]
    assert requests_of("a { background: url(https://cdn.example/x.png) }") == ["https://cdn.example/x.png"]
    assert requests_of(without_requests(bad)) == []
    assert requests_of('<a href="https://example.org">read</a>') == []


def test_the_pictures_are_those_that_the_code_draws() -> None:
    for name, text in all_pictures().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"run python -m tools.docs_site.pictures for {name}"


def test_the_landing_page_shows_the_answer_of_its_picture() -> None:
    assert str(kept_answer()) in (DOCS / "index.md").read_text(encoding="utf-8")
    kept_answer().certificate.verify()


def test_the_landing_page_says_what_differential_privacy_would_cost() -> None:
    ages = bf.domain({"age": bf.integers(17, 90, null=17)})
    asked = bf.query("histogram", [bf.col("age").bins(10)])
    all_secret = bf.compile_query(ages, bf.Policy({"age": bf.full()}), asked)
    times = bf.quote(all_secret.problem, 50, 0.05).best.epsilon / kept_answer().epsilon
    assert f"would cost {float(times):.1f} times as much" in (DOCS / "index.md").read_text(encoding="utf-8")
