"""Logistic regression and the linear support vector machine under an l1 constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from condgrad.linear_model.base import LinearEstimator, RadiusFit
from condgrad.linear_model.blocks import block_by_block
from condgrad.linear_model.parameters import ClassParameters, with_parameters
from condgrad.linear_model.solver import Fit
from condgrad.smooth import Logistic, Multinomial, SquaredHinge
from condgrad.smooth.composite import LossOfMatrix


class LinearClassifier(ClassifierMixin, ClassParameters, LinearEstimator):  # type: ignore[misc]
    """One problem for two classes, otherwise one problem for each class against the rest."""

    classes_: Any

    def _data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        X, y, sample_weight = super()._data(X, y, sample_weight)
        check_classification_targets(y)
        return X, y, sample_weight

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = self._validated(X, y)
        return X, y

    def _losses(
        self, X: Any, y: Any, weights: Any, offset: Any = None, unpenalised: Any = None
    ) -> Sequence[LossOfMatrix]:
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least two classes, got one class: {self.classes_.tolist()[0]!r}"
            )
        if self.class_weight is not None:
            weights = self._class_weights(y, codes, weights) * (1.0 if weights is None else weights)
        if offset is not None and len(self.classes_) > 2:
            raise ValueError(f"offset needs two classes, got {len(self.classes_)}")
        return self._losses_of(X, codes, weights, {"offset": offset, "unpenalised": unpenalised})

    def _losses_of(
        self, X: Any, codes: Any, weights: Any, terms: dict[str, Any]
    ) -> Sequence[LossOfMatrix]:
        """The losses for the codes of the classes, with an offset and columns without a penalty."""
        positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        options = {"sample_weight": weights, "intercept": self.fit_intercept, **terms}
        return [self.smooth_part(X, np.where(codes == k, 1.0, -1.0), **options) for k in positives]

    def _class_weights(self, y: Any, codes: Any, weights: Any) -> Any:
        """The weight of each sample's class; "balanced" gives all classes the same total weight."""
        if self.class_weight != "balanced":
            return compute_class_weight(self.class_weight, classes=self.classes_, y=y)[codes]
        mass = np.bincount(codes, weights=weights)
        if (mass == 0.0).any():
            absent = self.classes_.tolist()[int(np.argmin(mass))]
            raise ValueError(
                f"class_weight='balanced' needs a positive sample_weight in each class; class {absent!r} has none"
            )
        return (mass.sum() / (len(mass) * mass))[codes]

    def _absorb(self, fits: Sequence[Fit]) -> None:
        self.coef_ = np.stack([fit.coef for fit in fits])
        self.intercept_ = np.array([fit.intercept for fit in fits], dtype=self.coef_.dtype)
        self.n_iter_ = np.array([fit.iterations for fit in fits])
        self.objective_ = np.array([fit.value for fit in fits])
        self.dual_gap_ = np.array([fit.gap for fit in fits])
        self.relative_gap_ = np.array([fit.relative_gap for fit in fits])
        self.multiplier_ = np.array([fit.multiplier for fit in fits])

    @block_by_block
    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """The scores X coef' + intercept, plus the offset if there is one.

        The shape is (samples,) for two classes, otherwise (samples, classes).
        """
        scores = self._scores(X, offset)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @block_by_block
    def predict(self, X: Any, offset: Any = None) -> Any:
        """The class with the highest score."""
        return self._predicted(self._scores(X, offset))

    def _predicted(self, scores: Any) -> Any:
        best = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class LogisticClassifier(LinearClassifier):
    """Adds probabilities, and the loss for all classes together."""

    smooth_part = Logistic
    multi_class: str

    @property
    def _joint(self) -> bool:
        """Whether one softmax loss is fitted for all classes. Not for two classes: there it would
        be the logistic loss with twice as many variables.
        """
        if self.multi_class not in ("ovr", "multinomial"):
            raise ValueError(
                f"multi_class must be 'ovr' or 'multinomial', got {self.multi_class!r}"
            )
        return self.multi_class == "multinomial" and len(self.classes_) > 2

    def _losses_of(
        self, X: Any, codes: Any, weights: Any, terms: dict[str, Any]
    ) -> Sequence[LossOfMatrix]:
        if self._joint:
            if terms["unpenalised"] is not None:
                raise ValueError(
                    f"penalty_factors of 0 need two classes or multi_class='ovr', got one softmax loss of "
                    f"{len(self.classes_)} classes"
                )
            return [Multinomial(X, codes, sample_weight=weights, intercept=self.fit_intercept)]
        return super()._losses_of(X, codes, weights, terms)

    def _absorb(self, fits: Sequence[Fit]) -> None:
        super()._absorb(fits)
        if self._joint:
            self.coef_ = np.ascontiguousarray(fits[0].coef.T)
            self.intercept_ = np.asarray(fits[0].intercept, dtype=self.coef_.dtype) * np.ones(
                len(self.classes_)
            )

    @block_by_block
    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """The logarithms of the probabilities, exact even if a probability rounds to 0."""
        return self._log_proba(self._scores(X, offset))

    @block_by_block
    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """The probability of each class, in the order of `classes_`.

        With multi_class="ovr", the probabilities of a sample are scaled to the sum 1.
        """
        return np.exp(self.predict_log_proba(X, offset))

    def _log_proba(self, scores: Any) -> Any:
        if scores.shape[1] == 1:
            return log_expit(np.hstack([-scores, scores]))
        logs = scores if self._joint else log_expit(scores)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def _default_score(self, margins: Any, y: Any, weights: Any) -> float:
        """The mean log-likelihood; -inf where y holds a class that the fit did not see."""
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        logs = self._log_proba(margins)[np.arange(len(y)), codes]
        return float(
            np.average(np.where(self.classes_[codes] == y, logs, -np.inf), weights=weights)
        )


