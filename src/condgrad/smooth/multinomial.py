"""The softmax loss of several classes: one variable with a column for each class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Space,
    Vector,
    dot,
    double,
    host,
    is_dask,
    is_dense,
    is_torch,
    like,
    namespace,
    peaks_of_columns,
    total,
)
from condgrad.arrays.inputs import data_matrix
from condgrad.problem import Floor
from condgrad.rounding import UNIT
from condgrad.smooth.composite import EvaluationOfImage, LossOfMatrix
from condgrad.smooth.losses import sample_weights
from condgrad.smooth.row_blocks import InBlocks, RowBlocks
from condgrad.smooth.softmax import Softmax


class Multinomial(LossOfMatrix):
    """The softmax loss f(X) = sum_i w_i (log sum_k exp(z_i.X_k) - z_i.X_(y_i)).

    The variable X is a matrix of shape (features, classes).

    Parameters
    ----------
    Z : array, SciPy sparse matrix, Dask array or Dask dataframe, shape (samples, features)
        The rows are z_i. For data of Dask the result is a `BlockwiseMultinomial`; `isinstance`
        counts it as a `Multinomial`.
    y : array, shape (samples,)
        Labels of any kind. The columns of X are the classes in sorted order.
    sample_weight : array of nonnegative numbers, optional
        The weights w_i; 1 by default.
    intercept : bool
        Add an intercept without a penalty for each class. The intercepts are not part of X: f(X)
        uses the best intercepts for X. These are `at(X).intercept`; their sum is 0. Each class
        needs a positive weight; otherwise its intercept would fall without bound.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Multinomial([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], ["ape", "bee", "cow"])
    >>> round(f.value_and_gradient(np.zeros((2, 3)))[0], 6)  # 3 log 3
    3.295837
    """

    floor = Floor(0.0, 0.0)

    def __new__(cls, *data: Any, **options: Any) -> Any:
        Z = data[0] if data else options.get("Z")
        if is_dask(Z) or isinstance(Z, RowBlocks):
            return super().__new__(BlockwiseMultinomial)
        return super().__new__(cls)

    def __init__(
        self, Z: Any, y: Any, *, sample_weight: Any = None, intercept: bool = False
    ) -> None:
        classes, codes = np.unique(host(y) if is_torch(y) else np.asarray(y), return_inverse=True)
        if len(classes) < 2:
            got = f"one: {classes[0]!r}" if len(classes) else "no labels"
            raise ValueError(f"y must hold at least two classes, got {got}")
        self._begin(Z, classes, codes, sample_weight, intercept)

    def _begin(self, Z: Any, classes: Any, codes: Any, sample_weight: Any, intercept: bool) -> None:
        self.K = data_matrix("Z", Z) if self.at_hand else RowBlocks.of(Z)
        self.classes = classes
        intercept = _checks.flag("intercept", intercept)
        if codes.shape != (self.K.shape[0],):
            raise ValueError(
                f"y must have one label for each of the {self.K.shape[0]} rows, got shape {codes.shape}"
            )
        self.h = Softmax(codes, len(classes), sample_weights(self.K, sample_weight), intercept)
        kind = self.K if self.at_hand else np.empty(0, self.K.dtype)
        self.space = Space.of(kind, shape=(self.K.shape[1], len(classes)))

    @cached_property
    def column_peaks(self) -> Array:
        """max_i |K_ij| for each feature j, in float64."""
        return peaks_of_columns(self.K)

    def at(self, x: Array) -> MultinomialEvaluation:
        return MultinomialEvaluation(self, x)

    def __repr__(self) -> str:
        m, n = self.K.shape
        name = type(self).__name__
        intercept = ", intercept" if self.h.has_intercept else ""
        return f"{name}({m} samples, {n} features, {len(self.classes)} classes{intercept})"


class BlockwiseMultinomial(InBlocks, Multinomial):
    """f(X) = sum_i w_i (log sum_k exp(z_i.X_k) - z_i.X_(y_i)) for a Dask array Z of blocks of rows,
    dense or sparse.

    `Multinomial` makes one from a Dask array or dataframe, with labels of any kind.

    Parameters
    ----------
    Z : Dask array or dataframe, shape (samples, features)
    y : Dask array or array, shape (samples,)
        The classes as whole numbers 0, 1, ...: the columns of X.
    classes : int
        The number of classes.
    sample_weight : Dask array or array of nonnegative numbers, optional
    intercept : bool
        As in `Multinomial`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, condgrad as cg
    >>> f = cg.smooth.BlockwiseMultinomial(da.ones((6, 2), chunks=(2, 2)), np.arange(6) % 3, classes=3)
    >>> round(f.value_and_gradient(np.zeros((2, 3)))[0], 6)  # 6 log 3
    6.591674
    """

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        classes: int | None = None,
        sample_weight: Any = None,
        intercept: bool = False,
    ) -> None:
        if classes is None:  # of labels, by way of `Multinomial`
            super().__init__(Z, y, sample_weight=sample_weight, intercept=intercept)
            return
        codes = np.asarray(y).astype(np.intp)
        self._begin(Z, np.arange(classes), codes, sample_weight, intercept)


class MultinomialEvaluation(EvaluationOfImage):
    """h(K X) at X."""

    @cached_property
    def image_size(self) -> float:
        """The size of K X before columns cancel in it."""
        return dot(self.f.column_norms, self._row_sums)

    @cached_property
    def largest_margin(self) -> float:
        """The size of the largest entry of K X before columns cancel in it."""
        return dot(self.f.column_peaks, self._row_sums)

    @cached_property
    def _row_sums(self) -> Array:
        """sum_k |X_jk| for each feature j."""
        xp = namespace(self._x)
        return xp.sum(double(xp.abs(self._x)), axis=1)

    @property
    def intercept(self) -> Vector:
        return self.at_best.intercept

    @property
    def gradient(self) -> Array:
        theta = self.theta
        if theta.dtype != self._x.dtype:
            theta = namespace(theta).astype(theta, self._x.dtype)
        return self.f.transposed_times(theta)

    def magnitude(self, other: MultinomialEvaluation) -> float:
        xp = namespace(self.theta)
        unit = self.f.unit_at(self._x)
        length = self.theta_length
        rounding = unit * self.h.curvature_bound * self.image_size if length > 0.0 else 0.0
        size = (length + rounding) * other.image_size
        if not self.h.has_intercept:
            return size
        # theta sums to 0 over the samples but for rounding, and what is left is multiplied by how
        # far the best intercepts at the other point are from those here: no farther than the
        # entries of K X are
        left = float(xp.max(xp.abs(xp.sum(self.theta, axis=0))))
        shifts = float(np.abs(self.intercept).max()) + self.largest_margin + other.largest_margin
        size += (left / unit + UNIT / unit * total(xp.abs(self.theta))) * shifts
        return size + self.at_best.slip / unit

    def moved(
        self, x: Array, others: Sequence[MultinomialEvaluation], a: Vector
    ) -> MultinomialEvaluation:
        z, near = self.mixed_with(others, a)
        return MultinomialEvaluation(self.f, x, z, near=near)

    def hessian_times(self, X: Array) -> Array:
        """The Hessian of f times X, by a product with K and one with K'.

        With the probabilities p_i of the classes at sample i, and y_i = K_i X + b, it is K'U with
        U_ik = w_i p_ik (y_ik - <p_i, y_i>). With intercepts, b makes each column of U sum to 0.
        """
        h = self.f.h
        shares, inverse = self._curvature
        xp = namespace(shares)
        weighted = h.weights[:, None] * shares

        def curved(y: Array) -> Array:
            return weighted * (y - xp.sum(shares * y, axis=1)[:, None])

        U = curved(self.f.image(X))
        if h.has_intercept:
            b = -(inverse @ host(xp.sum(U, axis=0)))
            U = U + curved(like(b, U)[None, :])
        return self.f.transposed_times(U)

    @cached_property
    def _curvature(self) -> tuple[Array, Any]:
        """The probabilities of the classes, and the inverse of the curvature in the intercepts."""
        h = self.f.h
        _, shares = h.value_and_shares(self.z, self.intercept)
        return shares, h._inverse_curvature(shares) if h.has_intercept else None

    def hessian_in(self, chosen: Array) -> Array:
        """The Hessian of f in some entries of X, which are numbered as in X.ravel().

        With the probabilities p_ik of the classes and the columns M_(jk) = p_k K_j it is

            sum_i w_i p_ik K_ij K_il [k = k']  -  M_(jk)' diag(w) M_(lk')

        in the entries (j, k) and (l, k'), less what intercepts, minimised out, take of it.
        """
        f = self.f
        h = f.h
        classes = len(f.classes)
        features = chosen // classes
        labels = chosen % classes
        shares, inverse = self._curvature
        K: Any = f.K[:, features].T if is_dense(f.K) else f.K.tocsc()[:, features].T.toarray()
        # a row an entry of X: then every product runs along the samples
        rows = np.ascontiguousarray(K, np.float64)
        by_class = np.ascontiguousarray(shares.T)
        if (
            h.has_intercept
        ):  # a mean makes no difference then, and a large one would leave no digits of the rest
            rows = rows - (rows @ (h.weights / total(h.weights)))[:, None]
        M = by_class[labels] * rows
        weighted = M * h.weights
        H = -(weighted @ M.T)
        coupling = -(weighted @ shares)
        for label in range(classes):
            own = np.flatnonzero(labels == label)
            # p (1 - p) by the shares of the others: near 1 the difference would have no digits
            others = np.delete(by_class, label, axis=0).sum(axis=0)
            H[np.ix_(own, own)] = (weighted[own] * others) @ rows[own].T
            coupling[own, label] = weighted[own] @ others
        if h.has_intercept:
            H -= coupling @ inverse @ coupling.T
        return H
