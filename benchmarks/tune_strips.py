"""Tunes the strips of `kronecker` for running counts on two short axes, and with --write puts them into `strips.json`.

No data: the error is a formula. A size begins with even hats, those of the blocks halfway between those of the strips:
where all lie one above the other, products of two axes, no small change helps. `ours` is the RMSE that was found,
`other` that of the best product of two axes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.harness import Row, Work
from benchmarks.hdmm import CELLS_PER_ROW, identity_error
from blowfishdb.mechanisms import kronecker
from blowfishdb.mechanisms.kronecker import StripAxis
from blowfishdb.model.numbers import Floats

SIZES = {32: 2, 48: 3, 64: 3}
"""How many hats there are on an axis of each size."""
STEPS = 150
LEAST = 1e-3
"""No cell has less than this of the loss."""
DIGITS = 3
SEEDS = range(5)


def run(data: Path | None) -> Iterator[Row]:
    """A row for each size."""
    del data
    yield from _rows(SIZES, write=False)


def run_with(arguments: Sequence[str]) -> Work:
    """With --write, what was found goes into the package."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tune-strips")
    parser.add_argument("--write", action="store_true", help="replace the table of the package")
    parser.add_argument("--size", type=int, choices=[*SIZES], action="append", help="only this size")
    options = parser.parse_args(arguments)
    return lambda _: _rows(options.size or SIZES, write=options.write)


def _rows(sizes: Sequence[int] | dict[int, int], *, write: bool) -> Iterator[Row]:
    file = Path(kronecker.__file__).with_name("strips.json")
    content = json.loads(file.read_text(encoding="utf-8")) if write and file.exists() else {}
    for cells in sizes:
        axis, total = tuned(cells, SIZES[cells])
        gram = prefix_gram(cells)
        product = min(identity_error(gram, max(1, cells // CELLS_PER_ROW), seed) for seed in SEEDS) ** 2
        ours, other = (float(np.sqrt(2 * error)) / cells for error in (total, product))
        yield Row(f"running counts, {cells} x {cells}", ours, other, ours / other)
        numbers = {"cells": axis.cells.tolist(), "strips": axis.strips.tolist(), "blocks": axis.blocks.tolist()}
        content[str(cells)] = numbers
    if write:
        lines = json.dumps(content, separators=(", ", ": ")).replace('], "', '],\n "').replace('}, "', '},\n"')
        file.write_text(lines + "\n", encoding="utf-8")


def prefix_gram(cells: int) -> Floats:
    """W'W of all running counts: entry (i, j) counts those over both cells."""
    place = np.arange(float(cells))
    return np.asarray(cells - np.maximum.outer(place, place))


def tuned(cells: int, hats: int) -> tuple[StripAxis, float]:
    """The shares that a search ends with, alike on both axes, and the summed variance up to the factor 2."""
    start = even(cells, hats)
    search = minimize(
        partial(log_error, cells=cells, hats=hats),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * start.size,
        options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-9},
    )
    best = np.floor(search.x * 10**DIGITS) / 10**DIGITS
    return _axis(best, cells, hats), float(np.exp(log_error(best, cells, hats)[0]))


def even(cells: int, hats: int) -> Floats:
    """Hats of one width, the blocks' from the first cell on and the strips' between them, lower towards the end."""
    place = (np.arange(cells) + 0.5) / cells
    falling = 0.5 * (1.0 - 0.8 * place)
    shapes = [
        falling * np.maximum(0.0, 1.0 - np.abs(hats * place[None, :] - (np.arange(hats) + shift)[:, None]))
        for shift in (0.5, 0.0)
    ]
    return np.concatenate([0.5 + 0.4 * place, *(shape.ravel() for shape in shapes)])


def _axis(numbers: Floats, cells: int, hats: int) -> StripAxis:
    single, beside, blocks = np.split(numbers, [cells, cells + hats * cells])
    return StripAxis(single, beside.reshape(hats, cells), blocks.reshape(hats, cells))


def log_error(numbers: Floats, cells: int, hats: int) -> tuple[float, Floats]:
    """The logarithm of the summed variance and its gradient; cells have what the rows leave of the loss.

    With rows H and shares d of the cells, X = diag(d^2) + H'H, the error is tr(G X^-1) and its slope by X is
    -M = -X^-1 G X^-1; all by way of (I + H diag(d^-2) H')^-1, as there are few rows.
    """
    axis, gram = _axis(numbers, cells, hats), prefix_gram(cells)
    rows = np.vstack([np.kron(first, second) for first, second in axis.products(axis)])
    alone = 1.0 - rows.sum(axis=0)
    if alone.min() <= LEAST:
        return 1e3, np.zeros(numbers.size)
    scaled = rows / alone**2
    solved = np.linalg.solve(np.eye(len(rows)) + scaled @ rows.T, scaled)
    seen = (gram @ solved.reshape(-1, cells, cells) @ gram).reshape(len(rows), -1)
    energies = np.kron(np.diag(gram), np.diag(gram))
    covered = np.einsum("ri,ri->i", rows, seen)
    total = float(np.sum((energies - covered) / alone**2))
    spread = seen / alone**2
    by_rows = spread - (spread @ rows.T) @ solved
    by_cells = (energies - 2 * covered + np.einsum("ri,ri->i", rows, (seen @ solved.T) @ rows)) / alone**3
    slopes = np.split(2 * (by_cells - by_rows) / total, [hats * cells, 2 * hats * cells])
    lying, standing = slopes[0].reshape(cells, hats, cells, cells), slopes[1].reshape(hats, cells, cells, cells)
    place = np.arange(cells)
    beside = lying[place, :, place, :] + standing[:, place, :, place]
    blocks = slopes[2].reshape(hats, hats, cells, cells)
    return float(np.log(total)), np.concatenate(
        [
            np.einsum("ikj,kj->i", beside, axis.strips),
            np.einsum("ikj,i->kj", beside, axis.cells).ravel(),
            (np.einsum("klab,lb->ka", blocks, axis.blocks) + np.einsum("klab,ka->lb", blocks, axis.blocks)).ravel(),
        ]
    )
