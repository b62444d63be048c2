"""What an analyst receives: the values of a release, and every way to look at them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from blowfishdb.engine.released import Released

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes
    from rich.console import RenderableType

    from blowfishdb.engine.present.interactive import Interactive


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Released):
    """The release of one question; packages that a view needs are imported when it is asked for."""

    def to_json(self, *, indent: int | None = None) -> str:
        """The whole answer, certificate included, as JSON that reads back exactly."""
        from blowfishdb.engine.present.stored import to_json

        return to_json(self, indent=indent)

    @staticmethod
    def from_json(text: str | bytes) -> Answer:
        """The answer that `to_json` wrote."""
        from blowfishdb.engine.present.stored import from_json

        return from_json(text, Answer)

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
