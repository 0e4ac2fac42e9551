"""3D shapes
=========

Match a flat starfish to a turned starfish whose arms are lifted. Compare entropy alone with an entropy and a Laplacian.

Run it by ``python examples/shape_matching.py --out out``.
Each arm of the source has its own colour. The mass of a target point comes from one or more arms, and the point mixes
their colours. If a plan tears the arms apart, the colours of the targets are mixed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from condgrad import transport

ARMS, POINTS = 5, 50


def starfish(turn: float, lift: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points along the arms, and the arm of each."""
    arm, reach = np.repeat(np.arange(ARMS), POINTS), np.tile(np.linspace(0.15, 1.0, POINTS), ARMS)
    angle = 2.0 * np.pi * arm / ARMS + turn
    points = np.stack([reach * np.cos(angle), reach * np.sin(angle), lift * reach**2], axis=1)
    return points + 0.02 * rng.standard_normal(points.shape), arm


def main(out: Path) -> None:
    rng = np.random.default_rng(0)
    Xs, arm = starfish(0.0, 0.0, rng)
    Xt, _ = starfish(np.deg2rad(30.0), 0.6, rng)
    cost = cdist(Xs, Xt, "sqeuclidean")
    laplacian = transport.Laplacian(Xs, Xt, weight=1e3)
    matchings = {
        "entropy alone": transport.solve(cost, entropy=5e-3, tol=1e-5),
        "entropy + Laplacian": transport.solve(
            cost, entropy=5e-3, regularizers=[laplacian], tol=1e-5
        ),
    }
    colours = np.array(
        [
            matplotlib.colors.to_rgb(c)
            for c in ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
        ]
    )
    panels = [("source", Xs, colours[arm])]
    print(f"{'matching':22}{'mass kept in its arm':>22}{'certified gap':>16}{'iterations':>12}")
    for name, result in matchings.items():
        kept = result.plan[arm[:, None] == arm[None, :]].sum()
        print(f"{name:22}{kept:22.3f}{result.gap:16.1e}{result.iterations:12}")
        mixed = result.apply_transpose(colours[arm]) / result.plan.sum(axis=0)[:, None]
        panels.append((f"{name}: {kept:.1%} kept", Xt, np.clip(mixed, 0.0, 1.0)))
    figure = plt.figure(figsize=(10, 3.6))
    for i, (title, points, shades) in enumerate(panels):
        axes = figure.add_subplot(1, 3, 1 + i, projection="3d")
        axes.scatter(*points.T, c=shades, s=22, depthshade=False)
        axes.set(xticks=[], yticks=[], zticks=[], zlim=(-0.2, 0.9))
        axes.view_init(elev=55, azim=-60)
        axes.set_title(title, y=1.08)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.88, wspace=0.02)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "shape_matching.png", dpi=130)
    print(f"Picture: {out / 'shape_matching.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
