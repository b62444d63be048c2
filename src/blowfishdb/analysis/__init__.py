"""What is computed from releases, at no further cost: k-means, and what a release can tell an adversary."""

from blowfishdb.analysis.kmeans import KMeans, kmeans
from blowfishdb.analysis.risk import Risk, beliefs, risk, sufficient_budget

__all__ = ["KMeans", "Risk", "beliefs", "kmeans", "risk", "sufficient_budget"]
