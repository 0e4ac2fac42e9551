"""Barycentres of shapes
=====================

Draw four shapes in the corners, and their certified barycentres between them.

Run it by ``python examples/shape_barycenters.py --out out``.
A shape is a set of weights on the points of a grid. A picture between the corners is a barycentre: the weights with the
smallest total transport cost to the four shapes. A shape counts more in this total if its corner is nearer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from scipy.spatial.distance import cdist

from condgrad import transport

SIDE, STEPS, ENTROPY = 28, 5, 3e-3
INK = LinearSegmentedColormap.from_list("ink", ["#0072B200", "#0072B2"])


def shapes(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """A ring, a heart, a cross and two discs, as measures of mass 1 on the square from -1 to 1."""
    r = np.hypot(x, y)
    ring = (r > 0.5) & (r < 0.85)
    heart = (1.3 * x) ** 2 + (1.35 * (y + 0.1) - np.sqrt(np.abs(1.1 * x)) * 0.85) ** 2 < 0.75
    cross = (np.minimum(np.abs(x + y), np.abs(x - y)) < 0.25) & (
        np.maximum(np.abs(x), np.abs(y)) < 0.8
    )
    discs = np.minimum(np.hypot(x - 0.45, y - 0.45), np.hypot(x + 0.45, y + 0.45)) < 0.35
    return [shape / shape.sum() for shape in (ring, heart, cross, discs)]


def main(out: Path) -> None:
    line = np.linspace(-1.0, 1.0, SIDE)
    x, y = (coordinate.ravel() for coordinate in np.meshgrid(line, line[::-1]))
    grid = np.stack([x, y], axis=1)
    measures = shapes(x, y)
    # a shape has weight on some points of the grid; the others need no column
    points = [grid[measure > 0] for measure in measures]
    weights_of_points = [measure[measure > 0] for measure in measures]
    costs = [cdist(grid, cloud, "sqeuclidean") for cloud in points]
    figure, panels = plt.subplots(STEPS, STEPS, figsize=(7, 7), layout="constrained")
    largest_gap = 0.0
    for i, j in np.ndindex(STEPS, STEPS):
        s, t = i / (STEPS - 1), j / (STEPS - 1)
        weights = np.array([(1 - s) * (1 - t), (1 - s) * t, s * (1 - t), s * t])
        if weights.max() == 1.0:
            picture = measures[int(weights.argmax())]
        else:
            kept = np.flatnonzero(weights)
            found = transport.barycenter(
                [costs[k] for k in kept],
                [weights_of_points[k] for k in kept],
                weights[kept],
                entropy=ENTROPY,
                tol=1e-4,
            )
            picture, largest_gap = found.weights, max(largest_gap, found.gap)
        panels[i, j].imshow(
            picture.reshape(SIDE, SIDE), cmap=INK, vmin=0.0, interpolation="bilinear"
        )
        panels[i, j].set(xticks=[], yticks=[])
    print(
        f"{STEPS * STEPS - 4} barycentres of {SIDE * SIDE} points, each certified to {largest_gap:.1e}"
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "shape_barycenters.png", dpi=130)
    print(f"Picture: {out / 'shape_barycenters.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
