"""POT's Gromov-Wasserstein functions on `transport.gromov`; `compat.pot` has them all."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec

from condgrad import _checks
from condgrad.arrays import namespace
from condgrad.arrays.inputs import floating
from condgrad.transport.gromov import GromovResult, gromov

POT_LOSSES = {"square_loss": "square", "kl_loss": "kl"}
P = ParamSpec("P")


def pot_plan(solved: Callable[P, Any]) -> Callable[P, Any]:
    """The plan of an answer, with POT's log where `log` asks for it."""

    @functools.wraps(solved)
    def plan_at(*args: P.args, **options: P.kwargs) -> Any:
        plan, record, logs = _plan_and_log(solved.__name__, solved, args, options)
        return (plan, record) if logs else plan

    return plan_at


def value_of(plan_at: Callable[P, Any]) -> Callable[[Callable[[], None]], Callable[P, Any]]:
    """The value at the plan of another function, whose arguments it has."""

    def decorated(described: Callable[[], None]) -> Callable[P, Any]:
        name = described.__name__

        @functools.wraps(described)
        def value_at(*args: P.args, **options: P.kwargs) -> Any:
            plan, record, logs = _plan_and_log(name, inspect.unwrap(plan_at), args, options)
            value = record[_distance(plan_at)]
            return (value, record | {"T": plan}) if logs else value

        vars(value_at)["__wrapped__"] = plan_at  # where help finds the arguments
        return value_at

    return decorated


@pot_plan
def gromov_wasserstein(
    C1: Any,
    C2: Any,
    p: Any = None,
    q: Any = None,
    loss_fun: str = "square_loss",
    symmetric: bool | None = None,  # noqa: ARG001  (it is looked at)
    log: bool = False,  # noqa: ARG001  (the log is made of the answer)
    armijo: bool = False,  # noqa: ARG001  (steps are exact)
    G0: Any = None,
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,  # noqa: ARG001
) -> Any:
    """`ot.gromov_wasserstein`: a stationary plan of GW(G) = sum L(C1_ik, C2_jl) G_ij G_kl.

    The search has the same start as in POT. `transport.gromov` has more starts and a lower bound.

    Parameters
    ----------
    C1, C2 : arrays, shapes (n, n) and (m, m)
        A number for each pair of points of the same space, such as a distance.
    p, q : arrays, optional
        Weights; uniform by default.
    loss_fun : {"square_loss", "kl_loss"}
        L(x, y) is (x - y)^2, or x log(x/y) - x + y.
    symmetric, armijo, tol_abs
        Accepted without effect: symmetry is detected, steps are exact, and the tolerance is
        relative to the scale of the objective.
    log : bool
        Also return the log.
    G0 : array, optional
        Where to start; the product of the weights by default.
    max_iter : int
        The largest number of steps.
    tol_rel : float
        Tolerance for the stationarity gap divided by the scale of the objective.

    Returns
    -------
    plan, log
        The plan, with exact marginals. With `log=True` also POT's log, which has two more entries:
        `gap` (the stationarity gap) and `lower_bound`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import gromov_wasserstein
    >>> C = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    >>> T, log = gromov_wasserstein(C, C, log=True)
    >>> (3.0 * T).round(6).tolist(), bool(log["gap"] <= 1e-9)
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], True)
    """
    return _solved_as_pot(C1, C2, p, q, loss_fun, G0=G0, max_iter=max_iter, tol=tol_rel)


@value_of(gromov_wasserstein)
def gromov_wasserstein2() -> None:
    """`ot.gromov_wasserstein2`: the value of GW at the plan of `gromov_wasserstein`.

    It is a number without a gradient. For gradients use `transport.gromov_loss`.

    Parameters
    ----------
    C1, C2, p, q, loss_fun, symmetric, log, armijo, G0, max_iter, tol_rel, tol_abs
        As in `gromov_wasserstein`.

    Returns
    -------
    value, log
        The value, POT's `gw_dist`. With `log=True` also the log, which has the plan as `T`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import gromov_wasserstein2
    >>> C = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    >>> round(gromov_wasserstein2(C, 2.0 * C), 6)  # the mean of C^2
    4.666667
    """


