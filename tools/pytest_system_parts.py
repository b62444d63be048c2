"""A pytest plugin: skips tests whose system part is missing, lists every skip, and fails on one if strict."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tools.system_parts import Part


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
        if self._strict and self._skips and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

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
