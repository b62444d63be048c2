"""Domains and policies as plain data, and as TOML or JSON documents checked against one published schema.

Errors name their line.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from typing import Any, Literal, NoReturn, TypeAlias

import tomlkit
from jsonschema_rs import Draft202012Validator, ValidationError

from blowfishdb.errors import DocumentError, DomainError, InvalidInput, PolicyError, TooLarge
from blowfishdb.model.arguments import checked
from blowfishdb.model.calendar import Dates, Timestamps, dates, timestamps
from blowfishdb.model.constraints import Constraint, MarginalConstraint, read_constraint, write_constraint
from blowfishdb.model.domain import (
    Attribute,
    Bins,
    Categorical,
    Domain,
    Integers,
    bins,
    categorical,
    integers,
)
from blowfishdb.model.numbers import show, suggest
from blowfishdb.model.policy import (
    ROW,
    Custom,
    Family,
    Full,
    Grid,
    Joint,
    Line,
    Partition,
    Person,
    Policy,
    Public,
    Threshold,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    public,
    show_theta,
    threshold,
    value_graph,
)

DEEPEST = 32
"""No document of ours nests half as deep; what reads them afterwards may recurse."""


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text, with exact numbers."""
    try:
        content = tomllib.loads(text, parse_float=_finite)
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(position[1]) if position else text.count("\n") + 1
        raise DocumentError(f"this is not valid TOML: {error}", line=line) from None
    except RecursionError:
        _refuse_depth()
    except ValueError:
        raise DocumentError("this is not valid TOML: a number has too many digits") from None
    _check_depth(content)
    return content


def parse_json(text: str) -> Any:
    """The content of a JSON text, with exact numbers."""
    try:
        content = json.loads(text, parse_float=_finite, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"this is not valid JSON: {error.msg}", line=error.lineno) from None
    except RecursionError:
        _refuse_depth()
    except ValueError:
        raise DocumentError("this is not valid JSON: a number has too many digits") from None
    _check_depth(content)
    return content


def _finite(text: str) -> Decimal:
    number = Decimal(text)
    return number if number.is_finite() else _no_constant(text)


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is not a number that a document can hold")


def _check_depth(content: object) -> None:
    level: list[object] = [content]
    for _ in range(DEEPEST):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    _refuse_depth()


def _refuse_depth() -> NoReturn:
    raise DocumentError(f"this document nests more than {DEEPEST} deep")


KeyPath: TypeAlias = tuple[str | int, ...]
Lines: TypeAlias = dict[KeyPath, int]
FindLines: TypeAlias = Callable[[], Lines]

JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')


def line_of(lines: Lines, path: KeyPath) -> int | None:
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
                raise DocumentError(f"the key {path[-1]!r} appears twice", path=dotted(tuple(path)), line=line)
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
    table: KeyPath = ()
    entries: dict[KeyPath, int] = {}
    statement: list[str] = []
    for number, text_line in enumerate(text.split("\n"), start=1):
        statement.append(text_line)
        if len(statement) > 1 and text_line.rstrip().endswith(",") and "#" not in text_line:
            continue
        try:
            content: object = tomllib.loads("\n".join([*statement, ""]))
        except tomllib.TOMLDecodeError:
            # A list or a text goes on in the next line.
            continue
        path: KeyPath = ()
        while isinstance(content, dict) and len(content) == 1:
            ((key, content),) = content.items()
            path = (*path, key)
            if not statement[0].lstrip().startswith("["):
                lines.setdefault((*table, *path), number + 1 - len(statement))
        if path and statement[0].lstrip().startswith("["):
            table = _inside(entries, path[:-1]) + path[-1:]
            if isinstance(content, list):
                entries[table] = entries.get(table, -1) + 1
                lines.setdefault(table, number)
            table = _inside(entries, table)
            lines.setdefault(table, number)
        statement = []
    return lines


