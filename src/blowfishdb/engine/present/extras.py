"""Packages that only some ways of looking at an answer need, imported when they are used."""

from __future__ import annotations

import importlib
from typing import Any

from blowfishdb.errors import ExtraMissing


def needed(module: str, extra: str) -> Any:
    """The module; ExtraMissing names what to install when it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ExtraMissing(module.partition(".")[0], extra) from None
