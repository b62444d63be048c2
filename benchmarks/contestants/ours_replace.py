"""BlowfishDB under its default: differential privacy for a row that has any other values."""

from __future__ import annotations

from benchmarks.contestants.common import compete
from benchmarks.contestants.ours import POLICIES, prepare_under

if __name__ == "__main__":
    compete(prepare_under(POLICIES["replace"]))
