"""Domains and policies as TOML or JSON documents, checked against one published schema, errors with their line."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from typing import Any, Literal

import tomlkit
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from blowfishdb.errors import DocumentError, InvalidInput, PolicyError, TooLarge
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs.families import value_graph
from blowfishdb.model.numbers import suggest
from blowfishdb.model.parsing import parse_json, parse_toml
from blowfishdb.model.policy import Policy
from blowfishdb.model.positions import Lines, Path, dotted, json_lines, line_of, toml_lines
from blowfishdb.model.written import (
    read_attribute,
    read_family,
    read_grid,
    read_policy,
    read_written_fact,
    write_domain,
    write_policy,
)

Format = Literal["toml", "json"]


@dataclass(frozen=True)
class Document:
    """One table's domain and policy."""

    domain: Domain
    policy: Policy


@functools.cache
def schema() -> Mapping[str, Any]:
    """The published JSON Schema."""
    text = resources.files("blowfishdb.model").joinpath("policy.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def write_document(document: Document, form: Format = "toml") -> str:
    """The document as text that reads back to the same domain and policy."""
    plain = {"version": 1, "domain": write_domain(document.domain), "policy": write_policy(document.policy)}
    return tomlkit.dumps(plain) if form == "toml" else json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def read_document(text: str, form: Format = "toml") -> Document:
    """The domain and policy written in the text; DocumentError with the line of the first mistake."""
    return _read(*(_parse_toml(text) if form == "toml" else _parse_json(text)))


def read_content(content: Mapping[str, Any]) -> Document:
    """The domain and policy of a document that was parsed already; DocumentError with the path of the first mistake."""
    return _read(_plain(content), {})


def _read(content: dict[str, Any], lines: Lines) -> Document:
    mistakes = list(_mistakes(content, lines))
    if mistakes:
        raise min(mistakes, key=lambda mistake: (mistake[0], mistake[1].line or 0))[1]
    attributes = []
    for name, written in content["domain"].items():
        with _at(("domain", name, *_main_key(written)), lines):
            attributes.append((name, read_attribute(written)))
    with _at(("domain",), lines):
        domain = Domain(tuple(attributes))
    return Document(domain, _read_policy(content.get("policy", {}), domain, lines))


def _read_policy(written: Mapping[str, Any], domain: Domain, lines: Lines) -> Policy:
    for name, family in written.get("attributes", {}).items():
        with _at(("policy", "attributes", name), lines):
            attribute = domain.find(name, PolicyError)
        with _at(("policy", "attributes", name, *_main_key(family)), lines):
            value_graph(read_family(family), attribute)
    for number, joint in enumerate(written.get("joint", ())):
        with _at(("policy", "joint", number), lines):
            Policy(joint=[read_grid(joint)]).check(domain)
    for number, fact in enumerate(written.get("constraints", ())):
        with _at(("policy", "constraints", number), lines):
            Policy(constraints=[read_written_fact(fact)]).check(domain)
    with _at(("policy",), lines):
        policy = read_policy(written)
    with _at(("policy", "constraints"), lines):
        Policy(policy.attributes, constraints=policy.facts).check(domain)
    with _at(("policy", "unit"), lines):
        policy.check(domain)
    return policy


def _main_key(written: Mapping[str, Any]) -> Path:
    """The key of an entry that says the most, where it has one."""
    return tuple(key for key in ("values", "edges", "theta", "blocks", "cuts") if key in written)[:1]


@contextmanager
def _at(path: Path, lines: Lines) -> Iterator[None]:
    """Turns errors of what is declared into errors of the document at the given place."""
    try:
        yield
    except (InvalidInput, TooLarge) as error:
        raise DocumentError(f"{dotted(path)}: {error}", path=dotted(path), line=line_of(lines, path)) from error


def _parse_toml(text: str) -> tuple[dict[str, Any], Lines]:
    return _plain(parse_toml(text)), toml_lines(text)


def _parse_json(text: str) -> tuple[dict[str, Any], Lines]:
    return parse_json(text), json_lines(text)


def _plain(value: Any) -> Any:
    """The content with TOML's own dates as text."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _mistakes(content: object, lines: Lines) -> Iterator[tuple[int, DocumentError]]:
    """Every mistake with its rank: a misspelt key is also a missing one, and the key that is there says more."""
    for error in Draft202012Validator(schema()).iter_errors(_abridged(content)):
        path: Path = tuple(error.absolute_path)
        for where, said in _readable(error, path):
            place = f"{dotted(where)}: " if where else ""
            rank = 0 if error.validator == "additionalProperties" else 1
            yield rank, DocumentError(f"{place}{said}", path=dotted(where), line=line_of(lines, where))


def _abridged(content: Any) -> Any:
    """The content with one edge of each listed graph whose edges are all well formed: the validator takes 0.1 ms each.

    Well formed is what the schema says of edges: pairs of texts, numbers and truth values.
    """
    if isinstance(content, dict):
        if content.get("kind") == "custom" and _are_edges(content.get("edges")):
            return {**content, "edges": content["edges"][:1]}
        return {key: _abridged(inner) if isinstance(inner, dict) else inner for key, inner in content.items()}
    return content


def _are_edges(edges: object) -> bool:
    if not isinstance(edges, list) or not all(type(edge) is list and len(edge) == 2 for edge in edges):
        return False
    return {type(value) for edge in edges for value in edge} <= {str, int, Decimal, bool}


def _readable(error: ValidationError, path: Path) -> Iterator[tuple[Path, str]]:
    rule: object = error.validator
    wanted: Any = error.validator_value
    if rule == "additionalProperties" and isinstance(error.instance, dict):
        known = list(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
        for key in error.instance:
            if key not in known:
                yield (*path, key), f"there is no key {key!r} here; {suggest(key, known)}"
    elif rule == "required" and isinstance(error.instance, dict):
        missing = [key for key in wanted if key not in error.instance]
        yield path, f"the key {missing[0]!r} is missing"
    elif rule == "enum":
        yield path, f"{error.instance!r} is not known; {suggest(error.instance, wanted)}"
    elif rule == "type":
        names = wanted if isinstance(wanted, str) else " or ".join(wanted)
        yield path, f"{error.instance!r} must be of type {names}"
    else:
        yield path, error.message
