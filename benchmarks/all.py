"""Every row that the project is judged by, each as a ratio with its aim, beside the committed reference.

A benchmark takes part by a function `headline(data)` that yields its rows, each with a `ratio` and the `aim` that the
ratio must not exceed. Each runs in a process of its own, so that none warms another's caches. What cannot run here
(a server, a peer or data is missing) is a row that says so. `--only NAME` runs some, `--run FILE` compares what
`all --json` printed before instead of measuring, and `--keep` makes this run the reference of what it measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import FOLDER, Row, Work, available, compared

REFERENCE = FOLDER / "reference.json"


def run(data: Path | None) -> Iterator[Row]:
    """The rows of every benchmark that has some."""
    yield from _beside(_measured(available("headline"), data), REFERENCE, is_kept=False)


def run_with(arguments: Sequence[str]) -> Work:
    """The rows of some benchmarks, or of a run before."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks all")
    parser.add_argument("--only", action="append", metavar="NAME", choices=[*available("headline")])
    parser.add_argument("--run", type=Path, metavar="FILE", help="compare what `all --json` printed before")
    parser.add_argument("--keep", action="store_true", help="make these ratios the reference")
    parser.add_argument("--reference", type=Path, metavar="FILE", default=REFERENCE)
    options = parser.parse_args(arguments)

    def rows(data: Path | None) -> Iterator[Row]:
        measured = (
            _measured(options.only or available("headline"), data)
            if options.run is None
            else map(Row.from_json, options.run.read_text(encoding="utf-8").splitlines())
        )
        yield from _beside(measured, options.reference, is_kept=options.keep)

    return rows


def _measured(names: Iterable[str], data: Path | None) -> Iterator[Row]:
    for name in names:
        command = [sys.executable, "-m", "benchmarks", name, "--headline", "--json"]
        if data is not None:
            command += ["--data", str(data)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            output, errors = process.communicate()
        for line in output.splitlines():
            row = Row.from_json(line)
            yield replace(row, case=f"{name}: {row.case}")
        if process.returncode:
            reason = (errors.strip().splitlines() or ["no reason given"])[-1]
            yield Row(f"{name}: not run to its end", note=reason)


def _beside(rows: Iterable[Row], file: Path, *, is_kept: bool) -> Iterator[Row]:
    """The rows with what became better or worse; at the end, rows of the reference that nobody measured stay in it."""
    reference: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    ratios = dict(reference)
    for row in rows:
        if row.ratio is not None:
            ratios[row.case] = float(f"{row.ratio:.3g}")
        yield compared(row, reference.get(row.case))
    if is_kept:
        file.write_text(json.dumps(ratios, indent=1, sort_keys=True) + "\n", encoding="utf-8")
