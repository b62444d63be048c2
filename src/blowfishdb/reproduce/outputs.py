"""Files of a finished experiment: a CSV for each table, PNG and SVG for each figure, and the verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from blowfishdb.engine.present.extras import needed
from blowfishdb.reproduce.result import Picture, Result, Verdict

SUMMARY = "result.json"
DOTS_PER_INCH = 160


@dataclass(frozen=True)
class Done:
    """The verdict, the titles of tables and figures by their files without ending, and the processor's seconds."""

    folder: Path
    verdict: Verdict
    tables: dict[str, str]
    pictures: dict[str, str]
    seconds: float
    is_new: bool

    def files(self) -> list[Path]:
        """Every file of the tables and figures."""
        drawn = [self.folder / f"{name}.{ending}" for name in self.pictures for ending in ("png", "svg")]
        return [*(self.folder / f"{name}.csv" for name in self.tables), *drawn]


def write_result(folder: Path, digest: str, result: Result, seconds: float) -> Done:
    """Writes tables and figures, and the summary last: it says that all else is there."""
    for table in result.tables:
        (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
    for picture in result.pictures:
        _draw(folder, picture)
    tables = {table.name: table.title for table in result.tables}
    pictures = {picture.name: f"{picture.title} ({picture.trials})" for picture in result.pictures}
    summary = {
        "digest": digest,
        "verdict": asdict(result.verdict),
        "tables": tables,
        "pictures": pictures,
        "seconds": round(seconds, 1),
    }
    unfinished = folder / f"{SUMMARY}.part"
    unfinished.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(folder / SUMMARY)
    return Done(folder, result.verdict, tables, pictures, seconds, is_new=True)


def read_done(folder: Path, digest: str) -> Done | None:
    """What was found before under this digest, if every file is still there."""
    path = folder / SUMMARY
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if kept["digest"] != digest:
        return None
    done = Done(folder, Verdict(**kept["verdict"]), kept["tables"], kept["pictures"], kept["seconds"], is_new=False)
    return done if all(file.exists() for file in done.files()) else None


def _draw(folder: Path, picture: Picture) -> None:
    """Draws without pyplot, whose figures are global; the same numbers give the same bytes of SVG."""
    matplotlib = needed("matplotlib", "plot")
    figures = needed("matplotlib.figure", "plot")
    with matplotlib.rc_context({"svg.hashsalt": picture.name, "svg.fonttype": "none", "font.size": 9}):
        figure = figures.Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        figure.suptitle(f"{picture.title}\n{picture.trials}", fontsize=10, x=0.01, ha="left")
        # The layout is worked out once: it takes longer than to draw.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        figure.savefig(folder / f"{picture.name}.png", dpi=DOTS_PER_INCH)
        figure.savefig(folder / f"{picture.name}.svg", metadata={"Date": None})
