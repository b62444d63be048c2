"""The answer as one piece of SVG, with a name and a description."""

from __future__ import annotations

import hashlib

from blowfishdb.engine.present.charts import chart
from blowfishdb.engine.present.numbers import accuracy_words, digits_of, epsilon_words
from blowfishdb.engine.present.text import whose
from blowfishdb.engine.released import Released


def picture(answer: Released) -> str:
    """The answer as SVG."""
    drawn = hashlib.sha256(answer.title.encode() + answer.raw.tobytes()).hexdigest()
    frame, parts = chart(answer)
    return frame.sheet(f"bf{drawn[:10]}", answer.title, description(answer), *parts)


def description(answer: Released) -> str:
    """What the picture shows, for those who do not see it."""
    size = answer.raw.size
    said = f"{size:,} {'value' if size == 1 else 'values'}, epsilon {epsilon_words(answer.epsilon)}{whose(answer)}, "
    said += f"{accuracy_words(answer)}."
    if size == 0:
        return said
    place, digits = int(answer.values.argmax()), digits_of(answer)
    return f"{said} The largest is {digits.value(float(answer.values[place]))}. The values are in the table."
