"""The commands of `blowfish` and their groups."""

from __future__ import annotations

import typer

from blowfishdb.cli.audit import audit
from blowfishdb.cli.dataset import app as dataset
from blowfishdb.cli.demo import demo
from blowfishdb.cli.ledger import app as ledger
from blowfishdb.cli.policy import app as policy
from blowfishdb.cli.query import preview, release, sql
from blowfishdb.cli.reproduce import reproduce
from blowfishdb.cli.serve import serve
from blowfishdb.cli.synopsis import app as synopsis
from blowfishdb.cli.user import app as user

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
\b
For analysts
  blowfish preview visits --cdf cost --within 50       what it would cost
  blowfish release visits --cdf cost --within 50       the answer, charged
  blowfish sql "SELECT ward, COUNT(*) FROM visits GROUP BY ward" --within 20
  blowfish synopsis make visits --attributes cost --epsilon 0.3    then free
\b
For those who check the papers
  blowfish reproduce --quick                           their experiments, run again
"""

GROUPS = (
    ("dataset", dataset, "Add, list, show and remove datasets; keep their budgets."),
    ("policy", policy, "See, check, compare and change what is hidden."),
    ("synopsis", synopsis, "Publish a private table once; ask it for ever, free."),
    ("ledger", ledger, "See, verify and export what was charged."),
    ("user", user, "The people who may sign in to a server."),
)

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("demo")(demo)
app.command("serve")(serve)
for name, group, help_text in GROUPS:
    app.add_typer(group, name=name, help=help_text)
app.command("preview")(preview)
app.command("release")(release)
app.command("sql")(sql)
app.command("audit")(audit)
app.command("reproduce")(reproduce)


@app.callback(invoke_without_command=True)
def blowfish(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from importlib import metadata

        typer.echo(f"blowfish {metadata.version('blowfishdb')}")
        raise typer.Exit
