"""Us against OpenDP, diffprivlib, SmartNoise SQL and Tumult, numpy and raw SQL: seconds, memory and error in one run.

`ratio` is ours / theirs, so below 1 we are ahead. Same rows, same epsilon, and neighbours that add or remove one row
(our presence `only`); what is called a policy hides less, and says what. Each contestant has a process of its own.
Seconds are from rows to released numbers, the median of the trials, without imports and start; ours include a durable
charge, the count in a DuckDB file and the record of the answer, theirs begin with rows in memory. Errors are means of
absolute errors; counts of cells below zero are set to zero for everybody, as we and some of them do in any case. Peers
answer ranges by adding up their cells as released. `--install` makes the peers' environments under build/peers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contestants.common import Values
from benchmarks.harness import FOLDER, Row, Work, progress
from benchmarks.history import with_history
from benchmarks.peer_rows import ASKED, Asked, make_rows, true_counts
from benchmarks.peer_venvs import Peer, install
from blowfishdb.model.numbers import Floats

ROWS, EPSILON, TRIALS = 1_000_000, 0.1, 3
LONGEST_SECONDS = 1800
OURS = Peer("ours", "ours")
REPLACE = Peer("ours, replacing a row", "ours_replace")
POLICY = Peer("ours under a policy", "ours_policy", note="hides less: threshold 100 on x, 8 on the grid")
PEERS = [
    Peer("numpy (floor)", "numpy_floor", note="neither exact nor accounted for"),
    Peer("raw SQL", "raw_sql", note="no privacy: overhead only"),
    Peer("OpenDP, vector Laplace", "opendp_vector"),
    Peer("OpenDP, Polars", "opendp_polars", ("opendp[polars]==0.16.0", "numpy", "pandas"), "cuts counts at 0: biased"),
    Peer(
        "diffprivlib",
        "diffprivlib_histogram",
        ("diffprivlib==0.6.6", "scikit-learn==1.5.2"),
        "sets negative counts to 0: biased",
    ),
    Peer("SmartNoise SQL", "smartnoise_sql", ("smartnoise-sql==1.0.6",), "leaves out empty cells, which tells them"),
    Peer("Tumult Analytics", "tumult_analytics", ("tmlt.analytics==0.21.0",), "Spark is started and warm"),
]
RELEASED = ("line", "grid")
WORDS = {
    "line": "histogram, 4096 cells",
    "grid": "histogram, 64 x 64 cells",
    "cdf": "running counts",
    "ranges": f"{ASKED} random ranges",
    "boxes": f"{ASKED} random rectangles",
}
FROM = {"line": "line", "cdf": "line", "ranges": "line", "grid": "grid", "boxes": "grid"}
"""From which histogram a peer answers."""


@dataclass(frozen=True)
class Result:
    """What one contestant did with one job; `values` has a row a trial."""

    seconds: float
    peak_mb: float
    values: Values


def run(data: Path | None) -> Iterator[Row]:
    """All jobs and peers at the usual size."""
    del data
    yield from with_history("peers", _rows(ROWS, PEERS))


def run_with(arguments: Sequence[str]) -> Work:
    """The benchmark with other sizes, or the making of the peers' environments first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers")
    parser.add_argument("--install", action="store_true", help="make the environments of the peers first")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", action="append", metavar="MODULE", help="these contestants alone")
    options = parser.parse_args(arguments)
    chosen = [peer for peer in PEERS if not options.only or peer.module in options.only]

    def sized(data: Path | None) -> Iterator[Row]:
        if options.install:
            install(chosen)
        if (options.rows, options.only) == (ROWS, None):
            yield from run(data)
        else:
            yield from _rows(options.rows, chosen)

    return sized


def _rows(size: int, peers: Sequence[Peer]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = make_rows(folder, size)
        with progress("peers", 2 * len(WORDS) + len(RELEASED) * len(peers)) as bar:
            ours = {}
            for job in WORDS:
                ours[job] = compete(OURS, job, folder)
                bar(len(ours))
            for number, peer in enumerate(peers):
                yield from _against(peer, ours, asked, folder)
                bar(len(ours) + len(RELEASED) * (number + 1))
            yield from _policies(asked.answers(true_counts(folder)), folder)


def _against(peer: Peer, ours: dict[str, Result], asked: Asked, folder: Path) -> Iterator[Row]:
    truth = asked.answers(true_counts(folder))
    why = peer.missing()
    if why:
        yield Row(peer.title, note=why)
        return
    for job in RELEASED:
        try:
            theirs = compete(peer, job, folder)
        except RuntimeError as problem:
            yield Row(f"{WORDS[job]}: {peer.title}", note=f"failed: {problem}")
            continue
        yield _row(f"{WORDS[job]}, seconds", peer, ours[job].seconds, theirs.seconds)
        yield _row(f"{WORDS[job]}, peak MB", peer, ours[job].peak_mb, theirs.peak_mb)
        if peer.module == "raw_sql":
            continue
        for kind in (kind for kind, source in FROM.items() if source == job):
            answered = [asked.answers({job: trial})[kind] for trial in theirs.values]
            own, other = error(ours[kind].values, truth[kind]), error(answered, truth[kind])
            yield _row(f"{WORDS[kind]}, error", peer, own, other)


def _policies(truth: dict[str, Floats], folder: Path) -> Iterator[Row]:
    """What a policy buys: the error of the same questions under it and under differential privacy, both ours."""
    for job, words in WORDS.items():
        found, usual = (error(compete(own, job, folder).values, truth[job]) for own in (POLICY, REPLACE))
        yield Row(f"{words}, error: policy against replacing a row", found, usual, found / usual, note=POLICY.note)


def _row(case: str, peer: Peer, ours: float, theirs: float) -> Row:
    ratio = ours / theirs if theirs else None
    return Row(f"{case}: {peer.title}", ours, theirs, ratio, note=peer.note)


def compete(peer: Peer, job: str, folder: Path) -> Result:
    """One contestant's job in a process of its own; RuntimeError with the end of what it said when it fails."""
    out = folder / f"{peer.module}-{job}.json"
    command = [str(peer.python), "-m", f"benchmarks.contestants.{peer.module}", job, str(folder)]
    command += ["--epsilon", str(EPSILON), "--trials", str(TRIALS), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"took longer than {LONGEST_SECONDS} seconds") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:200])
    found = json.loads(out.read_text())
    return Result(float(np.median(found["seconds"])), found["peak_mb"], np.load(out.with_suffix(".npy")))


def error(answered: Sequence[Floats] | Values, truth: Floats) -> float:
    """The mean absolute error over all trials, of values that are at least zero as every count is."""
    return float(np.mean([np.abs(np.maximum(trial, 0.0) - truth).mean() for trial in answered]))
