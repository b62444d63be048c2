"""Noise: the sampler against the law it claims, at tiny and huge scales, from chosen bits, with keys of its own."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from blowfishdb.audit.report import CheckLine, broken, judged
from blowfishdb.audit.scratch import REAL, in_this_thread, replaced, swapped
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise import coupling
from blowfishdb.noise.quantile_sampler import Proposal, SpreadRecords, draw_quantiles
from blowfishdb.noise.sampler import Keystream, digit_table, heads_of

FEWEST = 40
"""The fewest draws that a bin of a goodness-of-fit test expects."""
MOST_BINS = 60


@dataclass(frozen=True)
class NoiseLaw:
    """Discrete Laplace noise, or the geometric variable that is never negative."""

    scale: float
    two_sided: bool = True

    @property
    def ratio(self) -> float:
        return math.exp(-1.0 / self.scale)

    @property
    def mean_size(self) -> float:
        """The mean of |X|."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        return 2.0 * q / (left * (1.0 + q)) if self.two_sided else q / left

    @property
    def size_variance(self) -> float:
        """The variance of |X|."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        second = 2.0 * q / left**2 if self.two_sided else q * (1.0 + q) / left**2
        return second - self.mean_size**2

    @property
    def even(self) -> float:
        """The chance of an even number."""
        q, left = self.ratio, -math.expm1(-1.0 / self.scale)
        # Even numbers are a law of half the scale, squeezed: (1 - q) / (1 + q) times (1 + q^2) / (1 - q^2).
        return (1.0 + q * q) / (1.0 + q) ** 2 if self.two_sided else left / (-math.expm1(-2.0 / self.scale))

    def at_least(self, value: int) -> float:
        """P(X >= value), precise far out."""
        return math.exp(self.log_at_least(value))

    def log_at_least(self, value: int) -> float:
        """log P(X >= value), which is finite wherever the probability is not 0."""
        if value > 0:
            return -value / self.scale - (math.log1p(self.ratio) if self.two_sided else 0.0)
        return math.log1p(-self.at_least(1 - value)) if self.two_sided else 0.0

    def bins(self, draws: int) -> tuple[Ints, Floats]:
        """Whole edges and the chances of the bins between them, each expecting enough of the draws."""
        rate = 1.0 / self.scale
        law = stats.dlaplace(rate) if self.two_sided else stats.geom(-math.expm1(-rate), loc=-1)
        wanted, least = min(MOST_BINS, max(2, draws // (4 * FEWEST))), FEWEST / draws
        options = np.unique([0, 1, *law.ppf(np.arange(1, wanted) / wanted) + 1]).astype(np.int64)
        edges, below = list[int](), [0.0]
        for edge, chance in zip(options.tolist(), law.cdf(options - 1).tolist(), strict=True):
            if chance - below[-1] >= least and 1.0 - chance >= least:
                edges.append(edge)
                below.append(chance)
        return np.array(edges, dtype=np.int64), np.diff([*below, 1.0])


KEY = 32
"""Bytes of randomness that each call takes at least: keys that can be guessed make noise that can be taken away."""


def _drawn(function: str, bit: int | None) -> tuple[bytes, list[int]]:
    """The draws of a call when the system gives zeros but for one bit, and the sizes of its requests in bytes."""
    sizes: list[int] = []

    def given(size: int) -> bytes:
        sizes.append(size)
        content = bytearray(size)
        if bit is not None and bit // 8 < size:
            content[bit // 8] = 1 << (bit % 8)
        return bytes(content)

    with swapped(os, "urandom", in_this_thread(os.urandom, given)):
        size_or_scale = (64, 62) if function == "sample_words" else (Fraction(10**8), 1, 64)
        drawn = REAL[function](*size_or_scale)
    return drawn.tobytes(), sizes


def key_violations(function: str) -> Iterator[str]:
    """A key that is too short, taken too seldom, or of which some bits do not matter."""
    usual, sizes = _drawn(function, None)
    if sum(sizes) < KEY:
        yield f"a call takes {sum(sizes)} bytes from the operating system, not {KEY}"
        return
    if _drawn(function, None) != (usual, sizes):
        yield "a call depends on more than what it takes from the operating system"
    seen = {usual, *(_drawn(function, bit)[0] for bit in range(8 * KEY))}
    if len(seen) <= 8 * KEY:
        yield f"of {8 * KEY} bits of the key {8 * KEY + 1 - len(seen)} do not matter"


HEAD, FULL = 16, 256
NO = 2**16 - 1
"""A first random number that leaves every digit 0: no digit is 1 with a chance above one half."""
PRECISE = Context(prec=140)
DIGIT_SCALES: tuple[tuple[Fraction, int], ...] = (
    (Fraction(1, 1000), 1),
    (Fraction(1, 3), 1),
    (Fraction(2), 1),
    (Fraction(355, 113), 1),
    (Fraction(1000), 1),
    (Fraction(10**9), 1),
    (Fraction(10**15 + 37, 10**13 + 51), 7),
)
"""Units and weights; the last unit is one that no short fraction and no float is equal to."""
HALVES: dict[str, tuple[tuple[int, int], ...]] = {"sample": ((0, 1), (1, -1)), "sample_geometric": ((0, 1),)}
"""The halves of the random bits that count for a draw, and their signs."""


class Scripted:
    """Random bits that are chosen: one first number per digit, highest digit first, then the bits that settle ties.

    They go to one half of the draws; the digits of the other half are all 0.
    """

    def write(self, heads: Sequence[int], ties: Sequence[int], half: int) -> None:
        """Sets the bits to come."""
        self._heads = list(heads)
        self._ties = list(ties)
        self._half = half

    def opened(self) -> Scripted:
        """Stands for a new keystream."""
        return self

    def fill(self, lanes: NDArray[np.uint16]) -> None:
        lanes[...] = NO
        if self._heads:
            lanes[self._half] = self._heads.pop(0)

    def integer(self, bits: int) -> int:
        return self._ties.pop(0) if self._ties else 2**bits - 1


def chance(rate: Fraction, *, of_digit: bool) -> int:
    """2^256 times the chance of a digit, 1 / (1 + exp(rate)), or of a carry, exp(-rate), rounded down."""
    power = PRECISE.exp(PRECISE.minus(PRECISE.divide(Decimal(rate.numerator), Decimal(rate.denominator))))
    if of_digit:
        power = PRECISE.divide(power, PRECISE.add(Decimal(1), power))
    return int(PRECISE.multiply(power, Decimal(2**FULL)))


def digit_violations() -> list[str]:
    """Faults of digits, ties and carries at any of the scales."""
    bits = Scripted()
    with replaced({Keystream: bits.opened}):
        return [violation for unit, weight in DIGIT_SCALES for violation in _at_scale(bits, unit, weight)]


def _at_scale(bits: Scripted, unit: Fraction, weight: int) -> Iterator[str]:
    digits, scale = digit_table(unit, np.array([weight])).digits, unit / weight
    for position in range(digits):
        whole = chance(Fraction(2**position) / scale, of_digit=True)
        for heads, ties, times in _digit_probes(whole):
            place, before = f"scale {float(scale):g}, digit {position}", [NO] * (digits - 1 - position)
            yield from _violations(place, bits, (unit, weight), [*before, *heads], ties, times << position)
    whole = chance(Fraction(2**digits) / scale, of_digit=False)
    if whole >> (FULL - HEAD):
        yield f"scale {float(scale):g}: a carry is likelier than 2^-16"
        return
    for ties, times in _carry_probes(whole):
        place = f"scale {float(scale):g}, carry"
        yield from _violations(place, bits, (unit, weight), [*[NO] * digits, 0], ties, times << digits)


def _digit_probes(whole: int) -> Iterator[tuple[list[int], list[int], int]]:
    """First bits and further bits on either side of the chance of a digit, and the digit that must come of them."""
    head, rest = divmod(whole, 2 ** (FULL - HEAD))
    yield [head + 1], [], 0
    yield [head], [rest + 1], 0
    if head:
        yield [head - 1], [], 1
    if rest:
        yield [head], [rest - 1], 1


def _carry_probes(rest: int) -> Iterator[tuple[list[int], int]]:
    """Bits on either side of the chance of a carry, and how many carries must come of them."""
    if rest:
        yield [rest + 1], 0
        yield [0, 1], 1
        yield [rest - 1, 1], 1
        yield [rest - 1, 0, rest - 1, 1], 2


NEAR = (50, 56, 60, 80, 84, 87, 90, 120)
"""How near a probability comes to a multiple of 2^-16: closer than floats tell, and than short series do."""


def edge_violations() -> Iterator[str]:
    """The first bits of probabilities next to a multiple of 2^-16, on either side of it."""
    for head, bits, side in itertools.product((1, 3, 777, 9_999, 20_001, 32_767), NEAR, (1, -1)):
        chance = PRECISE.divide(Decimal(head), Decimal(2**HEAD))
        chance = PRECISE.add(chance, PRECISE.divide(Decimal(side), Decimal(2**bits)))
        rate = Fraction(PRECISE.ln(PRECISE.divide(PRECISE.subtract(Decimal(1), chance), chance)))
        heads = heads_of(1 / rate, np.ones(1, dtype=np.int64), 1)
        if int(heads[0, 0]) != (head if side > 0 else head - 1):
            yield f"the first bits of a probability within 2^-{bits} of {head} / 2^{HEAD} are wrong"


def float_violations() -> Iterator[str]:
    """Thresholds of the choice between levels as floats: their errors must stay far below the margin left for them."""
    one, exact = np.ones(1, dtype=np.int64), coupling.Enclosed(200)
    for fine, times, apart in itertools.product((Fraction(1, 3), Fraction(7), Fraction(10**6)), (2, 50), (0, 1, 40)):
        left, right = coupling.Step.between(fine, 2 * fine), coupling.Step.between(2 * fine, 2 * times * fine)
        meets = int(apart == 0)
        places = np.array([float(apart)]), np.array([float(meets)])
        fast = coupling.between_law(left.floats(one), right.floats(one), *places, coupling.Exponentials())
        slow = coupling.between_law(left, right, apart, meets, exact)
        sums, exact_sums = np.cumsum([float(way[0]) for way in fast]), list(itertools.accumulate(w.low for w in slow))
        errors = [abs(Fraction(a / sums[-1]) - b / exact_sums[-1]) for a, b in zip(sums, exact_sums, strict=True)]
        if 8 * max(errors[:-1]) > coupling.MARGIN:
            yield f"floats decide within {float(max(errors[:-1])):.1e} of a threshold"


def _violations(
    place: str, bits: Scripted, law: tuple[Fraction, int], heads: Sequence[int], ties: Sequence[int], wanted: int
) -> Iterator[str]:
    """The sampler itself with these bits for its keystream, one-sided and on either side."""
    for function, halves in HALVES.items():
        for half, sign in halves:
            bits.write(heads, ties, half)
            drawn = int(REAL[function](*law, 1)[0])
            if drawn != sign * wanted:
                yield f"{place}, {function}: chosen random bits give {drawn}, not {sign * wanted}"


FALSE_ALARM = 1e-6
"""The chance that a right sampler fails at least one test of a run."""
TESTS = 600
"""More tests than a run makes; each has this share of the false alarm."""
LEVEL = FALSE_ALARM / TESTS
SCALES: tuple[tuple[Fraction, int], ...] = (
    (Fraction(1, 8), 1),
    (Fraction(2, 3), 1),
    (Fraction(2), 1),
    (Fraction(47, 3), 5),
    (Fraction(40), 1),
    (Fraction(4096), 1),
    (Fraction(10**9), 7),
    (Fraction(10**9), 1),
)
WORD_BITS = 62


Tests = dict[str, float]
"""For each test by its name: the chance that right noise looks at least as wrong."""


def noise_lines(*, quick: bool) -> Iterator[CheckLine]:
    """Every test of the sampler."""
    draws = 150_000 if quick else 1_000_000
    for function, two_sided in (("sample", True), ("sample_geometric", False)):
        for unit, weight in SCALES:
            yield law_line(function, unit, weight, draws, two_sided=two_sided)
        yield _mixed(function, draws, two_sided=two_sided)
        yield _fresh(function)
    yield _words(draws)
    for function in REAL:
        yield judged(function, "key", key_violations(function), "32 new bytes a call, every bit matters", 257)
    yield levels_line(draws)
    yield quantiles_line(draws // 100)
    yield _power(draws)
    fine = "every digit's probability to 2^-256, ties and carries"
    yield judged("digits", "exact probabilities", digit_violations(), fine, 1)
    yield judged("digits", "next to an edge", edge_violations(), "the first bits are right, however near the next ones")
    yield judged("levels", "floats that decide", float_violations(), "only where their errors do not matter", 1)


def law_line(function: str, unit: Fraction, weight: int, draws: int, *, two_sided: bool) -> CheckLine:
    """The draws of two calls against one law, and against each other."""
    law = NoiseLaw(float(unit / weight), two_sided)
    first, second = (REAL[function](unit, weight, draws // 2) for _ in range(2))
    tests = law_tests(law, np.concatenate([first, second])) | independence_tests(law, first, second)
    return _line(function, f"scale {law.scale:g}", tests, draws)


def _line(function: str, subject: str, tests: Tests, draws: int) -> CheckLine:
    failed = ", ".join(f"{name} (chance {chance:.1e})" for name, chance in tests.items() if chance < LEVEL)
    name = {"sample": "Laplace", "sample_geometric": "geometric"}.get(function, function)
    fine = f"{len(tests)} tests, least chance {min(tests.values()):.2g}"
    return judged(f"{name}, {subject}", "law", [f"not the claimed law: {failed}"] if failed else [], fine, draws)


def law_tests(law: NoiseLaw, values: Ints) -> Tests:
    """Goodness of fit, mean size, signs, parity, tails and low bits against one law."""
    count, tests = values.size, Tests()
    edges, chances = law.bins(count)
    if chances.size > 1:
        seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=chances.size)
        tests["fit"] = _fit(seen, chances * count)
    sizes = np.abs(values.astype(np.float64))
    tests["size"] = _normal((sizes.mean() - law.mean_size) / np.sqrt(law.size_variance / count))
    positive, negative = int((values > 0).sum()), int((values < 0).sum())
    if law.two_sided and positive + negative:
        tests["signs"] = _binomial(positive, positive + negative, 0.5)
    if not law.two_sided:
        tests["sign"] = 0.0 if negative else 1.0
    tests["parity"] = _binomial(int((values % 2 == 0).sum()), count, law.even)
    for share in (0.05, 0.002):
        bound = max(1, int(np.ceil(-law.scale * np.log(share))))
        beyond = law.at_least(bound) * (2.0 if law.two_sided else 1.0)
        tests[f"tail {share}"] = _binomial(int((sizes >= bound).sum()), count, beyond)
    if law.scale >= 1000:
        tests["low bits"] = _fit(np.bincount(values % 64, minlength=64), np.full(64, count / 64))
    return tests


def independence_tests(law: NoiseLaw, first: Ints, second: Ints) -> Tests:
    """Neighbouring draws of one call, and the same places of two calls, must know nothing of each other."""
    pairs = {
        "one draw and the next": (first[:-1], first[1:]),
        "two calls": (first, second),
        "places 16 apart": (first[:-16], first[16:]),
    }
    tests = Tests()
    for name, (one, two) in pairs.items():
        tests |= {f"{name} {test}": chance for test, chance in _together(one, two, two_sided=law.two_sided).items()}
        tests[f"{name} sizes"] = _uncorrelated(_sizes(one), _sizes(two))
    if law.scale >= 1000:
        same = int((first == second).sum())
        tests["repeated draws"] = float(stats.binom.sf(same - 1, first.size, 1.0 / law.scale))
    if law.scale >= 10**8:
        # Two draws are equal with a chance of at most 1 / scale, wherever in the call they stand.
        equal = first.size - np.unique(first).size
        most = first.size * (first.size - 1) / 2 / law.scale
        tests["draws that repeat others"] = float(stats.poisson.sf(equal - 1, most))
    return tests


def _together(one: Ints, two: Ints, *, two_sided: bool) -> Tests:
    """Tests of the number of places where both are not 0, given that of each, and of those with the same sign.

    Counts and not a correlation: where few draws differ from 0, one coincidence would look like a strong one.
    """
    first, second = one != 0, two != 0
    both = int((first & second).sum())
    law = stats.hypergeom(first.size, int(first.sum()), int(second.sum()))
    tests = {"zeros": min(1.0, 2.0 * float(min(law.cdf(both), law.sf(both - 1))))}
    if two_sided and both:
        tests["signs"] = _binomial(int((np.sign(one) * np.sign(two) > 0).sum()), both, 0.5)
    return tests


def _sizes(values: Ints) -> Floats:
    return np.minimum(np.abs(values.astype(np.float64)), float(np.quantile(np.abs(values), 0.9)))


def _uncorrelated(one: Floats, two: Floats) -> float:
    if one.std() == 0 or two.std() == 0:
        return 1.0
    return _normal(float(np.corrcoef(one, two)[0, 1]) * np.sqrt(one.size))


def _fit(seen: Ints, expected: Floats) -> float:
    return float(stats.chi2.sf(float(np.sum((seen - expected) ** 2 / expected)), seen.size - 1))


def _normal(score: float) -> float:
    return float(2.0 * stats.norm.sf(abs(score)))


def _binomial(seen: int, count: int, chance: float) -> float:
    return float(stats.binomtest(seen, count, min(1.0, max(0.0, chance))).pvalue)


def _mixed(function: str, draws: int, *, two_sided: bool) -> CheckLine:
    """Weights that differ within one call: every weight's draws on their own."""
    listed, unit, tests = (1, 3, 64, 1000), Fraction(5000, 7), Tests()
    weights = np.resize(np.array(listed), draws)
    values = REAL[function](unit, weights, None)
    for weight in listed:
        of_weight = law_tests(NoiseLaw(float(unit / weight), two_sided), values[weights == weight])
        tests |= {f"weight {weight} {name}": chance for name, chance in of_weight.items()}
    return _line(function, "weights mixed in one call", tests, draws)


