"""Regression under constraints on its shape
=========================================

Least squares for a curve that must rise, or must rise and be concave.

Run it by ``python examples/shape_constrained.py --out out``.
The variables are the values of the curve at 60 places. The first fit must not fall. The second fit must not fall, and
its slope must not grow. ``sets.Polytope`` takes both rules as sparse inequalities. The gap proves how far a fit is from
the best curve of its kind. There is no smoothing parameter to choose.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import condgrad as cg

PLACES = 60


def main(out: Path) -> None:
    rng = np.random.default_rng(4)
    t = np.linspace(0.0, 1.0, PLACES)
    truth = 1.0 - np.exp(-4.0 * t)
    y = truth + 0.12 * rng.standard_normal(PLACES)

    steps = scipy.sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(PLACES - 1, PLACES))
    bends = scipy.sparse.diags_array(
        [1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(PLACES - 2, PLACES)
    )
    shapes = {
        "rising": -steps,
        "rising and concave": scipy.sparse.vstack([-steps, bends]),
    }
    f = cg.smooth.LeastSquares(np.eye(PLACES), y)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.plot(t, y, ".", color="#87909a", label="data")
    axes.plot(t, truth, color="#87909a", linewidth=1.0, label="truth")
    for (name, A), color in zip(shapes.items(), ("#D55E00", "#0072B2"), strict=True):
        on = cg.sets.Polytope(
            A_ub=A, b_ub=np.zeros(A.shape[0]), bounds=(float(y.min()), float(y.max()))
        )
        r = cg.minimize(f, cg.simple.Zero(on=on), method="auto", tol=1e-6, max_iter=2000)
        error = float(np.sqrt(np.mean((r.x - truth) ** 2)))
        print(
            f"{name}: {r.status}, gap / scale {r.relative_gap:.1e}, error of the curve {error:.3f}"
        )
        axes.plot(t, r.x, color=color, label=name)
    axes.set(xlabel="place", ylabel="value")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "shape_constrained.png", dpi=130)
    print(f"Picture: {out / 'shape_constrained.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
