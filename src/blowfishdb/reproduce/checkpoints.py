"""The rows of finished cases, a line each, so that an interrupted run goes on behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blowfishdb.reproduce.experiment import Case
from blowfishdb.reproduce.result import Row


@dataclass(frozen=True)
class Checkpoints:
    """A JSONL file whose first line is the digest of the run that it belongs to."""

    path: Path
    digest: str

    def read(self) -> dict[Case, Sequence[Row]]:
        """The cases that are done; a file of another run is begun anew, a line cut short is left out."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if not whole or json.loads(whole[0]) != {"digest": self.digest}:
            self.path.write_text(json.dumps({"digest": self.digest}) + "\n", encoding="utf-8")
            return {}
        if len(whole) < len(lines):
            self.path.write_text("".join(whole), encoding="utf-8")
        kept = [json.loads(line) for line in whole[1:]]
        return {tuple(one["case"]): one["rows"] for one in kept}

    def add(self, case: Case, rows: Sequence[Row]) -> None:
        """Writes down a finished case."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case, "rows": rows}) + "\n")
