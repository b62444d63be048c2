"""The page of error codes, from the errors package."""

from __future__ import annotations

import inspect

from blowfishdb.cli.output import EXIT_CODES, KINDS
from blowfishdb.errors import BlowfishError, error_types
from blowfishdb.server.problems import STATUS
from tools.docs_site.words import NOTE, code, first_line, table

HIDDEN = ("self", "message", "args")


def all_errors() -> list[type[BlowfishError]]:
    """Every kind of error that can be caught, by its code."""
    return sorted(
        (kind for kind in error_types().values() if kind is not BlowfishError),
        key=lambda kind: (kind.code, kind.__name__),
    )


def page() -> str:
    """Codes, classes, statuses, exit codes, fields."""
    rows = []
    for kind in all_errors():
        status = next(number for known, number in STATUS if issubclass(kind, known))
        end = next((number for known, number in KINDS if issubclass(kind, known)), 1)
        name = f"{code(kind.code)}<br>{code(kind.__name__)}"
        rows.append((name, first_line(kind), _fields(kind), str(status), str(end)))
    exits = table(("exit code", "meaning"), [(str(number), words) for number, words in EXIT_CODES.items()])
    return "\n\n".join(
        [
            "# Error codes",
            NOTE,
            "Every error descends from `BlowfishError` (`blowfishdb.errors`), has a `code` that never changes once "
            "published, typed fields, and a message that says what to do. No message depends on data.",
            table(("code, and in Python", "what happened", "fields", "REST", "exit"), rows),
            "## Exit codes of the command line",
            exits,
        ]
    )


def _fields(kind: type[BlowfishError]) -> str:
    names = [name for name in inspect.signature(kind).parameters if name not in HIDDEN]
    return ", ".join(code(name) for name in names)
