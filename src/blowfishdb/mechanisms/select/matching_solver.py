"""Exact matchings of greatest total gain: by blossoms on few buckets, by dynamic programming on near pairs."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.select.matching_pairs import NEAR
from blowfishdb.model.arrays import Ints
from blowfishdb.plan.stages import WORD_BITS

FORBIDDEN = -(2**61)


def best_matching(buckets: int, pairs: Ints, gains: Ints, words: Ints, tie_bits: int) -> Ints:
    """Each bucket's partner, itself when single, over any pairs of few buckets.

    Every item, single or pair, costs a random fraction of a step more, `tie_bits` binary digits of it, so that no two
    matchings are equally good: the answer is a function of gains and words, however the solver proceeds. `words` has
    a column per item.
    """
    # The compiled solver takes 0.1 s to load and only this function needs it.
    from rustworkx import PyGraph, max_weight_matching

    drop = words.shape[0] * WORD_BITS - tie_bits

    def fraction(item: int) -> int:
        high, low = words[:, item].tolist()
        return int((high << WORD_BITS | low) >> drop)

    single = [fraction(bucket) for bucket in range(buckets)]
    edges = []
    # Two fractions less a third are below 2: a pair that gains less than -1 is never worth it.
    for place in np.flatnonzero(gains >= -1).tolist():
        first, second = pairs[place].tolist()
        weight = (int(gains[place]) << tie_bits) + single[first] + single[second] - fraction(buckets + place)
        if weight > 0:
            edges.append((first, second, weight))
    graph: PyGraph[int, int] = PyGraph(multigraph=False)
    graph.add_nodes_from(range(buckets))
    graph.add_edges_from(edges)
    partner = np.arange(buckets)
    for first, second in max_weight_matching(graph, weight_fn=int):
        partner[first], partner[second] = second, first
    return partner


def best_near_matching(buckets: int, pairs: Ints, gains: Ints) -> Ints:
    """Each bucket's partner, itself when single, where pairs are at most NEAR places apart.

    Equal gains go to the first matching in a fixed order: bucket by bucket, single before near before far.
    """
    from blowfishdb.mechanisms.select.matching_kernel import decide

    table = np.full((buckets, NEAR), FORBIDDEN, dtype=np.int64)
    table[pairs[:, 0], pairs[:, 1] - pairs[:, 0] - 1] = gains
    partner = np.arange(buckets)
    step = decide(table)
    joined = np.flatnonzero(step > 0)
    partner[joined] = joined + step[joined]
    partner[partner[joined]] = joined
    return partner
