"""The sheet an interactive picture is drawn on: margins, axes, and words that appear under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blowfishdb.engine.present.colours import GRID, INK, PAPER, QUIET
from blowfishdb.engine.present.pooling import regular
from blowfishdb.engine.present.svg import element, round_ticks, words
from blowfishdb.engine.present.text import shortened

LETTER = 6.6
"""About the width of a letter, in pixels."""
NAME = 16
TILTED = 32
"""Up to so many names are tilted rather than left out."""


@dataclass(frozen=True)
class Frame:
    """A sheet of the given size in pixels, with room for axes around the plot."""

    width: float = 720.0
    height: float = 340.0
    left: float = 72.0
    right: float = 16.0
    top: float = 14.0
    bottom: float = 58.0

    @property
    def across(self) -> float:
        """The width of the plot itself."""
        return self.width - self.left - self.right

    @property
    def down(self) -> float:
        """The height of the plot itself."""
        return self.height - self.top - self.bottom

    @property
    def floor(self) -> float:
        """Where the plot ends below."""
        return self.height - self.bottom

    def tip(self, area: tuple[float, float, float, float], lines: Sequence[str]) -> str:
        """An area (x, y, width, height) that shows a few words while the pointer is over it."""
        x, y, wide, high = area
        shown = [shortened(line, 60) for line in lines]
        box = LETTER * max(map(len, shown)) + 16.0
        tall = 17.0 * len(shown) + 8.0
        at = min(max(x + wide / 2 - box / 2, 2.0), self.width - box - 2.0)
        above = min(max(y - tall - 6.0, 2.0), self.height - tall - 2.0)
        spans = [
            element(
                "text", {"x": at + 8.0, "y": above + 16.0 + 17.0 * row, "class": "b" if row == 0 else "t"}, words(line)
            )
            for row, line in enumerate(shown)
        ]
        back = element("rect", {"x": at, "y": above, "width": box, "height": tall, "rx": 4, "class": "k"})
        target = element("rect", {"x": x, "y": y, "width": wide, "height": high, "class": "a"})
        return element("g", {"class": "h"}, target, element("g", {"class": "w"}, back, *spans))

    def height_axis(self, low: float, high: float, name: str) -> str:
        """Lines across the plot at round values, with the values on the left."""
        parts = []
        for tick in round_ticks(low, high):
            y = self.floor - self.down * (tick - low) / (high - low)
            line = {"x1": self.left, "x2": self.width - self.right, "y1": y, "y2": y, "stroke": GRID}
            parts.append(element("line", line))
            parts.append(label(self.left - 7.0, y + 4.0, f"{tick:,.10g}", "end"))
        middle = self.top + self.down / 2
        turned = {
            "transform": f"rotate(-90 14 {middle:.1f})",
            "x": 14,
            "y": middle,
            "text-anchor": "middle",
            "class": "q",
        }
        return "".join(parts) + element("text", turned, words(name))

    def with_room_for(self, labels: Sequence[str]) -> Frame:
        """The same sheet, taller where names have to be tilted."""
        more = 0.6 * LETTER * self._longest(labels) if self._tilts(labels) else 0.0
        return replace(self, height=self.height + more, bottom=self.bottom + more)

    def _longest(self, labels: Sequence[str]) -> int:
        return min(max((len(text) for text in labels), default=1), NAME)

    def _fit(self, labels: Sequence[str]) -> int:
        """How many names fit side by side."""
        return max(int(self.across / (LETTER * self._longest(labels) + 10.0)), 2)

    def _tilts(self, labels: Sequence[str]) -> bool:
        """Whether the names do not fit side by side, but are few enough to stand tilted."""
        return self._fit(labels) < len(labels) <= TILTED

    def name_axis(self, labels: Sequence[str], name: str) -> str:
        """Names below the plot, as many as fit, and the attribute's name below them."""
        tilts = self._tilts(labels)
        parts = []
        for place in regular(labels, len(labels) if tilts else self._fit(labels)):
            x, y = self.left + self.across * (place + 0.5) / len(labels), self.floor + 18.0
            about: dict[str, object] = {"x": x, "y": y, "text-anchor": "middle"}
            if tilts:
                x, y = x + 4.0, y - 4.0
                about = {"x": x, "y": y, "text-anchor": "end", "transform": f"rotate(-38 {x:.1f} {y:.1f})"}
            parts.append(element("text", about, words(shortened(labels[place], NAME))))
        return "".join(parts) + self._below(name)

    def number_axis(self, low: float, high: float, name: str) -> str:
        """Round numbers below the plot, and the attribute's name below them."""
        parts = [
            label(self.left + self.across * (tick - low) / (high - low), self.floor + 18.0, f"{tick:,.10g}", "middle")
            for tick in round_ticks(low, high, 8)
        ]
        return "".join(parts) + self._below(name)

    def _below(self, name: str) -> str:
        line = {"x1": self.left, "x2": self.width - self.right, "y1": self.floor, "y2": self.floor, "stroke": QUIET}
        middle = {"x": self.left + self.across / 2, "y": self.height - 16.0, "text-anchor": "middle", "class": "q"}
        return element("line", line) + element("text", middle, words(shortened(name)))

    def sheet(self, mark: str, title: str, description: str, *parts: str) -> str:
        """The whole picture, with a title and a description for those who do not see it."""
        own = f"#{mark}"
        style = (
            f"{own} text{{font:12px system-ui,sans-serif;fill:{INK}}}{own} .q{{fill:{QUIET}}}"
            f"{own} .a{{fill:transparent}}{own} .h:hover .a{{fill:{INK};fill-opacity:.08}}"
            f"{own} .w{{visibility:hidden;pointer-events:none}}{own} .h:hover .w{{visibility:visible}}"
            f"{own} .k{{fill:{INK};fill-opacity:.94}}{own} .w text{{fill:{PAPER}}}{own} .b{{font-weight:600}}"
        )
        # In a group of their own the words name the picture without popping up over it.
        title_words = element("title", {"id": f"{mark}-t"}, words(title))
        head = element("g", {}, title_words, element("desc", {"id": f"{mark}-d"}, words(description)))
        paper = element("rect", {"width": self.width, "height": self.height, "fill": PAPER})
        about = {
            "xmlns": "http://www.w3.org/2000/svg",
            "id": mark,
            "viewBox": f"0 0 {self.width:.0f} {self.height:.0f}",
            "width": "100%",
            "style": f"max-width:{self.width:.0f}px;height:auto;display:block",
            "role": "img",
            "aria-labelledby": f"{mark}-t {mark}-d",
        }
        return element("svg", about, head, f"<style>{style}</style>", paper, *parts)


def label(x: float, y: float, text: str, anchor: str) -> str:
    """A few words at a place."""
    return element("text", {"x": x, "y": y, "text-anchor": anchor}, words(text))
