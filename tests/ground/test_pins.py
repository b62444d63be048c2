"""Every package of a full install is pinned to one version, without naming where it comes from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)( ; .+)?$")

USED = ("docs", "plot", "frames", "examples", "client", "server", "oidc", "postgres", "mysql", "spark")
"""Extras that tests use; the engines that are reached through Ibis alone are not installed."""


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = [PIN.match(line) for line in lines if line and not line.startswith("#")]
    assert all(matches), "constraints.txt holds only name==version lines"
    return {canonicalize_name(match["name"]): match["version"] for match in matches if match}


def declared(*extras: str) -> list[str]:
    """What pyproject.toml asks for, read from there: what is installed may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def needed(lines: Iterable[str]) -> set[str]:
    """The distributions that these requirements need here, directly or not."""
    waiting = [(line, "") for line in lines]
    seen: set[tuple[str, str]] = set()
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in {"", *requirement.extras} - {known for other, known in seen if other == name}:
            seen.add((name, wanted))
            waiting += [(child, wanted) for child in metadata.requires(name) or []]
    return {name for name, _ in seen} - {"pip"}  # Every virtual environment brings its own.


def test_every_needed_package_is_pinned() -> None:
    everything = needed(declared("test", *USED))
    assert {"numpy", "pytest", "llvmlite", "psycopg-binary"} <= everything
    assert everything - set(pins()) == set()


def test_this_environment_has_the_pinned_versions() -> None:
    known = pins()
    everything = needed(declared("test", *USED))
    assert {name: metadata.version(name) for name in everything} == {name: known[name] for name in everything}


def test_no_pin_names_a_place() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--" not in text
