"""Elastic-net path
================

Fit elastic nets with many radii (bounds on the l1 norm). Each fit has its proof. Two fits are compared with scikit-learn.

Run it by ``python examples/elastic_net.py --out out``.
The example uses toy data, and the colon data if this machine has them. It looks for them in the folder that the
environment variable CONDGRAD_DATA names, and in the cache of `condgrad.datasets.load_colon()`. It downloads nothing.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import condgrad as cg

RIDGE, RADII = 0.5, 40
EPOCHS = 1000
"""The largest number of passes of scikit-learn's solver over the data. It keeps this example short."""
COMPARED = (10, 20)
"""The places on the path at which scikit-learn solves the problem too."""


def problems() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """For each name: the data, the labels, and the relevant variables if they are known."""
    toy = cg.datasets.make_sparse_classification(seed=0)
    found = {"toy": (toy.X_train, toy.y_train, toy.relevant)}
    try:
        colon = cg.datasets.load_colon(download_if_missing=False)
    except cg.datasets.DataUnavailable:
        print(
            "The colon data are not here, so only toy data are used: name their folder in CONDGRAD_DATA."
        )
    else:
        found["colon"] = (colon.X, colon.y, None)
    return found


def penalised(X: np.ndarray, y: np.ndarray, multiplier: float) -> tuple[np.ndarray, bool]:
    """scikit-learn's minimum of loss + RIDGE |x|_2^2 + multiplier |x|_1, and whether it converged."""
    strength = multiplier + 2.0 * RIDGE
    # scikit-learn 1.8 needs these arguments; older versions also need penalty="elasticnet"
    model = LogisticRegression(
        C=1.0 / strength,
        l1_ratio=multiplier / strength,
        solver="saga",
        tol=1e-6,
        max_iter=EPOCHS,
        random_state=0,
    )
    with warnings.catch_warnings():
        # a star in the table says it
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model.coef_[0], model.n_iter_[0] < EPOCHS


def penalised_value(f: cg.smooth.Logistic, coef: np.ndarray, multiplier: float) -> float:
    """What scikit-learn minimises, with the best intercept for these coefficients."""
    return f.at(coef).value + RIDGE * coef @ coef + multiplier * np.abs(coef).sum()


def report(name: str, X: np.ndarray, y: np.ndarray, path: cg.linear_model.Path) -> None:
    print(
        f"\n{name}, {X.shape[0]} x {X.shape[1]}: {len(path.radii)} radii, "
        f"largest certified gap {path.gaps.max():.1e}"
    )
    heads = [
        "radius",
        "nonzeros",
        "certified gap",
        "|coef - best|<=",
        "multiplier",
        "|coef - theirs|",
        "sklearn excess",
    ]
    f = cg.smooth.Logistic(X, y, intercept=True)
    print("".join(f"{head:>16}" for head in heads))
    for k in COMPARED:
        coef, gap, multiplier = path.coefs[k], path.gaps[k], path.multipliers[k]
        theirs, converged = penalised(X, y, multiplier)
        apart = f"{np.linalg.norm(coef - theirs):.1e}{' ' if converged else '*'}"
        excess = penalised_value(f, theirs, multiplier) / penalised_value(f, coef, multiplier) - 1.0
        print(
            f"{path.radii[k]:>16.3f}{np.count_nonzero(coef):>16}{gap:>16.1e}"
            f"{np.sqrt(gap / RIDGE):>16.1e}{multiplier:>16.4f}{apart:>16}{excess:>16.1e}"
        )


def draw(axes: Axes, name: str, path: cg.linear_model.Path, relevant: np.ndarray | None) -> None:
    """Coefficients against the radius: the relevant ones in colour, or else the ten largest."""
    largest = np.argsort(-np.abs(path.coefs).max(axis=0))
    shown = largest[:10] if relevant is None else relevant
    others = np.setdiff1d(np.flatnonzero(path.coefs.any(axis=0)), shown)
    colour, words = ("#0072B2", "ten largest") if relevant is None else ("#D55E00", "relevant")
    axes.semilogx(path.radii, path.coefs[:, others], color="#BBBBBB", linewidth=0.6)
    axes.semilogx(path.radii, path.coefs[:, shown], color=colour, linewidth=1.4)
    axes.plot([], [], color=colour, label=f"{words} ({len(shown)})")
    axes.plot([], [], color="#BBBBBB", label=f"others, used at some radius ({len(others)})")
    for k in COMPARED:
        axes.axvline(path.radii[k], color="black", linewidth=1.0, linestyle=":")
    axes.plot(
        [], [], color="black", linewidth=1.0, linestyle=":", label="compared with scikit-learn"
    )
    relative = (path.gaps / np.maximum(1.0, np.abs(path.values))).max()
    axes.set(
        title=f"{name}: gap / max(1, |F|) <= {relative:.0e}",
        xlabel=r"radius, the bound on $|\mathrm{coef}|_1$",
    )
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18))


def main(out: Path) -> None:
    found = problems()
    figure, panels = plt.subplots(
        1, len(found), figsize=(5 * len(found), 4.8), layout="constrained", squeeze=False
    )
    for axes, (name, (X, y, relevant)) in zip(panels[0], found.items(), strict=True):
        path = cg.linear_model.path(X, y, ridge=RIDGE, n_radii=RADII, tol=1e-8)
        report(name, X, y, path)
        draw(axes, name, path, relevant)
    panels[0, 0].set_ylabel("coefficients")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "elastic_net.png", dpi=130)
    print(
        "\nsklearn excess: scikit-learn's penalised objective divided by ours, minus 1, for the same multiplier."
    )
    print(
        f"A star: scikit-learn's solver (saga, tol 1e-6) was stopped after {EPOCHS} passes over the data."
    )
    print(f"Picture: {out / 'elastic_net.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
