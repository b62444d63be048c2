"""The ratios of the run before: kept beside the build, shown in the note of each row, worse ones marked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.harness import FOLDER, Row

KEPT = FOLDER.parent / "build" / "benchmarks"
WORSE = 1.25
"""So much more than before is called worse; less is the scatter of a busy machine."""


def with_history(name: str, rows: Iterable[Row], folder: Path = KEPT) -> Iterator[Row]:
    """The rows, each with what its ratio was before; this run is what the next one compares with.

    Ratios are ours / other, and less is better. A run that breaks off changes nothing that it did not measure.
    """
    file = folder / f"{name}.json"
    before: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    now = dict(before)
    for row in rows:
        if row.ratio is not None:
            now[row.case] = row.ratio
        yield compared(row, before.get(row.case))
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(now, indent=1, sort_keys=True))


def compared(row: Row, before: float | None) -> Row:
    """The row with its ratio of the run before in the note."""
    if before is None or row.ratio is None:
        return row
    change = "WORSE" if row.ratio > WORSE * before else "better" if row.ratio * WORSE < before else "as before"
    said = f"{change} (ratio was {before:.3g})"
    return dataclasses.replace(row, note=f"{row.note}; {said}" if row.note else said)
