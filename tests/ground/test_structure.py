"""What keeps the house small: every module is reached from a face, and tiny modules live with their only reader."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from blowfishdb.server.pages import PAGES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
FACES = ("blowfishdb", "blowfishdb.__main__", "blowfishdb.cli.app", "blowfishdb.server.app")
IMPORTED = re.compile(r"^\s*import ([\w.]+)", re.MULTILINE)
IMPORTS = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
QUOTED = re.compile(r"\"([\w.]+)\"")
WORD = re.compile(r"\w+")
SMALL = 60
"""A module with fewer lines and one importer in its room belongs inside that importer."""


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    names = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(path: Path, names: Mapping[str, object]) -> set[str]:
    """The modules that a file imports anywhere, or names in a text such as a table of lazily loaded modules."""
    return {name for name in mentioned(path) if name in names}


@functools.cache
def mentioned(path: Path) -> frozenset[str]:
    """Everything that a file imports, and every text that could be the name of a module."""
    text, room = path.read_text(), _room(path)
    names = set(IMPORTED.findall(text))
    for module, imports in IMPORTS.findall(text):
        names |= {module, *(f"{module}.{name}" for name in WORD.findall(imports))}
    for quoted in QUOTED.findall(text):
        names |= {f"blowfishdb.{quoted}", f"{room}.{quoted}"}
    return frozenset(names)


def _room(path: Path) -> str:
    return (
        ".".join(("blowfishdb", *path.relative_to(SOURCE / "blowfishdb").parts[:-1])) if SOURCE in path.parents else ""
    )


def unreached(names: Mapping[str, Path]) -> set[str]:
    """The modules that no face leads to."""
    reached, waiting = set[str](), [*FACES, *(f"blowfishdb.server.pages.{page}" for page in PAGES)]
    while waiting:
        name = waiting.pop()
        if name in names and name not in reached:
            reached.add(name)
            waiting += [*imported(names[name], names), name.rpartition(".")[0]]
    return set(names) - reached


def lonely(names: Mapping[str, Path]) -> Iterator[str]:
    """Small modules with a single importer in their room, and none elsewhere."""
    readers: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for other in imported(path, names) - {name}:
            readers[other].add(name)
    for name, path in names.items():
        is_room = path.name in ("__init__.py", "__main__.py")
        if not is_room and len(path.read_text().splitlines()) < SMALL and len(readers[name]) == 1:
            (reader,) = readers[name]
            if reader.split(".")[:2] == name.split(".")[:2]:
                yield f"{name} belongs inside {reader}"


def test_every_module_is_reached_from_a_face() -> None:
    assert unreached(modules()) == set()


def test_a_module_that_nothing_imports_is_noticed(tmp_path: Path) -> None:
    stray = tmp_path / "stray.py"
    stray.write_text("x = 1\n")
    assert unreached({**modules(), "blowfishdb.model.stray": stray}) == {"blowfishdb.model.stray"}


def test_small_modules_with_one_reader_are_inside_it() -> None:
    # Compiled loops are imported on first use, because numba loads slowly.
    assert [line for line in lonely(modules()) if ".kernels " not in line] == []


def test_a_small_module_with_one_reader_is_noticed(tmp_path: Path) -> None:
    tiny, reader = tmp_path / "tiny.py", tmp_path / "reader.py"
    tiny.write_text("x = 1\n")
    reader.write_text("from blowfishdb.plan.tiny import x\n" + "y = x\n" * SMALL)
    names = {"blowfishdb.plan.tiny": tiny, "blowfishdb.plan.reader": reader}
    assert list(lonely(names)) == ["blowfishdb.plan.tiny belongs inside blowfishdb.plan.reader"]


TYPE = re.compile(r"^ *class (\w+)|^([A-Z]\w*[a-z]\w*)(?:: TypeAlias)? = (?!TypeVar\()", re.MULTILINE)
TYPE_VARIABLE = re.compile(r"^(\w+) = TypeVar\(", re.MULTILINE)
SAME = {"Floats", "Ints"}
"""Aliases that mean the same wherever they stand: noise imports nothing of the model."""


def repeated_types(names: Mapping[str, Path]) -> dict[str, list[str]]:
    """The names that several modules give to a class, an alias or, beside these, a type variable, with the modules."""
    places: dict[str, list[str]] = {}
    for module, path in names.items():
        for groups in TYPE.findall(path.read_text()):
            places.setdefault("".join(groups), []).append(module)
    for module, path in names.items():
        for name in TYPE_VARIABLE.findall(path.read_text()):
            if name in places:
                places[name].append(module)
    return {name: modules for name, modules in places.items() if len(modules) > 1 and name not in SAME}


def test_a_type_name_means_one_thing() -> None:
    assert repeated_types(modules()) == {}


@pytest.mark.parametrize(
    "line", ["class Policy:", "Policy = str | int", "Policy: TypeAlias = str", "Policy = TypeVar("]
)
def test_a_type_name_of_two_meanings_is_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(f"{line}\n")
    places = repeated_types({**modules(), "blowfishdb.other": tmp_path / "other.py"})
    assert places["Policy"] == ["blowfishdb.model.policy", "blowfishdb.other"]


def wishes() -> list[tuple[str, list[str]]]:
    """The map of CONTRIBUTING.md: what somebody wants to change, and the files to open."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (?!I want)([^|]+) \| ([^|]+) \|$", text.partition("## Where to look")[2], re.MULTILINE)
    return [(wish.strip(), re.findall(r"`([^`]+)`", places)) for wish, places in rows if "---" not in wish]


def test_the_map_has_twenty_wishes() -> None:
    assert len(wishes()) >= 20


@pytest.mark.parametrize(("wish", "places"), wishes(), ids=[wish for wish, _ in wishes()])
def test_the_map_leads_to_files_and_names_that_exist(wish: str, places: list[str]) -> None:
    assert places, wish
    for place in places:
        file, _, name = place.partition(":")
        path = ROOT / file if (ROOT / file).exists() else SOURCE / "blowfishdb" / file
        assert path.exists(), place
        assert not name or re.search(rf"(def|class) {name}\b|^{name}\b", path.read_text(), re.MULTILINE), place
