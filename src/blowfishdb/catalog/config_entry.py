"""One table of the configuration and its place in the text: what is wrong with it is refused with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from blowfishdb.engine.demand import short_number
from blowfishdb.errors import CatalogError, InvalidInput
from blowfishdb.model.numbers import suggest
from blowfishdb.model.positions import Path, dotted, line_of, toml_lines


@dataclass(frozen=True)
class Entry:
    """What a table says, and where it stands."""

    text: str = field(repr=False)
    path: Path
    content: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The table as people write it: datasets.visits."""
        return dotted(self.path)

    def line(self, *inside: str | int) -> int | None:
        """The line of something in the table, or of what stands nearest around it."""
        # The lines are found when a mistake was: a configuration may list very many values.
        return line_of(toml_lines(self.text), (*self.path, *inside))

    def wrong(self, said: str, *inside: str | int) -> CatalogError:
        """The error for something in the table."""
        place = dotted((*self.path, *inside))
        return CatalogError(f"{place}{said}" if place else said, line=self.line(*inside))

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Refuses a key that is none of the known ones, and names the nearest."""
        for key in self.content:
            if key not in known:
                whose = self.where or "the configuration"
                raise CatalogError(f"{whose} has no key {key!r}; {suggest(key, known)}", line=self.line(key))

    def check_present(self, keys: tuple[str, ...]) -> None:
        """Refuses a table that lacks one of the keys."""
        for key in keys:
            if key not in self.content:
                raise self.wrong(f": the key {key!r} is missing")

    def table(self, key: str) -> Entry:
        """The table under a key, empty where there is none."""
        return self._table(self.content.get(key, {}), key)

    def tables(self, key: str) -> list[Entry]:
        """The list of tables under a key."""
        listed = self.content.get(key, [])
        if not isinstance(listed, list):
            raise self.wrong(" is a list of tables", key)
        return [self._table(one, key, place) for place, one in enumerate(listed)]

    def _table(self, value: object, *inside: str | int) -> Entry:
        if not isinstance(value, dict):
            raise self.wrong(" is a table", *inside)
        return Entry(self.text, (*self.path, *inside), value)

    def word(self, key: str, usual: str = "") -> str:
        """The text under a key."""
        value = self.content.get(key, usual)
        if not isinstance(value, str):
            raise self.wrong(" is a text", key)
        return value

    def number(self, key: str) -> Fraction | None:
        """The exact number under a key, if there is one."""
        if key not in self.content:
            return None
        try:
            return short_number(self.content[key], key)
        except InvalidInput as error:
            raise CatalogError(f"{self.where}: {error}", line=self.line(key)) from None
