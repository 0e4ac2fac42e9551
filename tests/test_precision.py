"""float32 and torch: the answer keeps its kind, the certificate holds in float64, and no status is a wish.

The judge sees the float32 data in float64: rounding the data is no part of the library's error.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
import condgrad.linear_model
from tests.test_matrix import (
    Array,
    ValueGradient,
    Verdict,
    data,
    entropy,
    labelled,
    logistic,
    polished,
    project_l1,
    project_l2,
    project_simplex,
    ridge,
    squared_hinge,
    squares,
    total,
)

N = 6
STEPS = ("exact", "memory", "armijo", "open-loop", "short")


@dataclass(frozen=True)
class Case:
    """A loss with float32 data, g by a set, and both again in NumPy."""

    loss: Any
    A: Array
    y: Array
    g: Any
    smooth: ValueGradient
    project: Callable[[Array], Array]


def single(A: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """The data in float32, and the same numbers in float64."""
    a, b = A.astype(np.float32), y.astype(np.float32)
    return a, b, a.astype(np.float64), b.astype(np.float64)


def squares_ridge_l1ball() -> Case:
    a, b, A, y = single(*data(41))
    g = cg.simple.Ridge(0.3, on=cg.sets.L1Ball(0.8))
    return Case(
        cg.smooth.LeastSquares,
        a,
        b,
        g,
        total(squares(A, y), ridge(0.3)),
        lambda v: project_l1(v, 0.8),
    )


def logistic_ridge_l2ball() -> Case:
    a, b, A, y = single(*labelled(42))
    g = cg.simple.Ridge(0.5, on=cg.sets.L2Ball(0.5))
    return Case(
        cg.smooth.Logistic, a, b, g, total(logistic(A, y), ridge(0.5)), lambda v: project_l2(v, 0.5)
    )


def hinge_ridge_box() -> Case:
    a, b, A, y = single(*labelled(43))
    g = cg.simple.Ridge(2.0, on=cg.sets.Box(-0.25, 0.25))
    return Case(
        cg.smooth.SquaredHinge,
        a,
        b,
        g,
        total(squared_hinge(A, y), ridge(2.0)),
        lambda v: np.clip(v, -0.25, 0.25),
    )


def squares_entropy_simplex() -> Case:
    a, b, A, y = single(*data(44))
    g = cg.simple.Entropy(0.5, on=cg.sets.Simplex(N))
    return Case(
        cg.smooth.LeastSquares, a, b, g, total(squares(A, y), entropy(0.5)), project_simplex
    )


def tall_squares_ridge_l1ball() -> Case:
    """Large residuals that cancel in the gradient: float32 loses most of it here."""
    a, b, A, y = single(*data(45, m=2000))
    g = cg.simple.Ridge(0.01, on=cg.sets.L1Ball(20.0))
    return Case(
        cg.smooth.LeastSquares,
        a,
        b,
        g,
        total(squares(A, y), ridge(0.01)),
        lambda v: project_l1(v, 20.0),
    )


CASES = {
    make.__name__: make
    for make in (
        squares_ridge_l1ball,
        logistic_ridge_l2ball,
        hinge_ridge_box,
        squares_entropy_simplex,
        tall_squares_ridge_l1ball,
    )
}


@cache
def case(name: str) -> Case:
    return CASES[name]()


@cache
def optimum(name: str) -> Verdict:
    """The float64 judge of the float32 data."""
    c = case(name)
    judged = polished(c.smooth, lambda v, _: c.project(v), np.full(N, 1.0 / N), diameter=40.0)
    assert judged.value - judged.lower <= 1e-9 * judged.scale
    return judged


@pytest.fixture(params=["numpy", "torch"])
def kind(request: pytest.FixtureRequest) -> Callable[[Array], Any]:
    """float32 arrays of the one library or the other."""
    if request.param == "numpy":
        return lambda v: v.copy()
    library = request.getfixturevalue("torch")
    return lambda v: library.tensor(v)


def solve(
    name: str, kind: Callable[[Array], Any], step: str, tol: float, **options: Any
) -> cg.Result:
    c = case(name)
    return cg.minimize(
        c.loss(kind(c.A), kind(c.y)),
        c.g,
        step="exact" if step == "memory" else step,
        memory=3 if step == "memory" else 0,
        tol=tol,
        **options,
    )


def to_numpy(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64)


# float32 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_float32_certificate_against_the_float64_judge(name: str, kind: Any, step: str) -> None:
    """x is float32, lower_bound <= F*, and the value is F(x) and within 1e-5 of F*."""
    r, judged = solve(name, kind, step, 1e-6, max_iter=400), optimum(name)
    assert r.x.dtype == kind(np.zeros(1, dtype=np.float32)).dtype
    assert r.lower_bound <= judged.value
    assert (r.trace["lower_bound"] <= judged.value).all()
    x = to_numpy(r.x)
    assert r.value == pytest.approx(case(name).smooth(x)[0], rel=1e-12)
    # a float32 point meets its constraints to float32 rounding
    assert np.abs(case(name).project(x) - x).max() <= 1e-6 * max(1.0, np.abs(x).sum())
    if step != "open-loop":
        assert abs(r.value - judged.value) <= 1e-5 * judged.scale
        assert r.gap <= 1e-4 * judged.scale


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_a_tolerance_beyond_float32_ends_honestly(name: str, kind: Any, step: str) -> None:
    """1e-12 cannot be proved in float32: no CONVERGED, and an end before the iteration limit where steps descend."""
    r = solve(name, kind, step, 1e-12, max_iter=1000)
    assert r.status in (cg.Status.STALLED, cg.Status.ITERATION_LIMIT)
    assert r.gap > 1e-12 * r.scale
    assert r.lower_bound <= optimum(name).value
    if step in ("exact", "memory", "armijo"):
        assert r.status is cg.Status.STALLED


@pytest.mark.parametrize("name", CASES)
def test_converged_means_converged(name: str, kind: Any) -> None:
    """Near float32's reach, too, a run is CONVERGED only if the answer's own gap is within the tolerance."""
    ended = []
    for tol in np.geomspace(2e-7, 5e-6, 12):
        r = solve(name, kind, "exact", float(tol), max_iter=400)
        if r.success:
            ended.append(r)
            assert r.gap <= tol * r.scale, f"tol={tol!r}"
        assert r.lower_bound <= optimum(name).value
    assert ended or name == "tall_squares_ridge_l1ball"


@pytest.mark.parametrize("seed", [3, 14, 23, 54, 78])
def test_converged_means_converged_on_other_shapes(seed: int) -> None:
    """The same on boxes, tall and wide data: F is computed afresh at the end, and may differ."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(5, 300)), int(rng.integers(2, 30))
    A = rng.standard_normal((m, n)).astype(np.float32)
    y = (
        A @ rng.standard_normal(n) + rng.choice([0.01, 1.0, 10.0]) * rng.standard_normal(m)
    ).astype(np.float32)
    weight = float(10.0 ** rng.uniform(-2.0, 1.0))
    ridged = cg.simple.Ridge(weight, on=cg.sets.Box(-1.0, 2.0))
    g = ridged if seed in (3, 23, 78) else cg.simple.Entropy(1.0, on=cg.sets.Box(0.5, 3.0))
    for tol in np.geomspace(1e-7, 1e-5, 3):
        r = cg.minimize(cg.smooth.LeastSquares(A, y), g, tol=float(tol), max_iter=150)
        within = r.gap <= tol * r.scale
        assert within or not r.success, f"tol={tol!r}"


