"""Data for experiments: random data, and the real data of the paper. The real data are not shipped;
they are downloaded.
"""

from condgrad.datasets.clusters import Clusters, make_clusters
from condgrad.datasets.microarrays import Microarray, load_colon, load_lymphoma
from condgrad.datasets.scaling import standardize
from condgrad.datasets.sparse_classification import (
    REGIMES,
    SparseClassification,
    make_sparse_classification,
)
from condgrad.datasets.store import DataMismatch, DataUnavailable

__all__ = [
    "REGIMES",
    "Clusters",
    "DataMismatch",
    "DataUnavailable",
    "Microarray",
    "SparseClassification",
    "load_colon",
    "load_lymphoma",
    "make_clusters",
    "make_sparse_classification",
    "standardize",
]
