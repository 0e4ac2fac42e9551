"""The solutions for a range of radii."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._arrays import Array, stack
from condgrad.linear_model.solver import Solver, checked_radii, default_radii, warn_unless_converged
from condgrad.smooth import LeastSquares, Logistic, SquaredHinge
from condgrad.smooth.composite import Composite

LOSSES: dict[str, Callable[..., Composite]] = {
    "logistic": Logistic,
    "least-squares": LeastSquares,
    "squared-hinge": SquaredHinge,
}


@dataclass(frozen=True, eq=False)
class Path:
    """Solutions of one problem for increasing radii, each with its proof; the entries of all arrays correspond."""

    radii: Any
    coefs: Array
    """Shape (radii, features)."""
    intercepts: Any
    values: Any
    """The objective at the solutions."""
    gaps: Any
    """What the objective may be above its minimum, at most."""
    multipliers: Any
    """The penalties of |coef|_1 that have the same solutions; 0 where the constraint is idle."""
    n_iters: Any


def path(
    X: Any,
    y: Any,
    *,
    loss: str = "logistic",
    radii: Any = None,
    n_radii: int = 50,
    ridge: float = 0.5,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    method: str = "auto",
) -> Path:
    """Minimise loss + ridge |coef|_2^2 subject to |coef|_1 <= radius for many radii, each from the solution before.

    Parameters
    ----------
    X : array or SciPy sparse matrix, shape (samples, features)
    y : array, shape (samples,)
        Numbers; for the classification losses two of them, of which the larger counts as the positive class.
    loss : {"logistic", "least-squares", "squared-hinge"}
        A sum over the samples, as in `condgrad.smooth`.
    radii : array, optional
        By default a geometric grid of `n_radii`, whose last is about the norm of the solution without a constraint and
        whose first is a thousandth of it.
    n_radii : int
    ridge : float
    fit_intercept : bool
    sample_weight : array, shape (samples,), optional
    tol, max_iter, method
        For each radius, as in `condgrad.minimize`.

    Returns
    -------
    Path
        In the order of increasing radii.

    Examples
    --------
    >>> from condgrad.linear_model import path
    >>> found = path([[1.0, 0.0], [0.0, 2.0]], [1.0, -3.0], loss="least-squares", radii=[0.5, 1.0], fit_intercept=False)
    >>> found.coefs.round(3), found.multipliers.round(3)
    (array([[ 0. , -0.5],
           [ 0. , -1. ]]), array([3.5, 1. ]))
    """
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}")
    f = LOSSES[loss](X, y, sample_weight=sample_weight, intercept=fit_intercept)
    solver = Solver(method, tol, max_iter)
    if radii is None:
        radii = default_radii([f], ridge=ridge, n_radii=n_radii, solver=solver)
    radii = checked_radii(radii)
    fits = solver.path(f, radii=radii, ridge=ridge)
    warn_unless_converged(fits, stacklevel=2)
    return Path(
        radii,
        stack([fit.coef for fit in fits]),
        np.array([fit.intercept for fit in fits]),
        np.array([fit.value for fit in fits]),
        np.array([fit.gap for fit in fits]),
        np.array([fit.multiplier for fit in fits]),
        np.array([fit.iterations for fit in fits]),
    )
