"""Two spaces
==========

Match two egg shapes by Gromov-Wasserstein. One of them is turned. Compare one start with several starts.

Run it by ``python examples/gromov_shapes.py --out out``.
An egg looks nearly the same from both sides. So a plan that exchanges the two sides has a small value, and it is
stationary too. The right plan has a smaller value. A certificate of stationarity does not show which of the two plans a
run has found. The table of starts shows it. The lower bound says how much better a plan can be.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from condgrad import transport

POINTS = 80


def egg(rng: np.random.Generator) -> np.ndarray:
    """Points along an ellipse. One half of the ellipse is a little longer."""
    angle = 2.0 * np.pi * np.arange(POINTS) / POINTS
    along = np.cos(angle)
    points = np.stack([1.5 * along * (1.0 + 0.05 * (along > 0.0)), np.sin(angle)], axis=1)
    return points + 0.01 * rng.standard_normal(points.shape)


def main(out: Path) -> None:
    rng = np.random.default_rng(0)
    X = egg(rng)
    angle = np.deg2rad(130.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    Y = X @ turn.T + 0.01 * rng.standard_normal(X.shape)
    C1, C2 = cdist(X, X), cdist(Y, Y)
    answers = {
        "product start": transport.gromov(C1, C2, starts=1),
        "eight starts": transport.gromov(C1, C2, starts=8),
    }
    shades = np.linspace(0.0, 1.0, POINTS)
    panels = [("source", X, shades)]
    for name, q in answers.items():
        matched = q.apply_transpose(shades[:, None])[:, 0] / q.plan.sum(axis=0)
        panels.append((f"{name}: value {q.value:.1e}", Y, matched))
        print(
            f"{name}: value {q.value:.2e}, stationary up to {q.stationarity:.0e}, "
            f"no plan below {q.lower_bound:.2e}"
        )
    print(f"{'start':28}{'value':>12}{'stationarity':>14}{'iterations':>12}")
    for record in answers["eight starts"].starts:
        print(
            f"{record.start:28}{record.value:12.3e}{record.stationarity:14.1e}{record.iterations:12}"
        )
    figure, axes = plt.subplots(
        1, 3, figsize=(10, 3.3), layout="constrained", sharex=True, sharey=True
    )
    for place, (title, points, colours) in zip(axes, panels, strict=True):
        place.scatter(*points.T, c=colours, cmap="hsv", s=24)
        place.set(title=title, xticks=[], yticks=[], aspect="equal")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "gromov_shapes.png", dpi=130)
    print(f"Picture: {out / 'gromov_shapes.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
