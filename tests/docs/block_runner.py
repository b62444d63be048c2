"""Runs the blocks of a page as a reader would: Python in one namespace, commands in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from benchmarks import harness
from blowfishdb.cli import run
from tests.cli.test_examples import parses
from tests.docs.blocks import ROOT, Block, commands
from tests.docs.worlds import World

SHELL = ("", "bash", "console", "sh")
SHOWN = ("text", "http", "sql", "dot", "diff", "mermaid")
"""Languages of blocks that show something and are no code."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN_ELSEWHERE = {
    ("demo",): "runs until it is stopped: tests/cli/test_demo.py, tests/browser",
    ("serve",): "runs until it is stopped: tests/server/test_serving.py",
    ("mcp",): "runs until it is stopped: tests/cli/test_mcp.py",
    ("reproduce",): "takes minutes: tests/papers",
    ("audit",): "takes minutes: tests/audit",
    ("policy", "edit"): "asks in a terminal: tests/cli/test_policy.py",
    ("backup", "/var/backups/blowfish"): "is for a folder of the server: tests/cli/test_backup.py",
    ("restore",): "is for a lost ledger: tests/cli/test_backup.py",
    ("ledger", "accept"): "is for restored ledgers alone: tests/cli/test_ledger.py",
}
"""Commands that end only when somebody acts, and the tests that run them; here their options are read."""
EXTRA = re.compile(r"(?:blowfishdb|\.)(?:\[([\w,-]+)\])?$")


class Unknown(AssertionError):
    """A command that nothing here can run."""


def run_block(block: Block, world: World) -> None:
    """Runs a block, or checks what it shows; an exception says what is wrong with it."""
    if block.language == "python":
        exec(compile(plain_python(block.text), block.where, "exec"), world.names)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif not block.language and block.page.startswith("docs/proofs/"):
        pass  # a formula
    elif block.language in SHELL:
        for line in commands(block.text):
            run_line(line, world)
    elif block.language not in SHOWN:
        raise Unknown(f"{block.where}: nothing here runs {block.language!r}; show it as text if it is no code")


def run_each_anew(block: Block, world: World, kept: Path) -> None:
    """Runs each command line of a block in the folder as it was at first; `kept` is a copy of that."""
    for line in commands(block.text):
        run_line(line, world)
        shutil.rmtree(world.folder)
        shutil.copytree(kept, world.folder)
        os.chdir(world.folder)


def plain_python(text: str) -> str:
    """Code without prompts and without what was printed."""
    if not text.startswith(">>> "):
        return text
    return "\n".join(line[4:] for line in text.split("\n") if line.startswith((">>> ", "... "))) + "\n"


def run_line(line: str, world: World) -> None:
    """Runs one command line; AssertionError unless it ends well."""
    words = shlex.split(re.sub(r"\s#\s.*$", "", line))
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    if "|" in words:
        words = words[: words.index("|")]
    known = RUNNERS.get(words[0])
    if known is None:
        raise Unknown(f"nothing here runs {line!r}")
    known(words, world)


def _blowfish(words: list[str], world: World) -> None:
    if (
        not world.has_servers
        and words[1:3] == ["dataset", "add"]
        and re.search(r"(postgresql|mysql)://", shlex.join(words))
    ):
        parses(words[1:])  # the pages for the first ten minutes and tests/sources have real servers
        return
    if any(words[1 : 1 + len(known)] == list(known) for known in RUN_ELSEWHERE):
        parses(words[1:])
        return
    code = run(words[1:])
    assert code == 0, f"{shlex.join(words)} ended with {code}"


def _python(words: list[str], world: World) -> None:
    """Programs of the project are run or named; benchmarks are named, since they have tests of their own."""
    if words[1:3] == ["-m", "benchmarks"]:
        assert all(name in harness.available() for name in words[3:4] if not name.startswith("-"))
        return
    if words[1] == "-m" and words[2] == "blowfishdb":
        _blowfish(words[2:], world)
        return
    if words[1].startswith("examples/"):
        assert (ROOT / words[1]).exists()
        return
    ended = subprocess.run([sys.executable, *words[1:]], cwd=world.folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def _pip(words: list[str], world: World) -> None:
    """Whether what is installed is a package of ours with extras that exist."""
    del world
    assert words[1] == "install"
    for word in words[2:]:
        found = EXTRA.match(word)
        assert found, f"{word!r} is not ours"
        for extra in (found[1] or "").split(","):
            assert not extra or extra in PROJECT["optional-dependencies"], f"there is no extra {extra!r}"


def _make(words: list[str], world: World) -> None:
    """Whether there is such a target; what it does is what the tests run."""
    del world
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for word in words[1:]:
        assert "=" in word or word in targets, f"make has no {word!r}"


RUNNERS: dict[str, Callable[[list[str], World], None]] = {
    "blowfish": _blowfish,
    "python": _python,
    ".venv/bin/python": _python,
    "pip": _pip,
    "pipx": lambda words, world: None,
    "make": _make,
}
