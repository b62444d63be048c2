"""What an analyst receives: answers with their intervals, the certificate, and every way to look at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from importlib import metadata
from os import PathLike
from typing import TYPE_CHECKING, get_args

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer_bounds import Bounds, around, of_counts, of_running_counts
from blowfishdb.engine.answer_table import AnswerTable
from blowfishdb.errors import InvalidInput
from blowfishdb.inference.consistent import Consistent
from blowfishdb.model.arrays import Floats
from blowfishdb.model.query import Kind
from blowfishdb.plan.certificate import Certificate

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes
    from rich.console import RenderableType

    from blowfishdb.engine.present.interactive import Interactive

VALUE_NAMES = {"sum": "sum", "mean": "mean", "quantiles": "value"}
"""What the main column of an answer is called where it is not a count."""


def software_version() -> str:
    """The version of BlowfishDB that is running."""
    return metadata.version("blowfishdb")


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """The release of one question.

    `raw` is unbiased; every true answer lies within `widths.simultaneous` of it with probability 1 - beta, and each
    one within its own `widths.per_answer`. `consistent` lies inside the simultaneous box. Where an interval is not
    raw plus or minus a width (a quantile, a mean), `together` and `alone` give it.
    """

    kind: Kind
    title: str
    tables: tuple[AnswerTable, ...]
    raw: Floats
    consistent: Consistent
    widths: HalfWidths
    beta: float
    mechanism: str
    certificate: Certificate
    dataset: str = ""
    policy_version: int | None = None
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    released: str = ""
    version: str = field(default_factory=software_version)
    together: Bounds | None = None
    alone: Bounds | None = None

    def __post_init__(self) -> None:
        sizes = {
            "labels": sum(table.size for table in self.tables),
            "consistent answers": self.consistent.values.size,
            "half-widths": self.widths.per_answer.size,
        }
        for bounds in (self.together, self.alone):
            if bounds is not None:
                sizes |= {"low ends": bounds.low.size, "high ends": bounds.high.size}
        wrong = [f"{size} {what}" for what, size in sizes.items() if size != self.raw.size]
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"an answer is of a kind in {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.kind == "cdf" and [len(table.axes) for table in self.tables] != [1]:
            raise InvalidInput("running counts are one table along one attribute")
        if wrong:
            raise InvalidInput(f"an answer with {self.raw.size} values has {' and '.join(wrong)}")

    @property
    def epsilon(self) -> Fraction:
        """What the release costs."""
        return self.certificate.epsilon

    @property
    def values(self) -> Floats:
        """The answers to show: consistent ones where there are such, else the raw ones."""
        return self.consistent.values

    @property
    def is_counts(self) -> bool:
        """Whether the answers are counts of records, and so never below 0."""
        return self.kind not in VALUE_NAMES

    @property
    def value_name(self) -> str:
        """What the answers are: count, sum, mean or value."""
        return VALUE_NAMES.get(self.kind, "count")

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each answer, in order."""
        sets = [(table, len(self.tables) > 1) for table in self.tables]
        named = [
            " × ".join(f"{name} {part}" if several else part for name, part in zip(table.names, row, strict=True))
            for table, several in sets
            for row in table.rows()
        ]
        plain = self.running
        return tuple(f"up to {name}" if place < plain else name for place, name in enumerate(named))

    @property
    def running(self) -> int:
        """How many of the first answers are running counts."""
        return self.tables[0].axes[0].plain if self.kind == "cdf" else 0

    @cached_property
    def bounds(self) -> Bounds:
        """Intervals that hold for all answers together with probability 1 - beta."""
        if self.together is not None:
            return self.together
        found = around(self.raw, self.widths.simultaneous)
        return of_running_counts(of_counts(found), self.running) if self.is_counts else found

    @cached_property
    def own_bounds(self) -> Bounds:
        """Intervals that hold for each answer on its own with probability 1 - beta."""
        if self.alone is not None:
            return self.alone
        found = around(self.raw, self.widths.per_answer)
        return of_counts(found) if self.is_counts else found

    def to_json(self, *, indent: int | None = None) -> str:
        """The whole answer, certificate included, as JSON that reads back exactly."""
        from blowfishdb.engine.present.stored import to_json

        return to_json(self, indent=indent)

    @staticmethod
    def from_json(text: str | bytes) -> Answer:
        """The answer that `to_json` wrote."""
        from blowfishdb.engine.present.stored import from_json

        return from_json(text)

    def rows(self) -> list[dict[str, str | float | None]]:
        """One dictionary per answer: labels, value, low, high, raw, own_low, own_high."""
        from blowfishdb.engine.present.columns import rows

        return rows(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        from blowfishdb.engine.present.columns import to_pandas

        return to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars frame."""
        from blowfishdb.engine.present.columns import to_polars

        return to_polars(self)

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a pyarrow table."""
        from blowfishdb.engine.present.columns import to_arrow

        return to_arrow(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the answer with matplotlib, on the given axes or on new ones."""
        from blowfishdb.engine.present.plot import plot

        return plot(self, ax)

    def save_plot(self, path: str | PathLike[str], dpi: int = 160) -> None:
        """Writes the matplotlib picture to a file; the ending chooses the format."""
        from blowfishdb.engine.present.plot import save_plot

        save_plot(self, path, dpi)

    def interactive(self) -> Interactive:
        """A picture with values under the pointer, for notebooks and files; needs no network and no script."""
        from blowfishdb.engine.present.interactive import interactive

        return interactive(self)

    def terminal(self) -> RenderableType:
        """The plot for a terminal, to print with rich."""
        from blowfishdb.engine.present.terminal import drawing

        return drawing(self)

    def note(self) -> str:
        """The paragraph to paste under a figure."""
        from blowfishdb.engine.present.note import note

        return note(self)

    def __repr__(self) -> str:
        from blowfishdb.engine.present.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from blowfishdb.engine.present.page import fragment

        return fragment(self)
