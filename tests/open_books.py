"""A hook of the interpreter: no code of ours opens a file that SQLite has open, or reads as data, in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from blowfishdb import sqlite_files

SOURCE = str(Path(sqlite_files.__file__).parent) + os.sep
OTHERS = tuple(str(Path(__file__).parents[1] / name) + os.sep for name in ("tests", "tools"))
LOGS = ("-wal", "-shm", "-journal")

_data: dict[tuple[int, int], Path] = {}
"""Databases that were read as data, which other threads may read at any time, and where they are."""
_found: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sqlite3.connect" and "?mode=ro" in str(arguments[0]):
        path = Path(unquote(urlsplit(str(arguments[0])).path))
        identity = sqlite_files._identity(path)
        if identity is not None:
            _data[identity] = path
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _check(os.fsdecode(arguments[0]), arguments[2])


def _check(path: str, flags: object) -> None:
    # What is made anew is in use by nobody.
    if isinstance(flags, int) and flags & os.O_EXCL:
        return
    ending = next((one for one in LOGS if path.endswith(one)), "")
    in_use = {one._file for one in list(sqlite_files._connections) if one._handle is not None and one._file}
    if not in_use and not _data:
        return
    identity = sqlite_files._identity(Path(path.removesuffix(ending)))
    # The number of a file that was removed is given to another one.
    is_data = identity in _data and sqlite_files._identity(_data[identity]) == identity
    if identity in in_use or is_data:
        opener = _opener()
        if opener is not None:
            _found.append(f"{opener} opens {path}, which SQLite has open: all of its locks end when that is closed")
            raise RuntimeError(_found[-1])


def _opener() -> str | None:
    """The line of ours that opens a file; None where a test or a tool does."""
    frame = sys._getframe(3)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith((SOURCE, *OTHERS)):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{name}:{frame.f_lineno}" if name.startswith(SOURCE) else None


def pytest_configure() -> None:
    sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def closed_books() -> Iterator[None]:
    """Fails where code of ours opened such a file, also where it caught what the hook raised."""
    yield
    found = _found.copy()
    _found.clear()
    assert not found, found
