"""MOSEK, which needs a licence file beside its package."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.errors import MissingExtra, require_extra
from condgrad.sets.linprog.marginals import marginal_matrix


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    library = require_extra("mosek", extra="mosek", purpose="engine='mosek'")
    n, m = cost.shape
    A = marginal_matrix(n, m).tocoo()
    target = np.concatenate([a, b])
    with library.Task() as task:
        task.appendvars(n * m)
        task.appendcons(n + m)
        task.putclist(range(n * m), cost.ravel())
        task.putvarboundsliceconst(0, n * m, library.boundkey.lo, 0.0, 0.0)
        task.putaijlist(A.row, A.col, A.data)
        task.putconboundslice(0, n + m, [library.boundkey.fx] * (n + m), target, target)
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
        return np.clip(task.getxx(kind), 0.0, None).reshape(n, m), np.array(task.gety(kind))[:n]
