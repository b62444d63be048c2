"""Structured logs: one line of JSON per request and per incident, without bodies, questions or data."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

REQUESTS = "blowfishdb.requests"
"""The logger of finished requests."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what `extra={"fields": ...}` gave stands beside the message.

    Of an exception only the kind is written: its text may quote a row, and belongs into the curator's log.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if record.exc_info is None else _kind(record.exc_info),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= {str(name): value for name, value in fields.items()}
        return json.dumps(line, ensure_ascii=False)


def _kind(raised: tuple[object, ...] | tuple[None, None, None]) -> str:
    return f"{getattr(raised[0], '__name__', 'an exception')}; the curator's log has more"


def log_to_stderr() -> None:
    """Sends requests, the server's own messages and warnings to stderr. The curator's log stays in its file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (REQUESTS, "uvicorn", "uvicorn.error", "nicegui"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
