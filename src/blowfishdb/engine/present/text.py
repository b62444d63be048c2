"""The answer as lines of plain text, for a Python prompt."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.engine.present.numbers import accuracy_words, digits_of, epsilon_words, printable
from blowfishdb.engine.released import Released

ROWS = 12
"""An answer with more rows shows its first and last ones."""
LONGEST_LABEL = 40


def heading(answer: Released) -> str:
    """One line: what was asked, what it cost of which data, and how near the truth it is."""
    parts = [answer.title, f"epsilon {epsilon_words(answer.epsilon)}{whose(answer)}", accuracy_words(answer)]
    return "   ".join(printable(part) for part in parts)


def whose(answer: Released) -> str:
    """Of which data and under which policy, where that is known: " of visits (policy v2)"."""
    version = f" (policy v{answer.policy_version})" if answer.policy_version is not None else ""
    return f" of {answer.dataset}{version}" if answer.dataset else version


def shown_rows(size: int, most: int = ROWS) -> tuple[range, range]:
    """The first and the last rows to show; the second is empty when everything fits."""
    if size <= most:
        return range(size), range(0)
    return range(most // 2), range(size - most // 2, size)


def cells(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """Label, value, low and high of the given answers, as text."""
    labels, digits = row_labels(answer, places), digits_of(answer)
    return [
        [
            *label,
            digits.value(float(answer.values[place])),
            digits.low(float(answer.bounds.low[place])),
            digits.high(float(answer.bounds.high[place])),
        ]
        for label, place in zip(labels, places, strict=True)
    ]


def row_labels(answer: Released, places: Sequence[int]) -> list[list[str]]:
    """The labels of the given answers, one per column of the heading."""
    names = column_names(answer)
    found = []
    for place in places:
        for table in answer.tables:
            if place < table.size:
                own = dict(zip(table.names, table.row(place), strict=True))
                found.append([shortened(own.get(name, "")) for name in names])
                break
            place -= table.size
    return found


def column_names(answer: Released) -> list[str]:
    """The attributes of the answer, in order."""
    return list(dict.fromkeys(name for table in answer.tables for name in table.names))


def shortened(label: str, most: int = LONGEST_LABEL) -> str:
    """The label, safe to print and not too long; both its ends are kept, since labels often differ in the last."""
    safe = printable(label)
    tail = most // 3
    return safe if len(safe) <= most else f"{safe[: most - 1 - tail]}…{safe[-tail:]}"


def as_text(answer: Released) -> str:
    """The heading and a small table, like a data frame's."""
    first, last = shown_rows(answer.raw.size)
    lines = [[*map(shortened, column_names(answer)), answer.value_name, "low", "high"], *cells(answer, first)]
    if last:
        lines += [["..."] + [""] * (len(lines[0]) - 1), *cells(answer, last)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    body = ["  " + "  ".join(part.rjust(width) for part, width in zip(line, widths, strict=True)) for line in lines]
    tail = [f"  {answer.raw.size:,} rows"] if last else []
    remarks = [f"  {printable(said)}" for said in (answer.consistent.note, answer.caveat) if said]
    return "\n".join([heading(answer), *(line.rstrip() for line in body), *tail, *remarks])
