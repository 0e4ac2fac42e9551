"""`condgrad fit`: the l1-constrained elastic net of a table, certified."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import jinja2
import numpy as np
import pandas
import typer
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler, label_binarize

from condgrad import linear_model, pictures
from condgrad.cli import files, parts, report
from condgrad.cli.files import DropColumns, Header, IdColumn, Table, is_missing, read_table
from condgrad.cli.report import BadInput, option, require, shortened
from condgrad.errors import listed
from condgrad.linear_model.blocks import cross_val_answers, held_out_margins
from condgrad.linear_model.cross_validation import SELECTIONS
from condgrad.linear_model.model_file import FittedModel, classifies
from condgrad.linear_model.path import ESTIMATORS
from condgrad.smooth.row_blocks import RowBlocks

PRODUCTS = (
    "model.json",
    "coefficients.csv",
    "certificate.json",
    "path.png",
    "report.txt",
    "cross_validation.csv",
)
CHOOSERS = {
    loss: getattr(linear_model, f"{estimator.__name__}CV") for loss, estimator in ESTIMATORS.items()
}
"""The estimators that choose radius and ridge by cross-validation, by loss."""

# the losses for targets of labels and of numbers, unless asked for
LABELS = "logistic"
NUMBERS = "least-squares"
CRITERIA = {
    "neg_mean_squared_error": "squared error",
    "neg_log_loss": "log loss",
    "accuracy": "accuracy",
}
"""By what radius and ridge are chosen, in the words of scikit-learn and in plain ones."""

FOLDS = 5
SELECTION_RULES = (
    "The radius of the best score, or 1se: the smallest within a standard error of it."
)
# beyond these the squares of numbers leave the range of floats
SMALLEST = 1e-100
LARGEST = 1e100
CONSTANT = 1e-12  # a column whose spread is below this share of its size differs by rounding alone
# whole numbers with at most so many values are taken for labels, unless --loss says otherwise
MOST_COUNTED = 10
COEFFICIENTS_SHOWN = (
    10  # or half as many for each of several classes; one more is shown rather than counted
)
POINTS_DRAWN = 37
DRAWING_TOL = 1e-6
MOST_PANELS = 6
BEYOND = 1.5  # how far the picture goes past the chosen radius, which is one of its points


@dataclass(frozen=True)
class FitSettings:
    """What the user asks of the fit; None stands for: choose it."""

    radius: float | None
    ridge: float | None
    folds: int | None
    selection: str
    tol: float
    max_iter: int
    standardize: bool
    intercept: bool
    seed: int

    @property
    def chosen(self) -> list[str]:
        """What cross-validation has to choose."""
        return [name for name in ("radius", "ridge") if getattr(self, name) is None]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows, standardised columns and a target, ready for an estimator."""

    settings: FitSettings
    table: Table
    loss: str
    target: str
    features: tuple[str, ...]
    X: Any
    """(x - center) / scale, dense or CSR; 0 in columns that are constant."""
    y: Any
    weights: Any  # one for each row, all above 0; None where all are 1
    center: Any
    scale: Any
    constant: int  # how many columns do not vary


