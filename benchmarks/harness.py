"""What every benchmark shares: the row it yields, a measuring helper, and how rows are found and shown."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar, cast

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Ints

FOLDER = Path(__file__).resolve().parent
Result = TypeVar("Result")


class MissingData(InvalidInput):
    """A benchmark that needs data which is not shipped; raise it to ask for --data."""

    code = "missing-benchmark-data"


@dataclass(frozen=True)
class Row:
    """One measured case. `ratio` is ours / other; for throughputs, above 1 is better, else below 1.

    `aim` is the largest ratio that is wanted, where one is.
    """

    case: str
    ours: float | None = None
    other: float | None = None
    ratio: float | None = None
    seconds: float | None = None
    peak_mb: float | None = None
    note: str = ""
    aim: float | None = None

    def __post_init__(self) -> None:
        if not self.case:
            raise InvalidInput("a benchmark row needs a case: say what was measured")
        for name in ("ours", "other", "ratio", "aim", "seconds", "peak_mb"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InvalidInput(f"{self.case}: {name} is {value}; leave it out where it does not apply")

    def to_json(self) -> str:
        """One line of JSON with the fields that apply."""
        fields = dataclasses.asdict(self)
        return json.dumps({name: value for name, value in fields.items() if value is not None and value != ""})

    @staticmethod
    def from_json(line: str) -> Row:
        """The row that `to_json` wrote."""
        return Row(**json.loads(line))


class Benchmark(Protocol):
    """What a benchmark module offers."""

    def run(self, data: Path | None) -> Iterator[Row]:
        """Yield a row per case, as soon as it is measured."""


Work: TypeAlias = Callable[[Path | None], Iterator[Row]]
Configured: TypeAlias = Callable[[Sequence[str]], Work]


def measure(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """The result of `work`, the seconds it took, and the peak resident MB of the process meanwhile."""
    _reset_peak()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start, _peak_mb()


def scratch_config(folder: Path) -> Path:
    """A new configuration whose ledger and mark lie in the folder."""
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\n', encoding="utf-8")
    return config


def available(function: str = "run") -> dict[str, str]:
    """Each benchmark's name and the first line of its docstring; found by a function, without importing anything."""
    names = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body):
            names[path.stem.replace("_", "-")] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return names


def load(name: str) -> Benchmark:
    """The benchmark module of that name, imported only now."""
    return cast(Benchmark, importlib.import_module(f"benchmarks.{name.replace('-', '_')}"))


def with_options(benchmark: Benchmark, arguments: Sequence[str]) -> Work | None:
    """How to run a benchmark with options of its own; None when it has none and some were given.

    A module that has options offers `run_with(arguments)`, which returns what `run` is without any.
    """
    configured: Configured | None = getattr(benchmark, "run_with", None)
    if configured is not None:
        return configured(arguments)
    return None if arguments else benchmark.run


def judged(benchmark: Benchmark, arguments: Sequence[str]) -> Work | None:
    """How to run only what the project is judged by: `headline(data)`, each row with an aim; None without it."""
    work: Work | None = getattr(benchmark, "headline", None)
    return None if arguments else work


@contextmanager
def progress(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, on terminals only; call it with how much is done."""
    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def print_json(rows: Iterable[Row]) -> None:
    """Print one JSON object a line, each as soon as it is known."""
    for row in rows:
        print(row.to_json(), flush=True)


def print_markdown(rows: Iterable[Row]) -> None:
    """Print a table for a page of the documentation, each line as soon as it is known."""
    print("| case | ours | other | ratio | note |\n|---|---:|---:|---:|---|")
    for row in rows:
        numbers = " | ".join(_shown(value) for value in (row.ours, row.other, row.ratio))
        print(f"| {row.case} | {numbers} | {row.note} |", flush=True)


def print_table(title: str, rows: Iterable[Row]) -> None:
    """Print a readable table with only the columns that some row fills."""
    known = list(rows)
    names = [f.name for f in dataclasses.fields(Row) if any(getattr(r, f.name) not in (None, "") for r in known)]
    table = Table(title=title, title_justify="left")
    for name in names:
        is_text = name in ("case", "note")
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in known:
        table.add_row(*(_shown(getattr(row, name)) for name in names))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _shown(value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:,.4g}"


def _reset_peak() -> None:
    # Linux only: writing 5 resets the high-water mark of resident memory.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _peak_mb() -> float:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


HISTORY = FOLDER.parent / "build" / "benchmarks"
WORSE = 1.25
"""So much more than before is called worse; less is the scatter of a busy machine."""


def with_history(name: str, rows: Iterable[Row], folder: Path = HISTORY) -> Iterator[Row]:
    """The rows, each with what its ratio was before; this run is what the next one compares with.

    Ratios are ours / other, and less is better. A run that breaks off changes nothing that it did not measure.
    """
    file = folder / f"{name}.json"
    before: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    now = dict(before)
    for row in rows:
        if row.ratio is not None:
            now[row.case] = row.ratio
        yield compared(row, before.get(row.case))
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(now, indent=1, sort_keys=True))


def compared(row: Row, before: float | None) -> Row:
    """The row with its ratio of the run before in the note."""
    if before is None or row.ratio is None:
        return row
    change = "WORSE" if row.ratio > WORSE * before else "better" if row.ratio * WORSE < before else "as before"
    comparison = f"{change} (ratio was {before:.3g})"
    return dataclasses.replace(row, note=f"{row.note}; {comparison}" if row.note else comparison)


def read_histograms(data: Path | None, folder: str) -> dict[str, Ints]:
    """The arrays of counts in that folder of the data, by name; MissingData where there are none."""
    files = sorted((data / folder).glob("*.npy")) if data is not None else []
    if not files:
        raise MissingData(f"give --data a folder with {folder}/*.npy, arrays of counts")
    return {path.stem: np.load(path).astype(np.int64) for path in files}
