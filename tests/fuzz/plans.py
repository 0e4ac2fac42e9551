"""Random calls of transport: batches, relaxed plans, divergences, barycentres, streamed plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.fuzz import judges
from tests.fuzz.applications import plan_target, random_cost
from tests.fuzz.judges import EXTENDED_UNIT, Array, Bracket, Total, Wide, wide
from tests.fuzz.problems import (
    Case,
    Claim,
    Draft,
    Finding,
    Target,
    doubled,
    graph,
    marginals,
    measures_of,
    result_claim,
)

UNIT = float(np.finfo(np.float64).eps)
PRODUCT_UNITS = 1000.0
"""Rounding units of their terms that two ways to multiply with the same plan may differ by."""


def limits(draft: Draft) -> tuple[str, dict[str, Any]]:
    """A tolerance and limits at random: as source, and as what a case knows of them."""
    tol, max_iter = draft.among(1e-6, 1e-6, 1e-9, 1e-3, 0.0), draft.among(1, 5, 50, 200)
    limit = draft.among(1e-9, 1e-3, 0.02) if draft.chance(0.08) else None
    text = f"tol={tol!r}, max_iter={max_iter}, time_limit={limit!r}"
    known = {"tol": tol, "max_iter": max_iter, "time_limit": limit, "follows_units": limit is None}
    return text, known


def entropy_of(draft: Draft, reach: float) -> float:
    """A weight from sharp to blurred for costs that differ by `reach`."""
    share = draft.power(-5, 5) if draft.chance(0.3) else draft.power(-3, 1)
    return share * (reach or 1.0)


def entropic_target(
    cost: Any,
    a: Array,
    b: Array,
    entropy: float,
    *,
    more: Any = None,
    source: str = "",
    values: Mapping[str, Any] | None = None,
) -> Target:
    """min <C, G> + entropy sum G log G + more, for a formula of the cost."""
    parts = [cost, judges.NegativeEntropy(entropy)] + ([] if more is None else [more])
    objective = Total((1.0,) * len(parts), tuple(parts))
    known = {**(values or {}), "C": cost.C.astype(np.float64), "a": a, "b": b}

    def written(c: float) -> str:
        g = f"cg.simple.Entropy({c * entropy!r}, on=cg.sets.Transport(a, b))"
        return f"f = {c!r} * cg.smooth.Linear(C){source.format(c)}\ng = {g}\n"

    kinds = ("Linear" if more is None else "Linear+TransportLaplacian", "Entropy", "Transport")
    return Target(objective, judges.Plans(a, b), cost.C.shape, known, written, kinds)


def plan_claim(target: Target, answer: Any) -> Claim:
    """The claim of a plan that may be streamed: the judge looks at the array that it stands for."""
    claim = result_claim(target, answer.result)._replace(x=answer.dense())
    return claim._replace(value_slack=entry_slack(target, claim.x)) if answer.streamed else claim


STREAMED_UNITS = 128.0
"""Rounding units of `entry_slack`: the most of 1041 plans was 66."""


def largest_score(target: Target, plan: Array) -> float:
    """The largest term of a logarithm of a streamed plan: costs and slopes over the entropy."""
    cost, entropy, *more = target.objective.parts
    largest = np.abs(wide(cost.C)).max() + sum(part.slope_size(wide(plan)).max() for part in more)
    return float(largest / Wide(entropy.weight))


def entry_slack(target: Target, plan: Array) -> float:
    """What the value of a streamed plan may differ by from F of the array that it stands for.

    Its entries are exp(score) and have as many units of rounding as the score has; and its value is
    a sum of potentials, which are as large as the costs.
    """
    x, score = wide(plan), largest_score(target, plan)
    potentials = score * target.objective.parts[1].weight * x.sum()
    return float(STREAMED_UNITS * UNIT * (target.objective.at(x).size * (1 + score) + potentials))


# Batches --------------------------------------------------------------------------------------------------------------


def batch_cases(draft: Draft) -> list[Case]:
    """`transport.solve_batch`: several costs of one size, with weights for each or for all."""
    draft.torch = False
    k, n, m = draft.among(1, 2, 4), draft.size(9), draft.size(9)
    _, C = draft.keep("C", np.stack([random_cost(draft, n, m) for _ in range(k)]))
    pairs = [marginals(draft, n, m) for _ in range(k)]
    kind = draft.among("uniform", "shared", "each")
    if kind == "uniform":
        a, b = np.full((k, n), 1.0 / n), np.full((k, m), 1.0 / m)
        weights = ""
    elif kind == "shared":
        (_, one_a), (_, one_b) = draft.keep("a", pairs[0][0]), draft.keep("b", pairs[0][1])
        a, b = np.tile(one_a, (k, 1)), np.tile(one_b, (k, 1))
        weights = ", a, b"
    else:
        _, a = draft.keep("a", np.stack([pair[0] for pair in pairs]))
        _, b = draft.keep("b", np.stack([pair[1] for pair in pairs]))
        weights = ", a, b"
    entropies = [entropy_of(draft, float(np.ptp(one))) for one in C]
    if draft.chance(0.5):
        entropies = [entropies[0]] * k
    text, known = limits(draft)
    targets = [entropic_target(judges.LinearCost(C[j]), a[j], b[j], entropies[j]) for j in range(k)]

    def code(c: float) -> str:
        scaled = [c * entropy for entropy in entropies]
        entropy = repr(scaled[0]) if len(set(scaled)) == 1 else repr(scaled)
        return f"answer = cg.transport.solve_batch({c!r} * C{weights}, entropy={entropy}, {text})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        return [
            Claim(
                targets[j],
                answer.plan[j],
                float(answer.value[j]),
                float(answer.lower_bound[j]),
                answer.status[j].name,
                int(answer.iterations[j]),
                float(answer.relative_gap[j]),
            )
            for j in range(k)
        ]

    kinds = ("batch", "Linear", "Entropy", "Transport", kind, draft.precision)
    return [Case(kinds, dict(draft.values), code, claims, **known)]


# Plans that do not carry everything -----------------------------------------------------------------------------------


def unbalanced_cases(draft: Draft) -> list[Case]:
    """`transport.unbalanced`; the judge finds a plan of its own by scaling."""
    draft.torch = False
    n, m = draft.size(9), draft.size(9)
    (_, C), (a, b) = draft.keep("C", random_cost(draft, n, m)), marginals(draft, n, m)
    (_, a), (_, b) = (
        draft.keep("a", a),
        draft.keep("b", b * draft.among(1.0, 1.0, 3.0, draft.power(-3, 3))),
    )
    reach = float(np.abs(C).max()) or 1.0
    entropy = entropy_of(draft, reach)
    reaches = [5 if draft.chance(0.3) else 2 for _ in "ab"]
    prices = [reach * draft.power(-far, far) for far in reaches]
    if draft.chance(0.15):
        prices[draft.among(0, 1)] = np.inf
    elif draft.chance(0.3):
        prices[1] = prices[0]
    text, known = limits(draft)
    formula = judges.Relaxed(C, a, b, entropy, *prices)

    def written(c: float, options: str) -> str:
        pair = ", ".join(f"float({str(c * price)!r})" for price in prices)
        call = f"{c!r} * C, a, b, entropy={c * entropy!r}, penalty=({pair}), {options}"
        return f"answer = cg.transport.unbalanced({call})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        return [result_claim(target, answer.result)._replace(x=answer.plan)]

    def reference(target: Target) -> Case:
        kinds = ("reference", *target.kinds, "newton", "float64")
        best = "tol=1e-13, max_iter=100"
        return Case(
            kinds,
            doubled(target.values),
            lambda c: written(c, best),
            claims,
            tol=1e-13,
            max_iter=0,
            follows_units=False,
        )

    target = Target(
        formula,
        judges.RelaxedPlans(formula),
        (n, m),
        dict(draft.values),
        lambda _c: "",
        ("Linear+MarginalPenalty", "RelativeEntropy", "nonnegative"),
        reference=reference,
        rival=formula.by_scaling,
    )
    kinds = ("unbalanced", *target.kinds, "newton", draft.precision)
    return [Case(kinds, dict(draft.values), lambda c: written(c, text), claims, **known)]


def laplacian_of(draft: Draft, n: int, m: int) -> tuple[judges.LaplacianForm, str, str]:
    """A Laplacian of the plan: its formula, the source of a regulariser, and of a smooth part."""
    weight, d = draft.power(-3, 3), draft.size(4)
    names = ["Ps", "Pt", "Ls", "Lt"]
    Xs, Xt, Ls, Lt = names
    # in float64 like the answers, whatever the precision of the costs
    points = [draft.rng.standard_normal((size, d)) for size in (n, m)]
    exact = [*points, graph(draft, n), graph(draft, m)]
    draft.values |= dict(zip(names, exact, strict=True))
    formula = judges.LaplacianForm(*exact, weight, weight)
    regularizer = f"cg.transport.Laplacian({Xs}, {Xt}, {{0!r}} * {weight!r}, Ls={Ls}, Lt={Lt})"
    weights = f"source_weight={{0!r}} * {weight!r}, target_weight={{0!r}} * {weight!r}"
    return formula, regularizer, f"cg.smooth.TransportLaplacian({Xs}, {Xt}, {Ls}, {Lt}, {weights})"


def partial_cases(draft: Draft) -> list[Case]:
    """`transport.partial`."""
    draft.torch = False
    n, m = draft.size(9), draft.size(9)
    (_, C), (a, b) = draft.keep("C", random_cost(draft, n, m)), marginals(draft, n, m)
    (_, a), (_, b) = draft.keep("a", a), draft.keep("b", b * draft.among(1.0, 1.5, 0.2))
    least = float(min(a.sum(), b.sum()))
    # all of it may be more than the smaller mass by rounding
    mass = least * draft.among(1.0 - 1e-12, 0.9, 0.5, draft.power(-4, -1))
    entropy = 0.0 if draft.chance(0.1) else entropy_of(draft, float(np.ptp(C)))
    parts: list[Any] = [judges.LinearCost(C), judges.NegativeEntropy(entropy)]
    regularizers, smooth = "", ""
    if draft.chance(0.2):
        formula, regularizers, smooth = laplacian_of(draft, n, m)
        parts.append(formula)
        smooth = f" + {smooth}"

    def source(c: float) -> str:
        on = f"cg.sets.PartialTransport(a, b, {mass!r})"
        g = f"Entropy({c * entropy!r}, on={on})" if entropy else f"Zero(on={on})"
        return f"f = {c!r} * cg.smooth.Linear(C){smooth.format(c)}\ng = cg.simple.{g}\n"

    kinds = (
        "Linear+TransportLaplacian" if smooth else "Linear",
        "Entropy" if entropy else "Zero",
        "PartialTransport",
    )
    region = judges.PartialPlans(a, b, mass)
    objective = Total((1.0,) * len(parts), tuple(parts))
    solver = 'method="auto", max_iter=40'
    target = Target(objective, region, (n, m), dict(draft.values), source, kinds, solver)

    def case() -> Case:
        method = draft.among("auto", "auto", "cgs", "cg")
        text, known = limits(draft)

        def code(c: float) -> str:
            call = f"{c!r} * C, a, b, mass={mass!r}, entropy={c * entropy!r}"
            call += f', regularizers=[{regularizers.format(c)}], method="{method}", {text}'
            return f"answer = cg.transport.partial({call})"

        return Case(
            ("partial", *kinds, method, draft.precision),
            dict(draft.values),
            code,
            lambda answer, _c, _warned: [result_claim(target, answer.result)],
            **known,
        )

    return [case(), case()]


# Points ---------------------------------------------------------------------------------------------------------------


def clouds(draft: Draft, n: int, m: int) -> tuple[Array, Array]:
    """Two clouds in one space, far from the origin or not, with points in common or not."""
    d = draft.size(4)
    Xs, Xt = draft.rng.standard_normal((n, d)), draft.rng.standard_normal((m, d))
    if draft.chance(0.3):
        Xt[0], Xs[-1] = Xs[0], Xs[0]
    if draft.chance(0.2):
        Xs, Xt = Xs + (offset := draft.power(0, 3 if draft.single else 6)), Xt + offset
    scale = draft.power(-3, 3) if draft.chance(0.2) else 1.0
    return scale * Xs, scale * Xt


def weights_of(draft: Draft, n: int, m: int) -> tuple[Array, Array, str]:
    """Weights of both clouds, and how to write them in a call: uniform ones are left out."""
    if draft.chance(0.4):
        return np.full(n, 1.0 / n), np.full(m, 1.0 / m), ""
    a, b = marginals(draft, n, m)
    (_, a), (_, b) = draft.keep("a", a), draft.keep("b", b)
    return a, b, ", a, b"


def divergence_cases(draft: Draft) -> list[Case]:
    """`transport.divergence`, each of its plans, and its interval against that of the judge."""
    draft.torch = False
    n, m = draft.size(8), draft.size(8)
    Xs, Xt = clouds(draft, n, m)
    if draft.chance(0.15):
        m, Xt = n, Xs
    (_, Xs), (_, Xt) = draft.keep("Xs", Xs), draft.keep("Xt", Xt)
    a, b, weights = weights_of(draft, n, m)
    between = judges.PointsCost(Xs, Xt)
    entropy = draft.power(-2, 1) * (float(np.ptp(between.C)) or 1.0)
    plan = draft.among("auto", "dense", "streamed")
    text, known = limits(draft)
    known["follows_units"] = False
    pairs = [(between, a, b), (judges.PointsCost(Xs, Xs), a, a), (judges.PointsCost(Xt, Xt), b, b)]
    targets = [entropic_target(cost, of_x, of_y, entropy) for cost, of_x, of_y in pairs]
    call = f'Xs, Xt{weights}, entropy={entropy!r}, plan="{plan}", {text}'
    code = f"answer = cg.transport.divergence({call})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        runs = (answer.between, answer.source, answer.target)
        return [plan_claim(target, run) for target, run in zip(targets, runs, strict=True)]

    def findings(answer: Any) -> list[Finding]:
        runs = (answer.between, answer.source, answer.target)
        plans = [wide(run.dense()) for run in runs]
        brackets = [
            judges.entropic_bracket(cost, of_x, of_y, entropy, plan)
            for (cost, of_x, of_y), plan in zip(pairs, plans, strict=True)
        ]
        solved = list(zip(targets, plans, runs, strict=True))
        values = [target.objective.at(plan).value for target, plan, _ in solved]
        slack = sum(entry_slack(target, plan) for target, plan, run in solved if run.streamed)
        return interval_findings(answer, brackets, values, slack)

    kinds = ("divergence", "Linear", "Entropy", "Transport", plan, draft.precision)
    return [Case(kinds, dict(draft.values), lambda _c: code, claims, findings=findings, **known)]


def interval_findings(
    answer: Any,
    brackets: list[Bracket],
    values: list[Any],
    slack: float,
) -> list[Finding]:
    """What is wrong with the interval of a divergence, given those of its three minima."""
    between, source, target = brackets
    low = between.low - (source.high + target.high) / 2
    high = between.high - (source.low + target.low) / 2
    size = float(between.size + source.size + target.size)
    rounding, noise = judges.UNITS * UNIT * size, judges.UNITS * EXTENDED_UNIT * size
    lower, upper, value = answer.lower_bound, answer.upper_bound, answer.value
    found = []
    for name, excess in (("lower_bound", Wide(lower) - high), ("upper_bound", low - Wide(upper))):
        # a divergence is at least 0 by a theorem, whatever rounding makes of the judge's bounds
        if excess > noise and not (name == "lower_bound" and lower == 0.0):
            kind = "false certificate" if excess > rounding else "above by rounding"
            detail = f"{name} of [{lower!r}, {upper!r}] by {float(excess):.3g}"
            found.append(
                Finding(kind, f"{detail}, where it lies in [{float(low)!r}, {float(high)!r}]"),
            )
    there = min(max(values[0] - (values[1] + values[2]) / 2, Wide(lower)), Wide(upper))
    if not lower <= value <= upper or abs(Wide(value) - there) > rounding + slack:
        found.append(
            Finding(
                "wrong value",
                f"value {value!r} in [{lower!r}, {upper!r}], not {float(there)!r}",
            )
        )
    return found


# Streamed plans -------------------------------------------------------------------------------------------------------

BLOCK_COST = "lambda x, y: abs(x[:, None] - y[None]).sum(axis=2)"


def streamed_cases(draft: Draft) -> list[Case]:
    """`transport.solve` with plan="streamed", and whether all that it says is of one plan."""
    draft.torch = False
    n, m = draft.size(12), draft.size(12)
    kind = draft.among(
        "SquaredEuclidean",
        "SquaredEuclidean",
        "LowRank",
        "LowRank",
        "cosine",
        "BlockCost",
    )
    Xs, Xt = clouds(draft, n, m)
    (_, Xs), (_, Xt) = draft.keep("Xs", Xs), draft.keep("Xt", Xt)
    cost: Any = judges.PointsCost(Xs, Xt, squared=kind == "SquaredEuclidean")
    if kind == "cosine":  # half the squared distances of unit vectors
        units = [wide(X) / np.sqrt(2 * (wide(X) ** 2).sum(axis=1, keepdims=True)) for X in (Xs, Xt)]
        cost = judges.PointsCost(*units)
    elif kind == "BlockCost":
        cost = judges.LinearCost(np.abs(Xs[:, None] - Xt[None]).sum(axis=2))
    factors = f"{BLOCK_COST}, Xs, Xt" if kind == "BlockCost" else "Xs, Xt"
    a, b, weights = weights_of(draft, n, m)
    # all points of a line have two cosines, and rounding makes a difference of nothing
    least = 0.1 if kind == "cosine" else 0.0
    reach = max(float(np.ptp(cost.C)), 1e-3 * float(np.abs(cost.C).max()), least) or 1.0
    entropy = reach * (draft.power(-4, 3) if draft.chance(0.3) else draft.power(-2, 1))
    formula, regularizers, smooth = None, "", ""
    if draft.chance(0.4):
        formula, regularizers, smooth = laplacian_of(draft, n, m)
        smooth = f" + {smooth}"
    _, Y = draft.keep("Y", draft.rng.standard_normal((max(n, m), 3)))
    target = entropic_target(
        cost,
        a,
        b,
        entropy,
        more=formula,
        source=smooth,
        values=doubled(draft.values),
    )

    def case() -> Case:
        method = draft.among("auto", "newton", "newton", "cgs")
        step = draft.among("exact", "open-loop") if method == "cgs" else "exact"
        text, known = limits(draft)
        # a cost that knows no multiple, or whose points would move
        known["follows_units"] = known["follows_units"] and kind == "LowRank"

        def code(c: float) -> str:
            scaled = f"{c!r} * Xs, Xt" if kind == "LowRank" else factors
            call = f"cg.transport.{kind}({scaled}){weights}, entropy={c * entropy!r}"
            call += f', regularizers=[{regularizers.format(c)}], plan="streamed"'
            call += f', method="{method}", step="{step}", {text}'
            return f"answer = cg.transport.solve({call})"

        return Case(
            ("streamed", *target.kinds, f"{method} {kind}", draft.precision),
            dict(draft.values),
            code,
            lambda answer, _c, _warned: [plan_claim(target, answer)],
            findings=lambda answer: product_findings(
                answer,
                target.region,
                Y,
                largest_score(target, answer.dense()),
            ),
            **known,
        )

    return [case(), case()]


def product_findings(answer: Any, region: judges.Plans, Y: Array, score: float) -> list[Finding]:
    """Where products, rows and marginals of a streamed plan are not those of its array.

    Two ways to an entry may differ by as many units of rounding as its score has; marginals are
    exact whatever it has.
    """
    plan = wide(answer.dense())
    n, m = plan.shape
    a, b = region.marginals
    some = np.arange(n)[::-2]
    left, right = wide(Y[:m]), wide(Y[:n])
    pairs = {
        "apply": (answer.apply(Y[:m]), plan @ left, plan @ np.abs(left)),
        "apply_transpose": (answer.apply_transpose(Y[:n]), plan.T @ right, plan.T @ np.abs(right)),
        "rows": (answer.rows(some), plan[some], plan[some]),
        "sources": (answer.apply(np.ones((m, 1)))[:, 0], a, a),
        "targets": (answer.apply_transpose(np.ones((n, 1)))[:, 0], b, b),
    }
    found = []
    for name, (given, expected, size) in pairs.items():
        off = np.abs(wide(given) - expected)
        marginal = name in ("sources", "targets")
        units = PRODUCT_UNITS + (0.0 if marginal else STREAMED_UNITS * score)
        if np.shape(given) != np.shape(expected) or (off > units * UNIT * size.max()).any():
            detail = f"{name} is off by {float(off.max()):.3g} of {float(size.max()):.3g}"
            detail += f", where scores are up to {score:.3g}"
            found.append(Finding("infeasible" if marginal else "wrong value", detail))
    return found


# Barycentres ----------------------------------------------------------------------------------------------------------


def barycenter_cases(draft: Draft) -> list[Case]:
    """`transport.barycenter`, and `transport.free_barycenter` now and then."""
    draft.torch = False
    if draft.chance(0.15):
        return [free_barycenter_case(draft)]
    n, count = draft.size(7), draft.among(1, 2, 2, 3)
    one_cost = draft.chance(0.3)
    widths = [draft.size(6)] * count if one_cost else [draft.size(6) for _ in range(count)]
    different = widths[:1] if one_cost else widths
    costs = [draft.keep(f"C{k}", random_cost(draft, n, w)) for k, w in enumerate(different)]
    names, measures = measures_of(draft, widths)
    formulas = [C for _, C in costs] * (count if one_cost else 1)
    raw = [draft.power(-1, 1) for _ in measures] if draft.chance(0.5) else None
    shares = np.full(count, 1.0 / count) if raw is None else np.array(raw) / np.sum(raw)
    reach = max(float(np.ptp(C)) for C in formulas)
    entropy = 0.0 if draft.chance(0.1) else entropy_of(draft, reach)
    extra: list[tuple[Any, str]] = [(judges.Nothing(), "")] * count
    if draft.chance(0.2):
        k = draft.among(*range(count))
        formula, regularizer, _ = laplacian_of(draft, n, widths[k])
        extra[k] = (formula, regularizer)
    regularized = any(text for _, text in extra)
    parts = tuple(
        Total((1.0, 1.0, 1.0), (judges.LinearCost(C), judges.NegativeEntropy(entropy), more))
        for C, (more, _) in zip(formulas, extra, strict=True)
    )
    objective = judges.Blocks(tuple(map(float, shares)), parts, tuple(widths))
    region = judges.SharedPlans(tuple(measures), (1.0,) * count)

    def written(c: float, options: str) -> str:
        given = [f"{c!r} * {name}" for name, _ in costs]
        cost = given[0] if one_cost else f"[{', '.join(given)}]"
        call = f"{cost}, [{', '.join(names)}], {raw!r}, entropy={c * entropy!r}"
        if regularized:
            call += f", regularizers=[{', '.join(f'[{text.format(c)}]' for _, text in extra)}]"
        return f"answer = cg.transport.barycenter({call}, {options})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        claim = result_claim(target, answer.result)
        return [
            claim._replace(
                x=np.hstack(answer.plans),
                value=answer.value,
                lower_bound=answer.lower_bound,
            )
        ]

    def findings(answer: Any) -> list[Finding]:
        # a scaled plan divided by a small share has as many units of rounding as the share is small
        allowed = PRODUCT_UNITS * UNIT * region.scale
        off = max(float(np.abs(plan.sum(axis=1) - answer.weights).max()) for plan in answer.plans)
        if off <= allowed:
            return []
        return [Finding("infeasible", f"weights differ from the sums of a plan by {off:.3g}")]

    def reference(target: Target) -> Case:
        options = 'method="auto", tol=1e-13, max_iter=60'
        kinds = ("reference", *target.kinds, "auto", "float64")
        return Case(
            kinds,
            doubled(target.values),
            lambda c: written(c, options),
            claims,
            tol=1e-13,
            max_iter=0,
            follows_units=False,
        )

    f_kind = "Linear+TransportLaplacian" if regularized else "Linear"
    target = Target(
        objective,
        region,
        (n, sum(widths)),
        dict(draft.values),
        lambda _c: "",
        (f_kind, "Entropy" if entropy else "Zero", "SharedMarginal"),
        reference=reference,
    )

    def case() -> Case:
        method = draft.among("auto", "cgs", "newton" if entropy and not regularized else "cgs")
        text, known = limits(draft)
        return Case(
            ("barycenter", *target.kinds, method, draft.precision),
            dict(draft.values),
            lambda c: written(c, f'method="{method}", {text}'),
            claims,
            findings=findings,
            **known,
        )

    return [case(), case()]


def free_barycenter_case(draft: Draft) -> Case:
    """Points that are moved; each plan is judged for where they ended."""
    n, d, count = draft.size(5), draft.size(3), draft.among(1, 2, 3)
    clouds_of = [draft.rng.standard_normal((draft.size(5), d)) for _ in range(count)]
    names = [draft.keep(f"X{k}", X)[0] for k, X in enumerate(clouds_of)]
    start, _ = draft.keep("start", draft.rng.standard_normal((n, d)))
    entropy, tol = draft.power(-2, 1), draft.among(1e-6, 1e-3)
    shares = [draft.power(-1, 1) for _ in names]
    options = f"entropy={entropy!r}, tol={tol!r}, max_rounds=8"
    call = f"{start}, [{', '.join(names)}], None, {shares!r}, {options}"
    code = f"answer = cg.transport.free_barycenter({call})"

    def claims(answer: Any, _c: float, _warned: bool) -> list[Claim]:
        return [result_claim(plan_target(found), found.result) for found in answer.plans]

    def findings(answer: Any) -> list[Finding]:
        w = wide(shares) / wide(shares).sum()
        formulas = [
            Total(
                (1.0, 1.0),
                (judges.PointsCost(host64(answer.points), X), judges.NegativeEntropy(entropy)),
            )
            for X in (host64(draft.values[name]) for name in names)
        ]
        plans = [wide(found.plan) for found in answer.plans]
        sized = [formula.at(plan) for formula, plan in zip(formulas, plans, strict=True)]
        value = sum(share * one.value for share, one in zip(w, sized, strict=True))
        rounding = sum(share * one.rounding(UNIT) for share, one in zip(w, sized, strict=True))
        if abs(Wide(answer.value) - value) <= rounding:
            return []
        return [
            Finding("wrong value", f"value {answer.value!r} where the plans have {float(value)!r}"),
        ]

    kinds = ("free barycenter", "Linear", "Entropy", "Transport", "auto", draft.precision)
    return Case(
        kinds,
        dict(draft.values),
        lambda _c: code,
        claims,
        tol=tol,
        follows_units=False,
        findings=findings,
    )


def host64(x: Any) -> Array:
    """In float64."""
    return np.asarray(x, dtype=np.float64)


MAKERS: dict[str, Callable[[Draft], list[Case]]] = {
    "solve_batch": batch_cases,
    "unbalanced": unbalanced_cases,
    "partial": partial_cases,
    "divergence": divergence_cases,
    "barycenter": barycenter_cases,
    "streamed": streamed_cases,
}
"""The families of this module, by name."""
