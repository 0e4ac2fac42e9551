"""The elastic net as a problem to judge answers by, a fair clock, and the packages that solve its penalised form.

The constrained problem is F(x) = sum_i log(1 + exp(-y_i z_i.x)) + ridge |x|_2^2 subject to |x|_1 <= radius. The peers
minimise F + multiplier |x|_1 instead. Divided by the number of samples, and with

    strength = (multiplier + 2 ridge) / samples,    share = multiplier / (multiplier + 2 ridge),

this is the mean loss + strength (share |x|_1 + (1 - share)/2 |x|_2^2), which all of them write in the same way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

import condgrad as cg

# for the libraries that are loaded later, with a peer; threadpoolctl minds those that are here already
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

TOLERANCES = tuple(10.0 ** (-0.5 * k) for k in range(25))
"""Loosest first, from 1 to 1e-12."""

EPOCHS = tuple(dict.fromkeys(round(1.5**k) for k in range(2, 36)))
"""For a solver whose tolerance says little of the objective: how many passes over the data it may make."""


@dataclass(frozen=True)
class Optimum:
    """The certified solution, and the multiplier that gives it to the penalised form."""

    x: Any
    value: float
    gap: float
    multiplier: float


@dataclass(frozen=True, eq=False)
class Problem:
    """One instance; `X` is dense in Fortran order, or sparse."""

    name: str
    X: Any
    y: Any
    ridge: float
    radius: float

    @property
    def sparse(self) -> bool:
        return bool(scipy.sparse.issparse(self.X))

    @cached_property
    def by_columns(self) -> Any:
        """The data for coordinate descent."""
        return scipy.sparse.csc_matrix(self.X) if self.sparse else np.asfortranarray(self.X)

    @cached_property
    def by_rows(self) -> Any:
        """The data for stochastic methods."""
        return scipy.sparse.csr_matrix(self.X) if self.sparse else np.ascontiguousarray(self.X)

    def smooth(self, layout: str = "columns") -> Any:
        """A new f: nothing that an earlier run left in it helps the next."""
        return cg.smooth.Logistic(self.by_columns if layout == "columns" else self.by_rows, self.y)

    @property
    def simple(self) -> Any:
        return cg.simple.Ridge(self.ridge, on=cg.sets.L1Ball(self.radius))

    @cached_property
    def judge(self) -> Any:
        return self.smooth()

    def value(self, x: Any) -> float:
        """F(x)."""
        return float(self.judge.at(x).value + self.ridge * (x @ x))

    def slope(self, x: Any) -> Any:
        """grad F(x)."""
        return self.judge.at(x).gradient + 2.0 * self.ridge * x

    @cached_property
    def optimum(self) -> Optimum:
        """The best of several certified runs, each from where the last one ended."""
        x, value, lower = None, np.inf, -np.inf
        for method in ("auto", "spg", "auto"):
            run = cg.minimize(
                self.smooth(), self.simple, x, method=method, tol=1e-13, max_iter=100_000, time_limit=30.0
            )
            if run.value <= value:
                x, value = run.x, run.value
            lower = max(lower, run.lower_bound)
            if value - lower <= 1e-12 * abs(value):
                break
        # where the constraint binds, grad F(x) = -multiplier sign(x) on the support
        return Optimum(x, value, value - lower, max(0.0, -float(self.slope(x) @ x) / self.radius))

    def constrained_error(self, x: Any) -> float:
        """(F - F*)/|F*| at the projection of x onto the ball."""
        best = self.optimum
        return (self.value(self.simple.on.project(x)) - best.value) / abs(best.value)

    def penalized_error(self, x: Any) -> float:
        """The same for F + multiplier |x|_1, at x itself."""
        best = self.optimum
        excess = float(np.abs(x).sum() - np.abs(best.x).sum())
        return (self.value(x) - best.value + best.multiplier * excess) / abs(best.value)

    def kinder_error(self, x: Any) -> float:
        """What a solver of the penalised form is judged by when it is given the multiplier."""
        return min(self.constrained_error(x), self.penalized_error(x))


class OutOfTime(Exception):
    pass


@contextlib.contextmanager
def capped(seconds: float) -> Iterator[None]:
    """Stop what runs inside after so many seconds, as soon as it comes back to Python."""

    rang = False

    def ring(*_: Any) -> None:
        nonlocal rang
        rang = True
        raise OutOfTime

    # wall time: a timer of CPU time would make the clock of CPU time coarse for the rest of the process
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except SystemError as error:  # how compiled code reports an alarm that rang while it was entered
        if rang:
            raise OutOfTime from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the answer of one run."""
    begin = time.process_time()
    answer = work()
    return time.process_time() - begin, answer


def best_time(prepare: Callable[[], Callable[[], Any]], *, budget: float = 0.6, most: int = 15) -> float:
    """The least CPU seconds of several runs; each is prepared outside the clock."""
    best, spent, runs = np.inf, 0.0, 0
    while runs < 2 or (spent < budget and runs < most):
        seconds, _ = clocked(prepare())
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
        if seconds > budget:
            break
    return best


class Peer(ABC):
    """A solver of the penalised form on one problem; what can be built before the solve is built here."""

    name: str
    package: str
    efforts: Sequence[float] = TOLERANCES

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.samples, self.features = problem.X.shape

    @abstractmethod
    def fit(self, multiplier: float, effort: float) -> Any:
        """The coefficients."""

    def forget(self) -> None:  # noqa: B027 - nothing to forget for most
        """Let the next fit start from nothing."""

    def strength(self, multiplier: float) -> float:
        return (multiplier + 2.0 * self.problem.ridge) / self.samples

    def share(self, multiplier: float) -> float:
        return multiplier / (multiplier + 2.0 * self.problem.ridge)


