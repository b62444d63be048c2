"""Named cursors: the rows of an answer, kept for a transaction or for the connection, and read piece by piece."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from blowfishdb.errors import InvalidInput, QueryError, TooLarge
from blowfishdb.server.wire.messages import Cell, Column

MOST_CURSORS = 100
LONGEST_FETCH = 300
NAME = r'"(?:[^"]|"")+"|\w+'
DECLARE = re.compile(
    rf"DECLARE\s+({NAME})\s+((?:(?:BINARY|ASENSITIVE|INSENSITIVE|NO|SCROLL)\s+)*)CURSOR\s+"
    r"(?:(WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
FETCH = re.compile(rf"(FETCH|MOVE)\s+(?:(.*?)\s*(?:\b(?:FROM|IN)\s+))?(.*?)({NAME})", re.IGNORECASE | re.DOTALL)
CLOSE = re.compile(rf"CLOSE\s+({NAME})", re.IGNORECASE)
STEPS = {"": 1, "NEXT": 1, "FORWARD": 1, "PRIOR": -1, "BACKWARD": -1}
PLACES = {"FIRST": 1, "LAST": -1}
COUNT = re.compile(r"(?:(FORWARD|BACKWARD|ABSOLUTE|RELATIVE)\s+)?([+-]?\s?\d{1,9}|ALL)")


@dataclass(frozen=True)
class Declaration:
    """A cursor that a statement declares: its name, whether it outlives its transaction, and what it asks."""

    name: str
    is_held: bool
    question: str


def read_declaration(text: str, comments: str = "") -> Declaration | None:
    """The cursor that a statement declares, the comments before it those of its question; None for another one."""
    match = DECLARE.fullmatch(text.rstrip("; \n"))
    if match is None:
        return None
    name, options, hold, question = match.groups()
    if "BINARY" in options.upper().split():
        raise QueryError("leave BINARY out: a driver chooses the format of its results when it fetches them")
    return Declaration(_name(name), (hold or "").upper() == "WITH", f"{comments}{question}")


def _name(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


@dataclass(eq=False)
class Cursor:
    """Rows and the place of the last one that was read: 0 before the first, one more than there are behind the last."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    is_held: bool
    place: int = 0

    def read(self, direction: str) -> list[Sequence[Cell]]:
        """The rows that a direction of FETCH names, in its order; the cursor goes along."""
        end, words = len(self.rows) + 1, " ".join(direction.upper().split())
        match = COUNT.fullmatch(words)
        kind, count = (match[1], match[2]) if match else (None, None)
        if words in STEPS or words in PLACES:
            kind, number = ("ABSOLUTE", PLACES[words]) if words in PLACES else (None, STEPS[words])
        elif match is None or (count == "ALL" and kind in ("ABSOLUTE", "RELATIVE")):
            raise QueryError("a cursor is read by FETCH FORWARD 10 FROM its name; directions are those of PostgreSQL")
        else:
            number = (end if count == "ALL" else int((count or "0").replace(" ", ""))) * (
                -1 if kind == "BACKWARD" else 1
            )
        if kind in ("ABSOLUTE", "RELATIVE") or number == 0:
            start = 0 if kind == "ABSOLUTE" and number >= 0 else end if kind == "ABSOLUTE" else self.place
            self.place = min(max(start + number, 0), end)
            return [*self.rows[self.place - 1 : self.place]] if self.place else []
        start, self.place = self.place, min(max(self.place + number, 0), end)
        if number > 0:
            return [*self.rows[start : self.place]]
        return [*self.rows[self.place - 1 if self.place else 0 : max(start - 1, 0)]][::-1]


@dataclass(eq=False)
class Cursors:
    """The cursors of one connection, by name."""

    _open: dict[str, Cursor] = field(default_factory=dict)

    def check(self, declaration: Declaration, *, in_transaction: bool) -> None:
        """InvalidInput where the cursor cannot be declared, before its question is asked and paid."""
        if declaration.name in self._open:
            raise InvalidInput("there is a cursor of that name already: CLOSE it first")
        if not in_transaction and not declaration.is_held:
            raise InvalidInput("a cursor lives in a transaction: BEGIN one, or declare the cursor WITH HOLD")
        if len(self._open) >= MOST_CURSORS:
            raise TooLarge("cursors", MOST_CURSORS + 1, MOST_CURSORS, "Close some.")

    def open(
        self, declaration: Declaration, columns: tuple[Column, ...] | None, rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Keeps the rows of what a declaration asked."""
        self._open[declaration.name] = Cursor(columns or (), rows, declaration.is_held)

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a cursor; None where there is none of that name."""
        cursor = self._open.get(name)
        return None if cursor is None else cursor.columns

    def fetched_columns(self, text: str) -> tuple[Column, ...]:
        """The columns that a FETCH gives."""
        return self._named(text)[1].columns

    def fetch(self, text: str) -> tuple[Cursor, list[Sequence[Cell]]]:
        """The cursor and the rows that a FETCH or a MOVE goes over."""
        direction, cursor = self._named(text)
        return cursor, cursor.read(direction)

    def close(self, text: str) -> str:
        """Closes the cursor that a CLOSE names, or all; gives the tag."""
        match = CLOSE.fullmatch(text.strip().rstrip("; \n"))
        if match is not None and match[1].upper() == "ALL":
            self._open.clear()
            return "CLOSE CURSOR ALL"
        if match is None or self._open.pop(_name(match[1]), None) is None:
            raise InvalidInput("there is no cursor of that name")
        return "CLOSE CURSOR"

    def end_transaction(self) -> None:
        """Closes what was not declared WITH HOLD."""
        self._open = {name: cursor for name, cursor in self._open.items() if cursor.is_held}

    def _named(self, text: str) -> tuple[str, Cursor]:
        # Longer ones are none, and would be looked at in very many ways.
        match = FETCH.fullmatch(text.strip().rstrip("; \n")) if len(text) < LONGEST_FETCH else None
        cursor = None if match is None else self._open.get(_name(match[4]))
        if match is None or cursor is None:
            raise InvalidInput("there is no cursor of that name")
        return f"{match[2] or ''} {match[3]}".strip(), cursor
