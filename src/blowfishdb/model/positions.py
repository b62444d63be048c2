"""On which line each key of a TOML or JSON text stands, so that an error can point at it."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TypeAlias

from blowfishdb.errors import DocumentError

Path: TypeAlias = tuple[str | int, ...]
Lines: TypeAlias = dict[Path, int]

JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')
TOML_KEY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+)\s*')
TOML_STRINGS = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)


def line_of(lines: Lines, path: Path) -> int | None:
    """The line of the key, or of the nearest key around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return lines.get(())


def json_lines(text: str) -> Lines:
    """The line of every key and list entry of valid JSON; refuses a key that stands twice."""
    lines: Lines = {}
    path: list[str | int] = []
    opened: list[str] = []
    line, key_next = 1, False
    for token in JSON_TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token in "}]":
            opened.pop()
            path.pop()
            key_next = False
        elif token == ",":
            key_next = opened[-1] == "{"
            path[-1] = 0 if key_next else int(path[-1]) + 1
        elif key_next:
            path[-1] = json.loads(token)
            if tuple(path) in lines:
                raise DocumentError(f"the key {path[-1]!r} stands twice", path=dotted(tuple(path)), line=line)
            lines[tuple(path)] = line
            key_next = False
        elif token != ":":
            lines.setdefault(tuple(path), line)
            if token in "{[":
                opened.append(token)
                path.append(0)
                key_next = token == "{"
    return lines


def toml_lines(text: str) -> Lines:
    """The line of every table and key of valid TOML; keys inside inline tables share the line of the whole."""
    lines: Lines = {(): 1}
    prefix: Path = ()
    entries: dict[Path, int] = {}
    depth = 0
    # Strings and comments may hold brackets and line ends: keep the line ends, drop the rest.
    bare = TOML_STRINGS.sub(lambda match: _blank(match[0]), text)
    for number, (line, shown) in enumerate(zip(text.split("\n"), bare.split("\n"), strict=True), start=1):
        if depth == 0 and shown.lstrip().startswith("["):
            is_entry = shown.lstrip().startswith("[[")
            name = _dotted_key(line.lstrip().lstrip("["))
            prefix = _inside(entries, name[:-1]) + name[-1:]
            if is_entry:
                entries[prefix] = entries.get(prefix, -1) + 1
                lines.setdefault(prefix, number)
            prefix = _inside(entries, prefix)
            lines.setdefault(prefix, number)
        elif depth == 0 and shown.strip():
            lines.setdefault(prefix + _dotted_key(line), number)
            depth += _opened(shown)
        else:
            depth += _opened(shown)
    return lines


def _inside(entries: dict[Path, int], path: Path) -> Path:
    """The path with the number of the last entry after every list of tables."""
    found: Path = ()
    for part in path:
        found = (*found, part)
        if found in entries:
            found = (*found, entries[found])
    return found


def _blank(string: str) -> str:
    """A stand-in without brackets; quotes stay, so that a line of text alone is not taken as empty."""
    return "".join("\n" if letter == "\n" else " " if string.startswith("#") else "_" for letter in string)


def _opened(line: str) -> int:
    return sum(line.count(sign) for sign in "[{") - sum(line.count(sign) for sign in "]}")


def _dotted_key(text: str) -> Path:
    parts: list[str] = []
    place = 0
    while match := TOML_KEY.match(text, place):
        raw = match[1]
        parts.append(_unquoted(raw))
        place = match.end()
        if text[place : place + 1] != ".":
            break
        place += 1
    return tuple(parts)


def _unquoted(raw: str) -> str:
    """The key that is written so; TOML has escapes of its own."""
    try:
        return next(iter(tomllib.loads(f"{raw} = 0")))
    except tomllib.TOMLDecodeError:
        # A line inside a longer text is no key, and no error is ever looked for there.
        return raw


def dotted(path: Path) -> str:
    """The path as people write it: policy.attributes.age.theta."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
