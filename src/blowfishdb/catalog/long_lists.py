"""Long lists in a configuration, written at once: tomlkit renumbers a whole list for every entry that it gains."""

from __future__ import annotations

import json
from typing import Any

from tomlkit.items import Item, Trivia

LONG = 500


class Verbatim(Item):
    """A value of a TOML document whose text is made already."""

    def __init__(self, content: Any, text: str) -> None:
        super().__init__(Trivia())
        self._content, self._text = content, text

    @property
    def discriminant(self) -> int:
        """What sorts kinds of values in tomlkit: that of a list."""
        return 8

    def as_string(self) -> str:
        """The text."""
        return self._text

    def unwrap(self) -> Any:
        """The value as plain data."""
        return self._content


def with_long_lists(value: Any) -> Any:
    """The tables with long lists of plain values, or of lists of them, ready to be written."""
    if isinstance(value, dict):
        return {key: with_long_lists(inner) for key, inner in value.items()}
    if not isinstance(value, list) or len(value) < LONG or not _is_plain(value):
        return value
    # JSON writes such lists as TOML does, but for one letter that TOML wants escaped.
    return Verbatim(value, json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))


def _is_plain(values: list[Any]) -> bool:
    inner = [entry for value in values if type(value) is list for entry in value]
    return {type(value) for value in values} <= {list, str, int, bool} and set(map(type, inner)) <= {str, int, bool}
