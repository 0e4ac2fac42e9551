"""Shape matching in 3D: points of a bent and turned surface matched to the flat one, with and without Laplacian.

Run: python examples/shape_matching.py --out out
The colour of a point is its place on the sheet; a good matching carries colours over smoothly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from condgrad import transport


def sheet(side: int, bend: float, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A square sheet bent about one axis; returns points and their place on the sheet."""
    place = (np.stack(np.meshgrid(*[np.arange(side)] * 2), axis=-1).reshape(-1, 2) + 0.5) / side
    angle = bend * (place[:, 0] - 0.5)
    radius = 1.0 / bend
    points = np.stack([radius * np.sin(angle), place[:, 1] - 0.5, radius * (1.0 - np.cos(angle))], axis=1)
    return points + noise * rng.standard_normal(points.shape), place


def main(out: Path) -> None:
    rng = np.random.default_rng(0)
    Xs, place = sheet(20, 0.1, 0.02, rng)
    Xt, _ = sheet(20, 2.5, 0.02, rng)
    turn = np.deg2rad(35.0)
    Xt = Xt @ np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]).T + [0.3, 0, 0.2]
    cost = cdist(Xs, Xt, "sqeuclidean")
    plans = {
        "entropy alone": transport.solve(cost, entropy=2e-3),
        "entropy + Laplacian": transport.solve(
            cost, entropy=2e-3, regularizers=[transport.Laplacian(Xs, Xt, weight=1e3)]
        ),
    }
    figure = plt.figure(figsize=(12, 4.2), layout="constrained")
    shade = plt.get_cmap("viridis")
    source = figure.add_subplot(1, 3, 1, projection="3d")
    source.scatter(*Xs.T, c=shade(place[:, 0]), s=18)
    source.set_title("source, coloured by place")
    print(f"{'matching':22}{'roughness of the map':>22}{'certified gap':>16}{'iterations':>12}")
    for i, (name, result) in enumerate(plans.items()):
        carried = result.apply_transpose(place) / result.plan.sum(axis=0)[:, None]
        moved = result.apply(Xt) / result.plan.sum(axis=1)[:, None]
        # how much neighbours on the sheet are torn apart or pressed together by the map
        grid = (moved - Xs).reshape(20, 20, 3)
        roughness = np.mean(np.diff(grid, axis=0) ** 2) + np.mean(np.diff(grid, axis=1) ** 2)
        print(f"{name:22}{roughness:22.2e}{result.gap:16.1e}{result.iterations:12}")
        axes = figure.add_subplot(1, 3, 2 + i, projection="3d")
        axes.scatter(*Xt.T, c=shade(np.clip(carried[:, 0], 0, 1)), s=18)
        axes.set_title(f"target: {name}")
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[], zticks=[])
        axes.view_init(elev=35, azim=-60)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "shape_matching.png", dpi=130)
    print(f"Picture: {out / 'shape_matching.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
