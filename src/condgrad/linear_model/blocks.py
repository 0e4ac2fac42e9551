"""Dask arrays and dataframes as an estimator takes them: in blocks of rows, which stay where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from condgrad.errors import require_extra
from condgrad.smooth.blockwise import BlockwiseLoss


def is_dask(values: Any) -> bool:
    """Whether it is a Dask collection; asked without loading Dask, which whoever has one did."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(values)


def dask_array() -> Any:
    """The module, which has no types."""
    return require_extra("dask.array", extra="dask", purpose="data of Dask")


def as_array(values: Any) -> Any:
    """A Dask array, from one or from a Dask dataframe or series."""
    return values.to_dask_array(lengths=True) if hasattr(values, "to_dask_array") else values


def column_names(X: Any) -> Any:
    """The names of a dataframe's columns where all are strings, as scikit-learn keeps them; else None."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def in_units(X: Any, units: Any, scaled: Callable[[Any, Any], Any]) -> Any:
    """X with the columns of every block divided by the units."""
    return X.rechunk({1: -1}).map_blocks(scaled, units=units, dtype=X.dtype)


def deviations(X: Any, weights: Any) -> Any:
    """The weighted standard deviations of the columns of dense blocks; 1 where a column does not vary."""
    if not isinstance(X._meta, np.ndarray):
        raise TypeError("standardize=True is for dense blocks: scale sparse ones beforehand, or give penalty_factors")
    da = dask_array()
    weights = da.ones(X.shape[0], chunks=X.chunks[0]) if weights is None else da.asarray(weights)
    mass = weights.sum()
    mean = (weights @ X) / mass
    variance, largest = (weights @ (X - mean) ** 2) / mass, abs(X).max(axis=0)
    variance, largest = da.compute(variance, largest)
    deviation = np.sqrt(variance)
    return np.where(deviation > 1e-12 * largest, deviation, 1.0)


def classes_of(y: Any) -> Any:
    """The labels in sorted order."""
    da = dask_array()
    classes = np.asarray(da.unique(da.asarray(as_array(y))).compute())
    check_classification_targets(classes)
    return classes


def class_weights(y: Any, classes: Any, weights: Any, class_weight: Any) -> Any:
    """The weight of each sample, that of its class included; a balanced one makes all classes weigh alike."""
    da = dask_array()
    y = da.asarray(as_array(y))
    base = da.ones(y.shape[0], chunks=y.chunks[0]) if weights is None else da.asarray(as_array(weights))
    if class_weight == "balanced":
        mass = np.array(da.compute(*(((y == label) * base).sum() for label in classes)), dtype=float)
        if (mass == 0.0).any():
            absent = classes[int(np.argmin(mass))]
            raise ValueError(f"class_weight='balanced' needs a positive sample_weight in each class, not in {absent!r}")
        factors = mass.sum() / (len(mass) * mass)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    return base * sum(factor * (y == label) for factor, label in zip(factors, classes, strict=True))


def against_the_rest(loss: Any, X: Any, y: Any, labels: Sequence[Any], weights: Any, *, intercept: bool) -> Any:
    """The losses of some classes, each against the rest."""
    da = dask_array()
    y = da.asarray(as_array(y))
    return [
        BlockwiseLoss(loss, X, da.where(y == label, 1.0, -1.0), sample_weight=weights, intercept=intercept)
        for label in labels
    ]
