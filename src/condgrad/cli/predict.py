"""`condgrad predict`: what a fitted model says of new rows, and how well where the answers are
known.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas
import typer
from scipy import sparse
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from condgrad.cli import files, parts
from condgrad.cli.files import Header, IdColumn, Table, is_missing, read_table
from condgrad.cli.report import AsJson, BadInput, counted, option, print_json, print_report, require
from condgrad.errors import listed
from condgrad.linear_model.model_file import FittedModel, parsed

UNFILLED = "fill in what is missing, or fit a model that does so with condgrad fit --impute median"


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.json of condgrad fit.")],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Rows with the columns of the model.")
    ],
    row_id: IdColumn = None,
    header: Header = None,
    out: Annotated[Path, option("PATH", "A .csv file, or a folder for predictions.csv.")] = Path(
        "predictions.csv"
    ),
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Also replace a file that is not a table of predictions."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the target of new rows with a fitted model.

    If the rows have the target, the model also gets a score.

    Columns are matched by name, or by position for NPY, NPZ and libsvm files:
    column 0 of a matrix is index 1 of a libsvm file, unless that file has an
    index 0. Other columns are ignored. A column with coefficient 0 may be
    missing. The written table has the id of each row (or its number from 0), its
    prediction, and probabilities (logistic) or decision values (squared hinge).
    Empty cells get the values that the model has learnt (--impute of condgrad
    fit). A pattern in quotes, such as "new-*.parquet", means many files, which
    are read one by one. Earlier predictions with the same name are replaced;
    --overwrite replaces any file. In Python, condgrad.linear_model.load(MODEL)
    returns the fitted estimator.

    [bold]Examples[/bold]
      condgrad predict condgrad-fit/model.json new.csv
      condgrad predict condgrad-fit/model.json new.csv --out answers.csv --json

    Exit codes: 0 done, 2 bad input.
    """
    fitted = read_model(files.read_bytes(model), source=str(model))
    if parts.is_pattern(data):
        table, columns = _joined_tables(
            [_answered(fitted, file, header, row_id) for file in parts.matched(data)], data
        )
    else:
        table, columns = _answered(fitted, data, header, row_id)
    scores = _scores(fitted, table, columns)
    out = files.file_to_write(out, "predictions.csv", [".csv"])
    replaces = files.anything if overwrite else holds_predictions
    read = [model, data]
    with files.written_whole(out.parent, [out.name], read=read, replaces=replaces) as folder:
        files.write_columns(folder / out.name, columns, table)
    summary = _summary(fitted, columns["prediction"])
    notes = [*table.facts["notes"]]
    if as_json:
        facts = {
            "rows": table.rows,
            "target": fitted.target,
            "predictions": summary,
            "scores": scores,
            "notes": notes,
        }
        print_json({**facts, "read_as": table.read_as, "out": str(out)})
        return
    in_words = [
        ", ".join(f"{name} {value:.6g}" for name, value in numbers.items())
        for numbers in (summary, scores)
    ]
    sentences = {
        "file": table.read_as,
        "predicted": in_words[0],
        "note": "; ".join(notes),
        "scores": in_words[1],
        "written": str(out),
    }
    heading = f"{counted(table.rows, 'row')}, {fitted.target or 'y'!r} predicted"
    print_report(heading, {name: sentence for name, sentence in sentences.items() if sentence})


def _summary(fitted: FittedModel, predicted: Any) -> dict[str, float]:
    """How often each class was predicted, or the range of the numbers."""
    if fitted.classes:
        return {str(label): int(np.sum(predicted == label)) for label in fitted.classes}
    present = predicted[~np.isnan(predicted)]
    if not len(present):
        return {}
    return {"mean": float(present.mean()), "least": present.min(), "greatest": present.max()}


