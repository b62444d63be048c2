"""Problems on one axis that tests of accuracy share, and fresh noise that owes nothing to the quotes."""

import numpy as np

from blowfishdb.accuracy.candidates import CertifiedCandidate, certified_strategy
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Rows
from blowfishdb.plan.plan import Problem


def threshold(cells: int, theta: int, presence: str = "public") -> CellGraph:
    reach = np.minimum(np.arange(cells) + theta, cells - 1)
    return CellGraph((WindowGraph(reach, np.array([], dtype=np.int64)),), "record", np.array(False), presence)


def on_threshold(workload: Rows, theta: int) -> Problem:
    return Problem(threshold(workload.shape[1], theta), workload)


def certified(problem: Problem, mechanism: Mechanism) -> CertifiedCandidate:
    """The mechanism's strategy with its certificate; raises Declined, TooLarge or CannotCertify."""
    return certified_strategy(problem, mechanism(problem))


def fresh_errors(problem, strategy, plan, samples: int, seed: int) -> np.ndarray:
    """Errors of every answer under independent discrete Laplace noise, answers by samples."""
    rng = np.random.default_rng(seed)
    scales = float(plan.unit) / plan.weights
    shape = (samples, scales.size)
    drop = -np.expm1(-1.0 / scales)
    noise = (rng.geometric(drop, shape) - rng.geometric(drop, shape)).T.astype(float)
    exact = np.zeros((plan.exact.shape[0] if plan.exact is not None else 0, samples))
    variances = 1.0 / (2.0 * np.sinh(0.5 / scales) ** 2)
    errors = strategy.decode(noise, exact, variances)
    return np.where(np.abs(errors) > 1e-9, errors, 0.0)


def significantly_above(failures: int, samples: int, beta: float) -> bool:
    """Whether so many failures are out of the question if each has probability beta."""
    return failures > samples * beta + 4.0 * np.sqrt(samples * beta * (1.0 - beta))
