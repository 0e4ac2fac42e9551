"""What the estimators share: from data to problems, from solutions to attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Number
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad.linear_model.solver import Fit, Solver, warn_unless_converged
from condgrad.smooth.composite import Composite

FORMATS = ("csr", "csc")
PRECISIONS = (np.float64, np.float32)


class LinearEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A linear model whose fit is one or several constrained problems (`tasks`)."""

    loss: Callable[..., Composite]
    """The smooth part, from `condgrad.smooth`."""

    # what every subclass declares in its __init__, as scikit-learn wants
    fit_intercept: bool
    tol: float
    max_iter: int
    method: str
    time_limit: float | None
    verbose: bool

    coef_: Any
    intercept_: Any

    @abstractmethod
    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y, checked."""

    @abstractmethod
    def _tasks(self, X: Any, y: Any, weights: Any) -> list[Composite]:
        """The smooth parts of the problems to solve."""

    @abstractmethod
    def _absorb(self, fits: Sequence[Fit]) -> None:
        """Set the attributes from the solutions, one for each task."""

    def _data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        X, y = self._read(X, y)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, X.shape[0])
        return X, y, sample_weight

    def _solver(self) -> Solver:
        return Solver.starting_now(self.method, self.tol, self.max_iter, self.time_limit)

    def _scores(self, X: Any) -> Any:
        """X coef' + intercept."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=FORMATS, dtype=PRECISIONS, reset=False)
        return X @ self.coef_.T + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_weights(sample_weight: Any, samples: int) -> Any:
    """One finite weight for each sample, from an array, a Series, a list or a single number; the losses check signs."""
    if isinstance(sample_weight, Number):
        sample_weight = np.full(samples, sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="sample_weight"
    )  # fmt: skip
    if weights.shape != (samples,):
        raise ValueError(
            f"sample_weight must have one entry for each of the {samples} samples, got shape {weights.shape}"
        )
    return weights


class SingleFit(LinearEstimator):
    """A fit for one radius and one ridge."""

    radius: float
    ridge: float
    warm_start: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the constrained problem.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix, shape (samples, features)
        y : array, shape (samples,)
        sample_weight : array, shape (samples,), optional
            Nonnegative; a sample of weight 2 counts as two samples, one of weight 0 as none.
        """
        X, y, sample_weight = self._data(X, y, sample_weight)
        tasks = self._tasks(X, y, sample_weight)
        solver = replace(self._solver(), progress=bool(self.verbose))
        starts = self._starts(len(tasks), X.shape[1])
        fits = [
            solver.solve(f, radius=self.radius, ridge=self.ridge, start=start)
            for f, start in zip(tasks, starts, strict=True)
        ]
        self._absorb(fits)
        warn_unless_converged(fits, stacklevel=2)
        return self

    def _starts(self, tasks: int, features: int) -> Sequence[Any]:
        """The last coefficients, if they are wanted and fit the data."""
        if self.warm_start and hasattr(self, "coef_"):
            before = np.atleast_2d(self.coef_)
            if before.shape == (tasks, features):
                return list(before)
        return [None] * tasks
