"""Bad input of the estimators with a radius and of their paths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from condgrad.linear_model import (
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    path,
)
from tests.errors.core import Row
from tests.linear_model import SINGLE, drawn

X, Y = drawn(0, samples=40, features=8)
SEARCHES = (ConstrainedElasticNetCV, ConstrainedLogisticRegressionCV, ConstrainedLinearSVCCV)
FLAGS = ("fit_intercept", "standardize", "positive", "warm_start", "verbose")
ROWS: dict[str, Row] = {}


def fitted(kind: Any, options: dict[str, Any]) -> Any:
    """What `fit` takes is not a parameter of the estimator."""
    given = {name: options[name] for name in ("sample_weight",) if name in options}
    parameters = {name: value for name, value in options.items() if name not in ("y", *given)}
    return kind(**parameters).fit(X, options.get("y", Y), **given)


FITS: list[tuple[dict[str, Any], str]] = [
    ({"ridge": -1.0}, "ridge must be finite and >= 0, got -1"),
    (
        {"penalty_factors": [1.0]},
        "penalty_factors must have one entry for each of the . features, got shape",
    ),
    ({"penalty_factors": [-1.0, *[1.0] * 7]}, "penalty_factors must be >= 0, got -1 among them"),
    ({"penalty_factors": [0.0] * 8}, "penalty_factors must have an entry above 0, got only zeros"),
    ({"radius": -1.0}, "radius must be finite and >= 0, got -1"),
    ({"radius": np.inf}, "radius must be finite"),
    ({"tol": -1.0}, "tol must be finite and >= 0"),
    ({"max_iter": -1}, "max_iter must be >= 0"),
    ({"method": "simplex"}, "method must be one of .*'cgs'.* got 'simplex'"),
    ({"sample_weight": -np.ones(40)}, "sample_weight must be >= 0"),
    (
        {"sample_weight": np.ones(39)},
        "sample_weight must have one entry for each of the 40 samples, got shape",
    ),
    (
        {"sample_weight": np.ones((40, 1))},
        "sample_weight must have one entry for each of the 40 samples, got shape",
    ),
    ({"sample_weight": np.full(40, np.nan)}, "sample_weight contains NaN"),
]
for kind in SINGLE:
    ROWS |= {
        f"{kind.__name__}, {k}: {sentence}": (
            lambda kind=kind, options=options: fitted(kind, options),
            ValueError,
            sentence,
        )
        for k, (options, sentence) in enumerate(FITS)
    }
    # a flag would count as a number
    for name, value in product(
        ("radius", "ridge", "tol", "max_iter", "time_limit"), (True, np.False_)
    ):
        ROWS[f"{kind.__name__}, {name}={value!r}"] = (
            lambda kind=kind, name=name, value=value: fitted(kind, {name: value}),
            TypeError,
            f"{name} must be a (whole )?number, got .*{value}",
        )
# and words as true
for kind, name in product((*SINGLE, *SEARCHES), FLAGS):
    if name in kind().get_params():
        for k, value in enumerate(("no", None, 0.5, np.array([True]))):
            ROWS[f"{kind.__name__}, {name}, {k}"] = (
                lambda kind=kind, name=name, value=value: fitted(kind, {name: value}),
                TypeError,
                f"{name} must be True or False, got",
            )
for kind in (ConstrainedLogisticRegression, ConstrainedLinearSVC):
    ROWS |= {
        f"{kind.__name__}, one class": (
            lambda kind=kind: fitted(kind, {"y": np.ones(40)}),
            ValueError,
            r"y must hold at least two classes, got one class: .*1\.0",
        ),
        f"{kind.__name__}, a class without weight": (
            lambda kind=kind: fitted(kind, {"sample_weight": (Y > 0).astype(float)}),
            ValueError,
            "two classes, each with a positive sample_weight",
        ),
        f"{kind.__name__}, a class without weight to balance": (
            lambda kind=kind: fitted(
                kind, {"class_weight": "balanced", "sample_weight": (Y > 0).astype(float)}
            ),
            ValueError,
            "class_weight='balanced' needs a positive sample_weight in each class",
        ),
    }
ROWS["multi_class in other words"] = (
    lambda: ConstrainedLogisticRegression(multi_class="both").fit(X, Y),
    ValueError,
    "multi_class must be 'ovr' or 'multinomial', got 'both'",
)
PATHS: list[tuple[dict[str, Any], str]] = [
    ({"loss": "l2"}, "loss must be one of 'logistic', .*, 'huber', got 'l2'"),
    ({"radii": []}, "radii must hold at least one radius"),
    ({"radii": [1.0, -1.0]}, "radii must be finite and >= 0, got .*-1"),
    ({"n_radii": 0}, "n_radii must be >= 1, got 0"),
    ({"ridge": -1.0}, "ridge must be finite and >= 0"),
    ({"y": np.ones(40)}, "y must hold at least two classes, got one class"),
    (
        {"y": np.array(["ape", "bee", "cow"])[np.arange(40) % 3], "radii": [0.5]},
        "y must hold two classes, got 3: .* one class against the rest",
    ),
]
ROWS |= {
    f"path, {k}: {sentence}": (
        lambda options=options: path(**{"X": X, "y": Y, **options}),
        ValueError,
        sentence,
    )
    for k, (options, sentence) in enumerate(PATHS)
}
ROWS |= {
    f"path, {name} in words": (
        lambda name=name: path(X, Y, **{name: "no"}),
        TypeError,
        f"{name} must be True or False, got 'no'",
    )
    for name in ("fit_intercept", "standardize", "positive", "progress")
}
