"""Seconds of a training loss, value and gradient, and its errors, beside geomloss; batches beside single problems.

Run: python -m experiments bench training_loss      (needs torch and geomloss)
The loss is the divergence between two normal clouds in three dimensions, on one thread. geomloss has half our cost, so
that its blur^2 is half our entropy and its value half of ours. Errors are those of value and gradient against our answer
at a gap of 1e-10.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import condgrad as cg
from experiments.benchmarks import run, show
from experiments.clock import one_thread, quiet

ENTROPY = 0.05
Loss = Callable[[Any, Any], Any]


def ours(tol: float) -> Loss:
    return lambda X, Y: cg.transport.divergence_loss(X, Y, entropy=ENTROPY, tol=tol)


def theirs(scaling: float) -> Loss:
    from geomloss import SamplesLoss

    blur = (ENTROPY / 2.0) ** 0.5
    half = SamplesLoss("sinkhorn", p=2, blur=blur, scaling=scaling, backend="tensorized")
    return lambda X, Y: 2.0 * half(X, Y)


def value_and_gradient(loss: Loss, X: Any, Y: Any) -> tuple[float, Any]:
    X = X.clone().requires_grad_()
    value = loss(X, Y)
    value.backward()
    return float(value), X.grad


def mixed_batch(count: int) -> tuple[float, float]:
    """Wall seconds of problems of 5 to 50 points in one batch, and one by one."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(5, 51, (count, 2))
    clouds = [[rng.standard_normal((size, 2)) for size in pair] for pair in sizes]
    costs = [((X[:, None] - Y[None]) ** 2).sum(axis=2) for X, Y in clouds]
    seconds = []
    for solve in (
        lambda: cg.transport.solve_batch(costs, entropy=0.1),
        lambda: [cg.transport.solve(cost, entropy=0.1) for cost in costs],
    ):
        solve()
        begin = time.perf_counter()
        solve()
        seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1]


def main(*, sizes: tuple[int, ...] = (300, 2000), problems: int = 500) -> None:
    import torch

    together, one_by_one = mixed_batch(problems)
    print(f"{problems} problems: {together:.3g} s in one batch, {one_by_one:.3g} s one by one")
    torch.set_num_threads(1)
    rows = []
    for n in sizes:
        generator = torch.Generator().manual_seed(0)
        X, Y = torch.randn(2, n, 3, generator=generator, dtype=torch.float64)
        Y = 0.8 * Y + 0.5
        with one_thread(), quiet():
            best, gradient = value_and_gradient(ours(1e-10), X, Y)
            named = {f"geomloss, scaling {s}": theirs(s) for s in (0.5, 0.9, 0.99)}
            named |= {f"condgrad, tol {tol:g}": ours(tol) for tol in (1e-2, 1e-3, 1e-4, 1e-6)}
            for name, loss in named.items():
                seconds = []
                for _ in range(3 if n <= 500 else 1):
                    begin = time.process_time()
                    value, slope = value_and_gradient(loss, X, Y)
                    seconds.append(time.process_time() - begin)
                errors = {
                    "of the value": abs(value - best) / best,
                    "of the gradient": float((slope - gradient).norm() / gradient.norm()),
                }
                rows.append({"n": n, "loss": name, "seconds": min(seconds), **errors})
    show(rows)


if __name__ == "__main__":
    run(main)