# torch ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_torch_float64_agrees_with_numpy(name: str, torch: ModuleType, step: str) -> None:
    """The same run in the other library: the same values, bounds and point, up to rounding."""
    ours = solve(name, lambda v: v.astype(np.float64), step, 1e-7, max_iter=60)
    theirs = solve(name, lambda v: torch.tensor(v, dtype=torch.float64), step, 1e-7, max_iter=60)
    assert isinstance(theirs.x, torch.Tensor)
    assert theirs.x.dtype == torch.float64
    assert theirs.value == pytest.approx(ours.value, rel=1e-9)
    assert theirs.lower_bound == pytest.approx(ours.lower_bound, rel=1e-7)
    assert to_numpy(theirs.x) == pytest.approx(ours.x, abs=1e-4)
    assert theirs.lower_bound <= optimum(name).value + optimum(name).tolerance
    head = min(len(ours.trace), len(theirs.trace), 5)
    assert theirs.trace["value"][:head] == pytest.approx(ours.trace["value"][:head], rel=1e-9)


@pytest.mark.parametrize("unit", [1e-100, 1e-45, 1e100])
@pytest.mark.parametrize("method", ["cgs", "spg", "newton"])
def test_an_objective_beyond_float32_is_told_and_not_certified(unit: float, method: str) -> None:
    """Its gradient would be 0 or infinite there: a bound from it is F itself, or no number."""
    A, y = (part.astype(np.float32) for part in data(5))
    f, g = (
        cg.smooth.LeastSquares(A, y, sample_weight=np.full(len(y), unit)),
        cg.simple.Ridge(unit, on=cg.sets.L1Ball(1.0)),
    )
    with pytest.raises(ValueError, match="give float64 data"):
        cg.minimize(f, g, method=method)
    with pytest.raises(ValueError, match="give float64 data"):
        unit * cg.smooth.LeastSquares(A, y)
    with pytest.raises(ValueError, match="give float64 data"):
        cg.linear_model.path(
            A, y, loss="least-squares", ridge=unit, sample_weight=np.full(len(y), unit)
        )