def holds_predictions(file: Path) -> bool:
    """Whether a file is a table of this command: names of rows, then their predictions."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            head = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return head[1:2] == ["prediction"]


def _answered(
    fitted: FittedModel, file: Path, header: bool | None, row_id: str | None
) -> tuple[Table, dict[str, Any]]:
    """What is left of a table once its rows are predicted, their names and the target, and the
    predictions.
    """
    table = read_table(file, header=header, row_id=row_id)
    if row_id is None and fitted.row_id in table.names:
        table = table.with_ids(str(fitted.row_id))
    columns, notes = _predictions(fitted, table)
    has_target = fitted.target in (*table.names, *table.apart)
    truth = {fitted.target: table.column(str(fitted.target))} if has_target else {}
    frame = pandas.DataFrame(truth, index=table.frame.index)
    return replace(table, frame=frame, matrix=None, facts={"notes": notes}), columns


def _joined_tables(
    answered: Sequence[tuple[Table, dict[str, Any]]], pattern: Path
) -> tuple[Table, dict[str, Any]]:
    """The tables and predictions of many files, one below the other."""
    tables = [table for table, _ in answered]
    columns = [columns for _, columns in answered]
    numbered = all(isinstance(table.frame.index, pandas.RangeIndex) for table in tables)
    frame = pandas.concat([table.frame for table in tables], ignore_index=numbered)
    how = f"{counted(len(tables), 'file')}, {tables[0].how}"
    notes = [note for table in tables for note in table.facts["notes"]]
    whole = replace(tables[0], source=str(pattern), frame=frame, how=how, facts={"notes": notes})
    return whole, {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}


def _predictions(fitted: FittedModel, table: Table) -> tuple[dict[str, Any], list[str]]:
    """The columns of the table of predictions, empty for rows that the model leaves out, and notes
    on empty cells.
    """
    estimator, X = predictor(fitted, table)
    entries = X.data if sparse.issparse(X) else X
    holes = int(np.isnan(entries).sum())
    notes = []
    complete = np.arange(table.rows)
    if fitted.drops_rows and holes:
        complete = np.flatnonzero(~np.isnan(np.ravel(X.sum(axis=1))))
        notes.append(
            f"{counted(table.rows - len(complete), 'row')} with empty cells: no prediction"
        )
    elif holes:
        notes.append(f"{counted(holes, 'empty cell')} filled with values from the fit")
    offset = None
    if fitted.offset is not None:
        offset = _offset(fitted.offset, table, notes)[complete]
    answers = _answers(estimator, fitted, X[complete], offset, table) if len(complete) else {}
    if len(complete) < table.rows:
        rows = pandas.RangeIndex(table.rows)
        answers = pandas.DataFrame(answers, index=complete).reindex(rows).to_dict("series")
        answers = {name: column.to_numpy() for name, column in answers.items()}
    return answers or {"prediction": np.full(table.rows, np.nan)}, notes


def _offset(name: str, table: Table, notes: list[str]) -> Any:
    """The offset of each row, 0 where the table has none."""
    if name not in (*table.names, *table.apart):
        notes.append(f"{table.source} has no column {name!r}: the offset counts as 0")
        return np.zeros(table.rows)
    offset = table.column(name)
    good = not isinstance(offset, list) and bool(np.isfinite(offset).all())
    require(good, f"{table.source}: the offset {name!r} must be a finite number in each row")
    return offset


def _answers(
    estimator: Any, fitted: FittedModel, X: Any, offset: Any, table: Table
) -> dict[str, Any]:
    """Predictions, and probabilities or decision values of classes."""
    answer = estimator.decision_function if fitted.classes else estimator.predict
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            scores = answer(X, offset=offset)
        except ValueError:
            scores = np.array([np.nan])
    require(
        bool(np.isfinite(scores).all()),
        f"{table.source} holds numbers too large for the model: check their units",
    )
    if not fitted.classes:
        return {"prediction": scores}
    kind = "decision value"
    values = scores.reshape(len(scores), -1)
    labels = fitted.classes[-scores[0].size :]
    if hasattr(estimator, "predict_proba"):
        kind = "probability"
        values = estimator.predict_proba(X, offset=offset)
        labels = fitted.classes
    more = {f"{kind} of {label}": values[:, k] for k, label in enumerate(labels)}
    return {"prediction": estimator.predict(X, offset=offset), **more}


def _scores(fitted: FittedModel, table: Table, columns: Mapping[str, Any]) -> dict[str, float]:
    """How well the model does on the rows whose target is known; nothing where the table has no
    target.
    """
    if fitted.target not in (*table.names, *table.apart):
        return {}
    cells = table.column(str(fitted.target))
    text = isinstance(cells, list)
    present = np.array([not is_missing(cell) for cell in cells]) if text else np.isfinite(cells)
    present &= ~pandas.isna(columns["prediction"])
    truth = np.array(cells)[present]
    predicted = columns["prediction"][present]
    if not len(truth) or (text and not fitted.classes):
        return {}
    scores: dict[str, float] = {"rows with the target": int(present.sum())}
    if not fitted.classes:
        r2 = {"R2": float(r2_score(truth, predicted))} if len(truth) > 1 else {}
        return scores | r2 | {"mean squared error": float(mean_squared_error(truth, predicted))}
    if isinstance(fitted.classes[0], str) != text:
        truth = truth.astype(str)
        predicted = predicted.astype(str)
    scores["accuracy"] = float(accuracy_score(truth, predicted))
    chances = [columns[name][present] for name in columns if name.startswith("probability of ")]
    if chances and np.isin(truth, fitted.classes).all():
        scores["log loss"] = float(
            log_loss(truth, np.column_stack(chances), labels=list(fitted.classes))
        )
    return scores


# --- the columns of a model


def predictor(model: FittedModel, table: Table) -> tuple[Any, Any]:
    """A fitted estimator of the used features that a table has, in the units of the data, and their
    columns.
    """
    try:
        columns = model.columns(table.source, table.names, table.naming)
    except ValueError as error:
        raise BadInput(str(error)) from error
    needed = np.flatnonzero(model.used).tolist()
    present = [j for j in needed if model.features[j] in columns]
    absent = [model.features[j] for j in needed if model.features[j] not in columns]
    # what a libsvm file does not mention is 0
    complete = not absent or table.naming.is_libsvm
    require(complete, f"{table.source} lacks {listed(absent)}, which the model needs")
    fills = model.fill_values is not None or model.drops_rows
    X = table.features(
        [columns[model.features[j]] for j in present], holes=fills, advice=UNFILLED, droppable=False
    )
    return model.fitted(present), X


def read_model(content: bytes, *, source: str) -> FittedModel:
    """The model in a file, or a sentence on the first field that is not as it must be."""
    try:
        return parsed(content)
    except ValueError as error:
        raise BadInput(
            f"{source} is not a model that can be used: {error}; write it with condgrad fit"
        ) from None
