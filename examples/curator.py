"""A curator's day: declare a table, compare policies, put one in force, verify the ledger.

Run it with `python examples/curator.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import blowfishdb as bf

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"


def main() -> None:
    """Adds the census table, shows what another policy would do, and puts it in force."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "blowfish.toml"
        config.write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
        domain = {"age": bf.integers(17, 90, null=17), "hours_per_week": bf.integers(1, 99, null=40)}
        with bf.curate(config, by="cora") as curator:
            curator.add(bf.Dataset("census", source=str(ADULT), domain=domain, epsilon="2", per_analyst="1"))
            wider = bf.Policy({"age": bf.threshold(5), "hours_per_week": bf.threshold(10)})
            change, stretch = curator.what_would_change("census", policy=wider)
            print(f"spent before {change.spent_before}, after {change.spent_after}: {stretch.why}")
            curator.set_policy("census", wider, reason="exact ages and hours are what is secret")
            curator.limit_analyst("census", "ana", "3/2", reason="her project needs more")
            print("the ledger is sound:", curator.verify().is_sound)
        for sentence in bf.explain(bf.domain(domain), wider):
            print("-", sentence)


if __name__ == "__main__":
    main()
