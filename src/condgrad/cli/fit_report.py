"""What `condgrad fit` leaves behind in words, in Python and in a picture."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from condgrad import pictures
from condgrad.cli import report
from condgrad.cli.report import shortened
from condgrad.cli.training import CLASSIFYING, DROP_COLUMNS, DROP_ROWS, TrainingData
from condgrad.linear_model.model_file import NAMED_ESTIMATORS
from condgrad.linear_model.progress import FitsLine
from condgrad.linear_model.solver import Size

CRITERIA = {
    "neg_mean_squared_error": "squared error",
    "neg_log_loss": "log loss",
    "accuracy": "accuracy",
    "neg_mean_poisson_deviance": "Poisson deviance",
    "neg_mean_gamma_deviance": "gamma deviance",
    "neg_mean_absolute_error": "Huber loss",
}
"""By what a search chooses, in the words of scikit-learn and in plain ones."""
COEFFICIENTS_SHOWN = (
    10  # or half as many for each of several classes; one more is shown rather than counted
)
POINTS_DRAWN = 37
DRAWING_TOL = 1e-6
MOST_PANELS = 6
BEYOND = 1.5  # how far the picture goes past the chosen radius, which is one of its points


def ridge_of(estimator: Any) -> float:
    """The weight of |coef|_2^2 beside the sum over the rows."""
    return float(estimator.ridge_ if hasattr(estimator, "ridge_") else estimator.ridge)


def chosen_at_the_end(chooser: Any, request: Any) -> str | None:
    """What was chosen as the last of a default grid: there is nothing beyond it that was tried."""
    if chooser is None or request.chosen[0] not in ("radius", "alpha", "C"):
        return None
    name = f"param_{request.chosen[0]}"
    tried = chooser._parameters()[name]
    ends = len(tried[0]) > 1 and chooser._selected[name] in tried[:, -1]
    return request.chosen[0] if ends else None


# --- words


def text(problem: TrainingData, settings: Any, request: Any, solved: Any, facts: Any) -> str:
    """The fit in words, by the template fit_report.txt."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fold": lambda text, name="": report.wrapped(
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
        for block in solved.coefficients
    ]
    objective = inspect.getdoc(NAMED_ESTIMATORS[solved.model.estimator]) or problem.loss
    return template.render(
        file=Path(problem.table.source).name,
        problem=problem,
        model=solved.model,
        facts=facts,
        request=request,
        settings=settings,
        objective=_in_plain_words(objective),
        ridge=ridge_of(solved.estimator),
        counts=list(zip(labels, counts, strict=True)) if problem.loss in CLASSIFYING else [],
        blocks=[list(block.itertuples()) for block in blocks],
        shown=COEFFICIENTS_SHOWN if len(blocks) == 1 else COEFFICIENTS_SHOWN // 2,
        not_converged=report.not_converged(facts["relative_gap"], settings.tol),
    )


def _in_plain_words(docstring: str) -> str:
    """The first sentence of an estimator, for a terminal: the model is not one of scikit-learn."""
    sentence = " ".join(docstring.split("\n\n")[0].split()).removesuffix(", with a proof.")
    return re.sub(r": `sklearn[\w.]*\.(\w+)`", r", with the penalty of scikit-learn's \1", sentence)


# --- Python


def python_lines(
    problem: TrainingData, request: Any, missing: str | None, groups: Path | None
) -> list[str]:
    """A program that fits the same model, to the last digit; of files that pandas does not read, its
    last lines.
    """
    reading = problem.table.python
    imports = [f"from condgrad.linear_model import {request.estimator}"]
    parameters = {name: repr(value) for name, value in request.parameters.items()}
    if "cv" in request.parameters:
        splitter = request.parameters["cv"]
        imports.insert(0, f"from sklearn.model_selection import {type(splitter).__name__}")
    lines = _table_lines(problem, missing) if reading else [f"# X, y: as in {problem.table.source}"]
    if groups is not None:
        parameters["groups"] = "groups"
        by_name = f"pd.read_csv({str(groups)!r}, dtype=str, index_col=0)"
        lines.append(f"groups = {by_name}.iloc[:, 0][X.columns].tolist()")
    if problem.unpenalised and reading:
        free = [problem.table.key(name) for name in problem.unpenalised]
        parameters["penalty_factors"] = f"1.0 - X.columns.isin({free!r})"
    if reading:
        imports.insert(0, "import pandas as pd")
        if "np." in reading:
            imports.insert(0, "import numpy as np")
    column = "table[{!r}]" if reading else "{}"
    asked = ["X", "y"]
    for role, parameter in (("weights", "sample_weight"), ("offset", "offset")):
        if role in problem.names:
            asked.append(f"{parameter}={column.format(problem.table.key(problem.names[role]))}")
    made = spelled(f"model = {request.estimator}", parameters)
    made[-1] += f".fit({', '.join(asked)})"
    return [*imports, *lines, *made]


def _table_lines(problem: TrainingData, missing: str | None) -> list[str]:
    """Lines that make X and y of the file."""
    table = problem.table
    lines = [f"table = {table.python}"]
    roles = [table.key(name) for name in (problem.target, *problem.names.values())]
    dropped = [table.key(name) for name in problem.dropped]
    if dropped and missing == DROP_ROWS:
        lines.append(f"table = table.drop(columns={dropped!r})")
        dropped = []
    if "weights" in problem.names:
        lines.append(f"table = table[table[{table.key(problem.names['weights'])!r}] > 0]")
    if missing == DROP_ROWS:
        lines.append("table = table.dropna()")
    complete = ".dropna(axis=1)" if missing == DROP_COLUMNS else ""
    lines.append(f"X = table.drop(columns={roles + dropped!r}){complete}")
    lines.append(f"y = table[{roles[0]!r}]")
    return lines


