"""The curator's log: what engines say when they fail, in a file beside the configuration and never on the screen."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_NAME = "blowfish.log"
CURATOR = "blowfishdb.curator"


class CuratorLog(logging.Handler):
    """Appends to the log of the configuration in use; what cannot be written is dropped, never printed.

    `last` is what the last failure said. It may quote a row: only a command that read none may show it, to a curator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.path: Path | None = None
        self.last = ""
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.last = str(record.exc_info[1]).strip() if record.exc_info else ""
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
def curator_log() -> Iterator[None]:
    """Sends the curator's log to its file while a command runs."""
    logger = logging.getLogger(CURATOR)
    # A command that runs others, as the demo does, keeps its log when they end.
    is_outermost = LOG not in logger.handlers
    logger.addHandler(LOG)
    before = LOG.path
    try:
        yield
    finally:
        LOG.path, LOG.last = before, ""
        if is_outermost:
            logger.removeHandler(LOG)
