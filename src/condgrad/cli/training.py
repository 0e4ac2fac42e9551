"""From a table to a problem: which columns, which rows, which loss."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from scipy import sparse

from condgrad.cli.files import Table, is_missing, read_table
from condgrad.cli.report import BadInput, counted, require
from condgrad.errors import listed
from condgrad.linear_model.base import IMPUTATIONS
from condgrad.linear_model.model_file import Naming
from condgrad.smooth.row_blocks import CONSTANT, RowBlocks

# the losses for targets of labels and of numbers, unless asked for
LABELS = "logistic"
NUMBERS = "least-squares"
CLASSIFYING = (LABELS, "squared-hinge")
DROP_ROWS = "drop-rows"
DROP_COLUMNS = "drop-columns"
MISSING_RULES = (*IMPUTATIONS, DROP_ROWS, DROP_COLUMNS)
FILL_OR_LEAVE_OUT = (
    f"fill in with --impute {' or '.join(IMPUTATIONS)}, leave out with --impute {DROP_ROWS} or {DROP_COLUMNS}, or name "
    "columns with --drop"
)
# beyond these the squares of numbers leave the range of floats
SMALLEST_CELL = 1e-100
LARGEST_CELL = 1e100
# whole numbers with at most so many values are taken for labels, unless --loss says otherwise
MOST_COUNTED = 10
ID_NAMES = re.compile(r"(.*[_ .-])?(id|patient|sample|subject|index|nr)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnRoles:
    """What the user says of columns; None where nothing is said."""

    target: str | None
    weights: str | None
    offset: str | None
    drop: Sequence[str]
    groups: Path | None
    unpenalised: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows, features and a target, as an estimator takes them."""

    table: Table
    loss: str
    target: str
    features: tuple[str, ...]
    X: Any
    """A DataFrame, a CSR matrix or blocks of Dask; NaN where cells are empty."""
    y: Any
    weights: Any  # one for each row, all above 0; None where all are 1
    offset: Any  # one for each row, or None
    groups: list[str] | None  # one for each feature
    unpenalised: list[str]
    """The features whose coefficients neither radius nor penalty holds down."""
    names: dict[str, str]
    """The columns of the weights and of the offset, by role."""
    dropped: list[str]
    """The columns that the user leaves out."""
    notes: list[str]
    """What the user should know of the rows and columns."""
    constant: int  # how many columns do not vary


def training_data(
    table: Table, roles: ColumnRoles, loss: str | None, missing: str | None
) -> TrainingData:
    """The problem that a table and the user's choices define, or a sentence on what is wrong with
    them.
    """
    target, names, dropped = _roles(table, roles)
    taken = {target, *names.values(), *dropped}
    features = tuple(name for name in table.names if name not in taken)
    require(
        bool(features), f"{table.source} has no column other than the target: a fit needs features"
    )
    table = table.holding([target, *names.values()], features)
    columns = {role: _numbers_of_role(table, name, role) for role, name in names.items()}
    weights = columns.get("weights")
    if weights is not None:
        _check_weights(table, names["weights"], weights)
    used = np.arange(table.rows) if weights is None else np.flatnonzero(weights)
    notes: list[str] = []
    X = table.features(features, holes=missing is not None, advice=FILL_OR_LEAVE_OUT)
    if missing == DROP_ROWS and not isinstance(X, RowBlocks):
        used = _complete(table, used, X, [target, *names.values()], notes)
    if "offset" in names:
        _check_offset(table, names["offset"], columns["offset"], used)
    require(
        len(used) >= 2, f"{table.source} has too few rows, {len(used)}: a fit needs two or more"
    )
    if isinstance(X, RowBlocks):
        require(
            missing is None, f"--impute {missing} takes one file, not a pattern: fill them first"
        )
        require("offset" not in names, "--offset takes one file, not a pattern")
        _, spreads, sizes = X.means_deviations_and_sizes(weights)
        constant = int((spreads <= CONSTANT * sizes).sum())
        used = np.arange(table.rows)  # rows of weight 0 stay in their blocks
    else:
        X = X[used] if sparse.issparse(X) else _frame(table, features, X, used)
        if missing == DROP_COLUMNS:
            X, features = _complete_columns(X, features, notes)
        elif missing in IMPUTATIONS:
            notes += _filling(X, missing)
        sizes = _sizes(X)
        constant = _constant_columns(X)
    _check_sizes(table, features, sizes)
    loss, y = _target(table, target, loss, used)
    return TrainingData(
        table=table,
        loss=loss,
        target=target,
        features=features,
        X=X,
        y=y,
        weights=None if weights is None else weights[used],
        offset=columns["offset"][used] if "offset" in columns else None,
        groups=None if roles.groups is None else _feature_groups(roles.groups, features),
        unpenalised=_unpenalised(table, roles.unpenalised, features),
        names=names,
        dropped=dropped,
        notes=notes + _suspected_ids(table, X, features),
        constant=constant,
    )


