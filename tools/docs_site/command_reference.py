"""The page of commands, from the command line's own application."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from blowfishdb.cli.app import app
from tools.docs_site.words import NOTE, code, table


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it, in the order of the help."""
    root = typer.main.get_command(app)

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
            return
        for name, one in inner.items():
            yield from below(f"{words} {name}", one)

    yield from below("blowfish", root)


def page() -> str:
    """Each command: what it does, how it is called, its options."""
    parts = [
        "# Commands",
        NOTE,
        "`blowfish COMMAND --help` shows the same in the terminal. [The command line](../command-line.md) explains it "
        "with more examples, the words of domains and policies, and the exit codes.",
    ]
    for words, command in commands():
        parts += [f"## {words}", *_command(words, command)]
    return "\n\n".join(parts)


def _command(words: str, command: Any) -> Iterator[str]:
    said = inspect.cleandoc(command.help or "").replace("\x08", "")
    text, _, examples = said.partition("Examples\n")
    yield text.strip()
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([words, *(one.metavar or one.name.upper() for one in arguments), "[OPTIONS]"])
    yield f"```text\n{usage}\n```"
    rows = [(_names(one), _meaning(one)) for one in command.params if one.name != "help"]
    yield table(("option", "meaning"), rows)
    if examples:
        yield "```bash\n" + inspect.cleandoc(examples) + "\n```"


def _names(one: Any) -> str:
    if one.param_type_name == "argument":
        return code(one.metavar or one.name.upper())
    names = ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))
    return f"{names} {one.metavar or ''}".strip()


def _meaning(one: Any) -> str:
    variable = f" (or the variable {code(one.envvar)})" if isinstance(getattr(one, "envvar", None), str) else ""
    return f"{getattr(one, 'help', None) or ''}{variable}"
