"""Noise: the sampler itself against the law it claims, at tiny and huge scales, each test with a known false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

from blowfishdb.audit.exact_digits import digit_troubles
from blowfishdb.audit.noise_keys import key_troubles
from blowfishdb.audit.noise_laws import NoiseLaw
from blowfishdb.audit.tape import REAL
from blowfishdb.audit.verdicts import Line, clean, judged, violation
from blowfishdb.model.arrays import Floats, Ints

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
        troubles = list(key_troubles(function))
        yield judged("noise", function, "key", troubles, "32 new bytes a call, every bit matters", 257)
    yield _power(draws)
    said = "every digit's probability to 2^-256, ties and carries"
    yield judged("noise", "digits", "exact probabilities", digit_troubles(), said, 1)


def _judged(function: str, unit: Fraction, weight: int, draws: int, *, two_sided: bool) -> Line:
    law = NoiseLaw(float(unit / weight), two_sided)
    first, second = (REAL[function](unit, weight, draws // 2) for _ in range(2))
    tests = [*law_tests(law, np.concatenate([first, second])), *independence_tests(law, first, second)]
    return _line(function, f"scale {float(unit / weight):g}", tests, draws)


def _line(function: str, subject: str, tests: list[Test], draws: int) -> Line:
    failed = [test for test in tests if test.chance < LEVEL]
    name = {"sample": "Laplace", "sample_geometric": "geometric"}.get(function, function)
    if failed:
        said = ", ".join(f"{test.name} (chance {test.chance:.1e})" for test in failed)
        return violation("noise", f"{name}, {subject}", "law", f"not the claimed law: {said}", draws)
    least = min(test.chance for test in tests)
    return clean("noise", f"{name}, {subject}", "law", f"{len(tests)} tests, least chance {least:.2g}", draws)


def law_tests(law: NoiseLaw, values: Ints) -> list[Test]:
    """Goodness of fit, mean size, signs, parity, tails and low bits against one law."""
    count, found = values.size, list[Test]()
    edges, chances = law.bins(count)
    if chances.size > 1:
        seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=chances.size)
        expected = chances * count
        statistic = float(np.sum((seen - expected) ** 2 / expected))
        found.append(Test("fit", float(stats.chi2.sf(statistic, chances.size - 1))))
    sizes = np.abs(values.astype(np.float64))
    found.append(Test("size", _normal((sizes.mean() - law.mean_size) / np.sqrt(law.size_variance / count))))
    if law.two_sided:
        positive, negative = int((values > 0).sum()), int((values < 0).sum())
        if positive + negative:
            found.append(Test("signs", _binomial(positive, positive + negative, 0.5)))
    else:
        found.append(Test("sign", 0.0 if bool((values < 0).any()) else 1.0))
    found.append(Test("parity", _binomial(int((values % 2 == 0).sum()), count, law.even)))
    for share in (0.05, 0.002):
        bound = max(1, int(np.ceil(-law.scale * np.log(share))))
        beyond = law.at_least(bound) * (2.0 if law.two_sided else 1.0)
        found.append(Test(f"tail {share}", _binomial(int((sizes >= bound).sum()), count, beyond)))
    if law.scale >= 1000:
        seen = np.bincount(values % 64, minlength=64)
        found.append(Test("low bits", float(stats.chi2.sf(float(np.sum((seen - count / 64) ** 2) * 64 / count), 63))))
    return found


def independence_tests(law: NoiseLaw, first: Ints, second: Ints) -> list[Test]:
    """Neighbouring draws of one call, and the same places of two calls, must know nothing of each other."""
    pairs = {"one draw and the next": (first[:-1], first[1:]), "two calls": (first, second)}
    pairs["places 16 apart"] = (first[:-16], first[16:])
    found = []
    for name, (one, two) in pairs.items():
        found += [Test(f"{name} {test.name}", test.chance) for test in _together(one, two, two_sided=law.two_sided)]
        found.append(Test(f"{name} sizes", _uncorrelated(_sizes(one), _sizes(two))))
    if law.scale >= 1000:
        expected = 1.0 / (2.0 * law.scale)
        same = int((first == second).sum())
        found.append(Test("repeated draws", float(stats.binom.sf(same - 1, first.size, min(1.0, 2 * expected)))))
    if law.scale >= 10**8:
        # Two draws are equal with a chance of at most 1 / scale, wherever in the call they stand.
        equal = first.size - np.unique(first).size
        most = first.size * (first.size - 1) / 2 / law.scale
        found.append(Test("draws that repeat others", float(stats.poisson.sf(equal - 1, most))))
    return found


def _together(one: Ints, two: Ints, *, two_sided: bool) -> list[Test]:
    """How often both are not 0, given how often each is; and then, how often with the same sign.

    Counts and not a correlation: where few draws differ from 0, one coincidence would look like a strong one.
    """
    first, second = one != 0, two != 0
    both = int((first & second).sum())
    law = stats.hypergeom(first.size, int(first.sum()), int(second.sum()))
    found = [Test("zeros", min(1.0, 2.0 * float(min(law.cdf(both), law.sf(both - 1)))))]
    if two_sided and both:
        same = int((np.sign(one) * np.sign(two) > 0).sum())
        found.append(Test("signs", _binomial(same, both, 0.5)))
    return found


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
    if len(calls) < 64:
        return violation("noise", function, "fresh", f"64 calls gave {len(calls)} different outcomes", 64)
    return clean("noise", function, "fresh", "64 calls, 64 different outcomes", 64)


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
    if passed:
        return violation("noise", "power", "a scale 10 % off", passed[0], draws)
    return clean("noise", "power", "a scale 10 % off", "rejected, too large and too small, at every scale", draws)
