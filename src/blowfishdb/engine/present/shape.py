"""Which picture suits an answer, the same in every place that draws."""

from __future__ import annotations

from typing import Literal, TypeAlias

from blowfishdb.engine.released import Released

Shape: TypeAlias = Literal["bars", "heat", "steps", "dots"]


def shape_of(answer: Released) -> Shape:
    """Bars for one attribute, a heat map for two, steps for running counts, dots in intervals for all else."""
    if answer.running > 0:
        return "steps"
    if answer.kind in ("histogram", "histogram2d") and len(answer.tables) == 1:
        axes = len(answer.tables[0].axes)
        return "bars" if axes == 1 else "heat" if axes == 2 else "dots"
    return "dots"
