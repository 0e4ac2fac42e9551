"""POT's functions and estimators, computed by this package, with a certificate.

    from condgrad.compat.pot import gcg  # replaces: from ot.optim import gcg
    from condgrad.compat.pot import emd_laplace, sinkhorn_l1l2_gl  # ... of ot.da
    from condgrad.compat.pot import SinkhornL1l2Transport, EMDLaplaceTransport  # ... of ot.da
    from condgrad.compat.pot import gromov_wasserstein  # ... of ot and ot.gromov

Arguments and return values are those of POT 0.9, except for options of its inner solvers. Three
things are different:

- Plans have exact marginals.
- Tolerances are for the certified gap divided by the scale of the objective, and not for the last
  change of the objective. (Only `stopThr2` of `gcg` is for the gap itself.) If a plan does not
  reach its tolerance, a warning states its gap.
- Logs have more entries.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

from condgrad import _checks, sets, simple, smooth
from condgrad.arrays import Array, Space, detached, host, is_torch, like, namespace, on_device
from condgrad.arrays.inputs import floating
from condgrad.certificate import Certificate, Iterate
from condgrad.compat.pot_gromov import (
    entropic_fused_gromov_wasserstein,
    entropic_fused_gromov_wasserstein2,
    entropic_gromov_wasserstein,
    entropic_gromov_wasserstein2,
    fused_gromov_wasserstein,
    fused_gromov_wasserstein2,
    gromov_wasserstein,
    gromov_wasserstein2,
)
from condgrad.compat.pot_linear import (
    OTResult,
    _pot_weights,
    dist,
    emd,
    emd2,
    sinkhorn,
    sinkhorn2,
    solve,
    solve_sample,
    unif,
)
from condgrad.minimize import minimize
from condgrad.problem import Simple, Smooth
from condgrad.sets.sinkhorn import normalised_rows
from condgrad.transport.costs import PointCost
from condgrad.transport.estimators import (
    ByKeyword,
    Domain,
    PlanTransformer,
    _distances,
    _norm_of,
    _over_norm,
)
from condgrad.transport.regularizers import GroupLasso, Laplacian
from condgrad.transport.solve import TransportResult, beside
from condgrad.transport.solve import solve as solve_transport
from condgrad.transport.unbalanced import unbalanced

__all__ = [
    "EMDLaplaceTransport",
    "EMDTransport",
    "OTResult",
    "SinkhornL1l2Transport",
    "SinkhornLpl1Transport",
    "SinkhornTransport",
    "UnbalancedSinkhornTransport",
    "dist",
    "emd",
    "emd2",
    "emd_laplace",
    "entropic_fused_gromov_wasserstein",
    "entropic_fused_gromov_wasserstein2",
    "entropic_gromov_wasserstein",
    "entropic_gromov_wasserstein2",
    "fused_gromov_wasserstein",
    "fused_gromov_wasserstein2",
    "gcg",
    "gromov_wasserstein",
    "gromov_wasserstein2",
    "sinkhorn",
    "sinkhorn2",
    "sinkhorn_l1l2_gl",
    "sinkhorn_lpl1_mm",
    "solve",
    "solve_sample",
    "unif",
]


@dataclass(frozen=True)
class EitherGap:
    """Stop when gap <= absolute, or when gap <= relative * scale.

    `condgrad.certificate` defines the scale.
    """

    relative: float
    absolute: float
    tolerance = 1.0

    def __post_init__(self) -> None:
        _checks.number("stopThr", self.relative, at_least=0.0)
        _checks.number("stopThr2", self.absolute, at_least=0.0)

    name = "gap in units of stopThr or stopThr2"

    def measure(self, iterate: Iterate, certificate: Certificate, g: Simple) -> float:
        return certificate.gap / max(self.absolute, self.relative * certificate.scale, 1e-300)

    def answer(self, iterate: Iterate, certificate: Certificate, k: int) -> Certificate:
        return certificate


def gcg(
    a: Any,
    b: Any,
    M: Any,
    reg1: float,
    reg2: float,
    f: Callable[[Array], float],
    df: Callable[[Array], Array],
    G0: Any = None,
    numItermax: int = 10,
    numInnerItermax: int = 200,
    stopThr: float = 1e-9,
    stopThr2: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    **line_search: Any,  # noqa: ARG001  (POT hands these to a line search that is not needed here)
) -> Any:
    """`ot.optim.gcg`: minimise <M, G> + reg1 sum G log G + reg2 f(G) over plans G from a to b.

    Steps are exact for this objective. If a plan does not reach its tolerances, a warning states
    its gap.

    Parameters
    ----------
    a, b : array
        Weights of sources and targets. An empty list means uniform weights.
    M : array, shape (n, m)
        The cost, an array of NumPy or torch; the plan is of the same kind. On a CPU, tensors and
        NumPy arrays give exactly the same plan.
    reg1, reg2 : float
        reg1 is the weight of the entropy, above 0. reg2 is the weight of f, at least 0.
    f, df : callable
        A convex function of the plan, and its gradient. If M is a tensor, they get tensors.
    G0 : array, optional
        A plan to start from.
    numItermax : int
        The largest number of steps.
    numInnerItermax, **line_search
        Accepted without effect: the inner accuracy follows the gap, and steps are exact.
    stopThr : float
        Tolerance for the certified gap divided by the scale of the objective.
    stopThr2 : float
        Tolerance for the gap itself. A run stops when one of the two tolerances is reached.
    verbose : bool
        Show a live line on the terminal.
    log : bool
        Also return the log.

    Returns
    -------
    plan : array, shape (n, m)
        The plan, with exact marginals.
    log : dict
        Only with `log=True`. Its entries are:

        - `loss`: the whole objective, with the entropy, at each iterate;
        - `niter`: the number of iterations;
        - `gap`, `lower_bound` and `status` of the certificate;
        - `u` and `v`: the scalings of the last partially linearised problem. They may overflow to
          infinity, so `log_u` and `log_v` have their logarithms;
        - `err`: the norm of the difference between b and the column sums of
          diag(u) exp(-(M + reg2 df(G))/reg1) diag(v).

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import gcg
    >>> rng = np.random.default_rng(0)
    >>> a, b, M = np.full(6, 1 / 6), np.full(5, 1 / 5), rng.random((6, 5))
    >>> G, log = gcg(a, b, M, 0.1, 1.0, lambda G: 0.5 * (G**2).sum(), lambda G: G, numItermax=100, log=True)
    >>> bool(np.allclose(G.sum(axis=0), b)), log["status"], log["gap"] < 1e-8
    (True, 'CONVERGED', True)
    """
    M = floating("M", M, ndim=2)
    # Sinkhorn's extrapolation turns the last digit of a cost into the eighth of a plan: where both
    # libraries could compute, one of them does, so that they agree.
    cost = M if on_device(M) or not is_torch(M) else M.numpy()
    _checks.number("reg1", reg1, above=0.0)
    _checks.number("reg2", reg2, at_least=0.0)
    _checks.whole("numItermax", numItermax, at_least=0)
    _checks.whole("numInnerItermax", numInnerItermax, at_least=1)
    P = sets.Transport(_pot_weights("a", a, cost, 0), _pot_weights("b", b, cost, 1))
    objective: Smooth = smooth.Linear(cost)
    if reg2 > 0:
        objective = objective + smooth.Function(lambda G: _value_and_gradient(f, df, reg2, G, M))
    entropy = simple.Entropy(reg1, on=P)
    result = minimize(
        objective,
        entropy,
        None if G0 is None else P.rounded(Space.of(cost).hold(beside("G0", G0, cost, ndim=2))),
        max_iter=numItermax,
        stop=EitherGap(stopThr, stopThr2),
        progress=verbose,
    )
    answer = TransportResult((objective, entropy), result)
    return _returned_plan("gcg", answer, M, reg1, log=log)


def sinkhorn_l1l2_gl(
    a: Any,
    labels_a: Any,
    b: Any,
    M: Any,
    reg: float,
    eta: float = 0.1,
    numItermax: int = 10,
    numInnerItermax: int = 200,
    stopInnerThr: float = 1e-9,
    eps: float = 1e-12,  # noqa: ARG001  (norms of groups are never divided by where they vanish)
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """`ot.da.sinkhorn_l1l2_gl`: transport with an entropy and class groups.

    It minimises <M, G> + reg sum G log G + eta sum_{j, c} |G[labels_a == c, j]|_2 over plans G from
    a to b. The last sum is over targets j and classes c.

    Parameters
    ----------
    a, b : array
        Weights of sources and targets. An empty list means uniform weights.
    labels_a : array, shape (n,)
        The class of each source.
    M : array, shape (n, m)
        The cost.
    reg, eta : float
        reg is the weight of the entropy, above 0. eta is the weight of the groups, at least 0.
    numItermax, numInnerItermax : int
        Their product is the largest number of iterations.
    stopInnerThr : float
        Tolerance for the certified gap divided by the scale of the objective.
    eps : float
        Accepted without effect: nothing is divided by the norm of a group that is 0.
    verbose, log : bool
        As in `gcg`.

    Returns
    -------
    plan, log
        As in `gcg`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import sinkhorn_l1l2_gl
    >>> rng = np.random.default_rng(0)
    >>> a, b, M = np.full(6, 1 / 6), np.full(5, 1 / 5), rng.random((6, 5))
    >>> G, log = sinkhorn_l1l2_gl(a, [0, 0, 0, 1, 1, 1], b, M, reg=0.1, eta=0.1, log=True)
    >>> bool(np.allclose(G.sum(axis=0), b)), log["status"], log["gap"] < 1e-8
    (True, 'CONVERGED', True)
    """
    M = floating("M", M, ndim=2)
    answer = solve_transport(
        M,
        _pot_weights("a", a, M, 0),
        _pot_weights("b", b, M, 1),
        entropy=_checks.number("reg", reg, above=0.0),
        regularizers=[GroupLasso(labels_a, weight=_checks.number("eta", eta, at_least=0.0))],
        tol=stopInnerThr,
        max_iter=numItermax * numInnerItermax,
        progress=verbose,
    )
    return _returned_plan("sinkhorn_l1l2_gl", answer, M, reg, log=log)


def sinkhorn_lpl1_mm(
    a: Any,
    labels_a: Any,
    b: Any,
    M: Any,
    reg: float,
    eta: float = 0.1,
    numItermax: int = 10,
    numInnerItermax: int = 200,
    stopInnerThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
) -> Any:
    """`ot.da.sinkhorn_lpl1_mm`: transport with an entropy and a concave regulariser of classes.

    It looks for a plan G for which <M, G> + reg sum G log G + eta sum_{j, c} sqrt(m_cj + 1e-3) is
    small. Here m_cj is the mass from class c to target j. The problem is not convex. So the square
    roots are replaced by their tangents, `numItermax` times. The plan and its certificate belong to
    the last of these convex problems.

    Parameters
    ----------
    a, b, labels_a, M, reg, eta, verbose, log
        As in `sinkhorn_l1l2_gl`.
    numItermax : int
        The number of times that tangents are taken.
    numInnerItermax : int
        The largest number of iterations of each convex problem.
    stopInnerThr : float
        Tolerance for the certified gap of each convex problem, divided by its scale.

    Returns
    -------
    plan, log
        As in `gcg`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import sinkhorn_lpl1_mm
    >>> rng = np.random.default_rng(0)
    >>> a, b, M = np.full(6, 1 / 6), np.full(5, 1 / 5), rng.random((6, 5))
    >>> G = sinkhorn_lpl1_mm(a, [0, 0, 0, 1, 1, 1], b, M, reg=0.1, eta=0.1)
    >>> bool(np.allclose(G.sum(axis=0), b)), bool(np.allclose(G.sum(axis=1), a))
    (True, True)
    """
    M = floating("M", M, ndim=2)
    a = _pot_weights("a", a, M, 0)
    b = _pot_weights("b", b, M, 1)
    limits = {"steps": numItermax, "tol": stopInnerThr, "max_iter": numInnerItermax}
    answer = _majorised(a, labels_a, b, M, reg, eta, verbose=verbose, **limits)  # type: ignore[arg-type]
    return _returned_plan("sinkhorn_lpl1_mm", answer, M, reg, log=log)


def _majorised(
    a: Array, labels: Any, b: Array, M: Array, reg: float, eta: float, *, steps: int, tol: float, max_iter: int,
    verbose: bool,
) -> TransportResult:  # fmt: skip
    classes, codes = np.unique(
        host(labels) if is_torch(labels) else np.asarray(labels), return_inverse=True
    )
    members = like(np.eye(len(classes))[codes], M)
    slope = namespace(M).zeros_like(M)
    for _ in range(_checks.whole("numItermax", steps, at_least=1)):
        answer = solve_transport(
            M + eta * slope,
            a,
            b,
            entropy=_checks.number("reg", reg, above=0.0),
            tol=tol,
            max_iter=max_iter,
            progress=verbose,
        )
        slope = members @ (0.5 * (members.T @ like(answer.plan, M) + 1e-3) ** -0.5)
    return answer


def emd_laplace(
    a: Any,
    b: Any,
    xs: Any,
    xt: Any,
    M: Any,
    sim: str = "knn",
    sim_param: float | None = None,
    reg: str = "pos",
    eta: float = 1.0,
    alpha: float = 0.5,
    numItermax: int = 100,
    stopThr: float = 1e-9,
    numInnerItermax: int = 100_000,  # noqa: ARG001  (the network simplex needs no limit)
    stopInnerThr: float = 1e-9,  # noqa: ARG001
    log: bool = False,
    verbose: bool = False,
) -> Any:
    """`ot.da.emd_laplace`: transport with a Laplacian and no entropy.

    It minimises <M, G> + eta (alpha tr(xt' G' Ls G xt) + (1 - alpha) tr(xs' G Lt G' xs)) over plans
    G from a to b. For displacements (reg="disp"), a linear term is added to this. Without an
    entropy the conditional gradient method converges slowly. So you will often get a warning with
    the certified gap. Then use a larger `numItermax`, or `transport.solve` with a small entropy.

    Parameters
    ----------
    a, b : array
        Weights of sources and targets. An empty list means uniform weights.
    xs, xt : array, shapes (n, d) and (m, d)
        The points.
    M : array, shape (n, m)
        The cost.
    sim : {"knn", "gauss"}
        Ls and Lt are unnormalised Laplacians of neighbour graphs ("knn") or of Gaussian
        similarities ("gauss").
    sim_param : float, optional
        The number of neighbours (3 by default), or the width of the Gaussian.
    reg : {"pos", "disp"}
        Compare positions ("pos") or displacements ("disp") of neighbours.
    eta : float
        Weight of the regulariser.
    alpha : float
        The share of the first term, that of the sources, from 0 to 1.
    numItermax : int
        The largest number of steps.
    stopThr : float
        Tolerance for the certified gap divided by the scale of the objective.
    numInnerItermax, stopInnerThr
        Accepted without effect: the network simplex ends by itself.
    log, verbose : bool
        As in `gcg`. In this log, `u` and `v` are the dual variables of a linear program.

    Returns
    -------
    plan, log
        As in `gcg`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import emd_laplace
    >>> xs = np.random.default_rng(0).random((6, 2))
    >>> xt = xs[::-1] + 0.1
    >>> M = ((xs[:, None] - xt) ** 2).sum(axis=2)
    >>> G, log = emd_laplace([], [], xs, xt, M, stopThr=1e-3, log=True)
    >>> bool(np.allclose(6 * G, np.eye(6)[::-1])), log["status"]
    (True, 'CONVERGED')
    """
    M, xs, xt = (
        floating(name, value, ndim=2) for name, value in (("M", M), ("xs", xs), ("xt", xt))
    )
    regularizer, linear = _pot_laplacian(xs, xt, sim, sim_param, reg, eta, alpha)
    answer = solve_transport(
        M + like(linear, M),
        _pot_weights("a", a, M, 0),
        _pot_weights("b", b, M, 1),
        entropy=0.0,
        regularizers=[regularizer],
        tol=stopThr,
        max_iter=numItermax,
        progress=verbose,
    )
    return _returned_plan("emd_laplace", answer, M, None, log=log)


def _pot_laplacian(
    xs: Array, xt: Array, sim: str, sim_param: Any, reg: str, eta: float, alpha: float
) -> tuple[Laplacian, Any]:
    """POT's regulariser on positions, and the cost to add for one on displacements."""
    _checks.number("eta", eta, at_least=0.0)
    if not 0.0 <= _checks.number("alpha", alpha) <= 1.0:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha!r}")
    if reg not in ("pos", "disp"):
        raise ValueError(f"reg must be 'pos' or 'disp', got {reg!r}")
    if sim_param is not None and not isinstance(sim_param, float | numbers.Real):
        raise ValueError(f"sim_param must be a number or None, got {sim_param!r}")
    Xs = host(xs)
    Xt = host(xt)
    Ls, Lt = (_raw_laplacian(X, sim, sim_param, Xs) for X in (Xs, Xt))
    linear = np.zeros((len(Xs), len(Xt)))
    if reg == "disp":
        linear = -2.0 * eta * (
            alpha / len(Xs) * (Ls @ Xs) @ Xt.T + (1.0 - alpha) / len(Xt) * Xs @ (Lt @ Xt).T
        )  # fmt: skip
    return Laplacian(xs, xt, weight=eta, source=alpha, target=1.0 - alpha, Ls=Ls, Lt=Lt), linear


