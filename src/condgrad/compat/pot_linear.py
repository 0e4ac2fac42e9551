"""POT's functions for transport without further regularisers: `ot.solve`, `ot.solve_sample`,
`ot.sinkhorn`, `ot.sinkhorn2`, `ot.emd`, `ot.emd2`, `ot.dist`, `ot.unif`; `compat.pot` has them all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from condgrad import _checks
from condgrad.arrays import Array, is_torch, like, namespace
from condgrad.arrays.inputs import floating
from condgrad.result import Result
from condgrad.transport.solve import beside, weights_like
from condgrad.transport.solve import solve as solve_transport
from condgrad.transport.unbalanced import RelaxedPlan, unbalanced


@dataclass(frozen=True, eq=False)
class OTResult:
    """The result of `solve` and `solve_sample`: POT's fields, and the certificate.

    Attributes
    ----------
    plan : array, shape (n, m)
        The plan. It is exactly 0 at pairs of infinite cost.
    value, value_linear : float
        The objective as POT defines it, and <M, plan>.
    potentials : pair of arrays, optional
        Row and column potentials, also as `potential_a` and `potential_b`. None for unbalanced
        transport.
    status : str
        Why the run ended.
    result : Result
        The run. Its `gap` and `lower_bound` are for the objective <M, G> + reg sum G log G, which
        may differ from `value` by a constant. For unbalanced transport they are for the objective
        of `transport.unbalanced`.

    Examples
    --------
    >>> from condgrad.compat.pot import solve
    >>> found = solve([[0.0, 1.0], [1.0, 0.0]], reg=0.1)
    >>> found.plan.round(3).tolist(), found.gap < 1e-6
    ([[0.5, 0.0], [0.0, 0.5]], True)
    """

    plan: Array
    value: Any
    value_linear: Any
    potentials: tuple[Array, Array] | None
    result: Result

    @property
    def gap(self) -> float:
        """The objective is at most this far above its minimum, for every status."""
        return self.result.gap

    @property
    def lower_bound(self) -> float:
        """A lower bound on the minimum of the objective of the run; see `result`."""
        return self.result.lower_bound

    @property
    def status(self) -> str:
        """Why the run ended."""
        return str(self.result.status)

    @property
    def potential_a(self) -> Array:
        """The potentials of the sources."""
        return None if self.potentials is None else self.potentials[0]

    @property
    def potential_b(self) -> Array:
        """The potentials of the targets."""
        return None if self.potentials is None else self.potentials[1]

    @property
    def marginals(self) -> tuple[Array, Array]:
        """Row and column sums of the plan."""
        return self.marginal_a, self.marginal_b

    @property
    def marginal_a(self) -> Array:
        """The row sums of the plan."""
        return self.plan.sum(1)

    @property
    def marginal_b(self) -> Array:
        """The column sums of the plan."""
        return self.plan.sum(0)

    def __repr__(self) -> str:
        n, m = self.plan.shape
        return f"OTResult({n} x {m}, {self.status}, value={float(self.value):.10g}, gap={self.gap:.3g})"


def solve(
    M: Any,
    a: Any = None,
    b: Any = None,
    reg: float | None = None,
    c: Any = None,
    reg_type: str = "KL",
    unbalanced: Any = None,
    unbalanced_type: str = "KL",
    method: str | None = None,  # noqa: ARG001
    n_threads: int = 1,  # noqa: ARG001
    max_iter: int | None = None,
    plan_init: Any = None,
    potentials_init: Any = None,
    tol: float | None = None,
    verbose: bool = False,
    grad: str = "autodiff",  # noqa: ARG001
) -> OTResult:
    """`ot.solve`: exact, entropic and unbalanced transport, with a certificate.

    Parameters
    ----------
    M : array, shape (n, m)
        The cost. Pairs with +inf may not be matched.
    a, b : array, optional
        Weights of sources and targets; uniform by default.
    reg : float, optional
        Weight of the entropy; none by default.
    c : array, optional
        It must be None: the entropy cannot be relative to a plan of your own.
    reg_type : {"KL", "entropy"}
        Both give the same plan. They differ by a constant in `value`.
    unbalanced : float or pair, optional
        The weight of a penalty if the marginals differ from a and b. The penalty is the relative
        entropy between them. It needs a `reg`. With this penalty, `reg_type`, `verbose`,
        `plan_init` and `potentials_init` have no effect.
    unbalanced_type : {"KL"}
        The kind of this penalty; only relative entropy.
    method, n_threads, grad
        Accepted without effect. For gradients use `transport.loss(cost=M)`.
    max_iter : int, optional
        The largest number of iterations.
    plan_init, potentials_init : optional
        Where to start.
    tol : float, optional
        Tolerance for the certified gap divided by the scale of the objective; 1e-8 by default.
    verbose : bool
        Show a live line on the terminal.

    Returns
    -------
    OTResult

    Examples
    --------
    >>> from condgrad.compat.pot import solve
    >>> solve([[0.0, 1.0], [1.0, 0.0]]).plan.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    if c is not None:
        raise ValueError("c must be None: here the entropy is relative to a b'")
    for name, given, allowed in (
        ("reg_type", reg_type, ("kl", "entropy")),
        ("unbalanced_type", unbalanced_type, ("kl",)),
    ):
        if str(given).lower() not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {given!r}")
    C = floating("M", M, ndim=2, with_infinity=True)
    reg = 0.0 if reg is None else _checks.number("reg", reg, at_least=0.0)
    limits: dict[str, Any] = {"tol": 1e-8 if tol is None else tol}
    if max_iter is not None:
        limits["max_iter"] = max_iter
    a = _pot_weights("a", a, C, 0)
    b = _pot_weights("b", b, C, 1)
    if unbalanced is not None:
        return _unbalanced(C, a, b, reg, unbalanced, limits)
    start = plan_init if potentials_init is None else tuple(potentials_init)
    found = solve_transport(C, a, b, entropy=reg, start=start, progress=verbose, **limits)
    _warn_if_short("solve", found.result)
    xp = namespace(C)
    plan = found.plan
    finite = xp.where(xp.isfinite(C), C, 0.0)
    linear = float(xp.sum(finite * plan))
    value = linear + reg * _entropy(plan, a, b, kl=str(reg_type).lower() == "kl")
    return OTResult(plan, value, linear, tuple(found.potentials), found.result)