def _fresh(function: str) -> CheckLine:
    """Calls one after the other must not repeat each other."""
    calls = {REAL[function](Fraction(10**8), 1, 16).tobytes() for _ in range(64)}
    violations = broken({f"64 calls gave {len(calls)} different outcomes": len(calls) < 64})
    return judged(function, "fresh", violations, "64 calls, 64 different outcomes", 64)


LEVELS, MIXED = (Fraction(3), Fraction(6), Fraction(12)), (1, 4)
"""Units of three levels of one number, fine to coarse; and the weights of the numbers."""


def levels_line(draws: int) -> CheckLine:
    """Levels of one number, drawn out of order, for numbers of two weights in one call."""
    weights, (fine, middle, coarse) = np.resize(np.array(MIXED), draws), LEVELS
    last = REAL["sample"](coarse, weights, None)
    first = coupling.draw_between(np.zeros_like(last), None, last, coarse, fine, weights)
    second = coupling.draw_between(first, fine, last, coarse, middle, weights)
    tests = Tests()
    for weight in MIXED:
        is_such = weights == weight
        units = [unit / weight for unit in LEVELS]
        of_weight = _levels_tests(first[is_such], second[is_such], last[is_such], units)
        tests |= {f"weight {weight} {name}": chance for name, chance in of_weight.items()}
    return _line("sample", "levels that share their noise", tests, draws)


