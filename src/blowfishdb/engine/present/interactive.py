"""A picture with the values under the pointer: one piece of SVG without scripts, fonts or anything from a network."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from blowfishdb.engine.present.page import whole_page
from blowfishdb.engine.present.picture import picture
from blowfishdb.engine.released import Released


@dataclass(frozen=True)
class Interactive:
    """A picture that notebooks show and that can be saved as a page of its own."""

    svg: str
    page: str

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a page with the picture, the note and all values as a table."""
        Path(path).write_text(self.page, encoding="utf-8")


def interactive(answer: Released) -> Interactive:
    """The picture of an answer, and a page around it."""
    svg = picture(answer)
    return Interactive(svg, whole_page(answer, svg))
