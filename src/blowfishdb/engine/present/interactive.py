"""A picture with the values under the pointer: one piece of SVG without scripts, fonts or anything from a network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.present.charts import chart
from blowfishdb.engine.present.numbers import accuracy_words, digits_of, epsilon_words
from blowfishdb.engine.present.page import whole_page
from blowfishdb.engine.present.text import whose


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


def interactive(answer: Answer) -> Interactive:
    """The picture of an answer, and a page around it."""
    svg = picture(answer)
    return Interactive(svg, whole_page(answer, svg))


def picture(answer: Answer) -> str:
    """The answer as SVG."""
    drawn = hashlib.sha256(answer.title.encode() + answer.raw.tobytes()).hexdigest()
    frame, parts = chart(answer)
    return frame.sheet(f"bf{drawn[:10]}", answer.title, description(answer), *parts)


def description(answer: Answer) -> str:
    """What the picture shows, for those who do not see it."""
    size = answer.raw.size
    said = f"{size:,} {'value' if size == 1 else 'values'}, epsilon {epsilon_words(answer.epsilon)}{whose(answer)}, "
    said += f"{accuracy_words(answer)}."
    if size == 0:
        return said
    place, digits = int(answer.values.argmax()), digits_of(answer)
    return f"{said} The largest is {digits.value(float(answer.values[place]))}. The values are in the table."
