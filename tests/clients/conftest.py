"""The port that all clients of this folder talk to."""

from playwright.sync_api import expect

from tests.server.wire.conftest import port

__all__ = ["port"]
# What is expected is waited for and no longer; Playwright's own 5 seconds pass on a busy machine.
expect.set_options(timeout=60_000)
