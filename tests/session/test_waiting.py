"""Looking things up waits for no release, and finds of one that still runs nothing but its charge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine import charge as charged_release
from blowfishdb.errors import UnknownAnswer
from blowfishdb.model.domain import integers

PATIENCE = 20.0


def test_looking_things_up_waits_for_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end = threading.Event(), threading.Event()

    def held(step: object, work: Callable[[], bytes]) -> bytes:
        del step
        found = work()
        began.set()
        may_end.wait(PATIENCE)
        return found

    monkeypatch.setattr(charged_release, "padded", held)
    (tmp_path / "rows.csv").write_text("age\n1\n2\n")
    with bf.curate(tmp_path / "blowfish.toml") as curator:
        curator.add(bf.Dataset("t", source="rows.csv", domain={"age": integers(0, 9)}))
    with bf.connect(tmp_path / "blowfish.toml", analyst="ana") as session, ThreadPoolExecutor(1) as pool:
        release = session["t"].histogram("age").release
        running = pool.submit(lambda: release(epsilon="0.5"))
        assert began.wait(PATIENCE)
        (charge,) = session.history("t")
        assert session.budget("t").spent == charge.epsilon
        assert session.synopses("t") == []
        with pytest.raises(UnknownAnswer):
            session.reopen("t", charge.number)
        assert not running.done()
        may_end.set()
        assert running.result().epsilon == charge.epsilon
        again = session.reopen("t", charge.number)
        assert isinstance(again, bf.Answer)
        assert again.to_json() == running.result().to_json()