def _unbalanced(
    C: Array, a: Array, b: Array, reg: float, penalty: Any, limits: dict[str, Any]
) -> OTResult:
    if reg == 0.0:
        raise ValueError("unbalanced needs a reg > 0: the weight of the entropy")
    found: RelaxedPlan = unbalanced(C, a, b, entropy=reg, penalty=penalty, **limits)
    _warn_if_short("solve", found.result)
    linear = float(namespace(C).sum(C * found.plan))
    return OTResult(found.plan, found.value, linear, None, found.result)


def _entropy(plan: Array, a: Array, b: Array, *, kl: bool) -> float:
    """KL(plan | a b'), or sum plan log plan."""
    xp = namespace(plan)
    against = a[:, None] * b[None, :] if kl else xp.ones_like(plan)
    some = plan > 0.0
    logarithms = xp.log(xp.where(some, plan, 1.0)) - xp.log(xp.where(some, against, 1.0))
    result = float(xp.sum(plan * logarithms))
    return result + float(xp.sum(against) - xp.sum(plan)) if kl else result


def _pot_weights(name: str, weights: Any, C: Array, axis: int) -> Array:
    """POT takes None and an empty list for uniform weights."""
    given = None if weights is None or len(weights) == 0 else weights
    return weights_like(name, given, C, C.shape, axis)


