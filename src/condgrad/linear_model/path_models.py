"""Quadratic models of F along a path of radii, and what finds their least points, by the kind of the data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse

from condgrad import deadline
from condgrad.arrays import Array, dot, double, for_kernels, is_dense
from condgrad.methods.certified_point import ObjectivePoint, Tally
from condgrad.methods.one_pass import OnePass
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.newton.face_models import centred
from condgrad.newton.working_set import pulled_in
from condgrad.problem import Set, Simple
from condgrad.rounding import LEAST_CURVATURE
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.composite import AtBestIntercept, Composite, CompositeEvaluation

if TYPE_CHECKING:
    from condgrad.kernels.chosen_columns import ScreenRules
    from condgrad.kernels.path_steps import FollowRules, SolvedRadii

MOST_COPIED = 1 << 24
"""Entries of the columns of a face that are worth a copy."""
FEW_COPIED = 1 << 19
"""Entries of columns of a sparse K that are worth a dense copy."""
NEEDED, WANTED = 0.9, 0.6
"""Slopes, as shares of the multiplier, of the coordinates without which no model is made, and of those that are copied
along with them for the next models."""
SMALL_FACE = 800
"""Coordinates of a face up to which a sparse K has a Gram matrix on it."""
SOLVED, MOST_PRODUCTS = 1e-5, 1000
"""The residual of the equations of a larger face, as a share of what it was, and the products that it may take."""
MODELS_PER_RADIUS = 4
"""Models that one try at a radius may take where several radii are followed in one call."""
BRIDGES, LEAST_BRIDGED = 2, 1e-5
"""Radii in between that one radius may take there, and the curvature of a ridge, as a share of that of the loss, from
which on: for less the faces of near radii have too little in common."""
SHORT = 0.01
"""The step that names the next face of a model, as a share of that which names the first. A long one takes coordinates
off the face that are small in their unit, and may never end; a short one only lets in those that violate."""
ROUNDS = 12
"""Faces that are tried for one model."""
ROUNDING = 1e-12
"""How far outside the set, as a share of its size, a point may be by rounding."""
MOST_FALL = 0.5
"""What the multiplier is taken to fall by from one radius to the next, at most, as a share of it."""
INSIDE = 1e-3
"""How far inside the ball, as a share of its radius, a solution shows by itself that the constraint is idle."""


class Solution(NamedTuple):
    """The solution for one radius, to go on from."""

    radius: float
    point: ObjectivePoint
    multiplier: float


class ColumnModels:
    """Models of an h(Kx) by dense columns of K, each minimised over the set by one compiled call.

    A model has the columns that may be on the next faces, by the slopes at its point: sequential screening, which the
    certificate of the full problem makes safe.
    """

    def __init__(self, f: Composite, most_copied: int) -> None:
        from condgrad.kernels.chosen_columns import no_columns

        self.f, self.curvature, self.most_copied = f, typical_curvature(f), most_copied
        samples, features = f.K.shape
        self._chosen = no_columns(samples, features, most_copied)
        self._loss = f.h.compiled  # type: ignore[attr-defined]

    def least(
        self, point: ObjectivePoint, g: Simple, ridge: float, *, is_predicted: bool = False
    ) -> ObjectivePoint | None:
        """F at the least point of the model at a point; None where its face or its columns are too many to find."""
        from condgrad.kernels.ball_model import BallShape, Step, step

        on, t = g.on, step_length(2.0 * ridge + self.curvature)
        # on a face of more coordinates than samples, most directions have no curvature but that of the ridge
        has_many = is_predicted and ridge > 0.0 and np.count_nonzero(point.x) > self.f.K.shape[0]
        first_t = step_length(2.0 * ridge) if has_many else t
        here, x, slope = point.smooth, double(point.x), double(point.gradient)
        ball = BallShape(on.scale, on.nonnegative)
        model = self._loss, ridge, x, here.z, here.at_best.intercept, here.theta, slope
        end = Step(*step(self._chosen, ball, *model, first_t, SHORT * t, NEEDED, ROUNDS))
        if not end.suffice and self._screen(end.x, slope, end.on_boundary):
            end = Step(*step(self._chosen, ball, *model, first_t, SHORT * t, NEEDED, ROUNDS))
        return self._point_of(end, g)

    def solve_radii(
        self, oracle: OnePass, solutions: Sequence[Solution], radii: Array, rules: FollowRules
    ) -> SolvedRadii:
        """The solutions for the first of some radii, from the last ones, by `kernels.path_steps`."""
        from condgrad.kernels.chosen_columns import named
        from condgrad.kernels.path_steps import PathSolution, SolvedRadii, follow_radii

        known = [
            PathSolution(
                radius,
                point.x,
                point.smooth.z,
                point.smooth.theta,
                point.smooth_gradient,
                point.smooth.value,
                point.smooth.at_best.intercept,
                multiplier,
            )
            for radius, point, multiplier in solutions
        ]
        found = follow_radii(oracle.compiled, self._chosen, known[0], known[-1], radii, rules)
        filled, x, bound_terms, models, older, newer, chosen = found
        self._chosen = named(chosen)
        return SolvedRadii(filled, x, bound_terms, models, PathSolution(*older), PathSolution(*newer))

    def rules(self, ridge: float, *, accuracy: float, least_scale: float, most_models: int) -> FollowRules:
        """How to follow a path, for compiled code."""
        from condgrad.kernels.path_steps import FollowRules

        t, of_many = step_length(2.0 * ridge + self.curvature), step_length(2.0 * ridge)
        bridges = BRIDGES if 2.0 * ridge >= LEAST_BRIDGED * self.curvature else 0
        columns = screen_rules(), self.most_copied
        limits = ROUNDS, MODELS_PER_RADIUS, most_models, bridges
        return FollowRules(t, of_many, SHORT * t, *columns, *limits, MOST_FALL, INSIDE, accuracy, least_scale)

    def _point_of(self, end: Any, g: Simple) -> ObjectivePoint | None:
        """F where a step of compiled code leads to."""
        if not end.found:
            return None
        dtype = self.f.space.dtype
        if end.x.dtype != dtype:
            return ObjectivePoint(self.f, g, near_in(g.on, end.x.astype(dtype)), Tally())
        best = AtBestIntercept(end.loss, end.theta, end.intercept)
        smooth = CompositeEvaluation.known(self.f, end.x, end.image, best)
        return ObjectivePoint(self.f, g, end.x, Tally(), smooth)

    def _screen(self, ahead: Array, slope: Array, on_boundary: bool) -> bool:
        """Copy the columns for a model; whether they are few enough."""
        from condgrad.kernels.chosen_columns import columns_for, named, other_columns

        samples, grows = self.f.K.shape[0], self.f.columns is not None
        is_chosen = columns_for(ahead, slope, on_boundary, samples, self.most_copied, grows, screen_rules())
        features = np.flatnonzero(is_chosen)
        if len(features) == 0:
            return False
        self._chosen = named(other_columns(self._chosen, features, self._columns(features), is_chosen))
        return True

    def _columns(self, features: Array) -> Array:
        """Some columns of K, dense and in float64, a row each."""
        K: Any = self.f.K
        if not is_dense(K):
            return np.ascontiguousarray(self._by_column[:, features].T.toarray(), np.float64)
        chosen = K.T if len(features) == K.shape[1] else np.take(K.T, features, axis=0)
        return for_kernels(double(chosen))

    @cached_property
    def _by_column(self) -> Any:
        return self.f.K.tocsc()


def screen_rules() -> ScreenRules:
    """Which columns are chosen, for compiled code."""
    from condgrad.kernels.chosen_columns import ScreenRules

    return ScreenRules(NEEDED, WANTED)


class ModelsOnOneFace:
    """Models that are minimised on one face, from its system of equations."""

    def __init__(self, f: Composite | BlockwiseLoss) -> None:
        self.f, self.curvature = f, typical_curvature(f)

    def least(
        self, point: ObjectivePoint, g: Simple, ridge: float, *, is_predicted: bool = False
    ) -> ObjectivePoint | None:
        """F at the least point on the face that the gradient names; None where there is none, or it is too large."""
        on = g.on
        face = on.face(double(point.x) - step_length(2.0 * ridge + self.curvature) * double(point.gradient))
        system = self._system(point, face.active, ridge) if len(face.active) else None
        if system is None:
            return None
        if face.normal is None:
            y = least_on_face(system, np.full(len(face.active), 1.0 if on.nonnegative else 0.0), None)
        else:
            y = least_on_face(system, double(face.normal), on.scale)
        if y is None:
            return None
        x = self.f.space.full(0.0)
        x[face.active] = y
        return ObjectivePoint(self.f, g, near_in(on, x), Tally())

    def _system(self, point: ObjectivePoint, active: Array, ridge: float) -> FaceSystem | None:
        raise NotImplementedError


class BlockModels(ModelsOnOneFace):
    """Those of a loss of Dask's blocks, over which the equations are a sum."""

    def _system(self, point: ObjectivePoint, active: Array, ridge: float) -> FaceSystem | None:
        if len(active) ** 2 > MOST_COPIED:
            return None
        gram, right = point.smooth.newton_system(active)
        return DenseSystem(with_diagonal(gram, 2.0 * ridge), right)


