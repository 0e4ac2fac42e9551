"""PQN, the limited-memory projected quasi-Newton of Schmidt, van den Berg, Friedlander and Murphy
(AISTATS 2009).

    y ~ argmin_{y in P} <grad F(x), y - x> + 1/2 <y - x, B (y - x)>,   x <- x + a (y - x)

with B the compact L-BFGS matrix of the last changes of x and of grad F. The inner problem is solved
by spectral projected gradients, which ask for B and for projections, and not for F.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import islice
from typing import ClassVar, NamedTuple

import numpy as np

from condgrad import _checks, deadline
from condgrad.arrays import (
    Array,
    dot,
    double,
    double_like,
    gram,
    mixed,
    namespace,
    precision,
    stack,
)
from condgrad.certificate import Iterate
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.methods.spg import (
    armijo_step,
    first_length,
    require_projected_gradients,
    spectral_length,
    spectral_moves,
)
from condgrad.problem import Simple, Smooth
from condgrad.search.steps import Armijo


@dataclass(frozen=True)
class PQN:
    """Projected quasi-Newton for a g with a gradient on a set with a projection: few evaluations,
    many projections.

    Parameters
    ----------
    f, g : Smooth, Simple
        The two parts of F.
    pairs : int
        How many past changes the model of F remembers.
    inner_iterations : int
        How many projections the inner problem may take.
    inner_tolerance : float
        The inner problem is solved once a move promises no more than this fraction of its fall so
        far.
    armijo : Armijo
        Which fraction of the promised fall is enough, and how a step shrinks.
    """

    f: Smooth
    g: Simple
    _: KW_ONLY
    pairs: int = 10
    inner_iterations: int = 100
    inner_tolerance: float = 1e-2
    armijo: Armijo = field(default_factory=Armijo)
    name: ClassVar[str] = "pqn"

    def __post_init__(self) -> None:
        require_projected_gradients(self.g, by="method='pqn'")
        _checks.whole("pairs", self.pairs, at_least=1)
        _checks.whole("inner_iterations", self.inner_iterations, at_least=1)
        _checks.number("inner_tolerance", self.inner_tolerance, at_least=0.0)

    def iterates(self, x: Array) -> Iterator[Iterate]:
        tally = Tally()
        certifier = Certifier(self.f, self.g, tally)
        here = ObjectivePoint(self.f, self.g, x, tally)
        yield certifier.iterate(here, 0.0)
        length = first_length(here, self.g.on.scale)
        changes: deque[Change] = deque(maxlen=self.pairs)
        while True:
            for target in self._targets(here, changes, length):
                tally.inner_iterations += target.projections
                if deadline.passed():
                    return
                step, there = armijo_step(
                    here, here.at(target.x), target.promise, here.value, armijo=self.armijo
                )
                if step > 0.0:
                    break
            else:
                return
            yield certifier.iterate(there, step)
            length = spectral_length(here, there, length)
            change = Change.between(here, there)
            if change is not None:
                changes.append(change)
            here = there

    def _targets(
        self, here: ObjectivePoint, changes: deque[Change], length: float
    ) -> Iterator[Target]:
        """The model's minimiser, then, should it mislead, where the gradient leads."""
        if changes:
            B = QuasiHessian(changes)
            if B.finite:
                yield self._minimiser(QuadraticModel(here, B))
            changes.clear()
        x = self.g.on.project(here.x - length * here.gradient)
        d = x - here.x
        yield Target(x, max(-dot(here.gradient, d), dot(d, d) / length), 1)

    def _minimiser(self, model: QuadraticModel) -> Target:
        """The model's minimiser, loosely, by monotone spectral projected gradients."""
        x = model.base.x
        point = ModelPoint(model, x, namespace(x).zeros_like(x))
        projections = 0
        moves = spectral_moves(
            point, self.g.prox, 1.0 / model.B.sigma, window=1, armijo=self.armijo
        )
        for move in islice(moves, 1, self.inner_iterations + 1):  # the first is the start itself
            point = move.point
            projections = projections + 1
            if move.promise <= self.inner_tolerance * point.energy or deadline.passed():
                break
        return Target(point.x, max(-dot(model.base.gradient, point.d), point.energy), projections)


