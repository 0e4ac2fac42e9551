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
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from condgrad.cli import files, parts
from condgrad.cli.files import Header, IdColumn, Table, is_missing, read_table
from condgrad.cli.report import AsJson, BadInput, counted, option, print_json, print_report, require
from condgrad.errors import listed
from condgrad.linear_model.model_file import FittedModel, classifies, parsed


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
        typer.Option("--overwrite", help="Replace a file that is no table of predictions, too."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict new rows with a fitted model, and score it where they have the target.

    Columns are matched by name, or by place between NPY, NPZ and libsvm files: a
    column 0 of a matrix is index 1 of a libsvm file, unless that file has an
    index 0. Others are ignored, and one whose coefficient is 0 may be absent.
    The written table has the id of each row or its number from 0, its prediction,
    and probabilities (logistic) or decision values (squared hinge). A pattern in
    quotes, such as "new-*.parquet", stands for many files, read one by one.
    Earlier predictions of that name are replaced, another file with --overwrite.

    [bold]Examples[/bold]
      condgrad predict condgrad-fit/model.json new.csv
      condgrad predict condgrad-fit/model.json new.csv --out answers.csv --json

    Exit codes: 0 done, 2 bad input.
    """
    fitted = read_model(files.read_bytes(model), source=str(model))
    if parts.is_pattern(data):
        table, columns = _joined(
            [_answered(fitted, file, header, row_id) for file in parts.matched(data)], data
        )
    else:
        table, columns = _answered(fitted, data, header, row_id)
    scores = _scores(fitted, table, columns)
    out = files.file_to_write(out, "predictions.csv", [".csv"])
    replaces = files.anything if overwrite else holds_predictions
    read = [model, data]
    with files.written_whole(out.parent, [out.name], read=read, replaces=replaces) as folder:
        files.write_rows(folder / out.name, columns, table)
    predicted = columns["prediction"]
    if classifies(fitted.kind):
        summary: dict[str, float] = {
            str(label): int(np.sum(predicted == label)) for label in fitted.classes
        }
    else:
        summary = {
            "mean": float(np.mean(predicted)),
            "least": min(predicted),
            "greatest": max(predicted),
        }
    if as_json:
        facts = {
            "rows": table.rows,
            "target": fitted.target,
            "predictions": summary,
            "scores": scores,
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
        "scores": in_words[1],
        "written": str(out),
    }
    heading = f"{counted(table.rows, 'row')}, {fitted.target!r} predicted"
    print_report(heading, {name: sentence for name, sentence in sentences.items() if sentence})


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
    columns = _predictions(fitted, table)
    known = fitted.target in (*table.names, *table.apart)
    truth = {fitted.target: table.column(fitted.target)} if known else {}
    return replace(
        table, frame=pandas.DataFrame(truth, index=table.frame.index), matrix=None
    ), columns


def _joined(
    answered: Sequence[tuple[Table, dict[str, Any]]], pattern: Path
) -> tuple[Table, dict[str, Any]]:
    """The tables and predictions of many files, one below the other."""
    tables = [table for table, _ in answered]
    columns = [columns for _, columns in answered]
    numbered = all(isinstance(table.frame.index, pandas.RangeIndex) for table in tables)
    frame = pandas.concat([table.frame for table in tables], ignore_index=numbered)
    how = f"{counted(len(tables), 'file')}, {tables[0].how}"
    whole = replace(tables[0], source=str(pattern), frame=frame, how=how)
    return whole, {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}


def _predictions(fitted: FittedModel, table: Table) -> dict[str, Any]:
    """The columns of the table of predictions."""
    with np.errstate(over="ignore", invalid="ignore"):
        estimator, X = predictor(fitted, table)
        try:
            scores = (
                estimator.decision_function(X) if classifies(fitted.kind) else estimator.predict(X)
            )
        except ValueError:
            scores = np.array([np.nan])
    require(
        bool(np.isfinite(scores).all()),
        f"{table.source} holds numbers too large for the model: check their units",
    )
    if not classifies(fitted.kind):
        return {"prediction": scores}
    kind = "decision value"
    values = scores.reshape(len(scores), -1)
    labels = fitted.classes[-scores[0].size :]
    if hasattr(estimator, "predict_proba"):
        kind = "probability"
        values = estimator.predict_proba(X)
        labels = fitted.classes
    more = {f"{kind} of {label}": values[:, k] for k, label in enumerate(labels)}
    return {"prediction": estimator.predict(X), **more}


def _scores(fitted: FittedModel, table: Table, columns: Mapping[str, Any]) -> dict[str, float]:
    """How well the model does on the rows whose target is known; nothing where the table has no
    target.
    """
    if fitted.target not in (*table.names, *table.apart):
        return {}
    cells = table.column(fitted.target)
    text = isinstance(cells, list)
    known = np.array([not is_missing(cell) for cell in cells]) if text else np.isfinite(cells)
    truth = np.array(cells)[known]
    predicted = columns["prediction"][known]
    if not len(truth) or (text and not classifies(fitted.kind)):
        return {}
    scores: dict[str, float] = {"rows with the target": int(known.sum())}
    if not classifies(fitted.kind):
        r2 = {"R2": float(r2_score(truth, predicted))} if len(truth) > 1 else {}
        return scores | r2 | {"mean squared error": float(mean_squared_error(truth, predicted))}
    if isinstance(fitted.classes[0], str) != text:
        truth = truth.astype(str)
        predicted = predicted.astype(str)
    scores["accuracy"] = float(accuracy_score(truth, predicted))
    chances = [columns[name][known] for name in columns if name.startswith("probability of ")]
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
        found = model.columns(table.source, table.names, table.naming)
    except ValueError as error:
        raise BadInput(str(error)) from error
    needed = np.flatnonzero(model.used).tolist()
    present = [j for j in needed if model.features[j] in found]
    absent = [model.features[j] for j in needed if model.features[j] not in found]
    # what a libsvm file does not mention is 0
    complete = not absent or table.naming.is_libsvm
    require(complete, f"{table.source} lacks {listed(absent)}, which the model needs")
    X = table.features([found[model.features[j]] for j in present], droppable=False)
    return model.estimator(present), X


def read_model(content: bytes, *, source: str) -> FittedModel:
    """The model in a file, or a sentence on the first field that is not as it must be."""
    try:
        return parsed(content)
    except ValueError as error:
        raise BadInput(
            f"{source} is not a model that can be used: {error}; write it with condgrad fit"
        ) from None
