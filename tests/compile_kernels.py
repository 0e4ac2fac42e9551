"""Compile what most tests use, once: workers that begin side by side would each compile the same.

`python -m tests.compile_kernels` starts a process for each part, `python -m tests.compile_kernels fits` compiles one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import condgrad as cg
from condgrad.stopping import RelativeGap

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 60))
Y = np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0)


def fits() -> None:
    """Newton's method on faces."""
    # first what needs no kernel of `paths`, which that compiles meanwhile: quadratic models
    cg.minimize(
        cg.smooth.Multinomial(X, np.arange(40) % 3), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="newton"
    )
    for on in (cg.sets.L1Ball(1.0), cg.sets.Box(-0.1, 0.1)):
        for loss in (cg.smooth.Logistic, cg.smooth.LeastSquares):
            g = cg.simple.Ridge(1.0, on=on)
            cg.minimize(loss(X, Y), g, method="newton", stop=RelativeGap(1e-6))
            cg.minimize(loss(X, Y), g, method="newton")


def paths() -> None:
    """Paths of radii, and streamed plans."""
    for loss in ("logistic", "least-squares"):
        cg.linear_model.path(X, Y, loss=loss, ridge=1.0, n_radii=10)
    costs = cg.transport.SquaredEuclidean(X[:20], X[20:])
    for method in ("newton", "cgs"):
        laplacian = cg.transport.Laplacian(X[:20], X[20:], weight=1.0, neighbors=3)
        cg.transport.solve(costs, entropy=1.0, regularizers=[laplacian], plan="streamed", method=method, max_iter=5)


PARTS = {part.__name__: part for part in (fits, paths)}

if __name__ == "__main__":
    if sys.argv[1:]:
        PARTS[sys.argv[1]]()
        sys.exit()
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, "-m", "tests.compile_kernels", part], env=alone) for part in PARTS]
    sys.exit(max(each.wait() for each in running))
