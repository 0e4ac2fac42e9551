"""The l1/l2 ball: a bound on the sum of the Euclidean norms of groups of coordinates."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.arrays import Array, at_least, double, host, is_torch, like, namespace, total
from condgrad.problem import Answer, Face
from condgrad.sets.balls import Ball
from condgrad.sets.threshold import keep_mass


@dataclass(frozen=True, eq=False, repr=False)
class GroupBall(Ball):
    """{x : sum over groups of |x_group|_2 <= radius}, the ball of the group lasso.

    In a solution, often all coordinates of a group are 0. If each coordinate is a group of its own,
    this is the l1 ball. With one group it is the l2 ball.

    Parameters
    ----------
    radius : float
        At least 0.
    groups : sequence
        A label (a number or a string) for each coordinate. Coordinates with the same label are a
        group. For a matrix, give a label for each row: a group is then a block of whole rows.
    positive : bool
        If True, only points with x >= 0 are in the set.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> ball = cg.sets.GroupBall(1.0, groups=["a", "a", "b"])
    >>> ball.norm(np.array([3.0, 4.0, 1.0])), ball.project(np.array([3.0, 4.0, 1.0])).round(6).tolist()
    (6.0, [0.6, 0.8, 0.0])
    """

    solid = True

    groups: Any
    _: KW_ONLY
    positive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", checked_groups(self.groups))
        _checks.flag("positive", self.positive)

    def __repr__(self) -> str:
        size = f"{self.radius:g}, {len(self.groups)} coordinates in {self.count} groups"
        return f"GroupBall({size}, positive=True)" if self.positive else f"GroupBall({size})"

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return self.positive

    @property
    def smallest_entry(self) -> float:  # type: ignore[override]
        """0 if `positive`, else -radius."""
        return 0.0 if self.positive else -self.radius

    @cached_property
    def codes(self) -> Any:
        """The number of the group of each coordinate."""
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def count(self) -> int:
        """How many groups there are."""
        return int(self.codes.max()) + 1

    def group_norms(self, x: Array) -> Array:
        """|x_group|_2 for each group, in float64."""
        xp = namespace(x)
        if x.shape[0] != len(self.groups):
            raise ValueError(
                f"groups must have one entry for each of the {x.shape[0]} rows, got {len(self.groups)}"
            )
        x = double(x)
        largest = float(xp.max(xp.abs(x)))
        if largest == 0.0 or not np.isfinite(largest):
            return xp.full((self.count,), largest, dtype=x.dtype, device=x.device)
        # in units of the largest entry, whose square might overflow or vanish
        squares = xp.reshape((x / largest) ** 2, (x.shape[0], -1)).sum(axis=1)
        if is_torch(x):
            sums = xp.zeros((self.count,), dtype=x.dtype, device=x.device).index_add_(
                0, like(self.codes, x).long(), squares
            )
        else:
            sums = np.bincount(self.codes, weights=squares, minlength=self.count)
        return largest * xp.sqrt(sums)

    def norm(self, x: Array) -> float:
        return total(self.group_norms(x))

    def violation(self, x: Array) -> float:
        outside = super().violation(x)
        return max(outside, -float(namespace(x).min(x))) if self.positive else outside

    def pulls(self, c: Array) -> Array:
        """For each group, the largest rate at which <c, x> can fall when the group leaves 0."""
        return self.group_norms(self._allowed(-c))

    def _allowed(self, x: Array) -> Array:
        """What of x is not below 0, where that is asked for."""
        return at_least(0.0, x) if self.positive else x

    def in_entries(self, chosen: Any, shape: tuple[int, ...]) -> GroupBall:
        """The ball for some entries (None: all) of a variable of this shape; the others are 0."""
        codes = np.repeat(self.codes, math.prod(shape[1:]))
        codes = codes if chosen is None else codes[chosen]
        return GroupBall(self.radius, codes, positive=self.positive)

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        x = self._allowed(x)
        norms = self.group_norms(x)
        if total(norms) <= self.radius:
            return x
        if self.radius == 0.0:
            return xp.zeros_like(x)
        projected = xp.minimum(keep_mass(norms, self.radius), norms)
        return self._scaled(x, projected / xp.where(norms > 0.0, norms, xp.ones_like(norms)))

    def face(self, v: Array) -> Face:
        """The face at the projection of v.

        Its active coordinates are those of the groups that are not 0. Its normal has the directions
        of these groups. A projection also shrinks moves that are orthogonal to these directions.
        """
        xp = namespace(v)
        point = self.project(v)
        norms = self.group_norms(point)
        by_row = norms[self.codes]
        active = xp.nonzero(point if self.positive else by_row)[0]
        if total(self.pulls(-v)) <= self.radius:
            every = active if self.positive else xp.arange(v.shape[0], device=v.device)
            return Face(point, every, None)
        return Face(point, active, point[active] / by_row[active])

    def derivative(self, v: Array, face: Face, rows: Array) -> Array:
        """Some rows times the derivative of the projection of v. The part of the derivative along
        the normal of the face is left out.

        The part of a row along the direction of a group does not change. The part that is
        orthogonal to it shrinks by the same factor as the group.
        """
        if face.normal is None:
            return rows
        codes = self.codes[face.active]
        ratios = self.group_norms(face.point)[codes] / self.pulls(-v)[codes]
        shape = (self.count, len(codes))
        along = scipy.sparse.csr_array((face.normal, (codes, np.arange(len(codes)))), shape=shape)
        part = face.normal[:, None] * (along @ rows)[codes]
        return ratios[:, None] * rows + (1.0 - ratios)[:, None] * part

    def _scaled(self, x: Array, factors: Array) -> Array:
        """Each group of x multiplied by its factor."""
        xp = namespace(x)
        by_row = factors[self.codes]
        return xp.astype(double(x) * xp.reshape(by_row, (-1,) + (1,) * (x.ndim - 1)), x.dtype)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        norms = self.pulls(c)
        steepest = int(xp.argmax(norms))
        length = float(norms[steepest])
        if length == 0.0:  # but for rounding, which spoils the lowest entry most
            nearest = xp.zeros_like(c)
            xp.reshape(nearest, (-1,))[int(xp.argmin(c))] = self.radius
            return Answer(xp.zeros_like(c), 0.0, value=0.0, witness=nearest)
        # divided first: a radius over a tiny length may be beyond all numbers
        chosen = xp.zeros_like(norms)
        chosen[steepest] = self.radius
        s = self._scaled(self._allowed(-double(c)) / length, chosen)
        return Answer(xp.astype(s, c.dtype), -self.radius * length, value=0.0)


def checked_groups(groups: Any) -> Any:
    """One label for each coordinate."""
    labels = np.asarray(host(groups) if is_torch(groups) else groups)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"groups must hold one label for each coordinate, got an array of shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            "groups must not have NaN or infinity: give a coordinate without a group its own label"
        )
    return labels