class Target(NamedTuple):
    """A point to go to, the fall it promises, the projections it took."""

    x: Array
    promise: float
    projections: int


class Change(NamedTuple):
    """s and y, the changes of x and of grad F in a step."""

    s: Array
    y: Array

    @classmethod
    def between(cls, before: ObjectivePoint, after: ObjectivePoint) -> Change | None:
        """The change, unless its curvature might be rounding."""
        unit = precision(after.x)
        s = after.x - before.x
        y = after.gradient - before.gradient
        curvature = dot(s, y)
        size = dot(s, s) ** 0.5
        if not curvature > unit * size * max(
            100.0 * dot(y, y) ** 0.5, dot(after.gradient, after.gradient) ** 0.5
        ):
            return None
        return cls(s, y)


class QuasiHessian:
    """The L-BFGS matrix B = sigma (I - W' M^-1 W) in compact form (Byrd, Nocedal and Schnabel,
    Math. Prog. 63, 1994).

    W stacks the s_i and the y_i / sigma, each pair scaled so that its product is 1; M = [[S S', L],
    [L', -I]] of these, L being the part of S Y' below the diagonal. In directions that no change
    has seen B is sigma = <s, y>/<s, s>, the last alpha of SPG inverted. The usual <y, y>/<s, y> is
    the largest curvature seen instead of a mean one; with few samples and many features it holds
    the method back (five to eight times as many iterations on microarrays).
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        count = len(changes)
        latest = changes[-1]
        self.sigma = dot(latest.s, latest.y) / dot(latest.s, latest.s)
        # in units of sigma, so that the unit of F changes nothing
        lengths = [(dot(s, y) / self.sigma) ** -0.5 for s, y in changes]
        with np.errstate(over="ignore", invalid="ignore"):  # `finite` tells
            S = [length * s for length, (s, _) in zip(lengths, changes, strict=True)]
            Y = [(length / self.sigma) * y for length, (_, y) in zip(lengths, changes, strict=True)]
            self.W = stack(S + Y).reshape(2 * count, -1)
            products = gram(self.W)
        middle = np.zeros((2 * count, 2 * count))
        middle[:count, :count] = products[:count, :count]
        middle[:count, count:] = np.tril(products[:count, count:], -1)
        middle[count:, :count] = middle[:count, count:].T
        middle[count:, count:] = -np.eye(count)
        self.finite = bool(np.isfinite(middle).all())
        """Whether no scale overflowed, as it may in float32."""
        if self.finite:
            self.inverse = double_like(np.linalg.pinv(middle, rcond=1e-14, hermitian=True), self.W)

    def __matmul__(self, v: Array) -> Array:
        flat = v.reshape(-1)
        weights = self.inverse @ double(self.W @ flat)
        if weights.dtype != v.dtype:
            weights = namespace(v).astype(weights, v.dtype)
        return (self.sigma * (flat - weights @ self.W)).reshape(v.shape)


class QuadraticModel(NamedTuple):
    """y -> <grad F(x), y - x> + 1/2 <y - x, B (y - x)>."""

    base: ObjectivePoint
    B: QuasiHessian


class ModelPoint:
    """The model at x, where `product` is B (x - base)."""

    def __init__(self, model: QuadraticModel, x: Array, product: Array) -> None:
        self.model = model
        self.x = x
        self.product = product

    @cached_property
    def d(self) -> Array:
        """The move from the base."""
        return self.x - self.model.base.x

    @cached_property
    def energy(self) -> float:
        """<d, B d>/2: no more than what any d that lowers the model promises, and no larger term
        hides it.
        """
        return 0.5 * dot(self.d, self.product)

    @cached_property
    def value(self) -> float:
        return dot(self.model.base.gradient, self.d) + self.energy

    @property
    def rounding(self) -> float:
        return self.model.base.slope_rounding

    @cached_property
    def gradient(self) -> Array:
        return self.model.base.gradient + self.product

    def at(self, x: Array) -> ModelPoint:
        return ModelPoint(self.model, x, self.model.B @ (x - self.model.base.x))

    def moved(self, end: ModelPoint, a: float) -> ModelPoint:
        fractions = np.array([a])
        return ModelPoint(
            self.model,
            mixed(self.x, [end.x], fractions),
            mixed(self.product, [end.product], fractions),
        )
