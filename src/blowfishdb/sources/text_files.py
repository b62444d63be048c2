"""CSV files so that every line counts: names checked from the first line, bytes that are no UTF-8 put right."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from blowfishdb.errors import SourceError

CHUNK = 2**22
LONGEST_LINE = 2**26
"""Longer lines, in bytes, are not read."""


def matched(pattern: str) -> list[str]:
    """The files of a pattern, in one order and each once, also where two names lead to it; SourceError for none."""
    found = {os.path.realpath(name): name for name in sorted(glob.glob(pattern, recursive=True), reverse=True)}
    if not found:
        raise SourceError(f"no file matches {Path(pattern).name!r} where the address says, seen from the configuration")
    return sorted(found.values())


def separator_of(path: str) -> str:
    """What stands between two fields."""
    return "\t" if ".tsv" in Path(path).name.lower() else ","


def column_names(path: str) -> list[str]:
    """The names in the first line; SourceError where it does not name every column, each once."""
    try:
        with _opened(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="") as lines:
            names = next(csv.reader(lines, delimiter=separator_of(path)), [])
    except (OSError, EOFError, zlib.error, csv.Error):
        raise SourceError(f"the first line of {Path(path).name} cannot be read") from None
    # DuckDB takes names of any case for the same.
    if not names or len({name.lower() for name in names}) != len(names) or not all(map(_is_name, names)):
        raise SourceError("the first line of a CSV file names every column, each once")
    return names


def readable(path: str, copies: ExitStack) -> str:
    """The path, or that of a copy in UTF-8 where the file holds other bytes; the copy is gone when `copies` closes.

    The engine would leave out a line of which it reads a field that is no text, so that the line would be in some
    counts and not in others. An archive it knows by its ending in small letters alone.
    """
    if (path.endswith(".gz") or not _is_packed(path)) and _is_text(path):
        return path
    # Without a name, so that a killed server leaves nothing behind.
    made = copies.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with _opened(path) as raw:
        while piece := raw.read(CHUNK):
            made.write(decoder.decode(piece).encode())
    made.write(decoder.decode(b"", final=True).encode())
    made.flush()
    return f"/dev/fd/{made.fileno()}"


def _is_packed(path: str) -> bool:
    return path.lower().endswith(".gz")


def _is_text(path: str) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with _opened(path) as raw:
            while piece := raw.read(CHUNK):
                decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if _is_packed(path):
        with gzip.open(path, "rb") as packed:
            yield packed  # type: ignore[misc]
    else:
        with open(path, "rb") as plain:
            yield plain


def _is_name(name: str) -> bool:
    return bool(name.strip()) and "\0" not in name
