"""The transport linear program by HiGHS, through SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize import linprog


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """An optimal plan and row potentials (approximate: the caller rounds one and completes the other)."""
    n, m = cost.shape
    marginals = scipy.sparse.vstack(
        [
            scipy.sparse.kron(scipy.sparse.eye_array(n), np.ones((1, m))),
            scipy.sparse.kron(np.ones((1, n)), scipy.sparse.eye_array(m)),
        ],
        format="csr",
    )
    # unit mass and unit cost: the tolerances of HiGHS are absolute
    mass, height = a.sum() or 1.0, np.abs(cost).max() or 1.0
    solution = linprog(
        cost.ravel() / height, A_eq=marginals, b_eq=np.concatenate([a, b]) / mass, bounds=(0, None), method="highs"
    )
    if solution.x is None:
        raise RuntimeError(f"HiGHS found no plan: {solution.message}")
    return np.clip(solution.x, 0.0, None).reshape(n, m) * mass, solution.eqlin.marginals[:n] * height
