"""Standardised features, as in all classification experiments of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def standardize(X: Any, *, reference: Any = None) -> Any:
    """Shift and scale each feature by its mean and standard deviation in the reference.

    Parameters
    ----------
    X : array, shape (samples, features)
        The data.
    reference : array, shape (other samples, features), optional
        The samples from which the means and deviations are computed. By default this is X. If X are
        test data, give the training data.

    Returns
    -------
    array, shape (samples, features), float64
        Without a `reference`, features have mean 0 and variance 1. A feature that is constant in
        the reference becomes 0, because it says nothing about the samples.

    Examples
    --------
    >>> standardize([[1.0, 7.0], [3.0, 7.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    X = _finite_table("X", X)
    basis = X if reference is None else _finite_table("reference", reference)
    if basis.shape[0] == 0 or basis.shape[1] != X.shape[1]:
        raise ValueError(
            f"reference must have at least one sample and the {X.shape[1]} features of X, got shape {basis.shape}"
        )
    # the range is exactly 0 for a constant feature; its computed deviation may be a rounding error
    varies = np.ptp(basis, axis=0) > 0.0
    deviation = np.where(varies, basis.std(axis=0), 1.0)
    return np.where(varies, (X - basis.mean(axis=0)) / deviation, 0.0)


def _finite_table(name: str, values: Any) -> Any:
    """A dense table of finite numbers."""
    if scipy.sparse.issparse(values):
        raise TypeError(
            f"{name} must be dense, because standardised features are: pass {name}.toarray()"
        )
    try:
        matrix = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have shape (samples, features), got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"{name} must be finite, got NaN or infinity: remove or fill those entries first"
        )
    return matrix