def spelled(head: str, arguments: Mapping[str, str], *, width: int = 76) -> list[str]:
    """A call on one line, or with its arguments on lines of their own where it is too long."""
    words = [f"{name}={value}" for name, value in arguments.items()]
    whole = f"{head}({', '.join(words)})"
    if len(whole) <= width:
        return [whole]
    lines = [f"{head}("]
    line = ""
    for word in words:
        if line and len(line) + len(word) > width:
            lines.append(line.rstrip())
            line = ""
        line = f"{line or '    '}{word}, "
    return [*lines, line.rstrip(), ")"]


# --- the picture


def draw_fits(file: Path, problem: TrainingData, standardize: bool, solved: Any) -> None:
    """The picture, whose fits are counted on one line."""
    with FitsLine(shown=report.errors.is_terminal) as line:
        line.say("the picture")
        _draw(file, problem, standardize, solved, line)
        line.say("the picture is drawn")


def _draw(
    file: Path, problem: TrainingData, standardize: bool, solved: Any, line: FitsLine
) -> None:
    """The cross-validation if any, and coefficients against the radius, a panel for each row of
    coefficients.
    """
    model = solved.model
    chooser = solved.chooser
    panels = min(len(model.coef), MOST_PANELS)
    scored = chooser is not None and chooser.scores_.shape[1] > 1
    columns = min(panels + scored, 2)
    lines = math.ceil((panels + scored) / columns)
    figure = pictures.empty_figure(
        7.6 if columns == 1 else 13.0, 0.4 + 4.4 * lines, purpose="the picture of a fit"
    )
    grid = np.ravel(figure.subplots(lines, columns, squeeze=False))
    if scored:
        pictures.draw_scores(grid[0], chooser, _counts(solved, line))
        grid[0].set(ylabel=f"{CRITERIA[chooser.default_scoring]} on held-out rows")
    names = [shortened(name, 26) for name in problem.features]
    # of all classes: a feature has one color in all panels
    largest = np.abs(np.array(model.coef) * solved.units).max(axis=0)
    for k, axes in zip(range(panels), grid[scored:], strict=False):
        radii, coefs, chosen = _coefficient_path(solved, k, line)
        note = ", beyond the picture" if chosen > radii[-1] else ""
        pictures.mark_chosen(axes, chosen, "radius", note)
        pictures.draw_path(axes, radii, coefs * solved.units, names, chosen=largest)
        what = "standardised coefficient" if standardize else "coefficient"
        axes.set(ylabel=what, xlabel=pictures.MEANINGS["radius"])
        title = ""
        if len(model.coef) > 1:
            title = shortened(str(model.classes[k]))
            title += " against the rest" if len(solved.tasks) > 1 else ""
        axes.set_title(title, fontsize=11, loc="left", parse_math=False)
    for axes in grid[panels + scored :]:
        axes.set_axis_off()
    part = f" (the first {panels} of {len(model.coef)} classes)" if panels < len(model.coef) else ""
    title = f"{shortened(problem.target)}: coefficients against the radius{part}"
    figure.suptitle(title, fontsize=12, parse_math=False)
    pictures.save_figure(figure, file)


def _path_of(solved: Any, task: Any, sizes: Sequence[Size], line: FitsLine) -> list[Any]:
    """Fits to all rows; the model itself has its own proof, here a line is drawn."""
    solver = solved.estimator._solver()
    solver = replace(solver, tol=max(solver.tol, DRAWING_TOL))
    return solver.path(task, sizes, line)


def _counts(solved: Any, line: FitsLine) -> list[int]:
    """How many features have a coefficient at what the curve of a search shows."""
    chooser = solved.chooser
    fixed = next(iter(chooser._selected))
    row = int(np.flatnonzero(chooser._parameters()[fixed][:, 0] == chooser._selected[fixed])[0])
    paths = [_path_of(solved, task, chooser._sizes(task)[row], line) for task in solved.tasks]
    counts = []
    for fits in zip(*paths, strict=True):  # those of all classes at one size
        coefs = np.hstack([np.reshape(fit.coef, (len(solved.units), -1)) for fit in fits])
        counts.append(int(np.any(coefs != 0.0, axis=1).sum()))
    return counts


def _coefficient_path(solved: Any, k: int, line: FitsLine) -> tuple[Any, Any, float]:
    """Radii from 0 past the chosen one, the coefficients of a row, and the chosen radius."""
    of_class = slice(k, k + 1) if len(solved.tasks) > 1 else slice(None)
    (task,) = solved.tasks[of_class]
    radius = float(np.resize(solved.estimator.radius_, len(solved.tasks))[of_class][0])
    rows = np.array(solved.model.coef)[of_class] * solved.units
    norm = float(np.abs(rows).sum())  # below an idle radius, where all has happened
    end = BEYOND * (min(radius, norm) or radius or 1.0)
    ridge = ridge_of(solved.estimator)
    sizes = [Size(ridge, radius=each) for each in np.linspace(0.0, end, POINTS_DRAWN)]
    fits = _path_of(solved, task, sizes, line)
    coefs = np.stack([np.reshape(fit.coef, (len(solved.units), -1)) for fit in fits])
    radii = np.array([fit.radius for fit in fits])
    return radii, coefs[:, :, k if len(rows) > 1 else 0], radius