@pot_plan
def fused_gromov_wasserstein(
    M: Any,
    C1: Any,
    C2: Any,
    p: Any = None,
    q: Any = None,
    loss_fun: str = "square_loss",
    symmetric: bool | None = None,  # noqa: ARG001
    alpha: float = 0.5,
    armijo: bool = False,  # noqa: ARG001
    G0: Any = None,
    log: bool = False,  # noqa: ARG001
    max_iter: float = 1e4,
    tol_rel: float = 1e-9,
    tol_abs: float = 1e-9,  # noqa: ARG001
) -> Any:
    """`ot.fused_gromov_wasserstein`: a stationary plan of (1 - alpha) <M, G> + alpha GW(G).

    GW(G) is the objective of `gromov_wasserstein`.

    Parameters
    ----------
    M : array, shape (n, m)
        Costs between the two spaces.
    alpha : float
        The weight of GW(G), from 0 to 1.
    C1, C2, p, q, loss_fun, symmetric, armijo, G0, log, max_iter, tol_rel, tol_abs
        As in `gromov_wasserstein`.

    Returns
    -------
    plan, log
        As in `gromov_wasserstein`. The log has `fgw_dist`, the value at the plan.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import fused_gromov_wasserstein
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> fused_gromov_wasserstein(np.eye(2), C, C).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    return _solved_as_pot(
        C1, C2, p, q, loss_fun, M=M, alpha=alpha, G0=G0, max_iter=max_iter, tol=tol_rel
    )


@value_of(fused_gromov_wasserstein)
def fused_gromov_wasserstein2() -> None:
    """`ot.fused_gromov_wasserstein2`: the value at the plan of `fused_gromov_wasserstein`.

    Parameters
    ----------
    M, alpha
        As in `fused_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, symmetric, armijo, G0, log, max_iter, tol_rel, tol_abs
        As in `gromov_wasserstein`.

    Returns
    -------
    value, log
        As in `gromov_wasserstein2`. The log also has `lin_loss` and `quad_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import fused_gromov_wasserstein2
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> round(fused_gromov_wasserstein2(1.0 - np.eye(2), C, 3.0 * C), 9)
    1.0
    """


@pot_plan
def entropic_gromov_wasserstein(
    C1: Any,
    C2: Any,
    p: Any = None,
    q: Any = None,
    loss_fun: str = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,  # noqa: ARG001
    G0: Any = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    solver: str = "PGD",
    warmstart: bool = False,  # noqa: ARG001  (always)
    verbose: bool = False,
    log: bool = False,  # noqa: ARG001
) -> Any:
    """`ot.gromov.entropic_gromov_wasserstein`: a stationary plan of GW(G) + epsilon sum G log G.

    The plan has exact marginals. GW(G) is the objective of `gromov_wasserstein`.

    Parameters
    ----------
    epsilon : float
        Weight of the entropy, > 0.
    tol : float
        Tolerance for the stationarity gap divided by the scale of the objective.
    solver : {"PGD"}
        POT's "PPA" has an objective without entropy: use `gromov_wasserstein` for it.
    warmstart, verbose : bool
        `warmstart` has no effect: oracles always start from the last potentials. `verbose` shows a
        live line on the terminal.
    C1, C2, p, q, loss_fun, symmetric, G0, max_iter, log
        As in `gromov_wasserstein`.

    Returns
    -------
    plan, log
        As in `gromov_wasserstein`. `gw_dist` is GW(G) without the entropy, as in POT.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import entropic_gromov_wasserstein
    >>> C = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    >>> T = entropic_gromov_wasserstein(C, C, epsilon=0.5)
    >>> bool(np.allclose(T.sum(axis=0), 1 / 3, rtol=1e-14))
    True
    """
    entropy = _checked_epsilon(epsilon, solver)
    return _solved_as_pot(
        C1, C2, p, q, loss_fun, entropy=entropy, G0=G0, max_iter=max_iter, tol=tol, verbose=verbose
    )


@value_of(entropic_gromov_wasserstein)
def entropic_gromov_wasserstein2() -> None:
    """`ot.gromov.entropic_gromov_wasserstein2`: GW(G) at the plan of `entropic_gromov_wasserstein`.

    The entropy is not part of the value, so the value is never negative.

    Parameters
    ----------
    epsilon, tol, solver, warmstart, verbose
        As in `entropic_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, symmetric, G0, max_iter, log
        As in `gromov_wasserstein`.

    Returns
    -------
    value, log
        As in `gromov_wasserstein2`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import entropic_gromov_wasserstein2
    >>> C = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    >>> bool(0.0 <= entropic_gromov_wasserstein2(C, C, epsilon=0.5) < 0.1)
    True
    """


@pot_plan
def entropic_fused_gromov_wasserstein(
    M: Any,
    C1: Any,
    C2: Any,
    p: Any = None,
    q: Any = None,
    loss_fun: str = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = None,  # noqa: ARG001
    alpha: float = 0.5,
    G0: Any = None,
    max_iter: float = 1000,
    tol: float = 1e-9,
    solver: str = "PGD",
    warmstart: bool = False,  # noqa: ARG001
    verbose: bool = False,
    log: bool = False,  # noqa: ARG001
) -> Any:
    """A stationary plan of (1 - alpha) <M, G> + alpha GW(G) + epsilon sum G log G.

    This is `ot.gromov.entropic_fused_gromov_wasserstein`, with exact marginals.

    Parameters
    ----------
    M, alpha
        As in `fused_gromov_wasserstein`.
    epsilon, tol, solver, warmstart, verbose
        As in `entropic_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, symmetric, G0, max_iter, log
        As in `gromov_wasserstein`.

    Returns
    -------
    plan, log
        As in `gromov_wasserstein`. The log has `fgw_dist`, the value without the entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import entropic_fused_gromov_wasserstein
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> T = entropic_fused_gromov_wasserstein(np.eye(2), C, C, epsilon=0.1)
    >>> bool(T[0, 1] > 0.49), round(float(T.sum()), 12)
    (True, 1.0)
    """
    entropy = _checked_epsilon(epsilon, solver)
    return _solved_as_pot(
        C1,
        C2,
        p,
        q,
        loss_fun,
        M=M,
        alpha=alpha,
        entropy=entropy,
        G0=G0,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    )


@value_of(entropic_fused_gromov_wasserstein)
def entropic_fused_gromov_wasserstein2() -> None:
    """(1 - alpha) <M, G> + alpha GW(G) at the plan of `entropic_fused_gromov_wasserstein`.

    This is `ot.gromov.entropic_fused_gromov_wasserstein2`.

    Parameters
    ----------
    M, alpha
        As in `fused_gromov_wasserstein`.
    epsilon, tol, solver, warmstart, verbose
        As in `entropic_gromov_wasserstein`.
    C1, C2, p, q, loss_fun, symmetric, G0, max_iter, log
        As in `gromov_wasserstein`.

    Returns
    -------
    value, log
        As in `fused_gromov_wasserstein2`.

    Examples
    --------
    >>> import numpy as np
    >>> from condgrad.compat.pot import entropic_fused_gromov_wasserstein2
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> bool(entropic_fused_gromov_wasserstein2(np.eye(2), C, C, epsilon=0.1) < 0.1)
    True
    """


def _checked_epsilon(epsilon: float, solver: str) -> float:
    if solver != "PGD":
        raise ValueError(
            f"solver must be 'PGD', got {solver!r}: POT's 'PPA' has an objective without entropy: "
            "use gromov_wasserstein or fused_gromov_wasserstein"
        )
    return _checks.number("epsilon", epsilon, above=0.0)


def _solved_as_pot(
    C1: Any,
    C2: Any,
    p: Any,
    q: Any,
    loss_fun: str,
    *,
    M: Any = None,
    alpha: float = 1.0,
    entropy: float = 0.0,
    G0: Any,
    max_iter: float,
    tol: float,
    verbose: bool = False,
) -> GromovResult:
    """POT's objective from POT's start: alpha goes into the numbers within the spaces, so that
    values are POT's.
    """
    if loss_fun not in POT_LOSSES:
        raise ValueError(
            f"loss_fun must be one of {', '.join(map(repr, POT_LOSSES))}, got {loss_fun!r}"
        )
    loss = POT_LOSSES[loss_fun]
    if not 0.0 <= _checks.number("alpha", alpha) <= 1.0:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha!r}")
    # the square loss is of degree two, the other one of degree one
    factor = alpha**0.5 if loss == "square" else alpha
    return gromov(
        factor * floating("C1", C1, ndim=2),
        factor * floating("C2", C2, ndim=2),
        p,
        q,
        entropy=entropy,
        fused=None if M is None else (floating("M", M, ndim=2), 1.0 - alpha),
        loss=loss,
        starts=1,
        start=G0,
        tol=tol,
        max_iter=int(max_iter),
        progress=verbose,
    )


def _distance(solved: Callable[..., Any]) -> str:
    """POT's name of the value."""
    return "fgw_dist" if "M" in inspect.signature(solved).parameters else "gw_dist"


def _plan_and_log(
    name: str, solved: Callable[..., GromovResult], args: Any, options: Any
) -> tuple[Any, dict[str, Any], bool]:
    """The plan in the library of the data, POT's log, and whether the log is asked for."""
    answer = solved(*args, **options)
    given = inspect.signature(solved).bind(*args, **options).arguments
    result = answer.result.uninterrupted()
    plan = namespace(floating(*next(iter(given.items())))).asarray(result.x)
    if not result.success:
        warnings.warn(
            f"{name} ended after {result.iterations} iterations with a stationarity gap of {answer.stationarity:.3g}; "
            "increase max_iter",
            stacklevel=3,
        )
    u, v = answer.potentials
    parts = answer.parts
    record = {
        _distance(solved): parts.structure + parts.features,
        "lin_loss": parts.features,
        "quad_loss": parts.structure,
        "loss": result.trace["value"].tolist(),
        "niter": result.iterations,
        "gap": answer.stationarity,
        "lower_bound": answer.lower_bound,
        "status": result.status.name,
        "u": u,
        "v": v,
    }
    return plan, record, bool(given.get("log", False))
