"""The pictures of the pages, drawn by the code that draws them for users: `python -m tools.docs_site.pictures`."""

from __future__ import annotations

from pathlib import Path

import blowfishdb as bf
from blowfishdb.model.policy import Family
from blowfishdb.present.chart_svg import picture
from blowfishdb.present.graph_picture import to_svg, view_graph

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WARDS = ["north", "east", "south", "west", "centre"]
RING = [("north", "east"), ("east", "south"), ("south", "west"), ("west", "north"), ("centre", "north")]
FAMILIES: dict[str, Family] = {
    "full": bf.full(),
    "threshold": bf.threshold(3),
    "line": bf.line(),
    "partition": bf.partition(cuts=[4, 8]),
}


def policy_pictures() -> dict[str, str]:
    """The graphs of the page about policies, by the names of their files."""
    ages = bf.domain({"age": bf.integers(0, 11, null=0)})
    wards = bf.domain({"ward": bf.categorical(WARDS, null="centre", outside="centre")})
    drawn = {f"{name}.svg": to_svg(view_graph(ages, bf.Policy({"age": one}), "age")) for name, one in FAMILIES.items()}
    custom = bf.Policy({"ward": bf.custom(RING)})
    return {**drawn, "custom.svg": to_svg(view_graph(wards, custom, "ward"))}


def kept_answer() -> bf.Answer:
    """The release that the landing page shows, as it was stored."""
    return bf.Answer.from_json((FOLDER / "ages.json").read_text(encoding="utf-8"))


def all_pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {**policy_pictures(), "ages.svg": picture(kept_answer())}


def main() -> None:
    """Writes all pictures."""
    for name, text in all_pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
