"""What another process uses, as Linux tells it."""

from __future__ import annotations

import os
from pathlib import Path

PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICKS = os.sysconf("SC_CLK_TCK")


def resident_mb(process: int) -> float:
    """Its resident megabytes."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * PAGE_MB


def cpu_seconds(process: int) -> float:
    """What it computed so far; hardly changes with what else the machine does."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
