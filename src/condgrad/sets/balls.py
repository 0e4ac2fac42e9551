"""The l1, l2 and nuclear-norm balls."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from condgrad import _checks
from condgrad.arrays import Array, Space, double, length_of, namespace, signs, total
from condgrad.problem import Answer, Face, Set
from condgrad.sets.threshold import keep_mass, worth_compiling


@dataclass(frozen=True)
class Ball(Set):
    """{x : |x| <= radius} for some norm."""

    projection_rounding = 0.0

    radius: float

    def __post_init__(self) -> None:
        _checks.hold_number(self, "radius", at_least=0.0)

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.radius

    @property
    def largest_entry(self) -> float:  # type: ignore[override]
        """The radius."""
        return self.radius

    @abstractmethod
    def norm(self, x: Array) -> float:
        """The norm of the ball."""

    def start(self, space: Space) -> Array:
        return space.full(0.0)

    def null_point(self, space: Space) -> Array:
        return self.start(space)

    def violation(self, x: Array) -> float:
        return max(0.0, self.norm(x) - self.radius)


@dataclass(frozen=True)
class L1Ball(Ball):
    """The l1 ball {x : sum |x_i| <= radius}.

    Parameters
    ----------
    radius : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.L1Ball(1.0).project(np.array([2.0, 1.5])).tolist()
    [0.75, 0.25]
    """

    solid = True

    def norm(self, x: Array) -> float:
        return total(namespace(x).abs(x))

    def pulls(self, c: Array) -> Array:
        """For each coordinate, the largest rate at which <c, x> can fall when the coordinate leaves
        0.
        """
        return namespace(c).abs(c)

    def project(self, x: Array) -> Array:
        if self.radius > 0.0 and worth_compiling(x):
            from condgrad.kernels.keep_mass import onto_l1_ball

            point, inside, finite = onto_l1_ball(x, self.radius)
            if inside:
                return x
            if finite:
                return point
        return self.project_by_arrays(x)

    def project_by_arrays(self, x: Array) -> Array:
        """The same as `project`, by operations on whole arrays."""
        xp = namespace(x)
        sizes = xp.abs(x)
        if total(sizes) <= self.radius:
            return x
        if self.radius == 0.0:
            return xp.zeros_like(x)
        projected = keep_mass(xp.reshape(sizes, (-1,)), self.radius)
        # relative to the largest entry, the threshold of a point just outside may round to below 0
        return signs(x) * xp.minimum(xp.reshape(projected, x.shape), sizes)

    def face(self, v: Array) -> Face:
        xp = namespace(v)
        point = self.project(v)
        if point is v:  # inside
            return Face(v, xp.arange(v.shape[0], device=v.device), None)
        active = xp.nonzero(point)[0]
        return Face(point, active, signs(point[active]))

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        flat = xp.reshape(c, (-1,))
        i = int(xp.argmax(xp.abs(flat)))
        steepest = float(flat[i])
        s = xp.zeros_like(flat)
        s[i] = -self.radius if steepest > 0 else self.radius
        return Answer(xp.reshape(s, c.shape), -self.radius * abs(steepest), value=0.0)


@dataclass(frozen=True)
class L2Ball(Ball):
    """The l2 ball {x : |x|_2 <= radius}. For matrices this is the Frobenius norm.

    Parameters
    ----------
    radius : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cg.sets.L2Ball(1.0).project(np.array([3.0, 4.0])).tolist()
    [0.6000000000000001, 0.8]
    """

    solid = True
    spectrally_solid = True

    def norm(self, x: Array) -> float:
        return length_of(x)

    def project(self, x: Array) -> Array:
        length = self.norm(x)
        return x if length <= self.radius else (self.radius / length) * x

    def linear_argmin(self, c: Array) -> Answer:
        length = self.norm(c)
        if length == 0.0:
            return Answer(namespace(c).zeros_like(c), 0.0, value=0.0)
        # divided first, and in float64: a radius over a tiny length is beyond float32
        s = namespace(c).astype(-self.radius * (double(c) / length), c.dtype)
        return Answer(s, -self.radius * length, value=0.0)


@dataclass(frozen=True)
class NuclearBall(Ball):
    """The nuclear-norm ball {X : sum of the singular values of X <= radius}, for matrices X.

    Parameters
    ----------
    radius : float
        At least 0.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> round(float(np.trace(cg.sets.NuclearBall(1.0).project(np.diag([2.0, 1.0])))), 6)
    1.0
    """

    spectrally_solid = True

    def norm(self, x: Array) -> float:
        return total(namespace(x).linalg.svdvals(matrix(x)))

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        U, sigma, Vt = xp.linalg.svd(matrix(x), full_matrices=False)
        if total(sigma) <= self.radius:
            return x
        if self.radius == 0.0:
            return xp.zeros_like(x)
        return (U * keep_mass(sigma, self.radius)) @ Vt

    def linear_argmin(self, c: Array) -> Answer:
        U, sigma, Vt = namespace(c).linalg.svd(matrix(c), full_matrices=False)
        return Answer(
            -self.radius * U[:, :1] * Vt[:1, :], -self.radius * float(sigma[0]), value=0.0
        )


def matrix(x: Array) -> Array:
    if x.ndim != 2:
        raise ValueError(f"the nuclear norm needs a matrix, got an array of shape {tuple(x.shape)}")
    return x
