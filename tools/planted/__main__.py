"""The command `python -m tools.planted`: plants faults one by one in a copy, and prints who finds them."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from blowfishdb.cli.audit import VIOLATION
from tools.planted.table import Fault, faults

ROOT = Path(__file__).resolve().parent.parent.parent
WHOLE = ("tests",)
LIMIT = 1800
"""Seconds after which a run of tests, or an audit, is given up."""
FOUND, MISSED, SLOW, BROKEN = "found", "missed", "time", "broken"
ROW = "{:<14} {:<68} {:>8} {:>8} {:>8}  {}"
LIKELY: dict[str, tuple[str, ...]] = {
    "certificate": ("made-up", "tiny", "known", "structure"),
    "noise": ("groups", "quantiles", "points", "the sampler", "identity"),
    "charging": ("drills", "the ledger", "analysts"),
    "sharing": ("shared noise", "share noise"),
    "selection": ("moves", "groups"),
    "policy change": ("change",),
    "raw counts": ("presence", "persons", "people", "groups"),
    "caches": ("quotes", "digests", "one process"),
    "history": ("analysts", "sessions"),
    "policy family": ("made-up", "threshold", "joint"),
    "persons": ("persons", "people", "person"),
    "message": ("drills",),
    "verification": ("the ledger",),
}
"""Words in the names of the audit's tasks that likely find faults of a kind, and come before all others."""


@dataclass(frozen=True)
class Found:
    """Whether tests and audit find one fault, and after how many seconds; an empty word is what was not asked for."""

    fault: Fault
    tests: str
    audit: str
    seconds: float
    by: str = ""
    """The first violation that the audit finds."""


@dataclass(frozen=True)
class WorkingCopy:
    """A copy of the working tree in which faults are planted; nothing outside of it is changed."""

    folder: Path
    jobs: int
    limit: float

    @contextmanager
    def holding(self, fault: Fault) -> Iterator[None]:
        """The copy with one fault in it."""
        file = self.folder / fault.path
        sound = file.read_text(encoding="utf-8")
        file.write_text(fault.planted(sound), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(sound, encoding="utf-8")

    def tests(self, places: Sequence[str]) -> str:
        """Whether the tests in these places fail."""
        # One process needs no others beside it.
        workers = ("-n", str(self.jobs if self.jobs > 1 else 0))
        code = self._run("-m", "pytest", "-q", "-x", *workers, *places)
        # Several processes that stop at the first failure say that they were interrupted.
        return {None: SLOW, 0: MISSED, 1: FOUND, 2: FOUND}.get(code, BROKEN)

    def audit(self, likely: Sequence[str] = ()) -> tuple[str, str]:
        """Whether the short audit finds a violation, and which one."""
        # One process needs no others beside it here either.
        processes = str(self.jobs if self.jobs > 1 else 0)
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            code = self._run("-m", "tools.planted.first_violation", processes, *likely, said=said)
            said.seek(0)
            return {None: SLOW, 0: MISSED, VIOLATION: FOUND}.get(code, BROKEN), said.read().strip()

    def _run(self, *arguments: str, said: IO[str] | None = None) -> int | None:
        """The exit code of a command in the copy; None where it takes too long."""
        paths = os.pathsep.join(str(self.folder / place) for place in ("src", "."))
        settings = {**os.environ, "PYTHONPATH": paths, "HYPOTHESIS_PROFILE": "ci", "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=settings,
            stdout=subprocess.DEVNULL if said is None else said,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(self.limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    # With the processes that it started.
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def working_copy(jobs: int, limit: float) -> Iterator[WorkingCopy]:
    """A copy of all files of the working tree; gone afterwards."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="blowfish-planted-") as place:
        folder = Path(place)
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        yield WorkingCopy(folder, jobs, limit)


def tried(copy: WorkingCopy, fault: Fault, options: argparse.Namespace) -> Found:
    """One fault: the tests that likely see it, then all others where that is wanted, and the audit."""
    started, tests, audit, by = time.monotonic(), "", "", ""
    with copy.holding(fault):
        if not options.audit_only:
            tests = copy.tests(fault.tests)
            if tests == MISSED and options.whole:
                tests = copy.tests(WHOLE)
        if not options.tests_only:
            audit, by = copy.audit(LIKELY.get(fault.kind, ()))
    return Found(fault, tests, audit, time.monotonic() - started, by)


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.planted",
        description="Plant faults one by one in a copy of the working tree, and run tests and the short audit on each.",
    )
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only faults whose kind or name has one of these words"
    )
    parser.add_argument("--list", action="store_true", help="print the faults and plant none")
    parser.add_argument("--whole", action="store_true", help="run all tests where the likely ones find nothing (hours)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--tests-only", action="store_true", help="leave the audit out")
    only.add_argument("--audit-only", action="store_true", help="leave the tests out")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes [%(default)s]")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="S", help="seconds for a run [%(default)s]")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Runs the command line: 0 when the tests find every fault that was planted, 1 when not, 2 for a wrong word."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    chosen = [one for one in faults() if not options.words or any(w in f"{one.kind} {one.name}" for w in options.words)]
    if not chosen or options.jobs < 1:
        parser.error("no fault has such a word in its name")
    rows: list[Found] = []
    if options.list:
        for fault in chosen:
            print(f"{fault.kind:<14} {fault.name}")
        return 0
    for fault in chosen:
        fault.planted((ROOT / fault.path).read_text(encoding="utf-8"))
    print(ROW.format("kind", "fault", "tests", "audit", "seconds", "by").rstrip(), flush=True)
    with working_copy(options.jobs, options.limit) as copy:
        for fault in chosen:
            row = tried(copy, fault, options)
            rows.append(row)
            words = row.tests, row.audit, f"{row.seconds:.0f}", row.by
            print(ROW.format(fault.kind, fault.name[:68], *words).rstrip(), flush=True)
    by_tests, by_audit = (
        sum(word == FOUND for word in column) for column in zip(*((r.tests, r.audit) for r in rows), strict=True)
    )
    print(f"{len(rows)} planted: tests found {by_tests}, the short audit {by_audit}")
    return 0 if options.audit_only or by_tests == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
