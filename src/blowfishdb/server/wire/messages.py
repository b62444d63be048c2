"""Messages of the PostgreSQL protocol, version 3: those of clients, read within limits, and those of a server."""

from __future__ import annotations

import math
import re
import struct
from asyncio import StreamReader
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from blowfishdb.errors import InvalidInput, ProtocolViolation, TooLarge
from blowfishdb.server.admission import LARGEST_OF_STRANGERS

WireValue: TypeAlias = str | int | float | bool | None
PROTOCOL, CANCEL, TLS, GSS = 196_608, 80_877_102, 80_877_103, 80_877_104
"""The codes that a first message begins with."""
BOOL, INT8, INT4, TEXT, FLOAT8 = 16, 20, 23, 25, 701
SIZES = {BOOL: 1, INT8: 8, INT4: 4, TEXT: -1, FLOAT8: 8}
INTEGERS = {21: "!h", 23: "!i", 20: "!q", 26: "!I"}
FLOATS = {700: "!f", 701: "!d"}
NUMERIC = 1700
TEXTS = (0, 19, TEXT, 705, 1042, 1043)
"""Types of text: unknown, name, text, unknown again, char(n) and varchar."""
NUMBER = re.compile(rb"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?")


@dataclass(eq=False)
class Body:
    """The content of one message, read from front to back; ProtocolViolation where it is not as the protocol says."""

    data: bytes
    place: int = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or self.place + size > len(self.data):
            raise ProtocolViolation("a message is shorter than it says")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, form: str = "!h") -> int:
        """The next integer, of two bytes unless said otherwise."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self) -> str:
        """The next text, which a zero byte ends."""
        end = self.data.find(b"\0", self.place)
        if end < 0:
            raise ProtocolViolation("a text in a message has no end")
        text = _utf8(self.take(end - self.place))
        self.place += 1
        return text

    def bytes_or_null(self) -> bytes | None:
        """The next value, which its length precedes; None for NULL."""
        size = self.number("!i")
        return None if size == -1 else self.take(size)

    def numbers(self, form: str = "!h") -> tuple[int, ...]:
        """The next list of integers, which its length precedes."""
        return tuple(self.number(form) for _ in range(self._length()))

    def values(self) -> tuple[bytes | None, ...]:
        """The next list of values, which its length precedes."""
        return tuple(self.bytes_or_null() for _ in range(self._length()))

    def _length(self) -> int:
        length = self.number()
        if length < 0:
            raise ProtocolViolation("a list in a message has a negative length")
        return length

    def end(self) -> None:
        """Nothing may follow."""
        if self.place != len(self.data):
            raise ProtocolViolation("a message is longer than what it says")


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolViolation("text is sent in UTF-8") from None


async def read_first(reader: StreamReader) -> tuple[int, Body]:
    """The code and the rest of a message without a type, with which a connection begins."""
    size = struct.unpack("!I", await reader.readexactly(4))[0]
    if not 8 <= size <= LARGEST_OF_STRANGERS:
        raise ProtocolViolation("this port speaks the PostgreSQL protocol, version 3")
    body = Body(await reader.readexactly(size - 4))
    return body.number("!I"), body


async def read_head(reader: StreamReader, largest: int) -> tuple[str, int]:
    """The type of the next message, and the bytes of its content."""
    kind, size = struct.unpack("!cI", await reader.readexactly(5))
    if size < 4:
        raise ProtocolViolation("a message has a length of at least 4")
    if size > largest:
        raise TooLarge("bytes of a message", size, largest, "Send less at once.")
    return kind.decode("latin-1"), size - 4


async def read_body(reader: StreamReader, size: int) -> Body:
    """The content of a message."""
    return Body(await reader.readexactly(size))


@dataclass(frozen=True)
class Bind:
    """A statement with its parameters, under the name of a portal."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


def read_bind(body: Body) -> Bind:
    """A Bind message."""
    bind = Bind(body.text(), body.text(), body.numbers(), body.values(), body.numbers())
    body.end()
    if len(bind.formats) not in (0, 1, len(bind.values)) or not {*bind.formats, *bind.results} <= {0, 1}:
        raise ProtocolViolation("formats are 0 for text and 1 for binary: one for all, or one for each value")
    return bind


