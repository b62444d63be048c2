"""Incidents in the curator's log: errors that nobody foresaw, each of which is a fault."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from blowfishdb.incidents import curator_log


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append("".join(traceback.format_exception(error)) if error else record.getMessage())


@contextmanager
def no_incidents() -> Iterator[None]:
    """Work after which the log has no incident; its traceback is what a failing test shows."""
    kept = _Kept()
    curator_log.addHandler(kept)
    try:
        yield
    finally:
        curator_log.removeHandler(kept)
    assert kept.found == [], "\n".join(kept.found)
