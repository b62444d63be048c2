"""Noise on tape: every draw of the engine is recorded with the scale it was asked for, and can be played again.

The tape stands where the engine calls the sampler, wherever in the package that is; what is drawn is the sampler's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from blowfishdb.model.numbers import Ints
from blowfishdb.noise import sampler

Law = Literal["laplace", "geometric", "words"]
Function = Callable[..., object]


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of the sampler: what was asked for, and what came."""

    law: Law
    unit: Fraction
    weights: Ints
    values: Ints

    @property
    def variables(self) -> tuple[Law, Fraction, bytes]:
        """The law, the unit and the weights of the variables."""
        return self.law, self.unit, self.weights.tobytes()

    def loss(self, shift: Ints) -> Fraction:
        """The loss of values further out by `shift`: the sum of |shift| over the scale."""
        whole = sum(abs(int(s)) * int(w) for s, w in zip(shift, self.weights, strict=True) if s)
        return Fraction(whole) / self.unit


class TapeError(Exception):
    """The engine asked for other noise than what is on the tape."""


@dataclass
class Tape:
    """Draws for real, or plays what it is given; keeps what was asked for and delivered."""

    recorded: list[Draw] = field(default_factory=list)
    queue: list[Ints] | None = None

    def play(self, values: list[Ints]) -> None:
        """From now on these values are delivered, in order."""
        self.queue = list(values)

    def draw_for_real(self) -> None:
        """From now on the sampler itself is asked."""
        self.queue = None

    def take(self) -> list[Draw]:
        """The draws recorded since the last time."""
        draws, self.recorded = self.recorded, []
        return draws

    def draw(self, function: str, *given: Any) -> Ints:
        """Stands for a function of the sampler."""
        if function == "sample_words":
            size, bits = given
            unit, weights = Fraction(1), np.full(size, bits, dtype=np.int64)
        else:
            unit, weights = given[0], _spread(*given[1:])
        if self.queue is None:
            values = REAL[function](*given)
        elif not self.queue:
            values = np.zeros(weights.size, dtype=np.int64)
        else:
            values = self.queue.pop(0)
        if values.shape != weights.shape:
            raise TapeError(f"{weights.size} variables were asked for where the tape has {values.size}")
        self.recorded.append(Draw(LAWS[function], unit, weights, values))
        return values.copy()


LAWS: dict[str, Law] = {"sample": "laplace", "sample_geometric": "geometric", "sample_words": "words"}
REAL: dict[str, Callable[..., Ints]] = {
    "sample": sampler.sample,
    "sample_geometric": sampler.sample_geometric,
    "sample_words": sampler.sample_words,
}


def _spread(weights: Ints | int, size: int | None = None) -> Ints:
    column = np.asarray(weights, dtype=np.int64).reshape(-1)
    return column.copy() if size is None else np.broadcast_to(column, (size,)).copy()


@contextmanager
def replaced(substitutes: dict[Function, Function]) -> Iterator[None]:
    """Puts substitutes in place of functions in every module of the package that holds them by name.

    They serve this thread alone: what other threads of the process release has noise of its own.
    """
    wanted = {id(original): _in_this_thread(original, substitute) for original, substitute in substitutes.items()}
    changed: list[tuple[ModuleType, str, Function]] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("blowfishdb.") or name.startswith("blowfishdb.audit"):
            continue
        for key, value in list(vars(module).items()):
            if id(value) in wanted:
                changed.append((module, key, value))
                setattr(module, key, wanted[id(value)])
    try:
        yield
    finally:
        for module, key, value in changed:
            setattr(module, key, value)


def _in_this_thread(original: Function, substitute: Function) -> Function:
    """The substitute for the thread that asks for it now, the original for all others."""
    owner = threading.get_ident()

    def either(*given: object) -> object:
        return substitute(*given) if threading.get_ident() == owner else original(*given)

    return either


@contextmanager
def taped() -> Iterator[Tape]:
    """A tape between the sampler and everything that draws noise."""
    tape = Tape()
    with replaced({real: partial(tape.draw, name) for name, real in REAL.items()}):
        yield tape
