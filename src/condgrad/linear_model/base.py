"""What the estimators share: from data to problems, from solutions to attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from numbers import Number
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.sparsefuncs import inplace_column_scale
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad import _checks
from condgrad.arrays import is_dask
from condgrad.arrays.inputs import each_entry_once
from condgrad.linear_model.blocks import require_in_memory
from condgrad.linear_model.model_file import FittedModel
from condgrad.linear_model.parameters import FitParameters, with_parameters
from condgrad.linear_model.solver import Fit, Size, Solver, Task, warn_unless_converged
from condgrad.sets.group_ball import checked_groups
from condgrad.smooth.composite import LossOfMatrix
from condgrad.smooth.free_columns import NamedColumns
from condgrad.smooth.row_blocks import RowBlocks, dask_array

SPARSE_FORMATS = ("csr", "csc")
DTYPES = (np.float64, np.float32)
IMPUTATIONS = ("median", "mean")


class LinearEstimator(FitParameters, BaseEstimator, ABC):  # type: ignore[misc]
    """A linear model whose fit is one or several constrained problems (`tasks`)."""

    smooth_part: Callable[..., Any]
    """The class of the loss, from `condgrad.smooth`."""

    groups: Any
    coef_: Any
    intercept_: Any
    fill_values_: Any

    @abstractmethod
    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y, checked."""

    @abstractmethod
    def _losses(
        self, X: Any, y: Any, weights: Any, offset: Any = None, unpenalised: Any = None
    ) -> Sequence[LossOfMatrix]:
        """The smooth parts of the problems to solve."""

    @abstractmethod
    def _absorb(self, fits: Sequence[Fit]) -> None:
        """Set the attributes from the solutions, one for each task."""

    def _data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """X, y and the weights, checked; blocks of Dask are checked where they are."""
        self._check_flags()
        if is_dask(X) or isinstance(X, RowBlocks):
            weights = None if sample_weight is None else np.asarray(dask_array(sample_weight))
            return self._blocks(X), np.asarray(dask_array(y)), weights
        X, y = self._read(X, y)
        X = each_entry_once(X)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, X.shape[0])
        return X, y, sample_weight

    def _check_flags(self) -> None:
        """An error for a flag that is neither True nor False."""
        for name in ("fit_intercept", "standardize", "positive", "warm_start"):
            if hasattr(self, name):
                _checks.flag(name, getattr(self, name))
        if self.impute not in (None, *IMPUTATIONS):
            allowed = ", ".join(map(repr, IMPUTATIONS))
            raise ValueError(f"impute must be None or one of {allowed}, got {self.impute!r}")

    def _allowed(self) -> dict[str, Any]:
        """What scikit-learn's checks are to let through."""
        finite = True if self.impute is None else "allow-nan"
        return {"accept_sparse": SPARSE_FORMATS, "dtype": DTYPES, "ensure_all_finite": finite}

    def _validated(self, *arrays: Any, **options: Any) -> Any:
        """What scikit-learn's checks let through; their error for missing values says what helps."""
        try:
            return validate_data(self, *arrays, **self._allowed(), **options)
        except ValueError as error:
            if "Input X contains NaN" in str(error):
                error.add_note("condgrad: impute='median' or 'mean' fills in missing values")
            raise

    def _blocks(self, X: Any) -> RowBlocks:
        """The blocks of Dask's data, whose features are noted as scikit-learn does."""
        rows = RowBlocks.of(X)
        if rows.names is not None:
            self.feature_names_in_ = rows.names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = rows.shape[1]
        return rows

    def _tasks(self, X: Any, y: Any, weights: Any, offset: Any = None) -> list[Task]:
        """The problems to solve, in units in which every coefficient counts alike in the norms."""
        X = self._learn_to_fill(X, weights)
        factors = self._factors(X.shape[1])
        is_free = None
        unpenalised = None
        if factors is not None and (factors == 0.0).any():
            is_free = factors == 0.0
            unpenalised = self._unpenalised(X, is_free)
            X = some_features(X, ~is_free)
            factors = factors[~is_free]
        units = self._units(X, weights, factors)
        losses = self._losses(in_units(X, units), y, weights, offset, unpenalised)
        for loss in losses:
            loss.has_rounded_data = units is not None
        return [Task(loss, units, is_free) for loss in losses]

    def _learn_to_fill(self, X: Any, weights: Any) -> Any:
        """X without missing entries: samples of weight 0 do not say what stands in for them."""
        if self.impute is None:
            return X
        require_in_memory(X, "impute needs", f", got {self.impute!r}: fill them first")
        from sklearn.impute import SimpleImputer  # a plain fit should not wait for it

        imputer = SimpleImputer(strategy=self.impute, keep_empty_features=True)
        counted = X if weights is None or not weights.any() else X[np.flatnonzero(weights)]
        self.fill_values_ = imputer.fit(counted).statistics_
        return self._filled(X)

    def _filled(self, X: Any) -> Any:
        """X with what was learnt in the place of missing entries, in its own layout."""
        if self.impute is None:
            return X
        X = X.copy() if scipy.sparse.issparse(X) else X.copy(order="K")
        if scipy.sparse.issparse(X):
            holes = np.isnan(X.data)
            X.data[holes] = self.fill_values_[X.tocoo().col[holes]]
        else:
            rows, columns = np.nonzero(np.isnan(X))
            X[rows, columns] = self.fill_values_[columns]
        return X

    def _factors(self, features: int) -> Any:
        """What each penalty is multiplied by; None for 1."""
        if self.penalty_factors is None:
            return None
        return checked_factors(self.penalty_factors, features)

    def _unpenalised(self, X: Any, is_free: Any) -> NamedColumns:
        """The features without a penalty."""
        require_in_memory(X, "penalty_factors of 0 need", ": use factors above 0")
        if self.positive:
            raise ValueError(
                "penalty_factors of 0 need positive=False: coefficients without a penalty can have both signs"
            )
        names = getattr(self, "feature_names_in_", [f"number {j}" for j in range(X.shape[1])])
        free = np.flatnonzero(is_free)
        return NamedColumns(some_features(X, is_free), [str(names[j]) for j in free])

    def _units(self, X: Any, weights: Any, units: Any) -> Any:
        """By what each coefficient is multiplied in the norms, from its factor; None for 1."""
        if self.standardize:
            scale = deviations(X, weights)
            units = scale if units is None else units * scale
        return units

    def _factor(self, task: Task) -> float:
        """What the objective that the class names is as a multiple of the sum over the samples."""
        return 1.0

    def _times_factor(self, fit: Fit, task: Task) -> Fit:
        factor = self._factor(task)
        return (
            fit if factor == 1.0 else replace(fit, value=factor * fit.value, gap=factor * fit.gap)
        )

    def _tell_sizes(self, fits: Sequence[Fit]) -> None:
        """Set the bound on the norm, which all problems share."""
        self.radius_: Any = fits[0].radius

    def _solver(self) -> Solver:
        return Solver.starting_now(
            self.method,
            self.tol,
            self.max_iter,
            self.time_limit,
            positive=bool(self.positive),
            groups=self._penalised_groups(),
        )

    def _penalised_groups(self) -> Any:
        """The labels of the features with a penalty; None without groups."""
        if self.groups is None:
            return None
        labels = checked_labels(self.groups, self.n_features_in_)
        factors = self._factors(self.n_features_in_)
        return labels if factors is None else labels[factors > 0.0]

    def _scores(self, X: Any, offset: Any = None) -> Any:
        """X coef' + intercept, and what is known of them."""
        check_is_fitted(self)
        X = self._filled(self._validated(X, reset=False))
        scores = self._scores_of_checked(X)
        if offset is None:
            return scores
        offset = checked_offset(offset, X)
        return scores + (offset if scores.ndim == 1 else offset[:, None])

    def _scores_of_checked(self, X: Any) -> Any:
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    def sparsify(self) -> Self:
        """Convert `coef_` to a SciPy sparse matrix.

        This saves memory if most coefficients are 0. Predictions stay the same. A vector becomes a
        matrix with one row.
        """
        check_is_fitted(self)
        self.coef_ = scipy.sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Convert `coef_` back to an array, as after `fit`."""
        check_is_fitted(self)
        self.coef_ = self._dense_coef()
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file of plain JSON, for `condgrad.linear_model.load`.

        The command `condgrad fit` writes the same format, and `condgrad predict` reads it. The file
        has no pickle. A search (`...CV`) is saved as its selected model, without the scores.

        Parameters
        ----------
        path : str or path
            The file. An existing file is replaced.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from condgrad import linear_model
        >>> model = linear_model.Lasso(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder) / "model.json")
        ...     again = linear_model.load(pathlib.Path(folder) / "model.json")
        >>> again, bool(again.predict([[3.0]]) == model.predict([[3.0]]))
        (Lasso(alpha=0.1), True)
        """
        check_is_fitted(self)
        FittedModel.of(self).write(Path(path))

    def _dense_coef(self) -> Any:
        return self.coef_.toarray() if scipy.sparse.issparse(self.coef_) else self.coef_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.impute is not None
        return tags


