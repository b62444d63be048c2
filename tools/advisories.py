"""Known vulnerabilities of the pinned packages: from a file of OSV advisories, or from the service of pip-audit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tools.dependencies import ROOT

SECONDS = 300
INSTEAD = "try again with a network, or give a file of OSV advisories with --advisories FILE"


class ServiceUnreachable(Exception):
    """The service of advisories does not answer; nothing is known about the packages."""


class UnreadableAdvisories(Exception):
    """A file that holds no OSV advisories."""


@dataclass(frozen=True, order=True)
class Finding:
    """One package at a version that an advisory names."""

    package: str
    version: str
    advisory: str
    fixed: tuple[str, ...]
    summary: str

    def __str__(self) -> str:
        instead = f"; fixed in {', '.join(self.fixed)}" if self.fixed else "; no fix is known"
        return f"{self.package} {self.version}: {self.advisory}{instead}. {self.summary}".rstrip()


def findings_in(file: Path, versions: Mapping[str, str]) -> list[Finding]:
    """What a file of OSV advisories (one, a list, or an object with `vulns`) says about these versions."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        listed = content if isinstance(content, list) else content.get("vulns", [content])
        return sorted(finding for advisory in listed for finding in _findings(advisory, versions))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidVersion) as error:
        raise UnreadableAdvisories(f"{file.name} holds no OSV advisories: {type(error).__name__}") from None


def _findings(advisory: Mapping[str, Any], versions: Mapping[str, str]) -> Iterator[Finding]:
    if advisory.get("withdrawn"):
        return
    for affected in advisory["affected"]:
        package = affected["package"]
        name = canonicalize_name(package["name"])
        if package["ecosystem"] != "PyPI" or name not in versions or not _is_affected(affected, versions[name]):
            continue
        events = [event for span in affected.get("ranges", []) for event in span["events"]]
        fixed = tuple(event["fixed"] for event in events if "fixed" in event)
        yield Finding(name, versions[name], str(advisory["id"]), fixed, str(advisory.get("summary", "")))


def _is_affected(affected: Mapping[str, Any], version: str) -> bool:
    if version in affected.get("versions", []):
        return True
    spans = [span["events"] for span in affected.get("ranges", []) if span["type"] in ("ECOSYSTEM", "SEMVER")]
    return any(_is_within(events, Version(version)) for events in spans)


def _is_within(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """Walks the events in the order of their versions, as the OSV schema asks."""

    def place(event: Mapping[str, str]) -> tuple[Version, int]:
        kind, at = next(iter(event.items()))
        return Version("0" if at == "0" else at), 1 if kind == "last_affected" else 0

    is_in = False
    for event in sorted(events, key=place):
        kind, at = next(iter(event.items()))
        known = Version("0") if at == "0" else Version(at)
        if kind == "introduced" and version >= known:
            is_in = True
        elif (kind == "fixed" and version >= known) or (kind == "last_affected" and version > known):
            is_in = False
    return is_in


def findings_online(constraints: Path = ROOT / "constraints.txt") -> list[Finding]:
    """What the service says; ServiceUnreachable when it does not answer."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(constraints), "--no-deps", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        raise ServiceUnreachable(f"the service of advisories does not answer; {INSTEAD}") from None
    return read_report(packages)


def read_report(packages: list[dict[str, Any]]) -> list[Finding]:
    """The findings of pip-audit's report; a package that it skipped is not known to be safe."""
    skipped = [str(one["name"]) for one in packages if "skip_reason" in one]
    if skipped or not packages:
        raise ServiceUnreachable(f"the service of advisories left {len(skipped)} packages out; {INSTEAD}")
    return sorted(
        Finding(canonicalize_name(one["name"]), one["version"], found["id"], tuple(found["fix_versions"]), "")
        for one in packages
        for found in one.get("vulns", [])
    )
