"""What is computed from releases, at no further cost: k-means, OLAP and parities, and what a release can tell."""

from blowfishdb.analysis.kmeans import KMeans, kmeans
from blowfishdb.analysis.olap import Cube, cube, learn_parity
from blowfishdb.analysis.risk import Risk, beliefs, risk, sufficient_budget

__all__ = ["Cube", "KMeans", "Risk", "beliefs", "cube", "kmeans", "learn_parity", "risk", "sufficient_budget"]
