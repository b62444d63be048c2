"""An answer as files to keep: each format with its name and its bytes."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from blowfishdb.engine.answer import Answer

FORMATS: dict[str, str] = {
    "csv": "CSV table",
    "parquet": "Parquet table",
    "png": "PNG picture",
    "svg": "SVG picture",
    "json": "JSON with certificate",
}


def file_of(answer: Answer, ending: str) -> bytes:
    """The answer in one of the formats."""
    return WRITERS[ending](answer)


def name_of(answer: Answer, ending: str) -> str:
    """A name that tells what is in the file."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{answer.dataset} {answer.title}".lower()).strip("-")
    return f"{words[:80] or 'answer'}.{ending}"


def _csv(answer: Answer) -> bytes:
    rows = answer.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(answer: Answer) -> bytes:
    from pyarrow import BufferOutputStream
    from pyarrow.parquet import write_table

    target = BufferOutputStream()
    write_table(answer.to_arrow(), target)
    content: bytes = target.getvalue().to_pybytes()
    return content


def _png(answer: Answer) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.png"
        answer.save_plot(path)
        return path.read_bytes()


def _svg(answer: Answer) -> bytes:
    return answer.interactive().svg.encode()


def _json(answer: Answer) -> bytes:
    return answer.to_json(indent=2).encode()


WRITERS: dict[str, Callable[[Answer], bytes]] = {
    "csv": _csv,
    "parquet": _parquet,
    "png": _png,
    "svg": _svg,
    "json": _json,
}
