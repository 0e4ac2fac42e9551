"""Data to try things on."""

from condgrad.datasets.clusters import Clusters, make_clusters

__all__ = ["Clusters", "make_clusters"]
