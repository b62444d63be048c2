"""Walks through the tour: shows each command, runs it, and ends where one does not do what it should."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import typer

from blowfishdb.cli import run
from blowfishdb.cli.output import console, print_json
from blowfishdb.cli.stops import Stop
from blowfishdb.errors import CatalogError

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
            console().print(
                "BlowfishDB, with UCI Adult: 48,842 census records (Becker and Kohavi, CC BY 4.0).", style="bold"
            )
            console().print(f"Everything is in {place}", style="dim", markup=False)
        for stop in stops:
            command = _command(stop)
            code = _quiet(command) if as_json else _loud(stop, command)
            ends.append({"command": shlex.join(["blowfish", *command]), "exit_code": code})
            if code != stop.code:
                console(error=True).print(f"The tour ends here: exit code {code}, not {stop.code}.", style="red")
                raise typer.Exit(1)
    figures = sorted(path.name for path in place.glob("*.png"))
    if as_json:
        print_json({"folder": str(place), "steps": ends, "figures": figures})
        return
    screen = console()
    screen.rule(style="dim")
    if figures:
        screen.print(f"Figures: {', '.join(figures)}", markup=False)
    else:
        screen.print("For figures as well: pip install 'blowfishdb[plot]'", markup=False)
    program = "blowfish" if shutil.which("blowfish") else shlex.quote(str(Path(sys.executable).parent / "blowfish"))
    screen.print(f"Go on yourself: cd {shlex.quote(str(place))} && {program} dataset show adult", markup=False)
    screen.print(f"{time.monotonic() - began:.0f} seconds.", style="dim")


def prepared_demo(first: Stop, folder: Path | None) -> Path:
    """A folder with the data and the first stop done: the dataset is added."""
    place = _prepared(folder)
    with contextlib.chdir(place):
        code = _quiet(list(first.command))
    if code != first.code:
        raise CatalogError(f"the demo's dataset could not be added in {place.name}")
    return place


def _prepared(folder: Path | None) -> Path:
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
    screen.print(stop.said, style="bold", markup=False)
    screen.print(f"$ {_written(command, screen.width)}\n", style="green", markup=False)
    sys.stdout.flush()
    return run(command)


def _written(command: list[str], width: int) -> str:
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
