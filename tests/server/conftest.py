"""The fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from blowfishdb.server.auth import users
from tests.server.places import Place, opened


@pytest.fixture(autouse=True, scope="session")
def quick_passwords() -> Iterator[None]:
    """Hashes that cost little: these tests sign in a hundred times."""
    quick = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_hasher", quick)
        patch.setattr(users, "_nobody", quick.hash("nobody's password"))
        yield


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with opened(tmp_path) as found:
        yield found
