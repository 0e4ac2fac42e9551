"""Frank-Wolfe and its family
==========================

Four Frank-Wolfe methods on three polytopes: the certified gap against the number of calls of the linear oracle.

Run it by ``python examples/frank_wolfe_family.py --out out``.
The plain conditional gradient zigzags if the minimum lies on a face. Away and pairwise steps remember the vertices and
take weight from bad ones, so they converge linearly. Lazy steps first try the vertices that are known. They call the
oracle only if no known vertex promises enough progress. On the Birkhoff polytope, each call is an assignment problem.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import condgrad as cg

RUNS = {
    "conditional gradient": {"method": "cg"},
    "away steps": {"method": "away"},
    "pairwise steps": {"method": "pairwise"},
    "pairwise, lazy": {"method": "pairwise", "lazy": True},
}


def problems(rng: np.random.Generator) -> dict[str, tuple[cg.smooth.LeastSquares, cg.sets.Set]]:
    """Least squares whose minimum is a mixture of some vertices of the set."""
    mixture = np.zeros(300)
    mixture[rng.choice(300, 20, replace=False)] = rng.dirichlet(np.ones(20))
    A = rng.standard_normal((150, 300))
    sparse = np.zeros(100)
    for share in rng.dirichlet(np.ones(4)):
        sparse[rng.choice(20, 6, replace=False)] += share
    B = rng.standard_normal((300, 100))
    permutations = [np.eye(12)[rng.permutation(12)] for _ in range(5)]
    doubly_stochastic = sum(
        w * P for w, P in zip(rng.dirichlet(np.ones(5)), permutations, strict=True)
    )
    return {
        "simplex, 300 vertices": (cg.smooth.LeastSquares(A, A @ mixture), cg.sets.Simplex(300)),
        "6-sparse vectors of 100": (cg.smooth.LeastSquares(B, B @ sparse), cg.sets.KSparse(1.0, 6)),
        "Birkhoff, 12 x 12": (Near(doubly_stochastic), cg.sets.Birkhoff(12)),
    }


class Near(cg.smooth.Function):
    """f(X) = 1/2 |X - Y|^2, for matrices."""

    def __init__(self, Y: np.ndarray) -> None:
        super().__init__(lambda X: (0.5 * float(((X - Y) ** 2).sum()), X - Y))


def main(out: Path) -> None:
    figure, panels = plt.subplots(1, 3, figsize=(10, 4), layout="constrained", sharey=True)
    for axes, (name, (f, on)) in zip(
        panels, problems(np.random.default_rng(0)).items(), strict=True
    ):
        g = cg.simple.Zero(on=on)
        runs = {
            label: cg.minimize(f, g, tol=1e-6, max_iter=2000, **way) for label, way in RUNS.items()
        }
        comparison = cg.compare(runs)
        print(f"\n{name}\n{comparison}")
        comparison.plot(measure="gap", against="oracle_calls", ax=axes)
        axes.set(title=name, xlabel="calls of the linear oracle", ylabel="", xscale="log")
        axes.get_legend().remove()
    panels[0].set_ylabel("certified gap")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "frank_wolfe_family.png", dpi=130)
    print(f"Picture: {out / 'frank_wolfe_family.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
