"""What one kind of fault did: a row of the table, its totals, and how it is shown to people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

HEADINGS = (
    ("fault", "fault kind"),
    ("store", "store"),
    ("runs", "runs"),
    ("faults", "faults injected"),
    ("over_spend", "over-spend"),
    ("unpaid_answers", "answers without charge"),
    ("untraced_charges", "charges without trace"),
    ("refused", "refused cleanly"),
    ("unclean", "not cleanly"),
)


@dataclass(frozen=True)
class Outcome:
    """One row. `runs` are releases asked, or damaged copies tried; `refused` are typed refusals, `unclean` all others.

    `unsettled` are releases that stayed without answer or refusal once the faults had stopped.
    """

    fault: str
    store: str
    runs: int
    faults: int
    over_spend: int = 0
    unpaid_answers: int = 0
    untraced_charges: int = 0
    refused: int = 0
    unclean: int = 0
    unsettled: int = 0
    is_verified: bool = True
    answers_seen: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, nothing was overspent, and whatever failed did so in a typed way."""
        wrong = self.over_spend + self.unpaid_answers + self.untraced_charges + self.unclean + self.unsettled
        return wrong == 0 and self.is_verified and self.faults > 0


def table(rows: Iterable[Outcome]) -> str:
    """The rows as a Markdown table, the notes of bad ones below."""
    rows = list(rows)
    lines = ["| " + " | ".join(title for _, title in HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for row in rows:
        lines.append("| " + " | ".join(str(getattr(row, name)) for name, _ in HEADINGS) + " |")
    for row in rows:
        if not row.is_good:
            why = [*row.notes[:5], f"{row.unsettled} unsettled"] if row.unsettled else list(row.notes[:5])
            lines.append(f"NOT SURVIVED: {row.fault} on {row.store}: {'; '.join(why) or 'no fault was injected'}")
    return "\n".join(lines)


def as_json(rows: Iterable[Outcome]) -> str:
    """The rows for programs."""
    return json.dumps([{**asdict(row), "is_good": row.is_good} for row in rows], indent=2)
