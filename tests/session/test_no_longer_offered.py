"""Answers of a mechanism that is no longer offered stay what they were: listed, and opened again."""

from __future__ import annotations

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.errors import AccuracyError, DigestMismatch
from blowfishdb.mechanisms import table
from papers.baselines.spatial import AGRID, AdaptiveGrid


def test_an_old_answer_is_opened_again_and_nothing_new_is_asked(
    db: bf.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = db["visits"].histogram("age", "ward")
    offered = {**table.DATA_AWARE, AGRID: AdaptiveGrid()}
    with monkeypatch.context() as before:
        before.setattr(table, "DATA_AWARE", offered)
        old = question.release(epsilon="0.5", mechanism=AGRID)
    (past,) = db.history("visits")
    again = db.reopen("visits", past.number)
    assert past.mechanism == AGRID
    assert isinstance(again, bf.Answer)
    assert again.mechanism == AGRID
    assert np.array_equal(again.values, old.values)
    with pytest.raises(DigestMismatch, match="has no mechanism 'agrid'"):
        again.certificate.verify()
    with pytest.raises(AccuracyError, match="there is no mechanism 'agrid'"):
        question.release(epsilon="0.5", mechanism=AGRID)
    assert len(db.history("visits")) == 1