def _inside(entries: dict[KeyPath, int], path: KeyPath) -> KeyPath:
    """The path with the number of the last entry after every list of tables."""
    inside: KeyPath = ()
    for part in path:
        inside = (*inside, part)
        if inside in entries:
            inside = (*inside, entries[inside])
    return inside


def dotted(path: KeyPath) -> str:
    """The path as people write it: policy.attributes.age.theta."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


ATTRIBUTES: dict[str, Callable[..., Attribute]] = {
    "categorical": categorical,
    "integers": integers,
    "bins": bins,
    "dates": dates,
    "timestamps": timestamps,
}
FAMILIES: dict[str, Callable[..., Family]] = {
    "full": full,
    "public": public,
    "line": line,
    "threshold": threshold,
    "partition": partition,
    "custom": custom,
}


def plain(value: object) -> object:
    """A value as JSON knows it; numbers that are not whole and dates become text."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else show(value)
    if isinstance(value, float | Decimal):
        return plain(Fraction(str(value)))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int):
        return value
    raise DomainError(f"{value!r} cannot be written in a document")


def write_domain(domain: Domain) -> dict[str, Any]:
    """Each attribute by name."""
    return {name: write_attribute(attribute) for name, attribute in domain.attributes}


def write_attribute(attribute: Attribute) -> dict[str, Any]:
    """One attribute with everything that was declared."""
    entry = _write_kind(attribute)
    entry["null"] = plain(attribute.null)
    entry["outside"] = plain(attribute.outside)
    if attribute.null_public:
        entry["null_public"] = True
    if attribute.outside_public:
        entry["outside_public"] = True
    return entry


def _write_kind(attribute: Attribute) -> dict[str, Any]:
    if isinstance(attribute, Categorical):
        return {"kind": "categorical", "values": list(attribute.values), "ordered": attribute.is_ordered}
    if isinstance(attribute, Integers):
        return {"kind": "integers", "low": attribute.low, "high": attribute.high}
    if isinstance(attribute, Bins):
        whole = {"whole": True} if attribute.whole else {}
        if attribute.width is None:
            return {"kind": "bins", "edges": [plain(edge) for edge in attribute.edges], **whole}
        ends = {"low": plain(attribute.start), "high": plain(attribute.edge(attribute.count))}
        return {"kind": "bins", **ends, "width": plain(attribute.width), **whole}
    if isinstance(attribute, Dates):
        return {"kind": "dates", "start": plain(attribute.start), "end": plain(attribute.end), "by": attribute.by}
    if isinstance(attribute, Timestamps):
        ends = {"start": plain(attribute.start), "end": plain(attribute.end)}
        return {"kind": "timestamps", **ends, "by": attribute.by, "zone": attribute.zone}
    raise DomainError(f"a {type(attribute).__name__} cannot be written in a document")


def read_attribute(entry: Mapping[str, Any]) -> Attribute:
    """The attribute that a checked entry declares: its keys are the options of the constructor."""
    return ATTRIBUTES[entry["kind"]](**{key: value for key, value in entry.items() if key != "kind"})


def write_policy(policy: Policy) -> dict[str, Any]:
    """The policy; attributes that are not named stay full."""
    entry: dict[str, Any] = {"composition": policy.composition, "presence": policy.presence}
    if isinstance(policy.unit, Person):
        unit = policy.unit
        entry["unit"] = {"person": unit.id, "at_most": unit.at_most, "order_by": unit.order_by}
    if policy.attributes:
        entry["attributes"] = {name: _write_family(family) for name, family in policy.attributes.items()}
    if policy.joint:
        entry["joint"] = [_write_joint(graph) for graph in policy.joint]
    if policy.constraints:
        entry["constraints"] = [_write_constraint(constraint) for constraint in policy.constraints]
    return entry


def _write_joint(graph: Grid | Joint) -> dict[str, Any]:
    entry: dict[str, Any] = {"attributes": list(graph.attributes)}
    if isinstance(graph, Grid):
        return {**entry, "theta": plain(graph.theta), "metric": graph.metric}
    groups = [[[plain(value) for value in one] for one in group] for group in graph.groups]
    return {**entry, "blocks" if isinstance(graph.family, Partition) else "edges": groups}