def fit(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="CSV, TSV (.gz too), parquet, .npy, .npz or .svm."),
    ],
    target: Annotated[
        str | None, option("COLUMN", "What to predict; an index in a matrix.")
    ] = None,
    loss: Annotated[
        str | None,
        option("NAME", f"One of {', '.join(ESTIMATORS)}.", "by the target", among=ESTIMATORS),
    ] = None,
    radius: Annotated[
        float | None, option("R", "Bound on |coef|_1.", "cross-validated", at_least=0.0)
    ] = None,
    ridge: Annotated[
        float | None, option("W", "Weight of |coef|_2^2.", "cross-validated", at_least=0.0)
    ] = None,
    folds: Annotated[
        int | None, option("N", "Folds of the cross-validation.", str(FOLDS), least=2)
    ] = None,
    selection: Annotated[str, option("RULE", SELECTION_RULES, among=SELECTIONS)] = SELECTIONS[0],
    no_standardize: Annotated[
        bool, typer.Option("--no-standardize", help="Take columns as they are.")
    ] = False,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Without a constant.")
    ] = False,
    drop: DropColumns = None,
    weights: Annotated[str | None, option("COLUMN", "How much each row counts.")] = None,
    row_id: IdColumn = None,
    header: Header = None,
    tol: report.Tolerance = 1e-6,
    max_iter: Annotated[int, option("N", "The most iterations of a fit.", least=1)] = 10_000,
    seed: Annotated[int, option("N", "Which rows go to which fold.", least=0, most=2**32 - 1)] = 0,
    scheduler: Annotated[
        str | None,
        option(
            "ADDRESS", "The Dask cluster that reads and fits a pattern.", "threads of this machine"
        ),
    ] = None,
    out: files.ResultFolder = Path("condgrad-fit"),
    as_json: report.AsJson = False,
) -> None:
    """Fit an elastic net to a table, with a proof of its optimality.

    Minimises loss + ridge |coef|_2^2 subject to |coef|_1 <= radius. The loss is
    chosen by the target: logistic for labels, that is text, or at most 10
    different whole numbers with two rows each on average; least-squares for other
    numbers. Columns are standardised first: radius and ridge are in these units,
    and coefficients are reported in both.

    A pattern in quotes stands for many files of the same columns. They are read
    and fitted in blocks by Dask, here or on a cluster, and need not fit in the
    memory of one machine; there is no path.png of them.

    Writes model.json, coefficients.csv, certificate.json, path.png, report.txt,
    and cross_validation.csv where it has chosen radius or ridge.

    [bold]Examples[/bold]
      condgrad fit patients.csv --target outcome --id patient --drop hospital
      condgrad fit houses.parquet --target price --radius 2 --ridge 0.1 --json
      condgrad fit colon.npz --target y --loss squared-hinge --folds 10
      condgrad fit "clicks-*.parquet" --target bought --radius 5 --ridge 1

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    settings = FitSettings(
        radius, ridge, folds, selection, tol, max_iter, not no_standardize, not no_intercept, seed
    )
    with ExitStack() as stack:
        if parts.is_pattern(data):
            found = parts.opened(data, header=header, row_id=row_id, scheduler=scheduler)
            table: Table = stack.enter_context(found)
        else:
            require(
                scheduler is None,
                f"--scheduler is for patterns such as 'part-*.parquet', and {data} is one file",
            )
            table = read_table(data, header=header, row_id=row_id)
        problem = _training_data(table, settings, target, weights, drop or [], loss)
        folder = stack.enter_context(files.written_whole(out, PRODUCTS, read=[data]))
        model, facts, chooser = _solved(problem)
        text = _report(problem, model, facts)
        (folder / "model.json").write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / "certificate.json").write_text(report.json_text(facts), encoding="utf-8")
        (folder / "report.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        pandas.concat(model.coefficients()).to_csv(
            folder / "coefficients.csv", index=False, encoding="utf-8"
        )
        if chooser is not None:
            chooser.cv_table().to_csv(folder / "cross_validation.csv", index=False)
        if not isinstance(
            problem.X, RowBlocks
        ):  # dozens of fits more, each with passes over all files
            draw_path(folder / "path.png", problem, model, chooser)
        written = [name for name in PRODUCTS if (folder / name).exists()]
    if as_json:
        report.print_json({**facts, "out": str(out)})
    else:
        where = report.folded(f"Written to {out}: {', '.join(written)}")
        report.output.print(f"{text}\n{where}", markup=False)
    if not facts["certified"]:
        report.errors.print(
            f"condgrad: {report.not_converged(facts['relative_gap'], tol)}", markup=False
        )
        raise typer.Exit(report.ExitCode.NOT_CONVERGED)


# --- from a table to a problem: which columns, which loss, in which units


def _training_data(
    table: Table,
    settings: FitSettings,
    target: str | None,
    weights: str | None,
    drop: Sequence[str],
    loss: str | None,
) -> TrainingData:
    """The problem that a table and the user's choices define, or a sentence on what is wrong with
    them.
    """
    known = target is not None or len(table.apart) == 1
    require(
        known, f"give --target COLUMN; {table.source} has {listed([*table.apart, *table.names])}"
    )
    target = table.resolve(table.apart[0] if target is None else target, option="--target")
    left_out = {table.resolve(name, option="--drop") for name in drop}
    require(target not in left_out, f"--drop {target}: this column is the target")
    left_out.add(target)
    if weights is not None:
        weights = table.resolve(weights, option="--weights")
        require(weights != target, f"--weights {weights}: this column is the target")
        left_out.add(weights)
    features = tuple(name for name in table.names if name not in left_out)
    table = table.holding([target] if weights is None else [target, weights], features)
    kept = np.arange(table.rows)
    row_weights = None
    if weights is not None:
        row_weights = _row_weights(table, weights)
        kept = np.flatnonzero(row_weights)  # a row of weight 0 counts as none
    require(
        len(kept) >= 2, f"{table.source} has too few rows, {len(kept)}: a fit needs two or more"
    )
    require(bool(features), f"{table.source} has no column beside the target: a fit needs features")
    X = table.features(features)
    if isinstance(X, RowBlocks):
        return _training_blocks(table, settings, loss, target, features, X, row_weights)
    loss, y = _target(table, target, loss, kept)
    X = X[kept]
    row_weights = None if row_weights is None else row_weights[kept]
    mean, spread, constant = _moments(table, features, X, row_weights, centered=settings.intercept)
    scale = np.where(constant | (not settings.standardize), 1.0, spread)
    varies = np.where(constant, 0.0, 1.0)
    if sparse.issparse(X):  # it would not stay sparse; the intercept makes up for any center
        mean = 0.0 * mean
        X = (X @ sparse.diags(varies / scale)).tocsr()
    else:
        X = (X - mean) / scale * varies
    return TrainingData(
        settings, table, loss, target, features, X, y, row_weights, mean, scale, int(constant.sum())
    )


def _training_blocks(
    table: Table,
    settings: FitSettings,
    loss: str | None,
    target: str,
    features: tuple[str, ...],
    X: RowBlocks,
    weights: Any,
) -> TrainingData:
    """The problem of blocks: the same but for centers of 0, for which the intercept makes up; rows
    of weight 0 stay.
    """
    loss, y = _target(table, target, loss, np.arange(table.rows))
    mean, spread, sizes = X.means_deviations_and_sizes(weights)
    if not settings.intercept:
        spread = np.hypot(mean, spread)
    _check_sizes(table, features, sizes)
    constant = spread <= CONSTANT * sizes
    scale = np.where(constant | (not settings.standardize), 1.0, spread)
    X = X.in_units(np.where(constant, np.inf, scale))
    return TrainingData(
        settings, table, loss, target, features, X, y, weights, 0.0 * mean, scale, int(constant.sum())
    )  # fmt: skip


def _row_weights(table: Table, name: str) -> Any:
    weights = table.column(name)
    require(
        not isinstance(weights, list),
        f"--weights {name}: this column holds text, and weights are numbers >= 0",
    )
    for row in np.flatnonzero(~((weights >= 0.0) & (weights <= LARGEST)))[:1]:
        place = f"{table.source}, {table.where(row)} holds {weights[row]}"
        raise BadInput(f"--weights {name}: {place}; weights are finite numbers >= 0")
    return weights


def _target(table: Table, name: str, loss: str | None, kept: Any) -> tuple[str, Any]:
    """The loss, and the target as an estimator takes it."""
    cells = table.column(name)
    text = isinstance(cells, list)
    y = np.array(cells)[kept]
    for row in kept[[is_missing(str(cell)) for cell in y] if text else ~np.isfinite(y)][:1]:
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
    if classifies(loss):
        return loss, y.astype(np.int64) if whole else y
    require(
        not text,
        f"--loss {loss}: the target {name!r} holds text, such as {cells[0]!r}; it needs numbers",
    )
    _moments(table, [name], y[:, None], None, centered=True)
    return loss, y


def _moments(
    table: Table, names: Sequence[str], X: Any, weights: Any, *, centered: bool
) -> tuple[Any, Any, Any]:
    """Weighted means, spreads about them (or about 0), and which columns do not vary; all squares
    must be floats.
    """
    sizes = abs(X).max(axis=0)
    sizes = np.ravel(sizes.toarray() if sparse.issparse(sizes) else sizes)
    _check_sizes(table, names, sizes)
    scaler = StandardScaler(with_mean=not sparse.issparse(X)).fit(X, sample_weight=weights)
    mean = scaler.mean_
    spread = np.sqrt(scaler.var_)
    if not centered:
        mean, spread = np.zeros_like(mean), np.hypot(mean, spread)
    return mean, spread, spread <= CONSTANT * sizes


def _check_sizes(table: Table, names: Sequence[str], sizes: Any) -> None:
    """A sentence on the first column whose squares are no floats."""
    for j in np.flatnonzero((sizes > LARGEST) | ((sizes < SMALLEST) & (sizes > 0.0)))[:1]:
        allowed = f"sizes between {SMALLEST:g} and {LARGEST:g} are allowed"
        advice = "choose another unit, or leave the column out with --drop"
        raise BadInput(
            f"{table.source}: column {names[j]!r} reaches {sizes[j]:g}; {allowed}: {advice}"
        )


# --- the fit: radius and ridge chosen by cross-validation where they are not given, and the proof


def _solved(problem: TrainingData) -> tuple[FittedModel, dict[str, Any], Any]:
    """Choose what is not given, fit all rows, and score: the model, its certificate, and what has
    chosen, if any.
    """
    settings = problem.settings
    table = problem.table
    folds = _folds(problem)
    with _sentences() as short_trials:
        chooser = _chooser(problem, folds)
    radius = settings.radius if chooser is None else chooser.radius_
    ridge = settings.ridge if chooser is None else chooser.ridge_
    own = {
        "radius": radius,
        "ridge": ridge,
        "fit_intercept": settings.intercept,
        "max_iter": settings.max_iter,
    }
    estimator = ESTIMATORS[problem.loss](tol=settings.tol, verbose=report.errors.is_terminal, **own)
    with _sentences() as short:
        estimator.fit(problem.X, problem.y, sample_weight=problem.weights)
    trial = ESTIMATORS[problem.loss](tol=settings.tol, **own)
    proofs = _proofs(estimator)
    facts = {
        "certified": not short,
        "statement": "the least objective lies between lower_bound and value",
        "problems": proofs,
        "relative_gap": max(proof["relative_gap"] for proof in proofs),
        "radius": radius,
        "ridge": ridge,
        "loss": problem.loss,
        "target": problem.target,
        "chosen_by": None if chooser is None else CRITERIA[chooser.default_scoring],
        "radius_is_the_largest_tried": "radius" in settings.chosen and radius == chooser.radii_[-1],
        "folds": len(folds),
        "unfinished_trials": bool(short_trials),
        **_scored(problem, estimator, trial, folds),
        "settings": asdict(settings),
        "data": {**table.facts, "rows": len(problem.y), "features": len(problem.features)},
        "versions": report.versions(),
    }
    model = FittedModel.of(
        estimator, kind=problem.loss, target=problem.target, naming=table.naming, features=problem.features,
        center=problem.center, scale=problem.scale, row_id=table.frame.index.name,
    )  # fmt: skip
    return model, facts, chooser


@contextmanager
def _sentences() -> Iterator[list[Any]]:
    """Unfinished fits are listed instead of warned of; what an estimator refuses is the user's to
    mend.
    """
    with warnings.catch_warnings(record=True) as short:
        warnings.simplefilter(
            "ignore", UserWarning
        )  # many classes in few rows are the user's choice
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield short
        except np.linalg.LinAlgError as error:
            raise BadInput(
                "columns of such different sizes cannot be solved: standardise, or raise --ridge"
            ) from error
        except ValueError as error:
            raise BadInput(report.first_line(error)) from error


def _folds(problem: TrainingData) -> list[tuple[Any, Any]]:
    """Rows to fit and rows to score; none where there are too few rows and none are needed."""
    settings = problem.settings
    smallest = len(problem.y)
    whose = "the data have"
    splitter = KFold
    if classifies(problem.loss):
        labels, counts = np.unique(problem.y, return_counts=True)
        smallest = int(counts.min())
        whose = f"class {labels[counts.argmin()].item()!r} has"
        splitter = StratifiedKFold
    number = settings.folds or min(FOLDS, smallest)
    unasked = (
        isinstance(problem.X, RowBlocks) and settings.folds is None
    )  # each fold takes passes over all files
    if (number < 2 or unasked) and not settings.chosen:
        return []
    remedy = (
        f"take at most {smallest} folds"
        if smallest > 1
        else "leave its rows out, or give --radius and --ridge"
    )
    if classifies(problem.loss) and labels.dtype.kind in "iuf" and len(labels) > 2:
        remedy += f"; if {problem.target!r} holds amounts rather than labels, say --loss {NUMBERS}"
    too_few = (
        f"{whose} {report.counted(smallest, 'row')}, too few for {max(number, 2)} folds: {remedy}"
    )
    require(2 <= number <= smallest, too_few)
    return list(
        splitter(number, shuffle=True, random_state=settings.seed).split(
            np.zeros(len(problem.y)), problem.y
        )
    )


def _chooser(problem: TrainingData, folds: Sequence[Any]) -> Any:
    """An estimator that has chosen what the user leaves open; None where that is nothing."""
    settings = problem.settings
    if not settings.chosen:
        return None
    radii = None if settings.radius is None else [settings.radius]
    ridges = None if settings.ridge is None else [settings.ridge]
    return CHOOSERS[problem.loss](
        radii=radii, ridges=ridges, selection=settings.selection, fit_intercept=settings.intercept, cv=folds,
        tol=settings.tol, max_iter=settings.max_iter, verbose=report.errors.is_terminal,
    ).fit(problem.X, problem.y, sample_weight=problem.weights)  # fmt: skip


def _scored(
    problem: TrainingData, estimator: Any, trial: Any, folds: Sequence[Any]
) -> dict[str, Any]:
    """How well the model does on the rows fitted, and models like it on rows that they did not see."""
    X = problem.X
    y = problem.y
    weights = problem.weights
    labels = classifies(problem.loss)
    nothing = np.zeros((len(y), 1))  # a baseline sees no features
    score = accuracy_score if labels else r2_score
    found: dict[str, Any] = {
        "measure": "accuracy" if labels else "R2",
        "training_score": float(score(y, _answers(estimator, X, "predict"), sample_weight=weights)),
        "cross_validated_score": None,
        "cross_validated_auc": None,
        "majority_share": float(
            DummyClassifier().fit(nothing, y, weights).score(nothing, y, weights)
        )
        if labels
        else None,
    }
    if folds:
        params = {} if weights is None else {"sample_weight": weights}
        method = "decision_function" if labels else "predict"
        if labels and len(estimator.classes_) > 2 and hasattr(estimator, "predict_proba"):
            method = "predict_proba"  # which rank rows across classes, as `predict` writes them
        with _sentences():
            if isinstance(X, RowBlocks):
                held_out = cross_val_answers(trial, X, y, weights, folds, method)
            else:
                held_out = cross_val_predict(trial, X, y, cv=folds, params=params, method=method)
        if labels:
            truth = np.squeeze(label_binarize(y, classes=estimator.classes_))
            found["cross_validated_auc"] = float(
                roc_auc_score(truth, held_out, sample_weight=weights)
            )
            held_out = estimator.classes_[
                held_out.argmax(axis=1) if held_out.ndim == 2 else (held_out > 0).astype(int)
            ]
        found["cross_validated_score"] = float(score(y, held_out, sample_weight=weights))
    return found


def _answers(estimator: Any, X: Any, method: str) -> Any:
    """What a method of an estimator says of all rows."""
    if isinstance(X, RowBlocks):
        estimator, X = next(held_out_margins([estimator], X, np.arange(X.shape[0])))
    return getattr(estimator, method)(X)


def _proofs(estimator: Any) -> list[dict[str, Any]]:
    """One for each problem that was solved: for each class against the rest, or the second of two."""
    names = {
        "value": "objective_", "gap": "dual_gap_", "relative_gap": "relative_gap_", "multiplier": "multiplier_",
        "iterations": "n_iter_",
    }  # fmt: skip
    proofs = pandas.DataFrame(
        {name: np.atleast_1d(getattr(estimator, own)) for name, own in names.items()}
    )
    proofs["lower_bound"] = proofs["value"] - proofs["gap"]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # in the 2-norm, by strong convexity; a ridge of 0 has none
        proofs["standardised_coefficients_within"] = np.sqrt(
            proofs["gap"].clip(lower=0.0) / estimator.ridge
        )
    labels = getattr(estimator, "classes_", np.array([None]))[-len(proofs) :].tolist()
    return [
        {"class": label, **proof}
        for label, proof in zip(labels, proofs.to_dict("records"), strict=True)
    ]


# --- what it leaves behind in words and pictures


def _report(problem: TrainingData, model: FittedModel, facts: dict[str, Any]) -> str:
    """The fit in words, by the template fit_report.txt."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fold": lambda text, name="": report.folded(
            " ".join(text.split()), f"{name:<11}" if name else "  "
        ),
        "number": lambda value, digits: f"{value:.{digits}g}",
        "repr": repr,
        "shortened": shortened,
    }
    template = environment.from_string(
        resources.files(__package__).joinpath("fit_report.txt").read_text("utf-8")
    )
    labels, counts = np.unique(problem.y, return_counts=True)
    blocks = [
        block[(block.index == 0) | (block.standardised_coefficient != 0)]
        for block in model.coefficients()
    ]
    return template.render(
        file=Path(problem.table.source).name,
        problem=problem,
        model=model,
        facts=facts,
        settings=problem.settings,
        objective=(inspect.getdoc(ESTIMATORS[problem.loss]) or problem.loss).splitlines()[0],
        counts=list(zip(labels, counts, strict=True)) if classifies(problem.loss) else [],
        blocks=[list(block.itertuples()) for block in blocks],
        shown=COEFFICIENTS_SHOWN if len(blocks) == 1 else COEFFICIENTS_SHOWN // 2,
        not_converged=report.not_converged(facts["relative_gap"], problem.settings.tol),
    )


