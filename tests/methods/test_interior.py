"""Newton's method inside polytopes, against CVXPY; the two ways of its equations; what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad import MissingAbility
from condgrad.sets.barrier import Equations, Inequalities, InnerPoint, SquaredRows, System

Array = np.ndarray
Judge = Callable[[Any, Array], Any]
LOSSES: dict[str, tuple[Any, Judge]] = {
    "squares": (cg.smooth.LeastSquares, lambda z, y: 0.5 * cvxpy.square(z - y)),
    "logistic": (cg.smooth.Logistic, lambda z, y: cvxpy.logistic(-cvxpy.multiply(y, z))),
    "squared hinge": (
        cg.smooth.SquaredHinge,
        lambda z, y: cvxpy.square(cvxpy.pos(1 - cvxpy.multiply(y, z))),
    ),
    "poisson": (
        cg.smooth.Poisson,
        lambda z, y: cvxpy.exp(z) - cvxpy.multiply(y, z) + scipy.special.xlogy(y, y) - y,
    ),
    "gamma": (
        cg.smooth.Gamma,
        lambda z, y: z + cvxpy.multiply(y, cvxpy.exp(-z)) - np.log(y) - 1.0,
    ),
    "huber": (cg.smooth.Huber, lambda z, y: 0.5 * cvxpy.huber(z - y, 1.35)),
}


def targets(loss: str, m: int, rng: np.random.Generator) -> Array:
    if loss in ("squares", "huber"):
        return 2.0 * rng.standard_normal(m)
    if loss == "poisson":
        return rng.poisson(2.0, m).astype(float)
    if loss == "gamma":
        return rng.gamma(2.0, 1.0, m) + 0.1
    return np.where(np.arange(m) % 2, 1.0, -1.0)


def constraints(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Rows of many entries and of few, equations, and bounds of which some leave no choice."""
    inside = rng.random(n)
    upper = np.where(rng.random(n) < 0.1, 0.5, 1.0)
    lower = np.where(upper == 0.5, 0.5, 0.0)
    inside = np.clip(inside, lower, upper)
    p = int(rng.integers(0, n))
    q = int(rng.integers(0, max(1, n // 3)))
    A = rng.standard_normal((p, n)) * (rng.random((p, n)) < rng.choice([0.1, 0.8]))
    E = rng.standard_normal((q, n))
    made: dict[str, Any] = {"bounds": np.column_stack([lower, upper])}
    if p:
        made |= {"A_ub": scipy.sparse.csr_array(A), "b_ub": A @ inside + rng.random(p)}
    if q:
        made |= {"A_eq": E, "b_eq": E @ inside}
    return made


def asked(made: dict[str, Any], x: Any) -> list[Any]:
    """The same constraints for CVXPY."""
    rows = [x >= made["bounds"][:, 0], x <= made["bounds"][:, 1]]
    if "A_ub" in made:
        rows.append(made["A_ub"] @ x <= made["b_ub"])
    if "A_eq" in made:
        rows.append(made["A_eq"] @ x == made["b_eq"])
    return rows


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(2, 40),
    is_sparse=st.booleans(),
    intercept=st.booleans(),
)
def test_it_agrees_with_clarabel_and_proves_it(
    loss: str, seed: int, m: int, is_sparse: bool, intercept: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    K = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5) / np.sqrt(n)
    y = targets(loss, m, rng)
    tilt = rng.standard_normal(n)
    made = constraints(n, rng)
    smooth, judge = LOSSES[loss]
    on = cg.sets.Polytope(**made)
    f = smooth(scipy.sparse.csr_array(K) if is_sparse else K, y, intercept=intercept)
    r = cg.minimize(
        f + cg.smooth.Linear(tilt), cg.simple.Zero(on=on), method="newton", tol=1e-8, time_limit=9.0
    )
    x = cvxpy.Variable(n)
    b = cvxpy.Variable() if intercept else 0.0
    goal = cvxpy.sum(judge(K @ x + b, y)) + tilt @ x
    best = cvxpy.Problem(cvxpy.Minimize(goal), asked(made, x)).solve(solver="CLARABEL")
    slack = 1e-6 * (1.0 + abs(best))
    assert r.success
    assert r.lower_bound <= best + slack
    assert best - slack <= r.value
    assert on.violation(r.x) <= 1e-12


def portfolio(n: int, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    """Factors and own risks; sectors of no more than a fifth, no asset above a tenth."""
    root = np.vstack([0.1 * rng.standard_normal((5, n)), np.diag(0.05 + 0.1 * rng.random(n))])
    gain = 0.05 * rng.standard_normal(n)
    sectors = np.eye(10)[rng.integers(0, 10, n)].T
    f = cg.smooth.LeastSquares(root, np.zeros(len(root))) + cg.smooth.Linear(-gain)
    return f, {
        "A_ub": sectors,
        "b_ub": np.full(10, 0.2),
        "A_eq": np.ones((1, n)),
        "b_eq": [1.0],
        "bounds": (0.0, 0.1),
    }


def test_portfolios_hold_no_dust_and_take_no_linear_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, made = portfolio(120, np.random.default_rng(0))

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a linear program")

    monkeypatch.setattr(scipy.optimize, "linprog", refused)
    r = cg.minimize(f, cg.simple.Zero(on=cg.sets.Polytope(**made)), method="auto")
    assert (r.status, r.method) == (cg.Status.CONVERGED, "newton")
    assert r.iterations <= 25
    assert np.count_nonzero(r.x == 0.0) > 60
    assert not ((r.x > 0.0) & (r.x < 1e-5)).any()


@settings(max_examples=6)
@given(
    seed=st.integers(0, 100), of_f=st.sampled_from([1e-9, 1e9]), of_x=st.sampled_from([1e-6, 1e6])
)
def test_units_change_nothing(seed: int, of_f: float, of_x: float) -> None:
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((8, 5))
    y = rng.standard_normal(8)

    def solved(of_f: float, of_x: float) -> cg.Result:
        f = of_f * cg.smooth.LeastSquares(K / of_x, y)
        on = cg.sets.Polytope(A_eq=np.ones((1, 5)), b_eq=[of_x], bounds=(0.0, 0.6 * of_x))
        return cg.minimize(f, cg.simple.Zero(on=on), method="newton")

    here = solved(1.0, 1.0)
    there = solved(of_f, of_x)
    np.testing.assert_allclose(there.x / of_x, here.x, atol=1e-5)
    assert there.value / of_f == pytest.approx(here.value, rel=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), power=st.integers(-60, 60))
def test_a_power_of_2_changes_no_bit(seed: int, power: int) -> None:
    """Odd powers, too, whose roots are no powers of 2."""
    rng = np.random.default_rng(seed)
    f = cg.smooth.Logistic(rng.standard_normal((8, 5)), np.where(rng.random(8) < 0.5, 1.0, -1.0))
    g = cg.simple.Zero(on=cg.sets.Polytope(**constraints(5, rng)))
    try:
        here = cg.minimize(f, g, method="newton", tol=1e-9)
    except MissingAbility:
        return
    there = cg.minimize(2.0**power * f, g, method="newton", tol=1e-9)
    assert there.iterations == here.iterations
    assert there.x.tolist() == here.x.tolist()
    assert there.lower_bound == 2.0**power * here.lower_bound


@pytest.mark.parametrize("loss", ["logistic", "squared hinge", "huber", "gamma"])
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 15))
def test_a_set_that_is_a_point_is_proved(loss: str, seed: int, n: int) -> None:
    """By as many equations as coordinates: all that a step changes are prices."""
    rng = np.random.default_rng(seed)
    E = np.linalg.qr(rng.standard_normal((n, n)))[0]
    only = 0.1 + 0.8 * rng.random(n)
    on = cg.sets.Polytope(A_eq=E, b_eq=E @ only, bounds=(0.0, 1.0))
    smooth, _ = LOSSES[loss]
    f = smooth(rng.standard_normal((4, n)), targets(loss, 4, rng))
    r = cg.minimize(f, cg.simple.Zero(on=on), method="newton", tol=1e-9)
    assert r.success
    np.testing.assert_allclose(r.x, only, atol=1e-12)


