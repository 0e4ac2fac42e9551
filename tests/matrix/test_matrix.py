"""Every method on every problem, in every unit and precision, against a judge who shares no code with the library.

`lower_bound <= F* <= value` in every cell. The unit decides nothing: for powers of two no rounding differs, so each
iterate is the same bit for bit; in any other unit the run has the same status and, up to one, the same iterations. What
a gap is measured against is stated in `condgrad.certificate`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

import condgrad as cg
from tests.matrix import judge
from tests.matrix.judge import Array
from tests.matrix.problems import (
    FOR_NEWTON,
    LINEARISING,
    LOSSES,
    METHODS,
    PRECISIONS,
    PROBLEMS,
    STEPS,
    Unit,
    data,
    for_newton,
    options_of,
    problem,
    verdict,
    wide_data,
)

CELLS = [
    (name, method)
    for name, method in product(PROBLEMS, METHODS)
    if problem(name).runs(method)
]  # fmt: skip
REFUSED = [pair for pair in product(PROBLEMS, METHODS) if pair not in CELLS]
ONE = Unit()
IN_FLOAT32 = ("float32", "torch.float32")
DESCENDING = ("exact", "memory", "armijo")
MOST_WITH_TORCH = ("ridge_l1ball", "logistic_ridge_l2ball", "hinge_ridge_box", "entropy_simplex")
TIES = {
    ("zero_transport", "cg open-loop"),
    ("zero_transport", "cgs open-loop"),
    ("zero_transport", "pairwise"),
    ("zero_transport", "auto"),
    ("nuclearnorm_nuclearball", "cgs memory"),
    ("nuclearnorm_nuclearball", "auto"),
    ("wide_ridge_l1ball", "cgs open-loop"),
    ("wide_ridge_l1ball", "cgs short"),
    ("weighted_hinge_zero_box", "cgs memory"),
    ("weighted_hinge_zero_box", "cg memory"),
}
"""Where oracle points are nearly as good as each other, rounding chooses, and what follows is another course."""


def some(every: Iterable[tuple[str, ...]]) -> list[ParameterSet]:
    """Cells, which begin with a problem and a method, and of which `make test` takes few: one of each problem, and what
    else has a word, such as a method, a unit or a set, that none before had.
    """
    every = list(every)
    of_problem: dict[str, list[tuple[str, ...]]] = {}
    for each in every:
        if not each[-1].startswith("torch"):
            of_problem.setdefault(each[0], []).append(each)
    # 7 is prime to most numbers of methods, units and precisions, so that each problem comes to others
    chosen = {
        members[7 * k % len(members)]
        for k, (name, members) in enumerate(of_problem.items())
        if name in PROBLEMS
    }
    words = {word for cell in chosen for word in cell}
    for each in (cell for members in of_problem.values() for cell in members):
        new = {word for part in each for word in part.split(", ") if part not in words} - words
        if new:
            chosen.add(each)
            words |= new | set(each)
    return [
        pytest.param(*each, marks=() if each in chosen else (pytest.mark.slow,)) for each in every
    ]


def in_precisions(cells: Iterable[tuple[str, str]], *precisions: str) -> list[tuple[str, str, str]]:
    """With torch those of a few problems, and one of each."""
    cells, of_problem = list(cells), {}
    for name, method in cells:
        of_problem.setdefault(name, []).append(method)
    with_torch = {
        (name, methods[k % len(methods)]) for k, (name, methods) in enumerate(of_problem.items())
    }
    with_torch |= {(name, method) for name, method in cells if name in MOST_WITH_TORCH}
    return [
        (*cell, precision)
        for cell in cells
        for precision in precisions
        if cell in with_torch or not precision.startswith("torch")
    ]


class Walk(NamedTuple):
    """A run, and its iterates as float64."""

    result: cg.Result
    points: list[Array]


def as_float64(x: Any) -> Array:
    """A copy of an array of either library."""
    return np.asarray(x).astype(float)


def walked(name: str, method: str, unit: Unit, precision: str, **options: Any) -> Walk:
    points: list[Array] = []
    f, g, x0 = problem(name).made(unit, PRECISIONS[precision])
    result = cg.minimize(
        f,
        g,
        x0,
        callback=lambda now: points.append(as_float64(now.x)),
        **options_of(method),
        **options,
    )
    return Walk(result, points)


@cache
def solved(name: str, method: str, precision: str = "float64") -> cg.Result:
    """The run in unit 1 that most tests look at, done once."""
    p = problem(name)
    patient = p.promises(method) or method in ("spg", "pqn", "newton", "auto")
    tol, most = (1e-6, 400) if PRECISIONS[precision].single else (1e-9, 3000)
    return walked(
        name, method, ONE, precision, tol=tol, max_iter=most if patient else min(most, p.iterations)
    ).result


def assert_certified(r: cg.Result, name: str, precision: str, unit: Unit = ONE) -> None:
    """lower_bound <= F* <= value, at each iteration and in the answer; float32 points are in the set up to rounding."""
    found, c = verdict(name, PRECISIONS[precision].single), unit.of_f
    lower, upper = c * (found.lower - found.tolerance), c * (found.value + found.tolerance)
    outside = 1e-5 * max(r.scale, c * found.scale) if PRECISIONS[precision].single else 0.0
    trace = r.trace
    assert r.lower_bound <= upper
    assert lower <= r.certificate.upper_bound
    assert lower - outside <= r.value
    assert (trace["lower_bound"] <= upper).all()
    assert (trace["value"] >= lower - outside).all()
    assert (trace["best_value"] >= lower - outside).all()
    assert (trace["gap"] >= trace["value"] - upper - outside).all()


# Certificates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_judge_is_sure_and_the_problem_is_not_trivial(name: str, precision: str) -> None:
    """The bracket is closed to rounding, and the library's start is not the answer."""
    p, judged = problem(name), verdict(name, PRECISIONS[precision].single)
    assert judged.value - judged.lower <= p.width * judged.scale
    assert p.g.on.violation(judged.point) <= 1e-12
    f, g, x0 = p.made(ONE, PRECISIONS[precision])
    first = cg.minimize(f, g, x0, max_iter=0).trace["value"][0]
    assert first > judged.value + 1e-4 * judged.scale


