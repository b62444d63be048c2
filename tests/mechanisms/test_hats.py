import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.hdmm import identity_error
from benchmarks.tune_hats import Task, broken_lines, even_hats, freed
from blowfishdb.mechanisms import optimized
from blowfishdb.mechanisms.axis import GRID, EstimatingStrategy, read_axis
from blowfishdb.mechanisms.hats import (
    MOST_WEIGHTS,
    HatLevel,
    TunedHats,
    TunedLines,
    _hills,
    hats_for,
    interpolated,
    tuned_rows,
)
from blowfishdb.mechanisms.strategy import row_variances
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import AllRanges, Identity, Prefix
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.plan import Plan, Problem
from papers.baselines.noise import NO_UNIVERSAL, one_record


def anywhere(cells: int) -> CellGraph:
    """A record may move to any cell, and their number is public."""
    window = WindowGraph(np.full(cells, cells - 1), NO_UNIVERSAL)
    return CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "public")


def planned(problem: Problem) -> tuple[float, Plan]:
    strategy = optimized.propose(problem)
    plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
    spread = variance(float(plan.unit) / plan.weights)
    return math.sqrt(strategy.total_variance(spread) / problem.workload.shape[0]), plan


@pytest.mark.parametrize(("graph", "loss"), [(one_record, 1), (anywhere, 2)])
@pytest.mark.parametrize("workload", [Prefix, AllRanges])
@pytest.mark.parametrize("cells", [128, 200, 270, 365, 777, 1000])
def test_rows_are_worth_what_the_table_says(graph, loss, workload, cells):
    problem = Problem(graph(cells), workload(cells))
    tuned = tuned_rows(read_axis("optimized", problem), problem.workload)
    rmse, plan = planned(problem)
    assert rmse == pytest.approx(loss * tuned.rmse, rel=0.025)
    assert np.unique(plan.parts[0].weights).size <= MOST_WEIGHTS


@pytest.mark.parametrize("cells", [33, 256, 500, 1000])
def test_cells_and_rows_use_up_the_loss_and_no_more(cells):
    problem = Problem(one_record(cells), Prefix(cells))
    cell_part, rows = optimized.propose(problem).plan(Fraction(1)).parts
    matrix = rows.rows.dense()
    losses = cell_part.weights + rows.weights @ matrix
    assert losses.max() <= GRID
    assert losses.min() >= 0.99 * GRID
    tops = matrix.argmax(axis=1)
    for row, top in zip(matrix, tops, strict=True):
        assert np.all(np.diff(row[: top + 1]) >= 0)
        assert np.all(np.diff(row[top:]) <= 0)
    heavier = Plan(Fraction(1), (type(rows)(rows.rows, 2 * rows.weights),))
    assert (
        calibrate(heavier, problem.graph, Fraction(1))[0].unit
        > calibrate(Plan(Fraction(1), (rows,)), problem.graph, Fraction(1))[0].unit
    )


@pytest.mark.parametrize(("workload", "published"), [(Prefix, 7.41), (AllRanges, 8.10)])
def test_the_peer_is_reproduced_and_left_behind(workload, published):
    dense = workload(256).dense().astype(np.float64)
    peer = math.sqrt(2 * identity_error(dense.T @ dense, 16, seed=0) / dense.shape[0])
    assert peer == pytest.approx(published, rel=0.01)
    assert planned(Problem(one_record(256), workload(256)))[0] < 0.99 * min(peer, published)


@pytest.mark.parametrize("workload", [Prefix, AllRanges])
@pytest.mark.parametrize("cells", [235, 256, 281])
def test_broken_lines_serve_sizes_near_theirs_better_than_hats(workload, cells):
    problem = Problem(one_record(cells), workload(cells))
    axis = read_axis("optimized", problem)
    assert isinstance(tuned_rows(axis, problem.workload), TunedLines)
    assert isinstance(
        tuned_rows(read_axis("optimized", Problem(anywhere(cells), problem.workload)), problem.workload), TunedHats
    )

    def error(rows: TunedLines | TunedHats) -> float:
        strategy = EstimatingStrategy("optimized", problem, rows.build(axis, np.empty(0)))
        plan, _ = calibrate(strategy.plan(Fraction(1)), problem.graph, Fraction(1))
        return strategy.total_variance(row_variances(plan))

    assert error(tuned_rows(axis, problem.workload)) < error(hats_for(problem.workload, moves=False))


def test_only_whole_axes_and_two_workloads_have_tables():
    one, other = Problem(one_record(64), Prefix(64)), Problem(anywhere(128), AllRanges(128))
    assert all(tuned_rows(read_axis("optimized", p), p.workload) is not None for p in (one, other))
    both = CellGraph(other.graph.factors, "record", np.ones(128, dtype=np.bool_), "public")
    narrow = CellGraph(
        (WindowGraph(np.minimum(np.arange(64) + 3, 63), NO_UNIVERSAL),), "record", np.zeros(64, np.bool_), "public"
    )
    for problem in (
        Problem(one_record(64), Identity(64)),
        Problem(one_record(20), Prefix(20)),
        Problem(one_record(8000), Prefix(8000)),
        Problem(both, Prefix(128)),
        Problem(narrow, Prefix(64)),
    ):
        assert tuned_rows(read_axis("optimized", problem), problem.workload) is None


def test_sizes_between_tables():
    level = HatLevel.of([4, *[0.0] * 22])
    finer = HatLevel.of([16, *[1.0] * 22])
    table = {64: TunedHats((level,), 4.0), 256: TunedHats((finer,), 9.0), 512: TunedHats((finer, level), 10.0)}
    middle = interpolated(table, 128)
    assert (middle.levels[0].count, middle.rmse) == (8, pytest.approx(6.0))
    assert middle.levels[0].widths == pytest.approx(np.full(9, 0.5))
    assert [one.count for one in interpolated(table, 280).levels] == [18]
    assert [one.count for one in interpolated(table, 400).levels] == [12, 3]
    assert interpolated(table, 63) is None
    assert interpolated(table, 641) is None


def test_hills_never_rise_again():
    rows = np.array([[1, 3, 2, 4, 2, 3, 0], [0, 0, 5, 5, 1, 1, 2]])
    np.testing.assert_array_equal(_hills(rows), [[1, 2, 2, 4, 2, 2, 0], [0, 0, 5, 5, 1, 1, 1]])


@pytest.mark.parametrize("table", ["running counts, presence", "all ranges, presence"])
def test_the_search_over_all_entries_ends_below_its_start_with_rows_that_fit_the_loss(table):
    task, start = Task(table, 24), even_hats(24, 2)

    def total(rows):
        """The summed variance of the queries, halved, by dense algebra: cells and rows, over a cell a loss of 1."""
        matrix = np.vstack([np.eye(24), rows]) / (1.0 + rows.sum(axis=0))
        queries = task.workload.dense()
        return np.trace(queries @ np.linalg.inv(matrix.T @ matrix) @ queries.T)

    least, rows = freed(task, start)
    assert least == pytest.approx(total(rows))
    assert least < 0.99 * total(start)
    assert rows.shape == start.shape and rows.min() >= 0.0
    lines = TunedLines(24, np.array(broken_lines(rows)), task.rmse(least))
    built = lines.build(read_axis("optimized", Problem(one_record(24), task.workload)), np.empty(0))
    losses = built.cell_weights + built.coarse_weights @ built.coarse.toarray()
    assert losses.max() <= GRID
    assert lines.shares(24) == pytest.approx(rows / (1.0 + rows.sum(axis=0)), abs=0.05)
