"""Tunes the rows of `optimized` for running counts and all ranges; --write puts them into `hats.json`, `lines.json`.

No data: the error of a strategy is a formula, and its gradient by knots and heights takes (cells x hats) steps. A size
begins with the numbers of the size before it and with even hats, and counts of hats are changed while that helps.
At two sizes a search over all entries of the rows follows, from the hats on record and from even ones; what it ends
with is written as broken lines. --lines runs this part alone, and --cells one size of it; each table and size is
written when it is done, so that a run that was stopped goes on with the other size. `ours` is the RMSE that was found,
`other` the one on record.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.harness import Row, Work
from blowfishdb.mechanisms import hats
from blowfishdb.mechanisms.hats import CONTROLS, HatLevel
from blowfishdb.mechanisms.optimized import gram_dot
from blowfishdb.mechanisms.strategy import column_energies
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Prefix

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
FIRST = {"running counts, moves": 64, "all ranges, moves": 128}
"""Below these sizes cells alone, or even hats, are better."""
NUMBERS = 4 + 2 * CONTROLS
BOUNDS = [(-1.2, 1.2)] * 2 + [(-2.0, 2.0)] * CONTROLS + [(-3.0, 1.5)] * CONTROLS + [(-1.0, 1.0)] * 2
ROUGH = 2e-4
"""The price of differences between neighbouring widths and heights: it keeps them smooth."""
STEP = 1e-6
FEW, MANY = 40, 120
FACTORS = ((0.83, 1.2), (0.92, 1.08))
LINES = {
    ("running counts, presence", 256): (17, 1),
    ("running counts, presence", 1024): (60, 4),
    ("all ranges, presence", 256): (13,),
    ("all ranges, presence", 1024): (85, 6),
}
"""The tables and sizes of broken lines, and how many even hats of each level their second start has."""
FREE_STEPS = 3000
PIECES = 16
"""A row is a broken line of so many pieces."""
FLAT = 0.004
"""A row ends where it has less than this of the loss."""
STIFF = 0.05
"""The weight of bends where a line is fitted: short rows have fewer cells than pieces."""
Knots = tuple[Floats, Floats]


@dataclass(frozen=True)
class Task:
    """One table at one size."""

    table: str
    cells: int

    @property
    def workload(self) -> Prefix | AllRanges:
        return Prefix(self.cells) if self.table.startswith("running") else AllRanges(self.cells)

    @property
    def is_free(self) -> bool:
        """Whether the total is known: records move, and none comes or goes."""
        return self.table.endswith("moves")

    def rmse(self, total: float) -> float:
        return float(np.sqrt(2 * total / self.workload.shape[0]))


@dataclass(frozen=True, eq=False)
class Fit:
    """Counts of hats by level, the finest first, their numbers, and the RMSE."""

    counts: tuple[int, ...]
    numbers: Floats
    rmse: float


def run(data: Path | None) -> Iterator[Row]:
    """A row for each table and size."""
    del data
    yield from _rows(write=False)
    yield from _line_rows([cells for _, cells in LINES], write=False)


def run_with(arguments: Sequence[str]) -> Work:
    """With --write, what was found goes into the package."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tune-hats")
    parser.add_argument("--write", action="store_true", help="replace the tables of the package")
    parser.add_argument("--lines", action="store_true", help="only the broken lines, from the hats on record")
    sizes = sorted({cells for _, cells in LINES})
    parser.add_argument("--cells", type=int, choices=sizes, help="with --lines, one size alone")
    options = parser.parse_args(arguments)
    if options.cells is not None and not options.lines:
        parser.error("--cells goes with --lines")

    def work(_: Path | None) -> Iterator[Row]:
        if not options.lines:
            yield from _rows(write=options.write)
            hats._tables.cache_clear()
        yield from _line_rows(sizes if options.cells is None else [options.cells], write=options.write)

    return work


