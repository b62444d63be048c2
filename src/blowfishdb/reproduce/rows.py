"""Small sums over the rows of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from blowfishdb.reproduce.result import Row


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
    found = np.array([trial(place) for place in range(trials)])
    spread = float(found.std(ddof=1) / np.sqrt(trials)) if trials > 1 else 0.0
    return {"error": float(found.mean()), "standard error": spread, "trials": trials}


def trials_of(rows: Iterable[Row], column: str = "trials") -> str:
    """How many trials stand behind a number, in words: `15 trials`, or `1 to 15 trials` where they differ."""
    counts = {int(number(row, column)) for row in rows}
    few, many = min(counts), max(counts)
    return f"{few:,} to {many:,} trials" if few < many else f"{many:,} trial{'s' if many > 1 else ''}"
