"""Linear programs over the transport polytope, an engine a file.

An engine is `solve(cost, a, b) -> (plan, u)` on host arrays, the largest cost and the mass being 1:
a nearly optimal plan and row potentials to match. The caller rounds the one to exact marginals and
completes the other to a feasible dual, so an engine's tolerances never reach the certificate.
Engines whose library is an extra import it when called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from condgrad.sets.linprog import cvxopt, emd, highs, mosek

Engine = Callable[[Any, Any, Any], tuple[Any, Any]]


def fastest(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The network simplex where POT is installed, else HiGHS."""
    return (emd if find_spec("ot") else highs).solve(cost, a, b)


ENGINES: dict[str, Engine] = {
    "auto": fastest,
    "emd": emd.solve,
    "highs": highs.solve,
    "cvxopt": cvxopt.solve,
    "mosek": mosek.solve,
}