@pytest.mark.parametrize("unit", [1e-16, 1e16])
def test_small_and_large_targets_have_digits_in_float32(unit: float) -> None:
    """F is 1e-32 or 1e32 here, but its gradient has all its digits."""
    A, y = (part.astype(np.float32) for part in data(5))
    f, g = cg.smooth.LeastSquares(A, unit * y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(unit))
    judge = cg.minimize(
        cg.smooth.LeastSquares(A.astype(np.float64), unit * y.astype(np.float64)),
        g,
        method="newton",
    )
    result = cg.minimize(f, g, method="newton", tol=1e-4)
    assert result.success
    assert result.lower_bound <= judge.value
    assert judge.lower_bound <= result.value * (1.0 + 1e-6)


def least_squares_without_a_constraint(A: Array, y: Array) -> float:
    """LAPACK's optimum in float64."""
    A, y = A.astype(np.float64), y.astype(np.float64)
    return 0.5 * float(((A @ np.linalg.lstsq(A, y)[0] - y) ** 2).sum())


@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("method", ["auto", "spg", "pqn"])
@pytest.mark.parametrize("radius", [1.0, 30.0, 1e3])
def test_an_idle_radius_costs_what_x_has_of_rounding(
    layout: Any, method: str, radius: float
) -> None:
    """The data are float32, but the slopes at the answer, which the radius multiplies, are computed in float64."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((300, 10)).astype(np.float32)
    y = A.astype(np.float64) @ np.full(10, 4e-5) + 1e-2 * rng.standard_normal(300)
    best = least_squares_without_a_constraint(A, y)
    on = cg.sets.L1Ball(radius)
    r = cg.minimize(
        cg.smooth.LeastSquares(layout(A), y), cg.simple.Zero(on=on), method=method, tol=1e-5
    )
    assert r.x.dtype == np.float32
    assert r.lower_bound <= best <= r.certificate.upper_bound
    assert r.value == pytest.approx(best, rel=1e-6)
    # |x|_1 is about 4e-4: a float32 unit of it leaves slopes of 300 |x| units, as a share of F = 0.015
    assert r.relative_gap <= max(1e-5, 3e-5 * radius)
    if not r.success:
        assert "smaller set" in r.message


@pytest.mark.parametrize(
    "kind", [cg.linear_model.ConstrainedElasticNet, cg.linear_model.ConstrainedLogisticRegression]
)
def test_an_idle_radius_of_an_estimator_of_float32_data(kind: Any) -> None:
    """It used to warn that nothing better than 1e-4 was proved."""
    rng = np.random.default_rng(1)
    X, y = (
        rng.standard_normal((400, 8)).astype(np.float32),
        np.where(rng.random(400) < 0.5, 1.0, -1.0),
    )
    single, judge = (kind(300.0, ridge=0.0).fit(data, y) for data in (X, X.astype(np.float64)))
    assert np.all(single.relative_gap_ <= 1.2e-5)
    assert np.all(single.objective_ - single.dual_gap_ <= judge.objective_)
    assert np.all(judge.objective_ - judge.dual_gap_ <= single.objective_ * (1.0 + 1e-6))


@pytest.mark.parametrize("method", ["cgs", "spg", "pqn"])
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_a_run_may_start_where_a_loss_saturates(layout: Any, method: str) -> None:
    """All margins are above 480, where the slopes of the loss are far below what float32 has, and so is the loss.

    What is left is the ridge, which is least at the corner of the box.
    """
    A = np.float32([[220.5, 223.5, 221.25, 222.0, 222.25, 222.0, 220.75, 220.0, 222.0, 222.5]])
    f = 1e-4 * cg.smooth.Logistic(layout(A), np.float32([1.0]))
    on = cg.sets.Box(np.full(10, 0.21875, np.float32), np.full(10, 1.0, np.float32))
    best = 0.0025 * 10 * 0.21875**2
    found = cg.minimize(f, cg.simple.Ridge(0.0025, on=on), method=method, tol=1e-6)
    assert found.success
    assert found.lower_bound <= best <= found.certificate.upper_bound
    assert found.value == pytest.approx(best, rel=1e-5)


def test_weights_that_float32_has_no_digits_for_are_told_where_a_loss_saturates() -> None:
    A = np.full((1, 10), 220.0, np.float32)
    f = cg.smooth.Logistic(A, np.float32([1.0]), sample_weight=[1e-33])
    on = cg.sets.Box(np.full(10, 0.01, np.float32), np.full(10, 1.0, np.float32))
    with pytest.raises(ValueError, match="float32 data are only precise from"):
        cg.minimize(f, cg.simple.Ridge(1e-33, on=on), method="cgs")


def test_no_copy_of_float32_data_is_made_in_float64() -> None:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((1000, 4000)).astype(np.float32)
    f, x = cg.smooth.LeastSquares(A, np.ones(1000)), rng.standard_normal(4000)
    f.column_norms  # noqa: B018
    tracemalloc.start()
    try:
        here = f.at(x)
        gradient = here.gradient
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < A.nbytes / 2
    exact = A.astype(np.float64)
    np.testing.assert_allclose(gradient, exact.T @ (exact @ x - 1.0), rtol=1e-12, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensor_in_tensor_out(torch: ModuleType, dtype: str) -> None:
    """x0 decides where f is a plain callable: library, precision and device of x0 are those of the answer."""
    wanted = getattr(torch, dtype)
    target = torch.linspace(-1.0, 1.0, N, dtype=wanted)
    f = cg.smooth.Function(lambda x: 0.5 * ((x - target) ** 2).sum(), smoothness=1.0)
    x0 = torch.zeros(N, dtype=wanted)
    r = cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L2Ball(0.5)), x0)
    assert r.x.dtype == wanted
    assert r.x.device == x0.device
    # F = |x - t/2|^2 + |t|^2/4: the answer is the projection of t/2
    assert to_numpy(r.x) == pytest.approx(project_l2(0.5 * to_numpy(target), 0.5), abs=1e-3)


def test_a_torch_float32_user_g(torch: ModuleType) -> None:
    """A user's g is asked in the precision of x0 as well: its tensors may not mix with others."""
    weight = torch.linspace(0.5, 1.0, N, dtype=torch.float32)
    target = torch.linspace(-1.0, 1.0, N, dtype=torch.float32)
    f = cg.smooth.LeastSquares(torch.eye(N, dtype=torch.float32), target)
    g = cg.simple.Oracle(
        lambda x: float(torch.dot(weight, x * x)),
        lambda c: torch.clip(-0.5 * c / weight, -0.2, 0.3),
        on=cg.sets.Box(-0.2, 0.3),
        gradient=lambda x: 2.0 * weight * x,
    )
    r = cg.minimize(f, g)
    assert r.x.dtype == torch.float32
    # separable: the clipped minimiser of (x - t)^2/2 + w x^2
    best = np.clip(to_numpy(target) / (1.0 + 2.0 * to_numpy(weight)), -0.2, 0.3)
    assert to_numpy(r.x) == pytest.approx(best, abs=1e-3)