def read_parameters(body: Body) -> dict[str, str]:
    """The settings of a first message: names and values by turns."""
    parameters: dict[str, str] = {}
    while name := body.text():
        parameters[name] = body.text()
    body.end()
    return parameters


def literal(value: bytes | None, oid: int, *, is_binary: bool) -> str:
    """A parameter as it would be written in the statement; InvalidInput for a type that is not known here."""
    if value is None:
        return "NULL"
    if is_binary and (form := INTEGERS.get(oid) or FLOATS.get(oid)) is not None:
        if len(value) != struct.calcsize(form):
            raise ProtocolViolation("a number has another length than its type")
        number = struct.unpack(form, value)[0]
        if not math.isfinite(number):
            raise InvalidInput("a parameter is a finite number")
        return str(number) if number >= 0 else f"({number})"
    if oid == BOOL:
        return "TRUE" if value in (b"\1", b"t", b"true", b"1", b"on") else "FALSE"
    if not is_binary and oid in (*INTEGERS, *FLOATS, NUMERIC):
        if not NUMBER.fullmatch(value):
            raise InvalidInput("a parameter of a numeric type is a number")
        return f"({value.decode()})"
    if is_binary and oid not in TEXTS:
        raise InvalidInput(f"binary parameters of the type {oid} are not known here: send them as text")
    text = _utf8(value)
    if "\0" in text:
        raise ProtocolViolation("a text holds no zero byte")
    return "'" + text.replace("'", "''") + "'"


def message(kind: str, *parts: bytes) -> bytes:
    """A message of a type with its length."""
    content = b"".join(parts)
    return kind.encode() + struct.pack("!I", len(content) + 4) + content


def text(value: str) -> bytes:
    """A text as messages hold it."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def report(kind: str, severity: str, state: str, sentence: str, detail: str = "", hint: str = "") -> bytes:
    """An ErrorResponse (E) or a NoticeResponse (N)."""
    fields = {"S": severity, "V": severity, "C": state, "M": sentence, "D": detail, "H": hint}
    return message(kind, *(name.encode() + text(value) for name, value in fields.items() if value), b"\0")


@dataclass(frozen=True)
class PortColumn:
    """A column of a result: its heading and the number of its type."""

    name: str
    oid: int = TEXT


def row_description(columns: Sequence[PortColumn], formats: Sequence[int]) -> bytes:
    """The headings and types of a result."""
    parts = [
        text(column.name) + struct.pack("!IhIhih", 0, 0, column.oid, SIZES[column.oid], -1, form)
        for column, form in zip(columns, formats, strict=True)
    ]
    return message("T", struct.pack("!h", len(columns)), *parts)


def data_rows(rows: Iterable[Sequence[WireValue]], columns: Sequence[PortColumn], formats: Sequence[int]) -> bytes:
    """Rows of a result."""
    forms = [(_binary if form else _text, column.oid) for column, form in zip(columns, formats, strict=True)]
    length, width = struct.Struct("!i").pack, struct.pack("!h", len(forms))
    messages: list[bytes] = []
    for row in rows:
        content = width
        for cell, (encode, oid) in zip(row, forms, strict=True):
            if cell is None:
                content += b"\xff\xff\xff\xff"
            else:
                encoded = encode(cell, oid)
                content += length(len(encoded)) + encoded
        messages += (b"D", length(len(content) + 4), content)
    return b"".join(messages)


def shown(cell: WireValue) -> str:
    """A value as PostgreSQL writes it; NULL as the empty text."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "NaN" if math.isnan(cell) else ("Infinity" if cell > 0 else "-Infinity")
        return f"{cell:.0f}" if cell.is_integer() and abs(cell) < 10**6 else str(cell)
    if isinstance(cell, bool):
        return "t" if cell else "f"
    return "" if cell is None else str(cell)


def _text(cell: WireValue, _: int) -> bytes:
    return shown(cell).encode("utf-8", "replace")


def _binary(cell: WireValue, oid: int) -> bytes:
    if oid == FLOAT8 and isinstance(cell, int | float):
        return struct.pack("!d", cell)
    if oid in INTEGERS and isinstance(cell, int):
        return struct.pack(INTEGERS[oid], cell)
    if oid == BOOL:
        return b"\1" if cell else b"\0"
    return _text(cell, oid)
