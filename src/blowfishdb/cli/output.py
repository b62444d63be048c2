"""What commands print: tables for people, JSON for programs, errors as one short paragraph."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.errors import BlowfishError, BudgetExceeded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SIGNIFICANT = 3


def console(*, error: bool = False) -> Console:
    """The terminal."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, soft_wrap=False, emoji=False)


def print_json(content: object) -> None:
    """One JSON document; exact numbers as text."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: object) -> object:
    return str(value)


def print_error(error: BlowfishError, *, as_json: bool) -> None:
    """The error on the error stream: a sentence, or an object with its code."""
    if as_json:
        fields = {"code": error.code, "message": error.message}
        sys.stderr.write(json.dumps({"error": fields}, ensure_ascii=False) + "\n")
        return
    from rich.text import Text

    # What is printed may hold names that somebody chose: signs that move the cursor are spelled out.
    said = "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in error.message)
    said = said[:1].upper() + said[1:] + ("" if said.endswith((".", "?", "!")) else ".")
    style = "yellow" if isinstance(error, BudgetExceeded) else "red"
    console(error=True).print(Text(said, style=style))


def short(number: Fraction | float | None) -> str:
    """A number for people: three digits that count, and never rounded to nothing."""
    if number is None:
        return "-"
    value = float(number)
    if value == 0 or 0.001 <= abs(value) < 1_000_000:
        text = f"{value:,.{SIGNIFICANT}g}" if abs(value) < 1000 else f"{value:,.0f}"
        return text
    return f"{value:.2e}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """A quiet table: no frame, a rule under the heading."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(title=Text(title, style="bold") if title else None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        found.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        found.add_row(*(Text(cell) for cell in row))
    return found


def exact(number: Fraction | None) -> str | None:
    """A number for programs: as a decimal where there is one, else as a fraction."""
    from blowfishdb.model.numbers import show

    return None if number is None else show(number)


def budget_line(spent: Fraction, limit: Fraction | None) -> str:
    """Spent of limit, and a little bar."""
    if limit is None:
        return f"{short(spent)} spent, no limit of its own"
    share = float(spent / limit) if limit else 1.0
    filled = min(10, round(10 * share))
    return f"{short(spent)} of {short(limit)} spent  {'█' * filled}{'░' * (10 - filled)}"


def fields_of(content: Mapping[str, object]) -> str:
    """Details of an entry in one line."""
    return ", ".join(f"{key} {value}" for key, value in content.items() if value is not None)