def _warn_if_short(name: str, result: Result) -> None:
    result.uninterrupted()
    if not result.success:
        warnings.warn(
            f"{name} ended after {result.iterations} iterations within {result.gap:.3g} of the "
            "minimum; allow more iterations or a larger tolerance",
            stacklevel=3,
        )


def solve_sample(
    X_a: Any,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    reg: float | None = None,
    **options: Any,
) -> OTResult:
    """`ot.solve_sample`: `solve` between points.

    Parameters
    ----------
    X_a, X_b : arrays, shapes (n, d) and (m, d)
        Source and target points.
    a, b, reg
        As in `solve`.
    metric : str
        As in `dist`.
    **options
        The other arguments of `solve`.

    Returns
    -------
    OTResult

    Examples
    --------
    >>> from condgrad.compat.pot import solve_sample
    >>> solve_sample([[0.0], [1.0]], [[2.0], [3.0]]).value
    4.0
    """
    return solve(dist(X_a, X_b, metric=metric), a, b, reg, **options)


def dist(
    x1: Any, x2: Any = None, metric: str = "sqeuclidean", p: float = 2.0, w: Any = None
) -> Any:
    """`ot.dist`: the costs between points.

    Parameters
    ----------
    x1, x2 : arrays, shapes (n, d) and (m, d)
        The points. By default x2 is x1.
    metric : str
        The cost, by its name in `scipy.spatial.distance.cdist`. For tensors, the names are
        "sqeuclidean", "euclidean", "cityblock" and "chebyshev".
    p, w
        The power of "minkowski", and the weights of "wminkowski".

    Returns
    -------
    array, shape (n, m)

    Examples
    --------
    >>> from condgrad.compat.pot import dist
    >>> dist([[0.0], [1.0]], [[3.0]]).tolist()
    [[9.0], [4.0]]
    """
    from condgrad.transport.estimators import _distances

    X = floating("x1", x1, ndim=2)
    Y = X if x2 is None else beside("x2", x2, X, ndim=2)
    if is_torch(X):
        return _distances(X, Y, metric)
    options: dict[str, Any] = {"p": p} if metric == "minkowski" else {}
    return cdist(X, Y, metric, **options) if w is None else cdist(X, Y, metric, w=w, **options)


def unif(n: int, type_as: Any = None) -> Any:
    """`ot.unif`: n weights of 1/n.

    Parameters
    ----------
    n : int
        The number of weights.
    type_as : array, optional
        The weights get its library, precision and device. By default they are a NumPy array of
        float64.

    Returns
    -------
    array, shape (n,)

    Examples
    --------
    >>> from condgrad.compat.pot import unif
    >>> unif(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    weights = np.full(_checks.whole("n", n, at_least=1), 1.0 / n)
    return weights if type_as is None else like(weights, type_as)


def sinkhorn(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",  # noqa: ARG001
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,  # noqa: ARG001
    **options: Any,  # noqa: ARG001
) -> Any:
    """`ot.sinkhorn`: the entropic plan, with exact marginals.

    Parameters
    ----------
    a, b : array
        Weights. An empty list means uniform weights.
    M : array, shape (n, m)
        The cost.
    reg : float
        Weight of the entropy, above 0.
    numItermax, stopThr
        The largest number of iterations, and the tolerance for the certified gap divided by the
        scale of the objective.
    verbose, log : bool
        Show a live line on the terminal; also return the log.
    warn : bool
        Whether to warn if the plan does not reach its tolerance.
    method, warmstart, **options
        Accepted without effect.

    Returns
    -------
    plan : array, shape (n, m)
        The plan.
    log : dict
        Only with `log=True`. It has `u` and `v`, their logarithms, `niter`, `err` and `gap`.

    Examples
    --------
    >>> from condgrad.compat.pot import sinkhorn
    >>> sinkhorn([], [], [[0.0, 1.0], [1.0, 0.0]], 0.1).round(3).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    _checks.number("reg", reg, above=0.0)
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore")
        found = solve(M, a, b, reg, max_iter=numItermax, tol=stopThr, verbose=verbose)
    if not log:
        return found.plan
    xp = namespace(found.plan)
    log_u = found.potential_a / reg
    log_v = found.potential_b / reg
    with np.errstate(over="ignore"):
        scalings = {"u": xp.exp(log_u), "v": xp.exp(log_v)}
    rows = found.marginal_a
    off = float(xp.max(xp.abs(rows - _pot_weights("a", a, rows[:, None], 0))))
    logs = {"log_u": log_u, "log_v": log_v, "niter": found.result.iterations, "err": [off]}
    return found.plan, scalings | logs | {"gap": found.gap, "lower_bound": found.lower_bound}


