"""blowfish serve: the web pages and the REST API over the datasets of a configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config

Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen. [server.host, 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(metavar="NUMBER", help="Which port. [server.port, 8000]")]


def serve(
    host: Host = None,
    port: Port = None,
    curator: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the first curator, while there are no people.")
    ] = "curator",
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Serves the web pages and the REST API until Ctrl-C. A first curator gets a one-time password.

    \b
    Examples
      blowfish serve
      blowfish serve --config clinic/blowfish.toml --port 8443
    """
    from blowfishdb.cli.opening_server import run_from

    run_from(config, host, port, curator, as_json=as_json)
