"""Rules of the house that no linter checks: small files, a light import, a strict test set-up."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from tests.effort import left_for_the_night
from tools import coverage_floors
from tools.coverage_floors import FLOORS

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 800


def python_files() -> list[Path]:
    return [
        path
        for folder in ("src", "papers", "selfcheck", "benchmarks", "tools", "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]


def test_files_are_short() -> None:
    assert [path for path in python_files() if len(path.read_text().splitlines()) >= LONGEST_FILE] == []


def test_nothing_is_hidden_from_coverage() -> None:
    assert [path for path in python_files() if "pragma: " + "no cover" in path.read_text()] == []


def locked_properties(path: Path) -> list[str]:
    """Where a file takes the cached property of functools, which has one lock for all instances on Python 3.11."""
    text = path.read_text()
    if "functools" not in text or "cached_property" not in text:
        return []
    return [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.ImportFrom) and node.module == "functools" and "cached_property" in names_of(node))
        or (
            isinstance(node, ast.Attribute)
            and node.attr == "cached_property"
            and ast.unparse(node.value) == "functools"
        )
    ]


def names_of(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def test_no_cached_property_has_a_lock_that_analysts_share() -> None:
    files = [path for folder in ("src", "papers") for path in (ROOT / folder).rglob("*.py")]
    assert [place for path in files for place in locked_properties(path)] == []


@pytest.mark.parametrize(
    "text", ["from functools import cache, cached_property as lazy", "import functools\nf = functools.cached_property"]
)
def test_a_cached_property_with_a_lock_is_noticed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.py"
    path.write_text(text)
    assert len(locked_properties(path)) == 1


def test_importing_the_package_is_light() -> None:
    code = "import sys, blowfishdb; print(sorted({'numba', 'duckdb', 'opendp'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_warnings_are_errors_and_markers_are_declared(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("filterwarnings")[0] == "error"
    assert "--strict-markers" in pytestconfig.getini("addopts")


def test_the_repeatable_profile_is_derandomized() -> None:
    assert settings.get_profile("ci").derandomize
    assert settings.get_profile("nightly").max_examples > 10 * settings.get_profile("ci").max_examples
    assert settings.get_profile("default").deadline is None


def case_of(name: str, **marks: tuple[int, ...]) -> SimpleNamespace:
    made = {mark: SimpleNamespace(args=values) for mark, values in marks.items()}
    return SimpleNamespace(nodeid=name, get_closest_marker=made.get)


def test_the_first_case_of_every_so_many_of_a_sampled_test_is_in_every_run() -> None:
    some = [case_of(f"one.py::test[{number}]", sampled=(3,)) for number in range(5)]
    others = [case_of("one.py::other[0]", sampled=(3,)), case_of("one.py::night[0]", sampled=(3,), nightly=())]
    left = list(left_for_the_night([*some, *others, case_of("one.py::every[0]")]))  # type: ignore[list-item]
    assert left == [some[1], some[2], some[4]]


CORE = "def f(x):\n    y = 2\n    if x:\n        y = 1\n    return y\n"
HALF = "from blowfishdb.plan.core import f\n\ndef test_f():\n    assert f(True) == 1\n"
WHOLE = HALF + "    assert f(False) == 2\n"


@pytest.mark.parametrize(("tests", "passes"), [(WHOLE, True), (HALF, False)])
def test_the_trusted_core_needs_every_branch(tmp_path: Path, tests: str, passes: bool) -> None:
    package = tmp_path / "src" / "blowfishdb"
    for room in FLOORS:
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").write_text("" if room == "plan" else "REACHED = True\n")
    imports = "".join(f"import blowfishdb.{room}\n" for room in FLOORS)
    (package / "__init__.py").touch()
    (package / "plan" / "core.py").write_text(CORE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_core.py").write_text(imports + tests)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_cov", "--cov", "--cov-report=json:coverage.json"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert coverage_floors.main([str(tmp_path / "coverage.json")]) == (0 if passes else 1)


def test_make_names_the_python_it_needs(tmp_path: Path) -> None:
    command = ["make", "setup", "PYTHON=false", f"VENV={tmp_path}/venv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "needs Python 3.11 to 3.14" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_alone_lists_the_commands() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for command in ("setup", "demo", "test", "lint", "bench", "clean"):
        assert f"make {command} " in done.stdout
