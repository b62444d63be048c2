"""The risk meter drawn: belief before against belief after, with the band that no release can leave."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from blowfishdb.engine.present.colours import BAND, GRID, INK, MARK, PAPER, QUIET
from blowfishdb.engine.present.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAMPLES = 201
SHOWN = (0.05, 0.5)
"""Priors whose posterior is written beside the curve."""


class Bound(Protocol):
    """What is drawn: a pair of values, how far apart they are, and where a belief can go."""

    @property
    def one(self) -> str: ...

    @property
    def two(self) -> str: ...

    @property
    def steps(self) -> int | None: ...

    @property
    def epsilon(self) -> Fraction: ...

    def posterior(self, prior: float) -> tuple[float, float]: ...


def plot(found: Bound, ax: Axes | None = None) -> Axes:
    """Draws the band on the given axes, or on new ones of pyplot."""
    if ax is None:
        pyplot = needed("matplotlib.pyplot", "plot")
        ax = pyplot.figure(figsize=(5.6, 5.2), layout="constrained").add_subplot()
    priors = np.linspace(0.0, 1.0, SAMPLES)
    ends = np.array([found.posterior(float(prior)) for prior in priors])
    ax.fill_between(priors, ends[:, 0], ends[:, 1], color=BAND, alpha=0.8, linewidth=0)
    ax.plot(priors, ends[:, 1], color=MARK, linewidth=1.6)
    ax.plot(priors, ends[:, 0], color=MARK, linewidth=1.0)
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, linestyle=(0, (4, 3)))
    if found.steps is not None:
        for prior in SHOWN:
            most = found.posterior(prior)[1]
            ax.plot([prior], [most], "o", color=MARK, markersize=4)
            ax.annotate(
                f"{100 * prior:.0f} % → at most {100 * most:.3g} %",
                (prior, most),
                xytext=(10, -12),
                textcoords="offset points",
                color=INK,
                fontsize=9,
                bbox={"facecolor": PAPER, "alpha": 0.75, "linewidth": 0, "pad": 1.5},
            )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(needed("matplotlib.ticker", "plot").PercentFormatter(1.0, 0, " %"))
    ax.set_aspect("equal")
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_xlabel(f"belief in {found.one} before")
    ax.set_ylabel("belief after")
    ax.set_title(_title(found), loc="left", color=INK, fontsize=10)
    return ax


def _title(found: Bound) -> str:
    pair = f"{found.one} or {found.two}?"
    if found.steps is None:
        return f"{pair}  not hidden: anything can be learned"
    return f"{pair}  {found.steps} step{'s' if found.steps != 1 else ''} apart, epsilon {float(found.epsilon):.4g}"
