"""What is built is whole: the wheel has code, data and entry point; the sources build again; versions agree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from blowfishdb.cli import output

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CONTAINER = ROOT / "Containerfile"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sources."""
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_the_wheel_is_whole(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "blowfish = blowfishdb.cli:main" in archive.read(entry).decode()
    code = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert code <= names
    for part in ("py.typed", "__main__.py", "data/adult.parquet", "data/README.md", "model/policy.schema.json"):
        assert f"blowfishdb/{part}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [
        name for name in names if name.startswith(("tests", "papers", "selfcheck", "benchmarks", "tools", "docs"))
    ]


def test_the_sources_are_whole(built: Path) -> None:
    (sources,) = built.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for part in ("README.md", "LICENSE", "CHANGELOG.md", "Makefile", "mkdocs.yml", "constraints.txt", "Containerfile"):
        assert part in names
    for folder in ("src/blowfishdb", "tests", "docs", "examples", "benchmarks", "tools", "papers", "selfcheck"):
        assert any(name.startswith(f"{folder}/") for name in names)


def test_the_version_is_in_step_everywhere() -> None:
    version = PROJECT["version"]
    assert metadata.version("blowfishdb") == version
    newest = re.search(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert newest is not None
    if ".dev" in version:
        assert newest[1] == "Unreleased"
    else:
        assert re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", newest[1])
    assert "__version__" not in (ROOT / "src/blowfishdb/__init__.py").read_text(encoding="utf-8")


def test_python_m_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "blowfishdb", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"blowfish {PROJECT['version']}"


@pytest.mark.parametrize("package", output.EXTRA_OF)
def test_every_extra_exists_and_brings_its_package(package: str) -> None:
    brought = " ".join(PROJECT["optional-dependencies"][output.EXTRA_OF[package]])
    assert package in brought.replace("argon2-cffi", "argon2") or package == "starlette"


def test_a_missing_package_names_its_extra() -> None:
    code = "import sys; sys.modules['argon2'] = None; from blowfishdb.cli import run; sys.exit(run(['user', 'list']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "blowfishdb[server]" in done.stderr


def test_a_package_of_no_extra_is_a_fault_of_ours() -> None:
    assert output.missing_extra(ModuleNotFoundError("x", name="nothing_of_ours")) is None


def test_the_container_file_is_in_order() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([str(linter), str(CONTAINER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = CONTAINER.read_text(encoding="utf-8")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images and all("/" not in image and "." not in image.partition(":")[0] for image in images)
    assert re.search(r"^USER (?!root|0)\S+", text, re.MULTILINE)
    assert "HEALTHCHECK" in text and "VOLUME" in text
    wanted = re.search(r'"\.\[([\w,]+)\]"', text)
    assert wanted is not None
    assert set(wanted[1].split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_linter_can_refuse(tmp_path: Path) -> None:
    bad = tmp_path / "Containerfile"
    shutil.copy(CONTAINER, bad)
    bad.write_text(bad.read_text().replace("python:3.12-slim AS build", "python AS build"))
    linter = Path(sys.executable).parent / "hadolint"
    assert subprocess.run([str(linter), str(bad)], capture_output=True, check=False).returncode != 0
