"""Data in float32: the answer keeps its kind, the certificate holds in float64, and no status is a wish.

The matrix has every method in float32 and with torch; here are data that float32 makes hard.

The judge sees the float32 data in float64: rounding the data is no part of the library's error.
"""

from __future__ import annotations

import tracemalloc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
import condgrad.linear_model
from tests.matrix.judge import (
    Array,
    polished,
    project_l2,
    ridge,
    squares,
    total,
)
from tests.matrix.problems import data

N = 6


def to_numpy(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("seed", [3, 14, 23, 54, 78])
def test_converged_means_converged_on_other_shapes(seed: int) -> None:
    """Boxes, tall and wide data: F is computed afresh at the end, and may differ."""
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
        assert result.value == pytest.approx(best.value, rel=1e-6)


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
