"""Domains and policies in a few words: `0..110`, `0..50000 step 100`, `@wards.txt`, `within 5`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from blowfishdb.catalog.graph_files import read_distances, read_edges
from blowfishdb.errors import DomainError, PolicyError
from blowfishdb.model.domain import CELL, CLAMP, Attribute
from blowfishdb.model.graphs.families import (
    Family,
    Full,
    Line,
    Partition,
    Public,
    Threshold,
    full,
    line,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.model.written import read_attribute as read_written
from blowfishdb.sources.base import Kind

LARGEST_FILE = 2**24
HINT = (
    "write 0..110, 0..50000 step 100, 2024-01-01..2025-12-31 by day, 'NC, VA, other', 'low < mid < high' or @file, "
    "perhaps followed by null=VALUE or outside=cell"
)
POLICY_HINT = (
    "write full, public, line, within 5, cuts 18, 65, blocks a, b | c, edges pairs.csv or distances table.csv within 5"
)
SIDE = re.compile(r"\s+(?P<which>null|outside)\s*=\s*(?P<value>'[^']*'|\S+)\s*$")
WHOLE = re.compile(r"(?P<low>-?\d{1,18})\s*\.\.\s*(?P<high>-?\d{1,18})")
STEPS = re.compile(r"(?P<low>-?[\d.]+?)\s*\.\.\s*(?P<high>-?[\d.]+)\s+step\s+(?P<width>[\d./]+)")
DAYS = re.compile(r"(?P<start>\d{4}-\d\d-\d\d)\s*\.\.\s*(?P<end>\d{4}-\d\d-\d\d)(\s+by\s+(?P<by>\w+))?")
MOMENTS = re.compile(
    r"(?P<start>\d{4}-\d\d-\d\dT[\d:]+)\s*\.\.\s*(?P<end>\d{4}-\d\d-\d\dT[\d:]+)(\s+by\s+(?P<by>\w+))?(\s+in\s+(?P<zone>\S+))?"
)
EDGES = re.compile(r"edges\s+(?P<edges>.+)")
FILE = re.compile(r"(?:@|from\s+file\s+)(?P<path>.+)")


def read_attribute(words: str, kind: Kind | None = None, folder: Path = Path()) -> Attribute:
    """The attribute that the words declare; the kind of the column tells numbers from texts in lists."""
    plain, said = _beside(words.strip())
    if not plain:
        raise DomainError(f"a domain is missing; {HINT}")
    written = _ordered(plain) or _listed(plain, kind, folder)
    for which, value in said.items():
        if value == "public":
            written |= {which: CELL, f"{which}_public": True}
        else:
            listed = written["kind"] == "categorical"
            written[which] = _typed(value, kind if listed else Kind.INTEGER)
    return read_written(written)


def _beside(words: str) -> tuple[str, dict[str, str]]:
    """The words without what they say at their end about NULL and about values outside."""
    said: dict[str, str] = {}
    while found := SIDE.search(words):
        said.setdefault(found["which"], found["value"].strip("'"))
        words = words[: found.start()]
    return words, said


def _ordered(plain: str) -> dict[str, Any]:
    """Numbers, dates and moments, as a document writes them; empty where the words are none of these."""
    if whole := WHOLE.fullmatch(plain):
        return {"kind": "integers", "low": int(whole["low"]), "high": int(whole["high"])}
    if edges := EDGES.fullmatch(plain):
        return {"kind": "bins", "edges": _items(edges["edges"], ",")}
    for pattern, form in ((STEPS, "bins"), (DAYS, "dates"), (MOMENTS, "timestamps")):
        if found := pattern.fullmatch(plain):
            return {"kind": form} | {key: value for key, value in found.groupdict().items() if value is not None}
    return {}


def _listed(plain: str, kind: Kind | None, folder: Path) -> dict[str, Any]:
    ordered = False
    if file := FILE.fullmatch(plain):
        texts = _lines(folder / Path(file["path"].strip()).expanduser())
    elif "<" in plain:
        texts, ordered = _items(plain, "<"), True
    elif "," in plain:
        texts = _items(plain, ",")
    else:
        raise DomainError(f"{plain[:60]!r} is no domain; {HINT}")
    return {"kind": "categorical", "values": [_typed(text, kind) for text in texts], "ordered": ordered}


def _items(text: str, separator: str) -> list[str]:
    return [item.strip().strip("'") for item in text.split(separator) if item.strip()]


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DomainError(f"the list {path.name} has more than {LARGEST_FILE:,} bytes")
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError):
        raise DomainError(f"the list {path.name} cannot be read; it holds one value per line, in UTF-8") from None


def _typed(text: str, kind: Kind | None) -> str | int | bool:
    if kind is Kind.BOOLEAN and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is Kind.INTEGER and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return text


def read_family(words: str, attribute: Attribute | None = None) -> Family:
    """The family that the words declare; files of pairs or distances name values of the attribute."""
    plain = words.strip()
    name, _, rest = plain.partition(" ")
    rest = rest.strip()
    if name in ("within", "threshold") and rest:
        return threshold(rest)
    if name == "cuts" and rest:
        return partition(cuts=_items(rest, ","))
    if name == "blocks" and rest:
        return partition([_items(block, ",") for block in rest.split("|")])
    if name == "edges" and rest:
        return read_edges(Path(rest).expanduser(), attribute)
    file, within, theta = rest.rpartition(" within ")
    if name == "distances" and within:
        return read_distances(Path(file.strip()).expanduser(), theta, attribute)
    simple: dict[str, Family] = {
        **dict.fromkeys(("full", "secret", "everything", "everything secret"), full()),
        **dict.fromkeys(("line", "neighbours only"), line()),
        "public": public(),
    }
    if plain not in simple:
        raise PolicyError(f"{plain[:60]!r} is no policy of an attribute; {POLICY_HINT}")
    return simple[plain]


def family_words(family: Family) -> str:
    """A family in the words that declare it."""
    match family:
        case Full():
            return "everything secret"
        case Public():
            return "public"
        case Line():
            return "neighbours only"
        case Threshold(theta):
            return f"within {show_theta(theta)}"
        case Partition(blocks, ()):
            return "blocks " + " | ".join(", ".join(map(str, block)) for block in blocks)
        case Partition(_, cuts):
            return f"cuts {', '.join(map(str, cuts))}"
        case _:
            return f"{len(family.edges)} listed pairs"


def attribute_words(attribute: Attribute, family: Family) -> str:
    """A declared attribute in few words; nothing about a public one is hidden."""
    open_to_all = isinstance(family, Public)
    first, last = attribute.run_label(0, 0), attribute.run_label(attribute.size - 1, attribute.size - 1)
    values = first if attribute.size == 1 else f"{first} … {last}"
    beside = [f"NULL counts as {attribute.null}"]
    if attribute.null == CELL:
        beside = [f"NULL {'public' if attribute.null_public or open_to_all else 'hidden'}"]
    if attribute.outside == CELL:
        beside.append(f"outside {'public' if attribute.outside_public or open_to_all else 'hidden'}")
    elif attribute.outside != CLAMP:
        beside.append(f"outside counts as {attribute.outside}")
    return f"{attribute.size:,} values: {values}; {', '.join(beside)}"


def named(pairs: Iterable[str], option: str) -> Mapping[str, str]:
    """NAME=WORDS options as a mapping."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, words = pair.partition("=")
        if not separator or not name.strip():
            raise DomainError(f"{option} is written NAME=WORDS, such as {option} 'age=0..110'")
        if name.strip() in found:
            raise DomainError(f"{option} names {name.strip()!r} twice")
        found[name.strip()] = words
    return found
