"""`condgrad predict`: what a fitted model says of new rows, and how well where the answers are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from condgrad.cli import files
from condgrad.cli.files import Header, IdColumn, Table, is_missing, read_table
from condgrad.cli.report import AsJson, BadInput, counted, listed, option, print_json, print_report, require
from condgrad.linear_model.model_file import Model, Naming, classifies, parsed


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.json of condgrad fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with the columns of the model.")],
    row_id: IdColumn = None,
    header: Header = None,
    out: Annotated[Path, option("PATH", "A .csv file, or a folder for predictions.csv.")] = Path("predictions.csv"),
    as_json: AsJson = False,
) -> None:
    """Predict new rows with a fitted model, and score it where they have the target.

    Columns are matched by name, or by place between NPY, NPZ and libsvm files: a
    column 0 of a matrix is index 1 of a libsvm file, unless that file has an
    index 0. Others are ignored, and one whose coefficient is 0 may be absent.
    The written table has the id of each row or its number from 0, its prediction,
    and probabilities (logistic) or decision values (squared hinge).

    [bold]Examples[/bold]
      condgrad predict condgrad-fit/model.json new.csv
      condgrad predict condgrad-fit/model.json new.csv --out answers.csv --json

    Exit codes: 0 done, 2 bad input.
    """
    fitted = read_model(files.read_bytes(model), source=str(model))
    table = read_table(data, header=header, row_id=row_id)
    if row_id is None and fitted.row_id in table.names:
        table = table.with_ids(str(fitted.row_id))
    columns = _predictions(fitted, table)
    scores = _scores(fitted, table, columns)
    out = files.file_to_write(out, "predictions.csv", [".csv"])
    with files.written_whole(out.parent, [out.name], read=[model, data]) as folder:
        files.write_rows(folder / out.name, columns, table)
    predicted = columns["prediction"]
    if classifies(fitted.kind):
        summary: dict[str, float] = {str(label): int(np.sum(predicted == label)) for label in fitted.classes}
    else:
        summary = {"mean": float(np.mean(predicted)), "least": min(predicted), "greatest": max(predicted)}
    if as_json:
        facts = {"rows": table.rows, "target": fitted.target, "predictions": summary, "scores": scores}
        print_json({**facts, "read_as": table.read_as, "out": str(out)})
        return
    in_words = [", ".join(f"{name} {value:.6g}" for name, value in numbers.items()) for numbers in (summary, scores)]
    sentences = {"file": table.read_as, "predicted": in_words[0], "scores": in_words[1], "written": str(out)}
    heading = f"{counted(table.rows, 'row')}, {fitted.target!r} predicted"
    print_report(heading, {name: sentence for name, sentence in sentences.items() if sentence})


def _predictions(fitted: Model, table: Table) -> dict[str, Any]:
    """The columns of the table of predictions."""
    with np.errstate(over="ignore", invalid="ignore"):
        estimator, X = predictor(fitted, table)
        try:
            scores = estimator.decision_function(X) if classifies(fitted.kind) else estimator.predict(X)
        except ValueError:
            scores = np.array([np.nan])
    require(bool(np.isfinite(scores).all()), f"{table.source} holds numbers too large for the model: check their units")
    if not classifies(fitted.kind):
        return {"prediction": scores}
    kind, values, labels = "decision value", scores.reshape(len(scores), -1), fitted.classes[-scores[0].size :]
    if hasattr(estimator, "predict_proba"):
        kind, values, labels = "probability", estimator.predict_proba(X), fitted.classes
    more = {f"{kind} of {label}": values[:, k] for k, label in enumerate(labels)}
    return {"prediction": estimator.predict(X), **more}


def _scores(fitted: Model, table: Table, columns: Mapping[str, Any]) -> dict[str, float]:
    """How well the model does on the rows whose target is known; nothing where the table has no target."""
    if fitted.target not in (*table.names, *table.apart):
        return {}
    cells = table.column(fitted.target)
    text = isinstance(cells, list)
    known = np.array([not is_missing(cell) for cell in cells]) if text else np.isfinite(cells)
    truth, predicted = np.array(cells)[known], columns["prediction"][known]
    if not len(truth) or (text and not classifies(fitted.kind)):
        return {}
    scores: dict[str, float] = {"rows with the target": int(known.sum())}
    if not classifies(fitted.kind):
        r2 = {"R2": float(r2_score(truth, predicted))} if len(truth) > 1 else {}
        return scores | r2 | {"mean squared error": float(mean_squared_error(truth, predicted))}
    if isinstance(fitted.classes[0], str) != text:
        truth, predicted = truth.astype(str), predicted.astype(str)
    scores["accuracy"] = float(accuracy_score(truth, predicted))
    chances = [columns[name][known] for name in columns if name.startswith("probability of ")]
    if chances and np.isin(truth, fitted.classes).all():
        scores["log loss"] = float(log_loss(truth, np.column_stack(chances), labels=list(fitted.classes)))
    return scores


# --- the columns of a model


def predictor(model: Model, table: Table) -> tuple[Any, Any]:
    """A fitted estimator of the used features that a table has, in the units of the data, and their columns."""
    found = _columns_of_features(model, table)
    needed = np.flatnonzero(model.used).tolist()
    present = [j for j in needed if model.features[j] in found]
    absent = [model.features[j] for j in needed if model.features[j] not in found]
    # what a libsvm file does not mention is 0
    complete = not absent or table.naming.is_libsvm
    require(complete, f"{table.source} lacks {listed(absent)}, which the model needs")
    X = table.features([found[model.features[j]] for j in present], droppable=False)
    return model.estimator(present), X


def _columns_of_features(model: Model, table: Table) -> Mapping[str, str]:
    """The table's column of each feature that it has: names, positions and libsvm indices do not mix by chance."""
    shift = 0
    if table.naming is not Naming.HEADER:
        names = f"the names of a header, {listed(model.features)}: give a table with these names"
        numbered = model.naming is not Naming.HEADER
        require(numbered, f"{table.source} numbers its columns, and the model knows its own by {names}")
        shift = table.naming.first - model.naming.first
        _check_places(model, table)
    elif model.naming is not Naming.HEADER and not set(table.names).isdisjoint(model.features):
        _check_first("0" in table.names, model, table)
    present = set(table.names)
    places = {name: str(int(name) + shift) if shift else name for name in model.features}
    found = {name: column for name, column in places.items() if column in present}
    fitted_to = f"it has {listed(table.names)}, and the model was fitted to {listed(model.features)}"
    require(bool(found), f"{table.source} has no column of the model: {fitted_to}")
    return found


