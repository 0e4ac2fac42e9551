"""Time to a given accuracy on the softmax loss of several classes under one l1 constraint: ours, and saga.

Run: python -m experiments bench multinomial [-- --levels 1e-4 1e-6]

The problem is -sum log p(y_i) + ridge |X|_2^2 subject to |X|_1 <= radius, with an intercept for each class, on the
handwritten digits of scikit-learn (1797 samples, 64 features, 10 classes, divided by 16). Ours take the radius, and
"proved" is the time of a call whose own certificate is at the level. saga is given the multiplier of the constraint and
the fewest passes, among powers of 2 times 5, whose penalised objective, computed here, is within the level of its
minimum, which comes from a certified run: its own tolerance proves nothing. Errors are relative to F*. Times are CPU
milliseconds on one thread, the best of several runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import condgrad as cg
from experiments.benchmarks import run, show
from experiments.clock import best_time, clocked, one_thread, quiet

SETTINGS = ((0.5, 20.0), (0.5, 60.0), (0.05, 200.0))
"""Ridge and radius, from nearly empty to a quarter of all coefficients."""
PASSES = tuple(5 * 2**k for k in range(10))


class Digits:
    """One problem, and its certified optimum."""

    def __init__(self, ridge: float, radius: float) -> None:
        data, self.labels = load_digits(return_X_y=True)
        self.features, self.ridge = data / 16.0, ridge
        self.g = cg.simple.Ridge(ridge, on=cg.sets.L1Ball(radius))
        self.optimum = cg.minimize(self.new_f(), self.g, method="auto", tol=1e-9)
        here = self.new_f().at(self.optimum.x)
        self.multiplier = float(np.abs(here.gradient + 2.0 * ridge * self.optimum.x).max())
        self.penalised_optimum = self.penalised(self.optimum.x, here.intercept)

    def new_f(self) -> Any:
        return cg.smooth.Multinomial(self.features, self.labels, intercept=True)

    def penalised(self, X: Any, intercept: Any) -> float:
        """F + multiplier |X|_1, from its definition."""
        scores = self.features @ X + intercept
        losses = logsumexp(scores, axis=1) - scores[np.arange(len(scores)), self.labels]
        return float(losses.sum() + self.ridge * (X**2).sum() + self.multiplier * np.abs(X).sum())

    def ours(self, method: str, level: float) -> float | None:
        """Seconds until the certificate is at the level."""

        def prepare() -> Callable[[], Any]:
            f, target = self.new_f(), level * self.optimum.value
            limits: dict[str, Any] = {"tol": 0.0, "callback": lambda now: now.gap <= target}
            return lambda: cg.minimize(f, self.g, method=method, **limits)

        return best_time(prepare)

    def saga(self, level: float) -> float | None:
        """Seconds of the shortest run that is there."""
        both = self.multiplier + 2.0 * self.ridge
        options: dict[str, Any] = {
            "C": 1.0 / both,
            "l1_ratio": self.multiplier / both,
            "tol": 0.0,
            "random_state": 0,
        }
        for passes in PASSES:
            model = LogisticRegression(solver="saga", max_iter=passes, **options)
            fit = partial(model.fit, self.features, self.labels)
            with quiet():
                seconds, _ = clocked(fit)
                error = self.penalised(model.coef_.T, model.intercept_) - self.penalised_optimum
                if error <= level * self.optimum.value:
                    return min(seconds, best_time(partial(returned, fit)))
        return None


def returned(fit: Callable[[], Any]) -> Callable[[], Any]:
    """What needs no preparation."""
    return fit


def main(*, levels: Annotated[tuple[float, ...], "relative errors"] = (1e-4, 1e-6)) -> None:
    with one_thread():
        for ridge, radius in SETTINGS:
            problem = Digits(ridge, radius)
            count = np.count_nonzero(problem.optimum.x)
            print(
                f"\nridge {ridge:g}, radius {radius:g}: {count} of {problem.optimum.x.size} coefficients are not 0"
            )
            rows = []
            for level in levels:
                found = {method: problem.ours(method, level) for method in ("auto", "spg")}
                found["scikit-learn saga"] = problem.saga(level)
                rows += [
                    {"level": level, "solver": name, "ms": seconds and 1e3 * seconds}
                    for name, seconds in found.items()
                ]
            show(rows)


if __name__ == "__main__":
    run(main)
