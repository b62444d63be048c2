"""Noise: the sampler against the law it claims, at tiny and huge scales, from chosen bits, with keys of its own."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from blowfishdb.audit.report import Line, judged
from blowfishdb.audit.tape import REAL, replaced
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise.sampler import Keystream, digit_table

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

    def below(self, values: Ints | Floats) -> Floats:
        """P(X < value) for whole values."""
        at = np.asarray(values, dtype=np.float64)
        if not self.two_sided:
            return np.where(at > 0, -np.expm1(-np.maximum(at, 0.0) / self.scale), 0.0)
        low = np.exp((np.minimum(at, 1.0) - 1.0) / self.scale) / (1.0 + self.ratio)
        high = 1.0 - np.exp(-np.maximum(at, 1.0) / self.scale) / (1.0 + self.ratio)
        return np.where(at <= 0, low, high)

    def at_least(self, value: int) -> float:
        """P(X >= value), precise far out."""
        return math.exp(self.log_at_least(value))

    def log_at_least(self, value: int) -> float:
        """log P(X >= value), which is finite wherever the probability is not 0."""
        if value <= 0:
            return math.log1p(-float(self.below(np.array([value]))[0]))
        return -value / self.scale - (math.log1p(self.ratio) if self.two_sided else 0.0)

    def bins(self, draws: int) -> tuple[Ints, Floats]:
        """Whole edges and the chances of the bins between them, each expecting enough of the draws."""
        wanted = min(MOST_BINS, max(2, draws // (4 * FEWEST)))
        levels = np.arange(1, wanted) / wanted
        high = levels[levels > 0.5]
        upper = -self.scale * np.log((1.0 - high) * ((1.0 + self.ratio) if self.two_sided else 1.0))
        edges = np.unique(np.ceil(upper).astype(np.int64))
        edges = edges[edges >= 1]
        if self.two_sided:
            edges = np.unique(np.concatenate([1 - edges, edges]))
        else:
            lower = -self.scale * np.log1p(-levels[levels <= 0.5])
            edges = np.unique(np.concatenate([np.ceil(lower).astype(np.int64), edges]))
            edges = edges[edges >= 1]
        chances = np.diff(np.concatenate([[0.0], self.below(edges), [1.0]]))
        return _merged(edges, chances, FEWEST / draws)


def _merged(edges: Ints, chances: Floats, least: float) -> tuple[Ints, Floats]:
    """Neighbouring bins joined until each has its least chance."""
    kept_edges, kept, running = list[int](), list[float](), 0.0
    for place, chance in enumerate(chances.tolist()):
        running += chance
        is_last = place == chances.size - 1
        if running >= least and not is_last:
            kept_edges.append(int(edges[place]))
            kept.append(running)
            running = 0.0
    if kept and running < least:
        kept_edges.pop()
        kept[-1] += running
    else:
        kept.append(running)
    return np.array(kept_edges, dtype=np.int64), np.array(kept)


KEY = 32
"""Bytes of randomness that each call takes at least: keys that can be guessed make noise that can be taken away."""
ENTROPY = "urandom"


@contextmanager
def _system_says(given: Callable[[int], bytes]) -> Iterator[None]:
    """The operating system's randomness replaced, for this thread alone."""
    usual, owner = os.urandom, threading.get_ident()
    setattr(os, ENTROPY, lambda size: given(size) if threading.get_ident() == owner else usual(size))
    try:
        yield
    finally:
        setattr(os, ENTROPY, usual)


