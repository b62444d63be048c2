"""`python -m tools.supply_chain licences`, `sbom` (a bill of materials) or `vulnerabilities` (those that are known)."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.advisories import ServiceUnreachable, UnreadableAdvisories, findings_in, findings_online
from tools.dependencies import ROOT, pins
from tools.licences import licences, page, refused, run_time

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
    asked = parser.parse_args(arguments)
    if asked.command == "licences":
        return write_licences(LICENCES)
    if asked.command == "sbom":
        return write_sbom(asked.output)
    return check_vulnerabilities(asked.advisories)


def write_licences(path: Path) -> int:
    """Writes the page; FOUND when a package that users get has a licence that nobody approved."""
    path.write_text(page(), encoding="utf-8")
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
        found = findings_online() if advisories is None else findings_in(advisories, versions)
    except (ServiceUnreachable, UnreadableAdvisories) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return UNKNOWN
    for finding in found:
        print(finding)
    print(f"{len(versions)} packages looked up, {len(found)} known vulnerabilities")
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main())
