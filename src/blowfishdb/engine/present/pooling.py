"""Fewer points to draw than there are answers: which ones, or sums of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.engine.answer_table import AnswerAxis, AnswerTable
from blowfishdb.model.arrays import Floats


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
