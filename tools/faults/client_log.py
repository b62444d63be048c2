"""What a client asked and saw, in a file of its own that is durable line by line; the checker believes nothing else.

This file and the checker import nothing of BlowfishDB, so that a fault there cannot hide itself here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ASKED = "asked"
SAW = "saw"
REFUSED = "refused"
UNCLEAN = "unclean"
DIED = "died"
KINDS = (ASKED, SAW, REFUSED, UNCLEAN, DIED)


@dataclass(frozen=True)
class Record:
    """One line: `detail` is the digest of an answer, the code of a refusal, a stray error, or the place of a death."""

    kind: str
    analyst: str
    key: str
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a record is one of {', '.join(KINDS)}")


class ClientLog:
    """Appends records to one file; each is on disk before `note` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, analyst: str, key: str, detail: str = "") -> None:
        """Writes one record, durably."""
        line = json.dumps(asdict(Record(kind, analyst, key, detail))) + "\n"
        os.write(self._descriptor, line.encode())
        os.fsync(self._descriptor)


def read_log(path: Path) -> list[Record]:
    """The records of one file; a line that was cut off by a death is none."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [Record(**json.loads(line)) for line in lines]


def read_logs(folder: Path) -> list[Record]:
    """The records of all clients."""
    return [record for path in sorted(folder.glob("*.log")) for record in read_log(path)]


def settled_keys(records: Iterable[Record], final_refusals: Iterable[str]) -> set[str]:
    """The keys that need no further try: answered, or refused for good."""
    final = set(final_refusals)
    return {one.key for one in records if one.kind == SAW or (one.kind == REFUSED and one.detail in final)}