def _check_first(from_0: bool, model: Model, table: Table) -> None:
    """Numbers of columns must count from where the model's do; it may not have used its first one."""
    alike = model.naming.first == 0 if from_0 else "0" not in model.features
    counts = f"counts its columns from {0 if from_0 else 1}, and the model from {model.naming.first}"
    require(alike, f"{table.source} {counts}: number both alike")


def _check_places(model: Model, table: Table) -> None:
    """Columns that are matched by their places are as many as the model's, with the target where it was."""
    last = max(map(int, model.features))
    if model.naming.is_libsvm and table.naming.is_libsvm:
        if table.naming.first == 0:  # the other way round the file may just not mention feature 0
            _check_first(True, model, table)
    elif table.naming.is_libsvm:
        amid = model.target.isdecimal() and int(model.target) < last
        place = f"a matrix with the target amid its columns, at {model.target}: give such a matrix"
        require(not amid, f"{table.source} keeps its label apart, and the model was fitted to {place}")
    else:
        wanted, width = last - model.naming.first + 1, len(table.names)
        # where the model's label was apart, one column more could be the target
        fits = width == wanted if model.naming.is_libsvm else width >= wanted
        advice = "give the same columns in the same order, without what is no feature"
        require(fits, f"{table.source} has {width} columns, and the model was fitted to {wanted}: {advice}")


def read_model(content: bytes, *, source: str) -> Model:
    """The model in a file, or a sentence on the first field that is not as it must be."""
    try:
        return parsed(content)
    except ValueError as error:
        raise BadInput(f"{source} is not a model that can be used: {error}; write it with condgrad fit") from None
