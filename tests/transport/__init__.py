"""Tests of regularised transport, and the judges they share; nothing here uses the library."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Turns a hang into a failure."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Cloud:
    """Two clouds with weights and the squared Euclidean cost between them."""

    Xs: Array
    Xt: Array
    a: Array
    b: Array
    C: Array


def squared_distances(X: Array, Y: Array) -> Array:
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


def cloud(n: int, m: int, *, seed: int = 0, uniform: bool = False) -> Cloud:
    """Points in the unit square; uneven weights of mass 1 unless asked otherwise."""
    rng = np.random.default_rng(seed)
    Xs, Xt = rng.random((n, 2)), rng.random((m, 2)) + 0.2
    a, b = (np.full(k, 1.0 / k) if uniform else rng.dirichlet(np.full(k, 3.0)) for k in (n, m))
    return Cloud(Xs, Xt, a, b, squared_distances(Xs, Xt))


def negentropy(G: Array) -> float:
    """sum G log G with 0 log 0 = 0."""
    G = np.asarray(G, dtype=np.float64)
    return float(np.sum(G * np.log(np.where(G > 0, G, 1.0))))


def entropic_value(G: Array, C: Array, weight: float) -> float:
    return float(np.sum(np.asarray(C) * np.asarray(G))) + weight * negentropy(G)


def marginal_error(G: Array, a: Array, b: Array) -> float:
    """How far G is from a plan, relative to the mass."""
    G = np.asarray(G, dtype=np.float64)
    worst = max(abs(G.sum(axis=1) - a).max(), abs(G.sum(axis=0) - b).max(), -G.min())
    return float(worst / np.sum(a))


def mended(G: Array, a: Array, b: Array) -> Array:
    """A plan of exact marginals near G."""
    G = np.clip(G, 0.0, None)
    G = G * np.minimum(1.0, a / np.maximum(G.sum(axis=1), 1e-300))[:, None]
    G = G * np.minimum(1.0, b / np.maximum(G.sum(axis=0), 1e-300))[None, :]
    short_a, short_b = a - G.sum(axis=1), b - G.sum(axis=0)
    return G + np.outer(short_a, short_b) / short_a.sum() if short_a.sum() > 0 else G


@dataclass(frozen=True)
class Judged:
    """What plain Sinkhorn found: the optimum lies between lower and upper."""

    plan: Array
    lower: float
    upper: float


def judge(C: Array, a: Array, b: Array, weight: float, passes: int = 2000) -> Judged:
    """Plain Sinkhorn in the log domain and extended precision, with the Lagrangian dual as its lower bound."""
    C, a, b = (np.asarray(x, dtype=np.longdouble) for x in (C, a, b))
    w, v = np.longdouble(weight), np.zeros(len(b), dtype=np.longdouble)
    log_a, log_b = np.log(a), np.log(b)
    for _ in range(passes):
        u = w * (log_a - _log_sums((v[None, :] - C) / w))
        change = w * (log_b - _log_sums(((u[:, None] - C) / w).T)) - v
        v = v + change
        if abs(change).max() <= 1e-17 * w:
            break
    G = np.exp((u[:, None] + v[None, :] - C) / w)
    # with the potentials u + w and v the minimiser of the Lagrangian is this G
    lower = a @ (u + w) + b @ v - w * G.sum()
    plan = mended(G, a, b)
    upper = np.sum(C * plan) + w * np.sum(plan * np.log(np.where(plan > 0, plan, 1.0)))
    return Judged(plan.astype(np.float64), float(lower), float(upper))


def _log_sums(exponent: Array) -> Array:
    """log sum exp over each row."""
    top = exponent.max(axis=1)
    return top + np.log(np.exp(exponent - top[:, None]).sum(axis=1))
