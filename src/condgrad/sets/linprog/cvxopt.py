"""The interior-point method of CVXOPT."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.errors import require_extra
from condgrad.sets.linprog.marginals import marginal_matrix


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    library = require_extra("cvxopt", extra="cvxopt", purpose="engine='cvxopt'")
    n, m = cost.shape
    # the last column sum follows from the others, and CVXOPT wants independent rows
    A = marginal_matrix(n, m)[:-1].tocoo()
    solution = library.solvers.lp(
        library.matrix(cost.ravel()),
        library.spmatrix(-1.0, range(n * m), range(n * m)),
        library.matrix(0.0, (n * m, 1)),
        library.spmatrix(A.data, A.row.tolist(), A.col.tolist(), A.shape),
        library.matrix(np.concatenate([a, b[:-1]])),
        options={"show_progress": False},
    )
    if solution["x"] is None:
        raise RuntimeError(f"CVXOPT found no plan: {solution['status']}")
    plan = np.clip(np.array(solution["x"]).reshape(n, m), 0.0, None)
    return plan, -np.array(solution["y"]).ravel()[:n]
