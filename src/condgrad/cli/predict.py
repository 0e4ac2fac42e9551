"""`condgrad predict`: what a fitted model says of new rows, and how well where the answers are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from condgrad.cli.files import Header, IdColumn, Table, is_missing, read_bytes, read_table, write_rows, written_whole
from condgrad.cli.model import Model, classifies, read_model
from condgrad.cli.report import AsJson, BadInput, counted, option, print_json, print_report


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.json of condgrad fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with the columns of the model.")],
    row_id: IdColumn = None,
    header: Header = None,
    out: Annotated[Path, option("FILE", "Where to write.")] = Path("predictions.csv"),
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
    fitted = read_model(read_bytes(model), source=str(model))
    table = read_table(data, header=header, row_id=row_id)
    if row_id is None and fitted.row_id in table.names:
        table = table.with_ids(str(fitted.row_id))
    columns = _predictions(fitted, table)
    scores = _scores(fitted, table, columns)
    with written_whole(out.parent, [out.name], read=[model, data]) as folder:
        write_rows(folder / out.name, columns, table)
    predicted = columns["prediction"]
    if classifies(fitted.kind):
        summary: dict[str, float] = {str(label): int(np.sum(predicted == label)) for label in fitted.classes}
    else:
        summary = {"mean": float(np.mean(predicted)), "least": min(predicted), "greatest": max(predicted)}
    if as_json:
        facts = {"rows": table.rows, "target": fitted.target, "predictions": summary, "scores": scores}
        print_json({**facts, "read_as": table.read_as, "out": str(out)})
        return
    sentences = {
        "file": table.read_as,
        "predicted": ", ".join(f"{name} {value:.6g}" for name, value in summary.items()),
    }
    if scores:
        sentences["scores"] = ", ".join(f"{name} {value:.6g}" for name, value in scores.items())
    print_report(f"{counted(table.rows, 'row')}, {fitted.target!r} predicted", sentences | {"written": str(out)})


def _predictions(fitted: Model, table: Table) -> dict[str, Any]:
    """The columns of the table of predictions."""
    with np.errstate(over="ignore", invalid="ignore"):
        estimator, X = fitted.predictor(table)
        try:
            scores = estimator.decision_function(X) if classifies(fitted.kind) else estimator.predict(X)
        except ValueError:
            scores = np.array([np.nan])
    if not np.isfinite(scores).all():
        raise BadInput(f"{table.source} holds numbers too large for the model: check their units")
    if not classifies(fitted.kind):
        return {"prediction": scores}
    columns = {"prediction": estimator.predict(X)}
    if hasattr(estimator, "predict_proba"):
        chances = estimator.predict_proba(X)
        return columns | {f"probability of {label}": chances[:, k] for k, label in enumerate(fitted.classes)}
    if scores.ndim == 1:
        return columns | {f"decision value of {fitted.classes[1]}": scores}
    return columns | {f"decision value of {label}": scores[:, k] for k, label in enumerate(fitted.classes)}


def _scores(fitted: Model, table: Table, columns: Mapping[str, Any]) -> dict[str, float]:
    """How well the model does on the rows whose target is known; nothing where the table has no target."""
    if fitted.target not in (*table.names, *table.apart):
        return {}
    cells = table.column(fitted.target)
    if isinstance(cells, list):
        known = np.array([not is_missing(cell) for cell in cells])
        truth = np.array(cells)[known]
    else:
        known = np.isfinite(cells)
        truth = cells[known]
    predicted = columns["prediction"][known]
    if not len(truth):
        return {}
    scores: dict[str, float] = {"rows with the target": int(known.sum())}
    if not classifies(fitted.kind):
        if isinstance(cells, list):
            return {}
        r2 = {"R2": float(r2_score(truth, predicted))} if len(truth) > 1 else {}
        return scores | r2 | {"mean squared error": float(mean_squared_error(truth, predicted))}
    if isinstance(fitted.classes[0], str) != isinstance(cells, list):
        truth, predicted = truth.astype(str), predicted.astype(str)
    scores["accuracy"] = float(accuracy_score(truth, predicted))
    chances = [columns[name][known] for name in columns if name.startswith("probability of ")]
    if chances and np.isin(truth, fitted.classes).all():
        scores["log loss"] = float(log_loss(truth, np.column_stack(chances), labels=list(fitted.classes)))
    return scores
