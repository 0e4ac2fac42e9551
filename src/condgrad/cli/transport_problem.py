"""A transport problem from files: cost, weights, what else a plan is asked, and where its points are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from condgrad import _checks
from condgrad.cli.memory import require_memory_for_plan
from condgrad.cli.outcome import BadInput
from condgrad.cli.point_files import Points, file_of, read_labels, read_matrix, read_points, read_vector
from condgrad.transport import GroupLasso, Laplacian
from condgrad.transport.regularizers import Regularizer

ENTROPY_SHARE = 0.02
"""The default entropy, as a share of the median cost: plans stay sharp and are found in seconds."""

LARGEST = 1e300
"""Beyond this, sums of costs leave the range of floats."""


class Metric(StrEnum):
    """The costs between points that the command knows, by SciPy's names."""

    SQEUCLIDEAN = "sqeuclidean"
    EUCLIDEAN = "euclidean"
    CITYBLOCK = "cityblock"
    CHEBYSHEV = "chebyshev"
    COSINE = "cosine"


@dataclass(frozen=True)
class Files:
    """What the user named; None where nothing was."""

    source: Path | None
    target: Path | None
    cost: Path | None
    source_weights: Path | None
    target_weights: Path | None
    labels: Path | None

    def named(self) -> dict[str, Path]:
        return {name: path for name, path in vars(self).items() if path is not None}

    def on_disk(self) -> list[Path]:
        return [file_of(path) for path in self.named().values()]

    def facts(self) -> dict[str, Any]:
        """Names and sizes, for the record."""
        return {name: {"file": str(path), "bytes": file_of(path).stat().st_size} for name, path in self.named().items()}


@dataclass(frozen=True)
class Wishes:
    """What the user asks of a plan beyond its cost."""

    metric: Metric
    entropy: float | None
    laplacian: float | None
    neighbors: int
    groups: float | None
    drop: tuple[str, ...] = ()
    """Columns of the clouds to leave out."""

    def __post_init__(self) -> None:
        for option in ("entropy", "laplacian", "groups"):
            weight = getattr(self, option)
            if weight is not None:
                checked(option, weight)


@dataclass(frozen=True)
class Problem:
    """All that `condgrad.transport.solve` is asked, and the points that its plan couples."""

    cost: Any
    a: Any
    b: Any
    entropy: float
    entropy_from: str
    regularizers: Sequence[Regularizer]
    source: Points | None
    target: Points | None


def checked(option: str, value: float) -> float:
    """A number >= 0, or a sentence that names the option."""
    try:
        return _checks.number(f"--{option}", value, at_least=0.0)
    except ValueError as error:
        raise BadInput(str(error)) from error


def read_problem(files: Files, wishes: Wishes) -> Problem:
    """The problem in the files, checked as a whole."""
    _check_names(files, wishes)
    source = None if files.source is None else read_points(files.source, drop=wishes.drop)
    target = None if files.target is None else read_points(files.target, drop=wishes.drop)
    there = frozenset().union(*(points.dropped for points in (source, target) if points is not None))
    for column in wishes.drop:
        if column not in there:
            raise BadInput(f"--drop {column}: neither {files.source} nor {files.target} has such a column")
    cost = _cost(files, wishes.metric, source, target)
    a, b = _weights(files, cost)
    entropy, entropy_from = _entropy(cost, wishes.entropy)
    labels = None if files.labels is None else read_labels(files.labels, len(cost))
    return Problem(cost, a, b, entropy, entropy_from, _regularizers(wishes, labels, source, target), source, target)


