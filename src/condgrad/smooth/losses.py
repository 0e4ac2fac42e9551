"""The data-fitting terms: least squares, logistic, squared hinge, Poisson, gamma, Huber; on dense
or sparse data.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condgrad import _checks
from condgrad.arrays import (
    Array,
    Matrix,
    dot,
    double,
    double_like,
    host,
    is_dask,
    is_torch,
    largest_size,
    namespace,
    total,
)
from condgrad.arrays.inputs import data_matrix, floating
from condgrad.errors import MissingAbility
from condgrad.problem import Floor
from condgrad.smooth.composite import Composite
from condgrad.smooth.free_columns import FreeColumns, WithFreeColumns
from condgrad.smooth.intercept import (
    GammaIntercept,
    HingeIntercept,
    HuberIntercept,
    LogisticIntercept,
    PoissonIntercept,
    SquaresIntercept,
    WithIntercept,
)
from condgrad.smooth.offset import WithOffset
from condgrad.smooth.row_blocks import BlockwiseLoss, InBlocks, RowBlocks
from condgrad.smooth.separable import (
    GammaOfScores,
    HuberOfScores,
    LogisticOfScores,
    PoissonOfScores,
    SeparableLoss,
    SquaredHingeOfScores,
    Squares,
    positive_label,
)


class DataLoss(Composite):
    """A loss h(Kx) of data K. For a Dask array or dataframe it is the same loss in blocks of rows, and
    the data stay where they are.
    """

    floor = Floor(0.0, 0.0)
    in_blocks: ClassVar[Any] = None
    """The class of this loss for data of Dask; None if there is none."""
    data_name = "Z"
    of_scores: ClassVar[type[SeparableLoss]]
    best_intercept: ClassVar[Any]
    """The function that finds the best intercept."""
    of_differences = False
    """Whether the loss depends only on scores minus targets. Then an offset is subtracted from the
    targets.
    """

    def __new__(cls, *data: Any, **options: Any) -> Any:
        K = data[0] if data else options.get("A", options.get("Z"))
        if not (is_dask(K) or isinstance(K, RowBlocks)):
            return super().__new__(cls)
        for name in ("offset", "unpenalised"):
            if options.get(name) is not None:
                raise MissingAbility(f"{name} needs data in memory, not blocks of Dask")
        if cls.in_blocks is None:
            raise MissingAbility(
                f"{cls.__name__} needs data in memory; LeastSquares, Logistic and SquaredHinge take blocks of Dask"
            )
        return super().__new__(cls.in_blocks)

    def __init__(
        self,
        K: Any,
        y: Any,
        sample_weight: Any,
        intercept: bool,
        offset: Any,
        unpenalised: Any,
        *extra: float,
    ) -> None:
        """h, with its intercept minimised out if asked, of K x + offset; and with columns that have
        no penalty minimised out, too. `extra` is what h is made of beside targets and weights.
        """
        K = data_matrix(self.data_name, K) if self.at_hand else RowBlocks.of(K)
        intercept = _checks.flag("intercept", intercept)
        y = self._targets(K, y)
        weights = sample_weights(K, sample_weight)
        if offset is not None:
            offset = _vector_beside(K, "offset", offset)
        if self.of_differences and offset is not None:
            y = y - offset
            offset = None
        # a mean that is large against the differences of the targets would cost these their digits
        if self.of_differences and intercept:
            self.target_center = dot(weights / total(weights), y)
            y = y - self.target_center
        h: Any = self.of_scores(y, weights, *extra)
        plain = h
        self.shift_size = h.shift_size
        if intercept:
            h = WithIntercept(h, self.best_intercept(y, weights, *extra))
        if offset is not None:
            self.shift_size += largest_size(offset)
            h = WithOffset(h, offset)
        if unpenalised is not None:
            self.unpenalised = FreeColumns.of(unpenalised, weights, intercept=intercept)
            h = WithFreeColumns(h, plain, self.unpenalised)
        super().__init__(K, h)

    def _targets(self, K: Matrix, y: Any) -> Array:
        """Numbers as they are, and labels as -1 and +1."""
        targets = _numbers_of_samples(K, y)
        if not self.of_scores.has_labels:
            return targets
        is_high = targets == positive_label(np.unique(host(targets)))
        return 2.0 * namespace(targets).astype(is_high, targets.dtype) - 1.0


class LeastSquares(DataLoss):
    """The least-squares loss f(x) = 1/2 sum_i w_i (a_i.x - y_i)^2 of the coefficients x.

    The attributes below call the data matrix K (here it is A), and write f(x) as h(Kx).

    Parameters
    ----------
    A : array, SciPy sparse matrix, Dask array or Dask dataframe, shape (samples, features)
        The rows are a_i. Data of Dask may have dense or sparse blocks. For them the result is a
        `BlockwiseLoss`, and `offset` and `unpenalised` are not possible.
    y : array, shape (samples,)
        The targets.
    sample_weight : array of nonnegative numbers, optional
        The weights w_i; 1 by default.
    intercept : bool
        Add an intercept b without a penalty. It is not part of x: f(x) uses the best b for x,
        f(x) = min_b 1/2 sum_i w_i (a_i.x + b - y_i)^2. This b is `intercept_at(x)`.
    offset : array, shape (samples,), optional
        A known part of each score: a_i.x + offset_i replaces a_i.x.
    unpenalised : array or SciPy sparse matrix, shape (samples, columns), optional
        More columns, whose coefficients have no penalty. Like the intercept they are not part of x:
        f(x) uses the best coefficients for x. These are `unpenalised_at(x)`. A column that is a
        combination of earlier ones is dropped, with a warning.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> f.value_and_gradient(np.zeros(2))[0]
    2.5
    """

    data_name = "A"
    of_scores = Squares
    best_intercept = SquaresIntercept
    of_differences = True

    def __init__(
        self,
        A: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        super().__init__(A, y, sample_weight, intercept, offset, unpenalised)


class Logistic(DataLoss):
    """The logistic loss f(x) = sum_i w_i log(1 + exp(-y_i z_i.x)) of the coefficients x.

    Parameters
    ----------
    Z : array, SciPy sparse matrix, Dask array or Dask dataframe, shape (samples, features)
        The rows are z_i. For data of Dask, see `LeastSquares`.
    y : array, shape (samples,)
        Labels: -1 and +1, or any two numbers; the larger one counts as +1.
    sample_weight : array of nonnegative numbers, optional
        The weights w_i; 1 by default.
    intercept : bool
        Add an intercept without a penalty, as in `LeastSquares`. It needs samples of both classes;
        otherwise it would grow without bound.
    offset, unpenalised
        As in `LeastSquares`. It is an error if a combination of the unpenalised columns separates
        the classes, because their coefficients would grow without bound.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Logistic([[1.0, 0.0], [0.0, 2.0]], [1, -1])
    >>> round(f.value_and_gradient(np.zeros(2))[0], 6)
    1.386294
    """

    of_scores = LogisticOfScores
    best_intercept = LogisticIntercept

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        super().__init__(Z, y, sample_weight, intercept, offset, unpenalised)


class SquaredHinge(DataLoss):
    """The squared hinge loss f(x) = sum_i w_i max(0, 1 - y_i z_i.x)^2 of the coefficients x.

    Parameters
    ----------
    Z, y, sample_weight, intercept, offset, unpenalised
        As in `Logistic`, but unpenalised columns may separate the classes.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.SquaredHinge([[1.0], [-2.0]], [1, -1])
    >>> f.value_and_gradient(np.array([0.5]))[0]
    0.25
    """

    of_scores = SquaredHingeOfScores
    best_intercept = HingeIntercept

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        super().__init__(Z, y, sample_weight, intercept, offset, unpenalised)


class Poisson(DataLoss):
    """The Poisson loss of counts: f(x) = sum_i w_i (mu_i - y_i + y_i log(y_i / mu_i)).

    Here mu_i = exp(z_i.x), and f is half of the Poisson deviance. f has no smoothness constant, so
    `step="short"` is an error. The data must be in memory, not in Dask.

    Parameters
    ----------
    Z, sample_weight, offset, unpenalised
        As in `LeastSquares`; the rows of Z are z_i. If counts have different exposures, give the
        logarithm of the exposure as offset. It is an error if the coefficients of unpenalised
        columns would grow without bound. This happens if a combination of these columns is 0 at all
        counts above 0, and has the same sign at all other counts.
    y : array, shape (samples,)
        Counts, or other numbers >= 0.
    intercept : bool
        As in `LeastSquares`. It needs a count above 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Poisson([[1.0, 0.0], [0.0, 2.0]], [1, 0])
    >>> f.value_and_gradient(np.zeros(2))[0]
    1.0
    """

    may_overflow = True
    of_scores = PoissonOfScores
    best_intercept = PoissonIntercept

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        super().__init__(Z, y, sample_weight, intercept, offset, unpenalised)

    def _targets(self, K: Matrix, y: Any) -> Array:
        """Counts."""
        counts = _numbers_of_samples(K, y)
        lowest = float(namespace(counts).min(counts))
        if lowest < 0.0:
            raise ValueError(
                f"y must hold counts of at least 0 for Poisson, got {lowest:g} among them"
            )
        return counts


class Gamma(DataLoss):
    """The gamma loss of positive amounts: f(x) = sum_i w_i (y_i / mu_i - 1 - log(y_i / mu_i)).

    Here mu_i = exp(z_i.x), and f is half of the gamma deviance. f has no smoothness constant, so
    `step="short"` is an error. The data must be in memory, not in Dask.

    Parameters
    ----------
    Z, sample_weight, intercept, offset, unpenalised
        As in `LeastSquares`; the rows of Z are z_i.
    y : array, shape (samples,)
        Amounts above 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Gamma([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])
    >>> f.value_and_gradient(np.zeros(2))[0]
    0.0
    """

    may_overflow = True
    of_scores = GammaOfScores
    best_intercept = GammaIntercept

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        super().__init__(Z, y, sample_weight, intercept, offset, unpenalised)

    def _targets(self, K: Matrix, y: Any) -> Array:
        """Amounts."""
        amounts = _numbers_of_samples(K, y)
        lowest = float(namespace(amounts).min(amounts))
        if lowest <= 0.0:
            raise ValueError(f"y must hold amounts above 0 for Gamma, got {lowest:g} among them")
        return amounts


class Huber(DataLoss):
    """The Huber loss f(x) = sum_i w_i h(a_i.x - y_i), which is robust against outliers in y.

    h(r) is r^2/2 if |r| <= delta, and delta (|r| - delta/2) otherwise. The data must be in memory,
    not in Dask.

    Parameters
    ----------
    A, y, sample_weight, intercept, offset, unpenalised
        As in `LeastSquares`.
    delta : float
        Above 0, in the unit of y. The loss of residuals above delta is linear, not quadratic.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.Huber([[1.0], [1.0]], [0.5, 10.0], delta=1.0)
    >>> f.value_and_gradient(np.zeros(1))[0]
    9.625
    """

    data_name = "A"
    of_scores = HuberOfScores
    best_intercept = HuberIntercept
    of_differences = True

    def __init__(
        self,
        A: Any,
        y: Any,
        *,
        delta: float = 1.35,
        sample_weight: Any = None,
        intercept: bool = False,
        offset: Any = None,
        unpenalised: Any = None,
    ) -> None:
        delta = _checks.number("delta", delta, above=0.0)
        super().__init__(A, y, sample_weight, intercept, offset, unpenalised, delta)


class BlockwiseLeastSquares(InBlocks, LeastSquares):
    """`LeastSquares` of Dask's data."""