def _drawn(function: str, bit: int | None) -> tuple[bytes, list[int]]:
    """What a call draws when the system gives zeros, but for one bit; and how many bytes it asks for each time."""
    sizes: list[int] = []

    def given(size: int) -> bytes:
        sizes.append(size)
        content = bytearray(size)
        if bit is not None and bit // 8 < size:
            content[bit // 8] = 1 << (bit % 8)
        return bytes(content)

    with _system_says(given):
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
"""Which half of the random bits counts for the draw, and with which sign."""


class Scripted:
    """Random bits that are chosen: one first number per digit, highest digit first, then the bits that settle ties.

    They go to one half of the draws; the digits of the other half are all 0.
    """

    def write(self, heads: Sequence[int], ties: Sequence[int], half: int) -> None:
        """What comes next."""
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
    """What is wrong with a digit, a tie or a carry at any of the scales."""
    bits = Scripted()
    with replaced({Keystream: bits.opened}):
        return list(_all_violations(bits))


def _all_violations(bits: Scripted) -> Iterator[str]:
    for unit, weight in DIGIT_SCALES:
        digits = digit_table(unit, np.array([weight])).digits
        scale = unit / weight
        for position in range(digits):
            whole = chance(Fraction(2**position) / scale, of_digit=True)
            before = [NO] * (digits - 1 - position)
            for heads, ties, times in _digit_probes(whole):
                place = f"scale {float(scale):g}, digit {position}"
                yield from _violations(place, bits, (unit, weight), [*before, *heads], ties, times << position)
        whole = chance(Fraction(2**digits) / scale, of_digit=False)
        if whole >> (FULL - HEAD):
            yield f"scale {float(scale):g}: a carry is likelier than 2^-16"
            continue
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


@dataclass(frozen=True)
class Test:
    """The name of a test and the chance that right noise looks at least as wrong."""

    name: str
    chance: float


def noise_lines(*, quick: bool) -> Iterator[Line]:
    """Every test of the sampler."""
    draws = 150_000 if quick else 1_000_000
    laws: tuple[tuple[str, bool], ...] = (("sample", True), ("sample_geometric", False))
    for function, two_sided in laws:
        for unit, weight in SCALES:
            yield _judged(function, unit, weight, draws, two_sided=two_sided)
        yield _mixed(function, draws, two_sided=two_sided)
        yield _fresh(function)
    yield _words(draws)
    for function in REAL:
        violations = list(key_violations(function))
        yield judged("noise", function, "key", violations, "32 new bytes a call, every bit matters", 257)
    yield _power(draws)
    fine = "every digit's probability to 2^-256, ties and carries"
    yield judged("noise", "digits", "exact probabilities", digit_violations(), fine, 1)


def _judged(function: str, unit: Fraction, weight: int, draws: int, *, two_sided: bool) -> Line:
    law = NoiseLaw(float(unit / weight), two_sided)
    first, second = (REAL[function](unit, weight, draws // 2) for _ in range(2))
    tests = [*law_tests(law, np.concatenate([first, second])), *independence_tests(law, first, second)]
    return _line(function, f"scale {float(unit / weight):g}", tests, draws)


def _line(function: str, subject: str, tests: list[Test], draws: int) -> Line:
    failed = ", ".join(f"{test.name} (chance {test.chance:.1e})" for test in tests if test.chance < LEVEL)
    name = {"sample": "Laplace", "sample_geometric": "geometric"}.get(function, function)
    fine = f"{len(tests)} tests, least chance {min(test.chance for test in tests):.2g}"
    violations = [f"not the claimed law: {failed}"] if failed else []
    return judged("noise", f"{name}, {subject}", "law", violations, fine, draws)


def law_tests(law: NoiseLaw, values: Ints) -> list[Test]:
    """Goodness of fit, mean size, signs, parity, tails and low bits against one law."""
    count, tests = values.size, list[Test]()
    edges, chances = law.bins(count)
    if chances.size > 1:
        seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=chances.size)
        expected = chances * count
        statistic = float(np.sum((seen - expected) ** 2 / expected))
        tests.append(Test("fit", float(stats.chi2.sf(statistic, chances.size - 1))))
    sizes = np.abs(values.astype(np.float64))
    tests.append(Test("size", _normal((sizes.mean() - law.mean_size) / np.sqrt(law.size_variance / count))))
    if law.two_sided:
        positive, negative = int((values > 0).sum()), int((values < 0).sum())
        if positive + negative:
            tests.append(Test("signs", _binomial(positive, positive + negative, 0.5)))
    else:
        tests.append(Test("sign", 0.0 if bool((values < 0).any()) else 1.0))
    tests.append(Test("parity", _binomial(int((values % 2 == 0).sum()), count, law.even)))
    for share in (0.05, 0.002):
        bound = max(1, int(np.ceil(-law.scale * np.log(share))))
        beyond = law.at_least(bound) * (2.0 if law.two_sided else 1.0)
        tests.append(Test(f"tail {share}", _binomial(int((sizes >= bound).sum()), count, beyond)))
    if law.scale >= 1000:
        seen = np.bincount(values % 64, minlength=64)
        tests.append(Test("low bits", float(stats.chi2.sf(float(np.sum((seen - count / 64) ** 2) * 64 / count), 63))))
    return tests


def independence_tests(law: NoiseLaw, first: Ints, second: Ints) -> list[Test]:
    """Neighbouring draws of one call, and the same places of two calls, must know nothing of each other."""
    pairs = {"one draw and the next": (first[:-1], first[1:]), "two calls": (first, second)}
    pairs["places 16 apart"] = (first[:-16], first[16:])
    tests = []
    for name, (one, two) in pairs.items():
        tests += [Test(f"{name} {test.name}", test.chance) for test in _together(one, two, two_sided=law.two_sided)]
        tests.append(Test(f"{name} sizes", _uncorrelated(_sizes(one), _sizes(two))))
    if law.scale >= 1000:
        expected = 1.0 / (2.0 * law.scale)
        same = int((first == second).sum())
        tests.append(Test("repeated draws", float(stats.binom.sf(same - 1, first.size, min(1.0, 2 * expected)))))
    if law.scale >= 10**8:
        # Two draws are equal with a chance of at most 1 / scale, wherever in the call they stand.
        equal = first.size - np.unique(first).size
        most = first.size * (first.size - 1) / 2 / law.scale
        tests.append(Test("draws that repeat others", float(stats.poisson.sf(equal - 1, most))))
    return tests


def _together(one: Ints, two: Ints, *, two_sided: bool) -> list[Test]:
    """How often both are not 0, given how often each is; and then, how often with the same sign.

    Counts and not a correlation: where few draws differ from 0, one coincidence would look like a strong one.
    """
    first, second = one != 0, two != 0
    both = int((first & second).sum())
    law = stats.hypergeom(first.size, int(first.sum()), int(second.sum()))
    tests = [Test("zeros", min(1.0, 2.0 * float(min(law.cdf(both), law.sf(both - 1)))))]
    if two_sided and both:
        same = int((np.sign(one) * np.sign(two) > 0).sum())
        tests.append(Test("signs", _binomial(same, both, 0.5)))
    return tests


def _sizes(values: Ints) -> Floats:
    return np.minimum(np.abs(values.astype(np.float64)), float(np.quantile(np.abs(values), 0.9)))


def _uncorrelated(one: Floats, two: Floats) -> float:
    if one.std() == 0 or two.std() == 0:
        return 1.0
    return _normal(float(np.corrcoef(one, two)[0, 1]) * np.sqrt(one.size))


def _normal(score: float) -> float:
    return float(2.0 * stats.norm.sf(abs(score)))


def _binomial(seen: int, count: int, chance: float) -> float:
    return float(stats.binomtest(seen, count, min(1.0, max(0.0, chance))).pvalue)


def _mixed(function: str, draws: int, *, two_sided: bool) -> Line:
    """Weights that differ within one call: every weight's draws on their own."""
    listed = np.array([1, 3, 64, 1000], dtype=np.int64)
    weights = np.resize(listed, draws)
    unit = Fraction(5000, 7)
    values = REAL[function](unit, weights, None)
    tests = []
    for weight in listed.tolist():
        law = NoiseLaw(float(unit / weight), two_sided)
        own = law_tests(law, values[weights == weight])
        tests += [Test(f"weight {weight} {test.name}", test.chance) for test in own]
    return _line(function, "weights mixed in one call", tests, draws)


def _fresh(function: str) -> Line:
    """Calls one after the other must not repeat each other."""
    calls = {REAL[function](Fraction(10**8), 1, 16).tobytes() for _ in range(64)}
    violations = [f"64 calls gave {len(calls)} different outcomes"] if len(calls) < 64 else []
    return judged("noise", function, "fresh", violations, "64 calls, 64 different outcomes", 64)


def _words(draws: int) -> Line:
    """Uniform words: every bit, and neighbouring words."""
    words = REAL["sample_words"](draws, WORD_BITS)
    tests = [Test("range", 1.0 if int(words.min()) >= 0 and int(words.max()) < 2**WORD_BITS else 0.0)]
    for bit in range(WORD_BITS):
        tests.append(Test(f"bit {bit}", _binomial(int(((words >> bit) & 1).sum()), draws, 0.5)))
    tests.append(Test("repeated", 1.0 if np.unique(words).size == draws else 0.0))
    return _line("words", f"{WORD_BITS} bits", tests, draws)


def _power(draws: int) -> Line:
    """The same tests must reject noise whose scale is 10 % off, either way; otherwise they show nothing."""
    passed = []
    claims: tuple[Callable[[float], float], ...] = (lambda scale: scale * 1.1, lambda scale: scale / 1.1)
    for unit in (Fraction(2), Fraction(40), Fraction(4096)):
        values = REAL["sample"](unit, 1, draws)
        for claim in claims:
            tests = law_tests(NoiseLaw(claim(float(unit))), values)
            if min(test.chance for test in tests) >= LEVEL:
                passed.append(f"scale {float(unit):g} passes for {claim(float(unit)):g}")
    return judged(
        "noise", "power", "a scale 10 % off", passed, "rejected, too large and too small, at every scale", draws
    )
