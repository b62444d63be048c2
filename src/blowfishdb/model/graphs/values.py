"""Policy graphs on the declared values of one attribute, symbolic where a list would be too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blowfishdb.errors import PolicyError
from blowfishdb.model.arrays import Ints, as_ints
from blowfishdb.model.graphs.clock import ClockWindow
from blowfishdb.model.graphs.explicit import CliqueGraph, EdgeGraph
from blowfishdb.model.graphs.window import WindowGraph


@dataclass(frozen=True)
class StepWindow:
    """Value i is joined to i+1 .. i+step: public (0), line (1), threshold, full (size - 1)."""

    size: int
    step: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.step < 0:
            raise PolicyError("a window needs at least one value and a step that is not negative")
        object.__setattr__(self, "step", min(self.step, self.size - 1))

    def reach(self, index: Ints) -> Ints:
        return np.minimum(np.asarray(index) + self.step, self.size - 1)

    def distance(self, first: int, second: int) -> int | None:
        gap = abs(first - second)
        if gap and not self.step:
            return None
        return -(-gap // self.step) if gap else 0


@dataclass(frozen=True, eq=False)
class BlockWindow:
    """Values of one run are all joined to each other; `starts` are the first values of the runs."""

    size: int
    starts: Ints

    def __post_init__(self) -> None:
        starts = as_ints(self.starts)
        object.__setattr__(self, "starts", starts)
        if starts.size == 0 or starts[0] != 0 or np.any(np.diff(starts) <= 0) or starts[-1] >= self.size:
            raise PolicyError("blocks must begin at the first value, increase and lie within the attribute")

    def block(self, index: Ints) -> Ints:
        return np.searchsorted(self.starts, index, side="right") - 1

    def reach(self, index: Ints) -> Ints:
        ends = np.append(self.starts[1:], self.size) - 1
        return np.asarray(ends[self.block(index)], dtype=np.int64)

    def distance(self, first: int, second: int) -> int | None:
        one, two = self.block(np.array([first, second]))
        return int(first != second) if one == two else None


@dataclass(frozen=True, eq=False)
class ListedWindow:
    """Value i is joined to i+1 .. ends[i]; for bins of unequal width."""

    ends: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", WindowGraph(reach=self.ends, hubs=np.empty(0, dtype=np.int64)).reach)

    @property
    def size(self) -> int:
        return int(self.ends.size)

    def reach(self, index: Ints) -> Ints:
        return np.asarray(self.ends[index], dtype=np.int64)

    def distance(self, first: int, second: int) -> int | None:
        return WindowGraph(reach=self.ends, hubs=np.empty(0, dtype=np.int64)).distance(first, second)


ValueWindow: TypeAlias = StepWindow | BlockWindow | ListedWindow | ClockWindow
ValueGraph: TypeAlias = ValueWindow | CliqueGraph | EdgeGraph
WINDOWS = (StepWindow, BlockWindow, ListedWindow, ClockWindow)
