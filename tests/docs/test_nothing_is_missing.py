"""Whatever is public is documented: names, routes, settings, mechanisms, commands and error codes."""

from __future__ import annotations

import inspect

import pytest

import blowfishdb as bf
from blowfishdb.catalog.config import DATASET_KEYS, KEYS
from blowfishdb.mechanisms.table import CHOICES, DATA_AWARE, MECHANISMS
from tests.cli.test_help import COMMANDS
from tests.docs.blocks import DOCS
from tools.docs_site import reference
from tools.docs_site.reference import first_line

REST_PAGE = (DOCS / "rest.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference() -> None:
    listed = [name for _, names in reference.GROUPS for name in names]
    assert sorted([*listed, reference.ANALYSIS]) == sorted(bf.__all__)
    page = reference.python_page()
    for name in listed:
        assert f"::: {reference.home_of(name)}\n" in page + "\n"
    for home, name in reference.analysis_names():
        assert f"::: blowfishdb.analysis.{home}.{name}" in page


@pytest.mark.parametrize("name", [name for name in bf.__all__ if name not in ("MECHANISMS", "analysis")])
def test_every_public_name_says_what_it_gives(name: str) -> None:
    thing = getattr(bf, name)
    assert first_line(thing), f"{name} has no docstring"
    if inspect.isclass(thing):
        silent = [
            key
            for key, one in vars(thing).items()
            if not key.startswith("_") and callable(one) and not inspect.getdoc(one)
        ]
        assert silent == [], f"{name} has methods without a docstring"


def test_every_route_is_described() -> None:
    page = reference.rest_page()
    for path, methods in reference.openapi()["paths"].items():
        for method, route in methods.items():
            short = path.removeprefix("/api/v1")
            assert f"### {method.upper()} {short}\n" in page
            assert f"`{method.upper()} {short}`" in REST_PAGE, f"{method.upper()} {short} is not in docs/rest.md"
            assert route.get("description"), f"{method.upper()} {short} says nothing of itself"


def test_every_setting_has_a_meaning() -> None:
    page = reference.setting_page()
    meanings = reference.meanings_of("configuration.md") | reference.meanings_of("server.md")
    silent = [entry.name for entry in reference.server_keys() if not meanings.get(entry.name)]
    silent += [key for key in DATASET_KEYS if not meanings.get(f"datasets.NAME.{key}")]
    silent += [key for key in KEYS if key != "datasets" and not meanings.get(key)]
    silent += [name for name in reference.variables_read() if name not in reference.VARIABLES]
    assert silent == []
    assert all(f"`{entry.name}`" in page for entry in reference.server_keys())


@pytest.mark.parametrize("name", [*MECHANISMS, *CHOICES, *DATA_AWARE])
def test_every_mechanism_is_described_and_proven(name: str) -> None:
    assert reference.proof_of(name), f"{name} has no proof note"
    line = next(line for line in reference.mechanism_page().split("\n") if line.startswith(f"| `{name}` |"))
    assert "|  |" not in line


def test_every_command_is_in_the_reference() -> None:
    page = reference.command_page()
    assert {words for words, _ in reference.commands()} == set(COMMANDS)
    for words, command in reference.commands():
        section = page.split(f"## {words}\n")[1].split("\n## ")[0]
        for option in command.params:
            assert all(f"`{name}`" in section for name in option.opts if name.startswith("--"))


def test_every_error_code_is_in_the_reference() -> None:
    page = reference.error_page()
    for kind in reference.all_errors():
        assert f"| `{kind.code}`<br>`{kind.__name__}` |" in page
        assert first_line(kind)


def test_refusals_of_sql_are_in_the_reference() -> None:
    page = reference.sql_page()
    assert "HAVING" in page and "confidence" in page and "bin_edges" in page
