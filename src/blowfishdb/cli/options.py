"""Options that several commands share, and the backend or curator that a command opens."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blowfishdb.catalog import Curator, curate, read_config
from blowfishdb.cli.output import keep_log

if TYPE_CHECKING:
    from blowfishdb.session import Session


USUAL_CONFIG = Path("blowfish.toml")


def dataset_names(incomplete: str) -> list[str]:
    """The datasets whose names begin so, for the shell to complete; reads the configuration alone."""
    import tomllib

    try:
        text = Path(os.environ.get("BLOWFISH_CONFIG") or USUAL_CONFIG).read_text(encoding="utf-8")
        known = tomllib.loads(text).get("datasets", {})
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in known if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="The dataset.", autocompletion=dataset_names)]
OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A dataset; without it, all of them.", autocompletion=dataset_names),
]
Config = Annotated[
    Path,
    typer.Option("--config", "-c", metavar="FILE", envvar="BLOWFISH_CONFIG", help="The configuration."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]
Analyst = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", envvar="BLOWFISH_ANALYST", help="Who asks, and pays. Without it: the name of your login."
    ),
]
CuratorOption = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", envvar="BLOWFISH_CURATOR", help="Who acts, for the record. [your login]"),
]
Within = Annotated[
    str | None,
    typer.Option("--within", "--alpha", "--accuracy", metavar="NUMBER", help="Every answer this near the truth ..."),
]
Confidence = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="... with this probability, such as 0.95 (then --beta is 0.05).")
]
Beta = Annotated[str | None, typer.Option(metavar="NUMBER", help="... except with this probability. [0.05]")]
Epsilon = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Instead of --within: spend this, exactly: 0.1 or 1/3.")
]
Mechanism = Annotated[str | None, typer.Option(metavar="NAME", help="Use this mechanism, not the best one.")]
PerQuery = Annotated[
    bool, typer.Option("--per-query", help="The accuracy holds for each answer on its own, not for all at once.")
]


def login() -> str:
    """The name of whoever runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def existing(config: Path, by: str | None = None) -> Curator:
    """The curator of a configuration that is there; a mere look makes no new ledger."""
    read_config(config)
    return new_or_existing(config, by)


def new_or_existing(config: Path, by: str | None) -> Curator:
    """The curator of a configuration that is there or will be made."""
    keep_log(config)
    return curate(config, by=by or login())


def analyst_session(config: Path, analyst: str | None) -> Session:
    """An analyst's session; commands that open none do without the mechanisms and the numerics that it loads."""
    from blowfishdb.session import connect

    keep_log(config)
    return connect(config, analyst=analyst or login())