class Skglm(Peer):
    """What its two solvers share: compiled objects, and Xw kept with w for warm starts."""

    package = "skglm"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        from skglm.datafits import Logistic
        from skglm.penalties import L1_plus_L2
        from skglm.utils.jit_compilation import compiled_clone

        self.datafit, self.penalty = compiled_clone(Logistic()), compiled_clone(L1_plus_L2(1.0, 0.5))
        self.X, self.y = problem.by_columns, np.asarray(problem.y, dtype=float)
        self.forget()

    @abstractmethod
    def solver(self, tolerance: float) -> Any:
        """The solver, from zero to its own tolerance."""

    def forget(self) -> None:
        self.w, self.Xw = np.zeros(self.features), np.zeros(self.samples)

    def fit(self, multiplier: float, effort: float) -> Any:
        self.penalty.alpha, self.penalty.l1_ratio = self.strength(multiplier), self.share(multiplier)
        # its tolerance is on the subgradient of the mean loss
        solver = self.solver(effort)
        # both arrays are worked on in place: they end at the solution, where a warm start begins
        self.w, *_ = solver.solve(self.X, self.y, self.datafit, self.penalty, self.w, self.Xw, run_checks=False)
        return self.w.copy()


class ProxNewton(Skglm):
    name = "skglm ProxNewton"

    def solver(self, tolerance: float) -> Any:
        from skglm.solvers import ProxNewton as Solver

        return Solver(tol=tolerance, max_iter=100, fit_intercept=False, warm_start=True)


class AndersonCD(Skglm):
    name = "skglm AndersonCD"

    def solver(self, tolerance: float) -> Any:
        from skglm.solvers import AndersonCD as Solver

        return Solver(tol=tolerance, max_iter=100, fit_intercept=False, warm_start=True)


class Glmnet(Peer):
    """The compiled routine itself: its class checks and copies the data at each fit, which would count against it."""

    name, package = "python-glmnet", "glmnet"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        from glmnet import _glmnet

        self.routines = _glmnet
        self.labels = np.asfortranarray(np.column_stack([problem.y > 0, problem.y <= 0]), dtype=float)
        self.penalties = np.ones(self.features)
        self.bounds = np.asfortranarray(np.tile([[-np.inf], [np.inf]], self.features))
        if problem.sparse:
            X = problem.by_columns
            self.parts = X.data, X.indptr + 1, X.indices + 1

    def fit(self, multiplier: float, effort: float) -> Any:
        # the routine works on these in place, though not on data that it need not standardise
        labels, offset = self.labels.copy(order="F"), np.zeros((self.samples, 2), order="F")
        given = (labels, offset, 0, self.penalties.copy(), self.bounds.copy(order="F"))
        path = np.array([self.strength(multiplier)])
        n, share = self.features, self.share(multiplier)
        last = (0, 0, 100_000, 0)
        if self.problem.sparse:
            found = self.routines.splognet(
                share, self.samples, n, 1, *self.parts, *given, n, n + 1, 1.0, path, effort, 1, *last
            )
        else:
            X = self.problem.by_columns
            found = self.routines.lognet(share, 1, X, *given, n + 1, 1.0, path, effort, n, 1, *last)
        _, _, entries, places, counts, *_ = found
        return self.routines.lsolns(n, entries, places, counts)[:, 0, 0]


class Adelie(Peer):
    """Always from zero: its warm start fails under the NumPy 2 that we need."""

    name, package = "adelie", "adelie"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        import adelie

        self.solve = adelie.grpnet
        matrix = adelie.matrix.sparse if problem.sparse else adelie.matrix.dense
        self.X = matrix(problem.by_columns, method="naive", n_threads=1)
        self.glm = adelie.glm.binomial((np.asarray(problem.y) > 0).astype(float), dtype=np.float64)

    def fit(self, multiplier: float, effort: float) -> Any:
        state = self.solve(
            self.X,
            self.glm,
            alpha=self.share(multiplier),
            lmda_path=np.array([self.strength(multiplier)]),
            tol=effort,
            irls_tol=effort,
            intercept=False,
            early_exit=False,
            progress_bar=False,
        )
        return state.betas[-1].toarray().ravel()


class Saga(Peer):
    """The one solver of scikit-learn's LogisticRegression that takes both penalties."""

    name, package, efforts = "scikit-learn saga", "sklearn", EPOCHS

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.X, self.y = problem.by_rows, np.asarray(problem.y, dtype=float)
        self.forget()

    def forget(self) -> None:
        from sklearn.linear_model import LogisticRegression

        self.model = LogisticRegression(
            solver="saga", l1_ratio=0.5, fit_intercept=False, tol=0.0, warm_start=True, random_state=0
        )

    def fit(self, multiplier: float, effort: float) -> Any:
        inverse = 1.0 / (multiplier + 2.0 * self.problem.ridge)
        self.model.set_params(C=inverse, l1_ratio=self.share(multiplier), max_iter=int(effort))
        return self.model.fit(self.X, self.y).coef_.ravel()


PEERS: tuple[type[Peer], ...] = (ProxNewton, AndersonCD, Glmnet, Adelie, Saga)


def installed(peer: type[Peer]) -> bool:
    """Whether the package is there; one line says so where it is not."""
    try:
        with quiet():
            importlib.import_module(peer.package)
    except ImportError as error:
        print(f"{peer.name} is left out: {error}")
        return False
    return True


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of solvers that were asked to stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