class SparseModels(ModelsOnOneFace):
    """Those of an h(Kx) with a sparse K: by dense columns while these are few, then on faces.

    The system of a face is that of its Gram matrix, or on a large one is known by products with K.
    """

    f: Composite

    def __init__(self, f: Composite) -> None:
        super().__init__(f)
        self.few = ColumnModels(f, FEW_COPIED)
        """The models while few columns suffice."""

    def least(
        self, point: ObjectivePoint, g: Simple, ridge: float, *, is_predicted: bool = False
    ) -> ObjectivePoint | None:
        return self.few.least(point, g, ridge, is_predicted=is_predicted) or super().least(point, g, ridge)

    def _system(self, point: ObjectivePoint, active: Array, ridge: float) -> FaceSystem:
        from condgrad.kernels.sparse_gram import columns_by_row, weighted_gram

        w, pull, unit, is_centred = weights_and_pull(self.f, point.smooth)
        shares, curvature, K = w / w.sum() if is_centred else None, 2.0 * ridge / unit, self._by_column
        if len(active) > SMALL_FACE:
            return SparseSystem(K[:, active], w, shares, curvature, pull)
        arrays = columns_by_row(K.indptr, K.indices, K.data, active, K.shape[0])
        gram, _ = weighted_gram(*arrays, w, len(active))
        columns = K[:, active]
        if shares is not None:
            means = columns.T @ shares
            gram -= w.sum() * np.outer(means, means)
        return DenseSystem(with_diagonal(gram, curvature), columns.T @ pull)

    @cached_property
    def _by_column(self) -> Any:
        """K in float64, stored by columns."""
        return scipy.sparse.csc_array(self.f.K, dtype=np.float64)


