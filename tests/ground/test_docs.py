"""The documentation holds together: links lead somewhere, and every page and proof note can be found from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs_site.reference import GENERATED

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")


def broken_links(page: Path) -> list[str]:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link and not link.startswith("mailto:")]
    return [link for link in links if not exists(page.parent / link)]


def exists(target: Path) -> bool:
    """Whether a link leads to a file, or to a page that the site makes from the code."""
    return target.exists() or target.resolve() in {(ROOT / "docs" / name).resolve() for name in GENERATED}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[here](page.md) and [there](nowhere.md#part) and [away](https://example.org/x)")
    assert broken_links(page) == ["nowhere.md"]


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text()) if "://" not in link}
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if page != index and page not in listed] == []