class BlockwiseLogistic(InBlocks, Logistic):
    """`Logistic` of Dask's data."""


class BlockwiseSquaredHinge(InBlocks, SquaredHinge):
    """`SquaredHinge` of Dask's data."""


LeastSquares.in_blocks = BlockwiseLoss.register(BlockwiseLeastSquares)
Logistic.in_blocks = BlockwiseLoss.register(BlockwiseLogistic)
SquaredHinge.in_blocks = BlockwiseLoss.register(BlockwiseSquaredHinge)


def _vector_beside(A: Matrix, name: str, values: Any) -> Array:
    """A float64 vector with one entry a row of A, of A's library and device."""
    if isinstance(A, RowBlocks):
        return A.vector(name, values)
    values = floating(name, values, ndim=1)
    if values.shape[0] != A.shape[0]:
        raise ValueError(
            f"{name} must have one entry for each of the {A.shape[0]} rows, got {values.shape[0]}"
        )
    if is_torch(A):
        return double_like(values, A)
    if is_torch(values):
        raise TypeError(
            f"{name} must be of the same library as the data matrix, got a torch tensor"
        )
    return double(values)


def _numbers_of_samples(A: Matrix, y: Any) -> Array:
    if A.shape[0] == 0 or A.shape[1] == 0:
        raise ValueError(f"the data matrix must have rows and columns, got shape {tuple(A.shape)}")
    return _vector_beside(A, "y", y)


def sample_weights(A: Matrix, weights: Any) -> Array:
    if weights is None:
        weights = np.ones(A.shape[0])
    weights = _vector_beside(A, "sample_weight", weights)
    lowest = float(namespace(weights).min(weights))
    if lowest < 0:
        raise ValueError(f"sample_weight must be >= 0, got {lowest:g} among its entries")
    if total(weights) == 0:
        raise ValueError("sample_weight must have a positive entry, got only zeros")
    return weights
