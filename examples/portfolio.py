"""A portfolio under constraints
=============================

The best compromise between risk and return, with upper bounds for assets and sectors, found by four methods.

Run it by ``python examples/portfolio.py --out out``.
The weights of 200 assets sum to 1. No weight is above 5 %, and no sector is above a fifth. ``sets.Polytope`` takes
these constraints in the form of SciPy's ``linprog``. Frank-Wolfe methods solve a linear program in each step, and the
dual of this linear program proves the lower bound. ``method="auto"`` is an interior-point method here, and its
multipliers prove the lower bound. So every portfolio has a proof of how far it is from the best one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import condgrad as cg

ASSETS, SECTORS, FACTORS = 200, 12, 8
TASTES = np.geomspace(0.02, 0.8, 6)
"""The weights of the expected return in the objective: variance / 2 - weight * return."""


def market(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A root of the covariance, expected returns, and the sector of each asset."""
    loadings = 0.1 * rng.standard_normal((FACTORS, ASSETS))
    own_risk = np.diag(0.05 + 0.15 * rng.random(ASSETS))
    returns = 0.02 + 0.1 * rng.random(ASSETS) + 0.2 * np.abs(loadings[0])
    return np.vstack([loadings, own_risk]), returns, rng.integers(0, SECTORS, ASSETS)


def main(out: Path) -> None:
    root, returns, sector = market(np.random.default_rng(0))
    allowed = cg.sets.Polytope(
        A_ub=np.eye(SECTORS)[sector].T,
        b_ub=np.full(SECTORS, 0.2),
        A_eq=np.ones((1, ASSETS)),
        b_eq=[1.0],
        bounds=(0.0, 0.05),
    )
    g = cg.simple.Zero(on=allowed)
    variance = cg.smooth.LeastSquares(root, np.zeros(len(root)))  # half of the variance

    f = variance + cg.smooth.Linear(-0.2 * returns)
    comparison = cg.compare(
        {
            "Frank-Wolfe": cg.minimize(f, g, max_iter=150),
            "pairwise, lazy": cg.minimize(f, g, method="pairwise", lazy=True, max_iter=1000),
            "CGS with a memory": cg.minimize(f, g, memory=50),
            "auto: interior-point": cg.minimize(f, g, method="auto"),
        }
    )
    print(comparison)

    frontier = [
        cg.minimize(variance + cg.smooth.Linear(-t * returns), g, method="auto") for t in TASTES
    ]
    assert all(r.success for r in frontier)
    risk = [float(np.linalg.norm(root @ r.x)) for r in frontier]
    gain = [float(returns @ r.x) for r in frontier]

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    comparison.plot(measure="gap", against="seconds", ax=left)
    left.set(xscale="log", title="four methods, one portfolio")
    left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    right.plot(risk, gain, "o-", color="#0072B2")
    for r, x, y in zip(frontier, risk, gain, strict=True):
        count = int(np.count_nonzero(r.x))
        right.annotate(
            f"{count} assets",
            (x, y),
            textcoords="offset points",
            xytext=(-8, 5),
            ha="right",
            fontsize=9,
        )
    right.set(
        xlabel="risk (standard deviation)", ylabel="expected return", title="certified frontier"
    )
    right.margins(x=0.45, y=0.1)
    right.grid(alpha=0.3)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "portfolio.png", dpi=130)
    print(f"Picture: {out / 'portfolio.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
