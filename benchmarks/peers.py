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
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.contestants.common import CELLS, SIDE, Values
from benchmarks.harness import FOLDER, Row, Work, progress, with_history
from blowfishdb.model.numbers import Floats, Ints

ASKED = 1000
SEED = 11


@dataclass(frozen=True)
class Asked:
    """Half-open ranges of x, and boxes of a and b, a row each."""

    ranges: Ints
    boxes: Ints

    def answers(self, counts: Mapping[str, Floats]) -> dict[str, Floats]:
        """What the counts of the line or the grid say about every job that they serve."""
        found: dict[str, Floats] = {}
        if "line" in counts:
            sums = np.concatenate([[0.0], np.cumsum(counts["line"])])
            found["line"], found["cdf"] = counts["line"], sums[1:]
            found["ranges"] = sums[self.ranges[:, 1]] - sums[self.ranges[:, 0]]
        if "grid" in counts:
            sums = np.zeros((SIDE + 1, SIDE + 1))
            sums[1:, 1:] = counts["grid"].reshape(SIDE, SIDE).cumsum(0).cumsum(1)
            low_a, high_a, low_b, high_b = self.boxes.T
            found["grid"] = counts["grid"]
            found["boxes"] = sums[high_a, high_b] - sums[low_a, high_b] - sums[high_a, low_b] + sums[low_a, low_b]
        return found


def make_rows(folder: Path, size: int) -> Asked:
    """Rows with peaks, heaps and empty segments, as a file for each kind of contestant; returns what is asked."""
    rng = np.random.default_rng(SEED)
    near = rng.choice([300, 1200, 1250, 3000], size) + rng.normal(0, 1, size) * rng.choice([8, 60, 250], size)
    heaped = np.where(rng.random(size) < 0.3, np.round(near, -2), near)
    centre = rng.choice([8, 20, 45], size)
    columns = {
        "x": _within(heaped, CELLS),
        "a": _within(centre + rng.normal(0, 5, size), SIDE),
        "b": _within(SIDE - centre + rng.normal(0, 9, size), SIDE),
    }
    np.savez(folder / "rows.npz", allow_pickle=False, **columns)
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.register("made", pa.table(columns))
        connection.execute("CREATE TABLE rows AS SELECT * FROM made")
    asked = Asked(_spans(rng, CELLS), np.hstack([_spans(rng, SIDE), _spans(rng, SIDE)]))
    np.savez(folder / "asked.npz", allow_pickle=False, ranges=asked.ranges, boxes=asked.boxes)
    return asked


def true_counts(folder: Path) -> dict[str, Floats]:
    """The counts of the line and of the grid."""
    with np.load(folder / "rows.npz") as rows:
        cells = {"line": rows["x"], "grid": rows["a"] * SIDE + rows["b"]}
    return {name: np.bincount(found, minlength=CELLS).astype(np.float64) for name, found in cells.items()}


def _within(values: Floats, size: int) -> Ints:
    return np.clip(values, 0, size - 1).astype(np.int64)


def _spans(rng: np.random.Generator, size: int) -> Ints:
    lows = rng.integers(0, size, ASKED)
    return np.stack([lows, lows + 1 + (rng.random(ASKED) * (size - lows)).astype(np.int64)], axis=1)


PLACE = FOLDER.parent / "build" / "peers"


@dataclass(frozen=True)
class Peer:
    """A contestant: its module, and what its environment has installed; nothing means that ours serves."""

    title: str
    module: str
    requires: tuple[str, ...] = ()
    note: str = ""
    policy: str = "only"

    @property
    def folder(self) -> Path:
        """Its environment."""
        return PLACE / self.module

    @property
    def python(self) -> Path:
        """The Python that runs it."""
        return self.folder / "bin" / "python" if self.requires else Path(sys.executable)

    def missing(self) -> str:
        """Why it cannot run; empty when it can."""
        reason = self.folder / "reason.txt"
        if reason.exists():
            return reason.read_text(encoding="utf-8")
        if not self.python.exists():
            return "not installed: run python -m benchmarks peers --install"
        return ""


def install(peers: list[Peer]) -> None:
    """Makes every environment that is not there yet; one that fails keeps the reason and stops no other."""
    wanted = [peer for peer in peers if peer.requires and (not peer.python.exists() or peer.missing())]
    with progress("installing", len(wanted)) as bar:
        for number, peer in enumerate(wanted, 1):
            _make(peer)
            bar(number)


def _make(peer: Peer) -> None:
    reason = peer.folder / "reason.txt"
    reason.unlink(missing_ok=True)
    steps = (
        [sys.executable, "-m", "venv", str(peer.folder)],
        [str(peer.python), "-m", "pip", "install", "--quiet", *peer.requires],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            peer.folder.mkdir(parents=True, exist_ok=True)
            lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
            reason.write_text(f"could not be installed: {' '.join(lines)[:300]}", encoding="utf-8")
            return


ROWS, EPSILON, TRIALS = 1_000_000, 0.1, 3
LONGEST_SECONDS = 1800
OURS = Peer("ours", "ours")
REPLACE = Peer("ours, replacing a row", "ours", policy="replace")
POLICY = Peer("ours under a policy", "ours", note="hides less: threshold 100 on x, 8 on the grid", policy="threshold")
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
    out = folder / f"{peer.module}-{peer.policy}-{job}.json"
    command = [str(peer.python), "-m", f"benchmarks.contestants.{peer.module}", job, str(folder)]
    command += ["--epsilon", str(EPSILON), "--trials", str(TRIALS), "--out", str(out), "--policy", peer.policy]
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
