"""A synopsis is paid once; every question over its attributes is then answered free, as the exact table would be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.engine.synopsis import to_bytes
from blowfishdb.engine.synopsis_release import SynopsisPreview, cells_and_ranges
from blowfishdb.errors import AccuracyError, DocumentError, InvalidInput, QueryError
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.serialize import Field
from blowfishdb.session import Session
from tests.present.test_page import check_inert, read
from tests.session.places import ROWS, make_fixture, visits

col = bf.col


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("clinic")
    return bf.connect(make_fixture(folder, visits(bf.Policy({}), epsilon="100000")), analyst="ana")


@pytest.fixture(scope="module")
def synopsis(session: Session) -> bf.Synopsis:
    """So much epsilon that noise hardly matters, and answers can be compared with the table."""
    return session["visits"].histogram(col("age").bins(5), "ward").publish(epsilon=1000)


def test_one_of_almost_no_noise_is_published_and_answers(tmp_path: Path) -> None:
    """The variance of its noise is smaller than any number of the computer."""
    terms = visits(bf.Policy(presence="only"), epsilon="100000")
    with bf.connect(make_fixture(tmp_path, terms), analyst="ana") as db:
        published = db["visits"].histogram("ward").publish(epsilon=900)
        assert published.histogram("ward").values.tolist() == [1000, 1000, 1000]
        assert np.all(np.isfinite(published.histogram("ward").bounds.high))


def test_it_is_charged_once_and_replayed(session: Session) -> None:
    before = session.budget("visits").spent
    one = session["visits"].histogram("ward").publish(epsilon="0.5")
    two = session["visits"].histogram("ward").publish(epsilon="0.5")
    assert session.budget("visits").spent - before == Fraction(1, 2)
    assert np.array_equal(one.artefact.counts, two.artefact.counts)
    one.histogram("ward")
    assert session.budget("visits").spent - before == Fraction(1, 2)


def test_a_synopsis_is_not_the_histogram(session: Session) -> None:
    """Another draw: the histogram's own request is charged by itself."""
    before = session.budget("visits").spent
    session["visits"].histogram("ward").publish(epsilon="0.25")
    session["visits"].histogram("ward").release(epsilon="0.25")
    assert session.budget("visits").spent - before == Fraction(1, 2)


def test_questions_are_answered_as_by_the_table(synopsis: bf.Synopsis) -> None:
    assert synopsis.count().values[0] == pytest.approx(ROWS, abs=2)
    assert synopsis.histogram("ward").values == pytest.approx([1000, 1000, 1000], abs=2)
    assert synopsis.histogram(col("age").bins(10)).values == pytest.approx([300] * 10, abs=2)
    assert synopsis.where(col("ward") == "A1").histogram(col("age").bins(50)).values == pytest.approx([500, 500], abs=2)
    assert synopsis.cdf(col("age").bins(25)).values == pytest.approx([750, 1500, 2250, 3000], abs=2)
    assert synopsis.histogram2d("ward", col("age").bins(50)).values == pytest.approx([500] * 6, abs=2)


def test_numbers_are_read_off_the_cells(synopsis: bf.Synopsis) -> None:
    assert synopsis.mean("age").values[0] == pytest.approx(49.5, abs=0.1)
    assert synopsis.sum("age").values[0] == pytest.approx(49.5 * ROWS, rel=1e-3)
    low, middle = synopsis.quantiles("age", [0.25, 0.5]).values
    assert low == pytest.approx(24.5, abs=2)
    assert middle == pytest.approx(49.5, abs=2)
    assert synopsis.where(col("age") < 50).share(of=6000) == pytest.approx(0.25, abs=0.01)


def test_a_cut_cell_is_spread_evenly_and_says_so(synopsis: bf.Synopsis) -> None:
    cut = synopsis.where(col("age") < 2).count()
    assert cut.values[0] == pytest.approx(60, abs=2)
    assert "spread evenly" in cut.caveat
    assert "spread evenly" not in synopsis.where(col("age") < 5).count().caveat
    either = synopsis.where((col("age") < 5) | (col("ward") == "A2")).count()
    assert either.values[0] == pytest.approx(1000 + 100, abs=2)


