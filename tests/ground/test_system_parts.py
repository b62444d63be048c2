"""What tests need from the system is declared, found, installed where possible and named otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import system_parts
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
