"""Random losses under a penalty, or on a ball, with offsets and columns without a penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize

from tests.fuzz import judges
from tests.fuzz.judges import Array, Total
from tests.fuzz.models import sample_weights_of
from tests.fuzz.problems import Case, Draft, Ground, Part, Target, ball, labels_of, minimized


def targets_of(draft: Draft, kind: str, scores: Array) -> Array:
    """What the loss can be of, near some scores."""
    m = len(scores)
    if kind in ("Logistic", "SquaredHinge"):
        return labels_of(draft, m)
    if kind == "Poisson":
        y = draft.rng.poisson(np.exp(np.clip(scores, -3.0, 3.0))).astype(float)
        y[0] += 1.0
        return y
    if kind == "Gamma":
        return np.exp(np.clip(scores, -5.0, 5.0)) * draft.rng.gamma(2.0, 0.5, m) + 1e-3
    return scores * draft.among(1.0, 1.0, draft.power(-3, 3))


def offset_of(draft: Draft, m: int, *, intercept: bool) -> Array:
    """A known part of the scores: none, some, the same for all, or huge beside an intercept."""
    kind = draft.among("none", "none", "some", "constant", "huge")
    if kind == "huge" and intercept and not draft.single:
        return draft.power(1, 3) + draft.rng.standard_normal(m)
    return {"some": draft.rng.standard_normal(m), "constant": np.full(m, 0.7)}.get(
        kind, np.zeros(m)
    )


def columns_of(draft: Draft, m: int, *, reach: float) -> Array:
    """Columns without a penalty that are no combinations of each other, in units of their own."""
    count = min(draft.among(0, 0, 1, 1, 2, 3), max(0, m // 4))
    U = draft.rng.standard_normal((m, count))
    if count and draft.chance(0.3):
        U[:, 0] = np.arange(m) % 2
    return U * 10.0 ** draft.rng.uniform(-reach, reach, count)


def falls_forever(kind: str, U: Array, y: Array, w: Array, *, intercept: bool) -> bool:
    """Whether a combination of columns separates the classes, or counts of 0 from others: an error."""
    if kind not in ("Logistic", "Poisson"):
        return False
    C = np.column_stack([U / np.abs(U).max(axis=0), *[np.ones(len(U))] * intercept])[w > 0.0]
    y = y[w > 0.0]
    signs = y if kind == "Logistic" else -(y == 0.0).astype(float)
    moving = signs[:, None] * C
    upper = np.where(signs == 0.0, 0.0, 1.0)
    still = C[signs == 0.0]
    found = scipy.optimize.linprog(
        -moving.sum(axis=0),
        A_ub=np.vstack([moving, -moving]),
        b_ub=np.concatenate([upper, np.zeros(len(C))]),
        A_eq=still if len(still) else None,
        b_eq=np.zeros(len(still)) if len(still) else None,
        bounds=(None, None),
    )
    return bool(found.fun < -0.5)


def scored_loss(draft: Draft, n: int) -> Part:
    """A loss with all that may be beside it; its source multiplies the weights by {0}."""
    kind = draft.among(*judges.ROWS)
    m = 4 + draft.size(24)
    is_rate = kind in ("Poisson", "Gamma")
    X = draft.rng.standard_normal((m, n)) if is_rate else draft.numbers(m, n)
    signal = X @ (draft.rng.standard_normal(n) * (draft.rng.random(n) < 0.4))
    size = max(1.0, float(np.abs(signal).max()))
    y = targets_of(draft, kind, signal / size + 0.5 * draft.rng.standard_normal(m))
    K, X = draft.keep("X", X, sparse=draft.chance(0.2))
    _, y = draft.keep("y", y)
    intercept = draft.chance(0.5)
    w = sample_weights_of(draft, m)
    draft.values["w"] = w
    options = f"sample_weight={{0!r}} * w, intercept={intercept}"
    if kind == "Huber":
        options += f", delta={judges.HUBER}"
    offset = offset_of(draft, m, intercept=intercept)
    if offset.any():
        _, offset = draft.keep("offset", offset)
        options += ", offset=offset"
    U = columns_of(draft, m, reach=2.0 if draft.single else 6.0)
    if U.shape[1] and not falls_forever(kind, U, y, w, intercept=intercept):
        _, U = draft.keep("U", U)
        options += ", unpenalised=U"
    else:
        U = U[:, :0]
    C = np.hstack([np.ones((m, 1)), U]) if intercept else U
    formula = judges.Scored(judges.ROWS[kind], X, y, w, C, offset)
    beside = f"{' intercept' if intercept else ''}{' columns' if U.shape[1] else ''}"
    return Part(f"{kind}{beside}", f"cg.smooth.{kind}({K}, y, {options})", formula)


def scored_case(draft: Draft, f: Part, g: Any, on: Ground, n: int) -> Case:
    """A call of `minimize`; the reference is another method or a finer tolerance."""
    source, g_formula = g
    tol = draft.among(1e-6, 1e-6, 1e-3, 1e-9)
    max_iter = draft.among(5, 30, 100)
    method = draft.among("newton", "newton", "auto", "auto", "spg", "cgs")

    def code(c: float) -> str:
        return f"f = {f.source.format(c)}\ng = {source(c)}\n"

    kinds = (f.kind, "ElasticNet" if on.kind == "all x" else "Ridge", on.kind)
    objective = Total((1.0, 1.0), (f.formula, g_formula))
    solver = 'method="newton", max_iter=100'
    target = Target(objective, on.region, (n,), dict(draft.values), code, kinds, solver)
    call = f'answer = cg.minimize(f, g, method="{method}", tol={tol!r}, max_iter={max_iter})'
    return Case(
        ("minimize", *kinds, method, draft.precision),
        dict(draft.values),
        lambda c: code(c) + call,
        minimized(target),
        tol=tol,
        max_iter=max_iter,
    )


def penalised_cases(draft: Draft) -> list[Case]:
    """`simple.ElasticNet` beside every loss."""
    draft.torch = False
    n = draft.size(20)
    f = scored_loss(draft, n)
    steepest = float(np.abs(slope_at_zero(f.formula)).max()) or 1.0
    l1 = steepest * draft.power(-3, 0.1)
    ridge = draft.among(0.0, 0.0, 1e-6, 1e-2, 1.0) * steepest
    if draft.chance(0.15):
        l1, ridge = 0.0, ridge or 0.1 * steepest
    positive = draft.chance(0.25)
    norms = (judges.Norm("l1", l1), judges.Norm("squared", ridge))

    def source(c: float) -> str:
        return f"cg.simple.ElasticNet({c * l1!r}, {c * ridge!r}, positive={positive})"

    on = Ground("all x", "", judges.Everywhere(positive))
    return [scored_case(draft, f, (source, Total((1.0, 1.0), norms)), on, n)]


def bounded_cases(draft: Draft) -> list[Case]:
    """A ridge on the l1 ball beside every loss."""
    draft.torch = False
    n = draft.size(20)
    f = scored_loss(draft, n)
    on = ball(draft, "L1Ball")
    ridge = draft.power(-4, 2)

    def source(c: float) -> str:
        return f"cg.simple.Ridge({c * ridge!r}, on={on.source})"

    return [scored_case(draft, f, (source, judges.Norm("squared", ridge)), on, n)]


def constrained(draft: Draft, n: int, *, moderate: bool) -> Ground:
    """Rows of many kinds around a point, in float64: duplicates, combinations, huge and tiny ones."""
    rng = draft.rng
    unit = draft.power(-3, 0 if moderate else 3) if draft.chance(0.3) else 1.0
    lower = np.where(rng.random(n) < 0.5, 0.0, -unit)
    upper = np.full(n, unit)
    inside = lower + rng.uniform(0.2, 0.8, n) * (upper - lower)
    A = rng.standard_normal((draft.among(0, 0, 1, n), n))
    b = A @ inside + unit * rng.uniform(0.05, 1.0, len(A))
    E = rng.standard_normal((draft.among(0, 0, 1, n // 2), n))
    e = E @ inside
    kind = draft.among("plain", "plain", "twice", "sizes", "far")
    if kind == "twice":
        A, b = np.vstack([A, 2.0 * A]), np.concatenate([b, 2.0 * b])
        E, e = np.vstack([E, 2.0 * E]), np.concatenate([e, 2.0 * e])
    elif kind == "sizes":
        sizes = 10.0 ** rng.uniform(-8.0, 8.0, len(A))
        A, b = A * sizes[:, None], b * sizes
    elif kind == "far":
        A, b = np.vstack([A, 1e-13 * rng.standard_normal(n)]), np.append(b, unit)
    parts = []
    for end, rows, right in (("ub", A, b), ("eq", E, e)):
        if len(right):
            draft.values |= {f"A_{end}": rows, f"b_{end}": right}
            parts.append(f"A_{end}=A_{end}, b_{end}=b_{end}")
    draft.values["bounds"] = np.column_stack([lower, upper])
    source = f"cg.sets.Polytope({', '.join([*parts, 'bounds=bounds'])})"
    region = judges.Constrained(A, b, E, e, judges.Interval(lower, upper), inside)
    return Ground("Polytope", source, region, True, "linear")


def constrained_cases(draft: Draft) -> list[Case]:
    """Every loss on a polytope by constraints: the way through the inside, and linear programs."""
    draft.torch = False
    n = draft.size(20)
    f = scored_loss(draft, n)
    # far out, losses of classes and rates fall for ever along columns, or overflow
    on = constrained(draft, n, moderate=f.formula.rows is not judges.ROWS["LeastSquares"])

    def source(_: float) -> str:
        return f"cg.simple.Zero(on={on.source})"

    target = Target(
        Total((1.0,), (f.formula,)),
        on.region,
        (n,),
        dict(draft.values),
        lambda c: f"f = {f.source.format(c)}\ng = {source(c)}\n",
        (f.kind, "Zero", on.kind),
    )
    tol = draft.among(1e-6, 1e-6, 1e-3, 1e-9)
    max_iter = draft.among(0, 1, 30, 100)
    method = draft.among("newton", "auto", "auto", "cgs")
    call = f'answer = cg.minimize(f, g, method="{method}", tol={tol!r}, max_iter={max_iter})'
    return [
        Case(
            ("minimize", *target.kinds, method, draft.precision),
            dict(draft.values),
            lambda c: target.source(c) + call,
            minimized(target),
            tol=tol,
            max_iter=max_iter,
        )
    ]


def slope_at_zero(formula: judges.Scored) -> Array:
    """The gradient at x = 0, which a penalty is held against."""
    none = np.zeros(formula.K.shape[1], judges.Wide)
    z = formula.C @ formula._best_amounts(judges.wide(formula.offset) + formula.K @ none)
    slopes = formula.rows.at(z + formula.offset, judges.wide(formula.y))[1]
    return np.asarray(formula.K.T @ (formula.weights * slopes)).astype(float)