def _write_family(family: Family) -> dict[str, Any]:
    match family:
        case Full() | Public() | Line():
            return {"kind": type(family).__name__.lower()}
        case Threshold(theta):
            return {"kind": "threshold", "theta": plain(theta) if isinstance(theta, Fraction) else show_theta(theta)}
        case Partition(blocks, ()):
            return {"kind": "partition", "blocks": [[plain(value) for value in block] for block in blocks]}
        case Partition(_, cuts):
            return {"kind": "partition", "cuts": [plain(cut) for cut in cuts]}
        case Custom(edges):
            return {"kind": "custom", "edges": [[plain(one), plain(two)] for one, two in edges]}


def _write_constraint(constraint: Constraint) -> str | dict[str, Any]:
    if not isinstance(constraint, MarginalConstraint) or constraint.values is None:
        return write_constraint(constraint)
    listed = [[*(plain(value) for value in combination), count] for combination, count in constraint.values]
    return {"fact": write_constraint(constraint), "values": listed}


def read_stored_constraint(entry: str | Mapping[str, Any]) -> Constraint:
    """The public constraint that a checked entry declares: its text, or a marginal with its counts."""
    if isinstance(entry, str):
        return read_constraint(entry)
    constraint = read_constraint(entry["fact"])
    if not isinstance(constraint, MarginalConstraint):
        raise PolicyError(f"{entry['fact']}: only marginals list values; write the number behind it, = 120")
    return MarginalConstraint(constraint.attributes, tuple((tuple(line[:-1]), line[-1]) for line in entry["values"]))


def read_policy(entry: Mapping[str, Any]) -> Policy:
    """The policy that a checked entry declares."""
    unit = entry.get("unit")
    return Policy(
        {name: read_family(family) for name, family in entry.get("attributes", {}).items()},
        composition=entry.get("composition", "record"),
        presence=entry.get("presence", "public"),
        unit=ROW if unit is None else Person(unit["person"], unit["at_most"], unit["order_by"]),
        joint=[read_joint(graph) for graph in entry.get("joint", ())],
        constraints=[read_stored_constraint(constraint) for constraint in entry.get("constraints", ())],
    )


def read_joint(entry: Mapping[str, Any]) -> Grid | Joint:
    """The graph over several attributes that a checked entry declares: a threshold, blocks or pairs."""
    kinds = [key for key in ("theta", "blocks", "edges") if key in entry]
    if len(kinds) != 1 or ("metric" in entry and kinds != ["theta"]):
        raise PolicyError("a joint graph has either theta (and a metric), blocks or edges")
    if kinds == ["theta"]:
        return grid(**entry)
    family = partition(entry["blocks"]) if kinds == ["blocks"] else custom(entry["edges"])
    return joint(entry["attributes"], family)


def read_family(entry: Mapping[str, Any]) -> Family:
    """The family that a checked entry declares: its keys are the options of the constructor."""
    return FAMILIES[entry["kind"]](**{key: value for key, value in entry.items() if key != "kind"})


Format = Literal["toml", "json"]


@dataclass(frozen=True)
class Document:
    """One table's domain and policy."""

    domain: Domain
    policy: Policy


