"""`condgrad fit` and `condgrad predict`: the l1-constrained elastic net of a table, and what it says of new rows."""

from __future__ import annotations

import csv
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from condgrad import _checks
from condgrad.cli.files import read_bytes
from condgrad.cli.fit_design import Columns, design
from condgrad.cli.fit_matrices import read_table
from condgrad.cli.fit_picture import draw_path
from condgrad.cli.fit_report import Source, certificate, report, shortfall, write_coefficients
from condgrad.cli.fit_solve import FOLDS, Options, solve
from condgrad.cli.model_file import LOGISTIC, SQUARES, Model, from_json, to_json
from condgrad.cli.outcome import BadInput, ExitCode, errors, output, print_json
from condgrad.cli.signals import ended_by
from condgrad.cli.staging import check_new_file, staged
from condgrad.cli.tables import Table
from condgrad.paper.whole_files import json_text

PRODUCTS = ("model.json", "coefficients.csv", "certificate.json", "path.png", "report.txt")
LARGEST_SEED = 2**32 - 1
"""The largest that scikit-learn shuffles with."""


class Loss(StrEnum):
    """The losses by their names on the command line."""

    LOGISTIC = "logistic"
    LEAST_SQUARES = "least-squares"
    SQUARED_HINGE = "squared-hinge"


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or TSV with a header; or .npy, .npz, .svm (libsvm).")
    ],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="What to predict; an index in a matrix.")] = None,
    loss: Annotated[
        Loss | None, typer.Option(metavar="NAME", help=f"One of {', '.join(Loss)}.", show_default="by the target")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(metavar="R", help="Bound on |coef|_1.", show_default="cross-validated")
    ] = None,
    ridge: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of |coef|_2^2.", show_default="cross-validated")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="N", help="Folds of the cross-validation.", show_default=str(FOLDS))
    ] = None,
    no_standardize: Annotated[bool, typer.Option("--no-standardize", help="Take columns as they are.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Without a constant.")] = False,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave out; may be repeated.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="How much each row counts.")] = None,
    tol: Annotated[float, typer.Option(metavar="GAP", help="Relative certified gap to reach.")] = 1e-6,
    max_iter: Annotated[int, typer.Option(metavar="N", help="The most iterations of a fit.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Which rows go to which fold.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("condgrad-fit"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Fit an elastic net to a table, with a proof of its optimality.

    Minimises loss + ridge |coef|_2^2 subject to |coef|_1 <= radius. The loss is
    chosen by the target: logistic for labels, that is text, or at most 10
    different whole numbers with two rows each on average; least-squares for other
    numbers. Columns are standardised first: radius and ridge are in these units,
    and coefficients are reported in both.

    Writes model.json, coefficients.csv, certificate.json, path.png, report.txt.

    [bold]Examples[/bold]
      condgrad fit patients.csv --target outcome --drop id
      condgrad fit houses.csv --target price --radius 2 --ridge 0.1 --json
      condgrad fit colon.npz --target y --loss squared-hinge --folds 10

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    options = _options(radius, ridge, folds, tol, max_iter, not no_standardize, not no_intercept, seed)
    table, content = read_table(data)
    columns = Columns(target, weights, tuple(drop or ()))
    wanted = None if loss is None else str(loss)
    problem = design(table, columns, loss=wanted, standardize=options.standardize, intercept=options.intercept)
    source = Source(data, content)
    for name in PRODUCTS:
        check_new_file(out / name, data)
    with staged(out) as folder:
        # a cross-validation whose fits were cut short would choose by chance
        with ended_by(signal.SIGINT), errors.status(f"fitting {problem.rows} rows, {len(problem.features)} features"):
            fitted = solve(problem, options)
        text = report(problem, fitted, options, source)
        facts = certificate(problem, fitted, options, source)
        (folder / "model.json").write_text(to_json(fitted.model), encoding="utf-8")
        (folder / "certificate.json").write_text(json_text(facts), encoding="utf-8")
        (folder / "report.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        write_coefficients(folder / "coefficients.csv", fitted)
        draw_path(folder / "path.png", problem, fitted, options)
    if as_json:
        print_json({**facts, "out": str(out)})
    else:
        output.print(f"{text}\nWritten to {out}: {', '.join(PRODUCTS)}", markup=False)
    if not fitted.certified:
        errors.print(f"condgrad: {shortfall(fitted)}", markup=False)
        raise typer.Exit(ExitCode.NOT_CONVERGED)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.json of condgrad fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with the columns of the model.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write.")] = Path("predictions.csv"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Predict new rows with a fitted model.

    Columns are matched by name, or by place between NPY, NPZ and libsvm files: a
    column 0 of a matrix is index 1 of a libsvm file, unless that file has an
    index 0. Others, such as the target, are ignored, and a column whose
    coefficient is 0 may be absent. The table has the prediction, and beside it
    probabilities (logistic) or decision values (squared hinge).

    [bold]Examples[/bold]
      condgrad predict condgrad-fit/model.json new.csv
      condgrad predict condgrad-fit/model.json new.csv --out answers.csv --json

    Exit codes: 0 done, 2 bad input.
    """
    check_new_file(out, model, data)
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
    if seed > LARGEST_SEED:
        raise BadInput(f"--seed must be <= {LARGEST_SEED}, got {seed}")
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