@pytest.mark.parametrize(("mechanism", "part"), [("identity", 50**-0.5), ("dawa", 1.0)])
def test_sums_have_the_intervals_of_independent_noise(session: Session, mechanism: str, part: float) -> None:
    """Fifty cells that were measured one by one; and ages as frequent as others, which dawa measures as one."""
    kept = session["visits"].histogram("age").publish(epsilon="0.21", mechanism=mechanism)
    half = kept.where(col("age") < 50).count().widths.simultaneous
    added = float(kept.artefact.noise.deviations[:50].sum())
    assert half <= 1.001 * part * noise_widths(np.array([added**2]), 0.05).simultaneous


@pytest.mark.parametrize("mechanism", ["ordered", "edge-transform", "dawa-transform"])
def test_ranges_along_a_line_have_the_intervals_of_their_two_ends(tmp_path: Path, mechanism: str) -> None:
    policy = bf.Policy({"age": bf.threshold(1)})
    with bf.connect(make_fixture(tmp_path, visits(policy, epsilon="10")), analyst="ana") as session:
        kept = session["visits"].histogram("age").publish(epsilon="0.2", mechanism=mechanism)
    cell, half = kept.histogram("age").widths.per_answer.max(), kept.where(col("age") < 50).count().widths.simultaneous
    some = kept.ranges("age", [(5, 90), (20, 60)]).widths.per_answer.max()
    assert half <= cell * 1.001
    assert some <= cell * 2**0.5 * 1.001


def test_intervals_hold_for_the_noise(session: Session) -> None:
    """Three hundred cells of 10 records and noise of scale 10: as few lie outside their intervals as the noise says."""
    noisy = session["visits"].histogram("age", "ward").publish(epsilon="0.2", mechanism="identity")
    cells = noisy.histogram2d("age", "ward")
    assert np.all(cells.widths.per_answer < 41)
    assert cells.widths.simultaneous < 120
    # Noise beyond 40 has chance 0.017: 27 cells or more have chance 1e-11. Thrice the noise puts 76 outside.
    assert np.count_nonzero(np.abs(cells.raw - 10) > cells.widths.per_answer) < 27
    total = noisy.count()
    assert abs(total.raw[0] - ROWS) <= total.widths.simultaneous


@pytest.mark.parametrize("axes", [("age",), ("age", "ward")])
def test_a_data_aware_mechanism_publishes_cells_and_says_what_it_does_not_cover(
    session: Session, axes: tuple[str, ...]
) -> None:
    """Ages are even, so one bucket serves them all; the program is charged whole."""
    before = session.budget("visits").spent
    made = session["visits"].histogram(*axes).publish(epsilon=2, mechanism="dawa")
    assert session.budget("visits").spent - before == 2
    assert made.count().values[0] == pytest.approx(ROWS, abs=100)
    assert sum(allowance.epsilon for allowance in made.artefact.stages) == 2
    assert "noise only" in made.histogram("age").caveat


def test_a_file_keeps_everything(synopsis: bf.Synopsis, tmp_path: Path) -> None:
    path = synopsis.save(tmp_path / "ages.parquet")
    kept = bf.open_synopsis(path)
    assert kept.epsilon == 1000
    assert kept.histogram(col("age").bins(25), "ward").rows() == synopsis.histogram(col("age").bins(25), "ward").rows()
    assert repr(kept) == repr(synopsis)
    assert "free" in repr(kept)


