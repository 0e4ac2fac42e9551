"""Barycentres of palettes
=======================

Compute palettes between the palettes of two photographs.

Run it by ``python examples/palette_barycenters.py --out out``.
A palette is a cloud of colours with weights. Each palette in between is a barycentre of the two palettes. Its colours
come from a local search, and its transport plans are certified. The plan to the temple's palette says which colour
replaces each colour of the temple. So the temple can be shown in each of these palettes. A pixel changes by the mean
change of the palette colours near its own colour. So the sky has no seams.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images

from condgrad import transport

COLOURS, ENTROPY, REACH, STEPS = 48, 5e-3, 0.15, (0.0, 0.25, 0.5, 0.75, 1.0)


def palette(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Colours and their weights."""
    pixels = image[::2, ::2].reshape(-1, 3)
    clusters = KMeans(COLOURS, n_init=1, random_state=0).fit(pixels)
    return clusters.cluster_centers_, np.bincount(clusters.labels_) / len(pixels)


def above_palette(image: np.ndarray, colours: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The image, and below it the palette from dark to light, each colour as wide as its weight."""
    height, width, _ = image.shape
    order = np.argsort(colours @ [0.299, 0.587, 0.114])
    ends = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(ends, np.linspace(0.0, ends[-1], width)), len(ends) - 1)
    strip = np.tile(colours[order][places][None], (height // 6, 1, 1))
    return np.clip(np.vstack([image, strip]), 0.0, 1.0)


def main(out: Path) -> None:
    temple, flower = (image[::3, ::3] / 255.0 for image in load_sample_images().images)
    (colours, weights), (others, other_weights) = palette(temple), palette(flower)
    pixels = temple.reshape(-1, 3)
    nearness = softmax(-cdist(pixels, colours, "sqeuclidean") / REACH**2, axis=1)
    shown = {}
    print(f"{'weight of the flower':>20}{'value':>12}{'plans certified to':>22}{'rounds':>8}")
    for t in STEPS:
        shares = np.clip([1.0 - t, t], 1e-6, None)
        found = transport.free_barycenter(
            colours,
            [colours, others],
            [weights, other_weights],
            shares,
            entropy=ENTROPY,
            support_weights=weights,
            tol=1e-5,
        )
        print(f"{t:20.2f}{found.value:12.6f}{found.gap:22.1e}{found.rounds:8}")
        # each colour of the temple goes to the mean, by the plan, of the barycentre's colours
        moved = found.plans[0].apply_transpose(found.points) / weights[:, None]
        painted = pixels + nearness @ (moved - colours)
        picture = above_palette(painted.reshape(temple.shape), found.points, found.weights)
        shown[f"temple, {t:.0%} of the way"] = picture
    shown["flower"] = above_palette(flower, others, other_weights)
    figure, panels = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for axes, (title, picture) in zip(panels.flat, shown.items(), strict=True):
        axes.imshow(picture)
        axes.set(title=title, xticks=[], yticks=[])
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "palette_barycenters.png", dpi=130)
    print(f"Picture: {out / 'palette_barycenters.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
