"""A catalog that several desks share: one ledger, the same sources, and the file as it is now."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from blowfishdb.catalog.config import Config, read_config
from blowfishdb.catalog.opening import Catalog, open_catalog
from blowfishdb.sources.base import Join

Stamp = tuple[int, int, int]


class LiveCatalog:
    """The catalog of one configuration file, read anew when the file changes; threads may share it."""

    def __init__(self, config: str | Path) -> None:
        self._catalog = open_catalog(config)
        self._stamp = _stamp(self._catalog.config.path)
        self._turn = threading.Lock()

    def now(self) -> Catalog:
        """The catalog as the file says it now; the ledger stays open."""
        with self._turn:
            stamp = _stamp(self._catalog.config.path)
            if stamp != self._stamp:
                self._catalog = self._read()
                self._stamp = stamp
            return self._catalog

    def close(self) -> None:
        """Lets go of the ledger."""
        self._catalog.ledger.close()

    def _read(self) -> Catalog:
        """The file's datasets; sources whose address and joins stayed the same stay open."""
        before, config = self._catalog, read_config(self._catalog.config.path)
        kept = {
            name: source
            for name, source in before.sources.items()
            if _reached(config, name) is not None and _reached(config, name) == _reached(before.config, name)
        }
        return Catalog(config, before.ledger, kept)


def _reached(config: Config, name: str) -> tuple[str, tuple[Join, ...]] | None:
    """What decides how the rows of a dataset are reached."""
    dataset = config.datasets.get(name)
    return None if dataset is None else (dataset.source, dataset.joins)


def _stamp(path: Path) -> Stamp:
    """What changes when the file is replaced; all zeros while there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