def _raw_laplacian(X: Any, sim: str, sim_param: Any, Xs: Any) -> Any:
    if sim == "knn":
        graph = kneighbors_graph(X, n_neighbors=3 if sim_param is None else int(sim_param))
        W = scipy.sparse.csr_array(0.5 * (graph + graph.T))
    elif sim == "gauss":
        sigma = (
            1.0 / (2.0 * cdist(Xs, Xs, "sqeuclidean").mean() ** 2)
            if sim_param is None
            else sim_param
        )
        W = scipy.sparse.csr_array(np.exp(-cdist(X, X, "sqeuclidean") / (2.0 * sigma**2)))
    else:
        raise ValueError(f"sim must be 'knn' or 'gauss', got {sim!r}")
    return scipy.sparse.csr_array(scipy.sparse.diags_array(np.asarray(W.sum(axis=1))) - W)


def _returned_plan(
    name: str, answer: TransportResult, M: Array, reg: float | None, *, log: bool
) -> Any:
    """The plan in the library of M, with POT's log where asked for."""
    result = answer.result.uninterrupted()
    plan = namespace(M).asarray(result.x)
    if not result.success:
        warnings.warn(
            f"{name} ended after {result.iterations} iterations within {result.gap:.3g} of the minimum; "
            "increase numItermax",
            stacklevel=3,
        )
    if not log:
        return plan
    return plan, {
        "loss": result.trace["value"].tolist(),
        "niter": result.iterations,
        "gap": result.gap,
        "lower_bound": result.lower_bound,
        "status": result.status.name,
        **_duals(answer, M, reg),
    }


