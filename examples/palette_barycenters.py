"""Barycentres of palettes
=======================

The colours of two photographs, and the palettes on the way from one to the other.

Run it by ``python examples/palette_barycenters.py --out out``.
A palette is a cloud of colours with weights. A barycentre with free support moves its colours to the places where their
mass goes. Each plan is certified; the colours come from a local search. The plan to the temple's palette says which
colour replaces which. So the temple can be shown in every palette on the way. Between the colours of a palette the map
is smooth: it takes a mean over near colours, and leaves no seams in the sky.
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


def strip(colours: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The palette as a strip from dark to light, each colour as wide as its weight."""
    order = np.argsort(colours @ [0.299, 0.587, 0.114])
    ends = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(ends, np.linspace(0.0, ends[-1], 400)), len(ends) - 1)
    return np.tile(colours[order][places][None], (40, 1, 1))


def main(out: Path) -> None:
    temple, flower = (image[::3, ::3] / 255.0 for image in load_sample_images().images)
    (colours, weights), (others, other_weights) = palette(temple), palette(flower)
    pixels = temple.reshape(-1, 3)
    nearness = softmax(-cdist(pixels, colours, "sqeuclidean") / REACH**2, axis=1)
    figure, panels = plt.subplots(
        2,
        len(STEPS),
        figsize=(14, 2.7),
        layout="constrained",
        gridspec_kw={"height_ratios": [5, 1]},
    )
    print(f"{'weight of the flower':>20}{'value':>12}{'plans certified to':>22}{'rounds':>8}")
    for t, (above, below) in zip(STEPS, panels.T, strict=True):
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
        # where the temple's own colours go: the plan's mean of the barycentre's colours
        moved = found.plans[0].apply_transpose(found.points) / weights[:, None]
        painted = pixels + nearness @ (moved - colours)
        above.imshow(np.clip(painted, 0.0, 1.0).reshape(temple.shape))
        below.imshow(np.clip(strip(found.points, found.weights), 0.0, 1.0), aspect="auto")
        above.set_title(f"{t:.0%} of the way to the flower's palette", fontsize=9)
        for axes in (above, below):
            axes.set(xticks=[], yticks=[])
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "palette_barycenters.png", dpi=130)
    print(f"Picture: {out / 'palette_barycenters.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
