"""Options that several commands share."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

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
Curator = Annotated[
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
