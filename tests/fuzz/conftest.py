"""The fixtures of this folder."""

from tests.server.conftest import quick_passwords

__all__ = ["quick_passwords"]
