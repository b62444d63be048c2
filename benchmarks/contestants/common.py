"""What all contestants share: the rows, the job, and the report of seconds, memory and released values.

Only numpy and the standard library: contestants have virtual environments without BlowfishDB.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CELLS = 4096
SIDE = 64
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Job:
    """What is to be released: `line`, a histogram of x with 4096 cells, or `grid`, one of a and b with 64 times 64.

    Contestants with answers of their own for other questions know `cdf`, `ranges` and `boxes` too.
    """

    name: str
    epsilon: float
    folder: Path
    policy: str = "only"
    """What neighbours differ in; peers know no other than a row more or less."""

    def rows(self) -> dict[str, NDArray[np.int64]]:
        """The columns x, a and b."""
        with np.load(self.folder / "rows.npz") as found:
            return {name: found[name] for name in ("x", "a", "b")}

    def codes(self) -> NDArray[np.int64]:
        """The cell of each row."""
        rows = self.rows()
        return rows["x"] if self.name == "line" else rows["a"] * SIDE + rows["b"]

    def wanted(self, name: str) -> NDArray[np.int64]:
        """The ends of the ranges or boxes that are asked."""
        with np.load(self.folder / "asked.npz") as found:
            return np.asarray(found[name])


def compete(prepare: Callable[[Job], Callable[[int], Values]]) -> None:
    """Runs a contestant: `prepare` loads what is not measured and returns the release of one trial."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--policy", default="only")
    options = parser.parse_args()
    release = prepare(Job(options.job, options.epsilon, options.folder, options.policy))
    seconds, released = [], []
    for trial in range(options.trials):
        began = time.perf_counter()
        values = release(trial)
        seconds.append(time.perf_counter() - began)
        released.append(values)
    np.save(options.out.with_suffix(".npy"), np.array(released, dtype=np.float64))
    options.out.write_text(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))


def peak_mb() -> float:
    """The most resident megabytes of this process so far, and of the largest child that has ended or runs on Linux."""
    return sum(_high_water(process) for process in ("self", *_children()))


def _children() -> list[str]:
    # Spark's Java process is a child that still runs.
    own = Path("/proc/self/task")
    found = [(task / "children") for task in own.iterdir()] if own.exists() else []
    return [child for file in found if file.exists() for child in file.read_text().split()]


def _high_water(process: str) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) / 2**10 for line in status if line.startswith("VmHWM:")), 0.0)
