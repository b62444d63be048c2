"""The answer as named columns and lines of text, which every table, frame and chart is made of."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from blowfishdb.errors import ExtraMissing
from blowfishdb.model.numbers import Floats
from blowfishdb.present.released import AnswerAxis, AnswerTable, Released
from blowfishdb.present.words import accuracy_words, digits_of, epsilon_words, printable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def needed(module: str, extra: str) -> Any:
    """The module; ExtraMissing names what to install when it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ExtraMissing(module.partition(".")[0], extra) from None


Labels: TypeAlias = list[str | None]


def axis_columns(answer: Released) -> dict[str, Labels]:
    """The labels of each attribute; None where a marginal does not have that attribute."""
    found: dict[str, Labels] = {name: [] for table in answer.tables for name in table.names}
    for table in answer.tables:
        own = dict(zip(table.names, zip(*table.rows(), strict=True), strict=True)) if table.size else {}
        for name, labels in found.items():
            labels.extend(own.get(name, (None,) * table.size))
    return found


def number_columns(answer: Released) -> dict[str, Floats]:
    """The value, its interval that holds together with all others, the raw answer, and its interval on its own."""
    taken = {name for table in answer.tables for name in table.names}
    numbers = {
        answer.value_name: answer.values,
        "low": answer.bounds.low,
        "high": answer.bounds.high,
        "raw": answer.raw,
        "own_low": answer.own_bounds.low,
        "own_high": answer.own_bounds.high,
    }
    return {free_name(name, taken): column for name, column in numbers.items()}


