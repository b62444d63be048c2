"""The test-run and the set-up: missing system parts are found, installed or named, and STRICT=1 fails on a skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import setup_venv, system_parts
from tools.system_parts import Part

HERE = Part("Python", "snake", (sys.executable,), ("python3",))
NOWHERE = Part("Unobtainium", "rare", ("no-such-program", "/no/such/*/program"), ("unobtainium", "its-tools"))


def write_test(folder: Path, body: str) -> None:
    (folder / "test_it.py").write_text(f"import pytest\n\n{body}\n")


def test_a_part_is_found_on_path_or_by_pattern(tmp_path: Path) -> None:
    (tmp_path / "v15").mkdir()
    (tmp_path / "v15" / "initdb").touch()
    assert Part("sh", "sh", ("sh",), ()).is_present()
    assert Part("pattern", "p", (f"{tmp_path}/*/initdb",), ()).is_present()
    assert not NOWHERE.is_present()


def test_only_real_uses_of_a_marker_count(tmp_path: Path) -> None:
    write_test(tmp_path, 'pytestmark = pytest.mark.rare\ntext = "pytest.mark.snake"')
    assert system_parts.used_markers(tmp_path) == {"rare"}


def test_nothing_is_missing_unless_a_marker_needs_it() -> None:
    assert system_parts.missing_parts([HERE, NOWHERE], ["snake"]) == []
    assert system_parts.missing_parts([HERE, NOWHERE], ["snake", "rare"]) == [NOWHERE]


@pytest.mark.parametrize(("is_root", "has_apt"), [(False, True), (True, False), (False, False)])
def test_no_command_without_root_and_apt(is_root: bool, has_apt: bool) -> None:
    assert system_parts.install_commands([NOWHERE], is_root=is_root, has_apt=has_apt) == []


def test_root_with_apt_installs_every_package() -> None:
    update, install = system_parts.install_commands([NOWHERE], is_root=True, has_apt=True)
    assert update[:2] == ["apt-get", "update"]
    assert install[-2:] == ["unobtainium", "its-tools"]
    assert system_parts.install_commands([], is_root=True, has_apt=True) == []


def test_a_dry_run_runs_nothing_and_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("a dry run must not run commands")

    monkeypatch.setattr(system_parts.subprocess, "run", refuse)
    monkeypatch.setattr(system_parts.os, "geteuid", lambda: 0)
    monkeypatch.setattr(system_parts.shutil, "which", lambda name: "/bin/apt-get" if name == "apt-get" else None)
    write_test(tmp_path, "@pytest.mark.rare\ndef test_it(): pass")
    system_parts.ensure([NOWHERE], tmp_path, dry_run=True)
    printed = capsys.readouterr().out
    assert "apt-get install -y -qq --no-install-recommends unobtainium its-tools" in printed
    assert "Unobtainium is missing" in printed
    with pytest.raises(RuntimeError):
        system_parts.ensure([NOWHERE], tmp_path, dry_run=False)


def test_every_part_of_the_table_has_its_own_marker_and_a_package() -> None:
    markers = [part.marker for part in system_parts.PARTS]
    assert sorted(set(markers)) == sorted(markers)
    assert all(part.apt and part.programs for part in system_parts.PARTS)


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


def test_uv_asks_where_pip_is_told_to() -> None:
    listed = """:env:.find-links='/wheels /more'
global.extra-index-url='/one /two'
global.find-links='/others'
global.timeout='60'
"""
    assert setup_venv.uv_settings(listed) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INDEX": "/one /two",
        "UV_FIND_LINKS": "/wheels,/more",
    }


def test_a_long_step_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_venv, "SAY_EVERY", 0.05)
    slow = [sys.executable, "-c", "import time; print('Collecting ibis', flush=True); time.sleep(1)"]
    assert setup_venv.run_quietly(slow, tmp_path / "log")
    assert "Collecting ibis, 0 s" in capsys.readouterr().out


def test_a_failure_shows_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not setup_venv.run_quietly(
        [sys.executable, "-c", "import sys; print('no such package'); sys.exit(1)"], tmp_path / "log"
    )
    assert "no such package" in capsys.readouterr().err
