"""One place for all tests of statements: the table under every policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.statements.place import Place, opened


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("world")) as place:
        yield place
