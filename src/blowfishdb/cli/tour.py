"""blowfish demo: a tour with real census data, made of the commands that anybody can type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import AsJson
from blowfishdb.cli.stops import STOPS


def demo(
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to work; new or empty. [a temporary folder]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A tour with real census data, in a scratch folder: curator, analyst, plots and ledger in a few seconds.

    \b
    Examples
      blowfish demo
      blowfish demo --folder tour
    """
    from blowfishdb.cli.guide import walk

    walk(STOPS, folder, as_json=as_json)
