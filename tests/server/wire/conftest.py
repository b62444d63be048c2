"""The fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.wire.places import WirePlace, wire_place


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WirePlace]:
    """One port for all tests of a file; each asks in the name of a user and questions of its own."""
    with wire_place(tmp_path_factory.mktemp("wire")) as place:
        yield place
