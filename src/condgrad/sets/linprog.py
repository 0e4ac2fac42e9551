"""Linear programs over the transport polytope.

An engine is a function of a cost and two marginals. These are host arrays, and the largest cost and
the mass are 1. It returns a nearly optimal plan and row potentials. The caller rounds the plan to
exact marginals and completes the potentials to a feasible dual. So an engine's tolerances never
reach the certificate. If its library is an extra, an engine imports it when called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse

from condgrad.errors import MissingExtra, require_extra

Engine = Callable[[Any, Any, Any], tuple[Any, Any]]


def by_fastest(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The network simplex where POT is installed, else HiGHS."""
    return (by_network_simplex if find_spec("ot") else by_highs)(cost, a, b)


def by_network_simplex(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """By POT."""
    ot = require_extra("ot", extra="pot", purpose="engine='emd'")
    # it wants masses equal to the last bit, and complains of what the caller mends anyway
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        b = b * (a.sum() / b.sum())
        plan, log = ot.emd(a, b, cost, numItermax=10**7, log=True, check_marginals=False)
    return plan, log["u"]


def by_highs(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Through SciPy: no extra needed."""
    from scipy.optimize import linprog

    A, target = marginal_constraints(cost, a, b)
    found = linprog(cost.ravel(), A_eq=A, b_eq=target, bounds=(0, None), method="highs")
    if found.x is None:
        raise RuntimeError(f"HiGHS found no plan: {found.message}")
    return clipped_plan(found.x, cost), found.eqlin.marginals[: len(a)]


def by_cvxopt(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The interior-point method of CVXOPT."""
    library = require_extra("cvxopt", extra="cvxopt", purpose="engine='cvxopt'")
    A, target = marginal_constraints(cost, a, b)
    # the last column sum follows from the others, and CVXOPT wants independent rows
    A = A[:-1].tocoo()
    solution = library.solvers.lp(
        library.matrix(cost.ravel()),
        library.spmatrix(-1.0, range(cost.size), range(cost.size)),
        library.matrix(0.0, (cost.size, 1)),
        library.spmatrix(A.data, A.row.tolist(), A.col.tolist(), A.shape),
        library.matrix(target[:-1]),
        options={"show_progress": False},
    )
    if solution["x"] is None:
        raise RuntimeError(f"CVXOPT found no plan: {solution['status']}")
    return clipped_plan(np.array(solution["x"]), cost), -np.array(solution["y"]).ravel()[: len(a)]


def by_mosek(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """MOSEK, which needs a licence file beside its package."""
    library = require_extra("mosek", extra="mosek", purpose="engine='mosek'")
    A, target = marginal_constraints(cost, a, b)
    A = A.tocoo()
    with library.Task() as task:
        task.appendvars(cost.size)
        task.appendcons(len(target))
        task.putclist(range(cost.size), cost.ravel())
        task.putvarboundsliceconst(0, cost.size, library.boundkey.lo, 0.0, 0.0)
        task.putaijlist(A.row, A.col, A.data)
        task.putconboundslice(0, len(target), [library.boundkey.fx] * len(target), target, target)
        task.putobjsense(library.objsense.minimize)
        try:
            task.optimize()
        except library.Error as error:
            if "license" in str(error.errno).lower() or "license" in str(error.msg).lower():
                raise MissingExtra(
                    "engine='mosek' needs a MOSEK licence (a file mosek.lic, or MOSEKLM_LICENSE_FILE); "
                    "engine='emd' and 'highs' need none"
                ) from error
            raise
        kind = library.soltype.bas if task.solutiondef(library.soltype.bas) else library.soltype.itr
        return clipped_plan(task.getxx(kind), cost), np.array(task.gety(kind))[: len(a)]


def marginal_constraints(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The sparse matrix that takes a plan, row by row, to its row sums and column sums, and what
    these shall be.
    """
    n, m = cost.shape
    rows = scipy.sparse.kron(scipy.sparse.eye_array(n), np.ones((1, m)))
    columns = scipy.sparse.kron(np.ones((1, n)), scipy.sparse.eye_array(m))
    return scipy.sparse.vstack([rows, columns], format="csr"), np.concatenate([a, b])


def clipped_plan(x: Any, cost: Any) -> Any:
    """The variables of a program as a plan, without the small negative ones."""
    return np.clip(x, 0.0, None).reshape(cost.shape)


LINPROG_ENGINES: dict[str, Engine] = {
    "auto": by_fastest,
    "emd": by_network_simplex,
    "highs": by_highs,
    "cvxopt": by_cvxopt,
    "mosek": by_mosek,
}
