"""What the estimators do with Dask data: labels, predictions block by block, and folds as weights."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from condgrad.smooth.row_blocks import as_array, column_names, dask, is_dask

Method = Callable[[Any, Any], Any]


def column(values: Any) -> Any:
    """One entry for each row, as a Dask array."""
    return dask("array").asarray(as_array(values))


def classes_of(y: Any) -> Any:
    """The labels in sorted order."""
    y = as_array(y)
    classes = np.asarray(dask("array").unique(y).compute()) if is_dask(y) else np.unique(y)
    check_classification_targets(classes)
    return classes


def signs(y: Any, label: Any) -> Any:
    """+1 where y is the label, else -1."""
    return dask("array").where(column(y) == label, 1.0, -1.0)


def codes(y: Any, classes: Any) -> Any:
    """The places of the labels among the classes."""
    return column(y).map_blocks(lambda labels: np.searchsorted(classes, labels), dtype=np.intp)


def class_weights(y: Any, classes: Any, weights: Any, class_weight: Any) -> Any:
    """The weight of each sample, that of its class included; a balanced one makes all classes weigh alike."""
    da, y = dask("array"), column(y)
    base = da.ones(y.shape[0], chunks=y.chunks[0]) if weights is None else column(weights)
    if class_weight == "balanced":
        mass = np.array(da.compute(*(((y == label) * base).sum() for label in classes)), dtype=float)
        if (mass == 0.0).any():
            absent = classes[int(np.argmin(mass))]
            raise ValueError(f"class_weight='balanced' needs a positive sample_weight in each class, not in {absent!r}")
        factors = mass.sum() / (len(mass) * mass)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    return base * sum(factor * (y == label) for factor, label in zip(factors, classes, strict=True))


def block_by_block(method: Method) -> Method:
    """A method of an estimator that answers for each row; for data of Dask the answer is a lazy Dask array."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if not is_dask(X):
            return method(self, X)
        check_is_fitted(self)
        names = column_names(X)
        X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
        fitted = copy(self)  # blocks carry no names
        known = fitted.__dict__.pop("feature_names_in_", None)
        if known is not None and names is not None and list(known) != list(names):
            raise ValueError(f"X must have the columns that the model was fitted to, {list(known)}, got {list(names)}")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X must have {self.n_features_in_} features, as in the fit, got {X.shape[1]}")
        like = method(fitted, np.zeros((1, X.shape[1])))
        X = X.rechunk({1: -1})
        shape = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
        return X.map_blocks(lambda rows: method(fitted, rows), dtype=like.dtype, meta=like[:0], **shape)

    return answer
