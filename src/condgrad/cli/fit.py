"""`condgrad fit` and `condgrad predict`: the l1-constrained elastic net of a table, and what it says of new rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condgrad import _checks
from condgrad.cli.fit_design import Columns, design
from condgrad.cli.fit_matrices import read_table
from condgrad.cli.fit_picture import draw_path
from condgrad.cli.fit_report import Source, certificate, report, shortfall, write_coefficients
from condgrad.cli.fit_solve import Options, solve
from condgrad.cli.model_file import LOGISTIC, SQUARES, Model, from_json, to_json
from condgrad.cli.outcome import BadInput, ExitCode, errors, output, print_json
from condgrad.cli.staging import staged
from condgrad.cli.tables import Table, read_bytes


class Loss(StrEnum):
    """The losses by their names on the command line."""

    LOGISTIC = "logistic"
    LEAST_SQUARES = "least-squares"
    SQUARED_HINGE = "squared-hinge"


def fit(
    data: Annotated[Path, typer.Argument(help="CSV or TSV with a header; or .npy, .npz, .svm (libsvm).")],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="What to predict; an index in a matrix.")] = None,
    loss: Annotated[Loss | None, typer.Option(metavar="NAME", help="logistic, least-squares, squared-hinge.")] = None,
    radius: Annotated[float | None, typer.Option(help="The bound on |coef|_1; else cross-validated.")] = None,
    ridge: Annotated[float | None, typer.Option(help="The weight of |coef|_2^2; else cross-validated.")] = None,
    folds: Annotated[int | None, typer.Option(help="Of the cross-validation; by default 5.")] = None,
    no_standardize: Annotated[bool, typer.Option("--no-standardize", help="Take columns as they are.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Without a constant.")] = False,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave out; may be repeated.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="How much each row counts.")] = None,
    tol: Annotated[float, typer.Option(help="The relative gap to certify.")] = 1e-6,
    max_iter: Annotated[int, typer.Option(help="The most iterations of a fit.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the shuffled folds.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path("condgrad-fit"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Fit an elastic net to a table, with a proof of its optimality.

    Minimises loss + ridge |coef|_2^2 subject to |coef|_1 <= radius. The loss is
    chosen by the target: logistic for text and for at most 10 whole numbers,
    least-squares for other numbers. Columns are standardised first: radius and
    ridge are in these units, and coefficients are reported in both.

    Writes model.json, coefficients.csv, certificate.json, path.png, report.txt.
    Ends with 0: certified, 2: bad input, 3: not certified within --max-iter.

    [bold]Examples[/bold]

      condgrad fit patients.csv --target outcome --drop id

      condgrad fit houses.csv --target price --radius 2 --ridge 0.1 --json

      condgrad fit colon.npz --target y --loss squared-hinge --folds 10
    """
    options = _options(radius, ridge, folds, tol, max_iter, not no_standardize, not no_intercept, seed)
    table, content = read_table(data)
    columns = Columns(target, weights, tuple(drop or ()))
    wanted = None if loss is None else str(loss)
    problem = design(table, columns, loss=wanted, standardize=options.standardize, intercept=options.intercept)
    with errors.status(f"fitting {problem.rows} rows, {len(problem.features)} features"):
        fitted = solve(problem, options)
    source = Source(data, content)
    text = report(problem, fitted, options, source)
    facts = certificate(problem, fitted, options, source)
    with staged(out) as folder:
        (folder / "model.json").write_text(to_json(fitted.model), encoding="utf-8")
        (folder / "certificate.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        (folder / "report.txt").write_text(text, encoding="utf-8")
        write_coefficients(folder / "coefficients.csv", fitted)
        draw_path(folder / "path.png", problem, fitted, options)
    if as_json:
        print_json({**facts, "out": str(out)})
    else:
        output.print(
            f"{text}\nWritten to {out}: model.json, coefficients.csv, certificate.json, path.png", markup=False
        )
    if not fitted.certified:
        errors.print(f"condgrad: not certified: {shortfall(fitted)}", markup=False)
        raise typer.Exit(ExitCode.NOT_CONVERGED)


def predict(
    model: Annotated[Path, typer.Argument(help="The model.json of condgrad fit.")],
    data: Annotated[Path, typer.Argument(help="Rows with the columns of the model, by name.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the table goes.")] = Path("predictions.csv"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Predict new rows with a fitted model.

    Columns are matched by name. Others, such as the target, are ignored, and a
    column whose coefficient is 0 may be absent. The table has the prediction, and
    beside it probabilities (logistic) or decision values (squared hinge).

    [bold]Examples[/bold]

      condgrad predict condgrad-fit/model.json new.csv

      condgrad predict condgrad-fit/model.json new.csv --out answers.csv --json
    """
    for given in (model, data):
        if out.exists() and given.exists() and out.samefile(given):
            raise BadInput(f"--out {out} would overwrite the input: give another file")
    if out.is_dir():
        raise BadInput(f"--out {out} is a folder: give a file")
    fitted = from_json(read_bytes(model), source=str(model))
    table, _ = read_table(data)
    columns = _predicted(fitted, table)
    with staged(out.parent) as folder, (folder / out.name).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    summary = _summary(fitted, columns["prediction"])
    if as_json:
        print_json({"rows": table.rows, "target": fitted.target, "predictions": summary, "out": str(out)})
    else:
        said = ", ".join(f"{name} {_short(value)}" for name, value in summary.items())
        output.print(f"{table.rows} rows, {fitted.target!r} predicted: {said}\nWritten to {out}", markup=False)


def _options(
    radius: float | None,
    ridge: float | None,
    folds: int | None,
    tol: float,
    max_iter: int,
    standardize: bool,
    intercept: bool,
    seed: int,
) -> Options:
    """The options of the fit, each in its range."""
    try:
        return Options(
            None if radius is None else _checks.number("--radius", radius, at_least=0.0),
            None if ridge is None else _checks.number("--ridge", ridge, above=0.0),
            None if folds is None else _checks.whole("--folds", folds, at_least=2),
            _checks.number("--tol", tol, at_least=0.0),
            _checks.whole("--max-iter", max_iter, at_least=1),
            standardize,
            intercept,
            _checks.whole("--seed", seed, at_least=0),
        )
    except ValueError as error:
        raise BadInput(str(error)) from error


def _predicted(fitted: Model, table: Table) -> dict[str, Any]:
    """The columns of the table of predictions."""
    with np.errstate(over="ignore", invalid="ignore"):
        X = fitted.matrix_from(table)
        estimator = fitted.estimator()
        try:
            scores = np.asarray(estimator.predict(X) if fitted.kind == SQUARES else estimator.decision_function(X))
        except ValueError as error:
            raise BadInput(f"{table.source} holds numbers too large for the model: check their units") from error
    if not np.isfinite(scores).all():
        raise BadInput(f"{table.source} holds numbers too large for the model: check their units")
    if fitted.kind == SQUARES:
        return {"prediction": scores.tolist()}
    columns = {"prediction": estimator.predict(X).tolist()}
    if fitted.kind == LOGISTIC:
        chances = estimator.predict_proba(X)
        return columns | {f"probability of {label}": chances[:, k].tolist() for k, label in enumerate(fitted.classes)}
    if scores.ndim == 1:
        return columns | {f"decision value of {fitted.classes[1]}": scores.tolist()}
    return columns | {f"decision value of {label}": scores[:, k].tolist() for k, label in enumerate(fitted.classes)}


def _summary(fitted: Model, predictions: list[Any]) -> Mapping[str, Any]:
    if fitted.kind == SQUARES:
        return {"mean": float(np.mean(predictions)), "least": min(predictions), "greatest": max(predictions)}
    return {str(label): predictions.count(label) for label in fitted.classes}


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
