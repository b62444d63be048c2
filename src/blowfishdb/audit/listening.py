"""Everything that code says beside its answer: logs of any level, warnings, and what it prints."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

CURATOR = "blowfishdb.curator"


class _Listener(logging.Handler):
    """Hears what is said to anybody but the curator."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(CURATOR) and record.name.startswith(("blowfishdb", "root")):
            self._heard.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    """What is said from now on, complete at the end; the curator's own log is silent meanwhile."""
    heard: list[str] = []
    listener, root, own = _Listener(heard), logging.getLogger(), logging.getLogger("blowfishdb")
    curator = logging.getLogger(CURATOR)
    levels, usual, handlers = (root.level, own.level), curator.disabled, root.handlers
    printed = io.StringIO()
    root.handlers, curator.disabled = [listener], True
    # Compilers tell their life at the lowest level.
    root.setLevel(logging.INFO)
    own.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            yield heard
        heard += [f"{each.category.__name__}: {each.message}" for each in warned if "blowfishdb" in each.filename]
        heard += [text for text in [printed.getvalue()] if text]
    finally:
        root.handlers, curator.disabled = handlers, usual
        root.setLevel(levels[0])
        own.setLevel(levels[1])
