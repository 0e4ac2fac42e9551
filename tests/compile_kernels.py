"""Compile what most tests use, once: workers that begin side by side would each compile the same."""

from __future__ import annotations

import os
import subprocess
import sys

FIT = """
for loss in (cg.smooth.Logistic, cg.smooth.LeastSquares):
    for on in (cg.sets.L1Ball(1.0), cg.sets.Box(-0.1, 0.1)):
        cg.minimize(loss(X, y), cg.simple.Ridge(1.0, on=on), method="newton", stop=RelativeGap(1e-6))
cg.minimize(cg.smooth.Logistic(X, y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="newton")
"""
PATH = """
cg.linear_model.path(X, y, ridge=1.0, n_radii=10)
"""
DATA = """
import numpy as np, condgrad as cg
from condgrad.stopping import RelativeGap
rng = np.random.default_rng(0)
X = rng.standard_normal((40, 60))
y = np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0)
"""

if __name__ == "__main__":
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, "-c", DATA + part], env=alone) for part in (FIT, PATH)]
    sys.exit(max(each.wait() for each in running))
