"""Polytopes given by linear constraints, with HiGHS as the oracle and a bound from its dual.

    P = {x : A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}

For all y_ub <= 0 and y_eq, with r = c - A_ub'y_ub - A_eq'y_eq,

    min over P of <c, s> >= <b_ub, y_ub> + <b_eq, y_eq> + sum_j min(r_j lower_j, r_j upper_j).

We call the dual variables y *prices*. So prices prove a bound however inexact they are, as long as
every coordinate has finite bounds. If the user gives none, the constraints imply some, or P is not
bounded.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.arrays import Array, Matrix, Space, double, host, like
from condgrad.arrays.inputs import data_matrix, floating
from condgrad.errors import NotFiniteError
from condgrad.problem import Answer, Set
from condgrad.sets.barrier import OUTSIDE, Inequalities, InnerPoint, in_fast_form

PROPAGATIONS = 10
"""How often all rows are searched for bounds that they imply. Linear programs find the others."""
WIDER = 1e-9
"""A bound that a row implies is moved outwards by this share of the size of its terms, to allow for
rounding."""
THIN = 1e-6
"""If no point has all its slacks above this, in the unit of the set, the set may be empty: then a
proof of that is looked for. HiGHS' own tolerances are a tenth of it.
"""
FAR_ROW = 2.0
"""A row is dropped if its right-hand side is at least this many times the sum of its largest terms:
no point within the bounds comes near it.
"""
FREE = (-math.inf, math.inf)
HIGHS_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""The smallest tolerances that HiGHS takes. With its default, 1e-7, it may find a point of an empty
set, if this point misses the constraints by less."""


class Prices(NamedTuple):
    """The dual variables of a linear program."""

    ub: Any
    """The prices of the inequalities, at most 0."""
    eq: Any


