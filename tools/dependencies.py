"""What the project needs, directly or not: from pyproject.toml, constraints.txt and the installed metadata."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)( ; .+)?$")
RUN_TIME = ("plot", "frames", "examples", "client", "server", "oidc", "mcp", "postgres", "mysql", "spark")
"""Extras that users install; the engines that are reached through Ibis alone are not installed here."""
USED = ("docs", *RUN_TIME)
"""Extras that tests use."""


def pins() -> dict[str, str]:
    """The pinned version of every package; ValueError for a line that is no pin."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    matches = [PIN.match(line) for line in lines]
    if not all(matches):
        raise ValueError("constraints.txt holds only name==version lines")
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
