"""From a table to a problem: which columns, which loss, in which units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from condgrad.cli.model_file import LOGISTIC, SQUARES, Label
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Naming, Table, is_missing, listed

LARGEST, SMALLEST = 1e100, 1e-100
"""Beyond these the squares of numbers leave the range of floats."""

LARGEST_RAW, SMALLEST_RAW = 1e12, 1e-12
"""The same for columns that are not standardised: beyond these rounding hides one column behind another."""

CONSTANT = 1e-12
"""A column whose spread is below this share of its size differs by rounding alone."""

MOST_COUNTED = 10
"""Whole numbers with at most so many values are taken for labels, unless --loss says otherwise."""

MOST_CLASSES = 100


@dataclass(frozen=True)
class Columns:
    """The columns as the user named them."""

    target: str | None
    weights: str | None
    drop: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Design:
    """Rows, standardised columns and a target, ready for an estimator."""

    kind: str
    target: str
    features: tuple[str, ...]
    X: Any
    """(x - center) / scale, dense or CSR; 0 in columns that are constant."""
    y: Any
    """Labels; for least squares (y - target_center) / target_scale, so that the unit of the target does not matter."""
    weights: Any
    """One for each row, all above 0, in units of `weight_unit`; None where all are 1."""
    classes: tuple[Label, ...]
    center: Any
    scale: Any
    target_center: float
    target_scale: float
    weight_unit: float
    """The mean weight of a row, so that the unit of the weights does not matter."""
    constant: tuple[str, ...]
    typical_square: float
    """The weighted sum of the squares of a column of X, on average: the scale of a ridge."""
    naming: Naming
    """Where the names of the features come from."""

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])


def design(table: Table, columns: Columns, *, loss: str | None, standardize: bool, intercept: bool) -> Design:
    """The problem that a table and the user's choices define, or a sentence on what is wrong with them."""
    if table.rows < 2:
        raise BadInput(f"{table.source} has one row: a fit needs two or more")
    target, features = _roles(table, columns)
    cells = table.column(target)
    X = table.features(features)
    kept, weights, weight_unit = np.arange(table.rows), None, 1.0
    if columns.weights is not None:  # a row of weight 0 counts as none
        weights = _weights(table, columns.weights)
        kept = np.flatnonzero(weights)
        cells = [cells[row] for row in kept] if isinstance(cells, list) else cells[kept]
        weight_unit = float(np.mean(weights[kept]))
        X, weights = X[kept], weights[kept] / weight_unit
    kind, y, classes = _target(table, target, cells, loss, rows=kept)
    _check_size(table, features, X, standardize=standardize)
    center, spread, constant = _units(X, weights, centered=intercept)
    scale = np.where(constant | (not standardize), 1.0, spread)
    typical = float(np.mean((spread / scale)[~constant] ** 2)) if not constant.all() else 1.0
    typical *= len(y) if weights is None else float(weights.sum())
    varies = np.where(constant, 0.0, 1.0)
    if sparse.issparse(X):  # it would not stay sparse; the intercept makes up for any center
        center = np.zeros(len(features))
    X = (X @ sparse.diags(varies / scale)).tocsr() if sparse.issparse(X) else (X - center) / scale * varies
    target_center, target_scale = 0.0, 1.0
    if kind == SQUARES:
        target_center, target_scale = _target_units(table, target, y, weights, centered=intercept)
        y = (y - target_center) / target_scale
    names = tuple(name for name, flat in zip(features, constant, strict=True) if flat)
    return Design(
        kind, target, tuple(features), X, y, weights, classes, center, scale, target_center, target_scale,
        weight_unit, names, typical, table.naming,
    )  # fmt: skip


def _roles(table: Table, columns: Columns) -> tuple[str, list[str]]:
    """The target and the features."""
    wanted = columns.target
    if wanted is None:
        if len(table.beside) != 1:
            raise BadInput(f"give --target COLUMN; {table.source} has {listed([*table.beside, *table.names])}")
        wanted = next(iter(table.beside))
    target = table.resolve(wanted, option="--target")
    weights = None if columns.weights is None else table.resolve(columns.weights, option="--weights")
    dropped = {table.resolve(name, option="--drop") for name in columns.drop}
    if target in dropped:
        raise BadInput(f"--drop {target}: this column is the target")
    if weights == target:
        raise BadInput(f"--weights {target}: this column is the target")
    features = [name for name in table.names if name not in {target, weights, *dropped}]
    if not features:
        raise BadInput(f"{table.source} has no column beside the target: a fit needs features")
    return target, features


def _weights(table: Table, wanted: str) -> Any:
    name = table.resolve(wanted, option="--weights")
    weights = table.column(name)
    if isinstance(weights, list):
        raise BadInput(f"--weights {name}: the column holds text; weights are numbers >= 0")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0) & (weights <= LARGEST)))
    if len(bad):
        raise BadInput(
            f"--weights {name}: {table.source}, {table.where(int(bad[0]))} holds {weights[bad[0]]}; "
            "weights are finite numbers >= 0"
        )
    if not np.count_nonzero(weights) >= 2:
        raise BadInput(f"--weights {name}: fewer than two rows have a weight above 0")
    return weights


