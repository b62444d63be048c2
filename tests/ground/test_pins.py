"""Every package of a full install is pinned to one version, without naming where it comes from."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)( ; .+)?$")


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = [PIN.match(line) for line in lines if line and not line.startswith("#")]
    assert all(matches), "constraints.txt holds only name==version lines"
    return {canonicalize_name(match["name"]): match["version"] for match in matches if match}


def needed(name: str, extras: frozenset[str], seen: set[str]) -> set[str]:
    """The distributions that `name` with `extras` requires here, directly or not."""
    for line in metadata.requires(name) or []:
        requirement = Requirement(line)
        environments = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if requirement.marker and not any(requirement.marker.evaluate(e) for e in environments):
            continue
        child = canonicalize_name(requirement.name)
        if child not in seen:
            seen.add(child)
            needed(child, frozenset(requirement.extras), seen)
    return seen


def test_every_needed_package_is_pinned() -> None:
    everything = needed("blowfishdb", frozenset({"", "test"}), set())
    assert {"numpy", "pytest", "llvmlite"} <= everything
    assert everything - set(pins()) == set()


def test_this_environment_has_the_pinned_versions() -> None:
    known = pins()
    everything = needed("blowfishdb", frozenset({"", "test"}), set())
    assert {name: metadata.version(name) for name in everything} == {name: known[name] for name in everything}


def test_no_pin_names_a_place() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--" not in text
