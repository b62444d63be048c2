"""Help is light, teaches by example, and the documentation names every command, option and exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from blowfishdb.cli import run
from blowfishdb.cli.app import app
from blowfishdb.cli.output import EXIT_CODES, KINDS, exit_code
from blowfishdb.errors import BlowfishError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text()
HEAVY = {"numpy", "scipy", "numba", "duckdb", "ibis", "sqlglot", "pandas", "matplotlib", "pydantic", "rich"}
MOST_MODULES = 330


def commands() -> Iterator[tuple[str, object]]:
    """Every command with the words that call it."""
    root = typer.main.get_command(app)
    waiting = [("blowfish", root)]
    while waiting:
        words, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
        else:
            waiting += [(f"{words} {name}", one) for name, one in inner.items()]


COMMANDS = dict(commands())


@pytest.mark.parametrize("group", ["", "dataset", "policy", "synopsis", "ledger", "user"])
def test_a_list_of_commands_ends_no_sentence_in_dots(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*group.split(), "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2]
    assert listed and "..." not in listed


def test_the_commands_are_those_we_know() -> None:
    assert set(COMMANDS) == {
        *(f"blowfish {name}" for name in ("demo", "serve", "preview", "release", "sql", "mcp", "reproduce", "audit")),
        *(f"blowfish {name}" for name in ("backup", "restore", "mechanisms")),
        *(
            f"blowfish dataset {name}"
            for name in ("add", "list", "show", "budget", "caps", "domain", "record", "refreshed", "remove", "try")
        ),
        *(f"blowfish policy {name}" for name in ("show", "check", "draw", "risk", "what-if", "set", "edit")),
        *(f"blowfish synopsis {name}" for name in ("preview", "make", "show", "ask", "rows")),
        *(f"blowfish user {name}" for name in ("add", "list", "disable", "password", "tokens", "cap")),
        *(f"blowfish access {name}" for name in ("show", "grant", "revoke", "group", "ask-first", "waiting", "decide")),
        *(f"blowfish ledger {name}" for name in ("show", "verify", "checkpoint", "export", "accept")),
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_documented_with_an_example(words: str) -> None:
    assert f"### {words}\n" in PAGE
    section = PAGE.split(f"### {words}\n")[1].split("\n#")[0]
    assert f"\n    {words}" in section


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_is_documented(words: str) -> None:
    options = [name for one in COMMANDS[words].params for name in one.opts if name.startswith("--")]  # type: ignore[attr-defined]
    missing = [name for name in options if not re.search(rf"{name}(?![\w-])", PAGE)]
    assert missing == []


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_teaches_by_example_and_speaks_json(words: str) -> None:
    command = COMMANDS[words]
    assert f"\n  {words}" in command.help  # type: ignore[attr-defined]
    assert "--json" in [name for one in command.params for name in one.opts]  # type: ignore[attr-defined]


def test_no_documented_command_is_missing() -> None:
    assert set(re.findall(r"^### (blowfish .+)$", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_exit_codes_are_documented() -> None:
    documented = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert documented == {str(code): meaning for code, meaning in EXIT_CODES.items()}


def test_every_error_has_an_exit_code() -> None:
    waiting = [BlowfishError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind is not BlowfishError:
            assert any(issubclass(kind, known) for known, _ in KINDS), kind
    assert exit_code(BlowfishError("x")) == 1


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = f"import sys; from blowfishdb.cli import run; run({list(arguments)!r}); print('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_help_is_light() -> None:
    modules = loaded("--help")
    assert HEAVY & modules == set()
    assert "blowfishdb.cli.dataset" not in modules
    assert len(modules) < MOST_MODULES


def test_help_of_a_command_is_light() -> None:
    assert (HEAVY - {"pydantic"}) & loaded("preview", "--help") == set()


def test_unknown_commands_and_options_are_code_2() -> None:
    for wrong in (["serv"], ["preview"], ["preview", "x", "--bogus"]):
        done = subprocess.run([sys.executable, "-m", "blowfishdb", *wrong], capture_output=True, text=True)
        assert done.returncode == 2
        assert "Usage: blowfish" in done.stderr