def checked_weights(sample_weight: Any, samples: int) -> Any:
    """One finite weight for each sample, from an array, a Series, a list or a single number; the
    losses check signs.
    """
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


def checked_offset(offset: Any, X: Any) -> Any:
    """A known part of the score of each sample; None for none."""
    if offset is None:
        return None
    require_in_memory(X, "offset needs")
    checked = check_array(
        offset, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="offset"
    )
    if checked.shape != (X.shape[0],):
        raise ValueError(
            f"offset must have one entry for each of the {X.shape[0]} samples, got shape {checked.shape}"
        )
    return checked


def checked_factors(penalty_factors: Any, features: int) -> Any:
    """One factor for each feature, of at least 0, and not all of them 0."""
    factors = check_array(
        penalty_factors,
        ensure_2d=False,
        allow_nd=True,
        dtype=np.float64,
        input_name="penalty_factors",
    )
    if factors.shape != (features,):
        raise ValueError(
            f"penalty_factors must have one entry for each of the {features} features, got shape {factors.shape}"
        )
    if factors.min() < 0.0:
        raise ValueError(f"penalty_factors must be >= 0, got {factors.min():g} among them")
    if not factors.any():
        raise ValueError(
            "penalty_factors must have an entry above 0, got only zeros: then nothing has a penalty"
        )
    return factors


