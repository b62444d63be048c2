"""Linear queries over the cells, as implicit whole-number matrices that are never written out."""

from blowfishdb.model.workload.boxes import Rectangles
from blowfishdb.model.workload.compound import Kronecker, Stacked, all_marginals, marginals
from blowfishdb.model.workload.line import AllRanges, Identity, Intervals, Prefix, total
from blowfishdb.model.workload.sparse import Sparse
from blowfishdb.model.workload.unify import as_intervals

__all__ = [
    "AllRanges",
    "Identity",
    "Intervals",
    "Kronecker",
    "Prefix",
    "Rectangles",
    "Sparse",
    "Stacked",
    "all_marginals",
    "as_intervals",
    "marginals",
    "total",
]