def _roles(table: Table, roles: ColumnRoles) -> tuple[str, dict[str, str], list[str]]:
    """The target, the columns of weights and offset, and those left out, by their names."""
    is_given = roles.target is not None or len(table.apart) == 1
    require(
        is_given, f"give --target COLUMN; {table.source} has {listed([*table.apart, *table.names])}"
    )
    wanted = table.apart[0] if roles.target is None else roles.target
    target = table.resolve(wanted, option="--target")
    dropped = [table.resolve(name, option="--drop") for name in roles.drop]
    require(target not in dropped, f"--drop {target}: this column is the target")
    names: dict[str, str] = {}
    for role, asked in (("weights", roles.weights), ("offset", roles.offset)):
        if asked is not None:
            names[role] = table.resolve(asked, option=f"--{role}")
            free = names[role] not in (target, *list(names.values())[:-1])
            require(
                free,
                f"--{role} {names[role]}: this column is the target, or it has another role already",
            )
    return target, names, dropped


def _frame(table: Table, features: Sequence[str], X: Any, used: Any) -> Any:
    """The features as pandas reads them from the file: by columns, which also fixes the order of
    all sums.
    """
    by_name = table.naming is Naming.HEADER
    names = list(features) if by_name else list(map(int, features))
    frame = pandas.DataFrame(np.asfortranarray(X), columns=names)
    return frame if len(used) == len(frame) else frame.iloc[used]


def _numbers_of_role(table: Table, name: str, role: str) -> Any:
    cells = table.column(name)
    wanted = "weights are numbers >= 0" if role == "weights" else "an offset is a number"
    text = isinstance(cells, list)
    require(not text, f"--{role} {name}: this column holds text, and {wanted}")
    if role == "offset":
        for row in np.flatnonzero(np.isinf(cells))[:1]:
            raise BadInput(f"--offset {name}: {table.where(row)} holds {cells[row]}; {wanted}")
    return cells


def _check_weights(table: Table, name: str, weights: Any) -> None:
    for row in np.flatnonzero(~((weights >= 0.0) & (weights <= LARGEST_CELL)))[:1]:
        place = f"{table.source}, {table.where(row)} holds {weights[row]}"
        raise BadInput(f"--weights {name}: {place}; weights are finite numbers >= 0")


def _check_offset(table: Table, name: str, offset: Any, used: Any) -> None:
    """Offsets are known: an estimate of one would be a model of its own."""
    holes = used[np.isnan(offset[used])]
    if len(holes):
        cells = counted(len(holes), "empty cell")
        raise BadInput(
            f"--offset {name}: this column has {cells}, the first in {table.source}, {table.where(holes[0])}; fill in "
            f"what is missing, or leave such rows out by --impute {DROP_ROWS}"
        )


def _complete(table: Table, used: Any, X: Any, others: Sequence[str], notes: list[str]) -> Any:
    """The rows that have a value in each column."""
    whole = ~np.isnan(np.ravel(X.sum(axis=1)))
    for name in others:
        cells = table.column(name)
        text = isinstance(cells, list)
        whole &= np.array([not is_missing(cell) for cell in cells]) if text else ~np.isnan(cells)
    left = used[whole[used]]
    if len(left) < len(used):
        notes.append(f"{counted(len(used) - len(left), 'row')} with empty cells left out")
    return left


def _complete_columns(
    X: Any, features: tuple[str, ...], notes: list[str]
) -> tuple[Any, tuple[str, ...]]:
    """The columns that have a value in each row."""
    is_sparse = sparse.issparse(X)
    whole = ~np.isnan(np.ravel((X if is_sparse else X.to_numpy()).sum(axis=0)))
    require(bool(whole.any()), f"--impute {DROP_COLUMNS}: each column has empty cells")
    if whole.all():
        return X, features
    notes.append(f"{counted(int((~whole).sum()), 'column')} with empty cells left out")
    left = tuple(name for name, keep in zip(features, whole, strict=True) if keep)
    return (X[:, whole] if is_sparse else X.loc[:, whole]), left


