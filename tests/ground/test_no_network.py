"""Nothing reaches out: a whole day of work, in a process without any network but loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
APART = ["unshare", "--map-root-user", "--net"]


def can_part() -> bool:
    """Whether this machine lets us make a network namespace."""
    return shutil.which("unshare") is not None and subprocess.run([*APART, "true"], capture_output=True).returncode == 0


def run(code: list[str], folder: Path) -> dict[str, Any]:
    apart = can_part()
    proxies = {name for name in os.environ if name.lower().endswith("_proxy")}
    environment = {
        name: value for name, value in os.environ.items() if name not in proxies and not name.startswith("COV")
    }
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    command = [*(APART if apart else []), sys.executable, *code, str(folder), "namespace" if apart else "hook"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_a_day_of_work_sends_nothing_out(tmp_path: Path) -> None:
    found = run(["-m", "tests.ground.offline_run"], tmp_path)
    assert found["attempts"] == []
    assert not found["unrouted"]
    assert found["done"] == [
        "release 1/10",
        "synopsis 1/10",
        "dawa 1/10",
        "dataset list: 0",
        "ledger verify: 0",
        "preview visits --histogram age --within 50: 0",
        "csv 1",
        "served 200 200 404 False []",
    ]


REACHING_OUT = """
import sys, json, socket
from tests.ground import offline_run as run
if sys.argv[2] == "namespace":
    run.raise_loopback()
before = run.unrouted() if sys.argv[2] == "namespace" else 0
import _socket
line = _socket.socket()
try:
    line.connect(("192.0.2.1", 9))
except OSError:
    pass
counted = run.unrouted() - before if sys.argv[2] == "namespace" else 1
sys.addaudithook(run.watch)
try:
    socket.create_connection(("192.0.2.1", 9), timeout=1)
except OSError:
    pass
print(json.dumps({"attempts": run.attempts, "unrouted": counted}))
"""


@pytest.mark.skipif(not can_part(), reason="this machine makes no network namespaces")
def test_an_attempt_would_be_seen(tmp_path: Path) -> None:
    found = run(["-c", REACHING_OUT], tmp_path)
    assert found["unrouted"] >= 1
    assert len(found["attempts"]) >= 1
