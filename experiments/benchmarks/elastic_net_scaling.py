"""How the time to a proof of 1e-6 grows with the number of features and of samples, as a picture.

Run: python -m experiments bench elastic_net_scaling [-- --largest 1000000 --most-samples 20000 --out folder]

The l1-constrained elastic net of `elastic_net` (ridge 1, radius 4) on Gaussian data, whose labels follow ten of the
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

import condgrad as cg
from experiments.benchmarks.elastic_net import fastest_efforts, multiplier_search
from experiments.clock import best_time, clocked, one_thread
from experiments.elastic_net_rivals import ProxNewton, installed
from experiments.paper.drawing import draw
from experiments.paper.chapter import Figure, Line, Panel
from experiments.problems import ElasticNetProblem

LEVEL, RIDGE, RADIUS = 1e-6, 1.0, 4.0
SAMPLES, FEATURES, RELEVANT = 200, 1000, 10
"""What is held fixed while the other one grows, and how many features matter."""
STYLES = {"condgrad auto": "newton", "condgrad spg": "spg", "skglm, multiplier given": "pot-gcg"}
STYLES |= {"skglm, searching for it": "cg"}


def drawn_problem(samples: int, features: int) -> ElasticNetProblem:
    """Labels that follow ten features, each as much as the noise."""
    rng = np.random.default_rng(samples + features)
    X = rng.standard_normal((features, samples)).T
    relevant = rng.choice(features, RELEVANT, replace=False)
    y = np.where(X[:, relevant] @ rng.choice([-1.0, 1.0], RELEVANT) + rng.standard_normal(samples) > 0.0, 1.0, -1.0)
    return ElasticNetProblem(f"{samples} x {features}", X, y, RIDGE, RADIUS)


def proved(problem: ElasticNetProblem, method: str, cap: float) -> float | None:
    """CPU seconds of a call that proves the level; None where the cap came first."""

    def prepare() -> Callable[[], Any]:
        f = problem.new_f()
        return lambda: cg.minimize(f, problem.g, method=method, tol=LEVEL, max_iter=10**7, time_limit=cap)

    seconds, result = clocked(prepare())
    if not result.success:
        return None
    return min(seconds, best_time(prepare)) if seconds < 0.5 * cap else seconds


def rivals(problem: ElasticNetProblem, cap: float) -> dict[str, float | None]:
    rival, multiplier = ProxNewton(problem), problem.optimum.multiplier
    fit = lambda effort: (rival.fit(multiplier, effort), 1)  # noqa: E731
    search = lambda effort: multiplier_search(rival, effort, LEVEL)  # noqa: E731
    (given,), _ = fastest_efforts(rival, fit, problem.kinder_error, [LEVEL], cap)
    (searched,), _ = fastest_efforts(rival, search, problem.constrained_error, [LEVEL], cap)
    return {"skglm, multiplier given": given.seconds, "skglm, searching for it": searched.seconds}


def measure(shapes: Sequence[tuple[int, int]], with_rivals: bool, cap: float) -> list[dict[str, Any]]:
    points = []
    for samples, features in shapes:
        problem = drawn_problem(samples, features)
        seconds = {f"condgrad {method}": proved(problem, method, cap) for method in ("auto", "spg")}
        seconds |= rivals(problem, cap) if with_rivals else {}
        points.append({"samples": samples, "features": features, "seconds": seconds})
        shown = "   ".join(f"{name} {'-' if s is None else f'{s:.4f}'}" for name, s in seconds.items())
        print(f"{samples:6d} x {features:<8d} {shown}", flush=True)
    return points


def panel(points: list[dict[str, Any]], key: str, fixed: str) -> Panel:
    lines = [
        Line(style, [p[key] for p in points], [p["seconds"].get(name) for p in points], label=name)
        for name, style in STYLES.items()
    ]
    return Panel(fixed, key, "CPU seconds to 1e-6, one thread", lines, log_x=True)


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
    skglm = installed(ProxNewton)
    with one_thread():
        by_features = measure([(SAMPLES, n) for n in grid(1000, options.largest)], skglm, options.cap)
        by_samples = measure([(m, FEATURES) for m in grid(100, options.most_samples)], skglm, options.cap)
    saved = {"level": LEVEL, "ridge": RIDGE, "radius": RADIUS, "by_features": by_features, "by_samples": by_samples}
    (options.out / "elastic_net_scaling.json").write_text(json.dumps(saved, indent=1))
    features = panel(by_features, "features", f"{SAMPLES} samples")
    samples = panel(by_samples, "samples", f"{FEATURES} features")
    title = "l1-constrained elastic net: ours prove it, skglm reaches it"
    draw(Figure("elastic_net_scaling", title, "", "", [[features, samples]]), options.out)


if __name__ == "__main__":
    main()
