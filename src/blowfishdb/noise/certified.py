"""The noise that a certificate was computed for, and the watch that compares it with what the samplers draw.

A plan says which noise it carries, its loss is computed for that noise, and the samplers tell what they draw. A release
whose draws differ from the certified ones, in law, scale, number or order, or that draws more than its receipt paid
for, ends with NoiseMismatch and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blowfishdb.errors import NoiseMismatch

Ints: TypeAlias = NDArray[np.int64]
LawName = Literal["laplace", "geometric", "words", "quantiles", "level"]
"""Two-sided and one-sided noise, uniform words, a choice of quantiles, and a choice between two published levels."""


@dataclass(frozen=True, eq=False)
class Noise:
    """Independent variables of one law: variable i has scale unit / weights[i], or unit / weights where all have one.

    Words have `weights` bits each, at unit 1. A choice of quantiles has penalties over `unit` and `size` levels. A
    level has the units of the published levels `beside` it, the finer one first, None where that is the data itself.
    """

    law: LawName
    unit: Fraction
    weights: Ints | int
    size: int
    beside: tuple[Fraction | None, ...] = ()

    def is_like(self, other: Noise) -> bool:
        """Whether both have the same law, scales and number of variables."""
        mine, theirs = ((one.law, one.unit, one.size, one.beside) for one in (self, other))
        if mine != theirs:
            return False
        if isinstance(self.weights, int) and isinstance(other.weights, int):
            return self.weights == other.weights
        return bool(np.all(np.asarray(self.weights) == np.asarray(other.weights)))

    def __str__(self) -> str:
        weights = np.asarray(self.weights)
        shown = "" if weights.size == 0 else f" over {weights.min()} to {weights.max()}"
        return f"{self.size} of {self.law}, unit {self.unit}{shown}"


def noise_between(finer: Fraction | None, unit: Fraction, coarser: Fraction | None, weights: Ints) -> tuple[Noise, ...]:
    """The noise of a level that is drawn given published levels beside it (docs/proofs/sharing.md).

    From a finer level alone, noise of the new one is added to some numbers. Before a coarser level, a number lies
    beyond one of its neighbours by noise of the sum of the rates, or between them by noise of their difference.
    """
    choice = Noise("level", unit, weights, weights.size, (finer, coarser))
    if coarser is None:
        return choice, Noise("laplace", unit, weights, weights.size)
    rates = 1 / unit + 1 / coarser, 1 / unit - 1 / coarser
    return choice, *(Noise("geometric", 1 / rate, weights, weights.size) for rate in rates)


@dataclass(eq=False)
class NoiseWatch:
    """What was drawn since the watch began, and the loss of all that was certified in it; None allows any loss."""

    paid: Fraction | None = None
    drawn: list[Noise] = field(default_factory=list)
    loss: Fraction = Fraction(0)


_open: ContextVar[NoiseWatch | None] = ContextVar("blowfishdb_noise_watch", default=None)


def tell(noise: Noise) -> None:
    """Called by the samplers with what they draw, as near to the random bits as its law is known."""
    watch = _open.get()
    if watch is not None:
        watch.drawn.append(noise)


@contextmanager
def watched(paid: Fraction | None) -> Iterator[None]:
    """The making of one release: NoiseMismatch where it draws noise that nothing certifies, or loses more than is paid.

    With None any number of certified draws is allowed, apart from the release around it.
    """
    with _watching(NoiseWatch(paid)) as watch:
        yield
        if watch.drawn:
            raise NoiseMismatch(f"noise was drawn that no certificate covers: {watch.drawn[0]}")


@contextmanager
def certified(noise: Sequence[Noise], loss: Fraction) -> Iterator[None]:
    """One certified draw: NoiseMismatch unless exactly this noise is drawn meanwhile, and its loss is paid for."""
    around = _open.get()
    if around is not None:
        around.loss += loss
        if around.paid is not None and around.loss > around.paid:
            raise NoiseMismatch(f"draws that lose {around.loss} were asked of a receipt over {around.paid}")
    with _watching(NoiseWatch()) as watch:
        yield
        pairs = zip(watch.drawn, noise, strict=False)
        if len(watch.drawn) != len(noise) or not all(one.is_like(other) for one, other in pairs):
            asked, drawn = ("; ".join(map(str, many)) or "nothing" for many in (noise[:4], watch.drawn[:4]))
            raise NoiseMismatch(f"the certificate is for {asked}; what was drawn is {drawn}")


@contextmanager
def _watching(watch: NoiseWatch) -> Iterator[NoiseWatch]:
    token = _open.set(watch)
    try:
        yield watch
    finally:
        _open.reset(token)
