"""The command `python -m tools.faults`: injects every kind of fault and prints what was lost, which must be nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

from tools.faults.connections import cut_commits, server_death, terminated_backends
from tools.faults.corruption import damaged_ledgers
from tools.faults.disks import file_size_limit, full_disk
from tools.faults.failover import failed_over
from tools.faults.hanging import silent_engines
from tools.faults.lab import HEAD, Lab, Outcome, as_json, failure, line, open_lab
from tools.faults.processes import (
    clock_skew,
    kill_at_moments,
    kill_at_points,
    kill_while_sharing,
    killed_migrations,
    two_servers,
)
from tools.faults.schedules import random_schedules

KINDS: dict[str, Callable[[Lab], Iterator[Outcome]]] = {
    "points": kill_at_points,
    "moments": kill_at_moments,
    "sharing": kill_while_sharing,
    "terminated": terminated_backends,
    "cuts": cut_commits,
    "server-death": server_death,
    "fail-over": failed_over,
    "silence": silent_engines,
    "file-size": file_size_limit,
    "disks": full_disk,
    "servers": two_servers,
    "migrations": killed_migrations,
    "clocks": clock_skew,
    "damage": damaged_ledgers,
    "schedules": random_schedules,
}
NIGHTLY = 500


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    listing = "\n".join(f"  {name:<14} {(work.__doc__ or '').splitlines()[0]}" for name, work in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tools.faults",
        description="Inject faults into releases on SQLite and PostgreSQL ledgers and check that nothing is lost.",
        epilog=f"kinds:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="which kinds of fault; without any, all of them")
    parser.add_argument("--releases", type=int, default=NIGHTLY, metavar="N", help="releases a row [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="where faults strike [%(default)s]")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Runs the command line: 0 when everything was survived, 1 when something was lost, 2 for a wrong name."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.kinds if name not in KINDS]
    if unknown or options.releases < 1:
        parser.error(f"choose kinds from {', '.join(KINDS)}, and at least one release")
    is_good = True
    with open_lab(options.releases, options.seed) as lab:
        if not options.json:
            print(HEAD, flush=True)
        # Each as it comes: what was found is not lost with a kind that breaks down later.
        for row in progress(lab, options.kinds or list(KINDS)):
            print(as_json(row) if options.json else line(row), flush=True)
            if not row.is_good:
                print(failure(row), file=sys.stderr, flush=True)
                is_good = False
    return 0 if is_good else 1


def progress(lab: Lab, kinds: Sequence[str]) -> Iterator[Outcome]:
    """The rows of these kinds, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    # Without a thread that refreshes: the bar moves when a row is done.
    with Progress(console=Console(stderr=True), auto_refresh=False, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("faults", total=len(kinds))
        for name in kinds:
            bar.update(task, description=name, refresh=True)
            yield from KINDS[name](lab)
            bar.advance(task)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
