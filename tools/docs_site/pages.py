"""Every page of the site that no file of `docs` holds, by its place in the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs_site import (
    command_reference,
    error_reference,
    mechanism_reference,
    python_reference,
    rest_reference,
    setting_reference,
    sql_reference,
)

GENERATED: Mapping[str, Callable[[], str]] = {
    "reference/python.md": python_reference.page,
    "reference/sql.md": sql_reference.page,
    "reference/commands.md": command_reference.page,
    "reference/rest.md": rest_reference.page,
    "reference/settings.md": setting_reference.page,
    "reference/errors.md": error_reference.page,
    "reference/mechanisms.md": mechanism_reference.page,
}
"""Reference pages and what makes them."""

ROOT_PAGES: Mapping[str, str] = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files in the root of the project, and their pages."""


def page_text(name: str, root: Path) -> str:
    """The Markdown of a page that is not in `docs`."""
    if name in GENERATED:
        return GENERATED[name]()
    source = next(file for file, page in ROOT_PAGES.items() if page == name)
    text = (root / source).read_text(encoding="utf-8").replace("](docs/", "](")
    for file, page in ROOT_PAGES.items():
        text = text.replace(f"]({file})", f"]({page})")
    return text.replace("](README.md)", "](index.md)")
