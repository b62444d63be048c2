"""The system programs that some tests need: how each is found and installed, and a pytest plugin for missing ones."""

from __future__ import annotations

import argparse
import ast
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Part:
    """One system program: tests marked `pytest.mark.<marker>` run only where one of `programs` exists."""

    name: str
    marker: str
    programs: tuple[str, ...]
    apt: tuple[str, ...]

    def is_present(self) -> bool:
        """Whether any of the programs is on PATH or, for a pattern with a slash, on disk."""
        return any(glob.glob(p) if "/" in p else shutil.which(p) for p in self.programs)

    def advice(self) -> str:
        """What to install, in words."""
        return f"{self.name} is missing (Debian and Ubuntu: apt-get install {' '.join(self.apt)})"


PARTS: tuple[Part, ...] = (
    Part("PostgreSQL", "postgres", ("initdb", "/usr/lib/postgresql/*/bin/initdb"), ("postgresql",)),
    Part("MariaDB", "mariadb", ("mariadbd", "/usr/sbin/mariadbd"), ("mariadb-server",)),
    Part("Chromium", "chromium", ("chromium-headless-shell", "chromium"), ("chromium-headless-shell",)),
    Part("nginx", "nginx", ("nginx", "/usr/sbin/nginx"), ("nginx-light",)),
    Part("Caddy", "caddy", ("caddy",), ("caddy",)),
    Part("Java", "java", ("java",), ("default-jre-headless",)),
)
JDBC = "/usr/share/java/postgresql.jar"
BASE = "/usr/lib/libreoffice/program/libpostgresql-sdbclo.so"
CLIENTS: tuple[Part, ...] = (
    Part("R", "r", ("Rscript",), ("r-base-core", "r-cran-rpostgresql", "r-cran-dbi")),
    Part("PostgreSQL's JDBC driver", "jdbc", (JDBC,), ("libpostgresql-jdbc-java", "default-jdk-headless")),
    Part("PostgreSQL's ODBC driver", "odbc", ("isql",), ("odbc-postgresql", "unixodbc")),
    Part(
        *("LibreOffice Base", "libreoffice", (BASE,)),
        ("libreoffice-base", "libreoffice-sdbc-postgresql", "python3-uno"),
    ),
)
"""What `make clients` needs beside the parts of `make test`."""


def used_markers(folder: Path) -> frozenset[str]:
    """The names x for which some test file under `folder` says `pytest.mark.x`."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark":
                found.add(node.attr)
    return frozenset(found)


def missing_parts(parts: Iterable[Part], markers: Iterable[str]) -> list[Part]:
    """The parts that the given markers need and this machine lacks."""
    needed = frozenset(markers)
    return [part for part in parts if part.marker in needed and not part.is_present()]


def install_commands(parts: Sequence[Part], *, is_root: bool, has_apt: bool) -> list[list[str]]:
    """The commands that install the parts here; empty when there are none or this user cannot install."""
    if not parts or not is_root or not has_apt:
        return []
    packages = [package for part in parts for package in part.apt]
    return [
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
    ]


def ensure(parts: Sequence[Part], folder: Path, *, dry_run: bool) -> None:
    """Install what the tests under `folder` need where that is possible, and name what stays missing.

    Never fails: the test run skips what it cannot serve, and STRICT=1 turns that skip into a failure.
    """
    missing = missing_parts(parts, used_markers(folder))
    commands = install_commands(missing, is_root=os.geteuid() == 0, has_apt=shutil.which("apt-get") is not None)
    for command in commands:
        print(" ".join(command), flush=True)
        if not dry_run:
            # The environment may be made at the same time, and apt-get gives up where another one runs.
            subprocess.run(
                ["flock", "/var/lib/apt/lists", *command],
                check=False,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
    for part in missing:
        if not part.is_present():
            print(part.advice())


class SystemParts:
    """Knows the parts, remembers the skips of the run and, if strict, makes a run with skips fail."""

    def __init__(self, parts: Sequence[Part], *, strict: bool) -> None:
        self._parts = tuple(parts)
        self._strict = strict
        self._present: dict[str, bool] = {}
        self._skips: list[tuple[str, str]] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Register one marker per part."""
        for part in self._parts:
            config.addinivalue_line("markers", f"{part.marker}: needs {part.name} on this machine")

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test whose part is missing."""
        for part in self._parts:
            if item.get_closest_marker(part.marker) is not None and not self._has(part):
                # Parts are installed by a Python that may not have pytest.
                import pytest

                pytest.skip(part.advice())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a skipped test; an expected failure is not a skip."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._remember(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a whole file that was skipped."""
        if report.skipped:
            self._remember(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn skips into a failure where the run is strict."""
        if self._strict and self._skips and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List every skipped test with its reason."""
        if not self._skips:
            return
        verdict = "which STRICT=1 counts as failure" if self._strict else "allowed without STRICT=1"
        terminalreporter.section(f"{len(self._skips)} skipped, {verdict}")
        for name, reason in sorted(self._skips):
            terminalreporter.line(f"{name}: {reason}")

    def _has(self, part: Part) -> bool:
        if part.marker not in self._present:
            self._present[part.marker] = part.is_present()
        return self._present[part.marker]

    def _remember(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        self._skips.append((report.nodeid, reason.removeprefix("Skipped: ")))


def main(arguments: Sequence[str]) -> int:
    """The command line: `python tools/system_parts.py [--dry-run] [--clients] [--tests FOLDER]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="the folder whose markers count")
    parser.add_argument("--clients", action="store_true", help="also the clients of the PostgreSQL port")
    options = parser.parse_args(arguments)
    ensure((*PARTS, *CLIENTS) if options.clients else PARTS, options.tests, dry_run=options.dry_run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
