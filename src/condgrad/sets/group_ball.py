"""The l1/l2 ball: a bound on the sum of the Euclidean norms of groups of coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condgrad.arrays import Array, double, host, is_torch, like, namespace, total
from condgrad.problem import Answer
from condgrad.sets.balls import Ball
from condgrad.sets.threshold import keep_mass


@dataclass(frozen=True, eq=False, repr=False)
class GroupBall(Ball):
    """{x : sum over groups of |x_group|_2 <= radius}: its faces have whole groups at 0.

    With a group for each coordinate it is the l1 ball, with one group the l2 ball.

    Parameters
    ----------
    radius : float
        At least 0.
    groups : sequence
        A label for each coordinate, or for each row of a matrix, whose groups are blocks of whole
        rows: numbers or strings. Coordinates of the same label are a group.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> ball = cg.sets.GroupBall(1.0, groups=["a", "a", "b"])
    >>> ball.norm(np.array([3.0, 4.0, 1.0])), ball.project(np.array([3.0, 4.0, 1.0])).round(6).tolist()
    (6.0, [0.6, 0.8, 0.0])
    """

    solid = True

    groups: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", checked_groups(self.groups))

    def __repr__(self) -> str:
        return f"GroupBall({self.radius:g}, {len(self.groups)} coordinates in {self.count} groups)"

    @cached_property
    def _codes(self) -> Any:
        """The number of the group of each coordinate."""
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def count(self) -> int:
        """How many groups there are."""
        return int(self._codes.max()) + 1

    def group_norms(self, x: Array) -> Array:
        """|x_group|_2 for each group, in float64."""
        xp = namespace(x)
        if x.shape[0] != len(self.groups):
            raise ValueError(
                f"groups has {len(self.groups)} entries for a variable of {x.shape[0]} rows"
            )
        x = double(x)
        largest = float(xp.max(xp.abs(x)))
        if largest == 0.0 or not np.isfinite(largest):
            return xp.full((self.count,), largest, dtype=x.dtype, device=x.device)
        # in units of the largest entry, whose square might overflow or vanish
        squares = xp.reshape((x / largest) ** 2, (x.shape[0], -1)).sum(axis=1)
        if is_torch(x):
            sums = xp.zeros((self.count,), dtype=x.dtype, device=x.device).index_add_(
                0, like(self._codes, x).long(), squares
            )
        else:
            sums = np.bincount(self._codes, weights=squares, minlength=self.count)
        return largest * xp.sqrt(sums)

    def norm(self, x: Array) -> float:
        return total(self.group_norms(x))

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        norms = self.group_norms(x)
        if total(norms) <= self.radius:
            return x
        if self.radius == 0.0:
            return xp.zeros_like(x)
        kept = xp.minimum(keep_mass(norms, self.radius), norms)
        return self._scaled(x, kept / xp.where(norms > 0.0, norms, xp.ones_like(norms)))

    def _scaled(self, x: Array, factors: Array) -> Array:
        """Each group of x multiplied by its factor."""
        xp = namespace(x)
        by_row = factors[self._codes]
        return xp.astype(double(x) * xp.reshape(by_row, (-1,) + (1,) * (x.ndim - 1)), x.dtype)

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        norms = self.group_norms(c)
        steepest = int(xp.argmax(norms))
        length = float(norms[steepest])
        if length == 0.0:
            return Answer(xp.zeros_like(c), 0.0, value=0.0)
        # divided first: a radius over a tiny length may be beyond all numbers
        chosen = xp.zeros_like(norms)
        chosen[steepest] = -self.radius
        s = self._scaled(double(c) / length, chosen)
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
            "groups must hold no NaN or infinity: give a coordinate without a group a label of its own"
        )
    return labels
