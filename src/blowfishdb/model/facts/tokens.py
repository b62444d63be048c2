"""The words of a written fact: names, numbers, quoted texts and signs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from blowfishdb.errors import PolicyError
from blowfishdb.model.numbers import exact

LONGEST = 20_000
KEYWORDS = frozenset(["and", "or", "not", "in", "between", "is", "null", "true", "false", "outside"])
NAME = re.compile(r"[^\W\d]\w*")

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+|/\d+)?(?!\w))
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><>|!=|<=|>=|[<>=(),])
    )""",
    re.VERBOSE,
)

Kind = Literal["number", "text", "name", "keyword", "sign", "end"]


@dataclass(frozen=True)
class Token:
    """One word: its kind, its value, and how it was written."""

    kind: Kind
    value: str | int | Fraction
    written: str


END = Token("end", "", "the end")


def tokens(text: str) -> list[Token]:
    """The words of the text, closed by an end; PolicyError at the first sign that means nothing."""
    if len(text) > LONGEST:
        raise PolicyError(f"a written fact has at most {LONGEST:,} characters, not {len(text):,}")
    found: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise PolicyError(f"{text[place:].strip()[:20]!r} cannot be read in the fact {_short(text)}")
        found.append(_token(match))
        place = match.end()
    return [*found, END]


def _token(match: re.Match[str]) -> Token:
    kind, written = str(match.lastgroup), match[0].strip()
    if kind == "number":
        number = exact(written, "a number", PolicyError)
        return Token("number", int(number) if number.denominator == 1 else number, written)
    if kind == "text":
        return Token("text", written[1:-1].replace("''", "'"), written)
    if kind == "quoted":
        return Token("name", written[1:-1].replace('""', '"'), written)
    if kind == "word":
        lower = written.lower()
        return Token("keyword", lower, written) if lower in KEYWORDS else Token("name", written, written)
    return Token("sign", written, written)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
