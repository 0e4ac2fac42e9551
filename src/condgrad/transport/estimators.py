"""Transport between samples, as scikit-learn estimators."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from condgrad import _checks
from condgrad.arrays import Array, double, double_like, host, is_torch, like, namespace
from condgrad.arrays.inputs import floating
from condgrad.result import ADVICE
from condgrad.transport.costs import SquaredEuclidean
from condgrad.transport.graphs import graph_laplacian, neighbor_graph
from condgrad.transport.regularizers import GroupLasso, Laplacian, Regularizer
from condgrad.transport.solve import TransportResult, solve

UNLABELLED = -1
"""The label of a sample whose class is not known."""
LOGARITHMS: dict[str | None, int] = {"log": 1, "loglog": 2}
"""How often `norm` takes log(1 + C) of the cost C."""
NORMS = (None, "max", "median", *LOGARITHMS)

ENTROPY = 0.2
"""entropy="auto" is this number times the spread of the cost.

The spread is the standard deviation of the cost after its row and column means are subtracted.
These means change no plan, so the spread is the scale of what a plan can gain or lose. For the
squared Euclidean cost it is 2 sqrt(tr(S_s S_t)), with the covariances S_s and S_t of the two
domains. So it follows the units of the domains, and does not depend on shifts or on the number of
points.
"""

LAPLACIAN = 0.03
"""weight="auto" of `LaplaceTransport` is chosen such that each term costs this share of the spread
of the two domains, for a map that takes neighbours onto neighbours.
"""

GROUPS = 0.3
"""weight="auto" of `GroupTransport` is chosen such that the smallest possible value of the
regulariser is this share of the spread of the cost.
"""

DISTANCES_TOGETHER = 1 << 22
"""How many distances are in memory at a time if they need not be stored."""

TENSOR_METRICS = {"euclidean": 2.0, "cityblock": 1.0, "chebyshev": math.inf}
"""Costs between tensors, other than the squared Euclidean one, and the p of their norm."""


@dataclass(frozen=True)
class Domain:
    """A sample as a measure: its distinct points with positive mass.

    It also knows to which of them each of the user's points is equal.
    """

    X: Array
    mass: Array
    labels: Any
    """The class of each distinct point, or None."""
    index: Any
    """For each of the user's points the number of its distinct point; -1 for a point without mass.
    """
    share: Any
    """For each of the user's points its share of the mass of its distinct point."""

    @classmethod
    def of(cls, X: Array, weights: Any, labels: Any) -> Domain:
        """Copies of a point (of the same class) become one point with their total mass."""
        key = (
            host(X)
            if labels is None
            else np.column_stack([host(X), np.unique(labels, return_inverse=True)[1]])
        )
        loaded = np.flatnonzero(weights > 0.0)
        sums = key[loaded].sum(
            axis=1
        )  # equal points have equal sums: where no two are equal, no points are
        rows = sums[:, None] if len(np.unique(sums)) == len(sums) else key[loaded]
        _, first, copy_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order of the user's points
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        index = np.full(len(key), -1)
        index[loaded] = rank[copy_of.ravel()]
        mass = np.bincount(index[loaded], weights[loaded])
        chosen = loaded[first[order]]
        share = np.where(index >= 0, weights / mass[index], 0.0)
        whole = len(chosen) == len(key)
        return cls(
            X if whole else X[chosen],
            double_like(mass, X),
            None if labels is None else labels[chosen],
            index,
            share,
        )

    def summed(self, values: Any) -> Any:
        """For each distinct point, the mean of the values of its copies; values have a row for each
        of the user's points.
        """
        member = scipy.sparse.csr_array(
            (
                self.share[self.index >= 0],
                (self.index[self.index >= 0], np.flatnonzero(self.index >= 0)),
            ),
            shape=(len(self.mass), len(self.index)),
        )
        return member @ values

    def spread_out(self, values: Array) -> Array:
        """Values of distinct points as values of the user's points; 0 for points without mass."""
        xp = namespace(values)
        index = xp.asarray(np.maximum(self.index, 0), device=_device(values))
        has_mass = xp.asarray(self.index >= 0, device=_device(values))
        return xp.where(has_mass[:, None], xp.take(values, index, axis=0), 0.0)


class PlanTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a plan between two samples, and move points to the means of their targets."""

    # the names of scikit-learn's X and y here are no metadata, and Xt and yt are
    __metadata_request__fit: ClassVar = {"Xs": UNUSED, "ys": UNUSED, "Xt": True, "yt": True}
    __metadata_request__transform: ClassVar = {"Xs": UNUSED}

    classes_cost: float = 10.0
    """The cost between different known classes, divided by the largest cost."""

    # parameters, which every subclass declares
    entropy: float | str
    metric: str
    norm: str | None
    tol: float
    max_iter: int
    method: str
    time_limit: float | None
    verbose: bool

    result_: TransportResult

    def _regularizers(self, source: Domain, target: Domain, spread: float) -> Sequence[Regularizer]:
        """What this estimator asks of a plan beyond its cost and entropy."""
        return []

    def fit(
        self,
        Xs: Any = None,
        ys: Any = None,
        Xt: Any = None,
        yt: Any = None,
        *,
        sample_weight: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Find the plan from the sources Xs to the targets Xt.

        Parameters
        ----------
        Xs : array, shape (n, d)
            The sources: anything that scikit-learn takes, or a torch tensor. For a tensor, all
            results are tensors on its device.
        ys : array, shape (n,), optional
            Classes of the sources, -1 or NaN if unknown.
        Xt : array, shape (m, d)
            The targets.
        yt : array, shape (m,), optional
            Classes of the targets, -1 or NaN if unknown. If both `ys` and `yt` are given, the cost
            between different known classes is ten times the largest cost.
        sample_weight, target_weight : arrays, shapes (n,) and (m,), optional
            Weights >= 0 of the sources and of the targets, in any unit; by default all are equal. A
            sample of weight 2 counts as two samples, and a sample of weight 0 does not count.
        """
        for name, X in (("Xs", Xs), ("Xt", Xt)):
            if X is None:
                raise ValueError(
                    f"{name} is needed: fit(Xs, ys, Xt) finds a plan from the samples Xs to the samples Xt"
                )
        Xs, Xt = self._sources(Xs), _targets(Xt, Xs)
        if Xt.shape[1] != Xs.shape[1]:
            raise ValueError(
                f"Xs has {Xs.shape[1]} features, Xt has {Xt.shape[1]}: both must have the same number"
            )
        source = Domain.of(
            Xs, _mass("sample_weight", sample_weight, len(Xs)), _labels("ys", ys, len(Xs))
        )
        target = Domain.of(
            Xt, _mass("target_weight", target_weight, len(Xt)), _labels("yt", yt, len(Xt))
        )
        cost, spread = _cost(source, target, self.metric, self.norm, self.classes_cost)
        answer = self._solved(cost, source, target, spread)
        answer.result.uninterrupted()
        self.result_ = answer
        self._source = source
        self._target = target
        self.Xs_ = Xs
        self.Xt_ = Xt
        self.n_iter_ = answer.iterations
        self.dual_gap_ = answer.gap
        if not answer.success:
            proof = f"the plan is certified to {self.dual_gap_:.3g} of the optimum"
            if self.dual_gap_ == math.inf:
                proof = "nothing was proved about how far the plan is from the optimum"
            warnings.warn(
                f"{answer.message}; {proof}. {ADVICE[answer.status]}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        """The certified plan between two domains."""
        entropy = self.entropy
        if _is_auto("entropy", entropy):
            # without a spread every plan costs the same: then any entropy in the unit of the cost
            # will do
            entropy = ENTROPY * spread if spread > 0.0 else _cost_of_one_source(cost)
        answer = solve(
            cost,
            source.mass,
            target.mass,
            entropy=entropy,  # type: ignore[arg-type]
            regularizers=self._regularizers(source, target, spread),
            method=self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            progress=_checks.loudness("verbose", self.verbose),
        )
        self.entropy_ = float(entropy)
        return answer

    @property
    def coupling_(self) -> Array:
        """The plan between all samples: an array of n x m, computed at the first use."""
        if "result_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted: it has no plan yet")
        plan = self.result_.dense()
        source = self._source
        target = self._target
        if len(source.mass) == len(source.index) and len(target.mass) == len(target.index):
            return plan
        rows = source.spread_out(plan) * double_like(source.share, plan)[:, None]
        return (target.spread_out(rows.T) * double_like(target.share, plan)[:, None]).T

    @property
    def plan_(self) -> Array:
        """The same as `coupling_`."""
        return self.coupling_

    def transform(self, X: Any) -> Any:
        """Move points of the source domain. A new point moves as its nearest fitted source does."""
        check_is_fitted(self, "result_")
        moved = self.result_.barycenters(double(self._target.X))
        return _displaced(self._points(X), self._source.X, moved)

    def inverse_transform(self, Xt: Any) -> Any:
        """Move points of the target domain back to the sources."""
        check_is_fitted(self, "result_")
        moved = self.result_.apply_transpose(double(self._source.X)) / self._target.mass[:, None]
        return _displaced(self._points(Xt), self._target.X, moved)

    def transform_labels(self, ys: Any) -> Any:
        """The classes of the targets, predicted from the classes of the sources.

        Parameters
        ----------
        ys : array, shape (n,)
            Classes of the fitted sources, -1 if unknown.

        Returns
        -------
        array, shape (m, classes)
            For each target, the share of its mass that comes from each class. The classes are
            sorted. The row of a target without weight is 0.
        """
        check_is_fitted(self, "result_")
        members = self._source.summed(_memberships(_labels("ys", ys, len(self.Xs_))))
        received = (
            self.result_.apply_transpose(double_like(members, self.Xs_))
            / self._target.mass[:, None]
        )
        return self._target.spread_out(received)

    def inverse_transform_labels(self, yt: Any) -> Any:
        """The classes of the sources, predicted from the classes of the targets; see
        `transform_labels`.
        """
        check_is_fitted(self, "result_")
        members = self._target.summed(_memberships(_labels("yt", yt, len(self.Xt_))))
        return self._source.spread_out(self.result_.barycenters(double_like(members, self.Xs_)))

    def _sources(self, Xs: Any) -> Array:
        if not is_torch(Xs):
            return validate_data(self, Xs, dtype=np.float64)
        Xs = floating("Xs", Xs, ndim=2)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = Xs.shape[1]
        return Xs

    def _points(self, X: Any) -> Array:
        """Points to move, of the kind of those that were fitted."""
        if is_torch(X):
            X = floating("X", X, ndim=2)
            if X.shape[1] != self.n_features_in_:
                name = type(self).__name__
                features = self.n_features_in_
                raise ValueError(
                    f"X has {X.shape[1]} features, but {name} is expecting {features} features as input"
                )
            return like(X, self.Xs_) if is_torch(self.Xs_) else host(X)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return like(X, self.Xs_) if is_torch(self.Xs_) else X


class ByKeyword:
    """Methods with POT's names of the arguments.

    The methods that scikit-learn wraps would not accept these names.
    """

    def transform(self, Xs: Any) -> Any:
        """Move points of the source domain. A new point moves as its nearest fitted source does."""
        return super().transform(Xs)  # type: ignore[misc]

    def fit_transform(
        self,
        Xs: Any = None,
        ys: Any = None,
        Xt: Any = None,
        yt: Any = None,
        *,
        sample_weight: Any = None,
        target_weight: Any = None,
    ) -> Any:
        """Fit, then move the sources."""
        weights = {"sample_weight": sample_weight, "target_weight": target_weight}
        return self.fit(Xs, ys, Xt, yt, **weights).transform(Xs)  # type: ignore[attr-defined]


def _device(x: Array) -> Any:
    return x.device if is_torch(x) else "cpu"


def _targets(Xt: Any, Xs: Array) -> Array:
    """The targets in the library, precision and device of the sources."""
    if is_torch(Xt):
        Xt = floating("Xt", Xt, ndim=2)
        return like(Xt, Xs) if is_torch(Xs) else host(Xt)
    Xt = check_array(Xt, dtype=np.float64, input_name="Xt")
    return like(Xt, Xs) if is_torch(Xs) else Xt


def _mass(name: str, weights: Any, size: int) -> Any:
    """Weights of mass 1 on the host."""
    if weights is None:
        return np.full(size, 1.0 / size)
    weights = host(floating(name, weights, ndim=1))
    if len(weights) != size:
        raise ValueError(
            f"{name} must have one weight for each of the {size} samples, got {len(weights)}"
        )
    if weights.min() < 0.0 or not weights.max() > 0.0:
        raise ValueError(
            f"{name} must be >= 0 and not all 0, got values from {weights.min():g} to {weights.max():g}"
        )
    weights = weights / weights.max()
    return weights / weights.sum()


def _labels(name: str, labels: Any, size: int) -> Any:
    if labels is None:
        return None
    labels = labels.detach().cpu().numpy() if is_torch(labels) else np.asarray(labels)
    if labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), UNLABELLED, labels)
    if labels.shape != (size,):
        raise ValueError(
            f"{name} must have one label for each of the {size} samples, got shape {labels.shape}"
        )
    return labels


def _has_class(labels: Any) -> Any:
    """Of which samples the class is known; False of none."""
    return False if labels is None else labels != UNLABELLED


def _memberships(labels: Any) -> Any:
    """A column for each known class: 1 for its members, 0 for others."""
    if labels is None:
        raise ValueError("labels are needed: one class for each fitted sample")
    return (labels[:, None] == np.unique(labels[_has_class(labels)])[None, :]).astype(np.float64)


def _is_auto(name: str, value: float | str) -> bool:
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} must be a number >= 0 or 'auto', got {value!r}")
    return value == "auto"


def _cost(
    source: Domain, target: Domain, metric: str, norm: str | None, classes_cost: float
) -> tuple[Any, float]:
    """The cost between two domains, an array or one that need not be formed, and its spread."""
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(map(repr, NORMS))}, got {norm!r}")
    # where a domain has no known class at all, no pair differs
    has_classes = all(np.any(_has_class(domain.labels)) for domain in (source, target))
    if metric == "sqeuclidean" and not has_classes and norm not in LOGARITHMS:
        return _squared_euclidean(source, target, norm)
    C = _distances(source.X, target.X, metric)
    xp = namespace(C)
    C = _over_norm(C, norm, _norm_of(C, norm))
    spread = _spread(C, source.mass, target.mass)
    if has_classes:
        both = _has_class(source.labels)[:, None] & _has_class(target.labels)[None, :]
        differ = xp.asarray(
            both & (source.labels[:, None] != target.labels[None, :]), device=_device(C)
        )
        C = xp.where(differ, classes_cost * xp.max(C), C)
    return C, spread


def _norm_of(C: Array, norm: str | None) -> float:
    """What a norm divides a cost by."""
    if norm == "max":
        return _positive(float(namespace(C).max(C)))
    return _positive(float(np.median(host(C)))) if norm == "median" else 1.0


def _over_norm(C: Array, norm: str | None, divisor: float) -> Array:
    """A cost after its norm: over a number, or log(1 + C) once or twice."""
    for _ in range(LOGARITHMS.get(norm, 0)):
        C = namespace(C).log1p(C)
    return C / divisor


def _squared_euclidean(
    source: Domain, target: Domain, norm: str | None
) -> tuple[SquaredEuclidean, float]:
    """The squared Euclidean cost by its points, which a large plan streams; a norm divides the
    coordinates.
    """
    Xs = double(source.X)
    Xt = double(target.X)
    xp = namespace(Xs)
    center = (target.mass @ Xt)[None, :]
    # far from the origin differences would lose their digits
    Xs = Xs - center
    Xt = Xt - center
    if norm is not None:
        rows = slice(None)
        if (
            norm == "median" and len(Xs) * len(Xt) > 4 * DISTANCES_TOGETHER
        ):  # of every k-th source, where all pairs are too many
            rows = slice(None, None, -(-len(Xs) * len(Xt) // (4 * DISTANCES_TOGETHER)))
        blocks = (
            _distances(Xs[rows][some], Xt, "sqeuclidean")
            for some in _rows_of_distances(Xs[rows], Xt)
        )
        size = (
            max(float(xp.max(C)) for C in blocks)
            if norm == "max"
            else np.median(np.vstack([host(C) for C in blocks]))
        )
        divisor = math.sqrt(_positive(float(size)))
        Xs = Xs / divisor
        Xt = Xt / divisor
    centred = Xs - (source.mass @ Xs)[None, :]
    return SquaredEuclidean(Xs, Xt), 2.0 * math.sqrt(
        _cross_variance(centred, Xt, source.mass, target.mass)
    )


def _cross_variance(Zs: Array, Zt: Array, a: Array, b: Array) -> float:
    """tr(S_s S_t) of centred points: by d x d covariances or by n x m inner products, whichever are
    fewer.
    """
    Zs = double(Zs)
    Zt = double(Zt)
    xp = namespace(Zs)
    if Zs.shape[1] ** 2 <= len(Zs) * len(Zt):
        trace = xp.sum((Zs.T @ (a[:, None] * Zs)) * (Zt.T @ (b[:, None] * Zt)))
    else:
        trace = a @ ((Zs @ Zt.T) ** 2) @ b
    return max(float(trace), 0.0)


def _cost_of_one_source(cost: Any) -> float:
    """The largest cost of the first source: 1 where it is 0."""
    C = (
        SquaredEuclidean(cost.Xs[:1, :], cost.Xt).dense()
        if isinstance(cost, SquaredEuclidean)
        else cost[:1, :]
    )
    return _positive(float(namespace(C).max(C)))


def _distances(Xs: Array, Xt: Array, metric: str) -> Array:
    if not is_torch(Xs):
        return cdist(Xs, Xt, metric=metric)
    import torch

    if metric == "sqeuclidean":
        return torch.cdist(Xs, Xt, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    if metric not in TENSOR_METRICS:
        names = ", ".join(map(repr, ["sqeuclidean", *TENSOR_METRICS]))
        raise ValueError(
            f"for tensors metric must be one of {names}, got {metric!r}: pass NumPy arrays for others"
        )
    return torch.cdist(
        Xs, Xt, p=TENSOR_METRICS[metric], compute_mode="donot_use_mm_for_euclid_dist"
    )


def _rows_of_distances(X: Array, Y: Array) -> list[slice]:
    """Rows of X whose distances to all of Y are held at a time."""
    step = max(1, DISTANCES_TOGETHER // len(Y))
    return [slice(begin, begin + step) for begin in range(0, len(X), step)]


def _positive(size: float) -> float:
    """What to divide a cost by: 1 where all of it is 0."""
    return size if size > 0.0 else 1.0


def _spread(C: Array, a: Array, b: Array) -> float:
    """The standard deviation of a cost under independent a and b, less its row and column means."""
    centred = double(C) - (double(C) @ b)[:, None]
    centred = centred - (a @ centred)[None, :]
    return math.sqrt(float(a @ (centred * centred) @ b))


def _displaced(X: Array, origin: Array, moved: Array) -> Array:
    """X plus the displacement, from origin to where it moved, of the nearest origin."""
    displacement = like(moved, X) - like(origin, X)
    if not is_torch(X):
        nearest = (
            NearestNeighbors(n_neighbors=1).fit(origin).kneighbors(X, return_distance=False)[:, 0]
        )
        return X + displacement[nearest]
    import torch

    nearest = [
        torch.argmin(_distances(X[rows], like(origin, X), "euclidean"), dim=1)
        for rows in _rows_of_distances(X, origin)
    ]
    return X + displacement[torch.cat(nearest)]


def _is_even(mass: Array) -> bool:
    mu = host(mass)
    return bool(np.ptp(mu) <= 1e-12 * mu.max())


def _weighted_laplacian(domain: Domain, neighbors: int, normalized: bool) -> Any:
    """The Laplacian of the neighbour graph for points of uneven mass: that of copies of points of
    equal mass.

    With W the graph, mu the masses and D = W mu, it is D/mu - W or, normalised, (1/mu - D^-1/2 W
    D^-1/2)/n: for mu = 1/n the usual one of either kind. So the regulariser compares moved points,
    and not moments, which are mu times as large.
    """
    W = neighbor_graph(domain.X, neighbors)
    mu = host(domain.mass)
    normalized = _checks.flag("normalized", normalized)
    if _is_even(domain.mass):
        return graph_laplacian(W, normalized=normalized)
    degree = W @ mu
    if not normalized:
        return scipy.sparse.csr_array(scipy.sparse.diags_array(degree / mu) - W)
    joined = degree > 0.0
    root = scipy.sparse.diags_array(
        np.where(joined, 1.0 / np.sqrt(np.where(joined, degree, 1.0)), 0.0)
    )
    return scipy.sparse.csr_array(
        (scipy.sparse.diags_array(joined / mu) - root @ W @ root) / len(mu)
    )


@dataclass(frozen=True)
class _Side:
    """What the automatic weight of a Laplacian term asks of one domain."""

    variance: float
    """tr of the covariance."""
    roughness: float
    """The Laplacian term of a map that leaves this domain's points where they are."""

    @classmethod
    def of(cls, centred: Array, mass: Array, L: Any) -> _Side:
        Z = host(centred)
        mu = host(mass)
        moments = mu[:, None] * Z
        return cls(float(np.sum(moments * Z)), float(np.sum(moments * (L @ moments))))

    def weight(self, other: _Side) -> float:
        """What makes this side's term LAPLACIAN * sqrt(variance * other variance) for a map onto
        neighbours.

        Such a map has this side's roughness in the unit of the other domain.
        """
        if self.roughness <= 0.0 or other.variance <= 0.0:
            return 0.0
        return (
            LAPLACIAN * math.sqrt(self.variance / other.variance) * self.variance / self.roughness
        )


@dataclass(kw_only=True, eq=False, repr=False)
class EntropicPlanTransformer(ByKeyword, PlanTransformer):
    """The parameters of all estimators here; those of `compat` have the names of other packages."""

    entropy: float | str = field(default="auto", kw_only=False)
    metric: str = "sqeuclidean"
    norm: str | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    method: str = "auto"
    time_limit: float | None = None
    verbose: bool = False


@dataclass(kw_only=True)
class LaplacianParameters:
    """The parameters that only `LaplaceTransport` has.

    This class is its last base, so they come before the other keywords in its signature.
    """

    neighbors: int = 10
    normalized: bool = True
    source: float = 1.0
    target: float = 1.0


class EntropicTransport(EntropicPlanTransformer):
    """Move the samples of one domain onto another by transport with an entropy.

    Copies of a point count as one point with their total weight.

    Parameters
    ----------
    entropy : float or "auto"
        Weight of sum G log G, in the units of the cost. "auto" is 0.2 times the spread of the cost.
        The spread is the standard deviation of the cost over independent sources and targets, after
        its row and column means are subtracted (this does not change the plan). For squared
        Euclidean distances this gives 0.4 sqrt(tr(S_s S_t)), with the covariances S_s and S_t of
        the two domains. The plan for "auto" does not depend on units, shifts, the number of points,
        or copies of points.
    metric : str
        The cost, by its name in `scipy.spatial.distance.cdist`. For tensors, the names are
        "sqeuclidean", "euclidean", "cityblock" and "chebyshev". With "sqeuclidean", a plan that
        does not fit into memory is streamed: it is not stored, but products with it are computed.
    norm : {None, "max", "median", "log", "loglog"}
        Divide the cost by its maximum or median, or take log(1 + cost) once or twice. If you give
        `entropy` as a number, it is in the units of this new cost. The same holds for `weight` in
        `LaplaceTransport` and `GroupTransport`.
    tol : float
        The fit ends when the certified gap divided by the scale of the objective is at most this
        number, as in `transport.solve`.
    max_iter : int
        The largest number of iterations.
    method : str
        As in `transport.solve`.
    time_limit : float, optional
        Limit for the solver in seconds. At the limit, `fit` keeps its best plan so far, and warns.
    verbose : bool
        Show a live line on the terminal.

    Attributes
    ----------
    coupling_, plan_ : array, shape (n, m)
        The plan, computed at the first use.
    entropy_ : float
        The entropy that was used.
    dual_gap_ : float
        The objective is at most this far above its minimum: the certified gap.
    n_iter_ : int
        The number of iterations.
    result_ : TransportResult
        The answer for the distinct points with a positive weight.
    Xs_, Xt_ : arrays
        The points of the fit.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = cg.transport.EntropicTransport(0.05).fit(d.Xs, Xt=d.Xt)
    >>> mover.transform(d.Xs).shape, mover.dual_gap_ < 1e-5
    ((40, 2), True)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class LaplaceTransport(EntropicPlanTransformer, LaplacianParameters):
    """Move the samples of one domain onto another such that neighbours move together.

    The transport has an entropy and a Laplacian regulariser. For the regulariser both domains are
    centred, so shifts do not change the plan.

    Parameters
    ----------
    entropy, metric, norm, tol, max_iter, method, time_limit, verbose
        As in `EntropicTransport`.
    weight : float or "auto"
        Weight of the Laplacian regulariser, as in `transport.Laplacian`. "auto" chooses a weight
        for each of its two terms, such that the term is 0.03 sqrt(tr S_s tr S_t) for a map that
        takes neighbours to neighbours. S_s and S_t are the covariances of the two domains. This is
        the rule for squared distances. For another cost, the weight is multiplied by the spread of
        this cost and divided by the spread of squared distances. The plan for "auto" does not
        depend on the units of the domains, the number of points, or copies of points.
    neighbors, normalized
        As in `transport.Laplacian`.
    source, target : float
        As in `transport.Laplacian`. They also multiply automatic weights.

    Attributes
    ----------
    weight_, source_, target_ : float
        The weights that were used: weight_ * source_ for the term of the sources, and
        weight_ * target_ for the term of the targets.
    coupling_, plan_, entropy_, dual_gap_, n_iter_, result_, Xs_, Xt_
        As in `EntropicTransport`.

    Examples
    --------
    Train a classifier on the moved sources. It then predicts the classes of the targets:

    >>> import condgrad as cg
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> d = cg.datasets.make_clusters(80)
    >>> moved = cg.transport.LaplaceTransport(0.02, weight=100.0).fit(d.Xs, d.ys, d.Xt).transform(d.Xs)
    >>> KNeighborsClassifier(5).fit(moved, d.ys).score(d.Xt, d.yt)
    1.0
    """

    weight: float | str = field(default="auto", kw_only=False)

    def _regularizers(self, source: Domain, target: Domain, spread: float) -> Sequence[Regularizer]:
        domains = (source, target)
        Zs, Zt = (
            double(domain.X) - (domain.mass @ double(domain.X))[None, :] for domain in domains
        )
        even = all(_is_even(domain.mass) for domain in domains)
        Ls = Lt = None
        self.weight_ = self.weight
        self.source_ = self.source
        self.target_ = self.target
        if _is_auto("weight", self.weight) or not even:
            Ls, Lt = (
                _weighted_laplacian(domain, self.neighbors, self.normalized) for domain in domains
            )
        if _is_auto("weight", self.weight):
            left = _Side.of(Zs, source.mass, Ls)
            right = _Side.of(Zt, target.mass, Lt)
            ordinary = 2.0 * math.sqrt(_cross_variance(Zs, Zt, source.mass, target.mass))
            of_source = left.weight(right)
            of_target = right.weight(left)
            self.weight_ = math.sqrt(of_source * of_target) * (
                spread / ordinary if ordinary > 0.0 else 0.0
            )
            ratio = math.sqrt(of_source / of_target) if self.weight_ > 0.0 else 1.0
            self.source_ = self.source * ratio
            self.target_ = self.target / ratio
        return [
            Laplacian(
                Zs,
                Zt,
                weight=self.weight_,  # type: ignore[arg-type]
                neighbors=self.neighbors,
                normalized=self.normalized,
                source=self.source_,
                target=self.target_,
                # a graph that the regulariser builds itself lets large problems start from a part
                # of the points
                Ls=None if even else Ls,
                Lt=None if even else Lt,
            )
        ]


@dataclass(kw_only=True, eq=False, repr=False)
class GroupTransport(EntropicPlanTransformer):
    """Move the samples of one domain onto another such that each class moves as a whole.

    The transport has an entropy and a group regulariser: the sum over targets and classes of
    |G[class, target]|_2. For given marginals it is smallest if all members of a class have the same
    targets.

    Parameters
    ----------
    entropy, metric, norm, tol, max_iter, method, time_limit, verbose
        As in `EntropicTransport`.
    weight : float or "auto"
        Weight of the group regulariser; `fit` needs the classes `ys`. The smallest possible value
        of the regulariser is the sum over classes of |a[class]|_2. "auto" chooses the weight such
        that weight times this value is 0.3 times the spread of the cost. The plan for "auto" does
        not depend on units, the number of points, or copies of points.

    Attributes
    ----------
    weight_ : float
        The weight that was used.
    coupling_, plan_, entropy_, dual_gap_, n_iter_, result_, Xs_, Xt_
        As in `EntropicTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = cg.transport.GroupTransport().fit(d.Xs, d.ys, d.Xt)
    >>> mover.coupling_.shape, mover.result_.success, mover.entropy_ > 0.0
    ((40, 40), True, True)
    """

    weight: float | str = field(default="auto", kw_only=False)

    def _regularizers(self, source: Domain, target: Domain, spread: float) -> Sequence[Regularizer]:
        if source.labels is None:
            raise ValueError(
                "ys is needed: GroupTransport.fit(Xs, ys, Xt) groups the sources by their classes"
            )
        self.weight_ = self.weight
        if _is_auto("weight", self.weight):
            _, codes = np.unique(source.labels, return_inverse=True)
            self.weight_ = (
                GROUPS * spread / float(np.sqrt(np.bincount(codes, host(source.mass) ** 2)).sum())
            )
        return [GroupLasso(source.labels, weight=self.weight_)]  # type: ignore[arg-type]
