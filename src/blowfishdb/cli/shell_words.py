"""Commands as a person would type them into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

ACTIVE = set('"$`\\!')
"""What a shell looks at between double quotes."""


def shell_line(words: Sequence[str]) -> str:
    """The words as one command; a word with single quotes in it stands between double ones where that is safe."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    return f'"{word}"' if "'" in word and ACTIVE.isdisjoint(word) else shlex.quote(word)
