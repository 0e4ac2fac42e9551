"""Faults that users and random problems found, each as the case that showed it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import condgrad as cg
from condgrad.linear_model import ConstrainedElasticNetCV
from condgrad.methods.in_turn import InTurn


def test_entropies_that_cancel_claim_nothing_in_float32() -> None:
    """Terms of size 1e5 log 4 cancel in the oracle's bound: F* is 4.499775, not the 4.5 that was once proved."""
    g = cg.simple.Entropy(1e5, on=cg.sets.Simplex(4, 4.0))
    A = np.array([[0, 1, 2, 3]], dtype=np.float32)
    assert cg.minimize(cg.smooth.LeastSquares(A, [3.0]), g).lower_bound <= 4.499775


def test_an_entropy_far_above_the_cost_is_no_contradiction() -> None:
    cost = np.random.default_rng(0).random((2, 3))
    assert cg.transport.solve(cost, [3.0, 3.0], [2.0, 2.0, 2.0], entropy=1e6, method="cgs").success


@pytest.mark.parametrize("method", ["cgs", "spg", "pqn", "newton", "auto"])
def test_losses_below_the_numbers_of_float32(method: str) -> None:
    """A separable problem: theta is below what float32 can hold, and the bound must know that it was lost."""
    Z = np.array([[10, 3], [7, 10]], dtype=np.float32)
    result = cg.minimize(
        cg.smooth.Logistic(Z, [1, 1]), cg.simple.Zero(on=cg.sets.L1Ball(30.0)), method=method
    )
    assert result.success
    assert result.lower_bound <= 0.0 <= result.value


@pytest.mark.parametrize("method", ["cgs", "spg", "auto"])
def test_rounding_where_f_is_zero(method: str) -> None:
    """One sample and an intercept: F* = 0, and the residual is nothing but rounding."""
    f = cg.smooth.LeastSquares([[1.0, 2.0]], [3.3e7], intercept=True)
    for x0 in ([0.3, 0.7], [1.0, 0.1]):
        result = cg.minimize(f, cg.simple.Zero(on=cg.sets.Box(0.0, 1.0)), x0, method=method)
        assert result.lower_bound <= 0.0


def test_exact_steps_never_raise_f() -> None:
    f, g = cg.smooth.SquaredHinge([[1e6]], [1]), cg.simple.Ridge(1.0, on=cg.sets.L2Ball(30.0))
    assert (np.diff(cg.minimize(f, g, max_iter=3).trace["value"]) <= 0.0).all()


def test_a_search_without_curvature_finds_its_step() -> None:
    """False position crept along one side of its bracket, and after a hundred trials the step was 0."""
    f, radius, weight = cg.smooth.SquaredHinge([[-1.0, 1.2, -0.2, -1.0, -0.4]], [1]), 9.76, 0.0275
    box = cg.sets.Box(-radius, radius)
    own = cg.simple.Oracle(
        lambda x: weight * float(x @ x),
        lambda c: (-0.5 / weight * c).clip(-radius, radius),
        on=box,
        gradient=lambda x: 2.0 * weight * x,
    )
    best = cg.minimize(f, cg.simple.Ridge(weight, on=box), tol=1e-6)
    assert cg.minimize(f, own, tol=0.0, max_iter=20).value <= 1.1 * best.value


class BallAroundOnes(cg.sets.Set):
    """A set of a user's own, whose projection rounds in units of its centre."""

    def __init__(self, radius: float) -> None:
        self.radius, self.scale = radius, radius + 1.0

    def start(self, space: Any) -> Any:
        return space.full(1.0)

    def violation(self, x: Any) -> float:
        return max(0.0, float(((x - 1.0) ** 2).sum()) ** 0.5 - self.radius)

    def project(self, x: Any) -> Any:
        d = x - 1.0
        length = float((d * d).sum()) ** 0.5
        return x if length <= self.radius else 1.0 + (self.radius / length) * d


def test_a_projection_that_rounds_in_units_of_its_centre() -> None:
    """|x| is least in the ball at (1 - radius/sqrt(n)) 1, known to more digits than the projection has."""
    n, radius, weight = 13, 3.55, 5.58e6
    least = (
        weight
        * n
        * float(np.longdouble(1.0) - np.longdouble(radius) / np.sqrt(np.longdouble(n))) ** 2
    )
    result = cg.minimize(
        cg.smooth.Linear(np.zeros(n)),
        cg.simple.Ridge(weight, on=BallAroundOnes(radius)),
        tol=0.0,
        max_iter=20,
    )
    assert result.lower_bound <= least


