"""Domain adaptation
=================

A classifier is trained on one data set and used on another one, which is rotated. Transport connects the two data sets.

Run it by ``python examples/domain_adaptation.py --out out``.
Transport moves the training points (the sources) onto the other data set (the targets). Then the classifier learns from
the moved points. The title of each panel has its accuracy on the targets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from condgrad.transport import EntropicTransport, GroupTransport, LaplaceTransport


def rotated_moons(n: int, angle: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(n, noise=0.05, random_state=seed)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (X - X.mean(axis=0)) @ rotation.T, y


def main(out: Path) -> None:
    Xs, ys = rotated_moons(300, 0.0, seed=0)
    Xt, yt = rotated_moons(300, np.deg2rad(50.0), seed=1)
    estimators = {
        "no transport": None,
        "entropic": EntropicTransport(),
        "Laplacian": LaplaceTransport(),
        "class groups": GroupTransport(),
    }
    figure, panels = plt.subplots(
        2, 2, figsize=(8, 6.6), layout="constrained", sharex=True, sharey=True
    )
    print(f"{'transport':14}{'accuracy on the target':>24}{'certified gap':>16}")
    for axes, (name, estimator) in zip(panels.flat, estimators.items(), strict=True):
        moved = Xs if estimator is None else estimator.fit(Xs, ys, Xt).transform(Xs)
        accuracy = SVC(kernel="rbf", gamma=2.0).fit(moved, ys).score(Xt, yt)
        gap = "" if estimator is None else f"{estimator.dual_gap_:.1e}"
        print(f"{name:14}{accuracy:>24.3f}{gap:>16}")
        axes.scatter(*Xt.T, c="#999999", s=14, label="targets (labels unknown)")
        for label, colour in enumerate(("#0072B2", "#D55E00")):
            here = moved[ys == label].T
            name_of_class = f"sources of class {label}, moved"
            axes.scatter(*here, c=colour, s=14, alpha=0.8, marker="x", label=name_of_class)
        axes.set(title=f"{name}: accuracy {accuracy:.2f}", xticks=[], yticks=[], aspect="equal")
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=3, frameon=False, markerscale=1.8
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "domain_adaptation.png", dpi=130)
    print(f"Picture: {out / 'domain_adaptation.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
