"""blowfish serve and blowfish demo: the web pages and REST over the datasets of a configuration."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config
from blowfishdb.cli.output import keep_log, print_json, print_result, say
from blowfishdb.errors import CatalogError, ExtraMissing

if TYPE_CHECKING:
    from blowfishdb.server.state import AppState


Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen. [server.host, 127.0.0.1]")]
Port = Annotated[int | None, typer.Option(metavar="NUMBER", help="Which port. [server.port, 8000]")]
PostgresPort = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="Speak the PostgreSQL protocol on this port. [server.postgres]")
]


def serve(
    host: Host = None,
    port: Port = None,
    postgres: PostgresPort = None,
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
      blowfish serve --postgres 5433
    """
    from blowfishdb.catalog.config import USUAL_LEDGER
    from blowfishdb.server.app import run_server
    from blowfishdb.server.middleware import log_to_stderr

    if not config.exists():
        config.write_text(f'ledger = "{USUAL_LEDGER}"\n', encoding="utf-8")
    app_state = opened(config, host, port, postgres)
    settings = app_state.settings
    try:
        # Before the first curator is made: a password that no server gets to print would be lost.
        check_port(settings.host, settings.port)
        if settings.postgres is not None:
            check_port(settings.host, settings.postgres, "--postgres")
    except CatalogError:
        app_state.close()
        raise
    log_to_stderr()
    password = first_curator(app_state, curator)

    def announce() -> None:
        url = settings.url
        if settings.is_exposed:
            typer.echo(EXPOSED, err=True)
        if as_json:
            first = None if password is None else {"name": curator, "password": password}
            print_json({"url": url, "postgres": settings.postgres, "first_curator": first})
            return
        if password is not None:
            say("Nobody has an account yet. The first curator signs in with")
            say(f"  name      {curator}\n  password  {password}", style="bold")
            say("which is changed at the first sign-in. It is shown this once.")
        elif not any(person.role == "curator" and not person.is_disabled for person in app_state.users.all()):
            say("Nobody can sign in as a curator: blowfish user add NAME --role curator")
        say(f"BlowfishDB is at {url} (Ctrl-C stops it)")
        if settings.postgres is not None:
            say(f"Tools connect to port {settings.postgres} with a user's name, and a token of theirs as the password")

    run_server(app_state, announce)


EXPOSED = (
    "Warning: other machines can reach this server without TLS, and passwords and answers travel unencrypted. Give "
    "[server] a certificate and key, or put a proxy with TLS in front and set public_url to its https:// address."
)


def opened(config: Path, host: str | None, port: int | None, postgres: int | None = None) -> AppState:
    """The state of a server over a configuration, listening where the command line says."""
    from blowfishdb.catalog.config import read_config

    try:
        from blowfishdb.server.settings import read_settings
        from blowfishdb.server.state import open_app_state
    except ImportError as missing:
        raise ExtraMissing(missing.name or "the server", "server") from None
    settings = read_settings(read_config(config))
    keep_log(config)
    chosen = replace(
        settings,
        host=host or settings.host,
        port=settings.port if port is None else port,
        postgres=settings.postgres if postgres is None else postgres,
    )
    return open_app_state(config, settings=chosen)


@contextmanager
def server_state(config: Path) -> Iterator[AppState]:
    """The state of a server over a configuration, for a command that serves nothing."""
    app_state = opened(config, None, None)
    try:
        yield app_state
    finally:
        app_state.close()


def forget_access(config: Path, dataset: str) -> None:
    """Drops what was granted of a dataset that is gone, where a server has users."""
    from blowfishdb.catalog.config import USUAL_USERS, read_config

    users = str(read_config(config).server.get("users", USUAL_USERS))
    if users.startswith("sqlite:///") and not (config.parent / users.removeprefix("sqlite:///")).exists():
        return
    with suppress(ExtraMissing), server_state(config) as state:
        state.grants.forget(dataset)
        state.approvals.forget(dataset)


def first_curator(app_state: AppState, name: str) -> str | None:
    """The one-time password of the first curator; None when there are people already."""
    from blowfishdb.server.auth.users import new_password

    if app_state.users.all():
        return None
    password = new_password()
    app_state.users.add(name, "curator", password)
    app_state.audit_log.note("console", "added a person", name, {"role": "curator"})
    return password


def run_demo(place: Path, port: int | None, postgres: int | None, *, browser: bool, as_json: bool) -> None:
    """Serves the demo's folder with one curator and one analyst, whose passwords are printed.

    With a port for the PostgreSQL protocol, the analyst gets a token for it too.
    """
    from blowfishdb.server.app import run_server
    from blowfishdb.server.auth.users import new_password

    app_state = opened(place / "blowfish.toml", HERE, port or free_port(8001 if postgres == 8000 else 8000), postgres)
    roles, passwords = {"cora": "curator", "ana": "analyst"}, {}
    for name, role in roles.items():
        passwords[name] = new_password()
        app_state.users.add(name, role, passwords[name], must_change=False)
    for dataset in app_state.curator("cora").datasets():
        app_state.grants.hand_over(dataset, "cora", everyone=True)
    address = None
    if postgres is not None:
        token = app_state.tokens.issue("ana", "tools of the demo", ["ask"], 1)[0]
        address = f"postgresql://ana:{token}@{HERE}:{postgres}/blowfish"

    def announce() -> None:
        url = app_state.settings.url
        lines = [f"  sign in as the {role}:  {name}  {passwords[name]}" for name, role in roles.items()]
        if not as_json:
            say(f"BlowfishDB is at {url}", style="bold")
        result = {"folder": str(place), "url": url, "users": passwords, "postgres": address}
        print_result(result, *lines, as_json=as_json)
        if as_json:
            return
        if address is not None:
            # In one line however narrow the terminal is: it is copied.
            typer.echo(f"  with a tool, as ana:  psql {address}")
        say(f"Everything is in {place}. Ctrl-C stops it.", style="dim")
        if browser:
            import webbrowser

            webbrowser.open(url)

    run_server(app_state, announce)


HERE = "127.0.0.1"
"""Where the demo listens."""


def free_port(wanted: int = 8000) -> int:
    """The usual port, or another one where somebody listens there already."""
    for port in (wanted, 0):
        try:
            return _bound(socket.AF_INET, (HERE, port))
        except OSError:
            continue
    raise CatalogError("no port is free; name one with --port")


def check_port(host: str, port: int, option: str = "--port") -> None:
    """CatalogError where a server cannot listen, with what to do about it."""
    if not 1 <= port <= 65_535:
        raise CatalogError(f"{option} is a number from 1 to 65535, not {port}")
    faults: list[int | None] = []
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        places = []
    for family, *_, place in places:
        try:
            _bound(family, place)
            faults.append(None)
        except OSError as fault:
            faults.append(fault.errno)
    if errno.EADDRINUSE in faults:
        why = "somebody listens there already"
    elif None not in faults:
        why = "this machine does not let it"
    else:
        return
    raise CatalogError(
        f"the server cannot listen on port {port} of {host}: {why}. Name another with {option} or --host, or in "
        "[server] of the configuration."
    )


def _bound(family: int, place: tuple[Any, ...]) -> int:
    """The port, once something was bound to it for a moment; OSError where that does not work."""
    with socket.socket(family) as probe:
        # As the server does: a port whose last connections were just closed is free, and IPv6 stands for itself.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(place)
        return int(probe.getsockname()[1])
