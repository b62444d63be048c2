"""What is computed from releases, at no further cost: k-means, and what a release can tell an adversary."""

from blowfishdb.analysis.kmeans import KMeans, kmeans

__all__ = ["KMeans", "kmeans"]
