"""The solutions for a range of radii, or of penalties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import Array, host, is_torch, stack
from condgrad.errors import require_extra
from condgrad.linear_model.base import SingleFit, checked_labels, checked_offset
from condgrad.linear_model.classification import ConstrainedLinearSVC, ConstrainedLogisticRegression
from condgrad.linear_model.generalized import GammaRegressor, HuberRegressor, PoissonRegressor
from condgrad.linear_model.penalised import penalty_of_mean
from condgrad.linear_model.penalty_search import checked_alphas, penalty_grid
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.regression import ConstrainedElasticNet
from condgrad.linear_model.solver import (
    Size,
    Solver,
    Task,
    checked_radii,
    default_radii,
    warn_unless_converged,
)

ESTIMATORS: dict[str, Callable[..., Any]] = {
    "logistic": ConstrainedLogisticRegression,
    "least-squares": ConstrainedElasticNet,
    "squared-hinge": ConstrainedLinearSVC,
}
"""The estimator with a radius for each loss that has one."""

LOSSES: dict[str, Callable[..., Any]] = {
    **ESTIMATORS,
    "poisson": PoissonRegressor,
    "gamma": GammaRegressor,
    "huber": HuberRegressor,
}
"""An estimator for each loss. Some losses only have one with a penalty."""


ROWS_SHOWN = 60
"""A path with more rows prints only its first and last rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Path:
    """Solutions of one problem for increasing radii or decreasing penalties, each with its proof.

    Entry k of each array belongs to radius k or penalty k. A path prints as a table.

    Attributes
    ----------
    radii : array, shape (radii,)
        The radii, in increasing order. For a path by penalties: |coef|_1 of the solutions.
    coefs : array, shape (radii, features)
        The coefficients for each radius.
    intercepts : array, shape (radii,)
        The intercepts; all 0 if there is no intercept.
    values : array, shape (radii,)
        The values of the objective at the solutions.
    gaps : array, shape (radii,)
        Each value is at most this far above its minimum.
    multipliers : array, shape (radii,)
        The penalties of |coef|_1 that have the same effect as the constraints; 0 if a constraint is
        not active.
    n_iters : array, shape (radii,)
        The number of iterations of each fit.
    alphas : array, shape (radii,), optional
        The strengths of the penalty, in decreasing order. None for a path by radii.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> d = cg.datasets.make_sparse_classification(n_samples=50, n_features=100, n_relevant=5)
    >>> found = cg.linear_model.path(d.X_train, d.y_train, n_radii=5)
    >>> found.coefs.shape, bool((np.abs(found.coefs).sum(axis=1) <= found.radii * (1 + 1e-9)).all())
    ((5, 100), True)
    >>> bool((np.diff(found.values) <= 0).all())  # more room, less loss
    True
    >>> found.to_frame().columns.tolist()
    ['radius', 'non_zeros', 'value', 'gap', 'multiplier', 'iterations']
    """

    radii: Any
    coefs: Array
    intercepts: Any
    values: Any
    gaps: Any
    multipliers: Any
    n_iters: Any
    alphas: Any = None

    def _columns(self) -> dict[str, Any]:
        strengths = {} if self.alphas is None else {"alpha": self.alphas}
        return strengths | {
            "radius": self.radii,
            "non_zeros": np.count_nonzero(host(self.coefs), axis=1),
            "value": self.values,
            "gap": self.gaps,
            "multiplier": self.multipliers,
            "iterations": self.n_iters,
        }

    def to_frame(self) -> Any:
        """One row for each radius or penalty, without the coefficients, as a pandas DataFrame."""
        pandas = require_extra("pandas", extra="pandas", purpose="Path.to_frame")
        return pandas.DataFrame(self._columns())

    def plot(self, *, names: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Draw the coefficients against |coef|_1, and return the matplotlib axes.

        Parameters
        ----------
        names : sequence of str, optional
            The names of the features; by default their numbers, from 0. The legend names the
            features with the largest coefficients at the end of the path.
        ax : matplotlib axes, optional
            Where to draw; by default on a new figure.
        """
        from condgrad import pictures  # a path without a picture should not wait for it

        coefs = np.asarray(host(self.coefs))
        features = coefs.shape[1]
        if names is None:
            names = [f"feature {j}" for j in range(features)]
        if len(names) != features:
            raise ValueError(
                f"names must have one name for each of the {features} features, got {len(names)}"
            )
        if ax is None:
            pyplot = require_extra("matplotlib.pyplot", extra="plot", purpose="Path.plot")
            _, ax = pyplot.subplots(figsize=(7, 4), layout="constrained")
        pictures.draw_path(ax, self.radii, coefs, names, chosen=coefs[-1])
        along = pictures.MEANINGS["radius"] if self.alphas is None else pictures.NORM
        ax.set(xlabel=along, ylabel="coefficient")
        return ax

    def __str__(self) -> str:
        columns = self._columns()
        exact = {"non_zeros": "d", "iterations": "d", "value": ".8g", "gap": ".2g"}
        cells = [
            [name.replace("_", "-"), *(format(each, exact.get(name, ".5g")) for each in column)]
            for name, column in columns.items()
        ]
        widths = [max(map(len, column)) for column in cells]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in zip(*cells, strict=True)
        ]
        if len(lines) > ROWS_SHOWN + 1:
            left = len(lines) - 1 - 2 * (ROWS_SHOWN // 6)
            ends = ROWS_SHOWN // 6
            lines = [*lines[: ends + 1], f"({left} more rows)", *lines[-ends:]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def path(
    X: Any,
    y: Any,
    *,
    loss: str = "logistic",
    radii: Any = None,
    n_radii: int = 50,
    ridge: float | None = None,
    alphas: Any = None,
    eps: float = 1e-3,
    l1_ratio: float | None = None,
    fit_intercept: bool = True,
    standardize: bool = False,
    penalty_factors: Any = None,
    positive: bool = False,
    groups: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    method: str = "auto",
    time_limit: float | None = None,
    progress: bool = False,
) -> Path:
    """Fit a linear model for many radii, or for many penalties.

    Without `alphas`, each fit minimises loss + ridge |coef|_2^2 subject to |coef|_1 <= radius. With
    `alphas`, each fit minimises mean loss + alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2
    |coef|_2^2). Each fit starts from the previous solutions, and has a proof of its own.

    Parameters
    ----------
    X : array, DataFrame, SciPy sparse matrix, torch tensor, Dask array or dataframe, shape (samples, features)
        The data.
    y : array, Series or list, shape (samples,)
        Numbers. For "logistic" and "squared-hinge": labels of two classes; the last one in sorted
        order is the positive class. If X is a tensor, the labels must be two numbers.
    loss : {"logistic", "least-squares", "squared-hinge", "poisson", "gamma", "huber"}
        The loss, by default "logistic". Without `alphas` it is a sum over the samples, as in
        `condgrad.smooth`. "huber" has delta = 1.35.
    radii : array, optional
        The radii. By default a geometric grid of `n_radii` radii. The last radius is about |coef|_1
        of the solution without a constraint. The first is a thousandth of the last.
    n_radii : int, default 50
        The number of radii in the default grid.
    ridge : float, optional
        The weight of |coef|_2^2, at least 0. The default is 0.5; 0 is the lasso. (Without a ridge
        and a constraint there may be no solution. So for ridge=0, the default grid of radii is
        computed with a small ridge: a thousandth of the sum of squares of a typical feature.)
    alphas : int or array, optional
        Penalties in place of the radii and the ridge: an array, or the number of alphas on a
        geometric grid. The largest alpha of the grid is just large enough to make all coefficients
        0.
    eps : float, default 1e-3
        The smallest alpha of the grid divided by the largest.
    l1_ratio : float, optional
        The share of |coef|_1 in the penalty, from 0 to 1. Only with alphas. The default is 1, the
        lasso.
    fit_intercept : bool, default True
        Fit an intercept. Without it, the intercept is 0.
    standardize, penalty_factors, positive, groups
        As in `ConstrainedElasticNet`. For "logistic", it is an error if features with factor 0
        alone separate the classes; for "poisson", see `condgrad.smooth.Poisson`. `standardize` and
        `penalty_factors` do not work with tensors: scale the tensors beforehand.
    sample_weight : array, shape (samples,), optional
        Weights >= 0; by default all are 1.
    offset : array, shape (samples,), optional
        Known numbers that are added to X coef + intercept.
    tol : float, default 1e-6
        Each fit stops at a gap of `tol`, relative to the objective, as in `condgrad.minimize`.
    max_iter : int, default 10_000
        The largest number of iterations of one fit. A quadratic model that predicts the solution
        from the previous ones counts as an iteration.
    method : str, default "auto"
        The algorithm, by its name in `condgrad.minimize`.
    time_limit : float, optional
        Limit for the whole path in seconds. If no time is left for a radius, the solution of the
        previous radius is used again, with an infinite gap. A warning says how many fits the limit
        cut short.
    progress : bool, default False
        Show progress on the terminal, in one line.

    Returns
    -------
    Path
        The solutions, in the order of increasing radii or decreasing alphas. `values`, `gaps` and
        `multipliers` are for the loss as a sum over the samples, even if you give alphas.

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
    estimator = LOSSES[loss](
        fit_intercept=fit_intercept, standardize=standardize, penalty_factors=penalty_factors
    )
    estimator.set_params(positive=positive)._check_flags()
    progress = _checks.flag("progress", progress)
    task = _task(estimator, X, y, sample_weight, offset)
    if groups is not None:
        groups = checked_labels(groups, task.shape[0])
        groups = groups if task.is_free is None else groups[~task.is_free]
    solver = Solver.starting_now(
        method, tol, max_iter, time_limit, positive=positive, groups=groups
    )
    if alphas is None and l1_ratio is not None:
        raise ValueError(f"l1_ratio needs alphas, got l1_ratio={l1_ratio!r} without alphas")
    if alphas is not None and not (radii is None and ridge is None):
        raise ValueError(
            "alphas cannot be combined with radii or ridge: a path is by radius or by penalty"
        )
    with FitsLine(shown=progress) as line:
        if alphas is not None:
            alphas = _alphas(task, alphas, eps, l1_ratio, positive=positive)
            sizes = [_penalised(task, alpha, l1_ratio) for alpha in alphas]
        else:
            ridge = 0.5 if ridge is None else ridge
            if radii is None:
                line.say("looking for the largest radius")
                radii = default_radii([task], ridge=ridge, n_radii=n_radii, solver=solver)
            sizes = [Size(ridge, radius=radius) for radius in checked_radii(radii)]
        line.total = len(sizes)
        fits = solver.path(task, sizes, line)
    warn_unless_converged(fits, stacklevel=2)
    return Path(
        np.array([fit.radius for fit in fits]),
        stack([fit.coef for fit in fits]),
        np.array([fit.intercept for fit in fits]),
        np.array([fit.value for fit in fits]),
        np.array([fit.gap for fit in fits]),
        np.array([fit.multiplier for fit in fits]),
        np.array([fit.iterations for fit in fits]),
        alphas,
    )


