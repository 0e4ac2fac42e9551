"""Plans that share a marginal, as barycentres of measures need them.

The set has a block X_k for each measure b_k, side by side: X_k >= 0, X_k' 1 = w_k b_k, and X_k 1 =
w_k p. The measure p is the barycentre; it is the same for all blocks and it is not given. The
entropic problem is min <c, X> + e sum X log X. For given row potentials u_k, the best column
potentials have a closed form. So the dual is a concave function of the u_k alone. With B = w_k b_k,

    v_kj = e (log B_kj - log sum_i exp((u_ki - c_ij)/e)),     D(u) = sum_k <B_k, v_k> + mass min_i sum_k w_k u_ki,

The last term is the minimum over p of the terms of X_k 1 = w_k p. Iterated Bregman projections
(Benamou, Carlier, Cuturi, Nenna and Peyre, SIAM J. Sci. Comput. 37, 2015) keep sum_k w_k u_k = 0.
They scale the columns to B, then the rows to the geometric mean of the row sums of all blocks. Each
of these is an exact ascent in one half of the variables. D proves how good the plans are, whatever
the number of passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from condgrad import _checks
from condgrad.arrays import Array, Space, dot, host, like, log_or_least, namespace, total
from condgrad.arrays.inputs import floating
from condgrad.problem import Answer, Set
from condgrad.rounding import SAME_MASS
from condgrad.sets.anderson import (
    MAX_PASSES,
    AcceleratedScaling,
    Certified,
    scaled_start,
)
from condgrad.sets.sinkhorn import height_of, normalised_rows
from condgrad.sets.transport import Transport
from condgrad.simple.entropy import negentropy


class SharedMarginal(Set):
    """{X = [X_1 ... X_K] : X_k >= 0, X_k' 1 = w_k b_k, X_1 1 / w_1 = ... = X_K 1 / w_K}.

    This is the set of the barycentre problem. Take all w_k = 1 first. Block k is then a plan from a
    measure p on n points to the measure b_k. The measure p is the same for all blocks, and it is
    not given. The blocks have n rows each and stand side by side.

    For other weights, block k is a scaled plan, X_k = w_k G_k. With costs C_k and an entropy e, the
    objective sum_k w_k (<C_k, G_k> + e sum G_k log G_k) of the plans is
    <[C_1 ... C_K], X> + e sum X log X, minus the constant e mass sum_k w_k log w_k.

    Parameters
    ----------
    n : int
        The number of points of the shared measure.
    marginals : sequence of arrays
        The measures b_k: weights >= 0. All must have the same sum, above 0; their lengths may
        differ.
    weights : array, optional
        w_k > 0; 1 by default.

    Examples
    --------
    Plans from one measure on three points to two measures. Both blocks have the same row sums:

    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.SharedMarginal(3, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> cost = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    >>> X = P.entropic_argmin(np.hstack([cost, cost]), 0.05).point
    >>> X[:, :3].sum(axis=1).round(3).tolist(), X[:, 3:].sum(axis=1).round(3).tolist()
    ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0])
    """

    nonnegative = True

    def __init__(self, n: int, marginals: Sequence[Any], *, weights: Any = None) -> None:
        self.n = _checks.whole("n", n, at_least=1)
        measures = _checked_marginals(marginals)
        if weights is None:
            weights = np.ones(len(measures))
        self.weights = host(floating("weights", weights, ndim=1))
        if len(self.weights) != len(measures) or not (self.weights > 0.0).all():
            raise ValueError(
                f"weights must be {len(measures)} numbers > 0, one for each marginal, got {weights!r}"
            )
        self.mass = total(measures[0])
        ends = np.cumsum([measure.shape[0] for measure in measures]).tolist()
        self.blocks = [
            slice(end - measure.shape[0], end) for measure, end in zip(measures, ends, strict=True)
        ]
        self.columns = namespace(measures[0]).concat(
            [w * measure for w, measure in zip(self.weights.tolist(), measures, strict=True)]
        )
        self.shape = (self.n, ends[-1])
        self.space = Space.of(self.columns, shape=self.shape)
        self.scale = self.largest_entry = float(namespace(self.columns).max(self.columns))

    def __repr__(self) -> str:
        return f"SharedMarginal({self.n} points, {len(self.blocks)} marginals)"

    def start(self, space: Space) -> Array:
        return space.full(1.0 / self.n) * like(self.columns, space.full(0.0))[None, :]

    def shared(self, x: Array) -> Array:
        """p, the marginal that the blocks of x share. If the marginals of the blocks differ, their
        mean.
        """
        return namespace(x).sum(self.block_sums(x), axis=1) / float(self.weights.sum())

    def block_sums(self, x: Array) -> Array:
        """The row sums of the blocks of x. The result has one column for each block."""
        xp = namespace(x)
        return xp.stack([xp.sum(x[:, block], axis=1) for block in self.blocks], axis=1)

    def kernel(self, u: Array, c: Array, weight: float) -> tuple[Array, Array]:
        """exp((u_k + v_k - c)/weight) for each block k, and v. This v makes all column sums exact."""
        xp = namespace(c)
        X = xp.empty_like(c)
        columns = like(self.columns, c)
        v = log_or_least(columns)
        for k, block in enumerate(self.blocks):
            exponent = u[:, k][None, :] - c[:, block].T
            exponent /= weight
            kernel, log_sums = normalised_rows(exponent, columns[block])
            X[:, block] = kernel.T
            v[block] -= log_sums
        return X, weight * v

    def violation(self, x: Array) -> float:
        xp = namespace(x)
        p = self.shared(x)
        rows = [
            float(xp.max(xp.abs(xp.sum(x[:, block], axis=1) - w * p)))
            for w, block in zip(self.weights.tolist(), self.blocks, strict=True)
        ]
        columns = float(xp.max(xp.abs(xp.sum(x, axis=0) - like(self.columns, x))))
        return max(0.0, -float(xp.min(x)), columns, *rows)

    def rounded(self, x: Array, p: Array) -> Array:
        """A point of the set with the shared marginal p, near a nonnegative x."""
        result = namespace(x).empty_like(x)
        columns = like(self.columns, x)
        for w, block in zip(self.weights.tolist(), self.blocks, strict=True):
            result[:, block] = Transport(w * p, columns[block]).rounded(x[:, block])
        return result

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        """Iterated Bregman projections. They start from the row potentials of the last answer."""
        passes = 0
        if warm is None:
            warm, passes = scaled_start(
                lambda t, u: BregmanProjections(self, c, t, u),
                namespace(c).zeros((self.n, len(self.blocks)), dtype=c.dtype, device=c.device),
                height=height_of(c),
                mass=self.mass,
                weight=weight,
            )
        run = BregmanProjections(self, c, weight, warm)
        found = run.solve(accuracy, MAX_PASSES)
        return found.answer._replace(inner_iterations=passes + run.passes)

    def linear_argmin(self, c: Array) -> Answer:
        """A linear program over the plans and p, solved by HiGHS. The bound is the value of a
        feasible dual.
        """
        from scipy.optimize import linprog

        # in plans G_k = X_k/w_k, whose rows sum to p: weights of different sizes are no matter for
        # the constraints
        blocks = self.blocks
        n = self.n
        width = self.shape[1]  # type: ignore[index]
        weights = np.repeat(self.weights, [block.stop - block.start for block in blocks])
        costs = host(c)
        columns = host(self.columns)
        weighted = costs * weights[None, :]
        height = float(np.abs(weighted).max()) or 1.0
        eye = scipy.sparse.eye_array(n)
        sums_of_columns = scipy.sparse.hstack(
            [
                scipy.sparse.kron(np.ones((1, n)), scipy.sparse.eye_array(width)),
                scipy.sparse.csr_array((width, n)),
            ]
        )
        sums_of_rows = []
        for block in blocks:
            inside = np.zeros((1, width))
            inside[0, block] = 1.0
            sums_of_rows.append(scipy.sparse.hstack([scipy.sparse.kron(eye, inside), -eye]))
        # all plans have the mass of p to the last digit, or HiGHS may call them a contradiction
        shares = np.concatenate([columns[block] / columns[block].sum() for block in blocks])
        program = {
            "c": np.concatenate([weighted.ravel() / height, np.zeros(n)]),
            "A_eq": scipy.sparse.vstack([sums_of_columns, *sums_of_rows], format="csr"),
            "b_eq": np.concatenate([shares, np.zeros(n * len(blocks))]),
        }
        solution = linprog(**program, bounds=(0, None), method="highs")
        if (
            solution.x is None
        ):  # its presolve may take a rounding unit in redundant equations for a contradiction
            solution = linprog(
                **program, bounds=(0, None), method="highs", options={"presolve": False}
            )
        if solution.x is None:
            raise RuntimeError(f"HiGHS found no barycentre: {solution.message}")
        u = (
            height
            * solution.eqlin.marginals[width:].reshape(len(blocks), n)
            / self.weights[:, None]
        )
        v = np.concatenate(
            [(costs[:, block] - u[k][:, None]).min(axis=0) for k, block in enumerate(blocks)]
        )
        price_of_p = self.weights @ u
        bound = float(columns @ v + self.mass * price_of_p.min())
        magnitude = float(columns @ np.abs(v) + self.mass * (self.weights @ np.abs(u)).max())
        p = np.clip(solution.x[n * width :], 0.0, None)
        p *= self.mass / p.sum()
        plans = (
            self.mass
            * weights[None, :]
            * np.clip(solution.x[: n * width], 0.0, None).reshape(n, width)
        )
        point = self.rounded(like(plans, c), like(p, c))
        return Answer(point, bound, value=0.0, warm=like(u.T, c), magnitude=magnitude)


def _checked_marginals(marginals: Any) -> list[Array]:
    if not isinstance(marginals, list | tuple) or len(marginals) == 0:
        raise TypeError(
            f"marginals must be a list of one or more arrays of weights, got {type(marginals).__name__}"
        )
    measures = [floating(f"marginals[{k}]", measure, ndim=1) for k, measure in enumerate(marginals)]
    if len({Space.of(measure).library for measure in measures}) > 1:
        raise TypeError("marginals must be all NumPy arrays or all torch tensors, got both")
    for k, measure in enumerate(measures):
        if measure.shape[0] == 0 or float(namespace(measure).min(measure)) < 0.0:
            raise ValueError(f"marginals[{k}] must hold one or more weights >= 0, got {measure!r}")
        mass = total(measure)
        first = total(measures[0])
        if not (mass > 0.0 and abs(mass - first) <= SAME_MASS * first):
            sums = f"marginals[0] sums to {first:.12g}, marginals[{k}] to {mass:.12g}"
            raise ValueError(f"marginals must have the same mass > 0: {sums}")
        if mass != first:
            measures[k] = measure * (first / mass)
    return measures


class ProjectionState(NamedTuple):
    """Log-scalings x of the rows, a column a block, with all that two products with the kernel
    tell.
    """

    x: Array
    columns: Array
    """Scaling of the columns, such that column sums are exact."""
    rows: Array
    """Row sums of the blocks over their weights: p, if all were equal."""
    mean: Array
    """Their weighted mean, whose mass is exact."""
    dual: float
    error: float
    """sum_k w_k |rows_k - mean|."""
    mapped: Array
    """The next x."""


class BregmanProjections(AcceleratedScaling):
    """Iterated Bregman projections on a kernel exp((u_k + v_k - c)/weight) with exact column sums."""

    def __init__(self, on: SharedMarginal, c: Array, weight: float, u: Array) -> None:
        xp = namespace(c)
        self.on = on
        self.c = c
        self.weight = weight
        self.B = like(on.columns, c)
        self.w = like(on.weights, c)
        self.share = self.w / xp.sum(self.w)
        super().__init__()
        self.restart(u)

    def restart(self, u: Array) -> None:
        """Put the potentials u into the kernel; scalings start from 1."""
        xp = namespace(u)
        u = u - (u @ self.share)[:, None]  # sum_k w_k u_k = 0
        self.u = u
        self.K, self.v = self.on.kernel(u, self.c, self.weight)
        self.passes += 1
        self.anderson.forget()
        self.state = self.evaluate(xp.zeros_like(u))

    def evaluate(self, x: Array) -> ProjectionState:
        xp = namespace(x)
        s = xp.exp(x)
        columns = xp.empty_like(self.B)
        rows = xp.empty_like(x)
        loaded = self.B > 0.0  # a column without weight has a kernel of zeros
        for k, block in enumerate(self.on.blocks):
            sums = self.K[:, block].T @ s[:, k]
            columns[block] = xp.where(
                loaded[block], self.B[block] / xp.where(loaded[block], sums, 1.0), 1.0
            )
            rows[:, k] = s[:, k] * (self.K[:, block] @ columns[block]) / self.w[k]
        mean = rows @ self.share
        error = total(xp.abs(rows - mean[:, None]) @ self.w)
        logs = log_or_least(rows)
        mapped = x + (logs @ self.share)[:, None] - logs
        self.passes += 1
        dual = self.dual(x, columns)
        return ProjectionState(x, columns, rows, mean, dual, error, mapped)

    def dual(self, x: Array, columns: Array) -> float:
        xp = namespace(x)
        v = self.v + self.weight * xp.log(columns)
        price_of_p = (self.u + self.weight * x) @ self.w  # 0 up to rounding
        return dot(self.B, xp.where(self.B > 0.0, v, 0.0)) + self.on.mass * float(
            xp.min(price_of_p)
        )

    @property
    def absorbed(self) -> Array:
        return self.u

    def certified(self) -> Certified:
        """The scaled kernel, whose columns are exact, with rows made equal."""
        xp = namespace(self.K)
        X = xp.empty_like(self.K)
        s = xp.exp(self.state.x)
        for k, block in enumerate(self.on.blocks):
            X[:, block] = s[:, k][:, None] * self.K[:, block] * self.state.columns[block][None, :]
        point = self.on.rounded(X, self.state.mean)
        value = self.weight * negentropy(point)
        bound = self.state.dual
        answer = Answer(point, bound, value, warm=self.potential, magnitude=self.magnitude)
        return Certified(answer, dot(self.c, point) + value - bound)

    @property
    def magnitude(self) -> float:
        """The size of the dual's terms: potentials, and the logarithms of the sums of exponentials
        behind them.
        """
        size = namespace(self.u).abs
        loaded = self.B > 0.0
        v = namespace(self.u).where(loaded, self.v, 0.0)
        logarithms = (
            self.weight * total(self.B) * (1.0 + math.log2(self.c.shape[0] * self.c.shape[1]))
        )
        of_u = dot(self.state.mean, size(self.potential) @ self.w)
        return dot(self.B, size(v)) + of_u + logarithms