def _duals(answer: TransportResult, M: Array, reg: float | None) -> dict[str, Any]:
    """Prices of a linear program, or the scalings of an entropic one with their marginal error."""
    u, v = answer.potentials
    xp = namespace(M)
    if reg is None:
        return {"u": xp.asarray(u), "v": xp.asarray(v)}
    f, g = answer.problem
    linearised = f.at(answer.result.x).gradient
    kernel = namespace(linearised)
    log_u = u / reg
    log_v = v / reg
    plan = kernel.exp(log_u[:, None] + log_v[None, :] - linearised / reg)
    missing = kernel.sum(plan, axis=0) - g.on.b  # type: ignore[attr-defined]
    with np.errstate(over="ignore"):
        scalings = {"u": xp.asarray(kernel.exp(log_u)), "v": xp.asarray(kernel.exp(log_v))}
    logs = {"log_u": xp.asarray(log_u), "log_v": xp.asarray(log_v)}
    return scalings | logs | {"err": [float(kernel.sum(missing * missing)) ** 0.5]}


def _value_and_gradient(f: Any, df: Any, weight: float, G: Array, M: Array) -> tuple[float, Array]:
    """weight * f and its gradient at G, which the user's functions see in the library of M."""
    seen = detached(namespace(M).asarray(G))
    gradient = weight * df(seen)
    return weight * float(f(seen)), gradient if is_torch(G) or not is_torch(
        gradient
    ) else gradient.detach().numpy()


