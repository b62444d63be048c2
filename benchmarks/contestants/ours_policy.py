"""BlowfishDB under a threshold policy, which hides less than the peers do and says so."""

from __future__ import annotations

from benchmarks.contestants.common import compete
from benchmarks.contestants.ours import POLICIES, prepare_under

if __name__ == "__main__":
    compete(prepare_under(POLICIES["threshold"]))
