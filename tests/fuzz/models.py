"""Random linear models: fits, paths and cross-validations, also of several classes and of Dask."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import judges
from tests.fuzz.judges import Array, Total, wide
from tests.fuzz.problems import (
    Case,
    Claim,
    Draft,
    Finding,
    Ground,
    Part,
    Target,
    Weighted,
    ball,
    good_solver,
    group_ball,
    labels_of,
    loss,
    minimize_case,
    solid_simplex,
    weighted,
)

LOSSES = {
    "ConstrainedElasticNet": ("LeastSquares", "least-squares", judges.squares),
    "ConstrainedLogisticRegression": ("Logistic", "logistic", judges.logistic),
    "ConstrainedLinearSVC": ("SquaredHinge", "squared-hinge", judges.squared_hinge),
}
CLASSES_DECADES = 4.0
"""How large offsets of the data of several classes are: their loss cannot centre them."""
BLOCKS = """
import dask
import dask.array
import scipy.sparse

with dask.config.set(scheduler="synchronous"):
    whole, {name} = {name}, {name}.toarray() if scipy.sparse.issparse({name}) else {name}
    {name} = dask.array.from_array({name}, chunks=({rows}, -1))
    if scipy.sparse.issparse(whole):
        {name} = {name}.map_blocks(scipy.sparse.csr_array)
"""
"""Source that cuts an array into blocks of rows, and what it is to go on with."""


def features(draft: Draft, m: int, n: int, decades: float = 8.0) -> Array:
    """Data of many kinds, with a large offset in each column now and then."""
    X = draft.numbers(m, n)
    if draft.chance(0.15):
        reach = 2.0 if draft.single else decades
        X = draft.rng.standard_normal((m, n)) + 10.0 ** draft.rng.uniform(0.0, reach, n)
    return X


def sample_weights_of(draft: Draft, m: int) -> Array:
    """Ones, or numbers of any size with a zero now and then; each class keeps some weight."""
    if draft.chance(0.6):
        return np.ones(m)
    w = draft.rng.uniform(0.1, 2.0, m)
    if m > 8 and draft.chance(0.3):
        w[m // 2] = 0.0
    return w * (draft.power(-3, 3) if draft.chance(0.2) else 1.0)


def deviations(X: Array, w: Array) -> Array:
    """The weighted standard deviations of the columns."""
    X, shares = wide(X), wide(w) / wide(w).sum()
    return np.asarray(np.sqrt(shares @ (X - shares @ X) ** 2))


def region_of(kind: str, radius: float, labels: Array) -> tuple[str, Any]:
    """The set of coefficients: its source, and the judge's."""
    if kind == "SolidSimplex":
        return f"cg.sets.SolidSimplex({radius!r})", judges.ScaledSolidSimplex(radius)
    if kind == "GroupBall":
        return f"cg.sets.GroupBall({radius!r}, labels)", judges.GroupedBall(radius, labels)
    return f"cg.sets.L1Ball({radius!r})", judges.NormBall("l1", radius)


class Solution(NamedTuple):
    """A solution of an estimator or a path."""

    task: Array
    """The labels of its problem."""
    radius: float
    ridge: float
    coef: Any
    intercept: Any
    value: float
    gap: float
    iterations: int


def intercept_findings(formula: Any, ridge: judges.Norm, x: Array, one: Solution) -> list[Finding]:
    """Where F with the intercept that comes with x is not the value."""
    if not np.isfinite(x).all() or not np.isfinite(one.value):
        return []
    total, simple = formula.beside(x, wide(one.intercept)), ridge.at(x)
    value = total.value + simple.value
    unit = float(np.finfo(one.coef.dtype).eps)
    if abs(float(value - one.value)) <= total.rounding(unit) + simple.rounding(unit):
        return []
    return [
        Finding(
            "wrong value",
            f"intercept {one.intercept} makes F {float(value)!r}, the value is {one.value!r}",
        )
    ]


