"""`condgrad fit`: a sparse linear model of a table, certified."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas
import typer
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import label_binarize

from condgrad import linear_model
from condgrad.cli import files, fit_report, parts, report
from condgrad.cli.files import DropColumns, Header, IdColumn, Table, read_table
from condgrad.cli.report import BadInput, option, require
from condgrad.cli.training import (
    CLASSIFYING,
    DROP_COLUMNS,
    DROP_ROWS,
    MISSING_RULES,
    NUMBERS,
    ColumnRoles,
    TrainingData,
    training_data,
)
from condgrad.linear_model.base import IMPUTATIONS, checked_offset, deviations, some_features
from condgrad.linear_model.blocks import cross_val_answers, held_out_margins
from condgrad.linear_model.cross_validation import SELECTIONS
from condgrad.linear_model.model_file import FittedModel
from condgrad.linear_model.path import ESTIMATORS
from condgrad.smooth.row_blocks import RowBlocks

FIT_FILES = (
    "model.json",
    "coefficients.csv",
    "certificate.json",
    "path.png",
    "report.txt",
    "cross_validation.csv",
)
CONSTRAINED_ESTIMATORS = {loss: estimator.__name__ for loss, estimator in ESTIMATORS.items()}
PENALISED_ESTIMATORS = {
    "logistic": "LogisticRegression",
    "least-squares": "ElasticNet",
    "squared-hinge": "LinearSVC",
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "huber": "HuberRegressor",
}
"""The estimators of both forms, by loss."""
FORMS = ("radius", "penalty")
DEVIANCES = {"poisson": 1, "gamma": 2}
"""The powers by which scikit-learn knows the losses that are deviances."""
FOLDS = 5
GRID_OF_CS = 25  # from 1e-4 to 1e4, each about twice the one before
SELECTION_RULES = (
    "best: the best score on held-out rows; 1se: the simplest model whose score is within one standard "
    "error of the best."
)


@dataclass(frozen=True)
class FitSettings:
    """What the user asks of the fit; None stands for: choose it, or leave it as it is."""

    form: str | None
    radius: Sequence[float] | None
    ridge: Sequence[float] | None
    alpha: Sequence[float] | None
    C: Sequence[float] | None
    l1_ratio: Sequence[float] | None
    delta: float | None
    grid: int | None
    folds: int | None
    selection: str
    standardize: bool
    intercept: bool
    positive: bool
    multi_class: str | None
    missing: str | None
    tol: float
    max_iter: int
    seed: int


@dataclass(frozen=True)
class Request:
    """The call of an estimator that the settings stand for."""

    estimator: str
    parameters: dict[str, Any]
    chosen: tuple[str, ...]
    """What cross-validation has to choose; nothing where the estimator is no search."""
    given: tuple[str, ...]
    """What of the same kind is given."""

    def made(self, **more: Any) -> Any:
        return getattr(linear_model, self.estimator)(**self.parameters, **more)


def fit(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="CSV, TSV (also .gz), parquet, .npy, .npz or .svm."),
    ],
    target: Annotated[
        str | None, option("COLUMN", "The column to predict: its name, or its number in a matrix.")
    ] = None,
    loss: Annotated[
        str | None,
        option(
            "NAME",
            f"One of {', '.join(PENALISED_ESTIMATORS)}.",
            "by the target",
            among=PENALISED_ESTIMATORS,
        ),
    ] = None,
    impute: Annotated[
        str | None,
        option(
            "RULE", f"What to do with empty cells: {', '.join(MISSING_RULES)}.", among=MISSING_RULES
        ),
    ] = None,
    form: Annotated[
        str | None,
        option(
            "NAME", "radius: bound |coef|_1; penalty: penalise |coef|_1.", "radius", among=FORMS
        ),
    ] = None,
    radius: Annotated[
        str | None, option("R,...", "Bound on |coef|_1.", "cross-validated", numbers_from=0.0)
    ] = None,
    ridge: Annotated[
        str | None, option("W,...", "Weight of |coef|_2^2.", "cross-validated", numbers_from=0.0)
    ] = None,
    alpha: Annotated[
        str | None,
        option(
            "A,...",
            "Strength of the penalty, if the target has numbers.",
            "cross-validated",
            numbers_from=0.0,
        ),
    ] = None,
    strength: Annotated[
        str | None,
        option(
            "C,...",
            "1 / strength of the penalty, if the target has labels.",
            "cross-validated",
            "--C",
            numbers_from=0.0,
        ),
    ] = None,
    l1_ratio: Annotated[
        str | None, option("S,...", "Share of |coef|_1 in the penalty.", "1", numbers_from=0.0)
    ] = None,
    grid: Annotated[
        int | None,
        option(
            "N", "Number of radii or penalties to try.", "50 radii, 100 alphas or 25 Cs", least=1
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option("D", "For --loss huber: the loss of larger residuals is linear.", "1.35", above=0.0),
    ] = None,
    folds: Annotated[
        int | None, option("N", "Folds of the cross-validation.", str(FOLDS), least=2)
    ] = None,
    selection: Annotated[str, option("RULE", SELECTION_RULES, among=SELECTIONS)] = SELECTIONS[0],
    positive: Annotated[
        bool, typer.Option("--positive", help="Allow no negative coefficients.")
    ] = False,
    groups: Annotated[
        Path | None,
        option("FILE", "A table of two columns, feature and group. Whole groups become 0."),
    ] = None,
    unpenalised: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A feature that is always in the model, such as age. Can be repeated.",
        ),
    ] = None,
    multi_class: Annotated[
        str | None,
        option(
            "RULE",
            "ovr: each class against the rest; multinomial: one loss for all.",
            "ovr, or multinomial with a penalty",
            among=("ovr", "multinomial"),
        ),
    ] = None,
    no_standardize: Annotated[
        bool, typer.Option("--no-standardize", help="Do not scale the columns.")
    ] = False,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Fit without an intercept.")
    ] = False,
    drop: DropColumns = None,
    weights: Annotated[
        str | None, option("COLUMN", "The column with the weights of the rows.")
    ] = None,
    offset: Annotated[
        str | None, option("COLUMN", "A column that is added to the score, such as log(exposure).")
    ] = None,
    row_id: IdColumn = None,
    header: Header = None,
    tol: report.Tolerance = 1e-6,
    max_iter: Annotated[
        int, option("N", "Largest number of iterations of a fit.", least=1)
    ] = 10_000,
    seed: Annotated[
        int, option("N", "Seed for the choice of the folds.", least=0, most=2**32 - 1)
    ] = 0,
    scheduler: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Address of a Dask cluster that reads and fits the files of a pattern.",
            "threads of this machine",
        ),
    ] = None,
    out: files.ResultFolder = Path("condgrad-fit"),
    as_json: report.AsJson = False,
) -> None:
    """Fit a sparse linear model to a table, with a proof of its optimality.

    Minimises loss + ridge |coef|_2^2 subject to |coef|_1 <= radius. With --form
    penalty, it minimises the objectives of scikit-learn's ElasticNet and
    LogisticRegression. If you do not give radius or ridge, cross-validation
    chooses them. If you give several values with commas, cross-validation takes
    the best of them. The loss depends on the target: logistic for labels,
    least-squares for numbers. Labels are text, or at most 10 different whole
    numbers with at least two rows each on average. Columns are divided by their
    standard deviations. In cross-validation, each fold computes its own
    deviations and its own values for empty cells. The report ends with the same
    fit in Python.

    A pattern in quotes means many files with the same columns. Dask reads and
    fits them in blocks, here or on a cluster. They need not fit into the memory
    of one machine. There is no path.png for them.

    Writes model.json, coefficients.csv, certificate.json, path.png, report.txt,
    and cross_validation.csv if cross-validation chose something.

    [bold]Examples[/bold]
      condgrad fit patients.csv --target outcome --id patient --impute median
      condgrad fit houses.parquet --target price --radius 2 --ridge 0.1 --json
      condgrad fit colon.npz --target y --loss squared-hinge --folds 10
      condgrad fit claims.csv --target n --loss poisson --offset log_years
      condgrad fit "clicks-*.parquet" --target bought --radius 5 --ridge 1

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits, 130 stopped by Ctrl-C.
    """
    settings = FitSettings(
        form=form,
        radius=report.numbers(radius),
        ridge=report.numbers(ridge),
        alpha=report.numbers(alpha),
        C=report.numbers(strength),
        l1_ratio=report.numbers(l1_ratio),
        delta=delta,
        grid=grid,
        folds=folds,
        selection=selection,
        standardize=not no_standardize,
        intercept=not no_intercept,
        positive=positive,
        multi_class=multi_class,
        missing=impute,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
    )
    roles = ColumnRoles(target, weights, offset, drop or [], groups, unpenalised or [])
    with ExitStack() as stack:
        table = _opened(stack, data, header, row_id, scheduler)
        problem = training_data(table, roles, loss, impute)
        folder = stack.enter_context(files.written_whole(out, FIT_FILES, read=[data]))
        facts, text = _fitted(problem, settings, roles, folder)
        written = [name for name in FIT_FILES if (folder / name).exists()]
    if as_json:
        report.print_json({**facts, "out": str(out)})
    else:
        where = report.wrapped(f"Written to {out}: {', '.join(written)}")
        report.output.print(f"{text}\n{where}", markup=False)
    if not facts["certified"]:
        report.errors.print(
            f"condgrad: {report.not_converged(facts['relative_gap'], tol)}", markup=False
        )
        raise typer.Exit(report.ExitCode.NOT_CONVERGED)


def _opened(
    stack: ExitStack, data: Path, header: bool | None, row_id: str | None, scheduler: str | None
) -> Table:
    """The table of a file, or of all files of a pattern while the stack is open."""
    if parts.is_pattern(data):
        table = parts.opened(data, header=header, row_id=row_id, scheduler=scheduler)
        return stack.enter_context(table)
    require(
        scheduler is None,
        f"--scheduler is for patterns such as 'part-*.parquet', but {data} is one file",
    )
    return read_table(data, header=header, row_id=row_id)


def _fitted(
    problem: TrainingData, settings: FitSettings, roles: ColumnRoles, folder: Path
) -> tuple[dict[str, Any], str]:
    """Fit, write all files, and tell the facts and the report."""
    splitter, folds = _folds(problem, settings)
    request = requested(problem, settings, splitter)
    solved = _solved_fits(problem, settings, request)
    facts = _facts(problem, settings, request, solved, folds)
    facts["python"] = fit_report.python_lines(problem, request, settings.missing, roles.groups)
    text = fit_report.text(problem, settings, request, solved, facts)
    (folder / "model.json").write_text(solved.model.json(), encoding="utf-8")
    (folder / "certificate.json").write_text(report.json_text(facts), encoding="utf-8")
    (folder / "report.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    pandas.concat(solved.coefficients).to_csv(
        folder / "coefficients.csv", index=False, encoding="utf-8"
    )
    if solved.chooser is not None:
        solved.chooser.cv_table().to_csv(folder / "cross_validation.csv", index=False)
    if not isinstance(problem.X, RowBlocks):  # dozens of fits more, each with passes over all files
        fit_report.draw_fits(folder / "path.png", problem, settings.standardize, solved)
    return facts, text


# --- which estimator


def requested(problem: TrainingData, settings: FitSettings, splitter: Any) -> Request:
    """The call that the settings ask for: of a search where something is to be chosen."""
    labels = problem.loss in CLASSIFYING
    penalised = _is_penalised(settings, problem.loss)
    name = (PENALISED_ESTIMATORS if penalised else CONSTRAINED_ESTIMATORS)[problem.loss]
    strength = ("C" if labels else "alpha") if penalised else "radius"
    other = "l1_ratio" if penalised else "ridge"
    _check_form(settings, problem.loss, strength, other)
    tried = {strength: getattr(settings, strength), other: getattr(settings, other)}
    if penalised:
        tried["l1_ratio"] = settings.l1_ratio or (1.0,)
    chosen = tuple(each for each, numbers in tried.items() if numbers is None or len(numbers) > 1)
    if not chosen:
        sizes = {each: numbers[0] for each, numbers in tried.items() if numbers is not None}
        if name == "LinearSVC":
            sizes["penalty"] = "elasticnet"
        return Request(name, sizes | _options(problem, settings), (), tuple(sizes))
    sizes = _grid(tried, settings.grid)
    if settings.selection != SELECTIONS[0]:
        sizes["selection"] = settings.selection
    given = tuple(each for each in tried if each not in chosen)
    return Request(
        f"{name}CV", sizes | _options(problem, settings) | {"cv": splitter}, chosen, given
    )


def _is_penalised(settings: FitSettings, loss: str) -> bool:
    """Whether a penalty is asked for, or implied by its numbers or by the loss."""
    numbers = (settings.alpha, settings.C, settings.l1_ratio)
    implied = loss not in CONSTRAINED_ESTIMATORS or any(each is not None for each in numbers)
    require(
        settings.form != "radius" or loss in CONSTRAINED_ESTIMATORS,
        f"--form radius is for {', '.join(CONSTRAINED_ESTIMATORS)}; --loss {loss} has a penalty",
    )
    return settings.form == "penalty" or (settings.form is None and implied)


def _check_form(settings: FitSettings, loss: str, strength: str, other: str) -> None:
    """A sentence where numbers of the other form are given."""
    for name in ("radius", "ridge", "alpha", "C", "l1_ratio"):
        numbers = getattr(settings, name)
        flag = f"--{name.replace('_', '-')}"
        fits = numbers is None or name in (strength, other)
        wanted = f"--{strength} and --{other.replace('_', '-')} are the options for --loss {loss} in this form"
        require(fits, f"{flag} does not go with this fit: {wanted}")
        if numbers is not None and name in ("alpha", "C"):
            require(min(numbers) > 0.0, f"{flag} must be above 0, got {min(numbers):g}")
        if numbers is not None and name == "l1_ratio":
            require(max(numbers) <= 1.0, f"{flag} must be from 0 to 1, got {max(numbers):g}")


def _grid(tried: dict[str, Sequence[float] | None], grid: int | None) -> dict[str, Any]:
    """The parameters of a search that say what it tries."""
    strength, numbers = next(iter(tried.items()))
    values: Any = grid if numbers is None else list(numbers)
    if strength == "radius":
        ridges = tried["ridge"]
        named = {"n_radii" if numbers is None else "radii": values}
        named["ridges"] = None if ridges is None else list(ridges)
    else:
        ratios = list(tried["l1_ratio"] or ())
        if strength == "C" and values is None:
            values = GRID_OF_CS
        named = {f"{strength}s": values}
        named["l1_ratios" if strength == "C" else "l1_ratio"] = ratios
        if strength == "alpha" and len(ratios) == 1:
            named["l1_ratio"] = ratios[0]
    return {name: value for name, value in named.items() if value is not None}


def _options(problem: TrainingData, settings: FitSettings) -> dict[str, Any]:
    """What all forms share, where it is not as the estimators have it by default."""
    labels = problem.loss in CLASSIFYING
    require(
        settings.multi_class is None or problem.loss == "logistic",
        f"--multi-class {settings.multi_class} is for --loss logistic, not for {problem.loss}",
    )
    require(
        settings.delta is None or problem.loss == "huber",
        f"--delta is for --loss huber, not for {problem.loss}",
    )
    require(
        problem.groups is None or not _is_penalised(settings, problem.loss),
        "--groups works with --form radius only, not with a penalty",
    )
    require(
        problem.offset is None or not labels or len(np.unique(problem.y)) == 2,
        "--offset works for numbers or two classes only",
    )
    options = {
        "fit_intercept": None if settings.intercept else False,
        "standardize": settings.standardize or None,
        "impute": settings.missing if settings.missing in IMPUTATIONS else None,
        "positive": settings.positive or None,
        "groups": problem.groups,
        "penalty_factors": _penalty_factors(problem),
        "multi_class": settings.multi_class,
        "delta": settings.delta,
        "tol": None if settings.tol == 1e-6 else settings.tol,
        "max_iter": None if settings.max_iter == 10_000 else settings.max_iter,
    }
    return {name: value for name, value in options.items() if value is not None}


def _penalty_factors(problem: TrainingData) -> list[float] | None:
    """0 for features without a penalty, 1 for all others; None where there are none of the first."""
    if not problem.unpenalised:
        return None
    return [0.0 if name in problem.unpenalised else 1.0 for name in problem.features]


def _folds(problem: TrainingData, settings: FitSettings) -> tuple[Any, list[tuple[Any, Any]]]:
    """How rows go to folds, and the folds; none where there are too few rows and none are needed."""
    labels = problem.loss in CLASSIFYING
    smallest = len(problem.y)
    whose = "the data have"
    if labels:
        classes, counts = np.unique(problem.y, return_counts=True)
        smallest = int(counts.min())
        whose = f"class {classes[counts.argmin()].item()!r} has"
    number = settings.folds or min(FOLDS, smallest)
    chosen = requested(problem, settings, None).chosen
    # each fold takes passes over all files
    unasked = isinstance(problem.X, RowBlocks) and settings.folds is None
    if (number < 2 or unasked) and not chosen:
        return None, []
    remedy = (
        f"take at most {smallest} folds"
        if smallest > 1
        else "leave its rows out, or give --radius and --ridge"
    )
    if labels and classes.dtype.kind in "iuf" and len(classes) > 2:
        remedy += f"; if {problem.target!r} holds amounts rather than labels, say --loss {NUMBERS}"
    too_few = (
        f"{whose} {report.counted(smallest, 'row')}, too few for {max(number, 2)} folds: {remedy}"
    )
    require(2 <= number <= smallest, too_few)
    kind = StratifiedKFold if labels else KFold
    splitter = kind(number, shuffle=True, random_state=settings.seed)
    return splitter, list(splitter.split(np.zeros(len(problem.y)), problem.y))


# --- the fit, and the proof


@dataclass(frozen=True, eq=False)
class SolvedFits:
    """A fitted estimator, what has chosen for it if anything has, and the model for the file."""

    estimator: Any
    chooser: Any
    model: FittedModel
    tasks: list[Any]
    """The problems that were solved, with their units."""
    certified: bool
    short_trials: bool
    units: Any
    """The deviations of the features, where coefficients count in them."""

    @property
    def coefficients(self) -> list[Any]:
        """For each row of coefficients a DataFrame: the intercept, then coefficients by falling
        size when standardised.
        """
        blocks = []
        for k, coef in enumerate(np.array(self.model.coef)):
            order = np.argsort(-np.abs(coef * self.units), kind="stable")
            columns = {
                "feature": ["(intercept)", *(self.model.features[j] for j in order)],
                "coefficient": [self.model.intercept[k], *coef[order]],
                "standardised_coefficient": [np.nan, *(coef * self.units)[order]],
            }
            several = {"class": self.model.classes[k]} if len(self.model.coef) > 1 else {}
            blocks.append(pandas.DataFrame({**several, **columns}))
        return blocks


def _solved_fits(problem: TrainingData, settings: FitSettings, request: Request) -> SolvedFits:
    """Choose what is not given, and fit all rows."""
    table = problem.table
    own = {"sample_weight": problem.weights, "offset": problem.offset}
    loud = {"verbose": report.errors.is_terminal}
    named = {
        "naming": table.naming,
        "features": problem.features,
        "target": problem.target,
        "row_id": table.frame.index.name,
        "offset": problem.names.get("offset"),
        # columns that were whole in this table may have holes in the next: nothing fills them
        "drops_rows": settings.missing in (DROP_ROWS, DROP_COLUMNS),
    }
    chooser = None
    with _sentences() as short_trials:
        estimator = request.made(**loud)
        if request.chosen:
            chooser = request.made(**loud).fit(problem.X, problem.y, **own)
            estimator = FittedModel.of(chooser, **named).unfitted()
    with _sentences() as short:
        estimator.fit(problem.X, problem.y, **own)
        shell = copy(estimator)
        X, y, weights = shell._data(problem.X, problem.y, problem.weights)
        tasks = shell._tasks(X, y, weights, checked_offset(problem.offset, X))
    model = FittedModel.of(estimator, **named)
    units = _units(tasks[0], X, weights, standardize=settings.standardize)
    return SolvedFits(estimator, chooser, model, tasks, not short, bool(short_trials), units)


def _units(task: Any, X: Any, weights: Any, *, standardize: bool) -> Any:
    """The deviations of the features, those without a penalty among them; 1 without standardising."""
    units = np.ones(X.shape[1])
    if not standardize:
        return units
    if task.is_free is None:
        return task.units
    units[~task.is_free] = task.units
    units[task.is_free] = deviations(some_features(X, task.is_free), weights)
    return units


@contextmanager
def _sentences() -> Iterator[list[Any]]:
    """Unfinished fits are listed instead of warned of; what an estimator refuses is the user's to
    mend.
    """
    with warnings.catch_warnings(record=True) as short:
        # many classes in few rows are the user's choice
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield short
        except np.linalg.LinAlgError as error:
            raise BadInput(
                "the sizes of the columns are too different: standardise them, or give a larger --ridge"
            ) from error
        except ValueError as error:
            raise BadInput(report.first_line(error)) from error


def _facts(
    problem: TrainingData,
    settings: FitSettings,
    request: Request,
    solved: SolvedFits,
    folds: Sequence[Any],
) -> dict[str, Any]:
    """What certificate.json says."""
    proofs = _proofs(solved)
    parameters = solved.model.unfitted().get_params()
    sizes: dict[str, float] = {
        name: parameters[name]
        for name in ("radius", "ridge", "alpha", "C", "l1_ratio")
        if name in (*request.chosen, *request.given)
    }
    chooser = solved.chooser
    return {
        "certified": solved.certified,
        "statement": "the minimum of the objective lies between lower_bound and value",
        "problems": proofs,
        "relative_gap": max(proof["relative_gap"] for proof in proofs),
        **sizes,
        "loss": problem.loss,
        "target": problem.target,
        "chosen_by": None if chooser is None else fit_report.CRITERIA[chooser.default_scoring],
        "chosen_at_the_end": fit_report.chosen_at_the_end(chooser, request),
        "folds": len(folds),
        "unfinished_trials": solved.short_trials,
        **_scored(problem, solved, folds),
        "settings": asdict(settings),
        "data": {**problem.table.facts, "rows": len(problem.y), "features": len(problem.features)},
        "notes": problem.notes,
        "versions": report.versions(),
    }


def _proofs(solved: SolvedFits) -> list[dict[str, Any]]:
    """One for each problem that was solved: for each class against the rest, or the second of two."""
    estimator = solved.estimator
    names = {
        "value": "objective_",
        "gap": "dual_gap_",
        "relative_gap": "relative_gap_",
        "multiplier": "multiplier_",
        "radius": "radius_",
        "iterations": "n_iter_",
    }
    told = {name: np.atleast_1d(getattr(estimator, own)) for name, own in names.items()}
    told["radius"] = np.resize(told["radius"], len(told["value"]))
    proofs = pandas.DataFrame(told)
    proofs["lower_bound"] = proofs["value"] - proofs["gap"]
    # in the 2-norm, by strong convexity in units of the sum over the rows; a ridge of 0 has none
    gaps = proofs["gap"].clip(lower=0.0) / [estimator._factor(task) for task in solved.tasks]
    with np.errstate(divide="ignore", invalid="ignore"):
        proofs["standardised_coefficients_within"] = np.sqrt(gaps / fit_report.ridge_of(estimator))
    labels = getattr(estimator, "classes_", np.array([None]))[-len(proofs) :].tolist()
    if len(proofs) < len(solved.model.coef):
        labels = [None]  # one problem has all classes
    return [
        {"class": label, **proof}
        for label, proof in zip(labels, proofs.to_dict("records"), strict=True)
    ]


def _scored(problem: TrainingData, solved: SolvedFits, folds: Sequence[Any]) -> dict[str, Any]:
    """How well the model does on the rows fitted, and models like it on rows that they did not see."""
    y = problem.y
    weights = problem.weights
    estimator = solved.estimator
    labels = problem.loss in CLASSIFYING
    nothing = np.zeros((len(y), 1))  # a baseline sees no features
    score: Any = accuracy_score if labels else r2_score
    measure = "accuracy" if labels else "R2"
    if problem.loss in DEVIANCES:
        score = partial(d2_tweedie_score, power=DEVIANCES[problem.loss])
        measure = "D2"
    majority = None
    if labels:
        majority = float(DummyClassifier().fit(nothing, y, weights).score(nothing, y, weights))
    scores: dict[str, Any] = {
        "measure": measure,
        "training_score": float(
            score(y, _fitted_answers(problem, estimator), sample_weight=weights)
        ),
        "cross_validated_score": None,
        "cross_validated_auc": None,
        "majority_share": majority,
    }
    if not folds:
        return scores
    method = "decision_function" if labels else "predict"
    if labels and len(estimator.classes_) > 2 and hasattr(estimator, "predict_proba"):
        method = "predict_proba"  # which rank rows across classes, as `predict` writes them
    with _sentences():
        held_out = _held_out(problem, solved.model.unfitted(), folds, method)
    if labels:
        truth = np.squeeze(label_binarize(y, classes=estimator.classes_))
        scores["cross_validated_auc"] = float(roc_auc_score(truth, held_out, sample_weight=weights))
        best = held_out.argmax(axis=1) if held_out.ndim == 2 else (held_out > 0).astype(int)
        held_out = estimator.classes_[best]
    scores["cross_validated_score"] = float(score(y, held_out, sample_weight=weights))
    return scores


def _fitted_answers(problem: TrainingData, estimator: Any) -> Any:
    """What an estimator predicts of the rows that it was fitted to."""
    X = problem.X
    if isinstance(X, RowBlocks):
        estimator, X = next(held_out_margins([estimator], X, np.arange(X.shape[0])))
    return estimator.predict(X, offset=problem.offset)


def _held_out(problem: TrainingData, trial: Any, folds: Sequence[Any], method: str) -> Any:
    """What models say of the rows that they did not see."""
    X = problem.X
    if isinstance(X, RowBlocks):
        return cross_val_answers(trial, X, problem.y, problem.weights, folds, method)
    rows = X.iloc if isinstance(X, pandas.DataFrame) else X
    answers: Any = None
    for train, test in folds:
        some = {
            name: None if column is None else column[train]
            for name, column in (("sample_weight", problem.weights), ("offset", problem.offset))
        }
        model = clone(trial).fit(rows[train], problem.y[train], **some)
        offset = None if problem.offset is None else problem.offset[test]
        answer = getattr(model, method)(rows[test], offset=offset)
        if answers is None:
            answers = np.empty((len(problem.y), *answer.shape[1:]), answer.dtype)
        answers[test] = answer
    return answers
