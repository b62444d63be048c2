"""Pictures of matplotlib hold the artists that each kind of answer needs, with the question as title."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.patches import StepPatch

from blowfishdb.inference.consistency import Consistent
from blowfishdb.present.chart import evenly, largest, regular, runs, shade, tallest
from tests.present.cases import QUESTIONS, constructed, on_a_line, released


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


def ink(ax: object) -> float:
    """The part of the picture that is not white."""
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[..., :3]
    return float(np.mean(np.any(pixels < 250, axis=-1)))


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.sampled(3)
def test_every_kind_draws_something_with_its_question_and_price(name: str) -> None:
    answer = released(name)
    ax = answer.plot()
    assert ax.get_title(loc="left").replace("\n", " ") == answer.title.replace("$", r"\$")
    said = " ".join(text.get_text() for text in ax.texts)
    assert "epsilon" in said
    assert "identity" in said
    assert "(95 %)" in said
    assert ink(ax) > 0.01


def test_an_empty_picture_has_less_ink() -> None:
    _, ax = pyplot.subplots(figsize=(8, 4.6))
    ax.set_axis_off()
    assert ink(ax) < 0.01


def test_histograms_have_one_bar_and_one_error_bar_each() -> None:
    answer = released("histogram")
    ax = answer.plot()
    bars, errors = (next(c for c in ax.containers if isinstance(c, kind)) for kind in (BarContainer, ErrorbarContainer))
    assert np.allclose([bar.get_height() for bar in bars], answer.values)
    ends = np.array([segment[:, 1] for segment in errors.lines[2][0].get_segments()])
    assert np.allclose(ends, np.stack([answer.bounds.low, answer.bounds.high], axis=1))
    assert [label.get_text() for label in ax.get_xticklabels()] == list(answer.tables[0].axes[0].labels)


def test_many_bars_become_an_outline_with_a_band_and_few_ticks() -> None:
    answer = released("calendar")
    ax = answer.plot()
    assert len([patch for patch in ax.patches if isinstance(patch, StepPatch)]) == 2
    assert len(ax.get_xticks()) <= 24


def test_a_spike_is_never_thinned_away() -> None:
    values = np.ones(30_000)
    values[12_345] = 5_000.0
    heights = on_a_line(values.tolist()).plot().patches[0].get_data().values
    assert heights.size <= 2_000
    assert heights.max() == 5_000.0
    names = constructed([f"n{place}" for place in range(values.size)], values.tolist()).plot()
    assert max(bar.get_width() for bar in names.patches) == 5_000.0


def test_running_counts_are_a_step_curve_in_its_band() -> None:
    answer = released("cdf")
    ax = answer.plot()
    curve = ax.lines[0]
    assert curve.get_drawstyle() == "steps-post"
    assert np.allclose(curve.get_ydata()[1:], answer.values)
    band = next(found for found in ax.collections if isinstance(found, FillBetweenPolyCollection))
    points = band.get_paths()[0].vertices[:, 1]
    assert points.max() == pytest.approx(answer.bounds.high.max())


def test_a_curve_far_from_zero_says_that_its_axis_begins_above() -> None:
    assert "begins above 0" in constructed(["a", "b"], [900.0, 990.0], kind="cdf").plot().get_ylabel()
    assert "begins above 0" not in constructed(["a", "b"], [9.0, 990.0], kind="cdf").plot().get_ylabel()


def test_special_cells_are_told_beside_the_curve() -> None:
    ax = released("cdf beside NULL").plot()
    assert any("beside the order: NULL: " in text.get_text() for text in ax.texts)


def test_numbers_stand_in_squares_only_where_they_fit() -> None:
    answer = released("plane")
    large = answer.raw * 10.0**16
    wide = replace(answer, raw=large, consistent=Consistent(large, True, ""))
    written, left_out = (len(one.plot().texts) for one in (answer, wide))
    assert written - left_out == answer.raw.size


def test_planes_have_a_colour_bar_that_states_the_half_width() -> None:
    answer = released("plane")
    ax = answer.plot()
    assert np.allclose(ax.images[0].get_array(), answer.values.reshape(5, 5))
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert "intervals ± 60" in bar.get_ylabel()


@pytest.mark.parametrize("name", ["ranges", "boxes", "marginals", "three attributes"])
def test_other_answers_are_dots_in_intervals(name: str) -> None:
    answer = released(name)
    dots = next(found for found in answer.plot().containers if isinstance(found, ErrorbarContainer))
    assert np.allclose(dots.lines[0].get_xdata(), answer.values)
    ends = np.array([segment[:, 0] for segment in dots.lines[2][0].get_segments()])
    assert np.allclose(ends, np.stack([answer.bounds.low, answer.bounds.high], axis=1))


def test_a_number_stands_by_itself_with_its_interval() -> None:
    answer = released("count")
    texts = [text.get_text() for text in answer.plot().texts]
    assert f"{answer.values[0]:,.0f}" in texts
    assert any(text.startswith("between ") for text in texts)


def test_every_name_of_two_hundred_is_on_the_picture() -> None:
    names = [f"Ward {place}" for place in range(200)]
    ax = constructed(names, [float(place) for place in range(200)]).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert ax.figure.get_figheight() * 72 / 200 > 9, "points of height for each"


def test_squares_within_the_noise_are_dotted() -> None:
    answer = released("plane")
    numbers = np.where(np.arange(answer.raw.size) == 7, 3.0, answer.raw)
    ax = replace(answer, raw=numbers, consistent=Consistent(numbers, True, "")).plot()
    assert [line.get_xydata().round().tolist() for line in ax.lines] == [[[2.0, 1.0]]]
    assert not answer.plot().lines


def test_dollars_in_labels_are_no_formulas() -> None:
    ax = constructed(["$\\frac$", "b$"], [1.0, 2.0], title="Histogram where x = '$\\bad$'").plot()
    assert ink(ax) > 0.01
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["\\$\\frac\\$", "b\\$"]


def test_own_axes_are_drawn_on(tmp_path: Path) -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    assert released("cdf").plot(ax=right) is right
    assert not left.has_data()
    assert right.has_data()


def test_saving_leaves_no_figure_behind(tmp_path: Path) -> None:
    for ending in ("png", "svg", "pdf"):
        path = tmp_path / f"plot.{ending}"
        released("plane").save_plot(path)
        assert path.stat().st_size > 5_000
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []


def test_raw_answers_below_zero_are_not_cut_off() -> None:
    answer = constructed(["a", "b"], [-30.0, 5.0])
    shown = replace(answer, consistent=replace(answer.consistent, feasible=False, note="raw answers returned"))
    assert shown.plot().get_ylim()[0] < -30


def test_thinning_keeps_ends_tops_and_round_numbers() -> None:
    assert evenly(10, 4) == [0, 3, 6, 9]
    assert evenly(3, 5) == [0, 1, 2]
    assert regular([str(age) for age in range(17, 91)], 10) == [place for place in range(74) if (place + 17) % 10 == 0]
    assert regular(["a", "b", "c", "d", "e"], 3) == [0, 2, 4]
    assert runs(10, 3) == [0, 3, 6]
    assert tallest(np.array([1.0, 9.0, 2.0, 3.0, 8.0]), 2) == [1, 4]
    assert largest(np.array([5.0, 1.0, 7.0, 6.0]), 2) == [2, 3]


def test_shades_darken_evenly_so_that_they_read_without_colour() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        return (0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2) ** (1 / 3)

    steps = -np.diff([lightness(shade(part)) for part in np.linspace(0, 1, 13)])
    assert np.all(steps > 0)
    assert steps.max() < 3 * steps.min()