def model_cases(
    draft: Draft,
    fronts: Sequence[str] = ("fit", "fit", "fit", "path", "path", "CV"),
    max_iter: int = 300,
) -> list[Case]:
    """A fit, a path, or a cross-validation.

    The judge's variable is x = units * coef, in which all coefficients count alike in the norms.
    """
    draft.torch = False
    estimator = draft.among(*LOSSES)
    smooth, loss_name, rows = LOSSES[estimator]
    front = draft.among(*fronts)
    largest = 12 if front == "CV" else 20
    m = (12 if front == "CV" else 1) + draft.size(largest)
    n = draft.size(largest)
    labelled = estimator != "ConstrainedElasticNet"
    classes = draft.among(2, 2, 3) if labelled and front != "path" and m >= 6 else 2
    joint = classes == 3 and estimator == "ConstrainedLogisticRegression" and draft.chance(0.6)
    standardize = m > 3 and draft.chance(0.15)
    # a column that does not vary has no deviation, and which one that is depends on rounding
    X = features(draft, m, n, CLASSES_DECADES if joint else 8.0)
    if standardize:
        X = draft.rng.standard_normal((m, n)) * draft.power(-3, 3)
    _, X = draft.keep("X", X, sparse=draft.chance(0.2))
    if estimator == "ConstrainedElasticNet":
        y = draft.numbers(m)
    elif classes == 3:
        y = np.arange(m) % 3.0
    else:
        y = np.where(np.arange(m) % 2 == 0, -1.0, 1.0) if front == "CV" else labels_of(draft, m)
    y, w = draft.keep("y", y)[1], sample_weights_of(draft, m)
    draft.values["w"] = w
    labels = draft.rng.integers(0, 3, n)
    draft.values["labels"] = labels
    units = np.ones(n, judges.Wide)
    intercept, radius = draft.chance(0.7), draft.power(-1, 2)
    ridge = 0.0 if draft.chance(0.1) else draft.power(-4, 2)
    tol = draft.among(1e-6, 1e-6, 1e-3, 1e-9)
    shape = draft.among("L1Ball", "L1Ball", "SolidSimplex", "GroupBall")
    options = f"fit_intercept={intercept}, tol={tol!r}, max_iter={max_iter}"
    options += {"SolidSimplex": ", positive=True", "GroupBall": ", groups=labels"}.get(shape, "")
    if standardize:
        options += ", standardize=True"
        units = units * deviations(X, w)
    if draft.chance(0.15):
        draft.values["factors"] = draft.rng.uniform(0.2, 5.0, n)
        options += ", penalty_factors=factors"
        units = units * wide(draft.values["factors"])
    if joint:
        options += ', multi_class="multinomial"'
    provable = max(tol, 100.0 * float(np.finfo(draft.dtype).eps))
    K = wide(X) / units
    kind = "Multinomial" if joint else smooth
    kinds = (f"{kind}{' intercept' if intercept else ''}", "Ridge" if ridge else "Zero", shape)
    variable = (n, 3) if joint else (n,)

    def formula_of(task: Array) -> Any:
        if joint:
            return judges.Softmax(K, task.astype(int), 3, w, intercept)
        return judges.Loss(rows, K, task, w, intercept)

    def target_of(task: Array, at_radius: float, at_ridge: float) -> Target:
        values = {"y": task, "w": w, "X": K.astype(np.float64), "labels": labels}
        objective = Total((1.0, 1.0), (formula_of(task), judges.Norm("squared", at_ridge)))
        on, region = region_of(shape, at_radius, labels)

        def source(c: float) -> str:
            f = f"cg.smooth.{kind}(X, y, sample_weight={c!r} * w, intercept={intercept})"
            g = f"Ridge({c * at_ridge!r}, on={on})" if at_ridge else f"Zero(on={on})"
            return f"f = {f}\ng = cg.simple.{g}\n"

        return Target(objective, region, variable, values, source, kinds)

    def code(c: float) -> str:
        weights = f"sample_weight={c!r} * w"
        if front == "path":
            call = f'X, y, loss="{loss_name}", n_radii=4, ridge={c * ridge!r}, {options}, {weights}'
            return f"answer = cg.linear_model.path({call})"
        if front == "CV":
            choice = f"n_radii=3, ridges=[{c * ridge!r}], cv=3, {options}"
            return f"answer = cg.linear_model.{estimator}CV({choice}).fit(X, y, {weights})"
        call = f"{radius!r}, {c * ridge!r}, {options}"
        return f"answer = cg.linear_model.{estimator}({call}).fit(X, y, {weights})"

    def solutions(answer: Any, c: float) -> list[Solution]:
        if front == "path":
            columns = (
                answer.radii,
                answer.coefs,
                answer.intercepts,
                answer.values,
                answer.gaps,
                answer.n_iters,
            )
            return [
                Solution(y, float(r), ridge, x, b, float(v), float(gap), int(k))
                for r, x, b, v, gap, k in zip(*columns, strict=True)
            ]
        at_radius = answer.radius_ if front == "CV" else radius
        at_ridge = answer.ridge_ / c if front == "CV" else ridge
        found = (answer.objective_, answer.dual_gap_, answer.n_iter_)
        numbers = [np.atleast_1d(each) for each in found]
        if joint:
            value, gap, count = (each[0] for each in numbers)
            fits = [(answer.coef_.T, answer.intercept_, value, gap, count)]
        else:
            fits = list(
                zip(
                    np.atleast_2d(answer.coef_),
                    np.atleast_1d(answer.intercept_),
                    *numbers,
                    strict=True,
                )
            )
        tasks = [y]
        if classes == 3 and not joint:
            tasks = [np.where(y == k, 1.0, -1.0) for k in range(3)]
        return [
            Solution(task, at_radius, at_ridge, x, b, float(v), float(gap), int(k))
            for task, (x, b, v, gap, k) in zip(tasks, fits, strict=True)
        ]

    def claims(answer: Any, c: float, warned: bool) -> list[Claim]:
        status = "" if warned else "CONVERGED"
        return [
            Claim(
                target_of(one.task, one.radius, one.ridge),
                (wide(one.coef).T * units).T.astype(one.coef.dtype),
                one.value,
                one.value - one.gap,
                status,
                one.iterations,
            )
            for one in solutions(answer, c)
        ]

    def findings(answer: Any) -> list[Finding]:
        """Whether the value is that of the intercept which comes with it, too."""
        found = []
        for one in solutions(answer, 1.0):
            x = (wide(one.coef).T * units).T
            found += intercept_findings(
                formula_of(one.task),
                judges.Norm("squared", one.ridge),
                x,
                one,
            )
        return found

    return [
        Case(
            (front, *kinds, "auto", draft.precision),
            dict(draft.values),
            code,
            claims,
            tol=provable,
            max_iter=max_iter,
            findings=findings,
        )
    ]


