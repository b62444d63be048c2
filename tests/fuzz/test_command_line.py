"""The command line: whatever is typed, a command ends with a documented exit code and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.core import TyperArgument

from blowfishdb.cli import run
from blowfishdb.cli.output import EXIT_CODES
from blowfishdb.errors import BlowfishError
from tests.cli.conftest import template
from tests.cli.test_help import COMMANDS
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import NASTY_TEXTS
from tests.fuzz.incidents import no_incidents

__all__ = ["template"]
LASTING = {f"blowfish {name}" for name in ("audit", "demo", "mcp", "reproduce", "serve")}
"""Commands that serve until they are stopped, or count for minutes: here they are never begun, only misspelt."""
WORDS = [
    *("people", "age", "state", "cost", "who", "row", "NC", "ana", "cora", "people.csv", "x.json", "blowfish.toml"),
    *("age=0..99", "age=0..99 null=0", "state=NC, VA", "cost=0..400 step 10", "age=within 5", "-", "age=edges"),
    *("duckdb:///x.duckdb#t", "people.csv", "postgresql://a:${B}@127.0.0.1:1/c#d", "curator", "analyst", "2024-01-01"),
    *("age > 3", "state in ('NC')", "age, state", "SELECT state, COUNT(*) FROM people GROUP BY state", "state=public"),
    *("0.1", "1/3", "5 %", "50", "0", "-1", "1e999999999", "nan", "identity", "dawa", "split=0.3", "sum", "per-edge"),
    *("count(age = 1)", "backup.zip", ".", "/", "/nowhere/at/all", "age=30", "age=31", "everyone", "ask", "person=who"),
]  # fmt: skip
TEXT = st.sampled_from(WORDS) | st.sampled_from(WORDS) | st.sampled_from(NASTY_TEXTS)
NUMBER = st.sampled_from(["0", "1", "2", "5", "50", "-1", "99999999999999999999", "1.5", "x", ""])


def value(option: Any) -> st.SearchStrategy[str]:
    """Words for an option or an argument."""
    is_number = option.type_descriptor.annotation in (int, float)
    usual = st.just(str(option.default)) if isinstance(option.default, str | int | float) else TEXT
    return usual | (NUMBER | TEXT if is_number else TEXT)


@st.composite
def typed(draw: st.DrawFn) -> list[str]:
    """A command with arguments and options, most of them known."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    words = name.split()[1:]
    options: list[list[str]] = []
    for option in COMMANDS[name].params:  # type: ignore[attr-defined]
        is_argument = isinstance(option, TyperArgument)
        if is_argument:
            words += [draw(st.just("people") | value(option)) for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))]
        elif draw(st.integers(1, 2 if option.required else 5)) == 1:
            written = draw(st.sampled_from([*option.opts, *option.secondary_opts]))
            is_flag = getattr(option, "is_flag", False)
            options.append([written] if is_flag else [written, draw(value(option))])
    words += [word for option in draw(st.permutations(options)) for word in option]
    if name in LASTING:
        words.append("--no-such-option")
    elif draw(st.integers(1, 10)) == 1:
        words.insert(draw(st.integers(0, len(words))), draw(TEXT))
    return words


class Folder:
    """A folder with a dataset, as it was, for each command."""

    def __init__(self, template: Path, path: Path) -> None:
        self.template, self.path = template, path

    def renew(self) -> None:
        for one in self.path.iterdir():
            if one.is_dir():
                shutil.rmtree(one)
            else:
                one.unlink()
        for one in self.template.iterdir():
            shutil.copy(one, self.path / one.name)


@pytest.fixture(scope="module")
def folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    path = tmp_path_factory.mktemp("typed") / "a" / "b" / "c" / "d"
    path.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("XDG_STATE_HOME", str(path / "state"))
        patch.setenv("HOME", str(path))
        patch.setenv("COLUMNS", "120")
        patch.setenv("EDITOR", "true")
        for name in ("BLOWFISH_CONFIG", "BLOWFISH_ANALYST", "BLOWFISH_CURATOR"):
            patch.delenv(name, raising=False)
        yield Folder(template, path)


def ended(work: Callable[[], int]) -> tuple[int, str, str]:
    """The exit code and what was printed; nobody answers a prompt."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO())
        code = outcome(work)
    assert not isinstance(code, BlowfishError), "errors are printed, never raised"
    return code, out.getvalue(), err.getvalue()


@given(words=typed())
@effort(80)
def test_whatever_is_typed(folder: Folder, words: list[str]) -> None:
    folder.renew()
    with no_incidents():
        code, out, err = ended(lambda: run(words))
    assert code in EXIT_CODES and code not in (1, 130), (code, out[-300:], err[-300:])
    assert "Traceback" not in out + err
    assert code in (0, 8) or err.strip(), "a refusal says why"
