"""Fails when a room's branch coverage is below its floor: `python -m tools.coverage_floors build/coverage.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLOORS: Mapping[str, float] = {"plan": 100.0, "engine": 95.0, "ledger": 95.0, "sources": 90.0, "sql": 95.0}
"""Percent of lines and branches that the tests must reach, for each room below src/blowfishdb."""


def coverage_of(report: Mapping[str, Any], room: str) -> tuple[float, list[str]]:
    """Percent of a room's lines and branches that were reached, and the places that were not."""
    reached = total = 0
    missing = []
    for name, file in sorted(report["files"].items()):
        if f"blowfishdb/{room}/" not in Path(name).as_posix():
            continue
        summary = file["summary"]
        reached += summary["covered_lines"] + summary["covered_branches"]
        total += summary["num_statements"] + summary["num_branches"]
        missing += [f"{name}:{line}" for line in file["missing_lines"]]
        missing += [f"{name}:{start} -> {end}" for start, end in file["missing_branches"]]
    if not total:
        raise ValueError(f"the report has no line of {room}")
    return 100.0 * reached / total, missing


def main(arguments: list[str]) -> int:
    """Prints each room's coverage; 1 where one is below its floor."""
    report = json.loads(Path(arguments[0]).read_text())
    status = 0
    for room, floor in FLOORS.items():
        percent, missing = coverage_of(report, room)
        print(f"{room:8} {percent:6.2f} % of lines and branches (floor {floor:g} %)")
        if percent < floor:
            status = 1
            print("  not reached: " + ", ".join(missing[:40]) + (" ..." if len(missing) > 40 else ""))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