def draw_path(file: Path, problem: TrainingData, model: FittedModel, chooser: Any) -> None:
    """The picture: the cross-validation if any, and coefficients against the radius, a panel for
    each problem.
    """
    panels = min(len(model.coef), MOST_PANELS)
    scored = chooser is not None and len(chooser.radii_) > 1
    columns = min(panels + scored, 2)
    lines = math.ceil((panels + scored) / columns)
    figure = pictures.empty_figure(
        7.6 if columns == 1 else 13.0, 0.4 + 4.4 * lines, purpose="the picture of a fit"
    )
    grid = np.ravel(figure.subplots(lines, columns, squeeze=False))
    if scored:
        pictures.draw_scores(grid[0], chooser)
        grid[0].set(ylabel=f"{CRITERIA[chooser.default_scoring]} on held-out rows")
    names = [shortened(name, 26) for name in problem.features]
    largest = np.abs(np.array(model.coef)).max(
        axis=0
    )  # of all classes: a feature has one color in all panels
    for k, axes in zip(range(panels), grid[scored:], strict=False):
        radii, coefs = _coefficient_path(problem, model, k)
        pictures.draw_path(axes, radii, coefs, names, radius=model.radius, chosen=largest)
        axes.set(
            ylabel="standardised coefficient" if problem.settings.standardize else "coefficient"
        )
        rest = (
            f"{shortened(str(model.classes[k]))} against the rest"
            if len(model.coef) > 1
            else "coefficients"
        )
        axes.set_title(rest, fontsize=11, loc="left", parse_math=False)
    for axes in grid[panels + scored :]:
        axes.set_axis_off()
    part = f" (the first {panels} of {len(model.coef)} classes)" if panels < len(model.coef) else ""
    title = f"{shortened(problem.target)}: coefficients against the radius{part}"
    figure.suptitle(title, fontsize=12, parse_math=False)
    pictures.save_figure(figure, file)


def _coefficient_path(problem: TrainingData, model: FittedModel, k: int) -> tuple[Any, Any]:
    """Radii from 0 past the chosen one, and the coefficients; the target of a class is set against
    the rest.
    """
    settings = problem.settings
    y = problem.y
    if classifies(problem.loss):
        y = np.where(y == model.classes[-1 if len(model.coef) == 1 else k], 1.0, -1.0)
    norm = float(np.abs(model.coef[k]).sum())  # below an idle radius, where all has happened
    radii = np.linspace(
        0.0, BEYOND * (min(model.radius, norm) or model.radius or 1.0), POINTS_DRAWN
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself has its own proof; here a line is drawn
        found = linear_model.path(
            problem.X, y, loss=problem.loss, radii=radii, ridge=model.ridge, fit_intercept=settings.intercept,
            sample_weight=problem.weights, tol=max(settings.tol, DRAWING_TOL), max_iter=settings.max_iter,
            progress=report.errors.is_terminal,
        )  # fmt: skip
    return found.radii, found.coefs