def free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores behind it while an attribute is called the same."""
    while name in taken:
        name += "_"
    return name


def rows(answer: Released) -> list[dict[str, str | float | None]]:
    """One dictionary per answer."""
    labels = axis_columns(answer)
    numbers = {name: column.tolist() for name, column in number_columns(answer).items()}
    names = [*labels, *numbers]
    return [dict(zip(names, row, strict=True)) for row in zip(*labels.values(), *numbers.values(), strict=True)]


def to_arrow(answer: Released) -> pyarrow.Table:
    """A pyarrow table."""
    import pyarrow as pa

    labels = {name: pa.array(column, pa.string()) for name, column in axis_columns(answer).items()}
    numbers = {name: pa.array(column, pa.float64()) for name, column in number_columns(answer).items()}
    return pa.table({**labels, **numbers})


def to_polars(answer: Released) -> polars.DataFrame:
    """A polars frame."""
    library = needed("polars", "frames")
    labels = [library.Series(name, column, library.String) for name, column in axis_columns(answer).items()]
    numbers = [library.Series(name, column, library.Float64) for name, column in number_columns(answer).items()]
    frame: polars.DataFrame = library.DataFrame([*labels, *numbers])
    return frame


def to_pandas(answer: Released) -> pandas.DataFrame:
    """A pandas frame."""
    library = needed("pandas", "frames")
    labels = {name: library.Series(column, dtype=object) for name, column in axis_columns(answer).items()}
    return library.DataFrame({**labels, **number_columns(answer)})


ROWS = 12
"""An answer with more rows shows its first and last ones."""
LONGEST_LABEL = 40


def heading(answer: Released) -> str:
    """One line: what was asked, what it cost of which data, and how near the truth it is."""
    parts = [answer.title, f"epsilon {epsilon_words(answer.epsilon)}{whose(answer)}", accuracy_words(answer)]
    return "   ".join(printable(part) for part in parts)


def whose(answer: Released) -> str:
    """Of which data and under which policy, where that is known: " of visits (policy v2)"."""
    version = f" (policy v{answer.policy_version})" if answer.policy_version is not None else ""
    return f" of {answer.dataset}{version}" if answer.dataset else version


def shown_rows(size: int, most: int = ROWS) -> tuple[range, range]:
    """The first and the last rows to show; the second is empty when everything fits."""
    if size <= most:
        return range(size), range(0)
    return range(most // 2), range(size - most // 2, size)


def cells(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """Label, value, low and high of the given answers, as text."""
    labels, digits = row_labels(answer, places), digits_of(answer)
    return [
        [
            *label,
            digits.value(float(answer.values[place])),
            digits.low(float(answer.bounds.low[place])),
            digits.high(float(answer.bounds.high[place])),
        ]
        for label, place in zip(labels, places, strict=True)
    ]


def row_labels(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """The labels of the given answers, one per column of the heading."""
    names = column_names(answer)
    found = []
    for place in places:
        for table in answer.tables:
            if place < table.size:
                own = dict(zip(table.names, table.row(place), strict=True))
                found.append([shortened(own.get(name, "")) for name in names])
                break
            place -= table.size
    return found


def column_names(answer: Released) -> list[str]:
    """The attributes of the answer, in order."""
    return list(dict.fromkeys(name for table in answer.tables for name in table.names))


def shortened(label: str, most: int = LONGEST_LABEL) -> str:
    """The label, safe to print and not too long; both its ends are kept, since labels often differ in the last."""
    safe = printable(label)
    tail = most // 3
    return safe if len(safe) <= most else f"{safe[: most - 1 - tail]}…{safe[-tail:]}"


def as_text(answer: Released) -> str:
    """The heading and a small table, like a data frame's."""
    first, last = shown_rows(answer.raw.size)
    lines = [[*map(shortened, column_names(answer)), answer.value_name, "low", "high"], *cells(answer, first)]
    if last:
        lines += [["..."] + [""] * (len(lines[0]) - 1), *cells(answer, last)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    body = ["  " + "  ".join(part.rjust(width) for part, width in zip(line, widths, strict=True)) for line in lines]
    tail = [f"  {answer.raw.size:,} rows"] if last else []
    remarks = [f"  {printable(said)}" for said in (answer.consistent.note, answer.caveat) if said]
    return "\n".join([heading(answer), *(line.rstrip() for line in body), *tail, *remarks])


@dataclass(frozen=True, eq=False)
class Pooled:
    """A plane of sums over blocks of neighbouring cells, with the blocks' labels; `factor` cells make one block."""

    values: Floats
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    factor: int


def evenly(size: int, most: int) -> list[int]:
    """At most so many places, evenly spread, the first and the last included."""
    if size <= most:
        return list(range(size))
    return [round(step * (size - 1) / (most - 1)) for step in range(most)]


def regular(labels: Sequence[str], most: int) -> list[int]:
    """At most so many places at equal steps; where the labels count up in ones, at round numbers."""
    size = len(labels)
    if size <= most:
        return list(range(size))
    step = next(step for step in _round_steps() if size <= step * most)
    first = _whole(labels[0])
    counts_up = first is not None and _whole(labels[1]) == first + 1
    start = -first % step if first is not None and counts_up else 0
    return list(range(start, size, step))


def _round_steps() -> Iterator[int]:
    return (part * 10**power for power in itertools.count() for part in (1, 2, 5))


def _whole(label: str) -> int | None:
    try:
        return int(label)
    except ValueError:
        return None


def tallest(values: Floats, most: int) -> list[int]:
    """The place of the largest value in each of at most so many runs of neighbours of (nearly) equal length."""
    starts = runs(values.size, most)
    ends = [*starts[1:], values.size]
    return [low + int(values[low:high].argmax()) for low, high in zip(starts, ends, strict=True)]


def runs(size: int, most: int) -> list[int]:
    """Where at most so many runs of (nearly) equal length begin."""
    count = min(size, most)
    return [place * size // count for place in range(count)]


def largest(values: Floats, most: int) -> list[int]:
    """The places of the largest values, in order of place."""
    return sorted(np.argsort(-values, kind="stable")[:most].tolist())


def pooled(values: Floats, table: AnswerTable, most: tuple[int, int]) -> Pooled:
    """The answers of two attributes as a plane with at most so many rows and columns; special cells stay apart."""
    down, across = table.axes
    blocks = [_starts(axis, limit) for axis, limit in zip(table.axes, most, strict=True)]
    plane = values.reshape(table.shape)
    for axis, starts in enumerate(blocks):
        plane = np.add.reduceat(plane, starts, axis=axis)
    factor = math.prod(int(np.diff([*starts, size]).max()) for starts, size in zip(blocks, table.shape, strict=True))
    return Pooled(plane, _labels(down, blocks[0]), _labels(across, blocks[1]), factor)


def _starts(axis: AnswerAxis, most: int) -> list[int]:
    """Where the blocks begin: equal runs of ordinary cells, then each special one alone."""
    special = len(axis.labels) - axis.plain
    step = math.ceil(axis.plain / max(most - special, 1)) or 1
    return [*range(0, axis.plain, step), *range(axis.plain, len(axis.labels))]


def _labels(axis: AnswerAxis, starts: list[int]) -> tuple[str, ...]:
    ends = [*starts[1:], len(axis.labels)]
    return tuple(
        axis.labels[low] if high - low == 1 else f"{axis.labels[low]} to {axis.labels[high - 1]}"
        for low, high in zip(starts, ends, strict=True)
    )


Shape: TypeAlias = Literal["bars", "heat", "steps", "dots"]


def shape_of(answer: Released) -> Shape:
    """Bars for one attribute, a heat map for two, steps for running counts, dots in intervals for all else."""
    if answer.running > 0:
        return "steps"
    if answer.kind in ("histogram", "histogram2d") and len(answer.tables) == 1:
        axes = len(answer.tables[0].axes)
        return "bars" if axes == 1 else "heat" if axes == 2 else "dots"
    return "dots"


BAR = "#3b7ea1"
MARK = "#12394f"
BAND = "#a9cfe2"
INK = "#1f2933"
QUIET = "#5f6c7b"
GRID = "#e3e8ee"
PAPER = "#ffffff"

STOPS = ((253, 253, 244), (214, 233, 214), (147, 203, 194), (78, 160, 174), (38, 109, 146), (27, 58, 104), (17, 17, 58))
"""Light to dark at an even pace of lightness, so that it also reads in grey."""


def shade(part: float) -> str:
    """The colour for a part between 0 (light) and 1 (dark)."""
    place = min(max(part, 0.0), 1.0) * (len(STOPS) - 1)
    first = min(int(place), len(STOPS) - 2)
    rest = place - first
    mixed = (round(a + (b - a) * rest) for a, b in zip(STOPS[first], STOPS[first + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
