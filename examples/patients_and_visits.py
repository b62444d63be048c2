"""Several tables: visits, the patients who made them, and a public table of postcodes; the patient is the unit.

Run it with `python examples/patients_and_visits.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

import blowfishdb as bf

TABLES = """
CREATE TABLE patients AS SELECT range AS id, 20 + range * 7 % 70 AS age, ['f', 'm'][range % 2 + 1] AS sex,
    1000 + range // 3 % 4 AS postcode FROM range(400);
CREATE TABLE postcodes AS SELECT 1000 + range AS code, ['north', 'south'][range % 2 + 1] AS region FROM range(3);
CREATE TABLE visits AS SELECT row_number() OVER () AS visit_id, id AS patient,
    ['A1', 'A2', 'A3'][(id + place) % 3 + 1] AS ward
    FROM patients, LATERAL (SELECT range AS place FROM range(1 + id % 9));
"""


def clinic(folder: Path) -> bf.Dataset:
    """The three tables as one dataset of visits, made up in a DuckDB file: at most 5 visits of each patient count."""
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(TABLES)
    return bf.Dataset(
        "visits",
        source="duckdb:///clinic.duckdb#visits",
        joins=[
            bf.Join("patients", "patient", "id", ["age", "sex", "postcode"]),
            bf.Join("postcodes", "postcode", "code", ["region"]),
        ],
        domain={
            "ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1"),
            "age": bf.integers(0, 99, null=0),
            "sex": bf.categorical(["f", "m"], null="f", outside="f"),
            "region": bf.categorical(["north", "south", "unknown"], null="unknown", outside="unknown"),
        },
        policy=bf.Policy(presence="secret", unit=bf.person("patient", at_most=5, order_by="visit_id")),
        epsilon="20",
    )


def main() -> None:
    """Declares the dataset, looks at caps side by side, and asks about visits and about patients."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "blowfish.toml"
        config.write_text('ledger = "sqlite:///clinic.ledger"\nmark = "clinic.mark"\n')
        with bf.curate(config, by="cora") as curator:
            curator.add(clinic(folder))
            seen = curator.look_at_caps("visits", [1, 2, 5, 10])
            for cap in seen.caps:
                print(f"at most {cap.at_most:2}: {cap.counted} visits count, {seen.dropped(cap)} do not")
        with bf.connect(config, analyst="ana") as db:
            by_region = "SELECT p.sex, c.region, COUNT(*) FROM visits v JOIN patients p ON v.patient = p.id"
            print(db.sql(f"{by_region} JOIN postcodes c ON p.postcode = c.code GROUP BY p.sex, c.region", epsilon="1"))
            print(db.sql("SELECT COUNT(*) FROM visits.people WHERE rows > 5", epsilon="1"))


if __name__ == "__main__":
    main()
