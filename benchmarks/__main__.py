"""The command `python -m benchmarks`: every row the project is judged by as a ratio, or the rows of one benchmark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import harness


def build_parser() -> argparse.ArgumentParser:
    """The options, with every benchmark named in the help."""
    listing = "\n".join(f"  {name:<18} {description}" for name, description in harness.available().items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run the benchmarks that the project is judged by, or one, and print what was measured.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="which benchmark; without it, `all`")
    parser.add_argument("-h", "--help", action="store_true", help="this list, or the options of NAME's own")
    parser.add_argument("--headline", action="store_true", help="of NAME, only the rows that `all` runs")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--markdown", action="store_true", help="a table for a page of the documentation")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data that is not shipped with the project")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command line; 0 when it worked, 2 for a wrong name or folder."""
    parser = build_parser()
    options, own = parser.parse_known_args(arguments)
    if options.help and options.name is None:
        parser.print_help()
        return 0
    name, known = options.name or "all", harness.available()
    if name not in known:
        parser.error(f"unknown benchmark {name!r}; choose one of: {', '.join(known)}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data {options.data} is not a folder")
    configure = harness.judged if options.headline else harness.with_options
    work = configure(harness.load(name), ["--help"] if options.help else own)
    if work is None:
        if options.help:
            parser.print_help()
            return 0
        rejected = own or ["--headline"]
        parser.error(f"unrecognized arguments: {' '.join(rejected)}")
    try:
        rows = work(options.data)
        if options.json:
            harness.print_json(rows)
        elif options.markdown:
            harness.print_markdown(rows)
        else:
            harness.print_table(f"{name}: {known[name]}", rows)
    except harness.MissingData as problem:
        parser.error(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
