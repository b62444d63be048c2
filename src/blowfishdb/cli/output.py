"""What commands print: tables for people, JSON for programs, errors as one short paragraph, and the curator's log."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from blowfishdb import errors
from blowfishdb.errors import BlowfishError, BudgetExceeded, ExtraMissing, SpendingCapReached, sentence
from blowfishdb.incidents import curator_log

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


LOG_NAME = "blowfish.log"


class CuratorLog(logging.Handler):
    """Appends to the log of the configuration in use; what cannot be written is dropped, never printed."""

    def __init__(self) -> None:
        super().__init__()
        self.path: Path | None = None
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if self.path is None:
            return
        try:
            # Readable by its owner alone: a driver's message may quote a row.
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.format(record) + "\n")
        except OSError:
            return


LOG = CuratorLog()


def keep_log(config: Path) -> None:
    """Puts the log beside this configuration."""
    LOG.path = config.expanduser().absolute().parent / LOG_NAME


@contextmanager
def log_to_file() -> Iterator[None]:
    """Sends the curator's log to its file while a command runs."""
    # A command that runs others, as the demo does, keeps its log when they end.
    is_outermost = LOG not in curator_log.handlers
    curator_log.addHandler(LOG)
    before = LOG.path
    try:
        yield
    finally:
        LOG.path = before
        if is_outermost:
            curator_log.removeHandler(LOG)


SIGNIFICANT = 3
COMMANDS: tuple[tuple[type[BlowfishError], str], ...] = (
    (
        errors.LedgerRolledBack,
        "blowfish ledger accept --reason TEXT; or blowfish restore FILE, which counts what is lost",
    ),
    (errors.NotInForce, "blowfish policy set NAME --document FILE --reason TEXT"),
    (
        errors.AccountConflict,
        "blowfish dataset add NAME --source ADDRESS takes it as it was declared; then change it with "
        "blowfish dataset domain, blowfish policy set or blowfish dataset budget",
    ),
    (errors.ChangeRefused, "blowfish policy set NAME ... --dry-run shows what a change would do"),
)
"""Errors whose remedy is a command."""


def console(*, error: bool = False) -> Console:
    """The terminal."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, soft_wrap=False, emoji=False)


def say(*lines: RenderableType, style: str = "", error: bool = False, soft_wrap: bool = False) -> None:
    """Prints lines and tables for people, as they stand: brackets in them are no markup."""
    screen = console(error=error)
    for line in lines:
        screen.print(line, style=style or None, markup=False, soft_wrap=soft_wrap)


def print_result(content: object, *lines: RenderableType, as_json: bool) -> None:
    """Prints the content for programs, or the lines for people."""
    if as_json:
        print_json(content)
    else:
        say(*lines)


def print_json(content: object) -> None:
    """One JSON document; exact numbers as text."""
    import json

    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def print_error(error: BlowfishError, *, as_json: bool) -> None:
    """The error on the error stream: a sentence, or an object with its code."""
    if as_json:
        import json

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
    text = "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in message)
    # A message that starts with a name keeps it as it is written.
    first = text.partition(" ")[0]
    named = first.endswith(":") or "_" in first or "." in first[:-1]
    text = text[:1] + sentence(text)[1:] if named else sentence(text)
    style = "yellow" if isinstance(error, BudgetExceeded) else "red"
    say(Text(text, style=style), error=True)
    for kind, command in COMMANDS:
        if isinstance(error, kind):
            say(f"On the command line: {command}", style="dim", error=True)
    if isinstance(error, errors.SourceFailed | errors.ReleaseFailed | errors.InternalError):
        say(f"Curators: what it said is in {LOG_NAME}, beside the configuration.", style="dim", error=True)


def _budget_words(error: BudgetExceeded) -> str:
    """The refusal with numbers that people read; exact ones are in --json."""
    data, mine = error.remaining_dataset, error.remaining_analyst
    left = min((one for one in (data, mine) if one is not None), default=None)
    whose = "the data has" if mine is None or left != mine else "you have"
    rest = short(left) if left else "nothing"
    if left is None or (data is None and left >= error.requested):
        whose, rest = "the data has", "less"
    lines = ["Not run, nothing charged.", f"This needs epsilon {short(error.requested)}; {whose} {rest} left."]
    if error.instead and left is not None:
        lines.append(f"\nWith {short(left)} you can have: {', or '.join(error.instead)}.")
    return " ".join(lines).replace(" \n", "\n")


def short(number: Fraction | float | None) -> str:
    """A number for people: three significant digits, never rounded to 0."""
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

    body = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        stays = folds is not None and column not in folds
        body.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=stays)
    for row in rows:
        body.add_row(*map(Text, row))
    return Group(Text(title, style="bold"), body) if title else body


def bullets(sentences: Sequence[str]) -> RenderableType:
    """Sentences as a list with dashes."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for text in sentences:
        grid.add_row(Text(" -"), Text(text))
    return grid


