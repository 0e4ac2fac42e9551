"""Numbers whose squares are no floats: a run ends with a proof or a clear error, and never with a warning."""

from __future__ import annotations

import contextlib
from itertools import product
from typing import Any

import numpy as np
import ot
import pytest
import scipy.optimize
import scipy.sparse

import condgrad as cg
from condgrad.problem import Smooth


@pytest.mark.parametrize(
    "loss", [cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge]
)
@pytest.mark.parametrize("on", [cg.sets.L1Ball, cg.sets.SolidSimplex, cg.sets.L2Ball])
@pytest.mark.parametrize("radius", [1e150, 1e300])
@pytest.mark.parametrize("ridge", [0.1, 1e-300])
def test_radii_whose_squares_are_no_floats(loss: Any, on: Any, radius: float, ridge: float) -> None:
    """Each method says so or proves what the others do not contradict; no warning is given, which would be an error."""
    rng = np.random.default_rng(12)
    K = rng.standard_normal((15, 40))
    f, g = (
        loss(K, np.where(K[:, 0] + rng.standard_normal(15) > 0.0, 1.0, -1.0)),
        cg.simple.Ridge(ridge, on=on(radius)),
    )
    found = []
    for method in ("auto", "cg", "cgs", "pqn", "spg"):
        with contextlib.suppress(cg.NotFiniteError):
            found.append(cg.minimize(f, g, method=method, max_iter=100))
    if ridge == 0.1:
        slack = cg.minimize(f, cg.simple.Ridge(ridge, on=on(1e3)), method="auto")
        assert found[0].value == pytest.approx(slack.value, rel=1e-2)
    for one, other in product(found, repeat=2):
        assert one.lower_bound <= other.value


