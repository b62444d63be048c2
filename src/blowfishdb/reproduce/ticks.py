"""Plain numbers on logarithmic axes that span few powers of ten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINE, COARSE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0)


def simple_ticks(axes: Axes, steps: tuple[float, ...] = FINE) -> None:
    """Ticks of the vertical axis at these steps of each power of ten, written without powers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
