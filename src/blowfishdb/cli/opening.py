"""Opens the curator's or the analyst's side for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from blowfishdb.catalog import Curator, curate, read_config
from blowfishdb.cli.logs import keep_log
from blowfishdb.cli.options import login

if TYPE_CHECKING:
    from blowfishdb.session import Session


def existing(config: Path, by: str | None = None) -> Curator:
    """The curator of a configuration that is there; a mere look makes no new ledger."""
    read_config(config)
    return new_or_existing(config, by)


def new_or_existing(config: Path, by: str | None) -> Curator:
    """The curator of a configuration that is there or will be made."""
    keep_log(config)
    return curate(config, by=by or login())


def analyst_session(config: Path, analyst: str | None) -> Session:
    """An analyst's session; commands that open none do without the mechanisms and the numerics that it loads."""
    from blowfishdb.session import connect

    keep_log(config)
    return connect(config, analyst=analyst or login())