@pytest.mark.parametrize(
    "loss", [cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge]
)
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [1e-200, 1e-20])
def test_data_whose_squares_are_no_floats(
    loss: Any, kind: Any, intercept: bool, ridge: float
) -> None:
    """The problem is that of data of usual size, in other units: the bounds of one hold for the other."""
    rng, unit = np.random.default_rng(13), 1e160
    K = rng.standard_normal((15, 40))
    y = np.where(K[:, 0] + rng.standard_normal(15) > 0.0, 1.0, -1.0)
    g = cg.simple.Ridge(ridge, on=cg.sets.L1Ball(1.0))
    usual = cg.minimize(loss(K, y, intercept=intercept), g, method="auto", tol=1e-9)
    f = loss(kind(unit * K), y, intercept=intercept)
    for method in ("auto", "newton", "spg"):
        g = cg.simple.Ridge(ridge * unit * unit, on=cg.sets.L1Ball(1.0 / unit))
        with contextlib.suppress(cg.NotFiniteError):
            result = cg.minimize(f, g, method=method, max_iter=30)
            assert result.lower_bound <= usual.value * (1.0 + 1e-9)
            assert result.value >= usual.lower_bound * (1.0 - 1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_the_l2_ball_in_every_unit(unit: float) -> None:
    ball, x = cg.sets.L2Ball(2.0 * unit), unit * np.array([3.0, 4.0])
    assert ball.norm(x) == pytest.approx(5.0 * unit, rel=1e-15)
    np.testing.assert_allclose(ball.project(x), unit * np.array([1.2, 1.6]), rtol=1e-15)
    assert cg.sets.L2Ball(2.0).linear_argmin(x).bound == pytest.approx(-10.0 * unit, rel=1e-15)


@pytest.mark.parametrize("unit", [1.0, 1e307])
def test_a_quadratic_function_in_every_unit(unit: float) -> None:
    """On the hull of remembered points it is least at (1/4, 1/2), inside the simplex, where F* = -9/8."""
    A = np.diag([2.0, np.sqrt(8.0)])
    f = unit * cg.smooth.LeastSquares(A, [0.5, np.sqrt(2.0)])
    r = cg.minimize(f, cg.simple.Zero(on=cg.sets.SolidSimplex(1.0)), memory=3, tol=1e-9, max_iter=9)
    assert r.success
    np.testing.assert_allclose(r.x, [0.25, 0.5], rtol=1e-4)


def transport_minimum(C: Any, entropy: float) -> float:
    """The minimum for uniform weights: SciPy's assignment, exact without entropy, or POT's Sinkhorn."""
    n = len(C)
    if entropy == 0.0:
        return float(C[scipy.optimize.linear_sum_assignment(C)].sum() / n)
    plan = ot.sinkhorn(np.full(n, 1.0 / n), np.full(n, 1.0 / n), C, entropy, stopThr=1e-13)
    return float((C * plan).sum() + entropy * (plan * np.log(plan)).sum())


@pytest.mark.parametrize("method", ["auto", "newton", "cgs", "cg"])
@pytest.mark.parametrize("entropy", [0.0, 0.1, 1e300])
def test_costs_whose_difference_is_no_float(method: str, entropy: float) -> None:
    """The path of entropies would start at infinity and never end."""
    if method == "newton" and entropy == 0.0:
        return
    C = np.where(np.random.default_rng(0).random((4, 5)) > 0.5, 1.7e308, -1.7e308)
    sentence = r"costs from -1.7e\+308 to 1.7e\+308 are farther apart"
    with pytest.raises(cg.NotFiniteError, match=sentence):
        cg.transport.solve(C, entropy=entropy, method=method)


def test_costs_whose_ratio_to_the_entropy_is_no_float() -> None:
    X = np.ldexp(np.random.default_rng(0).standard_normal((2, 3, 2)), 505)
    laplacian = cg.transport.Laplacian(*X, weight=1e6, neighbors=1)
    cost = cg.transport.SquaredEuclidean(*X)
    entropy = float(np.ldexp(0.1, 1010))
    with pytest.raises(cg.NotFiniteError, match="ratio of costs to the entropy"):
        cg.transport.solve(cost, entropy=entropy, regularizers=[laplacian], plan="streamed")


@pytest.mark.parametrize(("method", "entropy"), [("auto", 0.0), ("cgs", 1e-8), ("cg", 1e-8)])
def test_costs_near_the_largest_float_are_certified(method: str, entropy: float) -> None:
    """The sum of all that may be off is no float, while what rounding does to it is."""
    C = np.random.default_rng(0).random((5, 5))
    best = transport_minimum(C, 0.0)
    t = cg.transport.solve(1.7e308 * C, entropy=1.7e308 * entropy, method=method)
    assert t.success
    assert t.lower_bound / 1.7e308 <= best * (1.0 + 1e-12)
    assert best <= t.value / 1.7e308 + entropy * np.log(25.0)


@pytest.mark.parametrize("power", [-1064, -1050, -1030])
@pytest.mark.parametrize("mass", [1.0, 1e6])
@pytest.mark.parametrize(
    ("method", "entropy"), [("cgs", 0.0), ("auto", 1.0), ("newton", 1.0), ("cg", 1.0)]
)
def test_subnormal_costs(method: str, entropy: float, mass: float, power: int) -> None:
    """Costs of few digits, whose multiples by a power of 2 are the judges' and have all of them."""
    C = np.ldexp(np.random.default_rng(1).random((6, 6)), power)
    weight = np.ldexp(entropy, power)
    uniform = np.full(6, mass / 6.0)
    t = cg.transport.solve(C, uniform, uniform, entropy=weight, method=method, max_iter=100)
    best = mass * transport_minimum(np.ldexp(C, -power), entropy)
    best += mass * np.log(mass) * entropy
    error = 1e-9 * mass  # of the judges
    assert np.ldexp(t.lower_bound, -power) <= best + error
    assert best <= np.ldexp(t.result.certificate.upper_bound, -power) + error


class Steep(Smooth):
    """An f of the user's own, whose value overflows on the way."""

    def at(self, x: Any) -> Any:
        np.exp(np.full(2, 1e3))
        return cg.smooth.Function(lambda x: (0.5 * float(x @ x), x)).at(x)


def overflows(_: Any) -> Any:
    """0, with an overflow in between."""
    return float(np.exp(np.full(2, 1e3)).sum() < 0.0)


ON = cg.sets.L1Ball(1.0)
SQUARES = cg.smooth.LeastSquares(np.eye(2), [1.0, 2.0])
OWN_PARTS: dict[str, dict[str, Any]] = {
    "function": {"f": cg.smooth.Function(lambda x: (0.5 * float(x @ x) + overflows(x), x))},
    "smooth": {"f": Steep()},
    "oracle": {"g": cg.simple.Oracle(overflows, lambda c: np.clip(-c, -0.5, 0.5), on=ON)},
    "callback": {"callback": overflows},
}


def run(name: str) -> cg.Result:
    parts = {
        "f": SQUARES,
        "g": cg.simple.Zero(on=ON),
        "x0": np.array([0.3, 0.1]),
        **OWN_PARTS[name],
    }
    return cg.minimize(**parts, max_iter=2)


@pytest.mark.parametrize("name", list(OWN_PARTS))
def test_what_overflows_in_the_users_code_is_reported(name: str) -> None:
    """As NumPy was told to: by a warning that names their line, by an error, or not at all."""
    with pytest.warns(RuntimeWarning, match="overflow encountered") as seen:
        run(name)
    assert {warning.filename for warning in seen} == {__file__}
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow encountered"):
        run(name)
    calls: list[str] = []
    with np.errstate(over="call", call=lambda kind, _: calls.append(kind)):
        run(name)
    assert set(calls) == {"overflow"}
    with np.errstate(over="ignore"):
        run(name)


def test_our_own_overflows_raise_nothing_whatever_numpy_is_told() -> None:
    """The certificate speaks of them in its own words."""
    f, g = (
        cg.smooth.LeastSquares(np.eye(2), [1.0, 2.0]),
        cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1e200)),
    )
    with np.errstate(over="raise"), pytest.raises(cg.NotFiniteError, match="F became inf"):
        cg.minimize(f, g, np.array([1e180, 0.0]))
