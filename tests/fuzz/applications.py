"""Random calls of what stands on `minimize`: transport, its estimators, and POT's signature."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import condgrad as cg
from tests.fuzz import judges
from tests.fuzz.judges import Array, Total
from tests.fuzz.problems import Case, Claim, Draft, Target, graph, marginals, result_claim

# Transport ------------------------------------------------------------------------------------------------------------


def random_cost(draft: Draft, n: int, m: int) -> Array:
    """Distances, numbers of any kind, few different numbers, or one number."""
    kind = draft.rng.random()
    if kind < 0.4:
        Xs, Xt = draft.rng.standard_normal((n, 2)), draft.rng.standard_normal((m, 2))
        if draft.chance(0.3):
            Xt[0], Xs[-1] = Xs[0], Xs[0]
        cost = ((Xs[:, None] - Xt[None]) ** 2).sum(axis=2)
    elif kind < 0.7:
        cost = draft.numbers(n, m)
    elif kind < 0.9:
        cost = draft.rng.integers(0, 3, (n, m)).astype(float)
    else:
        cost = np.full((n, m), draft.power(-2, 2))
    return np.asarray(cost * (draft.power(-6, 6) if draft.chance(0.2) else 1.0))


def solve_cases(draft: Draft) -> list[Case]:
    """`transport.solve` by two methods."""
    n, m = draft.size(12), draft.size(12)
    (_, C), (a, b) = draft.keep("C", random_cost(draft, n, m)), marginals(draft, n, m)
    uniform = draft.chance(0.3)
    if uniform:
        a, b = np.full(n, 1.0 / n), np.full(m, 1.0 / m)
    (_, a), (_, b) = draft.keep("a", a), draft.keep("b", b)
    entropy = (
        0.0
        if draft.chance(0.1)
        else draft.power(-6, 6)
        if draft.chance(0.4)
        else draft.power(-3, 1)
    )
    entropy *= float(np.ptp(C)) or 1.0
    parts: list[Any] = [judges.LinearCost(C), judges.NegativeEntropy(entropy)]
    sources: list[tuple[str, float]] = [("{0} * cg.smooth.Linear(C)", 1.0)]
    regularizers: list[tuple[str, float]] = []
    kind = "Linear"
    if draft.chance(0.3):
        weight, d = draft.power(-3, 3), draft.size(4)
        Xs, Xt = draft.keep("Xs", draft.numbers(n, d))[1], draft.keep("Xt", draft.numbers(m, d))[1]
        Ls, Lt = draft.keep("Ls", graph(draft, n))[1], draft.keep("Lt", graph(draft, m))[1]
        parts.append(judges.LaplacianForm(Xs, Xt, Ls, Lt, weight, weight))
        form = "cg.smooth.TransportLaplacian(Xs, Xt, Ls, Lt, source_weight={0}, target_weight={0})"
        sources.append((form, weight))
        regularizers.append(("cg.transport.Laplacian(Xs, Xt, {0}, Ls=Ls, Lt=Lt)", weight))
        kind += "+TransportLaplacian"
    if draft.chance(0.2):
        weight = draft.power(-3, 3)
        draft.values["labels"] = draft.rng.integers(0, 3, n)
        parts.append(judges.Groups(draft.values["labels"], weight))
        sources.append(("cg.smooth.GroupLasso(labels, weight={0})", weight))
        regularizers.append(("cg.transport.GroupLasso(labels, {0})", weight))
        kind += "+GroupLasso"

    def source(c: float) -> str:
        terms = [text.format(repr(c * weight)) for text, weight in sources]
        on = "cg.sets.Transport(a, b)"
        g = (
            f"cg.simple.Entropy({c * entropy!r}, on={on})"
            if entropy
            else f"cg.simple.Zero(on={on})"
        )
        return f"f = {' + '.join(terms)}\ng = {g}\n"

    kinds = (kind, "Entropy" if entropy else "Zero", "Transport")
    objective = Total((1.0,) * len(parts), tuple(parts))
    target = Target(objective, judges.Plans(a, b), (n, m), dict(draft.values), source, kinds)

    def case() -> Case:
        method = draft.among("auto", "auto", "cgs", "newton", "cg")
        step = (
            draft.among("exact", "exact", "armijo", "open-loop")
            if method in ("cgs", "cg")
            else "exact"
        )
        tol, max_iter = draft.among(1e-6, 1e-9, 1e-3, 0.0), draft.among(5, 50, 200)
        limit = draft.among(1e-9, 1e-3, 0.02) if draft.chance(0.08) else None
        options = f'method="{method}", step="{step}", tol={tol!r}, max_iter={max_iter}, time_limit={limit!r}'
        if draft.chance(0.15):
            start = target.region.feasible(
                judges.wide(draft.rng.random((n, m)) * a.sum() / (n * m))
            )
            options += f", start={draft.keep('start', start)[0]}"

        def code(c: float) -> str:
            extra = ", ".join(text.format(repr(c * weight)) for text, weight in regularizers)
            weights = "" if uniform else ", a, b"
            call = f"{c!r} * C{weights}, entropy={c * entropy!r}, regularizers=[{extra}], {options}"
            return f"answer = cg.transport.solve({call})"

        return Case(
            ("solve", *kinds, f"{method} {step}", draft.precision),
            dict(draft.values),
            code,
            lambda answer, _c, _warned: [result_claim(target, answer.result)],
            tol=tol,
            max_iter=max_iter,
            time_limit=limit,
            may_refuse=method == "newton" and (entropy == 0.0 or len(regularizers) > 1),
            follows_units=limit is None,
        )

    return [case(), case()]


def plan_target(answer: Any) -> Target:
    """What an estimator solved, read from the data (not the code) of the problem that comes with its answer."""
    f, g = answer.problem
    terms = f.terms if isinstance(f, cg.smooth.Smooth) and hasattr(f, "terms") else (f,)
    values: dict[str, Any] = {"a": g.on.a, "b": g.on.b}
    parts: list[Any] = [judges.NegativeEntropy(g.weight)]
    sources = []
    for term in terms:
        if isinstance(term, cg.smooth.Linear):
            values["C"] = term.C
            parts.append(judges.LinearCost(term.C))
            sources.append("cg.smooth.Linear(C)")
        elif isinstance(term, cg.smooth.TransportLaplacian):
            Ls, Lt = (L.toarray() if scipy.sparse.issparse(L) else L for L in (term.Ls, term.Lt))
            values |= {"Xs": term.Xs, "Xt": term.Xt, "Ls": Ls, "Lt": Lt}
            weights = term.source_weight, term.target_weight
            parts.append(judges.LaplacianForm(term.Xs, term.Xt, Ls, Lt, *weights))
            options = "source_weight={!r}, target_weight={!r}".format(*weights)
            sources.append(f"cg.smooth.TransportLaplacian(Xs, Xt, Ls, Lt, {options})")
        else:
            labels = np.empty(term.size, dtype=int)
            for k, rows in enumerate(term.rows):
                labels[rows] = k
            values["labels"] = labels
            parts.append(judges.Groups(labels, term.weight))
            sources.append(f"cg.smooth.GroupLasso(labels, weight={term.weight!r})")
    source = f"f = {' + '.join(sources)}\ng = cg.simple.Entropy({g.weight!r}, on=cg.sets.Transport(a, b))\n"
    objective = Total((1.0,) * len(parts), tuple(parts))
    kinds = ("+".join(type(term).__name__ for term in terms), "Entropy", "Transport")
    return Target(
        objective,
        judges.Plans(g.on.a, g.on.b),
        tuple(values["C"].shape),
        values,
        lambda _c: source,
        kinds,
    )


def mover_cases(draft: Draft) -> list[Case]:
    """The transport estimators and `recoloring`."""
    kind = draft.among("EntropicTransport", "LaplaceTransport", "GroupTransport", "recoloring")
    entropy = draft.power(-4, 1)
    if kind == "recoloring":
        for name in ("image", "palette"):
            draft.values[name] = draft.rng.integers(
                0, 256, (draft.size(6) + 1, draft.size(6) + 1, 3), dtype=np.uint8
            )
        weight = draft.among(0.0, draft.power(-2, 2))
        code = f"answer = cg.transport.color.recoloring(image, palette, entropy={entropy!r}, weight={weight!r}, "
        code += "samples=12, seed=0, tol=1e-4)"
        tol = 1e-4
    else:
        n, m, d = draft.size(12) + 1, draft.size(12) + 1, draft.size(4)
        scale = draft.power(-3, 3) if draft.chance(0.2) else 1.0
        draft.values["Xs"], draft.values["Xt"] = (
            scale * draft.numbers(n, d),
            scale * draft.numbers(m, d),
        )
        draft.values["ys"] = draft.rng.integers(0, 3, n)
        entropy *= scale**2
        weight = "" if kind == "EntropicTransport" else f", {draft.power(-3, 3)!r}"
        tol = draft.among(1e-6, 1e-3)
        code = f"answer = cg.transport.{kind}({entropy!r}{weight}, tol={tol!r}, max_iter=100).fit(Xs, ys, Xt)\n"
        code += "moved = [answer.transform(Xs + 0.1), answer.inverse_transform(Xt)]\n"
        code += "assert all(np.isfinite(points).all() for points in moved)"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        result = answer.result if kind == "recoloring" else answer.result_
        return [result_claim(plan_target(result), result.result)]

    kinds = ("estimator", kind, "Entropy", "Transport", "auto", "float64")
    return [Case(kinds, dict(draft.values), lambda _c: code, claims, tol=tol, follows_units=False)]


def gcg_cases(draft: Draft) -> list[Case]:
    """POT's signature."""
    n, m = draft.size(10), draft.size(10)
    (_, M), (a, b) = draft.keep("M", random_cost(draft, n, m)), marginals(draft, n, m)
    (_, a), (_, b) = draft.keep("a", a), draft.keep("b", b)
    reach = float(np.ptp(M)) or 1.0
    reg1, reg2 = draft.power(-3, 2) * reach, draft.among(0.0, draft.power(-2, 2) * reach)
    steps, thr, thr2 = (
        draft.among(5, 50, 200),
        draft.among(1e-9, 1e-6, 1e-3),
        draft.among(1e-9, 0.0),
    )
    objective = Total(
        (1.0, 1.0, reg2),
        (
            judges.LinearCost(M),
            judges.NegativeEntropy(reg1),
            judges.Distance(np.ones((n, m)), 0 * M),
        ),
    )
    draft.values["ones"], draft.values["zeros"] = np.ones((n, m)), np.zeros((n, m))

    def source(c: float) -> str:
        extra = f" + {c * reg2!r} * cg.smooth.Function(own_distance(ones, zeros))" if reg2 else ""
        g = f"cg.simple.Entropy({c * reg1!r}, on=cg.sets.Transport(a, b))"
        return f"f = {c!r} * cg.smooth.Linear(M){extra}\ng = {g}\n"

    kinds = ("Linear+Function" if reg2 else "Linear", "Entropy", "Transport")
    target = Target(objective, judges.Plans(a, b), (n, m), dict(draft.values), source, kinds)

    def code(c: float) -> str:
        weights = f"{c * reg1!r}, {c * reg2!r}, lambda G: 0.5 * (G * G).sum(), lambda G: G"
        options = f"numItermax={steps}, stopThr={thr!r}, stopThr2={c * thr2!r}, log=True"
        return f"from condgrad.compat.pot import gcg\nanswer = gcg(a, b, {c!r} * M, {weights}, {options})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        plan, log = answer
        value = log["lower_bound"] + log["gap"]
        return [Claim(target, plan, value, log["lower_bound"], log["status"], log["niter"])]

    # stopThr2 is absolute: a tolerance of its own, which only the law of units can judge
    tol = thr if thr2 == 0.0 else np.inf
    return [
        Case(
            ("gcg", *kinds, "cgs", draft.precision),
            dict(draft.values),
            code,
            claims,
            tol=tol,
            max_iter=steps,
        )
    ]
