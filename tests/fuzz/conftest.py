"""The fixtures of this folder, and how many inputs each of its tests made, printed at the end of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz import effort
from tests.server.conftest import quick_passwords

__all__ = ["quick_passwords"]
INPUTS = "fuzz inputs"
BEGAN = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a test made of inputs goes with its report, from whatever process; a test without examples is one."""
    before = effort.inputs
    try:
        yield
    finally:
        item.user_properties.append((INPUTS, max(1, effort.inputs - before)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    made = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            numbers = [number for key, number in getattr(report, "user_properties", ()) if key == INPUTS]
            if numbers and report.when == "call":
                made[report.nodeid.partition("[")[0]] += sum(numbers)
    if not made:
        return
    terminalreporter.section("fuzz inputs")
    for name, number in sorted(made.items()):
        terminalreporter.write_line(f"{number:>9,}  {name}")
    took = (time.monotonic() - BEGAN) / 60
    terminalreporter.write_line(f"{made.total():>9,}  in all, in {took:.1f} minutes")
