"""What the project installs: licences, bill of materials, known vulnerabilities (`python -m tools.supply_chain`)."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)( ; .+)?$")
RUN_TIME = (
    "plot",
    "frames",
    "examples",
    "client",
    "server",
    "oidc",
    "mcp",
    "postgres",
    "mysql",
    "spark",
    "spark-connect",
    "delta",
)
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


UNSTATED = "unknown"
NAMES = {
    "apache": "Apache-2.0",
    "mit": "MIT",
    "bsd": "BSD",
    "isc": "ISC",
    "mozilla public license 2.0": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "python software foundation": "PSF-2.0",
    "psf": "PSF-2.0",
    "gpl-3.0": "GPL-3.0",
    "gnu general public": "GPL",
    "public domain": "Public-Domain",
}
"""What the names that people wrote before there were expressions begin with or hold."""
PERMISSIVE = ("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU")
APPROVED = frozenset((*PERMISSIVE, "LLVM-exception", "MPL-2.0", "PSF-2.0", "Public-Domain", "Zlib"))
"""Licences that let users of the package do with it what its own licence lets them."""
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
"""Optional, unchanged, and replaceable by whoever installs them."""
IN_FILES = {"axe-playwright-python": "MIT AND MPL-2.0"}
"""Packages whose metadata state nothing: what the files in them say."""
HEAD = """# Licences

Every package that BlowfishDB or its tests may install, at the version in `constraints.txt`, with the licence that its
own metadata states. `make licences` writes this page. What is used at run time must be under a licence that is approved
in `tools/supply_chain.py`; the psycopg driver (LGPL) is an optional extra, used unchanged.

"""


def licence_of(name: str) -> str:
    """The licence that a package states: its expression, its classifiers, or its own words."""
    stated = metadata.metadata(name).json
    if "license_expression" in stated:
        return str(stated["license_expression"])
    classified = [line for line in stated.get("classifier", []) if line.startswith("License :: ")]
    names = [line.rpartition(" :: ")[2] for line in classified] or str(stated.get("license", "")).splitlines()[:1]
    return " OR ".join(dict.fromkeys(map(_named, names))) or IN_FILES.get(name, UNSTATED)


def _named(words: str) -> str:
    lower = words.strip().lower()
    return next(
        (name for start, name in NAMES.items() if re.search(rf"\b{re.escape(start)}", lower)), words.strip() or UNSTATED
    )


def is_approved(licence: str) -> bool:
    """Whether some choice that the licence leaves is approved in all its parts."""
    choices = re.split(r"\s+OR\s+", licence.replace("(", "").replace(")", ""))
    return any(all(part in APPROVED for part in re.split(r"\s+(?:AND|WITH)\s+", choice)) for choice in choices)


def refused(licences: Mapping[str, str]) -> dict[str, str]:
    """Packages whose licence nobody approved for run time."""
    return {
        name: licence
        for name, licence in licences.items()
        if not is_approved(licence) and EXCEPTIONS.get(name) != licence
    }


def run_time() -> set[str]:
    """What users may get: the package itself and all its extras."""
    return needed(declared(*RUN_TIME))


def everything() -> set[str]:
    """What users and tests may get."""
    return needed(declared("test", *USED))


def licences(names: Iterable[str]) -> dict[str, str]:
    """The licence of each package, by name."""
    return {name: licence_of(name) for name in sorted(names)}


def licence_page() -> str:
    """The page."""
    versions, core, users = pins(), needed(declared()), run_time()
    lines = ["| package | version | licence | needed |", "|---|---|---|---|"]
    for name, licence in licences(everything()).items():
        use = "always" if name in core else "by extras" if name in users else "by tests"
        lines.append(f"| {name} | {versions[name]} | {licence} | {use} |")
    return HEAD + "\n".join(lines) + "\n"


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


def findings_online() -> list[Finding]:
    """What the service says; ServiceUnreachable when it does not answer."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(ROOT / "constraints.txt"),
        "--no-deps",
        "--disable-pip",
    ]
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


FOUND, UNKNOWN = 1, 2
"""Exit codes: something is wrong; it could not be found out."""
LICENCES = ROOT / "docs" / "licences.md"
SBOM = ROOT / "build" / "sbom.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 when all is well."""
    parser = argparse.ArgumentParser(prog="supply_chain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("licences", help="write docs/licences.md; fail on a licence that nobody approved")
    sbom = commands.add_parser("sbom", help="write a CycloneDX bill of materials of this environment")
    sbom.add_argument("--output", type=Path, default=SBOM)
    known = commands.add_parser("vulnerabilities", help="look the pinned packages up among known vulnerabilities")
    known.add_argument("--advisories", type=Path, help="a JSON file of OSV advisories, in place of the service")
    options = parser.parse_args(arguments)
    if options.command == "licences":
        return write_licences(LICENCES)
    if options.command == "sbom":
        return write_sbom(options.output)
    return check_vulnerabilities(options.advisories)


def write_licences(path: Path) -> int:
    """Writes the page; FOUND when a package that users get has a licence that nobody approved."""
    path.write_text(licence_page(), encoding="utf-8")
    wrong = refused(licences(run_time()))
    for name, licence in wrong.items():
        print(f"{name}: {licence} is not approved for run time", file=sys.stderr)
    print(f"{len(pins())} packages pinned; {path.name} is written")
    return FOUND if wrong else 0


def write_sbom(path: Path, *, validate: bool = True) -> int:
    """Writes the bill of materials, the same for the same environment; a check against its schema takes a minute."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "cyclonedx_py", "environment", sys.executable]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    command += ["--validate" if validate else "--no-validate"]
    command += ["--output-format", "JSON", "--spec-version", "1.6", "--output-file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return UNKNOWN
    print(f"{path.name} is written{' and valid' if validate else ''}")
    return 0


def check_vulnerabilities(advisories: Path | None) -> int:
    """Prints what is known; FOUND where something is, UNKNOWN where nothing can be known."""
    versions = pins()
    try:
        findings = findings_online() if advisories is None else findings_in(advisories, versions)
    except (ServiceUnreachable, UnreadableAdvisories) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return UNKNOWN
    for finding in findings:
        print(finding)
    print(f"{len(versions)} packages looked up, {len(findings)} known vulnerabilities")
    return FOUND if findings else 0


if __name__ == "__main__":
    sys.exit(main())