class HingeClassifier(LinearClassifier):
    """The squared hinge loss."""

    smooth_part = SquaredHinge

    def _default_score(self, margins: Any, y: Any, weights: Any) -> float:
        """The accuracy."""
        return float(np.average(self._predicted(margins) == y, weights=weights))


@with_parameters
class ConstrainedLogisticRegression(RadiusFit, LogisticClassifier):
    """Logistic regression with a bound on |coef|_1 and a ridge, with a proof.

    It minimises sum_i w_i log(1 + exp(-y_i (x_i.coef + intercept))) + ridge |coef|_2^2 subject to
    |coef|_1 <= radius. Here w_i are the sample weights, and y_i is -1 or +1 for the two classes.

    Every fit has a proof: the objective is at most `dual_gap_` above its minimum. With ridge > 0,
    the coefficients are within sqrt(dual_gap_ / ridge) of the best ones. The intercept has no
    penalty. On a new machine, fast code is compiled in the background for about half a minute.
    Until then, fits use projected gradients, which are slower.

    Parameters
    ----------
    radius : float, default 1.0
        The bound on |coef|_1; at least 0.
    ridge : float, default 0.5
        The weight of |coef|_2^2; at least 0. `sklearn.linear_model.LogisticRegression(C=1)` has the
        same penalty as `ridge=0.5`.
    fit_intercept : bool, default True
        Fit an intercept. Without it, the intercept is 0.
    standardize : bool, default False
        In |coef|_1 and |coef|_2, multiply coef_j by the (weighted) standard deviation of feature j,
        or by 1 if this is 0. Then the units of the features do not matter. glmnet does so by
        default. `coef_` is in the units of X.
    penalty_factors : array, shape (features,), optional
        One factor >= 0 for each feature; by default all are 1. The constraint is sum_j factor_j
        |coef_j| <= radius, and the penalty is ridge sum_j (factor_j coef_j)^2. With `standardize`,
        the factors are multiplied by the deviations. A larger factor makes it harder for a feature
        to enter the model. A feature with factor 0 has no penalty, so it is always in the model. If
        such a feature is a combination of other such features, its coefficient is 0, and a warning
        says so. It is an error if such features alone separate the classes, because the logistic
        loss has no minimum then. A factor of 0 does not work with data of Dask, with `positive`, or
        with one softmax loss for three classes or more (multi_class="multinomial").
    impute : {"median", "mean"}, optional
        Replace each missing entry (NaN) of X by the median or the mean of its feature. This number
        is computed from the samples of the fit, and `predict` uses it too. In a search, each fold
        uses its own training samples. By default a missing entry is an error. Not for data of Dask.
    positive : bool, default False
        Allow no negative coefficients.
    groups : sequence, optional
        One label for each feature, such as the name of its gene. Features with the same label form
        a group. Then `radius` bounds the sum of the Euclidean norms of the groups, instead of
        |coef|_1. So whole groups enter and leave the model together.
    multi_class : {"ovr", "multinomial"}, default "ovr"
        For three classes or more. "ovr" fits each class against the rest, each with its own
        constraint. "multinomial" minimises one softmax loss, -sum_i w_i log p(y_i), where p(y_i) is
        the probability of the class of sample i. Then the radius bounds the norm of all
        coefficients together.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply `sample_weight`. "balanced" gives all classes the same
        total weight. By default all weights are 1.
    tol : float, default 1e-6
        Stop at `relative_gap_ <= tol`. For float32 data a smaller tol than 1.2e-5 counts as 1.2e-5,
        because rounding allows no better proof.
    max_iter : int, default 10_000
        The largest number of iterations of one fit. A step of Newton's method is one iteration.
    warm_start : bool, default False
        Start from the coefficients of the previous `fit`.
    method : str, default "auto"
        The algorithm, by its name in `condgrad.minimize`. "auto" takes the fastest that fits.
    time_limit : float, optional
        Limit for `fit` in seconds. At the limit, `fit` keeps its best solution so far, and warns.
    verbose : bool, default False
        Show progress on the terminal, in one line.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    coef_ : array, shape (1, features) for two classes, otherwise (classes, features)
        The coefficients.
    intercept_ : array
        One intercept for each row of `coef_`.
    n_iter_ : array
        The number of iterations of each problem. There is one problem for two classes or
        "multinomial", and otherwise one for each class. This array and the next ones have one entry
        for each problem.
    objective_ : array
        The value of the objective at the solution.
    dual_gap_ : array
        The objective is at most this far above its minimum.
    relative_gap_ : array
        `dual_gap_ / max(objective_, null / 100)`. Here null is the objective if all coefficients
        are 0.
    radius_ : float
        The bound `radius`.
    multiplier_ : array
        The penalty mu that has the same effect as the constraint: the same coefficients minimise
        loss + ridge |coef|_2^2 + mu |coef|_1 without a constraint. Both norms are those that
        `standardize` and `penalty_factors` define. mu is exactly 0 if the constraint is not active.
    fill_values_ : array, shape (features,)
        The number that replaces a missing entry of each feature. Only with `impute`.
    n_features_in_, feature_names_in_
        The number of features, and their names if X is a DataFrame.

    Notes
    -----
    How to get the same solution elsewhere, for two classes:

    - scikit-learn: `LogisticRegression(C=C, l1_ratio=l1_ratio, solver="saga")` with `C = 1 /
      (multiplier_ + 2 * ridge)` and `l1_ratio = C * multiplier_`. Before version 1.8, add
      `penalty="elasticnet"`.
    - glmnet, with n samples and `standardize=FALSE`: `lambda * alpha = multiplier_ / n` and
      `lambda * (1 - alpha) = 2 * ridge / n`.

    Examples
    --------
    >>> from condgrad.linear_model import ConstrainedLogisticRegression
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], ["no", "no", "yes", "yes"]
    >>> model = ConstrainedLogisticRegression(radius=1.0, ridge=0.1).fit(X, y)
    >>> model.coef_.round(2), model.predict([[2.5, 0.5]])
    (array([[1., 0.]]), array(['yes'], dtype='<U3'))
    """

    multi_class: str = "ovr"