def _target(table: Table, name: str, cells: Any, loss: str | None, *, rows: Any) -> tuple[str, Any, tuple[Label, ...]]:
    """The loss, the target as an estimator takes it, and its labels; `rows` are those of the cells in the table."""
    if isinstance(cells, list):
        gap = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
        if gap is not None:
            raise BadInput(
                f"{table.source}, {table.where(rows[gap])}: the target {name!r} is missing; leave the row out"
            )
        if loss == SQUARES:
            raise BadInput(f"--loss {SQUARES}: the target {name!r} holds text, such as {cells[0]!r}; it needs numbers")
        labels = np.array(cells)
        return (loss or LOGISTIC), labels, _classes(table, name, labels)
    bad = np.flatnonzero(~np.isfinite(cells))
    if len(bad):
        raise BadInput(
            f"{table.source}, {table.where(rows[bad[0]])}: the target {name!r} is {cells[bad[0]]}, "
            "not a finite number; fill it or leave the row out"
        )
    whole = bool(np.all(cells == np.round(cells)) and np.abs(cells).max() < 2.0**53)
    values = len(np.unique(cells))
    if loss is None:
        loss = LOGISTIC if whole and values <= MOST_COUNTED and 2 * values <= len(cells) else SQUARES
    if loss == SQUARES:
        return SQUARES, cells, ()
    labels = cells.astype(np.int64) if whole else cells
    return loss, labels, _classes(table, name, labels)


def _classes(table: Table, name: str, labels: Any) -> tuple[Label, ...]:
    found: tuple[Label, ...] = tuple(np.unique(labels).tolist())
    if len(found) < 2:
        raise BadInput(f"{table.source}: the target {name!r} is {found[0]!r} in all rows; two classes are needed")
    if len(found) == len(labels) and len(found) > 2:
        raise BadInput(f"{table.source}: the target {name!r} has another label in each row; is it the right column?")
    if len(found) > MOST_CLASSES:
        advice = "is it the right column?" if isinstance(found[0], str) else f"for numbers take --loss {SQUARES}"
        raise BadInput(f"{table.source}: the target {name!r} has {len(found)} classes, beyond {MOST_CLASSES}; {advice}")
    return found


def _check_size(table: Table, features: Sequence[str], X: Any, *, standardize: bool) -> None:
    """Numbers whose squares are floats, and that rounding leaves comparable."""
    smallest, largest = (SMALLEST, LARGEST) if standardize else (SMALLEST_RAW, LARGEST_RAW)
    sizes = abs(X).max(axis=0)
    sizes = np.ravel(sizes.toarray()) if sparse.issparse(sizes) else sizes
    bad = np.flatnonzero((sizes > largest) | ((sizes < smallest) & (sizes > 0.0)))
    if len(bad):
        advice = "choose another unit, or leave the column out with --drop"
        raise BadInput(
            f"{table.source}: column {features[bad[0]]!r} reaches {sizes[bad[0]]:g}; sizes between {smallest:g} and "
            f"{largest:g} are allowed: {advice if standardize else 'leave out --no-standardize, or ' + advice}"
        )


def _units(X: Any, weights: Any, *, centered: bool) -> tuple[Any, Any, Any]:
    """Weighted means, spreads about them (about 0 without an intercept), and which columns do not vary."""
    share = np.full(X.shape[0], 1.0 / X.shape[0]) if weights is None else weights / weights.sum()
    mean = np.ravel(share @ X) if centered else np.zeros(X.shape[1])
    if sparse.issparse(X):
        squares = np.ravel(share @ X.multiply(X).tocsr())
        spread = np.sqrt(np.maximum(squares - mean**2, 0.0))
        size = np.sqrt(squares)
    else:
        spread = np.sqrt(share @ (X - mean) ** 2)
        size = np.abs(X).max(axis=0)
    tolerance = 1e-7 if sparse.issparse(X) and centered else CONSTANT  # a difference of squares keeps half the digits
    return mean, spread, spread <= tolerance * size


def _target_units(table: Table, name: str, y: Any, weights: Any, *, centered: bool) -> tuple[float, float]:
    size = float(np.abs(y).max())
    if size > LARGEST or 0.0 < size < SMALLEST:
        raise BadInput(
            f"{table.source}: the target {name!r} reaches {size:g}; sizes between {SMALLEST:g} and {LARGEST:g} are "
            "allowed: choose another unit"
        )
    (mean,), (spread,), (flat,) = _units(y[:, None], weights, centered=centered)
    if flat:
        raise BadInput(f"{table.source}: the target {name!r} is {y[0]:g} in all rows: there is nothing to fit")
    return float(mean), float(spread)