def _filling(X: Any, missing: str) -> list[str]:
    """A note on the cells that are filled, where there are some."""
    holes = int(np.isnan(X.data if sparse.issparse(X) else X.to_numpy()).sum())
    return [f"{counted(holes, 'empty cell')} filled with the {missing}s"] if holes else []


def _sizes(X: Any) -> Any:
    """The largest entry of each column, in absolute value."""
    sizes = abs(X).max(axis=0)
    return np.nan_to_num(np.ravel(sizes.toarray() if sparse.issparse(sizes) else sizes))


def _check_sizes(table: Table, names: Sequence[str], sizes: Any) -> None:
    """A sentence on the first column whose squares are no floats."""
    for j in np.flatnonzero((sizes > LARGEST_CELL) | ((sizes < SMALLEST_CELL) & (sizes > 0.0)))[:1]:
        allowed = f"sizes between {SMALLEST_CELL:g} and {LARGEST_CELL:g} are allowed"
        advice = "choose another unit, or leave the column out with --drop"
        raise BadInput(
            f"{table.source}: column {names[j]!r} reaches {sizes[j]:g}; {allowed}: {advice}"
        )


def _constant_columns(X: Any) -> int:
    """How many columns have one value."""
    most = X.max(axis=0)
    least = X.min(axis=0)
    if sparse.issparse(X):
        return X.shape[1] - int((most != least).nnz)
    return int((most == least).sum() + most.isna().sum())


def _target(table: Table, name: str, loss: str | None, used: Any) -> tuple[str, Any]:
    """The loss, and the target as an estimator takes it."""
    cells = table.column(name)
    text = isinstance(cells, list)
    y = np.array(cells)[used]
    for row in used[[is_missing(str(cell)) for cell in y] if text else ~np.isfinite(y)][:1]:
        place = f"{table.source}, {table.where(row)}"
        raise BadInput(
            f"{place}: the target {name!r} is missing or not finite; fill it or leave the row out"
        )
    values = np.unique(y)
    require(
        len(values) > 1,
        f"{table.source}: the target {name!r} is {values[0]} in all rows: there is nothing to fit",
    )
    whole = not text and bool(np.all(y == np.round(y)) and np.abs(y).max() < 2.0**53)
    if loss is None:
        few = whole and len(values) <= MOST_COUNTED and 2 * len(values) <= len(y)
        loss = LABELS if text or few else NUMBERS
    if loss in CLASSIFYING:
        return loss, y.astype(np.int64) if whole else y
    require(
        not text,
        f"--loss {loss}: the target {name!r} holds text, such as {cells[0]!r}; it needs numbers",
    )
    _check_sizes(table, [name], np.array([np.abs(y).max()]))
    return loss, y


def _feature_groups(file: Path, features: Sequence[str]) -> list[str]:
    """A label for each feature, from a table of names and labels."""
    table = read_table(file)
    require(
        len(table.names) == 2,
        f"--groups {file}: give two columns, features and their groups, got {len(table.names)}",
    )
    names, labels = (
        list(map(str, table.frame[name].astype(str).str.strip())) for name in table.names
    )
    group_of = dict(zip(names, labels, strict=True))
    absent = [name for name in features if name not in group_of]
    require(not absent, f"--groups {file} has no group for {listed(absent)}: give each feature one")
    return [group_of[name] for name in features]


def _unpenalised(table: Table, asked: Sequence[str], features: Sequence[str]) -> list[str]:
    """The features without a penalty, by their names."""
    names = [table.resolve(name, option="--unpenalised") for name in asked]
    for name in names:
        require(name in features, f"--unpenalised {name}: this column is not a feature")
    return names


def _suspected_ids(table: Table, X: Any, features: Sequence[str]) -> list[str]:
    """A sentence on columns of numbers that seem to name the rows."""
    if not isinstance(X, pandas.DataFrame) or table.naming is not Naming.HEADER:
        return []
    sentences = []
    for j, name in enumerate(features):
        if j > 0 and not ID_NAMES.fullmatch(name):
            continue
        cells = X.iloc[:, j].to_numpy()
        distinct = len(np.unique(cells)) == len(cells) and bool(np.all(cells == np.round(cells)))
        counts_rows = distinct and np.ptp(cells) == len(cells) - 1
        if distinct and len(cells) > 2 and (ID_NAMES.fullmatch(name) or counts_rows):
            sentences.append(
                f"column {name!r} has a different whole number in each row. If it has the names of the rows, use --id {name}"
            )
    return sentences