class FaceSystem(Protocol):
    """H y = right: the equations of a model on a face."""

    right: Array

    def solved(self, kept: Array, sides: Array) -> Array | None:
        """H^-1 sides in the coordinates that are kept; None where H is not positive definite."""


class DenseSystem:
    """From H itself."""

    def __init__(self, H: Array, right: Array) -> None:
        self.H, self.right = H, right

    def solved(self, kept: Array, sides: Array) -> Array | None:
        _, solved, info = scipy.linalg.lapack.dposv(self.H[np.ix_(kept, kept)], sides, overwrite_a=True)
        return solved if info == 0 else None


class SparseSystem:
    """H = K' W K + curvature from products with a sparse K, by conjugate gradients."""

    def __init__(self, K: Any, w: Array, shares: Array | None, curvature: float, pull: Array) -> None:
        self.K, self.w, self.shares, self.curvature = K, w, shares, curvature
        self.right = K.T @ pull

    def solved(self, kept: Array, sides: Array) -> Array | None:
        K = self.K[:, np.flatnonzero(kept)]
        Kt = K.T
        diagonal = K.multiply(K).T @ self.w + self.curvature
        diagonal[diagonal == 0.0] = 1.0

        def product(d: Array) -> Array:
            return Kt @ (self.w * centred(K @ d, self.shares)) + self.curvature * d

        found = [
            conjugate_gradients(
                product,
                side,
                inner=dot,
                accuracy=SOLVED,
                max_iterations=MOST_PRODUCTS,
                precondition=lambda r: r / diagonal,
            )
            for side in sides.T
        ]
        return np.stack([solution.x for solution in found], axis=1)