@pytest.mark.parametrize(
    ("name", "method", "precision"), some(in_precisions(CELLS, "float64", *IN_FLOAT32))
)
def test_certificate_holds_at_every_row(name: str, method: str, precision: str) -> None:
    """And x is of the kind of the data, in the set, where F is what the result says."""
    p, kind, r = problem(name), PRECISIONS[precision], solved(name, method, precision)
    assert_certified(r, name, precision)
    x = as_float64(r.x)
    assert r.x.dtype == kind.array([0.0]).dtype
    assert type(r.x) is type(kind.array([0.0]))
    # a float32 point meets its constraints to float32 rounding
    assert p.g.on.violation(x) <= (1e-6 * max(1.0, np.abs(x).sum()) if kind.single else 1e-12)
    if p.g.both is not None:
        F = judge.total(*(part.both(kind) for part in p.f), p.g.both)
        rounding = 1e-6 if kind.single and not p.wide else 1e-12
        assert r.value == pytest.approx(F(x)[0], rel=rounding, abs=1e-14)


@pytest.mark.parametrize(("name", "method"), some(CELLS))
def test_trace_is_a_sound_record(name: str, method: str) -> None:
    """Bounds only rise, the best value only falls, and exact and Armijo steps never climb."""
    r = solved(name, method)
    rounding, trace = 1e-14 * max(r.scale, verdict(name).scale), r.trace
    assert len(trace) == r.iterations + 1
    assert (np.diff(trace["lower_bound"]) >= -rounding).all()
    assert (np.diff(trace["best_value"]) <= 0.0).all()
    assert (trace["best_value"] <= trace["value"]).all()
    assert ((trace["step"] >= 0.0) & (trace["step"] <= 1.0 + 1e-12)).all() or method == "auto"
    if method in LINEARISING:
        assert (np.diff(trace["oracle_calls"]) == 1).all()
    if method.endswith(DESCENDING):
        assert (np.diff(trace["value"]) <= rounding).all()
    assert r.gap == pytest.approx(
        trace["best_value"][-1] - trace["lower_bound"][-1], abs=10 * rounding
    )


@pytest.mark.parametrize(("name", "method"), some(CELLS))
def test_progress_and_honest_status(name: str, method: str) -> None:
    """CONVERGED exactly when the certified gap is within the tolerance; no run ends where it began."""
    r, judged = solved(name, method), verdict(name)
    assert r.success == (r.gap <= 1e-9 * r.scale)
    assert r.success or r.status in (cg.Status.ITERATION_LIMIT, cg.Status.STALLED)
    start = r.trace["value"][0] - judged.value
    assert r.value - judged.value <= 0.1 * start


