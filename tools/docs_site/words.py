"""Small pieces of Markdown that the generated pages share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

NOTE = "*This page is generated from the code.*"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars and line breaks inside a cell are kept from ending it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(cell(one) for one in row)} |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text that fits into one cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as code."""
    return f"`{text}`"


def first_line(thing: object) -> str:
    """What the reader gets of something, as its docstring begins."""
    return (inspect.getdoc(thing) or "").split("\n")[0]


def body(thing: object) -> str:
    """The docstring without its first line."""
    return (inspect.getdoc(thing) or "").partition("\n")[2].strip()
