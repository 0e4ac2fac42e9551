"""Random problems of mixed shape: a seed and a number make the same one again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from experiments.gates.jobs import EstimatorFit, Job, Minimization, PathOfRadii
from experiments.gates.rows import Row
from experiments.gates.rules import Kind

LOSSES = ("Logistic", "LeastSquares", "SquaredHinge")
PATH_LOSSES = {
    "Logistic": "logistic",
    "LeastSquares": "least-squares",
    "SquaredHinge": "squared-hinge",
}
ESTIMATORS = {
    "Logistic": "ConstrainedLogisticRegression",
    "LeastSquares": "ConstrainedElasticNet",
    "SquaredHinge": "ConstrainedLinearSVC",
}
SHAPES = {
    "wide": ((30, 300), (300, 6000)),
    "tall": ((400, 20000), (10, 200)),
    "square": ((100, 800), (100, 800)),
}
"""The least and the most samples, and features."""
CHARACTERS = ("plain", "correlated", "heavy tails", "offsets", "copies")
SETS = {"l1": 0.5, "positive": 0.2, "box": 0.15, "simplex": 0.15}
"""How often each is drawn."""
REGIONS = {"l1": "L1Ball", "positive": "SolidSimplex", "simplex": "Simplex", "box": "Box"}
TOLERANCES = (1e-3, 1e-6, 1e-6, 1e-8)
FLOAT32_TOL = 1e-4
MOST_ENTRIES = 3_000_000
"""Of a dense matrix; it gets fewer samples rather than more."""
TIGHT = (-1.5, -0.2)
SLACK = (0.2, 1.5)
"""Logarithms of the radius, as a share of the norm of the true coefficients."""
RADII_OF_PATH = 20


@dataclass(frozen=True)
class Settings:
    """What a problem is, but for its numbers."""

    seed: int
    number: int
    call: str
    """One of "minimize", "fit" and "path"."""
    loss: str
    shape: str
    samples: int
    features: int
    sparse: bool
    character: str
    precision: str
    intercept: bool
    ridge: float
    room: float
    """The radius over the norm of the true coefficients: tight below 1, slack above."""
    region: str
    tol: float

    @property
    def words(self) -> str:
        parts = [
            f"random {self.number}: {self.call} {self.loss} {self.samples}x{self.features}",
            "sparse" if self.sparse else "dense",
            self.character,
            f"{self.region} {self.room:.2g}",
            f"ridge {self.ridge:.0e}" if self.ridge else "no ridge",
            f"to {self.tol:g}",
        ]
        if self.intercept:
            parts.append("intercept")
        if self.precision == "float32":
            parts.append("float32")
        return ", ".join(parts)


def random_rows(count: int, seed: int) -> Iterator[Row]:
    for number in range(count):
        settings = drawn_settings(seed, number)
        kind = Kind.SERIES if settings.call == "path" else Kind.FIT
        yield Row(settings.words, "random", kind, partial(job_of, settings), settings.precision)


def drawn_settings(seed: int, number: int) -> Settings:
    rng = np.random.default_rng([seed, number])
    shape = str(rng.choice(list(SHAPES)))
    samples, features = (log_uniform(rng, *limits) for limits in SHAPES[shape])
    sparse = bool(rng.random() < 0.35)
    if not sparse:
        samples = min(samples, MOST_ENTRIES // features)
    region = str(rng.choice(list(SETS), p=list(SETS.values())))
    call = "minimize"
    if region in ("l1", "positive"):  # those that the estimators have
        call = str(rng.choice(["minimize", "fit", "path"], p=[0.6, 0.3, 0.1]))
    precision = "float32" if rng.random() < 0.15 else "float64"
    return Settings(
        seed=seed,
        number=number,
        call=call,
        loss=str(rng.choice(LOSSES)),
        shape=shape,
        samples=samples,
        features=features,
        sparse=sparse,
        character=str(rng.choice(CHARACTERS)),
        precision=precision,
        intercept=bool(rng.random() < 0.5),
        ridge=0.0 if rng.random() < 0.25 else float(10.0 ** rng.uniform(-6.0, 1.0)),
        room=float(10.0 ** rng.uniform(*(TIGHT if rng.random() < 0.6 else SLACK))),
        region=region,
        tol=FLOAT32_TOL if precision == "float32" else float(rng.choice(TOLERANCES)),
    )


def log_uniform(rng: np.random.Generator, least: int, most: int) -> int:
    return round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))


def job_of(settings: Settings) -> Job:
    X, y, coefficients = drawn_data(settings)
    radius = settings.room * float(np.abs(coefficients).sum())
    positive = settings.region == "positive"
    if settings.call == "minimize":
        bounds: list[Any] = [radius]
        if settings.region == "simplex":
            bounds = [settings.features, radius]
        if settings.region == "box":
            bound = np.full(settings.features, settings.room * float(np.abs(coefficients).max()))
            bounds = [-bound, bound]
        return Minimization(
            settings.loss,
            X,
            y,
            REGIONS[settings.region],
            bounds,
            ridge=settings.ridge,
            tol=settings.tol,
            intercept=settings.intercept,
        )
    options: dict[str, Any] = {
        "ridge": settings.ridge,
        "fit_intercept": settings.intercept,
        "positive": positive,
        "tol": settings.tol,
    }
    if settings.call == "fit":
        return EstimatorFit(ESTIMATORS[settings.loss], X, y, {"radius": radius, **options})
    radii = radius * np.geomspace(0.05, 1.0, RADII_OF_PATH)
    return PathOfRadii(X, y, {"loss": PATH_LOSSES[settings.loss], "radii": radii, **options})


def drawn_data(settings: Settings) -> tuple[Any, Any, Any]:
    """The matrix, the targets, and the coefficients that these follow."""
    rng = np.random.default_rng([settings.seed, settings.number, 1])
    X = sparse_matrix(rng, settings) if settings.sparse else dense_matrix(rng, settings)
    count = min(settings.features, int(rng.integers(1, 31)))
    used = rng.choice(settings.features, count, replace=False)
    coefficients = np.zeros(settings.features)
    coefficients[used] = rng.exponential(size=count)
    if settings.region not in ("positive", "simplex"):
        coefficients[used] *= rng.choice([-1.0, 1.0], count)
    scores = X @ coefficients
    spread = float(scores.std()) or 1.0
    coefficients /= spread
    noisy = (scores - scores.mean()) / spread + 0.5 * rng.standard_normal(settings.samples)
    y = noisy if settings.loss == "LeastSquares" else np.where(noisy > 0.0, 1.0, -1.0)
    # a classifier needs both classes, whatever was drawn
    if settings.loss != "LeastSquares":
        y[0] = -y[1]
    return X.astype(settings.precision), y, coefficients


def dense_matrix(rng: np.random.Generator, settings: Settings) -> Any:
    shape = settings.samples, settings.features
    X = rng.standard_normal(shape)
    if settings.character == "correlated":
        loadings = rng.standard_normal((3, settings.features))
        X = 0.3 * X + rng.standard_normal((settings.samples, 3)) @ loadings
    elif settings.character == "heavy tails":
        X = rng.standard_t(2.0, shape) * np.exp(1.5 * rng.standard_normal(settings.features))
    elif settings.character == "offsets":
        X += 10.0 * rng.standard_normal(settings.features)
    elif settings.character == "copies":
        X = X[:, rng.integers(0, settings.features, settings.features)]
    return np.asfortranarray(X) if rng.random() < 0.5 else X


def sparse_matrix(rng: np.random.Generator, settings: Settings) -> Any:
    density = float(10.0 ** rng.uniform(-2.5, -0.7))
    shape = settings.samples, settings.features
    X = scipy.sparse.random_array(shape, density=density, rng=rng, format="csc")
    if settings.character in ("plain", "copies"):
        X.data[:] = 1.0
    elif settings.character == "heavy tails":
        X.data[:] = rng.standard_t(2.0, X.nnz)
    elif settings.character == "correlated":
        # a column and the next one share their entries
        X = scipy.sparse.csc_array(X + 0.8 * X[:, np.r_[1 : settings.features, 0]])
    if settings.character == "copies":
        X = scipy.sparse.csc_array(X[:, rng.integers(0, settings.features, settings.features)])
    return X if rng.random() < 0.5 else scipy.sparse.csr_array(X)