def test_a_changed_file_is_noticed(synopsis: bf.Synopsis, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = synopsis.save(tmp_path / "ages.parquet")
    table = parquet.read_table(path)
    counts = table.column("count").to_numpy() + 1.0
    parquet.write_table(table.set_column(2, "count", pa.array(counts)), path)
    with pytest.raises(DocumentError, match="changed"):
        bf.open_synopsis(path)
    parquet.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(DocumentError, match="not a synopsis"):
        bf.open_synopsis(path)
    path.write_bytes(to_bytes(synopsis.artefact)[:-20])
    with pytest.raises(DocumentError):
        bf.open_synopsis(path)
    with pytest.raises(InvalidInput):
        bf.open_synopsis(tmp_path / "nothing.parquet")


def test_what_cannot_be_published_or_asked_is_refused(session: Session, synopsis: bf.Synopsis) -> None:
    with pytest.raises(QueryError, match="histogram"):
        session["visits"].cdf("age").publish(epsilon=1)
    with pytest.raises(AccuracyError):
        session["visits"].histogram("age").publish(epsilon=0)
    with pytest.raises(QueryError, match="not in this synopsis"):
        synopsis.histogram("cost")
    with pytest.raises(QueryError):
        synopsis.where("age < 3")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        synopsis.share(of=0)


@pytest.mark.parametrize("cells", [1, 2, 3, 100, 4096])
def test_a_synopsis_is_made_for_cells_and_for_ranges_of_every_length(cells: int) -> None:
    asked = cells_and_ranges(cells)
    lengths = asked.high - asked.low
    assert np.array_equal(asked.low[:cells], np.arange(cells))
    assert np.all(lengths[:cells] == 1)
    assert set(lengths[cells:].tolist()) == {2**k for k in range(1, cells.bit_length())}
    assert int(asked.high.max()) == cells
    assert lengths.size <= 1.2 * cells + 20


@pytest.mark.parametrize(
    ("axes", "condition", "mechanism"),
    [
        ((col("age").bins(5), "ward"), None, None),
        (("age",), col("ward") == "A1", "hierarchy"),
        ((col("cost").bins(10),), None, None),
    ],
)
def test_what_a_preview_expects_is_what_the_synopsis_will_say(
    session: Session, axes: tuple[object, ...], condition: Predicate | None, mechanism: str | None
) -> None:
    before = session.budget("visits").spent
    table = session["visits"] if condition is None else session["visits"].where(condition)
    asked = table.histogram(*axes)
    found = asked.publish_preview(epsilon="0.5", mechanism=mechanism)
    assert session.budget("visits").spent == before
    made = asked.publish(epsilon="0.5", mechanism=mechanism)
    kept = made.artefact
    assert (found.epsilon, found.mechanism, found.cells) == (made.epsilon, kept.mechanism, kept.counts.size)
    answers = {answer.title: answer for answer in _asked_of(made, axes)}
    assert set(answers) == {one.question for one in found.errors}
    for one in found.errors:
        own = answers[one.question]
        assert (one.answers, one.within) == (own.raw.size, own.widths.simultaneous)
        # The usual error lies far below what holds for all answers nineteen times in twenty.
        assert 0 < one.usual < one.within / 2 or one.within == one.usual == 0 == own.bounds.high[0] - own.bounds.low[0]


def _asked_of(made: bf.Synopsis, axes: tuple[object, ...]) -> list[bf.Answer]:
    found = [made.count(), made.histogram(*axes)]
    for axis in axes:
        found += [made.histogram(axis)] if len(axes) > 1 else []
        found += [made.cdf(axis)] if axis != "ward" else []
    return found


def test_the_usual_error_is_that_of_the_noise(session: Session) -> None:
    """Ten thousand cells of one known scale: the error is within 15 % of what was expected, twelve deviations off."""
    found = session["visits"].histogram("age", col("cost").bins(5)).publish_preview(epsilon="0.1", mechanism="identity")
    made = session["visits"].histogram("age", col("cost").bins(5)).publish(epsilon="0.1", mechanism="identity")
    cells = made.histogram("age", col("cost").bins(5)).raw
    true = np.zeros((100, 100))
    for row in range(ROWS):
        true[row % 100, int((row * 7) % 500 + 0.25) // 5] += 1
    usual = found.errors[0].usual
    assert np.sqrt(np.mean((cells - true.reshape(-1)) ** 2)) == pytest.approx(usual, rel=0.15)


def test_what_depends_on_the_data_is_not_guessed(session: Session) -> None:
    found = session["visits"].histogram("age").publish_preview(epsilon="0.5", mechanism="dawa")
    assert found.errors == () and found.mechanism == "dawa"
    assert "is not known before: dawa looks at the data" in str(found)
    assert "<table" not in found._repr_html_()


def test_previews_of_synopses_are_readable(session: Session) -> None:
    found = session["visits"].histogram("age").publish_preview(epsilon="0.5")
    assert Field(found.to_dict()).read(SynopsisPreview).to_dict() == found.to_dict()
    head, columns, *lines = str(found).split("\n")
    assert head.startswith("Synopsis of histogram of age: 100 cells for epsilon 0.5, once, by ")
    assert columns.split("  ")[-1].strip() == "usual error"
    assert [len(line) for line in lines[:3]] == [len(columns)] * 3
    assert repr(found) == str(found)
    check_inert(read(found._repr_html_()))
    assert "this is too expensive" in str(replace(found, left=Fraction(1, 4)))
    with pytest.raises(QueryError, match="from a histogram"):
        session["visits"].cdf("age").publish_preview(epsilon="0.5")
