"""Bad input of the makers and loaders of data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from condgrad.datasets import (
    load_colon,
    load_lymphoma,
    make_clusters,
    make_sparse_classification,
    standardize,
)
from tests.errors.core import Row

BAD: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (make_clusters, {"n": 0}, ValueError, "n must be >= 1, got 0"),
    (make_clusters, {"n": 2.5}, TypeError, "n must be a whole number, got 2.5"),
    (make_clusters, {"n": 5, "clusters": 0}, ValueError, "clusters must be >= 1, got 0"),
    (
        make_clusters,
        {"n": 5, "clusters": 2.5},
        TypeError,
        "clusters must be a whole number, got 2.5",
    ),
    (make_clusters, {"n": 5, "noise": -1.0}, ValueError, "noise must be finite and >= 0, got -1"),
    (
        make_clusters,
        {"n": 5, "noise": np.nan},
        ValueError,
        "noise must be finite and >= 0, got nan",
    ),
    (make_clusters, {"n": 5, "noise": "loud"}, TypeError, "noise must be a number, got 'loud'"),
    (make_clusters, {"n": 5, "seed": -1}, ValueError, "seed must be >= 0, got -1"),
    (make_sparse_classification, {"n_samples": 2}, ValueError, "n_samples must be >= 3, got 2"),
    (make_sparse_classification, {"n_features": 0}, ValueError, "n_features must be >= 1, got 0"),
    (make_sparse_classification, {"n_relevant": 0}, ValueError, "n_relevant must be >= 1, got 0"),
    (
        make_sparse_classification,
        {"test_size": 1.0},
        ValueError,
        "test_size must leave at least 1 test",
    ),
    (
        make_sparse_classification,
        {"degrees_of_freedom": 3},
        ValueError,
        "degrees_of_freedom must be >= 20, got 3",
    ),
    (make_sparse_classification, {"seed": "x"}, TypeError, "seed must be a whole number, got 'x'"),
    (load_colon, {"standardize": "no"}, TypeError, "standardize must be True or False, got 'no'"),
    (
        load_lymphoma,
        {"download_if_missing": "no"},
        TypeError,
        "download_if_missing must be True or False, got 'no'",
    ),
    (
        load_lymphoma,
        {"version": ["dlbcl"]},
        ValueError,
        r'version must be "malignant" or "dlbcl", got \[',
    ),
    (standardize, {"X": [["a"]]}, TypeError, "X must be an array of numbers: could not convert"),
    (
        standardize,
        {"X": scipy.sparse.csr_array(np.eye(2))},
        TypeError,
        r"X must be dense.*pass X.toarray\(\)",
    ),
    (standardize, {"X": [1.0]}, ValueError, r"X must have shape \(samples, features\)"),
]
ROWS: dict[str, Row] = {
    f"{call.__name__}, {k}, {', '.join(arguments)}": (
        lambda call=call, arguments=arguments: call(**arguments),
        error,
        sentence,
    )
    for k, (call, arguments, error, sentence) in enumerate(BAD)
}
