"""The softmax loss: SciPy's functions, finite differences, scikit-learn, and the two-class case."""

from __future__ import annotations

from decimal import Decimal, localcontext
from types import ModuleType
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

import condgrad as cg
from tests.fuzz.judges import Softmax, wide

RNG = np.random.default_rng(0)
Z, Y = RNG.standard_normal((30, 4)), RNG.integers(0, 3, 30)
WEIGHTS = RNG.random(30)
X = RNG.standard_normal((4, 3))
intercepts = pytest.mark.parametrize("intercept", [False, True])


def by_definition(x: Any, b: Any = 0.0) -> float:
    return -float(WEIGHTS @ log_softmax(Z @ x + b, axis=1)[np.arange(30), Y])


def test_the_value_by_definition() -> None:
    f = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS)
    assert f.at(X).value == pytest.approx(by_definition(X), rel=1e-13)
    least = minimize(lambda b: by_definition(X, b), np.zeros(3), tol=1e-12)
    here = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS, intercept=True).at(X)
    assert here.value == pytest.approx(least.fun, rel=1e-10)
    np.testing.assert_allclose(here.intercept, least.x - least.x.mean(), atol=1e-5)
    assert abs(here.intercept.sum()) <= 1e-12
    np.testing.assert_allclose(here.theta.sum(axis=0), 0.0, atol=1e-13)


@intercepts
def test_the_gradient(intercept: bool) -> None:
    f = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS, intercept=intercept)
    numeric = approx_fprime(X.ravel(), lambda x: f.at(x.reshape(4, 3)).value, 1e-7)
    np.testing.assert_allclose(f.at(X).gradient.ravel(), numeric, atol=1e-5)


@intercepts
def test_the_restriction(intercept: bool) -> None:
    """Value, slope and curvature along directions are those of f at the points there."""
    f = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS, intercept=intercept)
    ends = [RNG.standard_normal((4, 3)) for _ in range(2)]
    directions = np.stack([end - X for end in ends])
    line = f.at(X).along([f.at(end) for end in ends], directions)
    a, step = np.array([0.2, 0.3]), 1e-5

    def value(a: Any) -> float:
        return float(f.at(X + np.tensordot(a, directions, axes=1)).value)

    local = line.local(a)
    assert line.value(a) == pytest.approx(value(a), rel=1e-12)
    assert local.value == pytest.approx(value(a), rel=1e-12)
    np.testing.assert_allclose(local.slope, approx_fprime(a, value, 1e-7), atol=1e-5)
    slopes = [
        (line.local(a + step * e).slope - line.local(a - step * e).slope) / (2 * step)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(local.curvature, slopes, atol=1e-6)


def test_two_classes_are_the_logistic_loss() -> None:
    y = np.where(Y > 0, 1.0, -1.0)
    x = RNG.standard_normal(4)
    for intercept in (False, True):
        two = cg.smooth.Multinomial(Z, y, intercept=intercept).at(
            np.stack([np.zeros(4), x], axis=1)
        )
        one = cg.smooth.Logistic(Z, y, intercept=intercept).at(x)
        assert two.value == pytest.approx(one.value, rel=1e-12)
        np.testing.assert_allclose(two.gradient[:, 1], one.gradient, atol=1e-10)


@pytest.mark.parametrize("method", ["cgs", "spg", "auto"])
@intercepts
def test_methods_agree_and_prove_it(method: str, intercept: bool) -> None:
    f = cg.smooth.Multinomial(Z, Y, sample_weight=WEIGHTS, intercept=intercept)
    g = cg.simple.Ridge(0.2, on=cg.sets.L1Ball(1.5))
    found = cg.minimize(f, g, method=method, tol=1e-6)
    judged = cg.minimize(f, g, method="pqn", tol=1e-8)
    assert found.success
    assert found.lower_bound <= judged.value
    assert judged.lower_bound <= found.value


@intercepts
def test_layouts_and_precisions(intercept: bool, torch: ModuleType) -> None:
    plain = cg.smooth.Multinomial(Z, Y, intercept=intercept).at(X)
    sparse = cg.smooth.Multinomial(scipy.sparse.csr_array(Z), Y, intercept=intercept).at(X)
    tensor = cg.smooth.Multinomial(torch.as_tensor(Z), Y, intercept=intercept).at(
        torch.as_tensor(X)
    )
    single = cg.smooth.Multinomial(Z.astype(np.float32), Y, intercept=intercept).at(
        X.astype(np.float32)
    )
    for other, tolerance in ((sparse, 1e-12), (tensor, 1e-12), (single, 1e-5)):
        assert other.value == pytest.approx(plain.value, rel=tolerance)
        np.testing.assert_allclose(np.asarray(other.gradient), plain.gradient, atol=100 * tolerance)
    assert single.gradient.dtype == np.float32
    g = cg.simple.Ridge(0.2, on=cg.sets.L1Ball(1.5))
    run = cg.minimize(
        cg.smooth.Multinomial(torch.as_tensor(Z), Y, intercept=intercept), g, method="spg"
    )
    assert isinstance(run.x, torch.Tensor)
    assert run.success


@pytest.mark.parametrize("size", [30.0, 1e3, 1e6])
def test_large_scores_leave_the_intercepts_exact(size: float) -> None:
    """Where most probabilities round to 0 and 1, Newton's method alone sees no curvature."""
    f = cg.smooth.Multinomial(Z, Y, intercept=True)
    here = f.at(size * X)
    assert np.isfinite(here.value)
    assert np.isfinite(here.gradient).all()
    np.testing.assert_allclose(here.theta.sum(axis=0), 0.0, atol=1e-9)
    g = cg.simple.Ridge(1e-6, on=cg.sets.L1Ball(2.0 * size * np.abs(X).sum()))
    bound = cg.minimize(f, g, size * X, method="cgs", max_iter=1).lower_bound
    assert bound <= cg.minimize(f, g, method="spg", max_iter=300).value


def test_no_curvature_left_is_no_warning() -> None:
    """Scores so far apart that the other probabilities are subnormal: the inverse of that curvature overflows."""
    scores = 715.0 * np.eye(3)[[0, 0, 0, 0]]
    f = cg.smooth.Multinomial(np.eye(4), np.array([1, 2, 0, 0]), intercept=True)
    here = f.at(scores)
    assert np.isfinite(here.value)
    np.testing.assert_allclose(here.theta.sum(axis=0), 0.0, atol=1e-9)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="y must have one label for each of the 30 rows"):
        cg.smooth.Multinomial(Z, Y[:-1])
    with pytest.raises(ValueError, match="y must hold at least two classes, got one"):
        cg.smooth.Multinomial(Z, np.zeros(30))
    with pytest.raises(ValueError, match="class number 2 has none"):
        cg.smooth.Multinomial(Z, Y, sample_weight=np.where(Y == 2, 0.0, 1.0), intercept=True)
    assert repr(cg.smooth.Multinomial(Z, Y)) == "Multinomial(30 samples, 4 features, 3 classes)"


