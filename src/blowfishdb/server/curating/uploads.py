"""Files that curators send: kept beside the configuration, each under a new name."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from blowfishdb.errors import InvalidInput, TooLarge

FOLDER = "uploads"
ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")


def ending_of(name: str) -> str:
    """The ending of a file that holds rows; InvalidInput names those that serve."""
    found = next((ending for ending in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(ending)), None)
    if found is None:
        raise InvalidInput(f"a file of rows ends in {', '.join(ENDINGS)}")
    return found


def place_for(folder: Path, name: str) -> Path:
    """Where a file of that name is kept; the name is cleaned, and made new so that no other file is replaced."""
    ending = ending_of(name)
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).name[: -len(ending)]).strip("-")[:60] or "rows"
    home = folder / FOLDER
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home / f"{plain}-{uuid.uuid4().hex[:8]}{ending}"


def check_size(size: int, largest: int) -> None:
    """TooLarge for a file beyond the limit of this server."""
    if size > largest:
        raise TooLarge("bytes of a file", size, largest, "Load it into a database and connect that.")


def address_of(path: Path, folder: Path) -> str:
    """The address under which a kept file is declared: relative, so that the folder can move."""
    return str(path.relative_to(folder))


def without_user(address: str) -> str:
    """An address for the log: without the name and the password that it may hold."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else address
