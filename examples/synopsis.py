"""A synopsis: one private table, paid for once, then asked for ever without a database.

Run it with `python examples/synopsis.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import blowfishdb as bf
from blowfishdb.analysis.olap import cube

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"


def publish(folder: Path) -> Path:
    """The synopsis as a file; the only step that reads the data."""
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
    domain = {
        "age": bf.integers(17, 90, null=17),
        "sex": bf.categorical(["Female", "Male"], null="Female", outside="Female"),
        "income": bf.categorical(["<=50K", ">50K"], null="<=50K", outside="<=50K"),
    }
    with bf.curate(config, by="cora") as curator:
        curator.add(bf.Dataset("census", source=str(ADULT), domain=domain, epsilon="1"))
    with bf.connect(config, analyst="ana") as db:
        made = db["census"].histogram(bf.col("age").bins(5), "sex", "income").publish(epsilon="0.5")
    made.save(folder / "census.parquet")
    return folder / "census.parquet"


def main() -> None:
    """Publishes, then asks the file."""
    with tempfile.TemporaryDirectory() as folder:
        kept = bf.open_synopsis(publish(Path(folder)))
        print(kept)
        print(kept.where(bf.col("income") == ">50K").histogram("sex"))
        print(kept.mean("age"))
        print(cube(kept, "income", bf.col("age").bins(20)).roll_up("age").answer())


if __name__ == "__main__":
    main()