def with_diagonal(gram: Array, curvature: float) -> Array:
    """A Gram matrix with a curvature on its diagonal, and a little more so that it is not singular."""
    diagonal = np.einsum("jj->j", gram)
    diagonal += curvature + LEAST_CURVATURE * diagonal
    return gram


def least_on_face(system: FaceSystem, signs: Array, size: float | None) -> Array | None:
    """The solution of a face's system, about, in the orthant of some signs, and on <signs, y> = size if there is one.

    Coordinates that the solution has outside the orthant are 0 from then on. None where none is left.
    """
    y, kept = np.zeros(len(signs)), np.ones(len(signs), bool)
    while kept.any() and not deadline.passed():
        e = signs[kept]
        on_sum = size is not None
        solved = system.solved(kept, np.stack([system.right[kept], e] if on_sum else [system.right[kept]], axis=1))
        if solved is None or not np.isfinite(solved).all():
            return None
        y[:] = 0.0
        y[kept] = solved[:, 0]
        if size is not None:
            y[kept] -= (dot(e, solved[:, 0]) - size) / dot(e, solved[:, 1]) * solved[:, 1]
        turned = y * signs < 0.0
        if not turned.any():
            return y
        kept &= ~turned
    return None


def models_of(f: Composite | BlockwiseLoss) -> ColumnModels | ModelsOnOneFace:
    """What minimises the models of an f, by the kind of its data."""
    if isinstance(f, BlockwiseLoss):
        return BlockModels(f)
    return ColumnModels(f, MOST_COPIED) if is_dense(f.K) else SparseModels(f)


def typical_curvature(f: Composite | BlockwiseLoss) -> float:
    """The curvature of f along a coordinate, at most and on average."""
    return float(f.h.curvature_bound * np.mean(f.column_norms**2))


def step_length(curvature: float) -> float:
    """t in P(x - t grad F(x)), for an F of some curvature along a typical coordinate."""
    return 1.0 / (curvature or 1.0)


def weights_and_pull(f: Composite, here: CompositeEvaluation) -> tuple[Array, Array, float, bool]:
    """w and W K x - theta in units of the largest weight, that unit, and whether W is about a weighted mean.

    In these units square roots do not depend on the unit of F.
    """
    w = f.h.curvature(here.z, intercept=here.at_best.intercept)
    unit = float(w.max()) or 1.0
    w = w / unit
    pull = w * here.z
    mass = float(w.sum()) if f.h.has_intercept else 0.0
    if mass > 0.0:
        pull -= w * (float(pull.sum()) / mass)
    return w, pull - here.theta / unit, unit, mass > 0.0


def near_in(on: Set, x: Array) -> Array:
    """A point of the set near x, which rounding alone may have taken outside, or more than that."""
    norm = float(np.abs(x).sum())
    if norm > on.scale * (1.0 + ROUNDING) or (on.nonnegative and x.min() < 0.0):
        return on.project(x)
    return x if norm <= on.scale else pulled_in(on, x)
