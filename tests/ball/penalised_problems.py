"""Random penalised problems, of all losses, with CVXPY as the judge and in units from 1e-6 to 1e6."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse

import condgrad as cg

Array = np.ndarray
JUDGED = 1e-6
"""How far CVXPY's own optimum may be off, as a share of F at 0."""
JUDGED_ROUGHLY = 1e-3
"""The same where it is not sure of it."""


@dataclass(frozen=True)
class Loss:
    """A loss here and in CVXPY's words, and targets for it."""

    make: Callable[..., Any]
    each: Callable[[Any, Array], Any]
    """h_i(z_i), one entry a sample."""
    targets: Callable[[np.random.Generator, Array], Array]
    """From linear scores."""


def _signs(_: np.random.Generator, scores: Array) -> Array:
    y = np.where(scores > np.median(scores), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return y


LOSSES: dict[str, Loss] = {
    "squares": Loss(
        cg.smooth.LeastSquares, lambda z, y: 0.5 * cp.square(z - y), lambda _, scores: scores
    ),
    "logistic": Loss(cg.smooth.Logistic, lambda z, y: cp.logistic(-cp.multiply(y, z)), _signs),
    "squared hinge": Loss(
        cg.smooth.SquaredHinge, lambda z, y: cp.square(cp.pos(1.0 - cp.multiply(y, z))), _signs
    ),
}
WIDTH = 0.7
"""Huber's delta, in the unit of the targets."""


def _counts(rng: np.random.Generator, scores: Array) -> Array:
    y = rng.poisson(np.exp(np.clip(scores, -3.0, 3.0))).astype(float)
    y[0] += 1.0
    return y


def _amounts(rng: np.random.Generator, scores: Array) -> Array:
    return np.exp(np.clip(scores, -5.0, 5.0)) * rng.gamma(2.0, 0.5, len(scores))


def _huber(X: Any, y: Array, *, unit: float = 1.0, **options: Any) -> Any:
    return cg.smooth.Huber(X, y, delta=WIDTH * unit, **options)


LOSSES |= {
    "poisson": Loss(
        cg.smooth.Poisson,
        lambda z, y: (
            cp.exp(z)
            - cp.multiply(y, z)
            + np.where(y > 0.0, y * np.log(np.where(y > 0.0, y, 1.0)) - y, 0.0)
        ),
        _counts,
    ),
    "gamma": Loss(
        cg.smooth.Gamma, lambda z, y: cp.multiply(y, cp.exp(-z)) + z - 1.0 - np.log(y), _amounts
    ),
    "huber": Loss(_huber, lambda z, y: 0.5 * cp.huber(z - y, WIDTH), lambda _, scores: scores),
}
SHAPES = ["plain", "plain", "plain", "separable", "zeros", "constant", "twins", "offset columns"]


@dataclass(frozen=True)
class PenalisedProblem:
    """A loss and a penalty, drawn by a number; `unit` is that of the features, `money` that of F."""

    loss: str
    number: int
    has_columns: bool = False
    """Whether there are columns without a penalty."""

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.number, len(self.loss)])

    @cached_property
    def facts(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "m": int(rng.integers(4, 30)),
            "n": int(rng.integers(1, 40)),
            "intercept": bool(rng.random() < 0.5),
            "positive": bool(rng.random() < 0.25),
            "share": float(10.0 ** rng.uniform(-3.0, 0.1)),
            "ridge": float(rng.choice([0.0, 0.0, 1e-6, 1e-2, 1.0])),
            "no_l1": bool(rng.random() < 0.15),
            "weighted": bool(rng.random() < 0.4),
            "sparse": bool(rng.random() < 0.3),
            "unit": float(10.0 ** rng.integers(-6, 7)),
            "money": float(10.0 ** rng.integers(-6, 7)),
            "target": float(10.0 ** rng.integers(-3, 4))
            if self.loss in ("squares", "huber")
            else 1.0,
            "offset": str(rng.choice(["none", "none", "some", "constant", "huge"])),
            "shape": str(rng.choice(SHAPES)),
        }

    @cached_property
    def data(self) -> tuple[Array, Array, Array]:
        """X, y and weights, in units of 1."""
        facts, rng = self.facts, self.rng
        m, n = facts["m"], facts["n"]
        X = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
        if facts["sparse"]:
            X *= rng.random((m, n)) < 0.4
        scores = X @ (rng.standard_normal(n) * (rng.random(n) < 0.4))
        if facts["shape"] != "separable":
            scores = scores + 0.5 * rng.standard_normal(m)
        y = LOSSES[self.loss].targets(rng, scores)
        if facts["shape"] == "zeros":
            X[:, ::2] = 0.0
        elif facts["shape"] == "constant":
            X[:, 0] = 3.0
        elif facts["shape"] == "twins":
            X[:, n // 2 :] = X[:, : n - n // 2]
        elif facts["shape"] == "offset columns":
            X += 10.0 * rng.standard_normal(n)
        weights = rng.uniform(0.1, 2.0, m) if facts["weighted"] else np.ones(m)
        return X, y, weights

    @cached_property
    def offset(self) -> Any:
        """A known part of the scores, in the unit of the targets; a huge one needs an intercept."""
        m = len(self.data[0])
        rng = np.random.default_rng([self.number, 99])
        kind = self.facts["offset"]
        if kind == "huge" and self.facts["intercept"]:
            return 1e4 + rng.standard_normal(m)
        offsets = {"constant": np.full(m, 0.7), "some": rng.standard_normal(m)}
        return offsets.get(kind)

    @cached_property
    def columns(self) -> Array | None:
        """Columns without a penalty in units of 1, with a constant or a combination among them."""
        if not self.has_columns:
            return None
        X = self.data[0]
        rng = np.random.default_rng([self.number, 77])
        m = len(X)
        U = rng.standard_normal((m, int(rng.integers(1, 4))))
        kind = rng.choice(["plain", "plain", "class", "combination", "constant", "twin"])
        if kind == "class":  # of samples, as dummies have it
            U[:, 0] = np.arange(m) % 2
        elif kind == "combination":
            U = np.column_stack([U, U.sum(axis=1)])
        elif kind == "constant":
            U = np.column_stack([U, np.ones(m)])
        elif kind == "twin":  # of a column with a penalty
            U[:, 0] = X[:, 0]
        return U

    @cached_property
    def column_units(self) -> Array:
        rng = np.random.default_rng([self.number, 78])
        return 10.0 ** rng.integers(-6, 7, self.columns.shape[1])  # type: ignore[union-attr]

    @property
    def is_separated(self) -> bool:
        """Whether the columns let the loss fall forever, by a linear program of its own."""
        y = self.data[1]
        if self.columns is None or self.loss not in ("logistic", "poisson"):
            return False
        c = cp.Variable(self.columns.shape[1])
        d = self.columns @ c + (cp.Variable() if self.facts["intercept"] else 0.0)
        rise = cp.multiply(y if self.loss == "logistic" else -(y == 0.0).astype(float), d)
        still = [] if self.loss == "logistic" else [d[y > 0.0] == 0.0]
        problem = cp.Problem(cp.Maximize(cp.sum(rise)), [rise >= 0.0, rise <= 1.0, *still])
        return bool(problem.solve(solver=cp.CLARABEL) > 0.5)

    @cached_property
    def plain(self) -> Any:
        """The loss in units of 1."""
        X, y, weights = self.data
        options = {
            "sample_weight": weights,
            "intercept": self.facts["intercept"],
            "offset": self.offset,
            "unpenalised": self.columns,
        }
        return LOSSES[self.loss].make(X, y, **options)

    @cached_property
    def penalties(self) -> tuple[float, float]:
        """l1 and ridge in units of 1: a share of the l1 from which on x is 0."""
        X = self.data[0]
        here = self.plain.at(np.zeros(X.shape[1]))
        steepest = float(np.abs(here.gradient).max())
        l1 = self.facts["share"] * (steepest if steepest > 1e-9 else 1.0)
        ridge = self.facts["ridge"] * len(X)
        if self.facts["no_l1"]:
            return 0.0, ridge or 0.1
        return l1, ridge

    @cached_property
    def f(self) -> Any:
        X, y, weights = self.data
        K = self.facts["unit"] * X
        K = scipy.sparse.csc_array(K) if self.facts["sparse"] else K
        target = self.facts["target"]
        options: dict[str, Any] = {
            "sample_weight": self.facts["money"] * weights,
            "intercept": self.facts["intercept"],
        }
        if self.offset is not None:
            options["offset"] = target * self.offset
        if self.columns is not None:
            options["unpenalised"] = self.columns * self.column_units
        if self.loss == "huber":
            options["unit"] = target
        return LOSSES[self.loss].make(K, target * y, **options)

    @cached_property
    def g(self) -> Any:
        l1, ridge = self.penalties
        unit, money, target = (self.facts[name] for name in ("unit", "money", "target"))
        l1 = money * unit * target * l1
        return cg.simple.ElasticNet(l1, money * unit**2 * ridge, positive=self.facts["positive"])

    @cached_property
    def null(self) -> float:
        """The loss of scores of 0, or with the best intercept: its size, as a judge sees it."""
        m, n = self.data[0].shape
        if self.has_columns:
            return float(self.f.h.h.evaluate(np.zeros(m))[0])
        return float(self.f.at(np.zeros(n)).value)

    @cached_property
    def judged(self) -> tuple[float, float]:
        """The optimum by an interior-point method, and how far that may be off."""
        X, y, weights = self.data
        l1, ridge = self.penalties
        x = cp.Variable(X.shape[1], nonneg=self.facts["positive"])
        z = X @ x
        if self.facts["intercept"]:  # which takes the mean of an offset
            z = z + cp.Variable()
        if self.offset is not None:
            z = z + self.offset - (self.offset.mean() if self.facts["intercept"] else 0.0)
        if self.columns is not None:
            z = z + self.columns @ cp.Variable(self.columns.shape[1])
        goal = weights @ LOSSES[self.loss].each(z, y) + l1 * cp.norm1(x) + ridge * cp.sum_squares(x)
        problem = cp.Problem(cp.Minimize(goal))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                problem.solve(solver=cp.CLARABEL)
            except cp.error.SolverError:  # one problem in some hundreds, with exponentials
                problem.solve(solver=cp.SCS, eps=1e-9, max_iters=200_000)
        is_sure = problem.status == cp.OPTIMAL and problem.solver_stats.solver_name == cp.CLARABEL
        accuracy = JUDGED if is_sure else JUDGED_ROUGHLY
        money = self.facts["money"] * self.facts["target"] ** 2
        return money * float(problem.value), accuracy * self.null + 1e-12 * money

    def assert_proved(self, result: Any) -> None:
        """lower_bound <= F* <= value in every row, and a point of the set."""
        least, off = self.judged
        assert (result.trace["lower_bound"] <= least + off).all()
        assert (result.trace["value"] >= least - off).all()
        assert self.g.on.violation(result.x) == 0.0
