"""blowfish demo: the web pages over real census data; or a tour of the commands that anybody can type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import AsJson
from blowfishdb.cli.serving import Port
from blowfishdb.cli.stops import STOPS


def demo(
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to work; new or empty. [a temporary folder]")
    ] = None,
    tour: Annotated[bool, typer.Option("--tour", help="A tour in the terminal in place of the web pages.")] = False,
    port: Port = None,
    browser: Annotated[bool, typer.Option(help="Open the pages in a browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Opens the web pages over real census data. In a scratch folder, with a curator and an analyst to sign in as.

    \b
    Examples
      blowfish demo
      blowfish demo --tour
      blowfish demo --folder demo --port 8080 --no-browser
    """
    if tour:
        from blowfishdb.cli.guide import walk

        walk(STOPS, folder, as_json=as_json)
        return
    from blowfishdb.cli.guide import prepared_demo
    from blowfishdb.cli.opening_server import run_demo

    run_demo(prepared_demo(STOPS[0], folder), port, browser=browser, as_json=as_json)
