"""The process that client processes are forked from, started once and told one plan after the other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.faults.swarm import Plan

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 3600.0
LAST_WAIT = 120.0


@dataclass(frozen=True)
class WorkerPool:
    """A running process of `tools.faults.swarm`."""

    process: subprocess.Popen[str]

    def begin(self, plan: Plan) -> None:
        """Sets the clients of a plan going; faults may be injected until `is_done`."""
        if self.process.stdin is None:
            raise RuntimeError("the worker pool has no way in")
        self.process.stdin.write(json.dumps(asdict(plan)) + "\n")
        self.process.stdin.flush()

    def is_done(self, seconds: float = 0.0) -> bool:
        """Whether the plan has ended, after a wait of at most so many seconds."""
        if self.process.stdout is None:
            raise RuntimeError("the worker pool has no way out")
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def outcome(self) -> dict[str, int]:
        """What the swarm counted: deaths, starts and releases that were given up."""
        if self.process.stdout is None or not self.is_done(LONGEST):
            raise RuntimeError("the swarm did not end")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the swarm broke down; its error is above")
        found: dict[str, int] = json.loads(line)
        return found

    def run(self, plan: Plan) -> dict[str, int]:
        """Runs a plan to its end."""
        self.begin(plan)
        return self.outcome()


@contextmanager
def open_worker_pool() -> Iterator[WorkerPool]:
    """A worker pool that ends with the block."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.faults.swarm"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield WorkerPool(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(LAST_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