def test_intercepts_that_rise_alike_cost_no_digits() -> None:
    """Extended precision as judge, where each class is set against the rest many times."""
    Z = np.array([10.278, 14.198, -32.902, -18.741, -4.804, -22.767, 2.475])[:, None]
    labels = np.array([0, 1, 2, 1, 1, 0, 1])
    f, judge = (
        cg.smooth.Multinomial(Z, labels, intercept=True),
        Softmax(Z, labels, 3, np.ones(7), intercept=True),
    )
    for X in np.random.default_rng(0).uniform(-9.0, 9.0, (20, 1, 3)):
        judged = judge.at(wide(X))
        assert abs(f.at(X).value - judged.value) <= judged.rounding(np.finfo(float).eps)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("margin", [60.0, 200.0])
@pytest.mark.parametrize("blockwise", [False, True])
def test_intercepts_are_the_best_where_losses_are_near_0(
    classes: int, margin: float, blockwise: bool
) -> None:
    """One sample a class, margins alike but for offsets that the intercepts take: k log(1 + (k - 1) exp(-margin)).

    Another sample of the first class, whose loss is nothing beside these, leads means of margins astray.
    """
    offsets = np.arange(1.0, classes + 1.0)
    X = margin * np.eye(classes) + offsets
    Z = np.eye(classes)[[*range(classes), 0]]
    Z[-1] *= 3.0
    data = da.from_array(Z, chunks=(2, classes)) if blockwise else Z
    here = cg.smooth.Multinomial(data, [*range(classes), 0], intercept=True).at(X)
    assert here.value == pytest.approx(
        classes * np.log1p((classes - 1) * np.exp(-margin)), rel=1e-10, abs=0.0
    )
    np.testing.assert_allclose(here.intercept, offsets.mean() - offsets, atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_small_losses_keep_their_digits(scale: float, shift: float) -> None:
    """Against decimal arithmetic; what all classes share is exact in the data and changes nothing."""
    rng = np.random.default_rng(0)
    z = np.round(scale * rng.standard_normal((6, 3)), 3)
    y = z.argmax(axis=1)
    z[np.arange(6), y] += np.round(scale, 3)
    f = cg.smooth.Multinomial(np.eye(6), y)
    value, gradient = f.value_and_gradient(z + shift)
    exact_value, exact = Decimal(0), np.empty((6, 3))
    with localcontext(prec=60):
        for i, row in enumerate(z + shift):
            powers = [(Decimal(float(entry)) - Decimal(float(row[y[i]]))).exp() for entry in row]
            exact_value += sum(powers).ln()
            for k in range(3):
                others = sum(power for j, power in enumerate(powers) if j != k)
                exact[i, k] = float(-others / sum(powers) if k == y[i] else powers[k] / sum(powers))
    assert value == pytest.approx(float(exact_value), rel=1e-14)
    np.testing.assert_allclose(gradient, exact, rtol=1e-13)


def test_no_bound_exceeds_a_value_where_losses_are_small() -> None:
    """Value and bound were off by a rounding unit of z, which was more than they gave away."""
    Z = np.array([[0.0, 694.9245972750632], [0.0, -120.47085045057827], [0.0, 1398.8204791886026]])
    f, g = (
        cg.smooth.Multinomial(Z, [0, 1, 0]),
        cg.simple.Ridge(0.00844, on=cg.sets.NuclearBall(0.0557)),
    )
    r = cg.minimize(f, g, method="cgs", step="open-loop", tol=1e-6, max_iter=100)
    z = Z.astype(np.longdouble) @ r.x.astype(np.longdouble)
    label = np.array([0, 1, 0])
    d = np.delete(z - z[np.arange(3), label][:, None], 0, axis=1)[:, 0] * np.where(label == 0, 1, 0)
    d += np.where(label == 1, z[:, 0] - z[:, 1], 0)
    value = (
        np.log1p(np.exp(d)).sum() + np.longdouble(0.00844) * (r.x.astype(np.longdouble) ** 2).sum()
    )
    assert r.success
    assert r.lower_bound <= value
    assert r.value == pytest.approx(float(value), rel=1e-14)