@pytest.mark.parametrize("share", [1e-5, 1e-6, 1e-8])
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_equations_that_nearly_depend_on_each_other_let_no_point_out(
    share: float, seed: int
) -> None:
    """Their prices are large: a point a little off them would be far below the minimum."""
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((3, 8))
    E[2] = E[1] + share * E[2]
    b = E @ (0.2 + 0.6 * rng.random(8))
    g = cg.simple.Zero(on=cg.sets.Polytope(A_eq=E, b_eq=b, bounds=(0.0, 1.0)))
    f = cg.smooth.Logistic(rng.standard_normal((9, 8)), np.where(np.arange(9) % 2, 1.0, -1.0))
    inside = cg.minimize(f, g, method="newton")
    r = cg.minimize(f, g, method="auto", max_iter=1000)
    for each in (inside, r):
        assert np.abs(E @ each.x - b).max() <= 1e-11
    assert r.lower_bound <= r.value <= inside.value + 1e-5
    assert r.relative_gap <= 1e-4


@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_steps_solve_the_equations_both_ways(whole: bool, seed: int) -> None:
    """Against the dense equations of all unknowns."""
    rng = np.random.default_rng(seed)
    n = 7
    A = rng.standard_normal((4, n)) * (rng.random((4, n)) < 0.5)
    E = rng.standard_normal((2, n))
    rows = rng.standard_normal((3, n))
    few = np.eye(n)[:4] + np.eye(n)[1:5]
    on = Inequalities(scipy.sparse.csr_array(A), np.ones(4), E, np.ones(2), -np.ones(n), np.ones(n))
    H = SquaredRows(scipy.sparse.csr_array(few), rows)
    count = 4 + 2 * n
    at = InnerPoint(
        0.1 * rng.standard_normal(n), 0.1 + rng.random(count), 0.1 + rng.random(count), np.zeros(2)
    )
    residual = rng.standard_normal(n)
    short = rng.standard_normal(count)
    missed = rng.standard_normal(count)
    step = Equations(System(on, H, whole=whole), at).step(residual, short, missed)
    C = np.vstack([A, -np.eye(n), np.eye(n)])
    square = rows.T @ rows + few.T @ few
    np.testing.assert_allclose(square @ step.v + C.T @ step.z + E.T @ step.y, -residual, atol=1e-9)
    np.testing.assert_allclose(at.s * step.z + at.z * step.s, short, atol=1e-9)
    np.testing.assert_allclose(step.s, missed - C @ step.v, atol=1e-9)
    np.testing.assert_allclose(E @ (at.v + step.v), on.e, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_centres_are_inside_and_balanced(seed: int) -> None:
    """Slacks have about the largest product: no other point of the set has a much larger one."""
    rng = np.random.default_rng(seed)
    on = cg.sets.Polytope(**constraints(6, rng))
    if on.inside is None:
        return
    at = on.inner(on.centre)
    product = np.log(on.inside.slacks(at)).sum()
    assert on.inside.violation(at) <= 1e-12
    for _ in range(5):
        there = on.inner(on.linear_argmin(rng.standard_normal(6)).point)
        between = on.inside.slacks(0.5 * (at + there))
        assert np.log(between).sum() <= product + 1.0


def test_sparse_rows_are_never_made_dense() -> None:
    """A curve of 3000 values that may not fall: its equations have three diagonals."""
    n = 3000
    rng = np.random.default_rng(0)
    y = np.sort(rng.standard_normal(n)) + rng.standard_normal(n)
    steps = scipy.sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n))
    on = cg.sets.Polytope(A_ub=-steps, b_ub=np.zeros(n - 1), bounds=(-6.0, 6.0))
    f = cg.smooth.LeastSquares(scipy.sparse.eye_array(n, format="csr"), y)
    r = cg.minimize(f, cg.simple.Zero(on=on), method="newton", tol=1e-9)
    best = scipy.optimize.isotonic_regression(y).x
    assert r.success
    assert r.value == pytest.approx(0.5 * float(((best - y) ** 2).sum()), rel=1e-8)


