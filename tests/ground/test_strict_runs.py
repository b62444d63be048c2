"""A missing system part skips its tests by name, and STRICT=1 makes that a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from tools.system_parts import SystemParts
from tools.system_parts import Part

PARTS = (
    Part("Unobtainium", "rare", ("no-such-program",), ("unobtainium",)),
    Part("Shell", "shell", ("sh",), ("dash",)),
)

def pytest_configure(config):
    config.pluginmanager.register(SystemParts(PARTS, strict={strict}))
"""
RARE = "import pytest\n\n@pytest.mark.rare\ndef test_needs_it(): pass\n\ndef test_plain(): pass\n"
SHELL = "import pytest\n\n@pytest.mark.shell\ndef test_needs_it(): pass\n"
WHOLE_FILE = "import pytest\n\npytest.skip('not here', allow_module_level=True)\n"
EXPECTED_FAILURE = "import pytest\n\n@pytest.mark.xfail\ndef test_it(): raise ValueError\n"


def run_tests(folder: Path, body: str, *options: str, strict: bool) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    (folder / "conftest.py").write_text(CONFTEST.format(strict=strict))
    (folder / "test_sample.py").write_text(body)
    # Plugins that no sample needs take seconds to load.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_missing_part_is_listed_and_allowed(tmp_path: Path) -> None:
    done = run_tests(tmp_path, RARE, strict=False)
    assert done.returncode == 0
    assert "1 skipped, allowed without STRICT=1" in done.stdout
    assert "test_sample.py::test_needs_it: Unobtainium is missing" in done.stdout


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")])
def test_strict_turns_the_skip_into_a_failure(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run_tests(tmp_path, RARE, *options, strict=True)
    assert done.returncode == 1
    assert "1 skipped, which STRICT=1 counts as failure" in done.stdout


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 1)])
def test_strict_also_sees_a_whole_file_that_skips(tmp_path: Path, strict: bool, code: int) -> None:
    (tmp_path / "test_whole_file.py").write_text(WHOLE_FILE)
    done = run_tests(tmp_path, SHELL, strict=strict)
    assert done.returncode == code
    assert "test_whole_file.py: not here" in done.stdout


@pytest.mark.parametrize("body", [SHELL, EXPECTED_FAILURE])
def test_strict_passes_without_skips(tmp_path: Path, body: str) -> None:
    done = run_tests(tmp_path, body, strict=True)
    assert done.returncode == 0, done.stdout
