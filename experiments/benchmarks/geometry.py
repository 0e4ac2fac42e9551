"""Newton's passes on clouds that it was not tuned on, and on real data beside the paper's problem.

Run: python -m experiments bench geometry [-- --n 2000 --seeds 1 2 3 --tol 1e-8 --device cuda]

A row is a problem: the median over seeds of passes, seconds, Newton and conjugate gradient steps, and what passes went
to. Points are evaluations of the dual, steps are those of conjugate gradients, vectors and factors make their
preconditioner. Real data are photographs, digits, wine and diabetes of scikit-learn; their seconds are also given over
those of the paper's problem of the same size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

import condgrad as cg
from condgrad import passes
from experiments.benchmarks import run, shown
from experiments.clock import one_thread

PURPOSES = ("points", "steps", "vectors", "factors", "proofs")
Clouds = tuple[Any, Any]


def discs(n: int, seed: int) -> Clouds:
    """Two Gaussians in the plane, one turned and shifted."""
    rng, angle = np.random.default_rng(seed), math.atan2(0.6, 0.8)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return rng.standard_normal((n, 2)), rng.standard_normal((n, 2)) @ turn + [1.0, 0.5]


def blobs(n: int, seed: int) -> Clouds:
    """Seven blobs of different shapes and sizes in space; the targets are sheared."""
    rng = np.random.default_rng(seed)
    centres, shapes = 2.0 * rng.standard_normal((7, 3)), 0.25 * rng.standard_normal((7, 3, 3))

    def drawn(shares: tuple[float, ...]) -> Any:
        which = rng.choice(7, n, p=shares)
        return centres[which] + np.einsum("nij,nj->ni", shapes[which], rng.standard_normal((n, 3)))

    sources, targets = (
        drawn((0.3, 0.2, 0.15, 0.13, 0.1, 0.07, 0.05)),
        drawn((0.25, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05)),
    )
    return sources, targets @ np.array([[1.0, 0.0, -0.1], [0.3, 0.9, 0.0], [0.0, 0.2, 1.1]]) + [
        0.5,
        -0.3,
        0.2,
    ]


def surfaces(n: int, seed: int) -> Clouds:
    """From a torus to a sphere."""
    rng = np.random.default_rng(seed)
    around, along = 2.0 * np.pi * rng.random((2, n))
    ring = 2.0 + 0.7 * np.cos(along)
    torus = np.stack([ring * np.cos(around), ring * np.sin(around), 0.7 * np.sin(along)], axis=1)
    ball = rng.standard_normal((n, 3))
    return torus, 1.8 * ball / np.linalg.norm(ball, axis=1, keepdims=True) + [0.4, 0.0, 0.0]


def features(n: int, seed: int) -> Clouds:
    """Ten features with heavy tails."""
    rng = np.random.default_rng(seed)
    return rng.standard_t(4, (n, 10)), rng.standard_t(4, (n, 10)) * np.linspace(0.5, 1.5, 10) + 0.3


def clusters(n: int, seed: int) -> Clouds:
    """The paper's."""
    data = cg.datasets.make_clusters(n, seed=seed)
    return data.Xs, data.Xt


def photographs(n: int, seed: int) -> Clouds:
    """Colours of pixels of two photographs."""
    from sklearn.datasets import load_sample_image

    rng = np.random.default_rng(seed)
    pixels = [
        load_sample_image(name).reshape(-1, 3) / 255.0 for name in ("china.jpg", "flower.jpg")
    ]
    return tuple(each[rng.choice(len(each), n, replace=False)] for each in pixels)


