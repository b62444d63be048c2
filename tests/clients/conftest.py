"""The port that all clients of this folder talk to."""

from tests.server.wire.conftest import port

__all__ = ["port"]