def _levels_tests(first: Ints, second: Ints, last: Ints, units: Sequence[Fraction]) -> Tests:
    """The laws of three levels, and that each step from fine to coarse is independent of what is finer."""
    tests = Tests()
    for unit, drawn in zip(units, (first, second, last), strict=True):
        of_level = law_tests(NoiseLaw(float(unit)), drawn)
        tests |= {f"unit {unit} {name}": chance for name, chance in of_level.items()}
    steps = [second - first, last - second]
    for step, one, two in zip(steps, units, units[1:], strict=False):
        same = (math.sinh(0.5 / two) / math.sinh(0.5 / one)) ** 2
        still = same + (1.0 - same) * math.tanh(0.5 / two)
        tests[f"unit {one} to {two}, no step"] = _binomial(int((step == 0).sum()), step.size, still)
    pairs = {"first step": (first, steps[0]), "second step": (second, steps[1]), "two steps": (steps[0], steps[1])}
    for name, (left, right) in pairs.items():
        tests |= {f"{name} {test}": chance for test, chance in _together(left, right, two_sided=True).items()}
        tests[f"{name} sizes"] = _uncorrelated(_sizes(left), _sizes(right))
    return tests


COUNTS, PARTS = (2, 0, 3), 2
"""Records by cell, and positions of a cell, so few that all vectors of quantiles can be listed."""
WANTED = ((Fraction(1), Fraction(4)), (Fraction(5, 4), Fraction(5, 4), Fraction(5, 2)))


