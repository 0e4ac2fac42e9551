"""The transport polytope."""

from __future__ import annotations

from typing import Any

from condgrad.arrays import (
    Array,
    Space,
    dot,
    host,
    like,
    namespace,
    total,
)
from condgrad.arrays.inputs import floating
from condgrad.problem import Answer, Set
from condgrad.rounding import SAME_MASS
from condgrad.sets import sinkhorn
from condgrad.sets.linprog import LINPROG_ENGINES
from condgrad.sets.marginals import Rescaled, kept_share


class Transport(Set):
    """The transport plans {G in R^{n x m} : G >= 0, G 1 = a, G' 1 = b}.

    A plan moves the weights a of n sources to the weights b of m targets.

    Parameters
    ----------
    a, b : arrays of weights >= 0
        Their sums must be the same.
    engine : {"auto", "emd", "highs", "cvxopt", "mosek"}
        The solver of linear programs: POT's network simplex ("emd", by far the fastest), HiGHS (in
        SciPy), CVXOPT or MOSEK. "auto" takes POT if it is installed, otherwise HiGHS.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.Transport([0.5, 0.5], [0.25, 0.75])
    >>> P.linear_argmin(np.array([[0.0, 1.0], [1.0, 0.0]])).point.tolist()
    [[0.25, 0.25], [0.0, 0.5]]
    """

    nonnegative = True

    def __init__(self, a: Any, b: Any, *, engine: str = "auto") -> None:
        if engine not in LINPROG_ENGINES:
            raise ValueError(
                f"engine must be one of {', '.join(map(repr, LINPROG_ENGINES))}, got {engine!r}"
            )
        self.engine = engine
        self.a = floating("a", a, ndim=1)
        self.b = floating("b", b, ndim=1)
        for name, weights in (("a", self.a), ("b", self.b)):
            if weights.shape[0] == 0:
                raise ValueError(f"{name} must hold one or more weights, got none")
            lowest = float(namespace(weights).min(weights))
            if lowest < 0:
                raise ValueError(f"{name} must hold weights >= 0, got {lowest:g} among them")
        mass_a = total(self.a)
        mass_b = total(self.b)
        if abs(mass_a - mass_b) > SAME_MASS * max(mass_a, mass_b):
            raise ValueError(
                f"a and b must have the same mass: a sums to {mass_a:.12g}, b to {mass_b:.12g}"
            )
        if mass_a != mass_b:
            self.b = self.b * (mass_a / mass_b)
        self.mass = mass_a
        self.shape = (self.a.shape[0], self.b.shape[0])
        self.space = Space.of(self.a, shape=self.shape)
        self.scale = max(float(namespace(self.a).max(self.a)), float(namespace(self.b).max(self.b)))
        self.largest_entry = min(
            float(namespace(self.a).max(self.a)), float(namespace(self.b).max(self.b))
        )

    def __repr__(self) -> str:
        return f"Transport({self.shape[0]} x {self.shape[1]})"  # type: ignore[index]

    def start(self, space: Space) -> Array:
        return space.hold(self.a[:, None] * (self.b / (self.mass or 1.0))[None, :])

    def violation(self, x: Array) -> float:
        xp = namespace(x)
        rows = xp.max(xp.abs(xp.sum(x, axis=1) - like(self.a, x)))
        columns = xp.max(xp.abs(xp.sum(x, axis=0) - like(self.b, x)))
        return max(0.0, -float(xp.min(x)), float(rows), float(columns))

    def rounded(self, plan: Array) -> Array:
        """A plan of the polytope near a given nonnegative matrix.

        Rows and columns that are too heavy are scaled down, and the missing mass is spread
        (Altschuler, Weed and Rigollet, NIPS 2017).
        """
        xp = namespace(plan)
        a = like(self.a, plan)
        b = like(self.b, plan)
        by_row = kept_share(xp.sum(plan, axis=1), a)
        columns = plan.T @ by_row
        rescaled = Rescaled.of(
            plan, a, b, by_row=by_row, by_column=xp.ones_like(b), columns=columns
        )
        result = xp.empty_like(plan)
        for rows, part in rescaled.blocks(plan):
            result[rows] = part
        return result

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """Sinkhorn's algorithm. It starts from the potentials of the last answer."""
        xp = namespace(c)
        a = like(self.a, c)
        b = like(self.b, c)
        rows = a > 0
        columns = b > 0
        start = None if warm is None else warm.v
        if bool(xp.all(rows)) and bool(xp.all(columns)):
            return sinkhorn.scaled_answer(c, a, b, weight, start=start, accuracy=accuracy)
        plan = xp.zeros_like(c)
        u = xp.full_like(a, -xp.inf)
        v = xp.full_like(b, -xp.inf)
        if not bool(xp.any(rows)):
            return Answer(plan, 0.0, 0.0, 0, sinkhorn.Potentials(u, v))
        # points without weight take no part
        rows = xp.nonzero(rows)[0]
        columns = xp.nonzero(columns)[0]
        part = c[rows, :][:, columns]
        start = None if start is None else start[columns]
        found = sinkhorn.scaled_answer(
            part, a[rows], b[columns], weight, start=start, accuracy=accuracy
        )
        plan[rows[:, None], columns[None, :]] = found.point
        u[rows], v[columns] = found.warm
        return found._replace(point=plan, warm=sinkhorn.Potentials(u, v))

    def linear_argmin(self, c: Array) -> Answer:
        """The transport problem without a regulariser, by linear programming. The bound is the
        value of a feasible dual.
        """
        xp = namespace(c)
        if self.mass == 0.0:
            return Answer(xp.zeros_like(c), 0.0, value=0.0)
        sinkhorn.height_of(c)  # an error where differences of costs are infinite
        # Constants in rows and columns change no plan, but drown the rest in an engine's absolute
        # tolerances.
        low = xp.min(c, axis=1)
        reduced = c - low[:, None]
        reduced = reduced - xp.min(reduced, axis=0)[None, :]
        height = float(xp.max(reduced)) or 1.0
        a = like(self.a, c)
        b = like(self.b, c)
        plan, u = LINPROG_ENGINES[self.engine](
            host(reduced) / height, host(a) / self.mass, host(b) / self.mass
        )
        # rows without weight say nothing about the other potentials
        loaded = a > 0
        u = height * like(u, c) + low
        v = xp.min(c[loaded, :] - u[loaded][:, None], axis=0)
        bound = dot(a[loaded], u[loaded]) + dot(b, v)
        magnitude = dot(a[loaded], xp.abs(u[loaded])) + dot(b, xp.abs(v))
        plan = self.rounded(self.mass * like(plan, c))
        return Answer(plan, bound, value=0.0, warm=sinkhorn.Potentials(u, v), magnitude=magnitude)
