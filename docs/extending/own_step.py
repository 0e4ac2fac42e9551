"""A step rule of your own: 2/(k + 2), but never a step that raises F.

A rule sees a `condgrad.steps.SearchState`: `k`, `x`, `value`, `model_gap`, and `restriction`, F along the
directions. It returns how far to go, from 0 to 1.
"""

import numpy as np

import condgrad as cg
from condgrad.steps import SearchState


def careful(state: SearchState) -> float:
    a = 2.0 / (state.k + 2.0)
    while a > 1e-12 and state.restriction.value(np.array([a])) > state.value:
        a *= 0.5
    return a


rng = np.random.default_rng(0)
f = cg.smooth.LeastSquares(rng.standard_normal((40, 20)), rng.standard_normal(40))
g = cg.simple.Entropy(1.0, on=cg.sets.Simplex(20))
result = cg.minimize(f, g, step=careful, tol=1e-5)
assert result.success
assert (np.diff(result.trace["value"]) <= 0.0).all()
