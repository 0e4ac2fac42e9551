"""Low-rank completion
===================

A photograph has lost half of its pixels. A matrix with a small nuclear norm completes the photograph.

Run it by ``python examples/matrix_completion.py --out out``.
The set is the nuclear ball: all matrices with a bounded sum of singular values. Its extreme points have rank one. So a
step of the conditional gradient needs one pair of singular vectors, and a step of projected gradients needs all of
them. For both methods, the certified gap says how near they are to the minimum of f. The gap is not the error of the
picture: even the minimiser of f in the ball is a blurred picture. The table and the title state the error on the lost
pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import condgrad as cg

SEEN, SHRINK = 0.5, 0.5
"""The share of the pixels that are seen, and the radius divided by the photograph's nuclear norm."""


def photograph() -> np.ndarray:
    """The temple in shades of grey from -1 to 1."""
    return load_sample_image("china.jpg")[::4, ::4].mean(axis=2) / 127.5 - 1.0


def main(out: Path) -> None:
    truth = photograph()
    seen = np.random.default_rng(0).random(truth.shape) < SEEN
    radius = SHRINK * np.linalg.norm(truth, "nuc")
    f = cg.smooth.Function(
        lambda X: (0.5 * float((seen * (X - truth) ** 2).sum()), seen * (X - truth))
    )
    g = cg.simple.Zero(on=cg.sets.NuclearBall(radius))
    figure = plt.figure(figsize=(10, 6), layout="constrained")
    pictures, curves = figure.subfigures(2, 1, height_ratios=[1.0, 0.9])
    panels = pictures.subplots(1, 3)
    gaps, ranks = curves.subplots(1, 2)
    print(
        f"{truth.shape[0]} x {truth.shape[1]} pixels, {seen.mean():.0%} seen, "
        f"nuclear norm at most {radius:.0f}"
    )
    print(f"{'method':22}{'relative gap':>14}{'rank':>6}{'error on lost pixels':>22}{'seconds':>9}")
    runs = [
        ("cg", "conditional gradient", "#D55E00", 100),
        ("spg", "projected gradient", "#0072B2", 100),
    ]
    for method, name, colour, iterations in runs:
        r = cg.minimize(f, g, np.zeros_like(truth), method=method, tol=1e-4, max_iter=iterations)
        values = np.linalg.svd(r.x, compute_uv=False)
        rank = int((values > 1e-6 * values[0]).sum())
        error = np.sqrt(((r.x - truth)[~seen] ** 2).mean())
        print(f"{name:22}{r.relative_gap:14.1e}{rank:6}{error:22.3f}{r.seconds:9.2f}")
        relative = (r.trace["best_value"] - r.trace["lower_bound"]) / r.scale
        gaps.plot(r.trace["iteration"] + 1, relative, color=colour, label=name)
        ranks.semilogy(np.maximum(values, 1e-9), color=colour, label=f"{name}: rank {rank}")
    ranks.semilogy(
        np.linalg.svd(truth, compute_uv=False), color="#999999", linewidth=1.0, label="photograph"
    )
    shown = {
        "photograph": truth,
        f"{SEEN:.0%} of the pixels": np.where(seen, truth, -1.0),
        f"completed: error {error:.2f}\non the lost pixels": r.x,
    }
    for axes, (title, picture) in zip(panels, shown.items(), strict=True):
        axes.imshow(picture, cmap="gray", vmin=-1.0, vmax=1.0)
        axes.set(title=title, xticks=[], yticks=[])
    gaps.set(
        xlabel="iteration + 1", ylabel="certified gap / scale of F", xscale="log", yscale="log"
    )
    ranks.set(xlabel="number", ylabel="singular values", ylim=(1e-2, None))
    for axes in (gaps, ranks):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "matrix_completion.png", dpi=120)
    print(f"Picture: {out / 'matrix_completion.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
