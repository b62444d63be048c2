"""Policy graphs from CSV files: a list of pairs, or a table of distances."""

from __future__ import annotations

import csv
from pathlib import Path

from blowfishdb.errors import PolicyError
from blowfishdb.model.domain import Attribute, Categorical
from blowfishdb.model.graphs.families import Custom, custom
from blowfishdb.model.graphs.metric import metric

LARGEST_FILE = 2**26
HEADS = (("from", "to"), ("source", "target"))


def read_edges(path: str | Path, attribute: Attribute | None = None) -> Custom:
    """Hides exactly the pairs of values in the file: two columns, perhaps headed from,to or source,target."""
    rows = _rows(Path(path))
    if rows and tuple(name.strip().lower() for name in rows[0]) in HEADS:
        rows = rows[1:]
    wrong = next((place for place, row in enumerate(rows, start=1) if len(row) != 2), None)
    if wrong is not None:
        raise PolicyError(f"{Path(path).name}: row {wrong} does not hold a pair of values")
    return custom([(read_value(one, attribute), read_value(two, attribute)) for one, two in rows])


def read_distances(path: str | Path, theta: object, attribute: Attribute | None = None) -> Custom:
    """Hides values at most theta apart: the file's first row and first column name them, the rest are distances."""
    rows = _rows(Path(path))
    names = [name.strip() for name in rows[0][1:]] if rows else []
    if not names or [row[0].strip() for row in rows[1:]] != names:
        raise PolicyError(f"{Path(path).name}: the first row and the first column name the same values, in one order")
    return metric([read_value(name, attribute) for name in names], [row[1:] for row in rows[1:]], theta)


def read_value(text: str, attribute: Attribute | None) -> object:
    """The declared value that is written so; lists may hold numbers or truth values."""
    plain = text.strip()
    if isinstance(attribute, Categorical):
        return next((known for known in attribute.values if str(known) == plain), plain)
    return plain


def _rows(path: Path) -> list[list[str]]:
    """The rows that are not empty."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise PolicyError(f"{path.name} has more than {LARGEST_FILE:,} bytes")
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error):
        raise PolicyError(f"{path.name} cannot be read as a CSV file in UTF-8") from None
