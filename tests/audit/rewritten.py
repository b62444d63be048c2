"""Functions of the package with one place of their source rewritten, wherever they are held by name."""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

from blowfishdb.model.cached import cached_property


def rewrite(patch: pytest.MonkeyPatch, module: ModuleType, name: str, old: str, new: str) -> None:
    """Puts `new` in the place of `old` in the source of a function, or of a method written as Class.method."""
    owner: Any = module
    *holders, last = name.split(".")
    for holder in holders:
        owner = getattr(owner, holder)
    held = inspect.getattr_static(owner, last)
    inside = {property: "fget", cached_property: "_compute", staticmethod: "__func__"}.get(type(held))
    function = held if inside is None else getattr(held, inside)
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    assert source.count(old) == 1, f"{name} does not hold {old!r} once"
    made: dict[str, Any] = {}
    exec(source[source.index("def ") :].replace(old, new), vars(module), made)  # the fault itself
    changed = made[last]
    if hasattr(function, "cache_clear"):
        changed = functools.lru_cache(maxsize=16)(changed)
    if holders:
        patch.setattr(owner, last, property(changed) if isinstance(held, property | cached_property) else changed)
        return
    for other in [other for key, other in sys.modules.items() if key.startswith(("blowfishdb.", "selfcheck."))]:
        for key, value in list(vars(other).items()):
            if value is held:
                patch.setattr(other, key, changed)
