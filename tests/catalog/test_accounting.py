"""How loss adds up is declared in the configuration, recorded in the ledger, and changed only on record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import ChangeRefused, InvalidInput, NotInForce, PolicyError
from tests.session.places import configuration, curator, make_table, visits

WARDS = bf.Policy({"ward": bf.public()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_table(tmp_path)
    return tmp_path


def test_parts_are_accounted_side_by_side(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(replace(visits(WARDS, epsilon="1"), accounting="per-edge by ward"))
        assert keeper.dataset("visits").accounting == "per-edge by ward"
    with bf.connect(configuration(folder), analyst="ana") as db:
        for ward in ("A1", "A2", "A3"):
            db["visits"].where(bf.col("ward") == ward).histogram("age").release(epsilon=1)
        assert db.budget("visits").spent == 1
        assert db["visits"].where(bf.col("ward") == "A1").count().preview(epsilon="0.5").left == 0


def test_a_change_is_recorded_and_the_worst_loss_stays(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(visits(WARDS, epsilon="2"))
        with pytest.raises(ChangeRefused):
            keeper.set_accounting("visits", "sum", reason="again")
        with pytest.raises(PolicyError):
            keeper.set_accounting("visits", "per-edge by age", reason="not separate")
        with pytest.raises(InvalidInput):
            keeper.set_accounting("visits", "max", reason="no such thing")
        assert keeper.set_accounting("visits", "per-edge by ward", reason="wards are separate").spent == 0
        assert [entry.kind for entry in keeper.entries("visits")][-1] == "accounting"


def test_an_edit_of_the_file_alone_is_not_in_force(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(visits(WARDS))
    path = configuration(folder)
    path.write_text(path.read_text().replace("[datasets.visits]\n", '[datasets.visits]\naccounting = "per-edge"\n'))
    with bf.connect(path, analyst="ana") as db, pytest.raises(NotInForce):
        db["visits"].histogram("age").preview(epsilon=1)