def halves(loader: str) -> Callable[[int, int], Clouds]:
    """A data set of scikit-learn in standard units, one random half to the other."""

    def drawn(n: int, seed: int) -> Clouds:
        import sklearn.datasets

        X = getattr(sklearn.datasets, loader)().data
        X = (X - X.mean(0)) / np.where(X.std(0) > 0.0, X.std(0), 1.0)
        X = X[np.random.default_rng(seed).permutation(len(X))]
        size = min(n, len(X) // 2)
        return X[:size], X[size : 2 * size]

    return drawn


class Problem(NamedTuple):
    """Clouds, an entropy over the mean cost, a Laplacian's weight over the number of points, and where to end."""

    clouds: Callable[[int, int], Clouds]
    entropy: float
    weight: float
    tol: float = 1e-8
    real: bool = False


PROBLEMS = {
    "paper": Problem(clusters, 0.02, 2.0),
    "discs, 2-D": Problem(discs, 0.01, 2.0),
    "blobs, 3-D": Problem(blobs, 0.01, 2.0),
    "torus to sphere": Problem(surfaces, 0.003, 5.0),
    "torus to sphere, entropy alone": Problem(surfaces, 0.003, 0.0),
    "features, 10-D, entropy alone": Problem(features, 0.02, 0.0),
    "features, 10-D": Problem(features, 0.01, 2.0, tol=1e-6),
    "photographs, 3-D": Problem(photographs, 0.01, 2.0, tol=1e-6, real=True),
    "diabetes, 10-D": Problem(halves("load_diabetes"), 0.01, 2.0, tol=1e-6, real=True),
    "wine, 13-D": Problem(halves("load_wine"), 0.01, 2.0, tol=1e-6, real=True),
    "digits, 64-D": Problem(halves("load_digits"), 0.01, 2.0, tol=1e-6, real=True),
}


def measured(
    problem: Problem, n: int, seed: int, plan: str, limit: float, device: str
) -> dict[str, Any]:
    """One solve: by Newton between made clouds, by "auto" between real ones, as those come who do not choose."""
    Xs, Xt = problem.clouds(n, seed)
    mean = 1.0
    if problem.clouds is not clusters:
        mean = float(
            ((Xs - Xt.mean(0)) ** 2).sum(1).mean() + ((Xt - Xt.mean(0)) ** 2).sum(1).mean()
        )
    if device != "cpu":
        import torch

        Xs, Xt = (torch.as_tensor(X, dtype=torch.float64, device=device) for X in (Xs, Xt))
    terms = (
        [cg.transport.Laplacian(Xs, Xt, weight=problem.weight * len(Xs))] if problem.weight else []
    )
    for term in terms:
        term.graphs  # noqa: B018 - they are made when first asked for, and are no part of a solve
    options: dict[str, Any] = {"plan": plan, "tol": problem.tol, "time_limit": limit}
    begin = time.perf_counter()
    with passes.counting() as count:
        t = cg.transport.solve(
            cg.transport.SquaredEuclidean(Xs, Xt),
            entropy=problem.entropy * mean,
            regularizers=terms,
            method="auto" if problem.real else "newton",
            **options,
        )
    return {
        "points": len(Xs),
        "passes": count.passes,
        "seconds": time.perf_counter() - begin,
        "Newton": t.iterations,
        "CG": int(t.result.trace["inner_iterations"][-1]),
        **{f"on {purpose}": count.by_purpose[purpose] for purpose in PURPOSES},
        "gap": t.relative_gap,
        "solved": t.success,
    }


def row_of(
    name: str, n: int, seeds: tuple[int, ...], plan: str, limit: float, device: str = "cpu"
) -> dict[str, Any]:
    """Medians over the seeds; a problem counts as solved if it was with every seed."""
    problem = PROBLEMS[name]
    runs = [measured(problem, n, seed, plan, limit, device) for seed in seeds]
    row = {key: float(np.median([each[key] for each in runs])) for key in runs[0]}
    kept = {key: value if key in ("seconds", "gap") else round(value) for key, value in row.items()}
    return {
        "problem": name,
        "plan": plan,
        **kept,
        "solved": all(each["solved"] for each in runs),
        "tol": problem.tol,
    }


def rows_of(
    n: int, seeds: tuple[int, ...], plans: tuple[str, ...], limit: float, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """All problems; real data as many points as there are, at most 1000, by arrays."""
    for name, problem in PROBLEMS.items():
        if not problem.real:
            for plan in plans:
                yield row_of(name, n, seeds, plan, limit, device) | {"over paper": None}
            continue
        row = row_of(name, min(n, 1000), seeds, "dense", limit, device)
        beside = [
            measured(
                PROBLEMS["paper"]._replace(tol=problem.tol),
                row["points"],
                s,
                "dense",
                limit,
                device,
            )
            for s in seeds
        ]
        yield row | {
            "over paper": row["seconds"] / float(np.median([each["seconds"] for each in beside]))
        }


def main(
    *,
    n: Annotated[int, "points of each side of the made clouds"] = 2000,
    seeds: Annotated[tuple[int, ...], "of the clouds; the medians are shown"] = (1, 2, 3),
    plans: Annotated[tuple[str, ...], "dense, streamed"] = ("dense", "streamed"),
    time_limit: Annotated[float, "seconds of a solve"] = 120.0,
    device: Annotated[str, "of the clouds: cpu, or cuda where there is one"] = "cpu",
) -> None:
    with one_thread():
        rows = shown(rows_of(n, tuple(seeds), tuple(plans), time_limit, device))
    print(f"{sum(row['solved'] for row in rows)} of {len(rows)} solved")


if __name__ == "__main__":
    run(main)
