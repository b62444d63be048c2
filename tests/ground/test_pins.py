"""Every package of a full install is pinned to one version, without naming where it comes from."""

from __future__ import annotations

import re
from importlib import metadata

from packaging.requirements import Requirement

from tools.supply_chain import ROOT, USED, declared, needed, pins


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


def test_every_package_that_is_asked_for_has_its_reason() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/dependencies.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = set(re.findall(r"[\w-]+", " ".join(rows)))
    asked = {Requirement(line).name for line in declared("test", *USED)}
    assert {"numpy", "schemathesis"} <= asked
    assert asked - told == set()
