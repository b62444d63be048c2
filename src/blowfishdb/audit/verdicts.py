"""What a check says: one line with its verdict, and the pages of lines that an audit is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from blowfishdb.model.numbers import show

Verdict = Literal["clean", "violation", "not tested"]
Section = Literal["replay", "exact", "statistical", "noise"]
SECTIONS: tuple[Section, ...] = ("replay", "exact", "statistical", "noise")


@dataclass(frozen=True)
class Line:
    """One check: what was looked at, what was found, and how much was tried."""

    section: Section
    subject: str
    check: str
    verdict: Verdict
    found: str
    tried: int = 1

    @property
    def is_violation(self) -> bool:
        return self.verdict == "violation"


@dataclass(frozen=True)
class Audit:
    """Every line of one run, with what it was a run of."""

    title: str
    quick: bool
    seed: int
    version: str
    seconds: float
    lines: tuple[Line, ...]
    powers: tuple[str, ...]

    @property
    def violations(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.is_violation)

    @property
    def is_clean(self) -> bool:
        """Whether something was tested and nothing was found."""
        return bool(self.lines) and not self.violations and any(line.verdict == "clean" for line in self.lines)


def clean(section: Section, subject: str, check: str, found: str, tried: int = 1) -> Line:
    """A check that found nothing wrong."""
    return Line(section, subject, check, "clean", found, tried)


def violation(section: Section, subject: str, check: str, found: str, tried: int = 1) -> Line:
    """A check that found something that must not be."""
    return Line(section, subject, check, "violation", found, tried)


def not_tested(section: Section, subject: str, check: str, why: str) -> Line:
    """A check that does not apply, with the reason."""
    return Line(section, subject, check, "not tested", why, 0)


def judged(section: Section, subject: str, check: str, troubles: list[str], fine: str, tried: int) -> Line:
    """Clean without troubles; otherwise the first of them, and how many there were."""
    if not troubles:
        return clean(section, subject, check, fine, tried)
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return violation(section, subject, check, troubles[0] + more, tried)


def amount(number: Fraction | float) -> str:
    """A loss for people: exact where that is short."""
    if isinstance(number, Fraction) and len(show(number)) <= 12:
        return show(number)
    return f"{float(number):.6g}"