@pytest.mark.parametrize(
    ("name", "method"), [cell for cell in CELLS if problem(cell[0]).promises(cell[1])]
)
def test_linear_rate_reaches_eight_digits(name: str, method: str) -> None:
    """A strongly convex g promises a linear rate to CGS with exact, Armijo, short and adaptive steps."""
    r, judged = solved(name, method), verdict(name)
    scale = max(r.scale, judged.scale)
    assert r.status is cg.Status.CONVERGED
    assert r.value - judged.lower <= 1e-8 * scale
    assert judged.value - r.lower_bound <= 1e-8 * scale


@pytest.mark.parametrize(("name", "method"), REFUSED)
def test_impossible_pairs_are_refused(name: str, method: str) -> None:
    """What cannot work says so, with the sentence of MissingAbility."""
    sentence = {"away": "vertices", "pairwise": "vertices", "newton": "does not solve"}.get(
        method, r"gradient|smoothness|linear_argmin|project"
    )
    with pytest.raises(cg.MissingAbility, match=sentence):
        solved(name, method)


@pytest.mark.parametrize("step", STEPS)
def test_entropy_from_a_corner_of_a_large_simplex(step: str) -> None:
    """Where entries are zero the entropy bends infinitely: no overflow, and the linear rate all the same."""
    A, y = data(20)
    A, mass = 0.02 * A, 100.0
    judged = judge.mirrored(judge.squares(A, y), 0.1, mass, np.full(6, mass / 6.0))
    r = cg.minimize(
        cg.smooth.LeastSquares(A, y),
        cg.simple.Entropy(0.1, on=cg.sets.Simplex(6, mass=mass)),
        mass * np.eye(6)[0],
        max_iter=2000,
        **options_of(f"cgs {step}"),
    )
    assert judged.value - judged.lower <= 1e-9 * judged.scale
    assert (r.trace["lower_bound"] <= judged.value + judged.tolerance).all()
    assert r.value >= judged.lower - judged.tolerance
    assert r.status is cg.Status.CONVERGED or step == "open-loop"
    assert r.value - judged.value <= 1e-4 * judged.scale


# Precisions -----------------------------------------------------------------------------------------------------------

SURE = [
    (name, method)
    for name, method in CELLS
    if problem(name).promises(method) or method in ("spg", "pqn", "newton", "auto")
]


@pytest.mark.parametrize(("name", "method", "precision"), some(in_precisions(SURE, *IN_FLOAT32)))
def test_float32_comes_as_near_as_it_can(name: str, method: str, precision: str) -> None:
    r, judged = solved(name, method, precision), verdict(name, True)
    scale = max(r.scale, judged.scale)
    assert abs(r.value - judged.value) <= 1e-5 * scale
    assert r.gap <= 1e-4 * scale


@pytest.mark.parametrize(
    ("name", "method", "precision"),
    some(
        in_precisions((cell for cell in CELLS if problem(cell[0]).promises(cell[1])), *IN_FLOAT32)
    ),
)
def test_a_tolerance_beyond_float32_ends_honestly(name: str, method: str, precision: str) -> None:
    """1e-12 cannot be proved in float32: no CONVERGED, and an end before the iteration limit where steps descend."""
    r = walked(name, method, ONE, precision, tol=1e-12, max_iter=1000).result
    assert r.status in (cg.Status.STALLED, cg.Status.ITERATION_LIMIT)
    assert r.gap > 1e-12 * r.scale
    if method.endswith(DESCENDING):
        assert r.status is cg.Status.STALLED
    assert_certified(r, name, precision)


@pytest.mark.parametrize(
    ("name", "method", "precision"),
    some(
        in_precisions(
            (cell for cell in SURE if cell[1] in ("cgs exact", "spg", "newton")), *IN_FLOAT32
        )
    ),
)
def test_converged_means_converged(name: str, method: str, precision: str) -> None:
    """Near float32's reach, too, a run is CONVERGED only if the answer's own gap is within the tolerance."""
    ended = []
    for tol in np.geomspace(2e-7, 5e-6, 4):
        r = walked(name, method, ONE, precision, tol=float(tol), max_iter=400).result
        ended.append(r.success)
        assert not r.success or r.gap <= tol * r.scale, f"tol={tol!r}"
        assert_certified(r, name, precision)
    assert any(ended) or name == "tall_ridge_l1ball"