class _PotArguments(ByKeyword):
    """POT's arguments of what moves points; all but the points are there for its pipelines and
    change nothing.
    """

    result_: TransportResult
    _source: Domain
    _target: Domain
    _to_means: Callable[..., Array]

    def transform(
        self,
        Xs: Any = None,
        ys: Any = None,
        Xt: Any = None,
        yt: Any = None,
        batch_size: int = 128,
    ) -> Any:
        """Move points of the source domain."""
        if self._is_continuous():
            return self._to_means(Xs, self._target, self.result_.potentials[1])
        return super().transform(Xs)

    def fit_transform(  # type: ignore[override]
        self, Xs: Any = None, ys: Any = None, Xt: Any = None, yt: Any = None
    ) -> Any:
        """Fit, then move the sources."""
        return self.fit(Xs, ys, Xt, yt).transform(Xs)  # type: ignore[attr-defined]

    def inverse_transform(
        self,
        Xs: Any = None,
        ys: Any = None,
        Xt: Any = None,
        yt: Any = None,
        batch_size: int = 128,
    ) -> Any:
        """Move points of the target domain back."""
        if self._is_continuous():
            return self._to_means(Xt, self._source, self.result_.potentials[0])
        return super().inverse_transform(Xt)  # type: ignore[misc]

    def _is_continuous(self) -> bool:
        """Whether new points move by the plan's kernel, which `_to_means` does."""
        return False


