"""What an experiment finds: tables, pictures and a verdict on the paper's claim."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from blowfishdb.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | int | float | bool | None
Row = Mapping[str, Value]
Holds = Literal["yes", "no", "partly"]


@dataclass(frozen=True)
class Verdict:
    """The paper's claim, whether it holds in this run, and one sentence why."""

    claim: str
    holds: Holds
    why: str

    def __post_init__(self) -> None:
        if not self.claim or not self.why:
            raise InvalidInput("a verdict names the claim and says why it holds or not")


@dataclass(frozen=True)
class Table:
    """Rows with the same columns; `name` is the file's name without its ending."""

    name: str
    title: str
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise InvalidInput(f"table {self.name} has no rows")
        if any(tuple(row) != self.columns for row in self.rows):
            raise InvalidInput(f"the rows of table {self.name} have different columns")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the order of the rows."""
        return tuple(self.rows[0])

    def csv(self) -> str:
        """The table as a CSV document."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


@dataclass(frozen=True)
class Picture:
    """A figure to draw: `draw` gets an empty matplotlib figure of `size` inches; `trials` says what is behind it."""

    name: str
    title: str
    trials: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (7.2, 4.2)


@dataclass(frozen=True)
class Result:
    """All of it; names of tables and pictures are file names, each used once."""

    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    verdict: Verdict

    def __post_init__(self) -> None:
        for parts in (self.tables, self.pictures):
            names = [part.name for part in parts]
            if len(set(names)) < len(names):
                raise InvalidInput(f"a name is used twice: {', '.join(names)}")


def how_it_holds(parts: Sequence[bool]) -> Holds:
    """`yes` when every part of the claim holds, `no` when none does, else `partly`."""
    if all(parts):
        return "yes"
    return "partly" if any(parts) else "no"
