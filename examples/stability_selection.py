"""Stability selection
===================

Fit a model to many halves of the samples. Which variables are chosen most often? How many of them are chosen by chance?

Run it by ``python examples/stability_selection.py --out out``.
If several variables are correlated, a single fit chooses one of them, and the choice depends on the samples. So this
example fits paths to many halves of the samples, in complementary pairs. A variable is stable if at least a given share
of the halves choose it at some radius (Meinshausen and Buehlmann, J. R. Stat. Soc. B 72:417, 2010; Shah and Samworth, B
75:55, 2013). Some stable variables may be irrelevant. If each half chooses q of p variables on average, the expected
number of irrelevant stable variables is at most q^2 / ((2 share - 1) p).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.model_selection import StratifiedShuffleSplit

import condgrad as cg

RIDGE, TOL = 0.5, 1e-5
PAIRS, SHARE = 50, 0.75
MOST_CHOSEN = 15
"""At the largest radius, a fit chooses at most this many variables: with more, the bound is useless."""
RELEVANT, OTHERS = "#D55E00", "#999999"


def radii_of(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The radii at which a fit to all samples chooses few variables."""
    path = cg.linear_model.path(X, y, ridge=RIDGE, n_radii=40, tol=TOL)
    few = np.count_nonzero(path.coefs, axis=1) <= MOST_CHOSEN
    return path.radii[few]


def frequencies(X: np.ndarray, y: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, float]:
    """How often each variable is chosen at each radius; how many variables a half chooses on average."""
    chosen = np.zeros((len(radii), X.shape[1]))
    total = 0
    halves = StratifiedShuffleSplit(PAIRS, train_size=0.5, test_size=0.5, random_state=0)
    for pair in halves.split(X, y):
        for half in pair:
            found = (
                cg.linear_model.path(X[half], y[half], radii=radii, ridge=RIDGE, tol=TOL).coefs
                != 0.0
            )
            chosen += found
            total += np.count_nonzero(found.any(axis=0))
    return chosen / (2 * PAIRS), total / (2 * PAIRS)


def draw(
    axes: Axes, radii: np.ndarray, curves: np.ndarray, relevant: np.ndarray, title: str
) -> None:
    """A curve for each variable, with the relevant variables on top."""
    others = np.setdiff1d(np.flatnonzero(curves.any(axis=0)), relevant)
    axes.plot(radii, curves[:, others], color=OTHERS, linewidth=0.8)
    axes.plot(radii, curves[:, relevant], color=RELEVANT, linewidth=1.6)
    axes.plot([], [], color=RELEVANT, label=f"relevant variables: {len(relevant)}")
    axes.plot([], [], color=OTHERS, label=f"others that are ever chosen: {len(others)}")
    axes.set(xscale="log", xlabel="radius", title=title)


def main(out: Path) -> None:
    """Fit, count, draw."""
    toy = cg.datasets.make_sparse_classification(
        n_samples=300, n_features=1000, n_relevant=8, test_size=0.2, seed=4
    )
    X, y, relevant = toy.X_train, toy.y_train, toy.relevant
    radii = radii_of(X, y)
    share, per_half = frequencies(X, y, radii)
    stable = np.flatnonzero(share.max(axis=0) >= SHARE)
    path = cg.linear_model.path(X, y, radii=radii, ridge=RIDGE, tol=TOL)
    single = np.flatnonzero(path.coefs.any(axis=0))
    bound = per_half**2 / ((2.0 * SHARE - 1.0) * X.shape[1])
    print(
        f"{X.shape[0]} samples, {X.shape[1]} variables, {len(relevant)} of them relevant; "
        f"{2 * PAIRS} halves."
    )
    for name, found in (("one path", single), (f"chosen by {SHARE:.0%} of the halves", stable)):
        right = len(np.intersect1d(found, relevant))
        print(
            f"{name:>28}: {len(found):3} variables, "
            f"{right} of them relevant, {len(found) - right} not"
        )
    print(
        f"Expected number of irrelevant stable variables: at most {bound:.2f} "
        f"(a half chooses {per_half:.1f} variables on average)."
    )
    figure, (left, right_axes) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    draw(left, radii, path.coefs, relevant, "One path: coefficients")
    draw(right_axes, radii, share, relevant, f"{2 * PAIRS} halves: how often each is chosen")
    right_axes.axhline(
        SHARE, color="black", linestyle="--", linewidth=0.8, label=f"stable from {SHARE:.0%}"
    )
    right_axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
    for axes in (left, right_axes):
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "stability_selection.png", dpi=130)
    print(f"Picture: {out / 'stability_selection.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
