"""The fixtures of this folder."""

from tests.session.places import db

__all__ = ["db"]
