"""Many points
===========

Transport between two large clouds. The plan is too large to be stored, so it is computed tile by tile.

Run it by ``python examples/many_points.py --out out``.
A disc flows into a spiral. Each of them has a million points if torch sees a CUDA device, and 10,000 points if not.
Each point keeps its colour, so the picture shows where everything went. The certificate belongs to a plan with exact
marginals, although the program never stores more than one tile of this plan.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from condgrad import transport

ENTROPY, SHOWN = 1e-2, 10_000


def disc(n: int, rng: np.random.Generator) -> np.ndarray:
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, n), np.sqrt(rng.uniform(0.0, 1.0, n))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def spiral(n: int, rng: np.random.Generator) -> np.ndarray:
    """A galaxy of two arms."""
    along = np.sqrt(rng.uniform(0.02, 1.0, n))
    angle = 3.5 * along + np.pi * rng.integers(0, 2, n)
    points = 1.3 * along[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points + 0.06 * rng.standard_normal((n, 2))


def device_and_size() -> tuple[str, int]:
    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return "cuda", 1_000_000
    return "cpu", 10_000


def on(device: str, X: np.ndarray) -> Any:
    """The points as arrays of the library that computes: NumPy on a CPU, torch on a GPU."""
    if device == "cpu":
        return X
    import torch

    return torch.tensor(X, device=device)


def main(out: Path) -> None:
    device, n = device_and_size()
    rng = np.random.default_rng(0)
    Xs, Xt = disc(n, rng), spiral(n, rng)
    targets = on(device, Xt)
    cost = transport.SquaredEuclidean(on(device, Xs), targets)
    t = transport.solve(cost, entropy=ENTROPY, plan="streamed", tol=1e-3)
    moved = t.barycenters(targets)
    moved = moved if device == "cpu" else moved.cpu().numpy()
    print(
        f"{n} x {n} points on {device}; as an array the plan would take {8 * n * n / 2**30:.3g} GiB"
    )
    print(t)
    some = slice(0, SHOWN)
    colours = matplotlib.colors.hsv_to_rgb(
        np.stack(
            [
                (np.arctan2(*Xs[some].T) / (2 * np.pi)) % 1.0,
                np.hypot(*Xs[some].T),
                np.full(SHOWN, 0.9),
            ],
            axis=1,
        )
    )
    figure, panels = plt.subplots(
        2, 2, figsize=(8, 6.6), layout="constrained", sharex=True, sharey=True
    )
    for axes, share in zip(panels.flat, (0.0, 1 / 3, 2 / 3, 1.0), strict=True):
        places = (1.0 - share) * Xs[some] + share * moved[some]
        axes.scatter(*places.T, c=colours, s=2.5, linewidths=0)
        axes.set(
            title=f"{share:.0%} of the way",
            xticks=[],
            yticks=[],
            aspect="equal",
            facecolor="#111111",
        )
    figure.suptitle(
        f"{n:,} points to {n:,}, streamed: certified to {t.relative_gap:.0e} of the scale of F"
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "many_points.png", dpi=130)
    print(f"Picture: {out / 'many_points.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