@functools.cache
def schema() -> dict[str, Any]:
    """The published JSON Schema."""
    text = resources.files("blowfishdb.model").joinpath("policy.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@checked(DocumentError)
def write_document(document: Document, form: Format = "toml") -> str:
    """The document as text that reads back to the same domain and policy."""
    plain = {"version": 1, "domain": write_domain(document.domain), "policy": write_policy(document.policy)}
    return tomlkit.dumps(plain) if form == "toml" else json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


@checked(DocumentError)
def read_document(text: str, form: Format = "toml") -> Document:
    """The domain and policy written in the text; DocumentError with the line of the first mistake."""
    if form == "toml":
        return _read(_plain(parse_toml(text)), functools.cache(lambda: toml_lines(text)))
    content, lines = parse_json(text), json_lines(text)
    return _read(content, lambda: lines)


def read_content(content: Mapping[str, Any]) -> Document:
    """The domain and policy of a document that was parsed already; DocumentError with the path of the first mistake."""
    return _read(_plain(content), dict)


def _read(content: dict[str, Any], lines: FindLines) -> Document:
    try:
        mistakes = list(_mistakes(content, lines))
    except UnicodeEncodeError:
        raise DocumentError("this document holds half of a surrogate pair, which is not a character") from None
    if mistakes:
        raise min(mistakes, key=lambda mistake: (mistake[0], mistake[1].line or 0))[1]
    attributes = []
    for name, entry in content["domain"].items():
        with _at(("domain", name, *_main_key(entry)), lines):
            attributes.append((name, read_attribute(entry)))
    with _at(("domain",), lines):
        domain = Domain(tuple(attributes))
    return Document(domain, _read_policy(content.get("policy", {}), domain, lines))


def _read_policy(entry: Mapping[str, Any], domain: Domain, lines: FindLines) -> Policy:
    for name, family in entry.get("attributes", {}).items():
        with _at(("policy", "attributes", name), lines):
            attribute = domain.find(name, PolicyError)
        with _at(("policy", "attributes", name, *_main_key(family)), lines):
            value_graph(read_family(family), attribute)
    for number, graph in enumerate(entry.get("joint", ())):
        with _at(("policy", "joint", number), lines):
            Policy(joint=[read_joint(graph)]).check(domain)
    for number, constraint in enumerate(entry.get("constraints", ())):
        with _at(("policy", "constraints", number), lines):
            Policy(constraints=[read_stored_constraint(constraint)]).check(domain)
    with _at(("policy",), lines):
        policy = read_policy(entry)
    with _at(("policy", "constraints"), lines):
        Policy(policy.attributes, constraints=policy.constraints).check(domain)
    with _at(("policy", "unit"), lines):
        policy.check(domain)
    return policy


def _main_key(entry: Mapping[str, Any]) -> KeyPath:
    """The key of an entry that says the most, where it has one."""
    return tuple(key for key in ("values", "edges", "theta", "blocks", "cuts") if key in entry)[:1]


@contextmanager
def _at(path: KeyPath, lines: FindLines) -> Iterator[None]:
    """Turns errors of what is declared into errors of the document at the given place."""
    try:
        yield
    except (InvalidInput, TooLarge) as error:
        raise DocumentError(f"{dotted(path)}: {error}", path=dotted(path), line=line_of(lines(), path)) from error


def _plain(value: Any) -> Any:
    """The content with TOML's own dates as text."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _mistakes(content: object, lines: FindLines) -> Iterator[tuple[int, DocumentError]]:
    """Every mistake with its rank: a misspelt key is also a missing one, and the key that is there says more."""
    for error in Draft202012Validator(schema()).iter_errors(content):
        rank = 0 if error.kind.name == "additionalProperties" else 1
        for where, problem in _readable(error):
            place = f"{dotted(where)}: " if where else ""
            yield rank, DocumentError(f"{place}{problem}", path=dotted(where), line=line_of(lines(), where))


def _readable(error: ValidationError) -> Iterator[tuple[KeyPath, str]]:
    path: KeyPath = tuple(error.instance_path)
    rule, value = error.kind.name, error.kind.value
    if rule == "additionalProperties":
        known = list(_part_of_schema(error.schema_path[:-1]).get("properties", {}))
        for key in value:
            yield (*path, key), f"there is no key {key!r} here; {suggest(key, known)}"
    elif rule == "required":
        yield path, f"the key {value!r} is missing"
    elif rule == "enum":
        yield path, f"{error.instance!r} is not known; {suggest(error.instance, value)}"
    elif rule == "type":
        yield path, f"{error.instance!r} must be of type {' or '.join(value)}"
    else:
        yield path, error.message


def _part_of_schema(path: Iterable[str | int]) -> Any:
    part: Any = schema()
    for key in path:
        part = part[key]
    return part
