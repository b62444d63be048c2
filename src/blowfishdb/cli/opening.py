"""Opens the curator's side for a command."""

from __future__ import annotations

from pathlib import Path

from blowfishdb.catalog import Curator, curate, read_config
from blowfishdb.cli.options import login


def existing(config: Path, by: str | None = None) -> Curator:
    """The curator of a configuration that is there; a mere look makes no new ledger."""
    read_config(config)
    return curate(config, by=by or login())


def new_or_existing(config: Path, by: str | None) -> Curator:
    """The curator of a configuration that is there or will be made."""
    return curate(config, by=by or login())
