"""blowfish reproduce: the papers' experiments as tables and figures, each with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import AsJson


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
    """Runs the papers' experiments again. Gives tables, figures, and whether each claim holds.

    What is finished is kept: the same command goes on where it was stopped.

    \b
    Examples
      blowfish reproduce --list
      blowfish reproduce --quick
      blowfish reproduce dawa-figure-3 thesis --data histograms --out figures
    """
    from blowfishdb.cli.reproduction import Wish, print_list, run
    from blowfishdb.reproduce.table import chosen

    found = chosen(tuple(names or ()))
    if list_:
        print_list(found, as_json=as_json)
        return
    run(Wish(found, "quick" if quick else "full", data, out, seed, processes, restart), as_json=as_json)