def _check_names(files: Files, wishes: Wishes) -> None:
    if (files.source is None) != (files.target is None):
        raise BadInput("TARGET is missing: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if files.source is None and files.cost is None:
        raise BadInput("nothing to transport: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if wishes.laplacian is not None and files.source is None:
        raise BadInput("--laplacian needs to know which points are neighbours: give SOURCE and TARGET beside --cost")
    if (files.labels is None) != (wishes.groups is None):
        raise BadInput("--labels FILE and --groups WEIGHT go together: give both or neither")
    if wishes.drop and files.source is None:
        raise BadInput("--drop leaves out columns of SOURCE and TARGET: give both, or leave it out")


def _cost(files: Files, metric: Metric, source: Points | None, target: Points | None) -> Any:
    if files.cost is None:
        return _distances(files, metric, source, target)
    cost = read_matrix(files.cost)
    for axis, (points, file, what) in enumerate(((source, files.source, "rows"), (target, files.target, "columns"))):
        if points is not None and len(points.values) != cost.shape[axis]:
            raise BadInput(
                f"{files.cost} has {cost.shape[axis]} {what} and {file} has {len(points.values)} points: "
                "a cost has a row for each source and a column for each target"
            )
    if np.abs(cost).max() > LARGEST:
        raise BadInput(f"{files.cost} holds costs beyond {LARGEST:g}: choose a larger unit")
    _check_room(*cost.shape)
    return cost


def _distances(files: Files, metric: Metric, source: Points | None, target: Points | None) -> Any:
    assert source is not None, "without a cost there are two clouds"
    assert target is not None, "without a cost there are two clouds"
    Xs, Xt = source.values, target.values
    if Xs.shape[1] != Xt.shape[1]:
        raise BadInput(
            f"{files.source} has {Xs.shape[1]} columns and {files.target} has {Xt.shape[1]}: "
            "both clouds must have the same coordinates"
        )
    _check_room(len(Xs), len(Xt))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        cost = cdist(Xs, Xt, metric=str(metric))
    if not (cost <= LARGEST).all():
        i, j = np.argwhere(~(cost <= LARGEST))[0]
        raise BadInput(
            f"the {metric} cost from row {i + 1} of {files.source} to row {j + 1} of {files.target} is {cost[i, j]}: "
            "rescale the coordinates or choose another --metric"
        )
    return cost


def _check_room(n: int, m: int) -> None:
    require_memory_for_plan(n, m, "give fewer points, a random sample of each cloud for example")


def _weights(files: Files, cost: Any) -> tuple[Any, Any]:
    """Both weights; a side without a file is uniform, with the mass of the other."""
    n, m = cost.shape
    a = _checked_weights(files.source_weights, n, "sources")
    b = _checked_weights(files.target_weights, m, "targets")
    if a is None:
        a = np.full(n, (1.0 if b is None else b.sum()) / n)
    if b is None:
        b = np.full(m, a.sum() / m)
    if abs(a.sum() - b.sum()) > 1e-6 * max(a.sum(), b.sum()):
        raise BadInput(
            f"{files.source_weights} sums to {a.sum():.10g} and {files.target_weights} to {b.sum():.10g}: "
            "scale one of them, a plan moves the same mass from sources to targets"
        )
    return a, b


def _checked_weights(path: Path | None, count: int, what: str) -> Any:
    if path is None:
        return None
    weights = read_vector(path)
    if len(weights) != count:
        raise BadInput(f"{path} has {len(weights)} weights for {count} {what}: give one weight for each")
    if weights.min() < 0:
        row = int(np.argmax(weights < 0))
        raise BadInput(f"{path}, row {row + 1}, is {weights[row]:g}: weights must be >= 0")
    if not 0.0 < weights.sum() < np.inf:
        raise BadInput(f"{path} sums to {weights.sum():g}: give one or more weights > 0, none of them huge")
    return weights


def _entropy(cost: Any, wish: float | None) -> tuple[float, str]:
    """The weight of the entropy, and where it comes from, in words."""
    if wish is not None:
        return wish, "as asked" if wish > 0 else "as asked: none"
    above = cost - cost.min()
    median, largest = float(np.median(above)), float(above.max())
    if median > 0:
        return ENTROPY_SHARE * median, f"{ENTROPY_SHARE:g} x the median cost"
    if largest > 0:
        return ENTROPY_SHARE * largest, f"{ENTROPY_SHARE:g} x the largest cost"
    return 1.0, "1, as all costs are equal"


def _regularizers(wishes: Wishes, labels: Any, source: Points | None, target: Points | None) -> list[Regularizer]:
    wanted: list[Regularizer] = []
    if wishes.laplacian and source is not None and target is not None:
        wanted.append(Laplacian(source.values, target.values, weight=wishes.laplacian, neighbors=wishes.neighbors))
    if wishes.groups and labels is not None:
        wanted.append(GroupLasso(labels, weight=wishes.groups))
    return wanted
