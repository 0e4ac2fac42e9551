"""A microarray study
==================

From gene expressions to a short list of genes: choose the radius, test on held-out samples, and find the stable genes.

Run it by ``python examples/microarray_study.py --out out``.
The program uses the colon data (62 tissues, 2000 genes) if this machine has them. It looks in the folder that the
environment variable CONDGRAD_DATA names, and in the cache of `condgrad.datasets.load_colon()`. If the data are not
there, it uses scikit-learn's breast cancer data, and the title says so. It downloads nothing. To find the stable genes,
it fits a model to each of 80 random halves of the training samples. A gene is stable if at least 60 % of these models
use it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

import condgrad as cg

HALVES, LISTED, SHARE = 40, 15, 0.6
BLUE, RED, GREY = "#0072B2", "#D55E00", "#999999"


def samples() -> tuple[str, np.ndarray, np.ndarray, list[str]]:
    """A title, the expressions, the labels (-1 and 1) and the names of the features."""
    try:
        colon = cg.datasets.load_colon(standardize=False, download_if_missing=False)
    except cg.datasets.DataUnavailable:
        print(
            "The colon data are not here: name their folder in CONDGRAD_DATA. "
            "Breast cancer takes their place."
        )
        cancer = load_breast_cancer()
        names = [str(name) for name in cancer.feature_names]
        return "breast cancer, in place of colon", cancer.data, 2.0 * cancer.target - 1.0, names
    names = list(colon.feature_names or (f"gene {k}" for k in range(colon.X.shape[1])))
    return "colon: 40 tumours, 22 normal", colon.X, colon.y, names


def draw_choice(axes: Axes, model: cg.linear_model.ConstrainedLogisticRegressionCV) -> None:
    """Scores on held-out folds for the chosen ridge, and the radii that the two rules choose."""
    table = model.cv_table()
    row = table[table["param_ridge"] == model.ridge_]
    mean, error = row["mean_test_score"].to_numpy(), row["standard_error"].to_numpy()
    axes.fill_between(row["param_radius"], mean - error, mean + error, color=BLUE, alpha=0.2)
    axes.plot(row["param_radius"], mean, color=BLUE)
    axes.axvline(
        model.radius_best_,
        color="black",
        linestyle=":",
        label=f"best radius {model.radius_best_:.2g}",
    )
    axes.axvline(model.radius_1se_, color=RED, label=f"one standard error: {model.radius_1se_:.2g}")
    axes.set(
        xscale="log",
        xlabel="radius",
        title="Choice of the radius",
        ylabel=f"cross-validated log likelihood, ridge {model.ridge_:.2g}",
    )
    axes.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def draw_held_out(axes: Axes, probability: np.ndarray, y: np.ndarray) -> None:
    order = np.argsort(probability)
    axes.axhline(0.5, color="black", linewidth=0.8)
    for label, colour, marker in ((-1.0, BLUE, "o"), (1.0, RED, "^")):
        here = y[order] == label
        axes.scatter(
            np.flatnonzero(here),
            probability[order][here],
            color=colour,
            marker=marker,
            label=f"class {label:+.0f}",
        )
    right = np.mean((probability > 0.5) == (y > 0.0))
    axes.set(
        ylim=(0, 1),
        xticks=[],
        xlabel="held-out samples, in rising order",
        ylabel="predicted probability",
        title=f"Held-out samples: {right:.0%} right",
    )
    axes.legend(fontsize=9, frameon=False, loc="lower right")


def draw_stable(axes: Axes, share: np.ndarray, names: list[str]) -> None:
    top = np.argsort(-share, kind="stable")[:LISTED][::-1]
    axes.barh(
        np.arange(LISTED), share[top], color=[RED if s >= SHARE else GREY for s in share[top]]
    )
    axes.axvline(SHARE, color="black", linewidth=0.8, linestyle="--")
    axes.set(
        title=f"Share of {2 * HALVES} halves that choose it",
        xlim=(0, 1),
        yticks=np.arange(LISTED),
    )
    axes.set_yticklabels([names[k] for k in top])
    axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))


def main(out: Path) -> None:
    title, X, y, names = samples()
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=1
    )
    X_train, X_test = (
        cg.datasets.standardize(part, reference=X_train) for part in (X_train, X_test)
    )
    model = cg.linear_model.ConstrainedLogisticRegressionCV(
        cv=5, ridges=[0.1, 1.0], selection="1se", tol=1e-5
    )
    model.fit(X_train, y_train)
    chosen = np.count_nonzero(model.coef_)
    print(f"{title}: {X.shape[0]} samples, {X.shape[1]} features; {len(y_test)} samples held out")
    print(
        f"radius {model.radius_:.3g}, ridge {model.ridge_:.3g}: {chosen} features, "
        f"certified gap {model.dual_gap_[0]:.1e}"
    )
    print(f"accuracy on held-out samples: {model.score(X_test, y_test):.3f}")

    share, fit = (
        np.zeros(X.shape[1]),
        cg.linear_model.ConstrainedLogisticRegression(model.radius_, model.ridge_, tol=1e-4),
    )
    for pair in StratifiedShuffleSplit(HALVES, train_size=0.5, test_size=0.5, random_state=0).split(
        X_train, y_train
    ):
        for half in pair:
            share += fit.fit(X_train[half], y_train[half]).coef_[0] != 0.0
    share /= 2 * HALVES
    stable = np.flatnonzero(share >= SHARE)
    print(f"chosen by at least {SHARE:.0%} of the halves:")
    for k in stable[np.argsort(-share[stable])]:
        print(f"  {names[k]} ({share[k]:.0%})")

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained")
    draw_choice(left, model)
    draw_held_out(middle, model.predict_proba(X_test)[:, 1], y_test)
    draw_stable(right, share, names)
    figure.suptitle(
        f"{title}; {chosen} of {X.shape[1]} features, certified gap {model.dual_gap_[0]:.0e}"
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "microarray_study.png", dpi=130)
    print(f"Picture: {out / 'microarray_study.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)