class _PotTransport(_PotArguments, PlanTransformer):  # type: ignore[misc]
    """What POT's estimators of domain adaptation have in common, over ours.

    New points move by the displacement of their nearest source (POT's "ferradans"), but for the
    "continuous" map of `SinkhornTransport`. `limit_max=inf` makes transport between known classes cost ten times
    the largest cost, as some finite number must.
    """

    limit_max: float = 10.0
    distribution_estimation: Callable[[Any], Any] | None

    @property
    def classes_cost(self) -> float:  # type: ignore[override]
        return self.limit_max if self.limit_max < np.inf else 10.0

    @property
    def cost_(self) -> Array:
        """The cost between all samples, from `metric` and `norm`, computed at each use. It does not
        have the extra cost between different classes.
        """
        if "result_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted: it has no cost yet")
        return self._cost_to(self.Xs_, self.Xt_)

    def _cost_to(self, X: Array, Y: Array) -> Array:
        """The cost between any points, in the unit of that between the samples."""
        C = _distances(self.Xs_, self.Xt_, self.metric)
        divisor = _norm_of(C, self.norm)
        return _over_norm(_distances(X, Y, self.metric), self.norm, divisor)

    def fit(self, Xs: Any = None, ys: Any = None, Xt: Any = None, yt: Any = None) -> Self:  # type: ignore[override]
        """Find the plan. ys and yt are classes, -1 or NaN if unknown."""
        estimate = self.distribution_estimation
        weights = {}
        if estimate is not None:
            weights = {"sample_weight": estimate(Xs), "target_weight": estimate(Xt)}
        super().fit(Xs, ys, Xt, yt, **weights)
        self.xs_ = self.Xs_
        self.xt_ = self.Xt_
        self.log_ = {
            "loss": self.result_.trace["value"].tolist(),
            "gap": self.dual_gap_,
            "niter": self.n_iter_,
        }
        return self


