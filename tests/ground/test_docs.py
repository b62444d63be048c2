"""The documentation holds together: links lead somewhere, pages are found from the index, claims name their tests."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify, unique

from tools.docs_site.reference import GENERATED, ROOT_PAGES, page_text

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
TO_A_PART = re.compile(r"\[[^\]]+\]\(([^)#\s]*)#([^)\s]+)\)")


def broken_links(page: Path) -> list[str]:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link and not link.startswith("mailto:")]
    parts = [
        f"{link}#{part}"
        for link, part in TO_A_PART.findall(page.read_text())
        if (target := page.parent / link if link else page).is_file() and part not in parts_of(target)
    ]
    return [link for link in links if not exists(page.parent / link)] + parts


@cache
def parts_of(page: Path) -> frozenset[str]:
    """The names that the site gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", r"\1", heading) for heading in headings]
    used: set[str] = set()
    for heading in plain:
        unique(slugify(heading, "-"), used)
    return frozenset(used) | frozenset(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", page.read_text()))


def test_the_navigation_names_pages_that_there_are() -> None:
    lines = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r": ([\w./-]+\.(?:md|py))$", lines, re.MULTILINE)
    assert len(named) > 80
    assert len(set(named)) == len(named)
    made = {*GENERATED, *ROOT_PAGES.values()}
    assert [name for name in named if name not in made and not (ROOT / "docs" / name).is_file()] == []
    for name in made:
        assert page_text(name, ROOT).startswith("# "), name


def exists(target: Path) -> bool:
    """Whether a link leads to a file, or to a page that the site makes from the code."""
    return target.exists() or target.resolve() in {(ROOT / "docs" / name).resolve() for name in GENERATED}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `Part`\n[here](page.md#a-part), [no part](#b), [there](nowhere.md#part), [away](https://example.org/x#b)"
    )
    assert broken_links(page) == ["nowhere.md", "#b"]


NAMED_FILE = re.compile(r"`((?:\w+/)*\w+\.py)[`:]")


@cache
def files_by_name() -> frozenset[str]:
    """The names of the project's files, each with as many of its folders as a page may give."""
    listed = (path.relative_to(ROOT).parts for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return frozenset("/".join(parts[place:]) for parts in listed for place in range(len(parts)))


ROOMS = ("src", "tests", "papers", "selfcheck", "benchmarks", "tools", "examples")


def missing_files(text: str) -> list[str]:
    """The files that the text names and that do not exist."""
    return [name for name in NAMED_FILE.findall(text) if name not in files_by_name()]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_named_file_exists(page: Path) -> None:
    assert missing_files(page.read_text()) == []


def test_a_name_without_a_file_is_seen() -> None:
    text = "`plan/loss.py`, `src/blowfishdb/plan/loss.py:certify`, `plan/nowhere.py`, `oracle.py`"
    assert missing_files(text) == ["plan/nowhere.py", "oracle.py"]


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text()) if "://" not in link}
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if page != index and page not in listed] == []


PAGE = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def missing(text: str) -> list[str]:
    """The tests that the text names and that do not exist."""
    wrong = []
    for file, name in NAMED.findall(text):
        path = ROOT / file
        if not path.is_file() or not re.search(rf"^(?:async )?def {name}\(", path.read_text(), re.MULTILINE):
            wrong.append(f"{file}::{name}")
    return wrong


def claims(text: str) -> list[str]:
    """The lines of tables whose last column names tests."""
    found, is_claim = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            is_claim = False
        elif line.rstrip(" |").endswith("tests"):
            is_claim = True
        elif is_claim and not line.startswith("|---"):
            found.append(line)
    return found


def test_every_named_test_exists() -> None:
    assert missing(PAGE.read_text()) == []


def test_every_claim_names_a_test() -> None:
    listed = claims(PAGE.read_text())
    assert len(listed) > 25
    assert [line for line in listed if not NAMED.search(line.rstrip(" |").rpartition("|")[2])] == []


@pytest.mark.parametrize("name", ["tests/nowhere.py::test_x", "tests/ground/test_docs.py::test_not_there"])
def test_a_name_without_a_test_is_seen(name: str) -> None:
    assert missing(f"as `{name}` shows") == [name]


def test_a_claim_without_a_test_is_seen() -> None:
    assert claims("| claim | tests |\n|---|---|\n| so | none |\n\n| a | b |\n") == ["| so | none |"]
