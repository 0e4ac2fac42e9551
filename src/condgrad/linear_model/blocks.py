"""What the estimators do with Dask data: predictions block by block, and folds as weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from condgrad.arrays import is_dask
from condgrad.smooth.row_blocks import RowBlocks, column_names, computed

MOST_MARGINS = 1 << 24
"""The largest number of decision values of held-out rows that come to the driver at a time."""

Method = Callable[..., Any]


def require_in_memory(X: Any, what: str, advice: str = "") -> None:
    """An error where data of Dask cannot have what is asked for."""
    if isinstance(X, RowBlocks):
        raise ValueError(f"{what} data in memory, not blocks of Dask{advice}")


def block_by_block(method: Method) -> Method:
    """A method of an estimator that answers for each row; for data of Dask the answer is a lazy
    Dask array.
    """

    @wraps(method)
    def answer(self: Any, X: Any, offset: Any = None) -> Any:
        if not is_dask(X):
            return method(self, X) if offset is None else method(self, X, offset)
        if offset is not None:
            raise ValueError("offset needs data in memory, not blocks of Dask")
        check_is_fitted(self)
        names = column_names(X)
        X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
        fitted = copy(self)  # blocks carry no names
        fitted_names = fitted.__dict__.pop("feature_names_in_", None)
        if fitted_names is not None and names is not None and list(fitted_names) != list(names):
            raise ValueError(
                f"X must have the columns of the fit, {list(fitted_names)}, got {list(names)}"
            )
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in the fit, got {X.shape[1]}"
            )
        like = method(fitted, np.zeros((1, X.shape[1])))
        X = X.rechunk({1: -1})
        shape = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
        return X.map_blocks(
            lambda rows: method(fitted, rows), dtype=like.dtype, meta=like[:0], **shape
        )

    return answer


# --- folds: a part of the rows is a set of weights, so that all folds share the blocks


def weights_of_part(part: Any, samples: int, weights: Any) -> Any:
    """The weights of the rows in a part, by their numbers; 0 for all others."""
    counts = np.bincount(part, minlength=samples).astype(np.float64)
    return counts if weights is None else counts * weights


def held_out_margins(models: Sequence[Any], X: RowBlocks, test: Any) -> Iterator[tuple[Any, Any]]:
    """Models with what they need of some rows to be scored there: X coef' as the features of a
    model without weights.

    So any scorer of scikit-learn takes them, and of the rows themselves nothing travels.
    """
    rows, place = np.unique(test, return_inverse=True)
    is_out = X.split(weights_of_part(rows, X.shape[0], None))
    width = np.atleast_2d(models[0].coef_).shape[0]
    at_once = max(1, MOST_MARGINS // (len(rows) * width))
    for begin in range(0, len(models), at_once):
        some = models[begin : begin + at_once]
        coefs = X.inner(np.concatenate([np.atleast_2d(model.coef_) for model in some]).T)
        margins = np.concatenate(computed(X.matrices.map(_margins_of_some, is_out, coefs=coefs)))[
            place
        ]
        X.passes[0] += 1
        for k, model in enumerate(some):
            judged = copy(model)
            judged.coef_ = np.eye(width) if np.ndim(model.coef_) == 2 else np.ones(1)
            judged.n_features_in_ = width
            yield judged, margins[:, k * width : (k + 1) * width]


def cross_val_answers(
    trial: Any, X: RowBlocks, y: Any, weights: Any, folds: Sequence[Any], method: str
) -> Any:
    """What a method of models says of the rows that they did not see, as scikit-learn's
    `cross_val_predict`.
    """
    answers: Any = None
    for train, test in folds:
        model = clone(trial).fit(X, y, sample_weight=weights_of_part(train, X.shape[0], weights))
        judged, margins = next(held_out_margins([model], X, test))
        answer = getattr(judged, method)(margins)
        if answers is None:
            answers = np.empty((X.shape[0], *answer.shape[1:]), answer.dtype)
        answers[test] = answer
    return answers


def _margins_of_some(K: Any, is_out: Any, coefs: Any) -> Any:
    return np.asarray(K[np.flatnonzero(is_out)] @ coefs, dtype=np.float64)