def test_a_steep_ball_in_float32() -> None:
    """A radius over a tiny gradient is beyond float32."""
    answer = cg.sets.L2Ball(30.0).linear_argmin(np.array([3e-39, 4e-39], dtype=np.float32))
    np.testing.assert_allclose(answer.point, [-18.0, -24.0], rtol=1e-5)


def test_sparse_float32_data() -> None:
    Z = scipy.sparse.csr_array(np.array([[-1.3], [0.4]], dtype=np.float32))
    f = cg.smooth.Logistic(Z, [-1.0, 1.0])
    assert cg.minimize(f, cg.simple.Zero(on=cg.sets.L1Ball(5.7)), method="auto", tol=1e-4).success


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


def test_ctrl_c_in_compiled_code_keeps_the_answer() -> None:
    """Compiled code makes a SystemError of a KeyboardInterrupt."""

    def stop(now: cg.Progress) -> None:
        if now.iteration == 3:
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    f = cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0])
    result = cg.minimize(
        f, cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)), step="open-loop", tol=0.0, callback=stop
    )
    assert result.status is cg.Status.INTERRUPTED
    assert result.iterations == 3


@pytest.mark.parametrize(("columns", "target"), [(1e-4, 1e6), (1.0, 1.0), (1e-6, 1e-6)])
def test_default_radii_follow_the_units(columns: float, target: float) -> None:
    """Up to the norm of the solution without a constraint, however little the ridge leaves of it."""
    rng = np.random.default_rng(0)
    X = columns * rng.standard_normal((60, 5))
    y = target * (rng.standard_normal(60) + X[:, 0] / columns)
    centred = X - X.mean(axis=0)
    free = np.linalg.solve(centred.T @ centred + np.eye(5), centred.T @ (y - y.mean()))
    assert ConstrainedElasticNetCV(n_radii=3, ridges=[0.5]).fit(X, y).radii_[-1] == pytest.approx(
        np.abs(free).sum(), rel=0.1
    )


class Broken:
    """A method that has no step after its first iterate."""

    name = "broken"

    def __init__(self, method: Any) -> None:
        self.f, self.g, self.inner = method.f, method.g, method

    def iterates(self, x: Any) -> Any:
        yield next(self.inner.iterates(x))
        raise np.linalg.LinAlgError("singular")


def test_auto_survives_equations_without_a_solution() -> None:
    """What one method cannot solve is no end of the run where another can go on."""

    from condgrad.loop import run
    from condgrad.methods import SPG
    from condgrad.stopping import RelativeGap

    f, g = (
        cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0]),
        cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)),
    )
    in_turn = InTurn(Broken(SPG(f, g)), iter([SPG(f, g)]))
    result = run(in_turn, np.zeros(3), stop=RelativeGap(1e-6), max_iter=100)
    assert result.success
    assert result.method == "broken, then spg"


def test_the_last_dead_end_is_told() -> None:
    """Equations without a solution are the run's end where no other method is left."""
    from condgrad.loop import run
    from condgrad.methods import SPG
    from condgrad.stopping import RelativeGap

    f, g = (
        cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0]),
        cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)),
    )
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        run(InTurn(Broken(SPG(f, g)), iter([])), np.zeros(3), stop=RelativeGap(1e-6), max_iter=100)


def test_methods_are_made_when_their_turn_comes() -> None:
    """A run that its first method ends has made no other."""
    from condgrad.loop import run
    from condgrad.methods import SPG
    from condgrad.stopping import RelativeGap

    made: list[str] = []

    def others() -> Any:
        made.append("spg")
        yield SPG(f, g)

    f, g = (
        cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0]),
        cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)),
    )
    assert run(
        InTurn(SPG(f, g), others()), np.zeros(3), stop=RelativeGap(1e-6), max_iter=100
    ).success
    assert made == []
    assert run(
        InTurn(Broken(SPG(f, g)), others()), np.zeros(3), stop=RelativeGap(1e-6), max_iter=100
    ).success
    assert made == ["spg"]