def exact(number: Fraction | None) -> str | None:
    """A number for programs: as a decimal where there is one, else as a fraction."""
    from blowfishdb.model.numbers import show

    return None if number is None else show(number)


def budget_line(spent: Fraction, limit: Fraction | None) -> str:
    """What is spent of a limit, with a bar."""
    from blowfishdb.ledger.amounts import spent_words

    words = spent_words(spent, limit, short)
    if not limit:
        return words
    filled = min(10, round(10 * float(spent / limit)))
    return f"{words}  {'█' * filled}{'░' * (10 - filled)}"


EXIT_CODES = {
    0: "done",
    1: "something unexpected happened: a fault of BlowfishDB",
    2: "the command was not understood: an unknown command or option, or one that is missing",
    3: "refused: the query, domain, policy or configuration is invalid",
    4: "refused: the budget does not suffice; nothing was charged",
    5: "the ledger is not available, contradicts itself, or refuses the change",
    6: "the data source failed or did not answer in time",
    7: "no mechanism can answer this, or its privacy cannot be proven",
    8: "the audit found a violation",
    130: "interrupted",
}
"""Exit codes and their meaning."""

KINDS: tuple[tuple[type[BlowfishError], int], ...] = (
    (errors.AccessError, 3),
    (BudgetExceeded, 4),
    (SpendingCapReached, 4),
    (errors.AllowanceExceeded, 4),
    (errors.LedgerError, 5),
    (errors.DigestMismatch, 5),
    (errors.ContentChanged, 5),
    (errors.SourceFailed, 6),
    (errors.SourceChanging, 6),
    (errors.SourcesUnavailable, 6),
    (errors.SourceBusy, 6),
    (errors.ReleaseCancelled, 130),
    (errors.ReleaseFailed, 6),
    (errors.DeadlinePassed, 6),
    (errors.Declined, 7),
    (errors.CannotCertify, 7),
    (errors.TooLarge, 3),
    (errors.TooExpensive, 3),
    (errors.WorkCancelled, 130),
    (ExtraMissing, 3),
    (errors.NotRevealed, 3),
    (errors.InvalidInput, 3),
    (errors.InternalError, 1),
)
"""Errors and their exit codes; the first kind that fits counts."""


def exit_code(error: BlowfishError) -> int:
    """The exit code of an error."""
    return next((code for kind, code in KINDS if isinstance(error, kind)), 1)


EXTRA_OF = {
    "deltalake": "delta",
    **dict.fromkeys(("argon2", "fastapi", "nicegui", "starlette", "uvicorn"), "server"),
    "httpx": "client",
    "joserfc": "oidc",
    "matplotlib": "plot",
    **dict.fromkeys(("pandas", "polars"), "frames"),
    "psycopg": "postgres",
    "pymysql": "mysql",
    "pyspark": "spark",
}
"""Packages that only extras bring, by the names they are imported under."""


def missing_extra(fault: ModuleNotFoundError) -> ExtraMissing | None:
    """What to install for a module that was not found; None where no extra brings it, which is a fault of ours."""
    package = (fault.name or "").partition(".")[0]
    return ExtraMissing(package, EXTRA_OF[package]) if package in EXTRA_OF else None


ACTIVE = set('"$`\\!')
"""What a shell looks at between double quotes."""


def shell_line(words: Sequence[str]) -> str:
    """The words as one command; a word with single quotes in it stands between double ones where that is safe."""
    return " ".join(f'"{word}"' if "'" in word and ACTIVE.isdisjoint(word) else shlex.quote(word) for word in words)
