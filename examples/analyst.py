"""An analyst's question: its price first, then the answer, in Python and in SQL.

Run it with `python examples/analyst.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import blowfishdb as bf

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"


def census(folder: Path) -> Path:
    """A configuration with the census table, as a curator would have left it."""
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
    domain = {
        "age": bf.integers(17, 90, null=17),
        "sex": bf.categorical(["Female", "Male"], null="Female", outside="Female"),
    }
    policy = bf.Policy({"age": bf.threshold(5), "sex": bf.public()})
    with bf.curate(config, by="cora") as curator:
        curator.add(bf.Dataset("census", source=str(ADULT), domain=domain, policy=policy, epsilon="2"))
    return config


def main() -> None:
    """Previews, releases, checks the certificate, and asks again for nothing."""
    with tempfile.TemporaryDirectory() as folder, bf.connect(census(Path(folder)), analyst="ana") as db:
        women = db["census"].where(bf.col("sex") == "Female")
        question = women.histogram(bf.col("age").bins(10))
        print(question.preview(accuracy=60))
        answer = question.release(accuracy=60)
        print(answer)
        answer.certificate.verify()
        before = db.budget("census").spent
        question.release(accuracy=60)
        print("asking again cost", db.budget("census").spent - before)
        print(db.sql("SELECT sex, COUNT(*) FROM census GROUP BY sex", alpha=60))


if __name__ == "__main__":
    main()