def _rows(*, write: bool) -> Iterator[Row]:
    recorded = hats._tables()
    found: dict[str, dict[int, Fit]] = {table: {} for table in recorded}
    for table, fits in found.items():
        before: dict[int, Floats] = {}
        for cells in (size for size in SIZES if size >= FIRST.get(table, 0)):
            fits[cells] = tuned(Task(table, cells), before)
            other = recorded[table][cells].rmse
            yield Row(f"{table}, n={cells}", fits[cells].rmse, other, fits[cells].rmse / other)
    if write:
        content = {t: {str(n): _entry(fit) for n, fit in fits.items()} for t, fits in found.items()}
        Path(hats.__file__).with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _line_rows(sizes: Sequence[int], *, write: bool) -> Iterator[Row]:
    recorded, content = hats._lines(), hats._read("lines.json")
    for (table, cells), counts in LINES.items():
        if cells not in sizes:
            continue
        task = Task(table, cells)
        alone, rows = hats._tables()[table][cells].shares(cells)
        starts = [rows.toarray() / alone, np.vstack([even_hats(cells, count) for count in counts])]
        total, best = min((freed(task, start) for start in starts), key=lambda each: each[0])
        rmse, other = task.rmse(total), recorded[table][cells].rmse if cells in recorded.get(table, {}) else None
        content.setdefault(table, {})[str(cells)] = {"rmse": round(rmse, 4), "lines": broken_lines(best)}
        if write:
            text = json.dumps(content, separators=(",", ":")).replace("],[", "],\n[").replace('{"rmse"', '\n{"rmse"')
            Path(hats.__file__).with_name("lines.json").write_text(text + "\n", encoding="utf-8")
        yield Row(f"{table}, n={cells}, lines", rmse, other, None if other is None else rmse / other)


def broken_lines(rows: Floats) -> list[list[float]]:
    """Each row as a broken line of its shares of the loss, where every cell has a row of its own with the entry 1."""
    return [_line(row) for row in rows / (1.0 + rows.sum(axis=0))]


def freed(task: Task, start: Floats) -> tuple[float, Floats]:
    """The summed variance up to the factor 2 of the rows that a search over all their entries ends with, and these."""

    def log_total(entries: Floats) -> tuple[float, Floats]:
        matrix = entries.reshape(start.shape)
        sums = 1.0 + matrix.sum(axis=0)
        inverse = np.linalg.inv(np.eye(len(matrix)) + matrix @ matrix.T)
        seen = (sums[:, None] * gram_dot(task.workload, (sums * matrix).T)).T
        solved, first = inverse @ matrix, inverse @ seen
        spread = energies * sums**2 - np.einsum("ij,ij->j", solved, seen)
        total = float(spread.sum())
        slope = -2 * (first - (first @ matrix.T) @ solved) + 2 * spread / sums
        return float(np.log(total)), slope.ravel() / total

    energies = column_energies(task.workload)
    options = {"maxiter": FREE_STEPS, "maxfun": 2 * FREE_STEPS, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-9}
    search = minimize(
        log_total, start.ravel(), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * start.size, options=options
    )
    return float(np.exp(search.fun)), search.x.reshape(start.shape)


def even_hats(cells: int, count: int) -> Floats:
    """Hats of one width, the outermost reaching a third of it beyond the axis."""
    knots = np.linspace(-0.3 * cells / count, cells * (1 + 0.3 / count), count + 2)
    middle = np.arange(cells) + 0.5
    return np.asarray(0.9 * np.maximum(0.0, 1.0 - np.abs(middle - knots[1:-1, None]) / (knots[1] - knots[0])))


def _line(shares: Floats) -> list[float]:
    """Where a row begins and ends, and its nearest broken line between; it begins and ends at 0 inside the axis."""
    cells, top = shares.size, int(np.argmax(shares))
    low = np.flatnonzero(shares < FLAT)
    before, after = low[low < top], low[low > top]
    first = before[-1] + 0.5 if before.size else 0.0
    last = after[0] + 0.5 if after.size else float(cells)
    middle = np.arange(cells) + 0.5
    inside = (middle > first) & (middle < last)
    place = (middle[inside] - first) / (last - first) * PIECES
    hill = np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(PIECES + 1)))
    bends = STIFF * np.diff(np.eye(PIECES + 1), 2, axis=0)
    is_free = np.ones(PIECES + 1, dtype=np.bool_)
    is_free[0], is_free[-1] = not before.size, not after.size
    wanted = np.concatenate([shares[inside], np.zeros(len(bends))])
    values = np.zeros(PIECES + 1)
    values[is_free] = np.linalg.lstsq(np.vstack([hill, bends])[:, is_free], wanted, rcond=None)[0]
    return [float(first), float(last), *np.round(np.maximum(values, 0.0), 3).tolist()]


