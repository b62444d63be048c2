"""blowfish serve, and blowfish demo: web pages and REST over a configuration, or over real census data; the tour."""

from __future__ import annotations

import errno
import io
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blowfishdb.cli import run
from blowfishdb.cli.options import USUAL_CONFIG, AsJson, ConfigOption
from blowfishdb.cli.output import console, keep_log, print_json, print_result, say
from blowfishdb.errors import CatalogError, ExtraMissing, InvalidInput

if TYPE_CHECKING:
    from blowfishdb.catalog import Curator
    from blowfishdb.catalog.record import Recipients
    from blowfishdb.server.authentication import Caller
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
    config: ConfigOption = USUAL_CONFIG,
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
        if settings.is_port_exposed:
            typer.echo(EXPOSED_PORT, err=True)
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
EXPOSED_PORT = (
    "Warning: other machines can reach the PostgreSQL port without TLS, and answers travel unencrypted: a proxy for "
    "the pages does not cover it. Give [server] a certificate and key, or listen on 127.0.0.1."
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


@contextmanager
def server_console(config: Path) -> Iterator[Caller]:
    """Whoever types commands on the server's machine, to do what REST does: a curator of every dataset."""
    with server_state(config) as state:
        from blowfishdb.server.auth.grants import SCOPES, Principal
        from blowfishdb.server.authentication import Caller

        class Console(Caller):
            """The caller whom no grants bind."""

            def curator(self) -> Curator:
                return self.app_state.curator(self.name)

        yield Console(Principal("console", "curator", frozenset(SCOPES)), state)


def forget_access(config: Path, dataset: str) -> None:
    """Drops what was granted of a dataset that is gone, where a server has users."""
    if has_users(config):
        with suppress(ExtraMissing), server_state(config) as state:
            state.grants.forget(dataset)
            state.approvals.forget(dataset)


def recipients(config: Path, dataset: str) -> Recipients | None:
    """Who may use a dataset on the server of a configuration; None where no server has users."""
    if has_users(config):
        with suppress(ExtraMissing), server_state(config) as state:
            from blowfishdb.server.rest.access import recipients_of

            return recipients_of(state, dataset) if state.users.all() else None
    return None


def has_users(config: Path) -> bool:
    """Whether a server has kept users for a configuration, or may have where they are in a database."""
    from blowfishdb.catalog.config import USUAL_USERS, read_config

    users = str(read_config(config).server.get("users", USUAL_USERS))
    return not users.startswith("sqlite:///") or (config.parent / users.removeprefix("sqlite:///")).exists()


def first_curator(app_state: AppState, name: str) -> str | None:
    """The one-time password of the first curator; None when there are people already."""
    from blowfishdb.server.auth.users import new_password

    if app_state.users.all():
        return None
    password = new_password()
    try:
        app_state.users.add(name, "curator", password)
    except InvalidInput:
        # Another server that starts at the same moment was first, and prints the password.
        if app_state.users.all():
            return None
        raise
    app_state.audit_log.note("console", "added a user", name, {"role": "curator"})
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
        why = "this machine does not allow it"
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


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: an explanation, a command, and its expected exit code."""

    words: str
    command: tuple[str, ...]
    code: int = 0


ANALYST = ("--analyst", "ana")

STOPS = (
    Stop(
        "A curator declares what the public may know anyway, what is hidden, and a budget. No row is read.",
        (
            *("dataset", "add", "adult", "--source", "adult.parquet"),
            *("--domain", "age=17..90 null=17"),
            *("--domain", "sex=Female, Male"),
            *("--domain", "hours_per_week=1..99 null=40"),
            *("--domain", "capital_loss=0..4356 null=0"),
            *("--policy", "age=within 5"),
            *("--policy", "capital_loss=within 100"),
            *("--epsilon", "3", "--per-analyst", "2", "--by", "cora"),
        ),
    ),
    Stop(
        "Was 100 dollars a good choice? The same accuracy under other policies, and what an adversary may learn.",
        (
            *("policy", "what-if", "adult", "--attribute", "capital_loss", "--within", "150"),
            *("--policy", "full", "--theta", "1000", "--theta", "100", "--policy", "line"),
            *("--pair", "1000,1050", "--pair", "0,2000"),
        ),
    ),
    Stop("What the policy means, in words.", ("policy", "show", "adult")),
    Stop(
        "An analyst asks what a histogram of ages would cost. Nothing is read, nothing is charged.",
        ("preview", "adult", "--histogram", "bin(age, 5)", "--within", "100", *ANALYST),
    ),
    Stop(
        "Good. The answer: charged first, then counted, with exact noise and intervals.",
        ("release", "adult", "--histogram", "bin(age, 5)", "--within", "100", *ANALYST, "{plot}", "ages.png"),
    ),
    Stop(
        "How many lost at most each amount? All 4,357 running counts at once.",
        ("release", "adult", "--cdf", "capital_loss", "--within", "150", *ANALYST, "{plot}", "capital_loss.png"),
    ),
    Stop(
        "Two attributes together.",
        (
            *("release", "adult", "--histogram", "bin(age, 5), bin(hours_per_week, 10)", "--epsilon", "0.5"),
            *(*ANALYST, "{plot}", "age_hours.png"),
        ),
    ),
    Stop(
        "The same in SQL. The first question again is replayed: it costs nothing.",
        ("sql", "SELECT bin(age, 5), COUNT(*) FROM adult GROUP BY 1 OPTIONS (alpha = 100, beta = 0.05)", *ANALYST),
    ),
    Stop("A question that is not about counts is refused.", ("sql", "SELECT * FROM adult", *ANALYST), code=3),
    Stop(
        "One that is too expensive is refused too, with what the rest of the budget would buy.",
        ("release", "adult", "--histogram", "hours_per_week", "--within", "2", *ANALYST),
        code=4,
    ),
    Stop("The ledger has it all.", ("ledger", "show")),
    Stop("And anybody can check it.", ("ledger", "verify")),
)


def demo(
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to work; new or empty. [a temporary folder]")
    ] = None,
    tour: Annotated[bool, typer.Option("--tour", help="A tour in the terminal instead of the web pages.")] = False,
    port: Port = None,
    postgres: PostgresPort = None,
    browser: Annotated[bool, typer.Option(help="Open the pages in a browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Opens the web pages over real census data. In a scratch folder, with a curator and an analyst to sign in as.

    \b
    Examples
      blowfish demo
      blowfish demo --tour
      blowfish demo --folder demo --port 8080 --no-browser
      blowfish demo --postgres 5433
    """
    if tour:
        walk(STOPS, folder, as_json=as_json)
        return

    if port is not None:
        # Before a folder is made that would have to be thrown away.
        check_port(HERE, port)
    if postgres is not None:
        check_port(HERE, postgres, "--postgres")
        if postgres == port:
            raise CatalogError(f"--port and --postgres are both {port}; each needs a port of its own")
    run_demo(prepared_demo(STOPS[0], folder), port, postgres, browser=browser, as_json=as_json)


PLOT = "{plot}"
CONFIG = """# Made by `blowfish demo`. The mark, which notices a restored old ledger, is kept here only for the demo.
ledger = "sqlite:///blowfish.ledger"
mark = "blowfish.mark"
"""


def walk(stops: Sequence[Stop], folder: Path | None, *, as_json: bool) -> None:
    """Runs every stop in the folder."""
    began = time.monotonic()
    place = _prepared(folder)
    ends = []
    with chdir(place):
        if not as_json:
            say("BlowfishDB, with UCI Adult: 48,842 census records (Becker and Kohavi, CC BY 4.0).", style="bold")
            say(f"Everything is in {place}", style="dim")
        for stop in stops:
            command = _command(stop)
            code = _quiet(command) if as_json else _loud(stop, command)
            ends.append({"command": shlex.join(["blowfish", *command]), "exit_code": code})
            if code != stop.code:
                say(f"The tour ends here: exit code {code}, not {stop.code}.", style="red", error=True)
                raise typer.Exit(1)
    figures = sorted(path.name for path in place.glob("*.png"))
    if as_json:
        print_json({"folder": str(place), "steps": ends, "figures": figures})
        return
    console().rule(style="dim")
    say(f"Figures: {', '.join(figures)}" if figures else "For figures as well: pip install 'blowfishdb[plot]'")
    program = "blowfish" if shutil.which("blowfish") else shlex.quote(str(Path(sys.executable).parent / "blowfish"))
    say(f"Go on yourself: cd {shlex.quote(str(place))} && {program} dataset show adult")
    say(f"{time.monotonic() - began:.0f} seconds.", style="dim")


def prepared_demo(first: Stop, folder: Path | None) -> Path:
    """A folder with the data and the first stop done: the dataset is added."""
    place = _prepared(folder)
    with chdir(place):
        code = _quiet(list(first.command))
    if code != first.code:
        shutil.rmtree(place, ignore_errors=True)
        raise CatalogError(f"the demo's dataset could not be added in {place.name}; nothing is left there")
    return place


def _prepared(folder: Path | None) -> Path:
    import tempfile
    from importlib.resources import as_file, files

    place = Path(tempfile.mkdtemp(prefix="blowfish-demo-")) if folder is None else folder.expanduser().absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise CatalogError(f"the folder {place.name} is not empty; the demo needs a new one")
    place.mkdir(parents=True, exist_ok=True)
    with as_file(files("blowfishdb") / "data" / "adult.parquet") as data:
        shutil.copy(data, place / "adult.parquet")
    (place / "blowfish.toml").write_text(CONFIG, encoding="utf-8")
    return place


def _command(stop: Stop) -> list[str]:
    """The command, with its figure only where figures can be drawn."""
    command = list(stop.command)
    if PLOT in command:
        at = command.index(PLOT)
        command[at : at + 2] = ["--plot", command[at + 1]] if find_spec("matplotlib") else []
    return command


def _loud(stop: Stop, command: list[str]) -> int:
    screen = console()
    screen.rule(style="dim")
    say(stop.words, style="bold")
    say(f"$ {_typed(command, screen.width)}\n", style="green")
    sys.stdout.flush()
    return run(command)


def _typed(command: list[str], width: int) -> str:
    """The command as one would type it, a line for each option where it is long."""
    whole = shlex.join(["blowfish", *command])
    if len(whole) + 2 <= width:
        return whole
    cuts = [0, *(place for place, word in enumerate(command) if word.startswith("--")), len(command)]
    lines = [shlex.join(command[start:end]) for start, end in pairwise(cuts)]
    lines[0] = f"blowfish {lines[0]}"
    return " \\\n      ".join(lines)


def _quiet(command: list[str]) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return run([*command, "--json"])
