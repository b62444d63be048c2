"""The graph of one attribute, written to a file."""

from __future__ import annotations

from pathlib import Path

from blowfishdb.catalog import Dataset
from blowfishdb.catalog.graph_files import read_value
from blowfishdb.cli.output import console, print_json
from blowfishdb.engine.present.graph_picture import to_dot, to_svg
from blowfishdb.errors import InvalidInput, PolicyError
from blowfishdb.model.graph_view import view_graph

WRITERS = {".svg": to_svg, ".dot": to_dot}


def draw_policy(
    dataset: Dataset, attribute: str, output: Path | None, around: str | None, values: int, *, as_json: bool
) -> None:
    """Writes the picture and prints what it shows."""
    path = output or Path(f"{attribute}.svg")
    if path.suffix.lower() not in WRITERS:
        raise InvalidInput(f"a picture is written to a file that ends in {' or '.join(WRITERS)}")
    declared = dataset.domain.find(attribute, PolicyError)
    place = None if around is None else read_value(around, declared)
    view = view_graph(dataset.domain, dataset.policy, attribute, place, values)
    try:
        path.write_text(WRITERS[path.suffix.lower()](view), encoding="utf-8")
    except OSError:
        raise InvalidInput(f"{path} cannot be written") from None
    if as_json:
        print_json(
            {
                "file": str(path),
                "values": view.size,
                "shown": list(view.labels),
                "moves": len(view.pairs),
                "parts": view.parts,
                "warnings": list(view.warnings()),
            }
        )
        return
    screen = console()
    shown = f"all {view.size:,} values" if view.is_whole else f"{len(view.labels):,} of {view.size:,} values"
    screen.print(f"{path}: {shown} of {attribute}, {len(view.pairs):,} hidden moves among them.", markup=False)
    for warning in view.warnings():
        screen.print(f"Mind: {warning}", style="yellow", markup=False)
