"""Newton models in any unit: of F, of x, of the data and of the targets."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import condgrad as cg

pytestmark = pytest.mark.slow  # a large grid; `tests/test_units.py` has one of all methods
Array = np.ndarray
LOSSES = {
    "squares": cg.smooth.LeastSquares,
    "logistic": cg.smooth.Logistic,
    "squared hinge": cg.smooth.SquaredHinge,
}
SHAPES = {"square": (30, 12), "tall": (300, 10), "wide": (15, 400)}
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
EVERY_SET = pytest.mark.parametrize("on", ["l1", "simplex", "solid simplex", "box"])


class Walk(NamedTuple):
    """A run and its iterates."""

    result: cg.Result
    points: list[Array]


def a_set(name: str, n: int, size: float = 1.0) -> Any:
    if name == "simplex":
        return cg.sets.Simplex(n, size)
    if name == "solid simplex":
        return cg.sets.SolidSimplex(1.5 * size)
    return cg.sets.L1Ball(1.5 * size) if name == "l1" else cg.sets.Box(-0.1 * size, 0.2 * size)


def a_quadratic(weight: float, on: Any) -> Any:
    return cg.simple.Ridge(weight, on=on) if weight else cg.simple.Zero(on=on)


def data(loss: str, shape: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(list(LOSSES).index(loss) + 10 * list(SHAPES).index(shape))
    m, n = SHAPES[shape]
    A, y = rng.standard_normal((m, n)), rng.standard_normal(m)
    y[:2] = 1.0, -1.0
    return A, y if loss == "squares" else np.sign(y)


def walked(f: Any, g: Any) -> Walk:
    points: list[Array] = []
    result = cg.minimize(f, g, method="newton", callback=lambda now: points.append(now.x.copy()))
    return Walk(result, points)


def assert_same_bits(one: Walk, other: Walk, unit: float = 1.0) -> None:
    assert len(one.points) == len(other.points)
    for x, y in zip(one.points, other.points, strict=True):
        np.testing.assert_array_equal(x, unit * y)


def assert_same_course(one: Walk, other: Walk) -> None:
    assert one.result.status is other.result.status is cg.Status.CONVERGED
    assert abs(one.result.iterations - other.result.iterations) <= 1


@EVERY_LOSS
@EVERY_SHAPE
@EVERY_SET
@pytest.mark.parametrize("ridge", [1e-1, 1e-5])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_unit_of_the_objective(
    loss: str, shape: str, on: str, ridge: float, intercept: bool
) -> None:
    """A power of 2 changes no bit of an iterate; any other factor changes neither the status nor, much, the course."""
    A, y = data(loss, shape)
    f, P = LOSSES[loss](A, y, intercept=intercept), a_set(on, A.shape[1])
    usual = walked(f, a_quadratic(ridge, P))
    for unit in (2.0**-40, 2.0**40):
        assert_same_bits(walked(unit * f, a_quadratic(unit * ridge, P)), usual)
    for unit in (1e-12, 1e12):
        assert_same_course(walked(unit * f, a_quadratic(unit * ridge, P)), usual)


@EVERY_LOSS
@EVERY_SHAPE
@EVERY_SET
def test_the_unit_of_the_variable(loss: str, shape: str, on: str) -> None:
    """Columns times c, the set over c and the ridge times c^2 are the same problem."""
    A, y = data(loss, shape)
    n = A.shape[1]
    usual = walked(LOSSES[loss](A, y, intercept=True), a_quadratic(1e-2, a_set(on, n)))
    for unit in (2.0**-30, 2.0**20, 1e-6, 1e6):
        f = LOSSES[loss](unit * A, y, intercept=True)
        other = walked(f, a_quadratic(1e-2 * unit**2, a_set(on, n, 1.0 / unit)))
        assert_same_course(other, usual)
        if unit in (2.0**-30, 2.0**20):
            assert_same_bits(usual, other, unit)


@EVERY_SHAPE
@EVERY_SET
def test_the_unit_of_the_targets(shape: str, on: str) -> None:
    """Targets and set times c: x times c, F times c^2."""
    A, y = data("squares", shape)
    n = A.shape[1]
    usual = walked(cg.smooth.LeastSquares(A, y), a_quadratic(1e-2, a_set(on, n)))
    for unit in (2.0**-20, 1e5):
        other = walked(cg.smooth.LeastSquares(A, unit * y), a_quadratic(1e-2, a_set(on, n, unit)))
        assert_same_course(other, usual)
        if unit == 2.0**-20:
            assert_same_bits(other, usual, unit)


@functools.cache
def solved_in(unit: float, loss: str, on: str, method: str) -> cg.Result:
    A, y = data(loss, "square")
    f = LOSSES[loss](A, y, sample_weight=np.full(30, unit), intercept=True)
    return cg.minimize(f, a_quadratic(0.3 * unit, a_set(on, 12)), method=method)


@EVERY_LOSS
@EVERY_SET
@pytest.mark.parametrize("unit", [1e-250, 1e250])
@pytest.mark.parametrize("method", ["newton", "cgs"])
def test_units_whose_squares_are_no_numbers_prove_the_same(
    loss: str, on: str, unit: float, method: str
) -> None:
    one, other = (solved_in(each, loss, on, method) for each in (1.0, unit))
    assert one.status is other.status is cg.Status.CONVERGED
    assert other.lower_bound <= unit * one.value * (1.0 + 1e-12)
    assert unit * one.lower_bound <= other.value * (1.0 + 1e-12)


@EVERY_LOSS
def test_a_gradient_step_where_the_size_of_the_set_over_a_slope_is_no_number(loss: str) -> None:
    """The unit of x is large and that of F small."""
    A, y = data(loss, "square")
    s, c = 2.0**400, 2.0**-500
    f = LOSSES[loss](A / s, y, sample_weight=np.full(30, c), intercept=True)
    usual = LOSSES[loss](A, y, intercept=True)
    one = cg.minimize(usual, cg.simple.Zero(on=cg.sets.SolidSimplex(1.5)), method="newton")
    other = cg.minimize(f, cg.simple.Zero(on=cg.sets.SolidSimplex(1.5 * s)), method="newton")
    assert other.lower_bound <= c * one.value * (1.0 + 1e-12)
    assert c * one.lower_bound <= other.value * (1.0 + 1e-12)


@pytest.mark.parametrize("unit", [1e-250, 1e180, 1e250])
def test_the_dual_of_few_samples_in_units_whose_squares_are_no_numbers(unit: float) -> None:
    A, y = data("squared hinge", "wide")

    def solved(unit: float) -> cg.Result:
        f = cg.smooth.SquaredHinge(A, y, sample_weight=np.full(15, unit), intercept=True)
        return cg.minimize(
            f, cg.simple.Ridge(0.01 * unit, on=cg.sets.L1Ball(50.0)), method="newton"
        )

    one, other = solved(1.0), solved(unit)
    assert other.status is cg.Status.CONVERGED
    assert other.value == pytest.approx(unit * one.value, rel=1e-6)