@pytest.mark.parametrize(
    ("smooth", "made", "sentence"),
    [
        (
            cg.smooth.LeastSquares(np.eye(2), np.ones(2)),
            {"A_ub": [[1.0, 1.0], [-1.0, -1.0]], "b_ub": [1.0, -1.0]},
            "has no inside",
        ),
        (cg.smooth.Linear(np.ones(2)), {"bounds": [(0, 1)] * 2}, r"is not a loss h\(Kx\)"),
        (
            cg.smooth.LeastSquares(np.eye(2), np.ones(2)),
            {"bounds": [(1, 1)] * 2},
            "has no inside",
        ),
    ],
)
def test_what_it_does_not_solve_is_named_and_left_to_the_next(
    smooth: Any, made: dict[str, Any], sentence: str
) -> None:
    g = cg.simple.Zero(on=cg.sets.Polytope(**made))
    with pytest.raises(MissingAbility, match=sentence):
        cg.minimize(smooth, g, method="newton")
    r = cg.minimize(smooth, g, method="auto")
    assert (r.success, r.method) == (True, "cgs")


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), reach=st.sampled_from([300.0, 1e3, 3e3]))
def test_infinite_values_elsewhere_end_no_run(loss: str, seed: int, reach: float) -> None:
    """In corners, or at the centre: at the start point the loss is moderate."""
    rng = np.random.default_rng(seed)
    K = reach * rng.standard_normal((4, 3))
    on = cg.sets.Polytope(bounds=[(-0.5, 1.0 + rng.random())] * 3)
    smooth, _ = LOSSES[loss]
    f = smooth(K, targets(loss, 4, rng))
    r = cg.minimize(f, cg.simple.Zero(on=on), method="newton", x0=np.zeros(3), tol=1e-3)
    assert np.isfinite(r.value)
    assert r.lower_bound <= r.value <= f.at(np.zeros(3)).value


def test_limits_and_starts() -> None:
    f, made = portfolio(30, np.random.default_rng(1))
    g = cg.simple.Zero(on=cg.sets.Polytope(**made))
    begin = np.repeat([0.1, 0.0], [10, 20])
    made["b_ub"] = np.ones(10)  # where ten assets may be of one sector
    g = cg.simple.Zero(on=cg.sets.Polytope(**made))
    whole = cg.minimize(f, g, method="newton", x0=begin)
    assert whole.success
    assert whole.trace["value"][0] == pytest.approx(f.at(begin).value)
    assert cg.minimize(f, g, method="newton", time_limit=0.0).status is cg.Status.TIME_LIMIT
    short = cg.minimize(f, g, method="newton", max_iter=3)
    assert short.status is cg.Status.ITERATION_LIMIT
    assert short.lower_bound <= whole.value <= short.value
    exact = cg.minimize(f, g, method="newton", tol=0.0)
    assert exact.status is cg.Status.STALLED
    assert exact.relative_gap <= 1e-11
