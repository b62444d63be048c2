"""The documented run over partitions: killed while it counts, it goes on with one charge and one draw of noise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import blowfishdb as bf
from benchmarks.partitions import EPSILON, resumed

KILLED = """
import os, signal, sys
from pathlib import Path
from benchmarks import partitions
from blowfishdb.sources.duckdb import Files
Files.fetch_columns = lambda *asked: os.kill(os.getpid(), signal.SIGKILL)
list(partitions.resumed(Path(sys.argv[1]), 3000, 3))
"""


def entries(folder: Path) -> list[tuple[str, str]]:
    with bf.connect(folder / "blowfish.toml", analyst="benchmark") as session:
        answer = session["grown"].histogram("x").release(epsilon=EPSILON, mechanism="identity")
        assert session.budget("grown").spent == answer.epsilon
        return [(str(past.epsilon), json.dumps(list(map(int, answer.raw)))) for past in session.history("grown")]


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    # A partition that was not finished, and one that is lost, are made again; whole ones are left alone.
    parts = sorted(tmp_path.glob("*.parquet"))
    parts[2].unlink()
    (tmp_path / "part-0002.unfinished").write_bytes(b"half")
    before = parts[0].stat().st_mtime_ns
    made, released = resumed(tmp_path, 3000, 3)
    assert made.case == "1 of 3 partitions made"
    assert parts[0].stat().st_mtime_ns == before
    assert "charged 0.1 in all" in released.note
    first = entries(tmp_path)
    assert len(first) == 1
    made, _ = resumed(tmp_path, 3000, 3)
    assert made.case == "0 of 3 partitions made"
    assert entries(tmp_path) == first
