"""The commands of `blowfish` and their groups."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from blowfishdb.cli.audit import audit, reproduce
from blowfishdb.cli.backup import backup, restore
from blowfishdb.cli.mcp import mcp
from blowfishdb.cli.query import mechanisms, preview, release, sql
from blowfishdb.cli.serve import demo, serve

HELP = """Ask counting questions about sensitive tables, with proven privacy and stated accuracy.

A curator adds a dataset: what the public may know about it, what is hidden, and its budget. An analyst previews a
question for nothing and releases its answer. Every charge is in the ledger.

\b
Start here
  blowfish demo            the web pages over real census data; --tour: in the terminal
\b
For curators
  blowfish dataset add visits --source postgresql://localhost/clinic#visits
  blowfish policy what-if visits --attribute cost --within 50
  blowfish ledger verify
  blowfish audit --quick   tests every claim about privacy; with a dataset's name, its own
  blowfish serve           web pages and REST for people who sign in
  blowfish backup FILE     ledger, users and configuration, while serving; blowfish restore FILE
  blowfish access grant visits ana    on a server a dataset is for those it is granted to
\b
For analysts
  blowfish preview visits --cdf cost --within 50       what it would cost
  blowfish release visits --cdf cost --within 50       the answer, charged
  blowfish sql "SELECT ward, COUNT(*) FROM visits GROUP BY ward" --within 20
  blowfish synopsis make visits --attributes cost --epsilon 0.3    then free
  blowfish mcp --analyst ana --spend 0.2               for an assistant, within a cap
\b
For those who check the papers
  blowfish reproduce --quick                           their experiments, run again
"""

GROUPS = {
    "dataset": "Add, list, show and remove datasets; keep their budgets.",
    "policy": "See, check, compare and change what is hidden.",
    "synopsis": "Publish a private table once; asking it is free.",
    "ledger": "See, verify and export what was charged.",
    "user": "The people who may sign in to a server.",
    "access": "Who may use which dataset, and approvals.",
}
"""Groups of commands, each in the module of its name."""


class LazyGroup(TyperGroup):
    """A group whose commands are read when one of them is called or listed; the general help does without them."""

    _commands: MutableMapping[str, Any]

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """The commands by name."""
        if not self._commands:
            self._commands = typer.main.get_group(import_module(f"blowfishdb.cli.{self.name}").app).commands
        return self._commands

    @commands.setter
    def commands(self, commands: MutableMapping[str, Any]) -> None:
        self._commands = commands


app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("demo")(demo)
app.command("serve")(serve)
for name, help_text in GROUPS.items():
    app.add_typer(typer.Typer(cls=LazyGroup), name=name, help=help_text, no_args_is_help=True)
app.command("preview")(preview)
app.command("release")(release)
app.command("sql")(sql)
app.command("mechanisms")(mechanisms)
app.command("mcp")(mcp)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("audit")(audit)
app.command("reproduce")(reproduce)


@app.callback(invoke_without_command=True)
def blowfish(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from importlib import metadata

        typer.echo(f"blowfish {metadata.version('blowfishdb')}")
        raise typer.Exit