def checked_labels(groups: Any, features: int) -> Any:
    """A label for each feature."""
    labels = checked_groups(groups)
    if len(labels) != features:
        raise ValueError(
            f"groups must have one label for each of the {features} features, got {len(labels)}"
        )
    return labels


def deviations(X: Any, weights: Any) -> Any:
    """The weighted standard deviations of the columns; 1 where a column does not vary."""
    if isinstance(X, RowBlocks):
        return X.deviations(weights)
    from sklearn.preprocessing import StandardScaler  # it loads rich: a plain fit should not wait

    mean = 1.0 if weights is None else float(weights.mean())
    if (
        mean > 0.0 and mean != 1.0
    ):  # scikit-learn takes the sum of the weights for how many samples may add to rounding
        weights = weights / mean
    scaler = StandardScaler(with_mean=not scipy.sparse.issparse(X))
    with np.errstate(invalid="ignore"):  # rounding may leave a constant column a variance below 0
        return scaler.fit(X, sample_weight=weights).scale_


def some_features(X: Any, which: Any) -> Any:
    """Some columns of the data, by columns where these are."""
    if scipy.sparse.issparse(X) or not X.flags.f_contiguous:
        return X[:, which]
    return X.T[which].T


def in_units(X: Any, units: Any) -> Any:
    """X with its columns divided by the units, in its own precision."""
    if units is None:
        return X
    if isinstance(X, RowBlocks):
        return X.in_units(units)
    if not scipy.sparse.issparse(X):
        return (X / units).astype(X.dtype, copy=False)
    X = X.copy()
    inplace_column_scale(X, (1.0 / units).astype(X.dtype))
    return X


@with_parameters
class SingleFit(LinearEstimator):
    """A fit for one size of the coefficients."""

    warm_start: bool = False

    @abstractmethod
    def _size(self, task: Task) -> Size:
        """What keeps the coefficients small, for a loss that is a sum over samples."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Solve the problem.

        Parameters
        ----------
        X : array, DataFrame, SciPy sparse matrix, Dask array or Dask dataframe, shape (samples, features)
            The data. Data of Dask stay on its workers, in blocks of rows, dense or SciPy sparse.
            Only sums over the rows, and one number for each row, come back.
        y : array, shape (samples,)
            The targets, or the labels of the classes. For data of Dask: a Dask array or an array.
        sample_weight : array, shape (samples,), optional
            Weights >= 0; by default all are 1. A sample of weight 2 counts as two samples.
        offset : array, shape (samples,), optional
            Known numbers that are added to X coef + intercept. `predict` takes an offset too.
        """
        X, y, sample_weight = self._data(X, y, sample_weight)
        tasks = self._tasks(X, y, sample_weight, checked_offset(offset, X))
        solver = replace(self._solver(), progress=_checks.loudness("verbose", self.verbose))
        fits = [
            self._times_factor(solver.solve(task, self._size(task), start=start), task)
            for task, start in zip(tasks, self._starts(tasks), strict=True)
        ]
        self._absorb(fits)
        self._tell_sizes(fits)
        warn_unless_converged(fits, stacklevel=2)
        return self

    def _starts(self, tasks: Sequence[Task]) -> Sequence[Any]:
        """The last coefficients, if they are wanted and fit the problems."""
        nothing = [None] * len(tasks)
        if not (self.warm_start and hasattr(self, "coef_")):
            return nothing
        before = np.atleast_2d(self._dense_coef())
        shape = tasks[0].shape
        if len(shape) == 2:  # one problem for all classes
            return [before.T] if before.T.shape == shape else nothing
        return list(before) if before.shape == (len(tasks), *shape) else nothing


@with_parameters
class RadiusFit(SingleFit):
    """A fit for one radius and one ridge."""

    radius: float = field(default=1.0, kw_only=False)
    ridge: float = field(default=0.5, kw_only=False)
    groups: Any = None

    def _size(self, task: Task) -> Size:
        return Size(self.ridge, radius=self.radius)
