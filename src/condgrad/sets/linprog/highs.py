"""HiGHS, through SciPy: no extra needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.sets.linprog.marginals import marginal_matrix


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    from scipy.optimize import linprog

    n, m = cost.shape
    solution = linprog(
        cost.ravel(),
        A_eq=marginal_matrix(n, m),
        b_eq=np.concatenate([a, b]),
        bounds=(0, None),
        method="highs",
    )
    if solution.x is None:
        raise RuntimeError(f"HiGHS found no plan: {solution.message}")
    return np.clip(solution.x, 0.0, None).reshape(n, m), solution.eqlin.marginals[:n]