def test_a_torch_float32_user_f_with_its_own_data(torch: ModuleType) -> None:
    """A user's f that multiplies a float32 matrix is never handed a float64 x."""
    A = torch.tensor(data(46)[0], dtype=torch.float32)
    y = torch.tensor(data(46)[1], dtype=torch.float32)
    f = cg.smooth.Function(lambda x: 0.5 * ((A @ x - y) ** 2).sum())
    r = cg.minimize(f, cg.simple.Ridge(0.3, on=cg.sets.L2Ball(0.4)), torch.zeros(N))
    both = total(squares(to_numpy(A), to_numpy(y)), ridge(0.3))
    judged = polished(both, lambda v, _: project_l2(v, 0.4), np.zeros(N), diameter=0.8)
    assert r.x.dtype == torch.float32
    assert r.value == pytest.approx(judged.value, rel=1e-5)


# Inputs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cgs", "cg"])
@pytest.mark.parametrize("step", ["exact", "memory", "armijo", "open-loop"])
@pytest.mark.parametrize("name", CASES)
def test_inputs_are_never_modified(name: str, kind: Any, step: str, method: str) -> None:
    """Data and x0 are the same numbers after the run."""
    c = case(name)
    A, y, x0 = (
        kind(c.A),
        kind(c.y),
        kind(np.asarray(c.project(np.full(N, 1.0 / N)), dtype=np.float32)),
    )
    before = [to_numpy(v).copy() for v in (A, y, x0)]
    options = {"step": "exact", "memory": 3} if step == "memory" else {"step": step}
    r = cg.minimize(c.loss(A, y), c.g, x0, method=method, max_iter=20, **options)
    assert r.iterations > 0
    for now, then in zip((A, y, x0), before, strict=True):
        assert np.array_equal(to_numpy(now), then)