def _array_of(cost: Any) -> Array:
    return cost.dense() if isinstance(cost, PointCost) else cost


def _needed_labels(source: Domain, kind: type) -> Any:
    if source.labels is None:
        raise ValueError(
            f"ys is needed: {kind.__name__}.fit(Xs, ys, Xt) groups the sources by their classes"
        )
    return source.labels


@dataclass(eq=False, repr=False)
class SinkhornTransport(_PotTransport):
    """`ot.da.SinkhornTransport`: transport with an entropy.

    Parameters
    ----------
    reg_e : float
        Weight of the entropy.
    method
        Accepted without effect: there is only one method.
    out_of_sample_map : {"continuous", "ferradans"}
        Where new points go. "continuous": to the mean of the targets with the weights exp((v_j -
        cost)/reg_e), where v are the potentials of the plan. "ferradans": together with their
        nearest source.
    max_iter : int
        The largest number of iterations.
    tol : float
        Tolerance for the certified gap divided by the scale of the objective.
    verbose : bool
        Show a live line on the terminal.
    log : bool
        Accepted without effect: `log_` is always there.
    metric : str
        The cost, by its name in `scipy.spatial.distance.cdist`.
    norm : {None, "max", "median", "log", "loglog"}
        Divide the cost by its maximum or median, or take log(1 + cost) once or twice.
    distribution_estimation : callable, optional
        A function that gives the weights of points. By default they are uniform.
    limit_max : float
        The cost between different known classes, in units of the largest cost. Infinity counts as
        10.

    Attributes
    ----------
    coupling_ : array, shape (n, m)
        The plan.
    dual_gap_ : float
        The objective is at most this far above its minimum.
    log_ : dict
        It has `loss`, `gap` and `niter`, for every value of `log`.
    xs_, xt_ : arrays
        The points of the fit.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import SinkhornTransport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = SinkhornTransport(reg_e=0.1).fit(Xs=d.Xs, Xt=d.Xt)
    >>> mover.transform(Xs=d.Xs).shape, mover.log_["gap"] < 1e-6
    ((40, 2), True)
    """

    reg_e: float = 1.0
    method: str = "sinkhorn_log"
    max_iter: int = 1000
    tol: float = 1e-8
    verbose: bool = False
    log: bool = False
    metric: str = "sqeuclidean"
    norm: str | None = None
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "continuous"
    limit_max: float = np.inf

    def __post_init__(self) -> None:
        if self.out_of_sample_map not in ("continuous", "ferradans"):
            raise ValueError(
                f"out_of_sample_map must be 'continuous' or 'ferradans', got {self.out_of_sample_map!r}"
            )

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        return solve_transport(
            cost,
            source.mass,
            target.mass,
            entropy=self.reg_e,
            progress=self.verbose,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _is_continuous(self) -> bool:
        return self.out_of_sample_map == "continuous" and "result_" in vars(self)

    def _to_means(self, X: Any, onto: Domain, potential: Array) -> Array:
        """The means of a domain under the plan's kernel, which extends the plan to any point."""
        X = self._points(X)
        scores = (like(potential, X)[None, :] - self._cost_to(X, like(onto.X, X))) / self.reg_e
        weights = normalised_rows(scores, namespace(X).ones_like(scores[:, 0]))[0]
        return weights @ like(onto.X, X)


@dataclass(eq=False, repr=False)
class UnbalancedSinkhornTransport(_PotTransport):
    """`ot.da.UnbalancedSinkhornTransport`: transport with an entropy, and with a penalty if the
    marginals differ from the weights.

    Parameters
    ----------
    reg_e : float
        Weight of the entropy. Here the entropy is the relative entropy between the plan and the
        product of the weights.
    reg_m : float
        The weight of the penalty. The penalty is the relative entropy between the marginals and the
        weights.
    max_iter : int
        The run has at most ten times this number of Newton steps.
    method, verbose, out_of_sample_map
        Accepted without effect: new points move together with their nearest source.
    tol, log, metric, norm, distribution_estimation, limit_max
        As in `SinkhornTransport`.

    Attributes
    ----------
    coupling_, dual_gap_, log_, xs_, xt_
        As in `SinkhornTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import UnbalancedSinkhornTransport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = UnbalancedSinkhornTransport(reg_e=0.1, reg_m=1.0, max_iter=100).fit(Xs=d.Xs, Xt=d.Xt)
    >>> mover.transform(Xs=d.Xs).shape, mover.dual_gap_ < 1e-6
    ((40, 2), True)
    """

    reg_e: float = 1.0
    reg_m: float = 0.1
    method: str = "sinkhorn"
    max_iter: int = 10
    tol: float = 1e-9
    verbose: bool = False
    log: bool = False
    metric: str = "sqeuclidean"
    norm: str | None = None
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "ferradans"
    limit_max: float = 10.0

    def fit(self, Xs: Any = None, ys: Any = None, Xt: Any = None, yt: Any = None) -> Self:  # type: ignore[override]
        """Find the plan. ys and yt are classes, -1 or NaN if unknown."""
        super().fit(Xs, ys, Xt, yt)
        # what targets get is the share that their points are means of
        self._target = replace(self._target, mass=self.result_.plan.sum(0))
        return self

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        C = _array_of(cost)
        # POT's few iterations are scalings, ours are Newton's: as many as these take are few, too
        weights = (source.mass, target.mass)
        found = unbalanced(
            C,
            *weights,
            entropy=self.reg_e,
            penalty=self.reg_m,
            tol=self.tol,
            max_iter=10 * self.max_iter,
        )
        problem = smooth.Linear(C), simple.Entropy(self.reg_e, on=sets.Transport(*weights))
        return TransportResult(problem, replace(found.result, x=found.plan))


@dataclass(eq=False, repr=False)
class EMDTransport(_PotTransport):
    """`ot.da.EMDTransport`: transport without a regulariser, by a linear program.

    Parameters
    ----------
    metric, norm, log, distribution_estimation, limit_max, max_iter
        As in `SinkhornTransport`.
    out_of_sample_map
        Accepted without effect: new points move together with their nearest source.

    Attributes
    ----------
    coupling_, dual_gap_, log_, xs_, xt_
        As in `SinkhornTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import EMDTransport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = EMDTransport().fit(Xs=d.Xs, Xt=d.Xt)
    >>> int((mover.coupling_ > 1e-12).sum()), mover.dual_gap_ < 1e-9  # a permutation
    (40, True)
    """

    metric: str = "sqeuclidean"
    norm: str | None = None
    log: bool = False
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "ferradans"
    limit_max: float = 10.0
    max_iter: int = 100_000

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        return solve_transport(cost, source.mass, target.mass, entropy=0.0, max_iter=self.max_iter)


@dataclass(eq=False, repr=False)
class SinkhornLpl1Transport(_PotTransport):
    """`ot.da.SinkhornLpl1Transport`: transport as in `sinkhorn_lpl1_mm`.

    Parameters
    ----------
    reg_e, reg_cl : float
        Weights of the entropy and of the class groups.
    max_iter, max_inner_iter : int
        The number of times that tangents are taken, and the largest number of iterations of each
        convex problem.
    log, tol, verbose, metric, norm, distribution_estimation, limit_max
        As in `SinkhornTransport`.
    out_of_sample_map
        Accepted without effect: new points move together with their nearest source.

    Attributes
    ----------
    coupling_, dual_gap_, log_, xs_, xt_
        As in `SinkhornTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import SinkhornLpl1Transport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = SinkhornLpl1Transport(reg_e=0.1).fit(Xs=d.Xs, ys=d.ys, Xt=d.Xt)
    >>> mover.transform(Xs=d.Xs).shape, mover.dual_gap_ < 1e-6
    ((40, 2), True)
    """

    reg_e: float = 1.0
    reg_cl: float = 0.1
    max_iter: int = 10
    max_inner_iter: int = 200
    log: bool = False
    tol: float = 1e-8
    verbose: bool = False
    metric: str = "sqeuclidean"
    norm: str | None = None
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "ferradans"
    limit_max: float = np.inf

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        return _majorised(
            source.mass,
            _needed_labels(source, type(self)),
            target.mass,
            _array_of(cost),
            self.reg_e,
            self.reg_cl,
            steps=self.max_iter,
            tol=self.tol,
            max_iter=self.max_inner_iter,
            verbose=self.verbose,
        )


@dataclass(eq=False, repr=False)
class SinkhornL1l2Transport(_PotTransport):
    """`ot.da.SinkhornL1l2Transport`: transport with an entropy and class groups, as in
    `sinkhorn_l1l2_gl`.

    Parameters
    ----------
    reg_e, reg_cl : float
        Weights of the entropy and of the class groups.
    max_iter, max_inner_iter : int
        Their product is the largest number of iterations.
    log, tol, verbose, metric, norm, distribution_estimation, limit_max
        As in `SinkhornTransport`.
    out_of_sample_map
        Accepted without effect: new points move together with their nearest source.

    Attributes
    ----------
    coupling_, dual_gap_, log_, xs_, xt_
        As in `SinkhornTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import SinkhornL1l2Transport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = SinkhornL1l2Transport(reg_e=0.1).fit(Xs=d.Xs, ys=d.ys, Xt=d.Xt)
    >>> mover.transform(Xs=d.Xs).shape, mover.dual_gap_ < 1e-6
    ((40, 2), True)
    """

    reg_e: float = 1.0
    reg_cl: float = 0.1
    max_iter: int = 10
    max_inner_iter: int = 200
    tol: float = 1e-8
    verbose: bool = False
    log: bool = False
    metric: str = "sqeuclidean"
    norm: str | None = None
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "ferradans"
    limit_max: float = 10.0

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        return solve_transport(
            cost,
            source.mass,
            target.mass,
            entropy=self.reg_e,
            regularizers=[GroupLasso(_needed_labels(source, type(self)), weight=self.reg_cl)],
            tol=self.tol,
            max_iter=self.max_iter * self.max_inner_iter,
            progress=self.verbose,
        )


@dataclass(eq=False, repr=False)
class EMDLaplaceTransport(_PotTransport):
    """`ot.da.EMDLaplaceTransport`: transport with a Laplacian and no entropy, as in `emd_laplace`.

    Parameters
    ----------
    reg_type : {"pos", "disp"}
        Compare positions ("pos") or displacements ("disp") of neighbours.
    reg_lap, reg_src : float
        The weight of the regulariser, and the share of the sources' term in it, from 0 to 1.
    similarity, similarity_param
        The `sim` and `sim_param` of `emd_laplace`.
    max_inner_iter, inner_tol
        Accepted without effect: the network simplex ends by itself.
    metric, norm, max_iter, tol, log, verbose, distribution_estimation
        As in `SinkhornTransport`.
    out_of_sample_map
        Accepted without effect: new points move together with their nearest source.

    Attributes
    ----------
    coupling_, dual_gap_, log_, xs_, xt_
        As in `SinkhornTransport`.

    Examples
    --------
    >>> import condgrad as cg
    >>> from condgrad.compat.pot import EMDLaplaceTransport
    >>> d = cg.datasets.make_clusters(40)
    >>> mover = EMDLaplaceTransport(reg_lap=0.01, tol=1e-2).fit(Xs=d.Xs, Xt=d.Xt)
    >>> mover.transform(Xs=d.Xs).shape, mover.result_.relative_gap <= 1e-2
    ((40, 2), True)
    """

    reg_type: str = "pos"
    reg_lap: float = 1.0
    reg_src: float = 1.0
    metric: str = "sqeuclidean"
    norm: str | None = None
    similarity: str = "knn"
    similarity_param: float | None = None
    max_iter: int = 100
    tol: float = 1e-9
    max_inner_iter: int = 100_000
    inner_tol: float = 1e-9
    log: bool = False
    verbose: bool = False
    distribution_estimation: Callable[[Any], Any] | None = None
    out_of_sample_map: str = "ferradans"

    def _solved(self, cost: Any, source: Domain, target: Domain, spread: float) -> TransportResult:
        C = _array_of(cost)
        graphs = (self.similarity, self.similarity_param)
        regularizer, linear = _pot_laplacian(
            source.X, target.X, *graphs, self.reg_type, self.reg_lap, self.reg_src
        )
        return solve_transport(
            C + like(linear, C),
            source.mass,
            target.mass,
            entropy=0.0,
            regularizers=[regularizer],
            tol=self.tol,
            max_iter=self.max_iter,
            progress=self.verbose,
        )
