"""Coordinate ascent on the dual of sum_i w_i max(0, 1 - y_i (k_i.x + b))^2 + ridge |x|^2 without a constraint.

At the solution theta_i = -2 w_i y_i max(0, 1 - y_i (k_i.x + b)) and x = -K' theta/(2 ridge). A step makes the first
true for one sample, and moves x along with theta_i: it costs one row of K (Hsieh et al., ICML 2008).
"""

from __future__ import annotations

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import entry_point


@entry_point
def ascend(
    indptr: Array,
    indices: Array,
    data: Array,
    squares: Array,
    y: Array,
    weights: Array,
    twice_ridge: float,
    intercept: float,
    order: Array,
    theta: Array,
    x: Array,
) -> None:
    """A step for each sample of `order`, in the places of theta and x; `squares` are those of the norms of K's rows."""
    for i in order:
        # slices and unsigned numbers, so that no loop asks whether an index counts from the end
        places, row = indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]]
        product = intercept
        for t in range(row.shape[0]):
            product += row[t] * x[np.uint64(places[t])]
        softness = squares[i] / twice_ridge
        short = max(0.0, 1.0 - y[i] * (product + theta[i] * softness)) / (1.0 + 2.0 * weights[i] * softness)
        change = -2.0 * weights[i] * y[i] * short - theta[i]
        if change != 0.0:
            theta[i] += change
            length = change / twice_ridge
            for t in range(row.shape[0]):
                x[np.uint64(places[t])] -= length * row[t]


def ascend_by_arrays(
    K: Array, y: Array, weights: Array, twice_ridge: float, intercept: float, order: Array, theta: Array
) -> Array:
    """The theta of the same steps, by NumPy from a dense K."""
    theta = theta.copy()
    for i in order:
        theta[i] = 0.0
        margin = y[i] * (intercept - K[i] @ (K.T @ theta) / twice_ridge)
        short = max(0.0, 1.0 - margin) / (1.0 + 2.0 * weights[i] * (K[i] @ K[i]) / twice_ridge)
        theta[i] = -2.0 * weights[i] * y[i] * short
    return np.asarray(theta)
