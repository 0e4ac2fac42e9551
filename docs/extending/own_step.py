"""A step rule of your own: 2/(k + 2), but never a step that raises F.

A rule is a function of a `condgrad.steps.SearchState`. The state has the number of steps so far
(`k`), the point `x`, the `value` F(x), the gap at x (`model_gap`), and F along the direction of the
step (`restriction`). The rule returns the length of the step, from 0 to 1.
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
