"""What is timed: the problems of the benchmarks, as jobs of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from experiments.benchmarks import (
    cross_validation,
    elastic_net,
    elastic_net_dask,
    elastic_net_grid,
    multinomial,
)
from experiments.gates.jobs import EstimatorFit, Job, Minimization, PathOfRadii
from experiments.gates.rules import Kind
from experiments.problems import ElasticNetProblem

LEVELS = (1e-3, 1e-6)
SOFTMAX_LEVELS = (1e-4, 1e-6)
PATH_TOL = 1e-6
POINTS = 50
FOLDS = 5
DEFAULT_SEARCHES = ("colon", "breast_cancer")
"""Data on which a search with default radii and ridges is timed too."""
DASK_ROWS = 100_000
QUICK_DATA = ("colon", "breast_cancer", "200x1000")
QUICK_LEVELS = (1e-6,)


@dataclass(frozen=True, eq=False)
class Row:
    """One thing to time."""

    name: str
    group: str
    """What it is shown with: the name of a benchmark, or "random"."""
    kind: Kind
    make: Callable[[], Job]
    """Makes the data, which is done once and for both sides."""
    precision: str = "float64"
    rival: Callable[[], float | None] | None = None
    """CPU seconds of skglm on the same problem, where it has it."""


def rows_of_benchmarks(*, quick: bool = False) -> Iterator[Row]:
    """Those of all benchmarks of the elastic net; quick ones are a few of each."""
    for rows in (elastic_net_rows, grid_rows, search_rows, softmax_rows, dask_rows):
        yield from rows(quick)


# --- single fits with a radius, beside skglm


def elastic_net_rows(quick: bool) -> Iterator[Row]:
    """Each data set over its radii, and drawn data of growing shapes."""
    for name in (*elastic_net.SETTINGS, *elastic_net.SCALING):
        if quick and name not in QUICK_DATA:
            continue
        levels = QUICK_LEVELS if quick or name in elastic_net.SCALING else LEVELS
        for radius, level in product(radii_of(name), levels):
            rival = partial(skglm_seconds, name, radius, level)
            yield Row(
                f"elastic_net {name}, radius {radius:g}, to {level:g}",
                "elastic_net",
                Kind.FIT,
                partial(elastic_net_job, name, radius, level),
                rival=rival if is_shared(name, radius) else None,
            )
    yield Row("elastic_net colon, path", "path", Kind.SERIES, elastic_net_path_job)


def radii_of(name: str) -> list[float]:
    """From nearly empty to nearly dense models; drawn data have the radius of colon alone."""
    if name in elastic_net.SCALING:
        _, radius = elastic_net.SETTINGS["colon"]
        return [radius]
    _, radius = elastic_net.SETTINGS[name]
    return sorted({radius, *elastic_net.RADII.get(name, elastic_net.OTHER_RADII)})


def is_shared(name: str, radius: float) -> bool:
    """Whether skglm is measured on it too: a data set, with the radius of its settings."""
    return name in elastic_net.SETTINGS and radius == elastic_net.SETTINGS[name][1]


@lru_cache(2)
def loaded(name: str) -> ElasticNetProblem:
    """The data of a benchmark, of which the largest take some hundred MB."""
    return elastic_net.load(name)


@lru_cache(2)
def with_optimum(name: str, radius: float) -> ElasticNetProblem:
    """One of its problems, which keeps its certified optimum."""
    return replace(loaded(name), radius=radius)


def elastic_net_job(name: str, radius: float, level: float) -> Job:
    problem = loaded(name)
    return Minimization(
        "Logistic",
        problem.by_columns,
        problem.y,
        "L1Ball",
        [radius],
        ridge=problem.ridge,
        tol=level,
    )


def elastic_net_path_job() -> Job:
    problem = loaded("colon")
    options = {"ridge": problem.ridge, "fit_intercept": False, "n_radii": POINTS, "tol": PATH_TOL}
    return PathOfRadii(problem.by_columns, problem.y, options)


def skglm_seconds(name: str, radius: float, level: float) -> float | None:
    """CPU seconds to the level, given the multiplier and the loosest tolerance that reaches it."""
    from experiments.elastic_net_rivals import ProxNewton

    problem = with_optimum(name, radius)
    seconds: float | None = elastic_net.theirs(problem, ProxNewton, level, cap=20.0)["reached"]
    return seconds


# --- three losses over radii and ridges


def grid_rows(quick: bool) -> Iterator[Row]:
    grid = product(
        TABLES,
        elastic_net_grid.LOSSES,
        elastic_net_grid.RADII,
        elastic_net_grid.RIDGES,
        (False, True),
    )
    for number, (table, loss, radius, ridge, intercept) in enumerate(grid):
        if quick and number % 9:
            continue
        words = f"grid {table}, {loss}, radius {radius:g}, ridge {ridge:g}"
        words += ", intercept" if intercept else ""
        make = partial(grid_job, table, loss, radius, ridge, intercept)
        yield Row(words, "elastic_net_grid", Kind.FIT, make)


TABLES = ("colon 62 x 2000", "tall 400 x 60")
"""Names of `elastic_net_grid.tables`, which reads files."""


@cache
def tables() -> dict[str, tuple[Any, Any]]:
    return elastic_net_grid.tables()


def grid_job(table: str, loss: str, radius: float, ridge: float, intercept: bool) -> Job:
    name = elastic_net_grid.LOSSES[loss].__name__
    X, y = tables()[table]
    return Minimization(
        name,
        X,
        y,
        "L1Ball",
        [radius],
        ridge=ridge,
        tol=PATH_TOL,
        intercept=intercept,
        method="newton",
    )


# --- paths, and searches for the radius


def search_rows(quick: bool) -> Iterator[Row]:
    for name, loss in product(cross_validation.DATA, cross_validation.LOSSES):
        if quick and name not in QUICK_DATA:
            continue
        yield Row(f"path {name}, {loss}", "path", Kind.SERIES, partial(path_job, name, loss))
        words = f"cross_validation {name}, {loss}"
        yield Row(words, "cross_validation", Kind.SERIES, partial(search_job, name, loss))
        if name in DEFAULT_SEARCHES:
            make = partial(default_search_job, name, loss)
            yield Row(f"{words}, defaults", "cross_validation", Kind.SERIES, make)


@cache
def study_of(name: str, loss: str) -> cross_validation.Study:
    return cross_validation.Study.of(name, loss, POINTS, FOLDS)


def path_job(name: str, loss: str) -> Job:
    study = study_of(name, loss)
    options = {"loss": loss, "radii": study.radii, "ridge": 0.0, "tol": PATH_TOL}
    return PathOfRadii(study.X, study.y, options)


def search_job(name: str, loss: str) -> Job:
    study = study_of(name, loss)
    options = {"radii": study.radii, "ridges": [0.0], "cv": study.folds}
    return EstimatorFit(cross_validation.ESTIMATORS[loss].__name__, study.X, study.y, options)


def default_search_job(name: str, loss: str) -> Job:
    X, y = cross_validation.labelled(name)
    return EstimatorFit(cross_validation.ESTIMATORS[loss].__name__, X, y)


# --- several classes, and data of Dask


def softmax_rows(quick: bool) -> Iterator[Row]:
    settings = multinomial.SETTINGS[:1] if quick else multinomial.SETTINGS
    for (ridge, radius), level in product(settings, QUICK_LEVELS if quick else SOFTMAX_LEVELS):
        words = f"multinomial digits, ridge {ridge:g}, radius {radius:g}, to {level:g}"
        yield Row(words, "multinomial", Kind.FIT, partial(softmax_job, ridge, radius, level))


def softmax_job(ridge: float, radius: float, level: float) -> Job:
    data, labels = load_digits(return_X_y=True)
    return Minimization(
        "Multinomial",
        data / 16.0,
        labels,
        "L1Ball",
        [radius],
        ridge=ridge,
        tol=level,
        intercept=True,
    )


def dask_rows(quick: bool) -> Iterator[Row]:
    """Blocks of Dask and the same rows in one array."""
    count = elastic_net_dask.BLOCK // 10 if quick else DASK_ROWS
    for block_rows, words in ((count // 4, "in blocks"), (0, "in one array")):
        make = partial(dask_job, count, block_rows)
        name = f"elastic_net_dask {count} rows, {words}"
        yield Row(name, "elastic_net_dask", Kind.FIT, make, "float32")


def dask_job(count: int, block_rows: int) -> Job:
    sizes = elastic_net_dask.sizes_of(count)
    blocks = [elastic_net_dask.block(number, size) for number, size in enumerate(sizes)]
    return Minimization(
        "Logistic",
        np.concatenate([X for X, _ in blocks]),
        np.concatenate([y for _, y in blocks]),
        "L1Ball",
        [elastic_net_dask.RADIUS],
        ridge=elastic_net_dask.RIDGE,
        tol=elastic_net_dask.TOL,
        intercept=True,
        method="newton",
        block_rows=block_rows,
    )
