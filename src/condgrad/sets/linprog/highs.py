"""HiGHS, through SciPy: no extra needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from condgrad.sets.linprog.marginals import marginal_matrix


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    n, m = cost.shape
    # unit mass and unit cost: the tolerances of HiGHS are absolute
    mass, height = a.sum() or 1.0, np.abs(cost).max() or 1.0
    solution = linprog(
        cost.ravel() / height,
        A_eq=marginal_matrix(n, m),
        b_eq=np.concatenate([a, b]) / mass,
        bounds=(0, None),
        method="highs",
    )
    if solution.x is None:
        raise RuntimeError(f"HiGHS found no plan: {solution.message}")
    return np.clip(solution.x, 0.0, None).reshape(n, m) * mass, solution.eqlin.marginals[:n] * height
