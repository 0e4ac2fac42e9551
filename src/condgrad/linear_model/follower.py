"""From the solution for one radius to that for the next: the fast way along a path, certified like every other.

The solutions for neighbouring radii mostly have the same coordinates at 0. So the next one is guessed by a face of the
ball, on which a quadratic model of F is minimised by one linear system, and Lemma 2 judges the guess on the full
problem. This is the primal-dual active-set method (a semismooth Newton method) for

    x = P(x - t grad F(x)),

whose right-hand side names the face. Coordinates whose signs the system turns leave the face before it is solved again.
The first model is that of F where the last two solutions point to, which need not be in the ball: K x and the gradient
there are mixed from theirs, without a product. What the faces have in common is shared: K_A K_A' gains and loses the
columns that enter and leave. The method converges from nearby or not at all. Where it does not, least squares of dense
data with no more samples than features go from one solution to the next by the events in between; where that fails too,
and for all others, the caller goes on with `condgrad.minimize`. The models are in `path_models`. Of data that are not
large, several radii are followed in one compiled call (`kernels.path_steps`).
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, double, is_dense, is_torch, mixed, stack
from condgrad.certificate import (
    NULL_SHARE,
    Certificate,
    Terms,
    gains_in_double,
    noise_of_bound,
    proved_in_double,
    tangent_bound,
)
from condgrad.errors import ContradictionError, NotFiniteError
from condgrad.linear_model.path_models import MOST_FALL, ColumnModels, Solution, SparseModels, models_of
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.one_pass import OnePass
from condgrad.newton import sample_dual
from condgrad.problem import Simple
from condgrad.search.steps import Exact, SearchState
from condgrad.smooth import SquaredHinge
from condgrad.smooth.blockwise import BlockwiseLoss
from condgrad.smooth.composite import AtBestIntercept, Composite, CompositeEvaluation, is_at_hand

if TYPE_CHECKING:
    from condgrad.kernels.path_steps import PathSolution, SolvedRadii

PATIENCE = 12
"""Steps along a path that may pass without halving the gap."""
EXACTLY = Exact()
"""How far to go towards the least point of a model where F is not lower."""
RADII_AT_ONCE, ENTRIES_AT_ONCE = 8, 1 << 23
"""Radii that one compiled call, which nothing interrupts, may follow, and the entries of the data times the radii up to
which there may be more."""
HINGE_MODELS = 3
"""Models of a squared hinge for one radius after which its dual is taken to be faster, where it has one."""
MOST_EXACT_MODELS = 3
"""Steps that may pass without halving the gap where F is its own model: only rounding asks for more than one."""


class CertifiedGuess(NamedTuple):
    """The best point found for one radius, with its proof."""

    point: ObjectivePoint
    proof: Certificate
    steps: int


class CertifiedSolution(NamedTuple):
    """The solution for one radius, with its proof."""

    x: Array
    intercept: float
    """For the targets as they were given."""
    value: float
    gap: float
    relative_gap: float
    multiplier: float
    models: int


class PathFollower:
    """Guesses for one loss and one radius after the other, sharing what does not depend on the radius."""

    def __init__(self, f: Composite | BlockwiseLoss) -> None:
        self.f = f
        self._models = models_of(f)
        self._solutions: list[Solution] = []
        """The last two on the way."""

    @staticmethod
    def can_follow(f: Any) -> bool:
        """Whether f is an h(Kx) whose columns are at hand, in NumPy arrays or SciPy matrices, and cheap to copy.

        Those of a sparse matrix of more rows than columns are cheaper left sparse, as `condgrad.minimize` does.
        """
        if isinstance(f, BlockwiseLoss):
            return True
        if not is_at_hand(f) or is_torch(f.K):
            return False
        return is_dense(f.K) or f.K.shape[0] <= f.K.shape[1]

    @property
    def starts_anywhere(self) -> bool:
        """Whether a solution without a constraint, in which no coordinate is 0, is cheap to find as well."""
        return isinstance(self.f, BlockwiseLoss) or is_dense(self.f.K)

    @property
    def _has_many_samples(self) -> bool:
        """Whether a model costs many products, so that a prediction is worth a certificate before one is made."""
        return isinstance(self.f, BlockwiseLoss) or self.f.K.shape[0] > self.f.K.shape[1]

    @cached_property
    def _null(self) -> Any:
        """f where all coefficients are 0."""
        return self.f.at(self.f.space.full(0.0))

    @cached_property
    def null_value(self) -> float:
        """f(0)."""
        return float(self._null.value)

    def _null_solution(self, g: Simple) -> Solution:
        """The solution for a radius of 0, in a set of the kind of that of g."""
        point = ObjectivePoint(self.f, g, self.f.space.full(0.0), Tally(), self._null)
        slopes = -point.smooth_gradient
        return Solution(0.0, point, float((slopes if g.on.nonnegative else np.abs(slopes)).max()))

    def note(self, radius: float, point: ObjectivePoint, multiplier: float) -> None:
        """Remember the solution for a radius; the next ones are larger."""
        self._solutions = [*self._solutions[-1:], Solution(radius, point, multiplier)]

    def _predicted(self, g: Simple) -> ObjectivePoint | None:
        """Where the last two solutions point to for the next radius, in the set or not; None before there are two.

        f and its gradient there are mixed from theirs: K x is so exactly, the gradient to second order. The multiplier
        falls more and more slowly, as coordinates enter: it is taken to fall by a share of it at most.
        """
        if len(self._solutions) < 2:
            return None
        older, newer = self._solutions
        ahead = (g.on.scale - newer.radius) / (newer.radius - older.radius)
        fall = older.multiplier - newer.multiplier
        if ahead * fall > MOST_FALL * newer.multiplier > 0.0:
            ahead = MOST_FALL * newer.multiplier / fall
        before, here = older.point, newer.point
        x = mixed(here.x, [before.x], np.array([-ahead]))
        point = ObjectivePoint(self.f, g, x, Tally(), here.smooth.moved(x, [before.smooth], np.array([-ahead])))
        point.smooth_gradient = here.smooth_gradient + ahead * (here.smooth_gradient - before.smooth_gradient)
        return point

    def solve_radii(
        self, g: Simple, radii: Array, ridge: float, *, tol: float, most_models: int = sys.maxsize
    ) -> list[CertifiedSolution]:
        """Solutions for the first of the next radii, as far as one compiled call finds them with few models.

        That is for data that are not large; a radius that needs more is left to `follow`. `g` is that of the
        first radius; `most_models` is how many each radius may take.
        """
        models = self._models.few if isinstance(self._models, SparseModels) else self._models
        if not isinstance(models, ColumnModels) or deadline.passed():
            return []
        oracle = OnePass.of(self.f, g)
        if oracle is None:
            return []
        radii = radii[: max(RADII_AT_ONCE, ENTRIES_AT_ONCE // max(1, oracle.loss.composite.K.size))]
        rules = models.rules(ridge, accuracy=tol, least_scale=NULL_SHARE * self.null_value, most_models=most_models)
        known = self._solutions or [self._null_solution(g)]
        solved = models.solve_radii(oracle, known, radii, rules)
        found = self._certified(g, solved, ridge, tol)
        if len(found) == solved.filled > 0:
            newer = solved.newer  # that for a radius beyond the last, where that led nearer to the next
            if newer.radius == radii[solved.filled - 1]:
                newer = newer._replace(x=found[-1].x)  # by which `follow` knows that it starts there
            self._solutions = [self._solution(g, end) for end in (solved.older, newer)]
        else:
            for radius, end in zip(radii, found, strict=False):
                self.note(radius, ObjectivePoint(self.f, g, end.x, Tally()), end.multiplier)
        return found

    def _certified(self, g: Simple, solved: SolvedRadii, ridge: float, tol: float) -> list[CertifiedSolution]:
        """The first solutions with their proofs, as far as their gaps are within tol: `Certifier` for all at once."""
        from condgrad.kernels.path_steps import BoundTerms

        f: Any = self.f
        x, models = solved.x[: solved.filled], solved.models[: solved.filled]
        terms: Any = BoundTerms(*solved.bound_terms[: solved.filled].T)
        at_x = terms.loss, terms.intercept, terms.theta_length, terms.theta_sum, terms.image_size
        simple = ridge * terms.square
        noise = noise_of_bound(
            f.unit,
            f=terms.loss,
            slopes=(f.magnitude(*at_x, terms.image_size), f.magnitude(*at_x, terms.image_size_there)),
            g=(g.magnitude(x, simple), g.magnitude(x, ridge * terms.square_there)),
            oracle=(terms.bound, 0.0),
        )
        values, lower = terms.loss + simple, tangent_bound(terms.loss - terms.theta_image, terms.bound, noise)
        gaps, scales = values - lower, np.maximum(values, NULL_SHARE * self.null_value)
        is_proved = (gaps >= 0.0) & (gaps <= tol * scales)
        count = solved.filled if is_proved.all() else int(np.argmin(is_proved))
        columns: Any = terms.intercept + f.target_center, values, gaps, gaps / scales, terms.multiplier, models
        rows = zip(x[:count], *(column[:count].tolist() for column in columns), strict=True)
        return [CertifiedSolution(*row) for row in rows]

    def _solution(self, g: Simple, end: PathSolution) -> Solution:
        """A solution that compiled code has found."""
        f: Any = self.f
        best = AtBestIntercept(end.loss, end.theta, end.intercept)
        point = ObjectivePoint(self.f, g, end.x, Tally(), CompositeEvaluation.known(f, end.x, end.u, best))
        point.smooth_gradient = end.c
        return Solution(end.radius, point, end.multiplier)

    @property
    def _no_proof(self) -> Certificate:
        """What is known before the first point."""
        return Certificate(null_size=self.null_value)

    def follow(
        self,
        g: Simple,
        ridge: float,
        start: Array,
        *,
        tol: float,
        most_steps: int = sys.maxsize,
        patience: int = PATIENCE,
    ) -> CertifiedGuess | None:
        """The best point on the way from a start in the set, until its gap is within tol or hardly falls.

        Where solutions are noted, the start is the last of them, and the first model is that where they point to; or
        that point itself, in the set, is tried first, where models are dear. `most_steps` is how many models there may
        be, `patience` how many of them may pass without halving the gap.

        None where a guess has no finite F, where its bound contradicts a value or its equations have no solution: a
        guess is a dead end then, and the problem may be none.
        """
        try:
            return self._follow(g, ridge, start, tol=tol, most_steps=most_steps, patience=patience)
        except (NotFiniteError, ContradictionError, np.linalg.LinAlgError):
            return None

    def _follow(
        self, g: Simple, ridge: float, start: Array, *, tol: float, most_steps: int, patience: int
    ) -> CertifiedGuess:
        """What `follow` finds, or the error that a guess ends with."""
        certifier, steps = Certifier(self.f, g, Tally()), 0
        last = self._solutions[-1] if self._solutions else None
        known = last.point.smooth if last is not None and last.point.x is start else None
        point = ObjectivePoint(self.f, g, start, certifier.tally, known)
        # where the constraint was idle, the solution stays the same
        prediction = self._predicted(g) if last is None or last.multiplier > 0.0 else None
        if prediction is not None and self._has_many_samples:
            point = point.at(g.on.project(prediction.x))
        elif prediction is not None and most_steps > 0:
            end = self._models.least(prediction, g, ridge, is_predicted=True)
            if end is not None:
                point, steps = lower_on_the_way(point, end), 1
        best = point
        if is_at_hand(self.f) and self.f.h.quadratic:
            patience = min(patience, MOST_EXACT_MODELS)
        proof, mark, left = self._no_proof, np.inf, patience
        finer = gains_in_double(self.f, g, start)
        while True:
            iterate = certifier.iterate(point, 1.0)
            proof = proof.updated(iterate, steps)
            if finer and proof.relative_gap > tol >= proof.without_rounding(iterate).relative_gap:
                proof = proved_in_double(proof, self.f, g, point.x)
            if proof.x is point.x:
                best = point
            left -= 1
            if proof.gap <= 0.5 * mark:
                mark, left = proof.gap, patience
            if proof.relative_gap <= tol or left == 0 or steps == most_steps or deadline.passed():
                break
            if steps >= HINGE_MODELS and self._has_dual(point, ridge):
                break
            end = self._models.least(point, g, ridge)
            if end is None:
                break
            point, steps = lower_on_the_way(point, end), steps + 1
        if best.x.dtype != np.float64:  # as `condgrad.minimize` does: what is claimed of a point is computed in float64
            x = double(best.x)
            proof = proof.revalued(Terms(self.f.at(x).value, g.value(x)))
        return CertifiedGuess(best, proof, steps)

    def _has_dual(self, point: ObjectivePoint, ridge: float) -> bool:
        """Whether `condgrad.minimize` has a dual with fewer variables than coordinates that are not 0.

        A model of a squared hinge with so many coordinates fits all samples that fall short of their margins, whereupon
        others fall short: it may take many models.
        """
        if not is_at_hand(self.f) or np.count_nonzero(point.x) <= self.f.K.shape[0]:
            return False
        if not isinstance(self.f, SquaredHinge):
            return False
        return sample_dual.is_worth_it(self.f, ridge)


def lower_on_the_way(point: ObjectivePoint, end: ObjectivePoint) -> ObjectivePoint:
    """The end if F is lower there, or the lowest point on the way."""
    if end.value < point.value:
        return end
    directions = stack([end.x - point.x])
    state = SearchState(
        point.f, point.g, 0, point.x, point.smooth, [end.smooth], directions, point.value, 0.0
    )  # fmt: skip
    return point.moved(end, float(EXACTLY(state)[0]))