class Polytope(Set):
    """{x : A_ub x <= b_ub, A_eq x = b_eq, and x within bounds}.

    The arguments are those of `scipy.optimize.linprog`. An empty or unbounded set is an error.
    HiGHS solves the linear problems. The lower bounds come from the dual problem, so they hold
    whatever the tolerance of HiGHS.

    Parameters
    ----------
    A_ub : matrix, dense or sparse, shape (rows, n), optional
        The inequalities.
    b_ub : array, shape (rows,), optional
        Their right-hand sides.
    A_eq : matrix, dense or sparse, shape (rows, n), optional
        The equations.
    b_eq : array, shape (rows,), optional
        Their right-hand sides.
    bounds : pair, or sequence of n pairs
        The smallest and the largest value of each coordinate. None means that there is no bound.
        One pair is used for all coordinates. As in SciPy, the default is (0, None): x >= 0.

    Examples
    --------
    A portfolio: the weights sum to 1, and none is above a half.

    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.Polytope(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0], bounds=(0.0, 0.5))
    >>> P.linear_argmin(np.array([-3.0, -2.0, -1.0])).point.tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        bounds: Any = (0, None),
    ) -> None:
        A_ub, self.b_ub = _rows("ub", A_ub, b_ub)
        A_eq, self.b_eq = _rows("eq", A_eq, b_eq)
        n = _dimension(A_ub, A_eq, bounds)
        self.A_ub: Matrix = _sparse(A_ub, n)
        self.A_eq: Matrix = _sparse(A_eq, n)
        self.lower, self.upper = _pairs(bounds, n)
        self._leave_out_far_rows()
        self.shape = (n,)
        self._divisor = self._scale_rows()
        """In this unit of x the size of the set is about 1, as the absolute tolerances of HiGHS
        assume.
        """
        self._bounds = np.column_stack([self.lower, self.upper])
        """The bounds of the user, for HiGHS. `lower` and `upper` become finite below."""
        self._imply_bounds()
        self._center, self._slack = self._inner_point()
        if not self._is_bounded:
            self._bound_by_programs()
        largest = self._divisor * float(np.maximum(np.abs(self.lower), np.abs(self.upper)).max())
        self.largest_entry = largest
        self.scale = largest or 1.0
        self.smallest_entry = self._divisor * float(self.lower.min())
        self.nonnegative = bool((self.lower >= 0.0).all())

    def _leave_out_far_rows(self) -> None:
        """Leave out rows that no point within the bounds comes near.

        They exclude nothing, and would make the unit of the set too large.
        """
        farthest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        is_near = ~(self.b_ub >= FAR_ROW * (abs(self.A_ub) @ farthest))
        if not is_near.all():
            self.A_ub = self.A_ub[is_near]
            self.b_ub = self.b_ub[is_near]

    def _scale_rows(self) -> float:
        """Scale rows to length 1 and right-hand sides to size 1, by powers of 2: that is exact."""
        sizes = [np.ones(0)]
        for A, b in ((self.A_ub, self.b_ub), (self.A_eq, self.b_eq)):
            lengths = np.sqrt((A * A).sum(axis=1))
            factors = _power_of_2(np.where(lengths > 0.0, lengths, 1.0))
            A.data /= np.repeat(factors, np.diff(A.indptr))
            b /= factors
            sizes.append(np.abs(b))
        sizes += [np.abs(each[np.isfinite(each)]) for each in (self.lower, self.upper)]
        divisor = float(_power_of_2(np.concatenate(sizes).max(initial=0.0) or 1.0))
        for each in (self.b_ub, self.b_eq, self.lower, self.upper):
            each /= divisor
        return divisor

    def __repr__(self) -> str:
        rows = f"{self.A_ub.shape[0]} inequalities, {self.A_eq.shape[0]} equations"
        return f"Polytope({len(self.lower)} coordinates, {rows})"

    def start(self, space: Space) -> Array:
        return like(self._divisor * self._center, space.full(0.0))

    def violation(self, x: Array) -> float:
        """About the largest distance of x to a half-space, hyperplane or bound that it violates."""
        return self._divisor * self._violation(double(host(x)) / self._divisor)

    def _violation(self, at: Any) -> float:
        outside = [self.lower - at, at - self.upper]
        outside += [self.A_ub @ at - self.b_ub, np.abs(self.A_eq @ at - self.b_eq)]
        return max(0.0, *(float(each.max(initial=0.0)) for each in outside))

    def linear_argmin(self, c: Array) -> Answer:
        costs = double(host(c))
        size = float(np.abs(costs).max())
        if not math.isfinite(size):
            raise NotFiniteError(f"the slopes of f became {size}")
        if size == 0.0:
            return Answer(like(self._divisor * self._center, c), 0.0, value=0.0)
        found = self._linprog(costs / size)
        if found.x is None:
            raise RuntimeError(f"HiGHS found no point of {self!r}: {found.message}")
        bound, magnitude = (
            self._divisor * each for each in self._bound(costs, _prices(found, size))
        )
        point = like(self._divisor * self._inside(found.x), c)
        return Answer(point, bound, value=0.0, magnitude=magnitude)

    def priced(self, c: Array, prices: Prices) -> Answer:
        """The lower bound on <c, s> that given prices (dual variables) prove.

        The point of the answer is only feasible, not a minimiser.
        """
        costs = double(host(c))
        prices = Prices(np.minimum(prices.ub, 0.0), prices.eq)
        bound, magnitude = (self._divisor * each for each in self._bound(costs, prices))
        farthest = self._divisor * np.maximum(np.abs(self.lower), np.abs(self.upper))
        start = like(self._divisor * self._center, c)
        witness = like(farthest, c)
        return Answer(start, bound, value=0.0, magnitude=magnitude, witness=witness)

    # --- the inside, without the coordinates that the bounds fix, and in the unit of the set

    @cached_property
    def inside(self) -> Inequalities | None:
        """The set in the form for interior-point methods. None if (almost) no point is strictly
        inside.
        """
        return self._make_inside() if self._slack > THIN and len(self._free) else None

    def _make_inside(self) -> Inequalities:
        at = self.lower.copy()
        at[self._free] = 0.0
        A, E = (in_fast_form(each[:, self._free]) for each in (self.A_ub, self.A_eq))
        b = self.b_ub - self.A_ub @ at
        e = self.b_eq - self.A_eq @ at
        return Inequalities(A, b, E, e, self.lower[self._free], self.upper[self._free])

    @property
    def _free(self) -> Any:
        return np.flatnonzero(self.lower < self.upper)

    @property
    def centre(self) -> Any:
        """A point strictly inside, in the coordinates of the set."""
        return self._divisor * self._center

    def inner(self, x: Any) -> Any:
        """A point x of the set, converted to the coordinates that interior-point methods use."""
        return x[self._free] / self._divisor

    def outer(self, v: Any) -> Any:
        """The inverse of `inner`: it converts a point v of an interior-point method to a point of
        the set.
        """
        return self._divisor * self._whole(v)

    def _whole(self, v: Any) -> Any:
        """The free coordinates together with those that the bounds fix."""
        x = self.lower.copy()
        x[self._free] = v
        return x

    def inner_rows(self, K: Matrix) -> Matrix:
        """Rows of a matrix, or a gradient, converted to the coordinates of `inner`."""
        return self._divisor * K[..., self._free]

    inner_slope = inner_rows

    def prices_at(self, at: InnerPoint | None, divisor: float) -> Prices:
        """The prices (dual variables) at a point of an interior-point method; 0 without a point.

        The method computes with F / `divisor`. So its prices are multiplied by `divisor`.
        """
        if at is None:
            return Prices(np.zeros(len(self.b_ub)), np.zeros(len(self.b_eq)))
        factor = -divisor / self._divisor
        return Prices(factor * at.z[: len(self.b_ub)], factor * at.y)

    def _linprog(self, costs: Any) -> Any:
        has_ub = self.A_ub.shape[0] > 0
        has_eq = self.A_eq.shape[0] > 0
        return _solved_program(
            costs,
            A_ub=self.A_ub if has_ub else None,
            b_ub=self.b_ub if has_ub else None,
            A_eq=self.A_eq if has_eq else None,
            b_eq=self.b_eq if has_eq else None,
            bounds=self._bounds,
        )

    def _reduced(self, costs: Any, prices: Prices) -> tuple[Any, Any]:
        """c - A_ub'y_ub - A_eq'y_eq, and the size of its terms."""
        r = costs - self.A_ub.T @ prices.ub - self.A_eq.T @ prices.eq
        of_ub, of_eq = self._sizes
        return r, np.abs(costs) + of_ub @ np.abs(prices.ub) + of_eq @ np.abs(prices.eq)

    @cached_property
    def _sizes(self) -> tuple[Matrix, Matrix]:
        """|A_ub'| and |A_eq'|."""
        return abs(self.A_ub).T, abs(self.A_eq).T

    def _bound(self, costs: Any, prices: Prices) -> tuple[float, float]:
        """The bound that prices prove, and the size of its terms."""
        r, size = self._reduced(costs, prices)
        bound = self.b_ub @ prices.ub + self.b_eq @ prices.eq
        bound += np.minimum(r * self.lower, r * self.upper).sum()
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        rows = np.abs(self.b_ub) @ np.abs(prices.ub) + np.abs(self.b_eq) @ np.abs(prices.eq)
        return float(bound), float(rows + size @ largest)

    # --- a point of the set

    def _inner_point(self) -> tuple[Any, float]:
        """A point well inside all inequalities and bounds, and its smallest slack; an error if P is
        empty.
        """
        is_free = self.lower < self.upper
        if self._is_bounded and is_free.any() and (is_free | (self.lower == self.upper)).all():
            inside = self._make_inside()
            v = inside.centre()
            if v is not None:
                slack = float(inside.slacks(v).min())
                if slack > THIN:
                    return self._whole(v), slack
        return self._farthest_inside()

    def _farthest_inside(self) -> tuple[Any, float]:
        """A point with the largest possible smallest slack, by a linear program."""
        n = len(self.lower)
        ub = scipy.sparse.hstack([self.A_ub, np.ones((self.A_ub.shape[0], 1))], format="csr")
        eq = scipy.sparse.hstack([self.A_eq, np.zeros((self.A_eq.shape[0], 1))], format="csr")
        identity = scipy.sparse.eye_array(n, format="csr")
        ones = np.ones((n, 1))
        lower, upper = self._bounds.T
        is_pinned = lower == upper
        has_lower = np.isfinite(lower) & ~is_pinned
        has_upper = np.isfinite(upper) & ~is_pinned
        below = scipy.sparse.hstack([-identity, ones], format="csr")[has_lower]
        above = scipy.sparse.hstack([identity, ones], format="csr")[has_upper]
        found = _solved_program(
            np.append(np.zeros(n), -1.0),
            A_ub=scipy.sparse.vstack([ub, below, above], format="csr"),
            b_ub=np.concatenate([self.b_ub, -lower[has_lower], upper[has_upper]]),
            A_eq=eq if self.A_eq.shape[0] else None,
            b_eq=self.b_eq if self.A_eq.shape[0] else None,
            bounds=np.vstack([np.where(is_pinned[:, None], self._bounds, FREE), [[0.0, 1.0]]]),
        )
        slack = 0.0 if found.x is None else float(found.x[-1])
        if slack <= THIN:
            self._refuse_if_empty()
        if found.x is None:
            raise ValueError(f"the constraints have no solution: {found.message}")
        return np.clip(found.x[:n], self.lower, self.upper), slack

    def _refuse_if_empty(self) -> None:
        """An error if weights of the constraints prove that P is empty (Farkas' lemma).

        A linear program minimises the sum of all violations of the constraints over the x within
        the bounds. If its prices prove that this sum is above 0, P is empty.
        """
        n = len(self.lower)
        p = self.A_ub.shape[0]
        q = self.A_eq.shape[0]
        missed = scipy.sparse.eye_array(p)
        off = scipy.sparse.eye_array(q)
        found = _solved_program(
            np.concatenate([np.zeros(n), np.ones(p + 2 * q)]),
            A_ub=scipy.sparse.hstack([self.A_ub, -missed, scipy.sparse.csr_array((p, 2 * q))]),
            b_ub=self.b_ub,
            A_eq=scipy.sparse.hstack([self.A_eq, scipy.sparse.csr_array((q, p)), off, -off]),
            b_eq=self.b_eq,
            bounds=[*self._bounds, *[(0.0, None)] * (p + 2 * q)],
        )
        if found.x is None:
            return
        prices = _prices(found, 1.0)
        most = max(
            1.0,
            float(np.abs(prices.ub).max(initial=0.0)),
            float(np.abs(prices.eq).max(initial=0.0)),
        )
        scaled = Prices(prices.ub / most, prices.eq / most)
        sum_missed, _, size = self._partial_bound(np.zeros(n), scaled)
        if sum_missed > OUTSIDE * size:
            raise ValueError(
                "the constraints have no solution: every x within the bounds violates them by "
                f"{self._divisor * sum_missed:.3g} or more in total"
            )

    def _inside(self, x: Any) -> Any:
        """A solution of a linear program, moved into P if the tolerances left it outside.

        The shortest move makes the equations hold. A move towards the centre makes the inequalities
        and bounds hold, if the centre is strictly inside.
        """
        at = np.clip(x, self.lower, self.upper)
        missed = self.b_eq - self.A_eq @ at
        if np.abs(missed).max(initial=0.0) > OUTSIDE:
            at = at + np.linalg.lstsq(self.A_eq.toarray(), missed, rcond=None)[0]
        if self._violation(at) > OUTSIDE and self._slack > 0.0:
            slacks = self._slacks(at)
            is_outside = slacks < 0.0
            outside = -slacks[is_outside]
            room = np.maximum(self._slacks(self._center)[is_outside], 0.0)
            share = float((outside / (outside + room)).max(initial=0.0))
            at = (1.0 - share) * at + share * self._center
        return at

    def _slacks(self, at: Any) -> Any:
        return np.concatenate([self.b_ub - self.A_ub @ at, at - self.lower, self.upper - at])

    # --- bounds of every coordinate

    def _imply_bounds(self) -> None:
        """Give finite bounds to coordinates if single rows imply them."""
        for A, b, is_equation in ((self.A_ub, self.b_ub, False), (self.A_eq, self.b_eq, True)):
            for _ in range(PROPAGATIONS):
                if not A.shape[0] or self._is_bounded or not self._propagate(A, b):
                    break
                if is_equation:
                    self._propagate(-A, -b)

    @property
    def _is_bounded(self) -> bool:
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def _propagate(self, A: Matrix, b: Any) -> bool:
        """Give bounds to coordinates that have none if a single row implies them. Returns whether
        there was a new bound.

        A row implies a_j x_j <= b_i - (the smallest value of all other terms), if that is finite.
        """
        is_new = False
        for i in range(A.shape[0]):
            part = slice(A.indptr[i], A.indptr[i + 1])
            columns = A.indices[part][A.data[part] != 0.0]
            entries = A.data[part][A.data[part] != 0.0]
            ends = np.where(entries > 0.0, self.lower[columns], self.upper[columns])
            unknown = np.flatnonzero(~np.isfinite(ends))
            if len(unknown) > 1:
                continue
            terms = entries * np.where(np.isfinite(ends), ends, 0.0)
            margin = WIDER * (abs(float(b[i])) + np.abs(terms).sum())
            limits = (float(b[i]) - (terms.sum() - terms) + margin) / entries
            of = unknown if len(unknown) else np.arange(len(columns))
            for ends, signed in (
                (self.upper, of[entries[of] > 0.0]),
                (self.lower, of[entries[of] < 0.0]),
            ):
                new = signed[~np.isfinite(ends[columns[signed]])]
                ends[columns[new]] = limits[new]
                is_new = is_new or len(new) > 0
        return is_new

    def _bound_by_programs(self) -> None:
        """Give bounds to the other coordinates by two linear programs each.

        Their prices prove |x_j| <= limit_j + sum_k error_jk |x_k|. Here k runs over coordinates
        without a bound, and error_jk is the reduced cost of k, which should be 0 and is not quite.
        If sum_k error_jk < 1/2 for every j, then |x_j| is at most twice the largest limit.
        """
        is_free = ~(np.isfinite(self.lower) & np.isfinite(self.upper))
        limits = []
        errors = []
        for j in np.flatnonzero(is_free):
            for sign in (1.0, -1.0):
                direction = np.zeros(len(is_free))
                direction[j] = sign
                found = self._linprog(direction)
                if found.x is None:
                    size = "small" if sign > 0.0 else "large"
                    raise ValueError(
                        f"the set is not bounded: x[{j}] may be as {size} as one likes; give bounds, "
                        "as in bounds=(0, 1)"
                    )
                limit, error, _ = self._partial_bound(direction, _prices(found, 1.0))
                limits.append(abs(limit))
                errors.append(error)
        if max(errors) >= 0.5:
            raise ValueError(
                "the set could not be proved to be bounded: give bounds for every coordinate"
            )
        limit = 2.0 * max(limits)
        self.lower = np.maximum(self.lower, -limit)
        self.upper = np.minimum(self.upper, limit)

    def _partial_bound(self, costs: Any, prices: Prices) -> tuple[float, float, float]:
        """Three numbers: the bound that prices prove, without the terms r_k x_k of coordinates that
        have no bound; the sum of |r_k| of these; and the size of the bound's terms.
        """
        r, size = self._reduced(costs, prices)
        ends = np.where(r > 0.0, self.lower, self.upper)
        is_finite = np.isfinite(ends)
        finite_ends = ends[is_finite]
        bound = self.b_ub @ prices.ub + self.b_eq @ prices.eq + r[is_finite] @ finite_ends
        rows = np.abs(self.b_ub) @ np.abs(prices.ub) + np.abs(self.b_eq) @ np.abs(prices.eq)
        terms = rows + size[is_finite] @ np.abs(finite_ends)
        return float(bound), float(np.abs(r[~is_finite]).sum()), float(terms)


def _solved_program(costs: Any, **constraints: Any) -> Any:
    """HiGHS' answer to a linear program; its point is None if it found none.

    At its smallest tolerances it sometimes gives up, or calls a set empty because of rounding. What
    follows from an answer here holds at every tolerance.
    """
    from scipy.optimize import linprog

    for options in (HIGHS_TOLERANCES, {}):
        found = linprog(costs, options=options, **constraints)
        if found.x is not None:
            break
    return found


def _prices(found: Any, factor: float) -> Prices:
    """The dual variables that HiGHS has found, times what the costs were divided by."""
    ub = np.minimum(np.asarray(found.ineqlin.marginals, float), 0.0)
    return Prices(factor * ub, factor * np.asarray(found.eqlin.marginals, float))


def _power_of_2(size: Any) -> Any:
    """The power of 2 nearest to a size, or to each of several."""
    return np.exp2(np.round(np.log2(size)))


def _rows(kind: str, A: Any, b: Any) -> tuple[Any, Any]:
    """The matrix and the right-hand side of one kind of constraints, checked; None and an empty
    array if there are none.
    """
    if (A is None) != (b is None):
        missing, given = (f"A_{kind}", f"b_{kind}") if A is None else (f"b_{kind}", f"A_{kind}")
        raise ValueError(f"{missing} is missing where {given} is given")
    if A is None:
        return None, np.zeros(0)
    A = data_matrix(f"A_{kind}", A)
    b = np.array(double(host(floating(f"b_{kind}", b, ndim=1))))
    if A.shape[0] != len(b):
        raise ValueError(
            f"b_{kind} must have one entry for each of the {A.shape[0]} rows, got {len(b)}"
        )
    return A, b


def _dimension(A_ub: Any, A_eq: Any, bounds: Any) -> int:
    """The number of coordinates, by the matrices and the bounds."""
    sizes = {name: A.shape[1] for name, A in (("A_ub", A_ub), ("A_eq", A_eq)) if A is not None}
    if not _is_one_pair(bounds):
        sizes["bounds"] = len(bounds)
    if not sizes:
        raise ValueError(
            "A_ub, A_eq or a pair of bounds for each coordinate is needed, got none of them"
        )
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise ValueError(f"the number of coordinates must be the same, got {told}")
    return _checks.whole("the number of coordinates", next(iter(sizes.values())), at_least=1)


def _is_one_pair(bounds: Any) -> bool:
    return len(bounds) == 2 and all(each is None or np.ndim(each) == 0 for each in bounds)


def _pairs(bounds: Any, n: int) -> tuple[Any, Any]:
    """The lower and the upper bounds; infinite if there are none."""
    pairs = [bounds] * n if _is_one_pair(bounds) else list(bounds)
    lower = np.empty(n)
    upper = np.empty(n)
    for j, pair in enumerate(pairs):
        low, high = pair
        lower[j] = -math.inf if low is None else float(low)
        upper[j] = math.inf if high is None else float(high)
        if not lower[j] <= upper[j] or lower[j] == math.inf or upper[j] == -math.inf:
            raise ValueError(f"bounds must be pairs with lower <= upper, got {pair!r} for x[{j}]")
    return lower, upper


def _sparse(A: Any, n: int) -> Matrix:
    """The matrix in the sparse format by rows; it has no rows if there is no matrix."""
    return (
        scipy.sparse.csr_array((0, n))
        if A is None
        else scipy.sparse.csr_array(A, dtype=np.float64, copy=True)
    )
