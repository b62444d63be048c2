"""How large a run is, which data it reads, and the seed of its workloads and stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from blowfishdb.errors import InvalidInput

Size = Literal["tiny", "quick", "full"]
"""`quick` shows every effect within minutes, `full` repeats the papers' numbers of trials, `tiny` tests the code."""

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Everything that decides what an experiment computes, but for the noise, which has no seed."""

    size: Size = "full"
    data: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data is not None and not self.data.is_dir():
            raise InvalidInput(f"{self.data} is no folder; --data names the one that holds the histograms")
        if self.seed < 0:
            raise InvalidInput("a seed is 0 or more")

    def pick(self, tiny: T, quick: T, full: T) -> T:
        """The one of three values that belongs to the size of this run."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.size]
