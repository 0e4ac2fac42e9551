"""Domain adaptation with default weights: our estimators, entropy alone, and POT's defaults, on four problems.

Run: python -m experiments bench domain_adaptation [-- --seeds 20 --size 300]

A 1-nearest-neighbour classifier learns from the moved sources and predicts the targets. A row of the table is the mean
accuracy and its standard deviation over seeds. The defaults of our estimators were chosen on other problems and seeds.
`--scaled` adds POT's estimators with their cost divided by its largest entry.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits, make_moons
from sklearn.neighbors import KNeighborsClassifier

from condgrad.transport import EntropicTransport, GroupTransport, LaplaceTransport
from experiments.benchmarks import show
from experiments.clock import one_thread


@dataclass(frozen=True)
class Domains:
    """Sources with classes, and targets whose classes only the judge knows."""

    Xs: Any
    ys: Any
    Xt: Any
    yt: Any

    def accuracy(self, moved: Any) -> float:
        if not np.isfinite(moved).all():
            return float("nan")
        return float(KNeighborsClassifier(1).fit(moved, self.ys).score(self.Xt, self.yt))


def digits(n: int, seed: int) -> Domains:
    """Two halves of the digits of scikit-learn, one of them blurred by a Gaussian of one pixel."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    source, target = order[: len(X) // 2][:n], order[len(X) // 2 :][:n]
    blurred = [gaussian_filter(image, 1.0).ravel() for image in X[target].reshape(-1, 8, 8)]
    return Domains(X[source], y[source], np.stack(blurred), y[target])


def moons(n: int, seed: int) -> Domains:
    """Two moons, and two moons turned by 40 degrees."""
    Xs, ys = make_moons(n, noise=0.05, random_state=2 * seed)
    Xt, yt = make_moons(n, noise=0.05, random_state=2 * seed + 1)
    angle = np.deg2rad(40.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return Domains(Xs - Xs.mean(axis=0), ys, (Xt - Xt.mean(axis=0)) @ turn.T, yt)


def gaussians(n: int, seed: int) -> Domains:
    """Five Gaussian classes in 256 dimensions, seen through another random covariance in each domain."""
    rng = np.random.default_rng(seed)
    d, classes = 256, 5
    means = 0.5 * rng.standard_normal((classes, d))

    def root_of_covariance() -> Any:
        Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
        return (Q * np.exp(rng.standard_normal(d))) @ Q.T

    of_source, of_target = root_of_covariance(), root_of_covariance()
    ys, yt = rng.integers(0, classes, n), rng.integers(0, classes, n)
    Xs = (means[ys] + rng.standard_normal((n, d))) @ of_source
    return Domains(Xs, ys, (means[yt] + rng.standard_normal((n, d))) @ of_target, yt)


def clusters(n: int, seed: int) -> Domains:
    """Five clusters in the unit square, shifted by 0.6 in some direction, in other proportions."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.0, 1.0, (5, 2))
    ys, yt = rng.integers(0, 5, n), rng.integers(0, 5, n)
    shift = rng.standard_normal(2)
    shift *= 0.6 / np.linalg.norm(shift)
    noise = 0.06 * rng.standard_normal((2, n, 2))
    return Domains(centres[ys] + noise[0], ys, centres[yt] + shift + noise[1], yt)


PROBLEMS: dict[str, Callable[[int, int], Domains]] = {
    "digits": digits,
    "moons": moons,
    "gaussians": gaussians,
    "clusters": clusters,
}


def estimators(*, scaled: bool) -> dict[str, Any]:
    named = {
        "entropy alone": EntropicTransport(),
        "LaplaceTransport()": LaplaceTransport(),
        "GroupTransport()": GroupTransport(),
        "POT SinkhornLpl1Transport()": ot.da.SinkhornLpl1Transport(),
        "POT SinkhornL1l2Transport()": ot.da.SinkhornL1l2Transport(),
        "POT EMDLaplaceTransport()": ot.da.EMDLaplaceTransport(),
    }
    if scaled:
        named |= {
            "POT SinkhornLpl1, norm max": ot.da.SinkhornLpl1Transport(norm="max"),
            "POT SinkhornL1l2, norm max": ot.da.SinkhornL1l2Transport(norm="max"),
            "POT EMDLaplace, norm max": ot.da.EMDLaplaceTransport(norm="max"),
        }
    return named


def table(problem: str, seeds: int, size: int, *, scaled: bool) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        data = PROBLEMS[problem](size, seed)
        found.setdefault("no transport", []).append((data.accuracy(data.Xs), 0.0))
        for name, estimator in estimators(scaled=scaled).items():
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # POT's, of numbers it divides by 0 and loops that did not converge
                moved = estimator.fit(Xs=data.Xs, ys=data.ys, Xt=data.Xt).transform(Xs=data.Xs)
                found.setdefault(name, []).append(
                    (data.accuracy(moved), time.process_time() - begin)
                )
    rows = []
    for name, pairs in found.items():
        accuracy, seconds = np.array(pairs).T
        rows.append(
            {
                "estimator": name,
                "mean": accuracy.mean(),
                "sd": accuracy.std(ddof=1),
                "CPU s": seconds.mean(),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--size", type=int, default=300, help="points of each domain")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--scaled", action="store_true", help="POT's with norm='max' too")
    options = parser.parse_args()
    with one_thread():
        for problem in options.problems:
            print(f"{problem}, {options.size} points of each domain, {options.seeds} seeds")
            show(table(problem, options.seeds, options.size, scaled=options.scaled))


if __name__ == "__main__":
    main()