def _entry(fit: Fit) -> dict[str, object]:
    split = np.split(fit.numbers, len(fit.counts))
    levels = [[count, *np.round(part, 2).tolist()] for count, part in zip(fit.counts, split, strict=True)]
    return {"rmse": round(fit.rmse, 4), "levels": levels}


def tuned(task: Task, before: dict[int, Floats]) -> Fit:
    """The best of one, two and three levels of hats; `before` has numbers for so many levels to begin with."""
    guesses = [(max(1, task.cells // 19),), (max(4, task.cells // 14), max(1, task.cells // 200))]
    if task.cells > 1024:
        guesses = [guesses[1], (task.cells // 14, task.cells // 100, max(1, task.cells // 1000))]
    fits = []
    for counts in guesses:
        starts = [_even(counts), *([before[len(counts)]] if len(counts) in before else [])]
        best = min((fitted(task, counts, start, FEW) for start in starts), key=lambda fit: fit.rmse)
        for factors in FACTORS:
            for level, factor in ((level, factor) for level in range(len(counts)) for factor in factors):
                changed = list(best.counts)
                changed[level] = max(1, round(changed[level] * factor))
                if tuple(changed) != best.counts and all(fine >= wide for fine, wide in pairwise(changed)):
                    best = min(best, fitted(task, tuple(changed), best.numbers, FEW), key=lambda fit: fit.rmse)
        fits.append(fitted(task, best.counts, best.numbers, MANY))
        before[len(counts)] = fits[-1].numbers
    return min(fits, key=lambda fit: fit.rmse)


def _even(counts: Sequence[int]) -> Floats:
    level = np.concatenate([[0.3, 0.3], np.zeros(CONTROLS), np.full(CONTROLS, np.log(0.9)), [-0.1, 0.0]])
    return np.tile(level, len(counts))


def fitted(task: Task, counts: tuple[int, ...], start: Floats, steps: int) -> Fit:
    """The numbers that a search from the start ends with."""
    arguments = (task, counts)
    bounds = BOUNDS * len(counts)
    search = minimize(log_error, start, arguments, "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": steps})
    return Fit(counts, search.x, task.rmse(total_error(task, knots_of(task, counts, search.x))[0]))


def log_error(numbers: Floats, task: Task, counts: tuple[int, ...]) -> tuple[float, Floats]:
    """The logarithm of the error and the price of roughness, with the gradient by the numbers."""
    here = knots_of(task, counts, numbers)
    total, slopes = total_error(task, here)
    gradient = np.empty(numbers.size)
    for place in range(numbers.size):
        moved = numbers.copy()
        moved[place] += STEP
        there = knots_of(task, counts, moved)
        gradient[place] = sum(
            float(slope @ (new - old))
            for level, before, after in zip(slopes, here, there, strict=True)
            for slope, old, new in zip(level, before, after, strict=True)
        )
    rough, rough_slope = _roughness(numbers)
    return float(np.log(total)) + rough, gradient / STEP / total + rough_slope


def _roughness(numbers: Floats) -> tuple[float, Floats]:
    parts = numbers.reshape(-1, NUMBERS)[:, 2:-2].reshape(-1, CONTROLS)
    steps = np.diff(parts, axis=1)
    slope = np.zeros(numbers.size).reshape(-1, NUMBERS)
    each = np.zeros(parts.shape)
    each[:, 1:] += steps
    each[:, :-1] -= steps
    slope[:, 2:-2] = 2 * ROUGH * each.reshape(-1, 2 * CONTROLS)
    return ROUGH * float(np.sum(steps**2)), slope.ravel()


def knots_of(task: Task, counts: Sequence[int], numbers: Floats) -> list[Knots]:
    """The knots and heights of each level, the finest first."""
    levels: list[Knots] = []
    for count, part in list(zip(counts, np.split(numbers, len(counts)), strict=True))[::-1]:
        level = HatLevel.of([count, *part])
        levels.append(level.knots(task.cells, levels[-1][0] if levels else None))
    return levels[::-1]


def total_error(task: Task, levels: Sequence[Knots]) -> tuple[float, list[Knots]]:
    """The summed variance up to the factor 2, and its slopes by the knots and the heights of each level.

    With hats B over cells, columns divided by their sums s, M = diag(s) W'W diag(s) and K = (I + BB')^-1, it is
    tr(M Y) with Y = I - B'KB; a known total takes MY s s'Y / (s'Y s) off. Hats have two entries a level in a column, so
    only those entries of the gradient are computed.
    """
    cells, pieces, first = task.cells, [], 0
    for knots, heights in levels:
        pieces += _pieces(knots, heights, cells, first)
        first += heights.size
    matrix = np.zeros((first, cells))
    for piece in pieces:
        np.add.at(matrix, (piece.row, np.arange(cells)), piece.entry)
    sums = 1.0 + matrix.sum(axis=0)
    inverse = np.linalg.inv(np.eye(first) + matrix @ matrix.T)
    solved = inverse @ matrix
    seen = sums[:, None] * gram_dot(task.workload, sums[:, None] * matrix.T)
    spread = column_energies(task.workload) * sums**2 - np.einsum("ij,ji->i", seen, solved)
    total = float(spread.sum())
    middle = inverse @ (matrix @ seen) @ inverse
    by_sums = 2 * spread / sums
    takes: list[tuple[Floats, Floats]] = []
    if task.is_free:
        known = sums - matrix.T @ (solved @ sums)
        size = float(sums @ known)
        moved = sums * gram_dot(task.workload, (sums * known)[:, None])[:, 0]
        gone = float(known @ moved)
        total -= gone / size
        back = moved - matrix.T @ (solved @ moved)
        on_known = matrix @ known
        takes = [(on_known, back / size), (inverse @ (seen.T @ known) - on_known * gone / size, known / size)]
        by_sums = 2 * (spread - moved * known / size) / sums - 2 * back / size + 2 * gone * known / size**2
    slopes = []
    for piece in pieces:
        slope = np.einsum("jk,jk->j", inverse[piece.row], seen)
        slope -= sum(middle[piece.row, other.row] * other.entry for other in pieces)
        slope -= sum(rows[piece.row] * columns for rows, columns in takes)
        slopes.append(np.where(piece.is_hat, by_sums - 2 * slope, 0.0))
    return total, [
        _by_knots(knots, pieces[2 * level : 2 * level + 2], slopes[2 * level : 2 * level + 2])
        for level, (knots, _) in enumerate(levels)
    ]


@dataclass(frozen=True, eq=False)
class Piece:
    """The falling or the rising side of a level's hats: for each cell the row, its height and entry, and the place."""

    row: Ints
    height: Floats
    part: Floats
    is_hat: Floats
    gap: Ints
    hat: Ints

    @property
    def entry(self) -> Floats:
        return self.height * self.part


def _pieces(knots: Floats, heights: Floats, cells: int, first: int) -> list[Piece]:
    middle = np.arange(cells) + 0.5
    inside = (middle >= knots[0]) & (middle <= knots[-1])
    gap = np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, knots.size - 2)
    rising = (middle - knots[gap]) / (knots[gap + 1] - knots[gap])
    pieces = []
    for hat, part in ((gap - 1, 1.0 - rising), (gap, rising)):
        is_hat = inside & (hat >= 0) & (hat < heights.size)
        place = np.where(is_hat, hat, 0)
        pieces.append(Piece(first + place, np.where(is_hat, heights[place], 0.0), part, is_hat * 1.0, gap, place))
    return pieces


def _by_knots(knots: Floats, sides: Sequence[Piece], slopes: Sequence[Floats]) -> Knots:
    falling, rising = sides
    heights = sum(
        np.bincount(side.hat, slope * side.part * side.is_hat, knots.size - 2)
        for side, slope in zip(sides, slopes, strict=True)
    )
    change = (slopes[1] * rising.height - slopes[0] * falling.height) / np.diff(knots)[falling.gap]
    by_knots = np.asarray(-np.bincount(falling.gap, change * falling.part, knots.size), dtype=np.float64)
    by_knots -= np.bincount(falling.gap + 1, change * rising.part, knots.size)
    return by_knots, np.asarray(heights)
