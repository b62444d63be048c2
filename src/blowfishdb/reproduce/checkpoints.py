"""The rows of finished cases, a line each, so that an interrupted run goes on behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blowfishdb.reproduce.experiment import Case
from blowfishdb.reproduce.result import Row


@dataclass(frozen=True)
class Measured:
    """The rows of one case, and the processor's seconds that they took."""

    rows: Sequence[Row]
    seconds: float


@dataclass(frozen=True)
class Checkpoints:
    """A JSONL file whose first line is the digest of the run that it belongs to."""

    path: Path
    digest: str

    def read(self) -> dict[Case, Measured]:
        """The cases that are done; a file of another run is begun anew, a line that cannot be read is left out."""
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
        lines = text.splitlines(keepends=True)
        kept = list(_whole(lines))
        if not kept or kept[0][1] != {"digest": self.digest}:
            self.path.write_text(json.dumps({"digest": self.digest}) + "\n", encoding="utf-8")
            return {}
        if len(kept) < len(lines):
            self.path.write_text("".join(line for line, _ in kept), encoding="utf-8")
        return {tuple(one["case"]): Measured(one["rows"], one["seconds"]) for _, one in kept[1:]}

    def add(self, case: Case, found: Measured) -> None:
        """Writes down a finished case."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case, "rows": found.rows, "seconds": found.seconds}) + "\n")


def _whole(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that hold a whole document, with what they hold."""
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if line.endswith("\n") and isinstance(found, dict):
            yield line, found
