"""blowfish demo: the web pages over real census data, or a tour of the commands that anybody can type."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli import run
from blowfishdb.cli.options import AsJson
from blowfishdb.cli.output import console, print_json, say
from blowfishdb.cli.serve import Port, PostgresPort
from blowfishdb.errors import CatalogError


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
        "How many lost at most so much? All 4,357 running counts at once.",
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
    Stop("What is no counting question is refused.", ("sql", "SELECT * FROM adult", *ANALYST), code=3),
    Stop(
        "What is too expensive is refused too, with what the rest of the budget buys.",
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
    tour: Annotated[bool, typer.Option("--tour", help="A tour in the terminal in place of the web pages.")] = False,
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
    from blowfishdb.cli.serve import HERE, check_port, run_demo

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
    with contextlib.chdir(place):
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
    with contextlib.chdir(place):
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
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run([*command, "--json"])
