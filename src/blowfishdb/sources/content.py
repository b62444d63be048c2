"""Digests of the files that rows come from, computed once for as long as a file stays as it is."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence

CHUNK = 2**22
SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which on the times of a file tell whether it was changed again."""

_Stamp = tuple[int, ...]
_digests: dict[str, tuple[_Stamp, str]] = {}


def files_digest(paths: Sequence[str]) -> str | None:
    """A digest of the files' names and bytes; None where one cannot be read or changes meanwhile."""
    whole = hashlib.sha256()
    for path in paths:
        content = _file_digest(path)
        if content is None:
            return None
        whole.update(f"{len(path)}:{path}:{content}".encode())
    return whole.hexdigest()


def _file_digest(path: str) -> str | None:
    try:
        before = _stamp(path)
        known = _digests.get(path)
        if known is not None and known[0] == before:
            return known[1]
        content = hashlib.sha256()
        began = time.time_ns()
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                content.update(piece)
        if _stamp(path) != before:
            return None
    except OSError:
        return None
    # A file written to a moment ago may be written to again without its times telling.
    if began - max(before[3:]) > SETTLED:
        _digests[path] = before, content.hexdigest()
    return content.hexdigest()


def _stamp(path: str) -> _Stamp:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
