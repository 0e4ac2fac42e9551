"""The equality constraints of a transport problem as a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def marginal_matrix(n: int, m: int) -> Any:
    """The (n + m) x (n m) matrix that takes a plan, row by row, to its row sums and column sums."""
    rows = scipy.sparse.kron(scipy.sparse.eye_array(n), np.ones((1, m)))
    columns = scipy.sparse.kron(np.ones((1, n)), scipy.sparse.eye_array(m))
    return scipy.sparse.vstack([rows, columns], format="csr")