# Several classes ------------------------------------------------------------------------------------------------------


def multinomial(draft: Draft, n: int) -> Part:
    """The softmax loss of a few classes; with intercepts each has some weight."""
    classes = draft.among(2, 3, 3, 4)
    m = classes + draft.size(15)
    codes = np.concatenate([np.arange(classes), draft.rng.integers(0, classes, m - classes)])
    Z, K = draft.keep("Z", features(draft, m, n, CLASSES_DECADES), sparse=draft.chance(0.2))
    draft.values["classes"] = codes
    intercept = draft.chance(0.5)
    w = sample_weights_of(draft, m)
    w[:classes] = np.maximum(w[:classes], 0.1 * w.max())
    name, w = draft.keep("w", w)
    formula = judges.Softmax(K, codes, classes, w, intercept)
    options = f"sample_weight={{0!r}} * {name}, intercept={intercept}"
    source = f"cg.smooth.Multinomial({Z}, classes, {options})"
    return Part(f"Multinomial{' intercept' if intercept else ''}", source, formula)


def minimized_loss(
    draft: Draft,
    f: Part,
    g: Weighted,
    on: Ground,
    shape: tuple[int, ...],
    max_iters: Sequence[int],
) -> Case:
    """A call of `minimize` for a loss that is multiplied by its sample weights, if at all."""

    def source(c: float) -> str:
        return f"f = {f.source.format(c)}\ng = {g.source(c)}\n"

    kinds = (f.kind, g.kind, on.kind)
    objective = Total((1.0, 1.0), (f.formula, g.formula))
    solver = good_solver(f, g, on)
    target = Target(objective, on.region, shape, dict(draft.values), source, kinds, solver)
    return minimize_case(draft, target, f, g, on, max_iters)


def multinomial_cases(draft: Draft) -> list[Case]:
    """`smooth.Multinomial` on balls of matrices."""
    draft.torch = False
    n = draft.size(9)
    f = multinomial(draft, n)
    classes = f.formula.classes
    kind = draft.among("L1Ball", "L1Ball", "L2Ball", "NuclearBall", "GroupBall")
    on = group_ball(draft, n) if kind == "GroupBall" else ball(draft, kind)
    g = weighted(draft.among("Ridge", "Ridge", "Zero"), draft.power(-4, 2), on)
    case = minimized_loss(draft, f, g, on, (n, classes), (0, 5, 30, 100))
    return [replace(case, kinds=("multinomial", *case.kinds[1:]))]


# Blocks of rows -------------------------------------------------------------------------------------------------------


def in_blocks(case: Case, name: str, rows: int) -> Case:
    """The same call of data in Dask's blocks of so many rows, on a scheduler in this process."""
    head = BLOCKS.format(name=name, rows=rows)

    def code(c: float) -> str:
        return head + textwrap.indent(case.code(c), "    ")

    # which pairs Newton's method knows of blocks is less than of arrays
    kinds = (f"dask {case.kinds[0]}", *case.kinds[1:])
    return replace(case, kinds=kinds, code=code, may_refuse=True, follows_units=False)


def blockwise_cases(draft: Draft) -> list[Case]:
    """Losses of Dask arrays under `minimize`, and estimators of them."""
    draft.torch = False
    rows = draft.among(5, 12, 50)
    kind = draft.among("minimize", "multinomial", "model")
    if kind == "model":
        return [in_blocks(case, "X", rows) for case in model_cases(draft, ["fit"], max_iter=20)]
    n = draft.size(9)
    f = loss(draft, n) if kind == "minimize" else multinomial(draft, n)
    shape = (n,) if kind == "minimize" else (n, f.formula.classes)
    on = draft.among(
        lambda: ball(draft, "L1Ball"),
        lambda: group_ball(draft, n),
        lambda: solid_simplex(draft),
    )()
    g = weighted(draft.among("Ridge", "Ridge", "Zero"), draft.power(-4, 2), on)
    name = "A" if kind == "minimize" else "Z"
    # an evaluation of blocks takes milliseconds
    return [in_blocks(minimized_loss(draft, f, g, on, shape, (0, 3, 10)), name, rows)]
