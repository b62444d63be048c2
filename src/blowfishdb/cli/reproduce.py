"""blowfish reproduce: the papers' experiments as tables and figures, each with a verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import blowfishdb
from blowfishdb.cli.options import AsJson
from blowfishdb.errors import InvalidInput


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]...", help="Experiments, or what their names begin with: dawa. [all of them]"),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name each experiment with its paper and figure.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: all of them within minutes.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Histograms to read (.npy) in place of the stand-ins.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where tables and figures go.")] = Path("reproduced"),
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Another seed draws other workloads.")] = 0,
    processes: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="How many work at once. [one per core, at most four]")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what earlier runs have finished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Runs the papers' experiments again, from a clone. Gives tables, figures, and whether each claim holds.

    What is finished is kept: the same command goes on where it was stopped.

    \b
    Examples
      blowfish reproduce --list
      blowfish reproduce --quick
      blowfish reproduce dawa-figure-3 thesis --data histograms --out figures
    """
    _find_papers()
    from papers.command import ReproduceOptions, print_list, run
    from papers.experiments import chosen

    experiments = chosen(tuple(names or ()))
    if list_:
        print_list(experiments, as_json=as_json)
        return
    options = ReproduceOptions(experiments, "quick" if quick else "full", data, out, seed, processes, restart)
    run(options, as_json=as_json)


def _find_papers() -> None:
    """Puts the root of the source tree on the path, ahead of any other package called papers."""
    root = Path(blowfishdb.__file__).resolve().parents[2]
    if not (root / "papers" / "experiments.py").is_file():
        raise InvalidInput(
            "the papers' experiments are part of the source tree and not of the installed package: clone the "
            "repository, run `make setup`, then `blowfish reproduce` there"
        )
    if sys.path[0] != str(root):
        sys.path.insert(0, str(root))
