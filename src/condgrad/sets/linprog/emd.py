"""The network simplex of POT."""

from __future__ import annotations

import warnings
from typing import Any

from condgrad.errors import require_extra


def solve(cost: Any, a: Any, b: Any) -> tuple[Any, Any]:
    ot = require_extra("ot", extra="pot", purpose="engine='emd'")
    # it wants masses equal to the last bit, and complains of what the caller mends anyway
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        b = b * (a.sum() / b.sum())
        plan, log = ot.emd(a, b, cost, numItermax=10**7, log=True, check_marginals=False)
    return plan, log["u"]
