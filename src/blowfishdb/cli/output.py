"""What commands print: tables for people, JSON for programs, errors as one short paragraph."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.cli.logs import LOG_NAME
from blowfishdb.errors import (
    AccountConflict,
    BlowfishError,
    BudgetExceeded,
    ChangeRefused,
    InternalError,
    LedgerRolledBack,
    NotInForce,
    ReleaseFailed,
    SourceFailed,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SIGNIFICANT = 3
COMMANDS: tuple[tuple[type[BlowfishError], str], ...] = (
    (LedgerRolledBack, "blowfish ledger accept --reason TEXT"),
    (NotInForce, "blowfish policy set NAME --document FILE --reason TEXT"),
    (
        AccountConflict,
        "blowfish dataset add NAME --source ADDRESS takes it as it was declared; then change it with "
        "blowfish dataset domain, blowfish policy set or blowfish dataset budget",
    ),
    (ChangeRefused, "blowfish policy set NAME ... --dry-run shows what a change would do"),
)
"""Errors whose remedy is a command."""


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
        fields: dict[str, object] = {"code": error.code, "message": error.message}
        if isinstance(error, BudgetExceeded):
            amounts = (error.requested, error.remaining_dataset, error.remaining_analyst)
            fields |= dict(zip(("requested", "left_dataset", "left_analyst"), map(exact, amounts), strict=True))
            fields["instead"] = list(error.instead)
        sys.stderr.write(json.dumps({"error": fields}, ensure_ascii=False) + "\n")
        return
    from rich.text import Text

    # What is printed may hold names that somebody chose: signs that move the cursor are spelled out.
    message = _budget_words(error) if isinstance(error, BudgetExceeded) else error.message
    said = "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in message)
    # A message that starts with a name keeps it as it is written.
    first = said.partition(" ")[0]
    named = first.endswith(":") or "_" in first or "." in first[:-1]
    said = (said if named else said[:1].upper() + said[1:]) + ("" if said.endswith((".", "?", "!")) else ".")
    style = "yellow" if isinstance(error, BudgetExceeded) else "red"
    console(error=True).print(Text(said, style=style))
    for kind, command in COMMANDS:
        if isinstance(error, kind):
            console(error=True).print(f"On the command line: {command}", style="dim", markup=False)
    if isinstance(error, SourceFailed | ReleaseFailed | InternalError):
        where = f"Curators: what it said is in {LOG_NAME}, beside the configuration."
        console(error=True).print(where, style="dim", markup=False)


def _budget_words(error: BudgetExceeded) -> str:
    """The refusal with numbers that people read; exact ones are in --json."""
    own = error.remaining_dataset if error.remaining_analyst is None else error.remaining_analyst
    left = min(own, error.remaining_dataset)
    whose = "you have" if left == own else "the data has"
    lines = ["Not run, nothing charged.", f"This needs epsilon {short(error.requested)}; {whose} {short(left)} left."]
    if error.instead:
        lines.append(f"\nWith {short(left)} you can have: {', or '.join(error.instead)}.")
    return " ".join(lines).replace(" \n", "\n")


def short(number: Fraction | float | None) -> str:
    """A number for people: three digits that count, and never rounded to nothing."""
    if number is None:
        return "-"
    value = float(number)
    if value == 0 or 0.001 <= abs(value) < 1_000_000:
        return f"{value:,.{SIGNIFICANT}g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.2e}"


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    folds: Sequence[str] | None = None,
) -> RenderableType:
    """A quiet table: no frame, a rule under the heading; only the columns in `folds` are broken into lines."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        stays = folds is not None and column not in folds
        found.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=stays)
    for row in rows:
        found.add_row(*(Text(cell) for cell in row))
    return Group(Text(title, style="bold"), found) if title else found


def bullets(sentences: Sequence[str]) -> RenderableType:
    """Sentences, each with a dash and its own margin."""
    from rich.table import Table
    from rich.text import Text

    found = Table.grid(padding=(0, 1))
    for sentence in sentences:
        found.add_row(Text(" -"), Text(sentence))
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
