"""Several questions and datasets in one process: no answer is given by the plan of another policy."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.accuracy import ranking
from blowfishdb.accuracy.quote import forget
from blowfishdb.engine import measure
from blowfishdb.errors import DigestMismatch, InfiniteLoss
from blowfishdb.model.graphs import GridGraph
from blowfishdb.session import Session
from tests.session.places import curator, session

EPSILON = "0.01"


def dataset(name: str, *, x_public: bool, y_public: bool) -> bf.Dataset:
    return bf.Dataset(
        name,
        source=f"duckdb:///places.duckdb#{name}",
        domain={"x": bf.integers(0, 2, null_public=x_public), "y": bf.integers(0, 2, null_public=y_public)},
        policy=bf.Policy(joint=[bf.grid(["x", "y"], 1, "l1")]),
        epsilon="10",
    )


@pytest.fixture
def db(tmp_path: Path) -> Session:
    """Two tables alike: of `one` only x's NULL is hidden, of `two` only y's."""
    forget()
    with duckdb.connect(str(tmp_path / "places.duckdb")) as connection:
        for name in ("one", "two"):
            columns = "nullif(range % 4, 3) AS x, nullif(range // 4 % 4, 3) AS y"
            connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM range(1600)")
    with curator(tmp_path) as keeper:
        keeper.add(dataset("one", x_public=False, y_public=True))
        keeper.add(dataset("two", x_public=True, y_public=False))
    return session(tmp_path)


def check(answer: bf.Answer, first: str, hidden: str) -> None:
    """The certificate is that of the question, and what is hidden comes with noise, of scale 100 or more."""
    answer.certificate.verify()
    names = [first] * 4 + ["y" if first == "x" else "x"] * 4
    own = [value for name, value in zip(names, answer.raw.tolist(), strict=True) if name == hidden]
    # All four counts of the hidden attribute at their true 400: a chance of 1/200 each, of 10^-9 together.
    assert own != [400.0] * 4


def test_a_preview_with_the_axes_turned_round_is_not_taken_for_the_question(db: Session) -> None:
    db["one"].marginals("y", "x", ways=1).preview(epsilon=EPSILON)
    check(db["one"].marginals("x", "y", ways=1).release(epsilon=EPSILON), "x", "x")
    check(db["one"].marginals("y", "x", ways=1).release(epsilon=EPSILON), "y", "x")


def test_a_question_of_another_dataset_is_not_taken_for_it(db: Session) -> None:
    check(db["one"].marginals("x", "y", ways=1).release(epsilon=EPSILON), "x", "x")
    check(db["two"].marginals("x", "y", ways=1).release(epsilon=EPSILON), "x", "y")


def _confuse_graphs(patch: pytest.MonkeyPatch) -> None:
    """The fingerprint as it was: universal vertices without lengths."""

    def joined(graph: GridGraph) -> bytes:
        head = f"grid {graph.metric} {graph.theta} {graph.shape}".encode()
        return head + b"".join(a.tobytes() for group in (graph.lows, graph.highs, graph.universal) for a in group)

    patch.setattr(GridGraph, "fingerprint", joined)


def _confuse_rankings(patch: pytest.MonkeyPatch) -> None:
    """A cache that finds a ranking by the number of cells."""
    patch.setattr(ranking.RankingKey, "__hash__", lambda one: one.problem.graph.cells)
    patch.setattr(ranking.RankingKey, "__eq__", lambda one, two: one.problem.graph.cells == two.problem.graph.cells)


@pytest.mark.parametrize("confuse", [_confuse_graphs, _confuse_rankings])
@pytest.mark.parametrize("kind", ["release", "publish"])
def test_a_cache_that_gives_anothers_plan_is_caught_before_the_charge_and_the_noise(
    db: Session, monkeypatch: pytest.MonkeyPatch, confuse: object, kind: str
) -> None:
    drawn: list[object] = []
    sample = measure.sample
    monkeypatch.setattr(measure, "sample", lambda *asked: drawn.append(asked) or sample(*asked))
    confuse(monkeypatch)  # type: ignore[operator]
    mechanism = "kronecker"
    db["two"].histogram2d("x", "y").preview(epsilon=EPSILON, mechanism=mechanism)
    question = db["one"].histogram2d("x", "y")
    with pytest.raises((DigestMismatch, InfiniteLoss)):
        getattr(question, kind)(epsilon=EPSILON, mechanism=mechanism)
    assert not drawn
    assert db.budget("one").spent == 0
    monkeypatch.undo()
    forget()
    fresh = db["one"].histogram2d("y", "x")
    fresh.release(epsilon=EPSILON, mechanism=mechanism).certificate.verify()