def sinkhorn2(a: Any, b: Any, M: Any, reg: float, log: bool = False, **options: Any) -> Any:
    """`ot.sinkhorn2`: <M, plan> for the entropic plan.

    For tensors, the derivative with respect to M keeps the plan fixed. `transport.loss(cost=M)` is
    the entropic objective with exact derivatives.

    Parameters
    ----------
    a, b, M, reg, log, **options
        As in `sinkhorn`.

    Returns
    -------
    float or tensor, and a log with `log=True`

    Examples
    --------
    >>> from condgrad.compat.pot import sinkhorn2
    >>> round(float(sinkhorn2([], [], [[0.0, 1.0], [1.0, 0.0]], 0.1)), 6)
    4.5e-05
    """
    plan, log_ = sinkhorn(a, b, M, reg, log=True, **options)
    value = _linear_value(M, plan)
    return (value, log_) if log else value


def _linear_value(M: Any, plan: Array) -> Any:
    """<M, plan>, with the graph of M where it is a tensor."""
    xp = namespace(plan)
    C = M.to(plan.dtype) if is_torch(M) else np.asarray(M, dtype=plan.dtype)
    value = xp.sum(xp.where(plan > 0.0, C * plan, 0.0))
    return value if is_torch(value) else float(value)


def emd(
    a: Any,
    b: Any,
    M: Any,
    numItermax: int = 100_000,  # noqa: ARG001
    log: bool = False,
    **options: Any,  # noqa: ARG001
) -> Any:
    """`ot.emd`: the plan with the smallest cost.

    Parameters
    ----------
    a, b : array
        Weights. An empty list means uniform weights.
    M : array, shape (n, m)
        The cost.
    numItermax, **options
        Accepted without effect.
    log : bool
        Also return the log.

    Returns
    -------
    plan : array, shape (n, m)
        The plan.
    log : dict
        Only with `log=True`. It has `cost`, the optimal dual variables `u` and `v`, `warning`,
        `result_code` and `gap`.

    Examples
    --------
    >>> from condgrad.compat.pot import emd
    >>> emd([], [], [[0.0, 1.0], [1.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    found = solve(M, a, b)
    if not log:
        return found.plan
    return found.plan, {
        "cost": found.value_linear,
        "u": found.potential_a,
        "v": found.potential_b,
        "warning": None,
        "result_code": 1,
        "gap": found.gap,
    }


def emd2(
    a: Any,
    b: Any,
    M: Any,
    log: bool = False,
    return_matrix: bool = False,
    **options: Any,  # noqa: ARG001
) -> Any:
    """`ot.emd2`: the smallest cost. For tensors it is differentiable in M.

    Parameters
    ----------
    a, b, M, log, **options
        As in `emd`.
    return_matrix : bool
        Whether the log has the plan, as `G`.

    Returns
    -------
    float or tensor, and a log with `log=True` or `return_matrix=True`

    Examples
    --------
    >>> from condgrad.compat.pot import emd2
    >>> emd2([], [], [[0.0, 1.0], [1.0, 0.0]])
    0.0
    """
    plan, log_ = emd(a, b, M, log=True)
    value = _linear_value(M, plan)
    if return_matrix:
        log_["G"] = plan
    return (value, log_) if log or return_matrix else value
