"""A decision tree learnt from private synthetic rows: one synopsis of census data, then scikit-learn as usual.

Run it with `python examples/decision_tree.py`; it needs `pip install "blowfishdb[examples]"`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from sklearn.tree import DecisionTreeClassifier, export_text

import blowfishdb as bf
from blowfishdb.analysis.synthetic_rows import synthetic_rows

ADULT = Path(bf.__file__).parent / "data" / "adult.parquet"
MARRIED = ["Married-civ-spouse", "Married-AF-spouse"]
SINGLE = ["Divorced", "Married-spouse-absent", "Never-married", "Separated", "Widowed"]
INCOMES = ["<=50K", ">50K"]


def publish(folder: Path) -> bf.Synopsis:
    """A synopsis of schooling, hours, marriage and income: the only step that looks at the data."""
    config = folder / "blowfish.toml"
    config.write_text('ledger = "sqlite:///census.ledger"\nmark = "census.mark"\n')
    domain = {
        "education_num": bf.integers(1, 16, null=9),
        "hours_per_week": bf.integers(1, 99, null=40),
        "marital_status": bf.categorical([*MARRIED, *SINGLE], null="Never-married", outside="Never-married"),
        "income": bf.categorical(INCOMES, null=INCOMES[0], outside=INCOMES[0]),
    }
    with bf.curate(config) as curator:
        curator.add(bf.Dataset("adult", source=str(ADULT), domain=domain, policy=bf.Policy({}), epsilon="1"))
    with bf.connect(config, analyst="ana") as db:
        hours = bf.col("hours_per_week").bins(edges=[1, 35, 41, 51, 100])
        marriage = bf.col("marital_status").groups({"married": MARRIED, "single": SINGLE})
        return db["adult"].histogram("education_num", hours, marriage, "income").publish(epsilon="0.5")


def features(rows: pd.DataFrame) -> pd.DataFrame:
    """What the tree sees of a record."""
    return pd.DataFrame(
        {
            "schooling": rows["education_num"],
            "hours": rows["hours_per_week"],
            "married": rows["marital_status"].isin(MARRIED).astype(int),
        }
    )


def main() -> None:
    """Trains on synthetic rows alone, then shows how the tree does on real people."""
    with tempfile.TemporaryDirectory() as folder:
        synopsis = publish(Path(folder))
    print(synopsis)
    drawn = synthetic_rows(synopsis).to_pandas()
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=200, random_state=0)
    tree.fit(features(drawn), drawn["income"] == INCOMES[1])
    print(export_text(tree, feature_names=["schooling", "hours", "married"], max_depth=2))

    people = pd.read_parquet(ADULT)
    truth = people["income"] == INCOMES[1]
    peer = DecisionTreeClassifier(max_depth=4, min_samples_leaf=200, random_state=0).fit(features(people), truth)
    print(
        f"right for {tree.score(features(people), truth):.1%} of the people; learnt from the people themselves: "
        f"{peer.score(features(people), truth):.1%}; always saying no: {1 - truth.mean():.1%}"
    )


if __name__ == "__main__":
    main()