def _alphas(task: Task, alphas: Any, eps: float, l1_ratio: float | None, *, positive: bool) -> Any:
    """The alphas of a path by penalties, in falling order."""
    if np.ndim(alphas) > 0:
        return checked_alphas(alphas)
    share = 1.0 if l1_ratio is None else l1_ratio
    return penalty_grid([task], l1_ratio=share, eps=eps, n_alphas=alphas, positive=positive)


def _penalised(task: Task, alpha: float, l1_ratio: float | None) -> Size:
    return penalty_of_mean(alpha, 1.0 if l1_ratio is None else l1_ratio, task)


def _task(estimator: SingleFit, X: Any, y: Any, sample_weight: Any, offset: Any) -> Task:
    """The estimator's one problem, from data checked as `fit` checks them; tensors stay tensors."""
    if is_torch(X):
        if estimator.standardize or estimator.penalty_factors is not None:
            raise TypeError(
                "standardize and penalty_factors do not work with torch tensors: scale the tensor instead"
            )
        options = {
            "sample_weight": sample_weight,
            "intercept": estimator.fit_intercept,
            "offset": offset,
        }
        return Task(estimator.smooth_part(X, y, **options))
    X, y, sample_weight = estimator._data(X, y, sample_weight)
    tasks = estimator._tasks(X, y, sample_weight, checked_offset(offset, X))
    if len(tasks) > 1:
        raise ValueError(
            f"y must hold two classes, got {len(tasks)}: ask for the path of one class against the rest, "
            "such as path(X, y == 'one class')"
        )
    return tasks[0]
