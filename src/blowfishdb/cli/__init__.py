"""The command line `blowfish`. Commands import what they need when they run, so that help appears at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType

from blowfishdb.cli.output import exit_code, log_to_file, missing_extra, print_error
from blowfishdb.errors import BlowfishError

SHOW_TRACEBACK = "BLOWFISH_TRACEBACK"


def main() -> None:
    """Runs the command that the shell gave, and ends the process with its exit code."""
    if not os.environ.get(SHOW_TRACEBACK):
        sys.excepthook = _say_little
    # Our matrices are small: threads of the linear algebra library would cost more than they bring.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; errors are printed, never raised."""
    try:
        with log_to_file():
            _commands()(list(arguments), prog_name="blowfish")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (BlowfishError, ModuleNotFoundError) as fault:
        error = fault if isinstance(fault, BlowfishError) else missing_extra(fault)
        if error is None:
            raise
        print_error(error, as_json="--json" in arguments)
        return exit_code(error)
    return 0


@cache
def _commands() -> Callable[..., object]:
    """All commands, read off their functions once in a process."""
    import typer

    from blowfishdb.cli.app import app

    return typer.main.get_command(app)


def _say_little(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours is named by its kind alone: its text could quote the data."""
    del error, trace
    sys.stderr.write(
        f"Something unexpected happened ({kind.__name__}). No more is shown, because it could hold data; "
        f"a curator can set {SHOW_TRACEBACK}=1 and repeat it.\n"
    )
