"""Where the parts come from: pins, licences, a bill of materials, and known vulnerabilities."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tools.supply_chain import (
    FOUND,
    ROOT,
    UNKNOWN,
    USED,
    ServiceUnreachable,
    UnreadableAdvisories,
    check_vulnerabilities,
    declared,
    everything,
    findings_in,
    is_approved,
    licence_page,
    licences,
    main,
    needed,
    pins,
    read_report,
    refused,
    run_time,
    write_sbom,
)

PAGE = ROOT / "docs" / "licences.md"


def test_the_page_of_licences_is_in_step() -> None:
    """Other Pythons need some packages more or less; what is needed here must be on the page, as it is pinned."""
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| (\S+) \|", PAGE.read_text(), re.MULTILINE))
    listed.pop("package", None)
    assert everything() <= set(listed)
    known = pins()
    assert {name: version for name, version in listed.items() if known.get(name) != version} == {}
    written = set(licence_page().splitlines())
    assert [
        line for line in PAGE.read_text().splitlines() if line not in written and line.split("|")[1:2] in written
    ] == []


def test_no_unapproved_licence_is_needed_at_run_time() -> None:
    assert refused(licences(run_time())) == {}
    assert len(run_time()) > 40


@pytest.mark.parametrize(
    ("licence", "approved"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0", False),
        ("MIT AND GPL-3.0", False),
        ("LGPL-3.0-only", False),
        ("unknown", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_licences_are_told_apart(licence: str, approved: bool) -> None:
    assert is_approved(licence) == approved
    assert bool(refused({"a-new-package": licence})) == (not approved)


@pytest.mark.nightly
def test_the_bill_of_materials_is_valid_and_repeatable(tmp_path: Path) -> None:
    assert write_sbom(tmp_path / "one.json", validate=False) == 0
    content = json.loads((tmp_path / "one.json").read_text())
    assert (content["bomFormat"], "timestamp" in content["metadata"]) == ("CycloneDX", False)
    assert "serialNumber" not in content
    listed = {part["name"].lower().replace("_", "-"): part["version"] for part in content["components"]}
    known = pins()
    assert {name for name in run_time() if listed.get(name) != known[name]} == set()
    assert write_sbom(tmp_path / "two.json", validate=False) == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.nightly
def test_a_part_of_the_bill_fits_its_schema(tmp_path: Path) -> None:
    """All of it takes a minute; `make sbom` does that."""
    assert write_sbom(tmp_path / "one.json", validate=False) == 0
    content = json.loads((tmp_path / "one.json").read_text())
    content["components"], content["dependencies"] = content["components"][:3], []
    # Loaded here: it takes seconds, in every process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    check = JsonStrictValidator(SchemaVersion.V1_6)
    assert check.validate_str(json.dumps(content)) is None
    content["components"][0]["type"] = "made-up"
    assert check.validate_str(json.dumps(content)) is not None


def advisory(name: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    return {"id": "TEST-1", "summary": "A made-up fault.", "affected": [affected], **more}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (advisory("NumPy", {"introduced": "0"}), True),
        (advisory("numpy", {"introduced": "0"}, {"fixed": "1.0"}), False),
        (advisory("numpy", {"introduced": "0"}, {"fixed": "99"}), True),
        (advisory("numpy", {"introduced": "99"}), False),
        (advisory("numpy", {"introduced": "0"}, {"last_affected": pins()["numpy"]}), True),
        (advisory("numpy", {"introduced": "0"}, {"last_affected": "1.0"}), False),
        (advisory("numpy", {"fixed": "99"}, {"introduced": "2"}), True),
        (advisory("numpy", {"introduced": "0"}, withdrawn="2020-01-01T00:00:00Z"), False),
        (advisory("no-such-package", {"introduced": "0"}), False),
        ([], False),
        ({"vulns": [advisory("a", {"introduced": "0"}), advisory("duckdb", {"introduced": "0"})]}, True),
    ],
)
def test_a_made_up_advisory_is_caught(
    tmp_path: Path, content: Any, found: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "advisories.json"
    file.write_text(json.dumps(content))
    assert main(["vulnerabilities", "--advisories", str(file)]) == (FOUND if found else 0)
    assert ("TEST-1" in capsys.readouterr().out) == found


def test_an_advisory_may_list_versions(tmp_path: Path) -> None:
    listed = advisory("numpy")
    listed["affected"][0] = {"package": {"ecosystem": "PyPI", "name": "numpy"}, "versions": [pins()["numpy"]]}
    (tmp_path / "a.json").write_text(json.dumps(listed))
    assert [finding.package for finding in findings_in(tmp_path / "a.json", pins())] == ["numpy"]


@pytest.mark.parametrize("content", ["", "[1]", '{"id": "x"}', '[{"affected": [{"package": 1}]}]'])
def test_a_file_that_holds_no_advisories_is_no_all_clear(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UnreadableAdvisories):
        findings_in(tmp_path / "a.json", pins())
    assert main(["vulnerabilities", "--advisories", str(tmp_path / "a.json")]) == UNKNOWN


def test_a_package_that_the_service_left_out_is_no_all_clear() -> None:
    """Without a network pip-audit skips every package and reports that it found nothing."""
    with pytest.raises(ServiceUnreachable, match="left 1 packages out"):
        read_report([{"name": "a", "skip_reason": "x"}, {"name": "b", "version": "1", "vulns": []}])
    with pytest.raises(ServiceUnreachable):
        read_report([])
    told = read_report([{"name": "b", "version": "1", "vulns": [{"id": "X", "fix_versions": ["2"]}]}])
    assert str(told[0]) == "b 1: X; fixed in 2."


def test_without_a_service_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> None:
        raise ServiceUnreachable("the service does not answer")

    monkeypatch.setattr("tools.supply_chain.findings_online", unreachable)
    assert check_vulnerabilities(None) == UNKNOWN
    assert "ServiceUnreachable" in capsys.readouterr().err


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