@pytest.mark.parametrize(
    ("name", "method", "precision"),
    in_precisions((cell for cell in SURE if cell not in TIES), "torch.float64"),
)
def test_torch_float64_agrees_with_numpy(
    name: str, method: str, precision: str, torch: ModuleType
) -> None:
    """The same run in the other library: the same values, bounds and point, up to rounding."""
    ours, theirs = (
        walked(name, method, ONE, each, tol=1e-7, max_iter=60).result
        for each in ("float64", precision)
    )
    assert theirs.x.dtype == torch.float64
    assert theirs.value == pytest.approx(ours.value, rel=1e-9)
    assert theirs.lower_bound == pytest.approx(ours.lower_bound, rel=1e-7)
    assert as_float64(theirs.x) == pytest.approx(ours.x, abs=1e-4)
    head = min(len(ours.trace), len(theirs.trace), 5)
    assert theirs.trace["value"][:head] == pytest.approx(ours.trace["value"][:head], rel=1e-9)


# Units ----------------------------------------------------------------------------------------------------------------

UNITS: dict[str, dict[str, tuple[Unit, ...]]] = {
    "float64": {
        "F, a power of 2": (Unit(2.0**-39), Unit(2.0**38)),
        "F": (Unit(1e-12), Unit(3.7e-5), Unit(1e12)),
        "x, a power of 2": (Unit(1.0, 2.0**-30), Unit(1.0, 2.0**20)),
        "x": (Unit(1.0, 1e-6), Unit(1.0, 1e6)),
        "targets": (Unit(4.0**-20, 2.0**-20, 2.0**-20), Unit(1e10, 1e5, 1e5)),
    },
    "float32": {
        "F, a power of 2": (Unit(2.0**-20), Unit(2.0**19)),
        "F": (Unit(1e-6), Unit(1e6)),
        "x, a power of 2": (Unit(1.0, 2.0**-20), Unit(1.0, 2.0**19)),
        "targets": (Unit(4.0**-9, 2.0**-9, 2.0**-9),),
    },
}


