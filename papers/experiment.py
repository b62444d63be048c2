"""An experiment: its settings, its three functions, the rows it measures and the result it concludes."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from blowfishdb.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["tiny", "quick", "full"]
"""`quick` shows every effect within minutes, `full` repeats the papers' numbers of trials, `tiny` tests the code."""

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Everything that decides what an experiment computes, but for the noise, which has no seed."""

    size: Size = "full"
    data: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data is not None and not self.data.is_dir():
            raise InvalidInput(f"{self.data} is no folder; --data names the one that holds the histograms")
        if self.seed < 0:
            raise InvalidInput("a seed is 0 or more")

    def pick(self, tiny: T, quick: T, full: T) -> T:
        """The one of three values that belongs to the size of this run."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.size]


# What an experiment finds: tables, pictures and a verdict on the paper's claim.

Value = str | int | float | bool | None
Row = Mapping[str, Value]
Holds = Literal["yes", "no", "partly"]


@dataclass(frozen=True)
class Verdict:
    """The paper's claim, whether it holds in this run, and one sentence why."""

    claim: str
    holds: Holds
    why: str

    def __post_init__(self) -> None:
        if not self.claim or not self.why:
            raise InvalidInput("a verdict names the claim and says why it holds or not")


@dataclass(frozen=True)
class Table:
    """Rows with the same columns; `name` is the file's name without its ending."""

    name: str
    title: str
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise InvalidInput(f"table {self.name} has no rows")
        if any(tuple(row) != self.columns for row in self.rows):
            raise InvalidInput(f"the rows of table {self.name} have different columns")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the order of the rows."""
        return tuple(self.rows[0])

    def csv(self) -> str:
        """The table as a CSV document."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


@dataclass(frozen=True)
class Picture:
    """A figure to draw: `draw` gets an empty matplotlib figure of `size` inches; `trials` says what is behind it."""

    name: str
    title: str
    trials: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (7.2, 4.2)


@dataclass(frozen=True)
class Result:
    """All of it; names of tables and pictures are file names, each used once."""

    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    verdict: Verdict

    def __post_init__(self) -> None:
        for parts in (self.tables, self.pictures):
            names = [part.name for part in parts]
            if len(set(names)) < len(names):
                raise InvalidInput(f"a name is used twice: {', '.join(names)}")


def how_it_holds(parts: Sequence[bool]) -> Holds:
    """`yes` when every part of the claim holds, `no` when none does, else `partly`."""
    if all(parts):
        return "yes"
    return "partly" if any(parts) else "no"


# An experiment: which paper and figure it repeats, and the three functions that do it.

Case = tuple[Value, ...]
"""What one piece of work is called: plain values, because it is kept in a file and sent to another process."""


@dataclass(frozen=True)
class Procedure:
    """`cases` names the pieces of work, `measure` does one of them, `conclude` judges the rows of all.

    `measure` may run in any process, in any order, and its rows are kept: an interrupted run goes on behind them.
    `conclude` gets the rows in the order of the cases and nothing else, so that a test can feed it others.
    """

    cases: Callable[[Settings], Sequence[Case]]
    measure: Callable[[Settings, Case], Sequence[Row]]
    conclude: Callable[[Settings, Sequence[Row]], Result]


@dataclass(frozen=True)
class Experiment:
    """One line of the table: `place` is the module and the name of its Procedure, imported when it runs."""

    name: str
    paper: str
    figure: str
    what: str
    place: str

    def procedure(self) -> Procedure:
        """The functions, from their module."""
        module, _, attribute = self.place.partition(":")
        procedure = getattr(importlib.import_module(module), attribute)
        if not isinstance(procedure, Procedure):
            raise TypeError(f"{self.place} is no Procedure")
        return procedure


# Small sums over the rows of an experiment.


def number(row: Row, key: str) -> float:
    """The number in that column."""
    value = row[key]
    if value is None or isinstance(value, str):
        raise TypeError(f"{key} holds no number")
    return float(value)


def matching(rows: Sequence[Row], **wanted: str | float) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def one(rows: Sequence[Row], column: str, **wanted: str | float) -> float:
    """The number in a column of the only row that has these values."""
    (row,) = matching(rows, **wanted)
    return number(row, column)


def distinct(rows: Iterable[Row], column: str) -> list[str]:
    """The texts of a column, each once, in order."""
    return list(dict.fromkeys(str(row[column]) for row in rows))


def without(rows: Iterable[Row], column: str) -> tuple[Row, ...]:
    """The rows, less one column."""
    return tuple({key: value for key, value in row.items() if key != column} for row in rows)


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(list(values)))))


def mean_ratio(rows: Sequence[Row], column: str, above: str, below: str, sets: Iterable[str]) -> float:
    """The geometric mean over data sets of one algorithm's number over another's."""
    return geometric_mean(
        one(rows, column, set=name, algorithm=above) / one(rows, column, set=name, algorithm=below) for name in sets
    )


def mean_and_error(trial: Callable[[int], float], trials: int) -> dict[str, float | int]:
    """The mean over trials and its standard error, as columns of a row."""
    results = np.array([trial(place) for place in range(trials)])
    spread = float(results.std(ddof=1) / np.sqrt(trials)) if trials > 1 else 0.0
    return {"error": float(results.mean()), "standard error": spread, "trials": trials}


def trials_of(rows: Iterable[Row], column: str = "trials") -> str:
    """How many trials stand behind a number, in words: `15 trials`, or `1 to 15 trials` where they differ."""
    counts = {int(number(row, column)) for row in rows}
    few, many = min(counts), max(counts)
    return f"{few:,} to {many:,} trials" if few < many else f"{many:,} trial{'s' if many > 1 else ''}"