@with_parameters
class ConstrainedLinearSVC(RadiusFit, HingeClassifier):
    """Linear support vector machine with a bound on |coef|_1 and a ridge, with a proof.

    It minimises sum_i w_i max(0, 1 - y_i (x_i.coef + intercept))^2 + ridge |coef|_2^2 subject to
    |coef|_1 <= radius. Here w_i are the sample weights, and y_i is -1 or +1 for the two classes.
    With three classes or more, each class is fitted against the rest. The intercept has no penalty.
    If many intercepts separate the data with a margin, the fit takes the middle of their interval.

    Parameters
    ----------
    radius : float, default 1.0
        The bound on |coef|_1; at least 0.
    ridge : float, default 0.5
        The weight of |coef|_2^2; at least 0. `sklearn.svm.LinearSVC(C=1)` has the same penalty as
        `ridge=0.5`, but it also penalises the intercept.
    fit_intercept, standardize, penalty_factors, impute, positive, groups, class_weight
        As in `ConstrainedLogisticRegression`. But here it is no error if features with factor 0
        separate the classes, because the squared hinge has a minimum then too.
    tol, max_iter, warm_start, method, time_limit, verbose
        As in `ConstrainedLogisticRegression`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, objective_, dual_gap_, relative_gap_, radius_, multiplier_
        As in `ConstrainedLogisticRegression`.

    Examples
    --------
    >>> from condgrad.linear_model import ConstrainedLinearSVC
    >>> model = ConstrainedLinearSVC(radius=2.0).fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> model.predict([[2.0], [3.0]])
    array([0, 1])
    """