@pytest.mark.parametrize("name", ["squares_ridge_l1ball", "squares_entropy_simplex"])
def test_the_answer_is_not_the_callers_array(name: str) -> None:
    """Read-only inputs are enough, and writing into the answer leaves x0 alone unless no step was taken."""
    c = case(name)
    A, y, x0 = c.A.copy(), c.y.copy(), np.full(N, 1.0 / N, dtype=np.float32) * 0.5
    if name == "squares_entropy_simplex":
        x0 *= 2.0
    for v in (A, y, x0):
        v.setflags(write=False)
    r = cg.minimize(c.loss(A, y), c.g, x0, max_iter=50)
    assert r.x is not x0
    assert not np.shares_memory(r.x, x0)
    assert abs(r.value - optimum(name).value) <= 1e-5 * optimum(name).scale


def test_a_sum_of_two_precisions_is_as_coarse_as_the_coarser() -> None:
    """In either order: the run is in float64, and the bound gives away what the float32 term may have lost."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((40, 8)), rng.standard_normal(40)
    coarse = cg.smooth.LeastSquares(A.astype(np.float32), y.astype(np.float32))
    fine = cg.smooth.LeastSquares(A, y)
    g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(0.5))
    same = cg.smooth.LeastSquares(
        A.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    )
    best = cg.minimize(fine + same, g, tol=1e-12)
    for f in (fine + coarse, coarse + fine):
        result = cg.minimize(f, g, tol=1e-10, max_iter=2000)
        assert result.x.dtype == np.float64
        assert result.lower_bound <= best.value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scaled_features_of_float32_data_are_rounded() -> None:
    """Factors divide float32 columns, which rounds them: no bound may be finer than that."""
    X = np.float32(
        [
            [930.6154174804688, 929.4794311523438, 929.9841918945312],
            [930.0457153320312, 928.9203491210938, 928.6192016601562],
            [931.3682250976562, 929.6133422851562, 932.29150390625],
            [929.9109497070312, 929.6494750976562, 931.7603759765625],
            [931.1026611328125, 929.7007446289062, 929.4351196289062],
            [930.4996948242188, 930.4599609375, 929.458984375],
        ]
    )
    y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    w = np.array(
        [
            0.7300438251059,
            2.2473616241807446,
            0.19129663920687429,
            0.58421466,
            1.15884955,
            2.14928075,
        ]
    )
    factors = np.array([4.652830156604558, 3.734465679839347, 4.514825236353556])
    options: dict[str, Any] = {"radius": 3.77, "ridge": 0.625, "penalty_factors": factors}
    f = cg.smooth.Logistic(X.astype(np.float64) / factors, y, sample_weight=w, intercept=True)

    def objective(model: Any) -> float:
        x = factors * np.ravel(model.coef_).astype(np.float64)
        return float(f.at(x).value + 0.625 * (x @ x))

    narrow, wide = (
        cg.linear_model.ConstrainedLogisticRegression(**options, tol=tol).fit(
            data, y, sample_weight=w
        )
        for data, tol in ((X, 1e-6), (X.astype(np.float64), 1e-13))
    )
    assert narrow.objective_ - narrow.dual_gap_ <= objective(wide)