def with_units(cells: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The cells in the units and precisions that they can have."""
    return [
        (name, method, unit, precision)
        for name, method in cells
        for precision, units in UNITS.items()
        for unit in units
        if problem(name).has_unit(unit) and (name in PROBLEMS or precision == "float64")
    ]


@cache
def in_unit_one(name: str, method: str, precision: str) -> Walk:
    """What all other units are compared with."""
    return in_unit(name, method, precision, ONE)


def in_unit(name: str, method: str, precision: str, unit: Unit) -> Walk:
    tol = 1e-2 if PRECISIONS[precision].single else 1e-6
    return walked(name, method, unit, precision, tol=tol, max_iter=50)


@pytest.mark.parametrize(
    ("name", "method", "unit", "precision"),
    some(with_units([*CELLS, *((name, "newton") for name in FOR_NEWTON)])),
)
def test_no_unit_decides(name: str, method: str, unit: str, precision: str) -> None:
    """A power of 2 changes no bit of an iterate; no unit changes the status or, by more than one, the iterations."""
    one = in_unit_one(name, method, precision)
    assert_certified(one.result, name, precision)
    for each in UNITS[precision][unit]:
        other = in_unit(name, method, precision, each)
        assert_certified(other.result, name, precision, each)
        if each.is_exact or (name, method) not in TIES:
            assert other.result.status is one.result.status
            assert abs(other.result.iterations - one.result.iterations) <= 1
        if each.is_exact:
            assert len(other.points) == len(one.points)
            for x, y in zip(other.points, one.points, strict=True):
                np.testing.assert_array_equal(x, each.of_x * y)
            assert other.result.value == each.of_f * one.result.value
            assert other.result.relative_gap == one.result.relative_gap


FAR = [
    (name, method)
    for name, method in CELLS
    if method in ("cgs exact", "newton") and all(part.wide for part in problem(name).f)
]


@pytest.mark.parametrize("of_f", [1e-250, 1e250])
@pytest.mark.parametrize(
    ("name", "method"),
    some([*FAR, *((name, "newton") for name in FOR_NEWTON if "square, " in name)]),
)
def test_units_whose_squares_are_no_numbers(name: str, method: str, of_f: float) -> None:
    unit = Unit(of_f)
    one, other = in_unit_one(name, method, "float64"), in_unit(name, method, "float64", unit)
    assert other.result.status is one.result.status
    assert_certified(other.result, name, "float64", unit)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_gradient_step_where_the_size_of_the_set_over_a_slope_is_no_number(loss: str) -> None:
    """The unit of x is large and that of F small."""
    p, unit = for_newton(loss, "square", "solid simplex", 0.0, True), Unit(2.0**-500, 2.0**400)
    f, g, _ = p.made(unit, PRECISIONS["float64"])
    r, judged = cg.minimize(f, g, method="newton"), p.judged(PRECISIONS["float64"])
    assert r.lower_bound <= unit.of_f * (judged.value + judged.tolerance)
    assert unit.of_f * (judged.lower - judged.tolerance) <= r.value


@pytest.mark.slow  # for the judge
def test_the_dual_of_few_samples_in_units_whose_squares_are_no_numbers() -> None:
    p = for_newton("squared hinge", "wide", "l1", 0.01, True, size=50.0)
    judged, values = p.judged(PRECISIONS["float64"]), []
    for of_f in (1.0, 1e-250, 1e180, 1e250):
        f, g, _ = p.made(Unit(of_f), PRECISIONS["float64"])
        r = cg.minimize(f, g, method="newton")
        values.append(r.value / of_f)
        assert r.status is cg.Status.CONVERGED
        assert r.lower_bound <= of_f * (judged.value + judged.tolerance)
        assert of_f * (judged.lower - judged.tolerance) <= r.value
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


# What a gap is measured against ---------------------------------------------------------------------------------------

WIDE, TARGET = wide_data("squares")


def test_small_is_not_solved() -> None:
    """The null model of a tiny problem is as far from its optimum as that of a large one."""
    f = 1e-8 * cg.smooth.LeastSquares(WIDE, TARGET)
    r = cg.minimize(f, cg.simple.Ridge(1e-9, on=cg.sets.L1Ball(3.0)))
    assert r.success
    assert r.iterations > 0
    assert r.gap <= 1e-4 * r.value


def test_interpolation_is_measured_by_the_null_model() -> None:
    """F* = 0: no gap is small beside it, but it is beside what x = 0 loses."""
    x = np.zeros(40)
    x[:3] = 0.5
    f, g = cg.smooth.LeastSquares(WIDE, WIDE @ x), cg.simple.Zero(on=cg.sets.L1Ball(3.0))
    null = 0.5 * float((WIDE @ x) @ (WIDE @ x))
    for x0 in (None, 0.999 * x):
        r = cg.minimize(f, g, x0, method="spg", tol=1e-8)
        assert r.success
        assert r.scale == pytest.approx(0.01 * null)
        assert r.gap <= 1e-10 * null


def test_terms_that_cancel_keep_their_size() -> None:
    """A cost and an entropy may add up to 0 at the optimum; the scale is theirs."""
    cost = np.random.default_rng(0).random((9, 7))
    P = cg.sets.Transport(np.full(9, 1 / 9), np.full(7, 1 / 7))
    entropy = cg.simple.Entropy(0.1, on=P)
    value = cg.minimize(cg.smooth.Linear(cost), entropy, tol=1e-12).value
    r = cg.minimize(cg.smooth.Linear(cost - value), entropy, tol=1e-9)
    assert r.success
    assert abs(r.value) <= 1e-8
    assert r.scale >= 0.1


def test_a_start_near_the_solution_is_measured_as_any_other() -> None:
    f, g, _ = problem("wide_ridge_l1ball").made(ONE, PRECISIONS["float64"])
    best = cg.minimize(f, g, tol=1e-9)
    again = cg.minimize(f, g, best.x, tol=1e-8)
    assert again.iterations == 0
    assert again.scale == pytest.approx(best.scale)


def test_the_scale_is_where_f_is_known() -> None:
    """An f that is not finite at the null point is measured by its start."""

    def barrier(x: Array) -> tuple[float, Array]:
        return (
            (-float(np.log(x).sum()), -1.0 / x) if (x > 0.0).all() else (np.inf, np.zeros_like(x))
        )

    x0 = np.full(3, 0.5)
    r = cg.minimize(
        cg.smooth.Function(barrier),
        cg.simple.Ridge(1.0, on=cg.sets.Box(0.0, 2.0)),
        x0,
        method="spg",
    )
    assert r.success
    np.testing.assert_allclose(r.x, np.sqrt(0.5), rtol=1e-3)


def test_cg_measures_gaps_as_cgs_does() -> None:
    """CG calls f + g its f; the scale is |f| + |g| all the same."""
    cost = np.random.default_rng(0).random((4, 4))
    g = cg.simple.Entropy(0.3, on=cg.sets.Transport(np.full(4, 0.25), np.full(4, 0.25)))
    scales = [
        cg.minimize(cg.smooth.Linear(cost), g, method=m, max_iter=0).scale for m in ("cg", "cgs")
    ]
    start = g.on.a[:, None] * g.on.b[None, :]
    assert scales[0] == pytest.approx(float((cost * start).sum()) + abs(g.value(start)))
    assert scales[1] <= scales[0] * 1.5
