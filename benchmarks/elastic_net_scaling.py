"""How the time to a proof of 1e-6 grows with the number of features and of samples, as a picture.

Run: python benchmarks/elastic_net_scaling.py [--largest 1000000] [--most-samples 20000] [--out folder]

The l1-constrained elastic net of `elastic_net.py` (ridge 1, radius 4) on Gaussian data, whose labels follow ten of the
features and noise. Ours stop by their own certificate. skglm's ProxNewton, where it is installed, proves nothing: it
has the tolerance that reaches 1e-6 fastest, once with the multiplier given, once searching for it. Times are CPU
seconds on one thread, the best of several runs. A million features of 200 samples take 1.6 GB, and a few times that
while the data are drawn and checked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from elastic_net import LAYOUT, fastest_efforts, multiplier_search
from elastic_net_peers import Problem, ProxNewton, best_time, clocked, installed
from threadpoolctl import threadpool_limits

import condgrad as cg

LEVEL, RIDGE, RADIUS = 1e-6, 1.0, 4.0
SAMPLES, FEATURES, RELEVANT = 200, 1000, 10
"""What is held fixed while the other one grows, and how many features matter."""

STYLES = {
    "condgrad auto": ("#1f5fa8", "-", "o"),
    "condgrad spg": ("#5aa9e6", "-", "s"),
    "skglm, multiplier given": ("#c4512d", "--", "^"),
    "skglm, searching for it": ("#c4512d", "-", "v"),
}


def draw(samples: int, features: int) -> Problem:
    """Labels that follow ten features, each as much as the noise."""
    rng = np.random.default_rng(samples + features)
    X = rng.standard_normal((features, samples)).T
    relevant = rng.choice(features, RELEVANT, replace=False)
    y = np.where(X[:, relevant] @ rng.choice([-1.0, 1.0], RELEVANT) + rng.standard_normal(samples) > 0.0, 1.0, -1.0)
    return Problem(f"{samples} x {features}", X, y, RIDGE, RADIUS)


def proved(problem: Problem, method: str, cap: float) -> float | None:
    """CPU seconds of a call that proves the level; None where the cap came first."""

    def prepare() -> Callable[[], Any]:
        f = problem.smooth(LAYOUT)
        return lambda: cg.minimize(f, problem.simple, method=method, tol=LEVEL, max_iter=10**7, time_limit=cap)

    seconds, result = clocked(prepare())
    if result.status is not cg.Status.CONVERGED:
        return None
    return min(seconds, best_time(prepare)) if seconds < 0.5 * cap else seconds


def peers(problem: Problem, cap: float) -> dict[str, float | None]:
    peer, multiplier = ProxNewton(problem), problem.optimum.multiplier
    (given,), _ = fastest_efforts(
        peer, lambda effort: (peer.fit(multiplier, effort), 1), problem.kinder_error, [LEVEL], cap
    )
    (searched,), _ = fastest_efforts(
        peer, lambda effort: multiplier_search(peer, effort, LEVEL), problem.constrained_error, [LEVEL], cap
    )
    return {"skglm, multiplier given": given.seconds, "skglm, searching for it": searched.seconds}


def measure(shapes: Sequence[tuple[int, int]], with_peers: bool, cap: float) -> list[dict[str, Any]]:
    points = []
    for samples, features in shapes:
        problem = draw(samples, features)
        seconds = {f"condgrad {method}": proved(problem, method, cap) for method in ("auto", "spg")}
        if with_peers:
            seconds |= peers(problem, cap)
        points.append({"samples": samples, "features": features, "seconds": seconds})
        shown = "   ".join(f"{name} {'-' if s is None else f'{s:.4f}'}" for name, s in seconds.items())
        print(f"{samples:6d} x {features:<8d} {shown}", flush=True)
    return points


def picture(by_features: list[dict[str, Any]], by_samples: list[dict[str, Any]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for axes, points, key, fixed in (
        (panels[0], by_features, "features", f"{SAMPLES} samples"),
        (panels[1], by_samples, "samples", f"{FEATURES} features"),
    ):
        for name, (color, line, marker) in STYLES.items():
            pairs = [(p[key], p["seconds"][name]) for p in points if p["seconds"].get(name) is not None]
            if pairs:
                axes.loglog(*zip(*pairs, strict=True), line, color=color, marker=marker, markersize=5, label=name)
        axes.set_xlabel(f"{key} ({fixed})")
        axes.grid(which="major", color="0.85")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("CPU seconds to 1e-6, one thread")
    panels[0].legend(frameon=False)
    figure.suptitle("l1-constrained elastic net: ours prove it, skglm reaches it")
    figure.savefig(file, dpi=150)


def grid(first: int, last: int) -> list[int]:
    """Two points a decade, and the last."""
    steps = range(int(2 * np.log10(last / first) + 1e-9) + 1)
    return sorted({*(round(first * 10 ** (0.5 * k)) for k in steps), last})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=100_000, help="how many features, at most")
    parser.add_argument("--most-samples", type=int, default=20_000)
    parser.add_argument("--cap", type=float, default=60.0, help="seconds that a run may take")
    parser.add_argument("--out", type=Path, default=Path("out"), help="a folder for the picture and its numbers")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with_peers = installed(ProxNewton)
    with threadpool_limits(1):
        by_features = measure([(SAMPLES, n) for n in grid(1000, options.largest)], with_peers, options.cap)
        by_samples = measure([(m, FEATURES) for m in grid(100, options.most_samples)], with_peers, options.cap)
    saved = {"level": LEVEL, "ridge": RIDGE, "radius": RADIUS, "by_features": by_features, "by_samples": by_samples}
    (options.out / "elastic_net_scaling.json").write_text(json.dumps(saved, indent=1))
    picture(by_features, by_samples, options.out / "elastic_net_scaling.png")


if __name__ == "__main__":
    main()