def quantiles_line(draws: int) -> CheckLine:
    """Quantiles of a few records: each vector of positions as often as the law of the choice says."""
    records, tests = SpreadRecords(np.array(COUNTS, dtype=np.int64), PARTS), Tests()
    before = np.cumsum([0, *COUNTS])
    places = [(cell, part) for cell in range(len(COUNTS)) for part in range(PARTS)]
    ranks = [float(before[cell]) + COUNTS[cell] * (2 * part + 1) / (2 * PARTS) for cell, part in places]
    for gaps, unit in itertools.product(WANTED, (Fraction(1, 2), Fraction(3))):
        vectors = list(itertools.combinations_with_replacement(range(len(ranks)), len(gaps) - 1))
        chosen = np.array([[ranks[place] for place in vector] for vector in vectors])
        between = np.diff(chosen, axis=1, prepend=0.0, append=float(sum(COUNTS)))
        weights = np.exp(-np.abs(between - np.array(gaps, dtype=np.float64)).sum(axis=1) / (2.0 * float(unit)))
        proposal, stream = Proposal(records, gaps, unit), Keystream()
        seen = Counter(tuple(draw_quantiles(proposal, stream).tolist()) for _ in range(draws))
        expected = draws * weights / weights.sum()
        # Vectors that are too rare to be told apart count together with the rarest of the others.
        place = np.argsort(np.argsort(-expected, kind="stable"), kind="stable")
        bins = np.minimum(place, int((expected >= FEWEST).sum()) - 1)
        numbers = np.bincount(bins, [seen[vector] for vector in vectors])
        tests[f"{len(gaps) - 1} at unit {unit}"] = _fit(numbers, np.bincount(bins, expected).astype(np.float64))
    return _line("quantiles", "all vectors of positions", tests, draws)


def _words(draws: int) -> CheckLine:
    """Uniform words: every bit, and neighbouring words."""
    words = REAL["sample_words"](draws, WORD_BITS)
    tests = {f"bit {bit}": _binomial(int(((words >> bit) & 1).sum()), draws, 0.5) for bit in range(WORD_BITS)}
    tests["range"] = float(int(words.min()) >= 0 and int(words.max()) < 2**WORD_BITS)
    tests["repeated"] = float(np.unique(words).size == draws)
    return _line("words", f"{WORD_BITS} bits", tests, draws)


def _power(draws: int) -> CheckLine:
    """The same tests must reject noise whose scale is 10 % off, either way; otherwise they show nothing."""
    passed = []
    for unit in (Fraction(2), Fraction(40), Fraction(4096)):
        values = REAL["sample"](unit, 1, draws)
        for claimed in (float(unit) * 1.1, float(unit) / 1.1):
            if min(law_tests(NoiseLaw(claimed), values).values()) >= LEVEL:
                passed.append(f"scale {float(unit):g} passes for {claimed:g}")
    fine = "rejected, too large and too small, at every scale"
    return judged("power", "a scale 10 % off", passed, fine, draws)
