"""Laws of the sets: projections, linear and entropic argmins, against closed forms and exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax, xlogy

import condgrad as cg
from condgrad.problem import Answer, Set
from condgrad.sets import Box, L1Ball, L2Ball, NuclearBall, Simplex, SolidSimplex, Transport
from tests import host

Points = np.ndarray
Sampler = Callable[[np.random.Generator], Points]

LAW = settings(max_examples=6)
SIZES = (1e-6, 1e-3, 1.0, 30.0, 1e12)
LOWER, UPPER = np.array([-1.0, 0.0, 0.5, -3.0, 2.0]), np.array([1.0, 0.0, 4.0, -2.0, 2.5])


@dataclass(frozen=True)
class Case:
    """A family of sets t * P, with judges that share nothing with the library."""

    make: Callable[[float], Set]
    shape: tuple[int, ...]
    sample: Sampler
    """A point of P (t = 1)."""
    excess: Callable[[Points], float]
    """How far outside P (t = 1)."""
    support: Callable[[Points], float]
    """min <c, s> over P (t = 1)."""
    size: float = 1.0
    symmetric: bool = False
    noise: float = 0.0
    """Rounding relative to the projected point rather than to the set: the SVD's."""


def _near_faces(rng: np.random.Generator, n: int) -> Points:
    """Weights of sum 1, many of them near 0."""
    return rng.dirichlet(np.full(n, 0.4))


def _in_l1(shape: tuple[int, ...]) -> Sampler:
    n = int(np.prod(shape))

    def sample(rng: np.random.Generator) -> Points:
        signs = rng.choice([-1.0, 1.0], n)
        return (signs * _near_faces(rng, n) * rng.choice([1.0, rng.random()])).reshape(shape)

    return sample


def _in_l2(shape: tuple[int, ...]) -> Sampler:
    def sample(rng: np.random.Generator) -> Points:
        x = rng.standard_normal(shape)
        return x / np.linalg.norm(x) * rng.choice([1.0, rng.random()])

    return sample


def _in_nuclear(shape: tuple[int, int]) -> Sampler:
    k = min(shape)

    def sample(rng: np.random.Generator) -> Points:
        U = np.linalg.qr(rng.standard_normal((shape[0], k)))[0]
        V = np.linalg.qr(rng.standard_normal((shape[1], k)))[0]
        return (U * (_near_faces(rng, k) * rng.choice([1.0, rng.random()]))) @ V.T

    return sample


def _in_box(lower: Points, upper: Points) -> Sampler:
    def sample(rng: np.random.Generator) -> Points:
        return lower + rng.choice([0.0, 1.0, rng.random()], lower.shape) * (upper - lower)

    return sample


def _nuclear_norm(x: Points) -> float:
    return float(scipy.linalg.svdvals(x).sum())


def _box(lower: Points, upper: Points, *, symmetric: bool = False, bare: bool = False) -> Case:
    """A box case; a bare one hands the set numbers instead of arrays."""

    def make(t: float) -> Box:
        return (
            Box(t * float(lower.flat[0]), t * float(upper.flat[0]))
            if bare
            else Box(t * lower, t * upper)
        )

    return Case(
        make,
        lower.shape,
        _in_box(lower, upper),
        lambda x: float(np.maximum(lower - x, x - upper).max()),
        lambda c: float(np.minimum(c * lower, c * upper).sum()),
        size=float(np.linalg.norm(np.maximum(abs(lower), abs(upper)))),
        symmetric=symmetric,
    )


def _l1(*shape: int) -> Case:
    return Case(
        L1Ball,
        shape,
        _in_l1(shape),
        lambda x: float(abs(x).sum() - 1),
        lambda c: -float(abs(c).max()),
        symmetric=True,
    )


def _l2(*shape: int) -> Case:
    return Case(
        L2Ball,
        shape,
        _in_l2(shape),
        lambda x: float(scipy.linalg.norm(x.ravel()) - 1),
        lambda c: -float(scipy.linalg.norm(c.ravel())),
        symmetric=True,
    )


def _simplex(n: int) -> Case:
    return Case(
        lambda t: Simplex(n, mass=t),
        (n,),
        lambda rng: _near_faces(rng, n),
        lambda x: float(max(-x.min(), abs(x.sum() - 1))),
        lambda c: float(c.min()),
    )


def _solid_simplex(*shape: int) -> Case:
    inside = _in_l1(shape)
    return Case(
        SolidSimplex,
        shape,
        lambda rng: abs(inside(rng)),
        lambda x: float(max(-x.min(), x.sum() - 1)),
        lambda c: min(0.0, float(c.min())),
    )


def _nuclear(n: int, m: int) -> Case:
    return Case(
        NuclearBall,
        (n, m),
        _in_nuclear((n, m)),
        lambda x: _nuclear_norm(x) - 1,
        lambda c: -float(scipy.linalg.svdvals(c)[0]),
        symmetric=True,
        noise=1e-14,
    )


CASES = {
    "l1": _l1(5),
    "l1-one": _l1(1),
    "l1-matrix": _l1(2, 3),
    "l2": _l2(5),
    "l2-one": _l2(1),
    "l2-matrix": _l2(2, 3),
    "simplex": _simplex(5),
    "simplex-one": _simplex(1),
    "solid-simplex": _solid_simplex(5),
    "solid-simplex-one": _solid_simplex(1),
    "solid-simplex-matrix": _solid_simplex(2, 3),
    "box": _box(LOWER, UPPER),
    "box-numbers": _box(np.full(4, -1.0), np.full(4, 1.0), symmetric=True, bare=True),
    "box-one": _box(np.array([0.5]), np.array([2.0])),
    "nuclear": _nuclear(3, 4),
    "nuclear-tall": _nuclear(4, 2),
    "nuclear-row": _nuclear(1, 3),
    "nuclear-one": _nuclear(1, 1),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
symmetric_cases = pytest.mark.parametrize(
    "case",
    [c for c in CASES.values() if c.symmetric],
    ids=[k for k, c in CASES.items() if c.symmetric],
)
seeds = st.integers(0, 2**32 - 1)


def points(shape: tuple[int, ...]) -> st.SearchStrategy[Points]:
    """Arrays of entries up to 3 in size; half of the strategies' entries are whole, which makes ties and zeros."""
    # nothing below 1e-9: squares of smaller numbers would underflow in the tolerances
    whole, real = (
        st.integers(-3, 3).map(float),
        st.floats(-3.0, 3.0).map(lambda v: v if abs(v) > 1e-9 else 0.0),
    )
    return st.one_of(
        arrays(np.float64, shape, elements=whole), arrays(np.float64, shape, elements=real)
    )


def _draw(data: st.DataObject, case: Case) -> tuple[Points, float, Set, float]:
    """A point x, a scale t, the set t P, and the tolerance for a point of it."""
    x = data.draw(points(case.shape)) * data.draw(st.sampled_from(SIZES))
    t = data.draw(st.sampled_from(SIZES))
    return x, t, case.make(t), 1e-12 * t * case.size + case.noise * float(np.linalg.norm(x))


def _feasible(case: Case, data: st.DataObject, t: float, count: int = 20) -> list[Points]:
    rng = np.random.default_rng(data.draw(seeds))
    return [t * case.sample(rng) for _ in range(count)]


# --- membership ---


@every_case
@LAW
@given(data=st.data())
def test_violation_is_zero_inside_and_the_excess_outside(case: Case, data: st.DataObject) -> None:
    """`violation` and `contains` agree with an independent measure."""
    x, t, P, _ = _draw(data, case)
    assert P.violation(x) == pytest.approx(
        t * max(0.0, case.excess(x / t)), rel=1e-12, abs=1e-12 * t * case.size
    )
    assert P.contains(x) or case.excess(x / t) > 0
    for y in _feasible(case, data, t, 5):
        assert P.violation(y) <= 1e-12 * t * case.size
        assert P.contains(y)


@pytest.mark.parametrize("t", [1e-12, 1.0, 1e12])
def test_membership_scales_with_the_set(t: float) -> None:
    """A point far outside, measured by the set, is no member however small the set is."""
    for name, case in CASES.items():
        far = t * (case.sample(np.random.default_rng(0)) + 3.0 * case.size)
        assert case.excess(far / t) > 0.5 * case.size
        assert not case.make(t).contains(far), name


@every_case
@pytest.mark.parametrize("t", [0.0, 1e-12, 1.0, 1e12])
def test_start_is_in_the_set(case: Case, t: float) -> None:
    """The start point is feasible, at every scale."""
    x = case.make(t).start(cg.smooth.Linear(np.zeros(case.shape)).space)
    assert x.shape == case.shape
    assert x.dtype == np.float64
    assert (case.excess(x / t) if t else abs(x).max()) <= 1e-12 * case.size


# --- projections ---


@every_case
@LAW
@given(data=st.data())
def test_projection_is_feasible_and_optimal(case: Case, data: st.DataObject) -> None:
    """P(x) lies in the set and <x - P(x), y - P(x)> <= 0 for every y of the set."""
    x, t, P, _ = _draw(data, case)
    p = P.project(x)
    assert p.shape == x.shape
    assert case.excess(p / t) <= 1e-12 * case.size
    tolerance = 1e-12 * t * case.size * (float(np.linalg.norm(x)) + t * case.size)
    for y in _feasible(case, data, t):
        assert np.vdot(x - p, y - p) <= tolerance


@every_case
@LAW
@given(data=st.data())
def test_projection_is_idempotent_and_leaves_the_inside_alone(
    case: Case, data: st.DataObject
) -> None:
    """P(P(x)) = P(x), P(y) = y in the set, and the argument is not modified."""
    x, t, P, _ = _draw(data, case)
    before, tolerance = x.copy(), 1e-12 * t * case.size
    p = P.project(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(P.project(p), p, rtol=0, atol=tolerance)
    for y in _feasible(case, data, t, 5):
        np.testing.assert_allclose(P.project(y), y, rtol=0, atol=tolerance)


@every_case
@LAW
@given(data=st.data())
def test_projection_is_nonexpansive(case: Case, data: st.DataObject) -> None:
    """|P(x) - P(y)| <= |x - y|."""
    x, _, P, tolerance = _draw(data, case)
    y = x + data.draw(points(case.shape)) * data.draw(st.sampled_from(SIZES))
    assert (
        np.linalg.norm(P.project(x) - P.project(y))
        <= np.linalg.norm(x - y) + tolerance + case.noise * abs(y).max()
    )


@every_case
@LAW
@given(data=st.data(), power=st.integers(-40, 40))
def test_projection_scales_with_the_set(case: Case, data: st.DataObject, power: int) -> None:
    """P_{tr}(t x) = t P_r(x); a power of two for t, so that scaling itself does not round."""
    x, t, P, tolerance = _draw(data, case)
    factor = 2.0**power
    scaled = case.make(factor * t).project(factor * x)
    np.testing.assert_allclose(scaled / factor, P.project(x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["l1", "l2", "simplex", "solid-simplex", "box-numbers"])
@LAW
@given(data=st.data())
def test_projection_commutes_with_permutations(name: str, data: st.DataObject) -> None:
    """P(x permuted) = P(x) permuted."""
    x, _, P, tolerance = _draw(data, CASES[name])
    order = data.draw(st.permutations(range(x.size)))
    np.testing.assert_allclose(P.project(x[order]), P.project(x)[order], rtol=0, atol=tolerance)


@LAW
@given(x=points((5,)), order=st.permutations(range(5)))
def test_box_projection_permutes_with_its_bounds(x: Points, order: list[int]) -> None:
    """A permuted box projects the permuted point."""
    permuted = Box(LOWER[order], UPPER[order]).project(x[order])
    np.testing.assert_array_equal(permuted, Box(LOWER, UPPER).project(x)[order])


@symmetric_cases
@LAW
@given(data=st.data())
def test_projection_on_balls_commutes_with_sign_flips(case: Case, data: st.DataObject) -> None:
    """P(Dx) = D P(x) for a diagonal D of signs (of rows, which keeps singular values)."""
    x, _, P, tolerance = _draw(data, case)
    signs = np.array(
        data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=len(x), max_size=len(x)))
    )
    D = signs.reshape(-1, *[1] * (x.ndim - 1))
    np.testing.assert_allclose(P.project(D * x), D * P.project(x), rtol=0, atol=tolerance)


@LAW
@given(x=points((4, 3)), seed=seeds)
def test_nuclear_projection_commutes_with_rotations(x: Points, seed: int) -> None:
    """P(Q x R) = Q P(x) R for orthogonal Q and R."""
    rng = np.random.default_rng(seed)
    Q, R = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (4, 3))
    P = NuclearBall(1.5)
    np.testing.assert_allclose(P.project(Q @ x @ R), Q @ P.project(x) @ R, rtol=0, atol=1e-12)


def by_sorting(v: Points, mass: float) -> Points:
    """The projection on the simplex by sorting, in exact rational arithmetic (Held, Wolfe, Crowder 1974)."""
    exact, left = [Fraction(float(entry)) for entry in v], Fraction(mass)
    falling, running, theta = sorted(exact, reverse=True), Fraction(0), Fraction(0)
    for k, entry in enumerate(falling, start=1):
        running += entry
        if entry * k > running - left:
            theta = (running - left) / k
    return np.array([float(max(entry - theta, Fraction(0))) for entry in exact])


@LAW
@given(x=points((6,)), size=st.sampled_from(SIZES), mass=st.sampled_from(SIZES))
def test_simplex_projection_equals_sorting(x: Points, size: float, mass: float) -> None:
    """To full precision of the mass, even for a mass far below the rounding unit of x."""
    expected = by_sorting(size * x, mass)
    np.testing.assert_allclose(
        Simplex(6, mass=mass).project(size * x), expected, rtol=0, atol=1e-14 * mass
    )


@LAW
@given(x=points((6,)), size=st.sampled_from(SIZES), radius=st.sampled_from(SIZES))
def test_l1_projection_equals_sorting(x: Points, size: float, radius: float) -> None:
    """Soft thresholding with the threshold of the sorted absolute values."""
    x = size * x
    inside = sum(Fraction(float(entry)) for entry in abs(x)) <= Fraction(radius)
    expected = x if inside else np.sign(x) * by_sorting(abs(x), radius)
    np.testing.assert_allclose(L1Ball(radius).project(x), expected, rtol=0, atol=1e-14 * radius)


@LAW
@given(x=points((4, 3)), radius=st.sampled_from([1e-3, 0.5, 2.0, 8.0]))
def test_nuclear_projection_equals_sorted_singular_values(x: Points, radius: float) -> None:
    """Singular values projected as by the l1 ball, with another SVD driver."""
    U, sigma, Vt = scipy.linalg.svd(x, full_matrices=False, lapack_driver="gesvd")
    expected = x if sigma.sum() <= radius else (U * by_sorting(sigma, radius)) @ Vt
    np.testing.assert_allclose(NuclearBall(radius).project(x), expected, rtol=0, atol=2e-13)


def test_projection_closed_forms() -> None:
    """Ties, single coordinates and scales far apart, with answers known by hand."""
    np.testing.assert_array_equal(L1Ball(1.0).project(np.array([2.0, -2.0])), [0.5, -0.5])
    np.testing.assert_array_equal(
        L1Ball(1.0).project(np.array([2.0, 2.0, 0.0, -2.0, 2.0])), [0.25, 0.25, 0, -0.25, 0.25]
    )
    np.testing.assert_allclose(
        L1Ball(1e-3).project(np.array([1e12, -1e12, 3.0])), [5e-4, -5e-4, 0.0], rtol=1e-15
    )
    np.testing.assert_array_equal(L1Ball(1e12).project(np.array([1e-3, -2e-3])), [1e-3, -2e-3])
    np.testing.assert_allclose(
        L2Ball(1e-3).project(np.array([3e12, -4e12])), [6e-4, -8e-4], rtol=1e-15
    )
    np.testing.assert_array_equal(Simplex(3).project(np.full(3, -7.0)), np.full(3, 1 / 3))
    np.testing.assert_array_equal(Simplex(1, mass=2.0).project(np.array([-1e12])), [2.0])
    np.testing.assert_allclose(
        Simplex(2, mass=1e12).project(np.array([1e-3, 0.0])), [5e11, 5e11], rtol=1e-14
    )
    np.testing.assert_allclose(
        NuclearBall(1.0).project(np.diag([2.0, 2.0])), np.diag([0.5, 0.5]), atol=1e-15
    )
    np.testing.assert_array_equal(
        Box(0.0, 1.0).project(np.array([-1e12, 0.25, 1e12])), [0.0, 0.25, 1.0]
    )


@every_case
def test_scale_zero_leaves_only_the_origin(case: Case) -> None:
    """Radius, mass or side 0: one point, from every ability."""
    P, c = case.make(0.0), np.arange(1.0, 1.0 + np.prod(case.shape)).reshape(case.shape)
    np.testing.assert_array_equal(P.project(c), np.zeros(case.shape))
    np.testing.assert_array_equal(P.project(np.zeros(case.shape)), np.zeros(case.shape))
    answer = P.linear_argmin(c)
    np.testing.assert_array_equal(answer.point, np.zeros(case.shape))
    assert answer.bound == 0.0


# --- linear argmins ---


@every_case
@LAW
@given(data=st.data())
def test_linear_argmin_is_feasible_exact_and_a_lower_bound(case: Case, data: st.DataObject) -> None:
    """The bound is the support function, attained by the point and below <c, y> everywhere in the set."""
    c, t, P, _ = _draw(data, case)
    before = c.copy()
    answer = P.linear_argmin(c)
    np.testing.assert_array_equal(c, before)
    tolerance = 1e-13 * float(np.linalg.norm(c)) * t * case.size
    assert isinstance(answer, Answer)
    assert answer.point.shape == c.shape
    assert case.excess(answer.point / t) <= 1e-12 * case.size
    assert answer.bound == pytest.approx(t * case.support(c), rel=0, abs=tolerance)
    assert answer.bound == pytest.approx(float(np.vdot(c, answer.point)), rel=0, abs=tolerance)
    assert answer.value == 0.0
    for y in _feasible(case, data, t):
        assert answer.bound <= np.vdot(c, y) + tolerance


@every_case
@LAW
@given(data=st.data(), power=st.integers(-40, 40))
def test_linear_argmin_scales_with_the_direction(
    case: Case, data: st.DataObject, power: int
) -> None:
    """t c has the minimum t min <c, s>."""
    c, t, P, _ = _draw(data, case)
    factor = 2.0**power
    tolerance = 1e-13 * float(np.linalg.norm(c)) * t * case.size
    assert P.linear_argmin(factor * c).bound / factor == pytest.approx(
        P.linear_argmin(c).bound, rel=0, abs=tolerance
    )


@every_case
def test_linear_argmin_of_no_direction(case: Case) -> None:
    """c = 0: any point of the set will do, and the minimum is 0."""
    answer = case.make(2.0).linear_argmin(np.zeros(case.shape))
    assert case.excess(answer.point / 2.0) <= 1e-12 * case.size
    assert answer.bound == 0.0


@LAW
@given(c=points((5,)), shift=st.floats(-1e6, 1e6))
def test_linear_argmin_on_the_simplex_ignores_a_constant(c: Points, shift: float) -> None:
    """All points have the same mass, so a constant only moves the bound."""
    P = Simplex(5, mass=3.0)
    moved = P.linear_argmin(c + shift)
    assert moved.bound == pytest.approx(P.linear_argmin(c).bound + 3.0 * shift, rel=1e-12, abs=1e-8)
    assert np.vdot(c, moved.point) == pytest.approx(3.0 * c.min(), rel=0, abs=1e-8)


# --- entropic argmins ---


ENTROPIC: dict[str, Case] = {
    "simplex": _simplex(5),
    "simplex-one": _simplex(1),
    "box": _box(np.array([0.0, 0.5, 0.0, 2.0]), np.array([0.0, 0.5, 3.0, 40.0])),
    "box-numbers": _box(np.zeros(3), np.ones(3), bare=True),
}
every_entropic = pytest.mark.parametrize("case", ENTROPIC.values(), ids=ENTROPIC.keys())


def _entropy(x: Points, weight: float) -> float:
    return float(weight * xlogy(x, x).sum())


@every_entropic
@LAW
@given(
    data=st.data(),
    weight=st.sampled_from([1e-3, 0.1, 1.0, 50.0]),
    t=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_entropic_argmin_is_feasible_exact_and_a_lower_bound(
    case: Case, data: st.DataObject, weight: float, t: float
) -> None:
    """The bound is the point's own value and below <c, y> + entropy(y) everywhere in the set."""
    c = data.draw(points(case.shape)) * data.draw(st.sampled_from([1e-3, 1.0, 1e12]))
    answer = case.make(t).entropic_argmin(c, weight)
    tolerance = 1e-12 * t * case.size * (float(np.linalg.norm(c)) + 1e3 * weight)
    assert case.excess(answer.point / t) <= 1e-12 * case.size
    assert answer.value == pytest.approx(_entropy(answer.point, weight), rel=0, abs=tolerance)
    assert answer.bound == pytest.approx(
        np.vdot(c, answer.point) + answer.value, rel=0, abs=tolerance
    )
    for y in _feasible(case, data, t):
        assert answer.bound <= np.vdot(c, y) + _entropy(y, weight) + tolerance


@LAW
@given(
    c=points((5,)),
    weight=st.sampled_from([1e-3, 0.1, 50.0]),
    mass=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_entropic_argmin_on_the_simplex_is_a_softmax(c: Points, weight: float, mass: float) -> None:
    """Point and minimum in closed form; a constant added to c moves only the bound."""
    P = Simplex(5, mass=mass)
    answer = P.entropic_argmin(c, weight)
    np.testing.assert_allclose(answer.point, mass * softmax(-c / weight), rtol=1e-11, atol=1e-300)
    least = mass * weight * (np.log(mass) - logsumexp(-c / weight))
    assert answer.bound == pytest.approx(least, rel=1e-12, abs=1e-12 * mass * (1.0 + weight))
    moved = P.entropic_argmin(c + 16.0, weight)
    np.testing.assert_allclose(moved.point, answer.point, rtol=0, atol=1e-11 * mass)
    assert moved.bound == pytest.approx(answer.bound + 16.0 * mass, rel=1e-12)


@LAW
@given(c=points((4,)), power=st.integers(-20, 20))
def test_entropic_argmin_scales_with_direction_and_weight(c: Points, power: int) -> None:
    """t c and t weight have the same minimiser and t times the minimum."""
    factor = 2.0**power
    for P in (Simplex(4, mass=2.0), Box(np.zeros(4), np.array([0.0, 0.3, 2.0, 9.0]))):
        once, scaled = P.entropic_argmin(c, 0.7), P.entropic_argmin(factor * c, factor * 0.7)
        np.testing.assert_allclose(scaled.point, once.point, rtol=1e-13)
        assert scaled.bound / factor == pytest.approx(once.bound, rel=1e-12, abs=1e-12)


@LAW
@given(c=points((3,)), weight=st.sampled_from([0.2, 1.0, 5.0]))
def test_entropic_argmin_on_a_box_meets_first_order_conditions(c: Points, weight: float) -> None:
    """The slope c + weight (log s + 1) is 0 between the bounds, >= 0 at the lower and <= 0 at the upper one."""
    lower, upper = np.array([1e-3, 0.1, 1.0]), np.array([0.5, 4.0, 4.0])
    s = Box(lower, upper).entropic_argmin(c, weight).point
    slope = c + weight * (np.log(s) + 1.0)
    assert np.all(slope[s > lower] <= 1e-12)
    assert np.all(slope[s < upper] >= -1e-12)


def test_entropic_argmin_closed_forms() -> None:
    """No direction, no mass, one variable, ties, and a direction far larger than the weight."""
    np.testing.assert_allclose(
        Simplex(4).entropic_argmin(np.zeros(4), 1.0).point, np.full(4, 0.25), rtol=1e-15
    )
    assert Simplex(3, mass=0.0).entropic_argmin(np.ones(3), 1.0)[:3] == (
        pytest.approx(np.zeros(3)),
        0.0,
        0.0,
    )
    assert Simplex(1, mass=2.0).entropic_argmin(np.array([5.0]), 1.0).bound == pytest.approx(
        10.0 + 2.0 * np.log(2.0)
    )
    far = Simplex(3).entropic_argmin(np.array([1e12, -1e12, -1e12]), 1e-3)
    np.testing.assert_allclose(far.point, [0.0, 0.5, 0.5], rtol=1e-15)
    np.testing.assert_allclose(
        Box(0.0, 9.0).entropic_argmin(np.zeros(2), 3.0).point, np.exp([-1.0, -1.0]), rtol=1e-15
    )
    far = Box(0.0, 2.0).entropic_argmin(np.array([-1e12, 1e12]), 1e-3)
    np.testing.assert_allclose(far.point, [2.0, 0.0], rtol=1e-15)


# --- transport ---


def _vertex(a: Points, b: Points, rng: np.random.Generator) -> Points:
    """A plan by the north-west corner rule, rows and columns in a random order."""
    plan, rows, columns = (
        np.zeros((len(a), len(b))),
        list(rng.permutation(len(a))),
        list(rng.permutation(len(b))),
    )
    have, want = a.copy(), b.copy()
    while rows and columns:
        i, j = rows[0], columns[0]
        moved = min(have[i], want[j])
        plan[i, j] += moved
        have[i], want[j] = have[i] - moved, want[j] - moved
        (rows if have[i] <= want[j] else columns).pop(0)
    return plan


def _plan(a: Points, b: Points, rng: np.random.Generator) -> Points:
    """A mixture of three vertices."""
    return sum(w * _vertex(a, b, rng) for w in _near_faces(rng, 3))


def _marginal_error(plan: Points, a: Points, b: Points) -> float:
    return max(abs(plan.sum(axis=1) - a).max(), abs(plan.sum(axis=0) - b).max(), -plan.min())


WEIGHTS: dict[str, tuple[Points, Points]] = {
    "uniform": (np.full(4, 0.25), np.full(6, 1 / 6)),
    "uneven": (np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.3, 0.15, 0.25])),
    "zeros": (np.array([0.0, 0.4, 0.6, 0.0]), np.array([0.5, 0.0, 0.5])),
    "row": (np.array([1.0]), np.array([0.2, 0.3, 0.5])),
    "column": (np.array([0.2, 0.0, 0.8]), np.array([1.0])),
    "one": (np.array([3.0]), np.array([3.0])),
    "far apart": (np.array([1.0, 1e-9, 1e-9]), np.array([1e-9, 0.5, 0.5 + 1e-9])),
}
every_weights = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
MASSES = (1e-12, 1.0, 1e12)


@every_weights
@settings(max_examples=10)
@given(data=st.data(), seed=seeds, mass=st.sampled_from(MASSES))
def test_transport_argmin_is_feasible_and_proved(
    weights: tuple[Points, Points], data: st.DataObject, seed: int, mass: float
) -> None:
    """Exact marginals, a bound below every plan's cost, and next to no gap between the two."""
    a, b = mass * weights[0], mass * weights[1]
    C = data.draw(points((len(a), len(b)))) * data.draw(st.sampled_from([1e-6, 1.0, 1e9]))
    before = C.copy()
    answer = Transport(a, b).linear_argmin(C)
    np.testing.assert_array_equal(C, before)
    size = float(abs(C).max()) * a.sum()
    assert _marginal_error(answer.point, a, b) <= 1e-12 * a.sum()
    assert -1e-13 * size <= np.vdot(C, answer.point) - answer.bound <= 1e-8 * size
    assert answer.value == 0.0
    rng = np.random.default_rng(seed)
    for _ in range(10):
        assert answer.bound <= np.vdot(C, _plan(a, b, rng)) + 1e-12 * size


@settings(max_examples=12)
@given(data=st.data(), n=st.integers(1, 6), mass=st.sampled_from(MASSES))
def test_transport_argmin_is_an_assignment(data: st.DataObject, n: int, mass: float) -> None:
    """Uniform weights: the Hungarian algorithm's cost, for any mass."""
    C = data.draw(points((n, n)))
    best = mass / n * C[linear_sum_assignment(C)].sum()
    answer = Transport(np.full(n, mass / n), np.full(n, mass / n)).linear_argmin(C)
    assert np.vdot(C, answer.point) == pytest.approx(best, rel=0, abs=1e-11 * mass)
    assert answer.bound == pytest.approx(best, rel=0, abs=1e-11 * mass)


@pytest.mark.parametrize("shift", [-1e3, 1e3, 1e6, 1e8])
def test_transport_argmin_ignores_a_constant(shift: float) -> None:
    """All plans have the same mass, so a constant added to the cost leaves the best plan alone."""
    C = np.random.default_rng(0).random((6, 6))
    best = C[linear_sum_assignment(C)].sum()
    answer = Transport(np.ones(6), np.ones(6)).linear_argmin(C + shift)
    rounding = 1e-14 * abs(shift)
    assert np.vdot(C, answer.point) == pytest.approx(best, rel=0, abs=1e-9 + 6 * rounding)
    assert answer.bound - 6 * shift == pytest.approx(best, rel=0, abs=1e-9 + 6 * rounding)


@every_weights
@settings(max_examples=10)
@given(
    data=st.data(),
    seed=seeds,
    mass=st.sampled_from(MASSES),
    weight=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_entropic_transport_is_feasible_and_proved(
    weights: tuple[Points, Points], data: st.DataObject, seed: int, mass: float, weight: float
) -> None:
    """Exact marginals, the gap asked for, and a bound below every plan, whatever the marginals."""
    a, b = mass * weights[0], mass * weights[1]
    C = data.draw(points((len(a), len(b))))
    before = C.copy()
    answer = Transport(a, b).entropic_argmin(C, weight, accuracy=1e-8 * mass)
    np.testing.assert_array_equal(C, before)
    size = a.sum() * (3.0 + weight * (10.0 + abs(np.log(mass))))
    assert _marginal_error(answer.point, a, b) <= 1e-12 * a.sum()
    assert answer.value == pytest.approx(
        _entropy(answer.point, weight), rel=1e-11, abs=1e-13 * size
    )
    gap = np.vdot(C, answer.point) + answer.value - answer.bound
    assert -1e-13 * size <= gap <= 1e-8 * mass + 1e-12 * size
    rng = np.random.default_rng(seed)
    for _ in range(10):
        plan = _plan(a, b, rng)
        assert answer.bound <= np.vdot(C, plan) + _entropy(plan, weight) + 1e-12 * size


@pytest.mark.parametrize("accuracy", [0.0, 1e-3, 1e-12])
@pytest.mark.parametrize("weight", [1e-3, 1e-2, 1.0])
def test_entropic_transport_is_proved_at_any_accuracy(weight: float, accuracy: float) -> None:
    """Cold or warm, loose or tight: marginals are exact and the bound holds against the tightest answer."""
    rng = np.random.default_rng(3)
    C, a, b = rng.random((12, 9)), rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(9))
    P = Transport(a, b)
    best = P.entropic_argmin(C, weight, accuracy=1e-9)
    upper = float(np.vdot(C, best.point)) + _entropy(best.point, weight)
    for warm in (None, best.warm):
        answer = P.entropic_argmin(C + 0.01 * (warm is None), weight, warm=warm, accuracy=accuracy)
        assert _marginal_error(answer.point, a, b) <= 1e-12
        assert answer.bound <= upper + 0.01 * (warm is None) + 1e-12
    # at the smallest entropy Sinkhorn may run out of passes, and says so by its bound
    assert upper - best.bound <= 1e-9 or weight == 1e-3


def test_entropic_transport_closed_forms() -> None:
    """No cost: the product of the marginals. No mass: nothing. A constant moves only the bound."""
    a, b = WEIGHTS["uneven"]
    P = Transport(a, b)
    np.testing.assert_allclose(
        P.entropic_argmin(np.zeros((3, 4)), 0.5, accuracy=1e-12).point, np.outer(a, b), rtol=1e-9
    )
    C = np.random.default_rng(5).random((3, 4))
    once, moved = (P.entropic_argmin(C + shift, 0.5, accuracy=1e-13) for shift in (0.0, 4.0))
    np.testing.assert_allclose(moved.point, once.point, rtol=0, atol=1e-6)
    assert moved.bound == pytest.approx(once.bound + 4.0, rel=1e-11)
    nothing = Transport(np.zeros(2), np.zeros(3)).entropic_argmin(np.ones((2, 3)), 0.5)
    np.testing.assert_array_equal(nothing.point, np.zeros((2, 3)))
    assert nothing.bound == 0.0


@every_weights
@LAW
@given(data=st.data(), mass=st.sampled_from(MASSES), size=st.sampled_from([0.0, 1e-12, 0.1, 1e12]))
def test_rounding_gives_exact_marginals(
    weights: tuple[Points, Points], data: st.DataObject, mass: float, size: float
) -> None:
    """Any nonnegative matrix, however heavy or light, is rounded to a plan."""
    a, b = mass * weights[0], mass * weights[1]
    rough = size * abs(data.draw(points((len(a), len(b)))))
    before = rough.copy()
    plan = Transport(a, b).rounded(rough)
    np.testing.assert_array_equal(rough, before)
    assert _marginal_error(plan, a, b) <= 1e-12 * a.sum()


@every_weights
@pytest.mark.parametrize("mass", MASSES)
def test_transport_knows_its_plans(weights: tuple[Points, Points], mass: float) -> None:
    """Start and plans are members and left alone by rounding; a plan of another mass is none."""
    a, b = mass * weights[0], mass * weights[1]
    P, rng = Transport(a, b), np.random.default_rng(1)
    assert (
        _marginal_error(P.start(cg.smooth.Linear(np.zeros(P.shape)).space), a, b) <= 1e-12 * a.sum()
    )
    for _ in range(5):
        plan = _plan(a, b, rng)
        assert P.violation(plan) <= 1e-14 * a.sum()
        assert P.contains(plan)
        np.testing.assert_allclose(P.rounded(plan), plan, rtol=0, atol=1e-14 * a.sum())
        assert P.violation(1.5 * plan) == pytest.approx(0.5 * max(a.max(), b.max()), rel=1e-12)


@pytest.mark.parametrize("mass", MASSES)
def test_transport_membership_scales_with_its_mass(mass: float) -> None:
    """Half a plan is no plan, however small the mass is."""
    a, b = mass * WEIGHTS["uneven"][0], mass * WEIGHTS["uneven"][1]
    assert not Transport(a, b).contains(0.5 * _plan(a, b, np.random.default_rng(2)))


def test_transport_without_mass_holds_the_zero_plan() -> None:
    """All weights 0: one plan, from every ability."""
    P = Transport(np.zeros(2), np.zeros(3))
    C = np.arange(6.0).reshape(2, 3)
    for plan in (P.linear_argmin(C).point, P.rounded(C), P.start(cg.smooth.Linear(C).space)):
        np.testing.assert_array_equal(plan, np.zeros((2, 3)))
    assert P.linear_argmin(C).bound == 0.0


def test_transport_takes_uniform_weights_in_single_precision(library: Any) -> None:
    """1/3 and 1/7 in float32 do not sum to 1 to nine digits; to float32 they do."""
    a, b = np.full(3, 1 / 3, dtype=np.float32), np.full(7, 1 / 7, dtype=np.float32)
    P = Transport(library.asarray(a), library.asarray(b))
    plan = host(P.start(P.space))
    assert _marginal_error(plan, host(a), host(b)) <= 1e-6


# --- backends ---


def _abilities(P: Set, names: tuple[str, ...]) -> list[Callable[[Any], Any]]:
    """Some abilities of P as functions of one array that return one array."""
    found: dict[str, Callable[[Any], Any]] = {
        "project": P.project,
        "linear_argmin": lambda c: P.linear_argmin(c).point,
        "entropic_argmin": lambda c: P.entropic_argmin(c, 0.5).point,
    }
    return [found[name] for name in names]


def _agree_across_backends(case: Case, names: tuple[str, ...], dtype: str, torch: Any) -> None:
    """The same answers from torch and in `dtype`, in the library and precision of the argument."""
    P = case.make(2.0)
    x = np.random.default_rng(3).standard_normal(case.shape)
    tolerance = (1e-5 if dtype == "float32" else 1e-12) * case.size
    for ability in _abilities(P, names):
        expected = ability(x)
        for y in (x.astype(dtype), torch.asarray(x).to(getattr(torch, dtype))):
            result = ability(y)
            assert type(result) is type(y)
            assert result.dtype == y.dtype
            np.testing.assert_allclose(host(result), expected, rtol=0, atol=tolerance)
            assert P.violation(result) <= 2 * tolerance


@every_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_and_single_precision_agree_with_numpy(case: Case, dtype: str, torch: Any) -> None:
    """Projections and linear argmins."""
    _agree_across_backends(case, ("project", "linear_argmin"), dtype, torch)


@every_entropic
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entropic_argmin_agrees_across_backends(case: Case, dtype: str, torch: Any) -> None:
    """Entropic argmins."""
    _agree_across_backends(case, ("entropic_argmin",), dtype, torch)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transport_on_torch_agrees_with_numpy(dtype: str, torch: Any) -> None:
    """The linear program and the rounding take and give tensors."""
    a, b = WEIGHTS["uneven"]
    C = np.random.default_rng(4).random((3, 4))
    kind = getattr(torch, dtype)
    P = Transport(torch.asarray(a).to(kind), torch.asarray(b).to(kind))
    answer, expected = P.linear_argmin(torch.asarray(C).to(kind)), Transport(a, b).linear_argmin(C)
    assert answer.point.dtype == kind
    np.testing.assert_allclose(host(answer.point), expected.point, rtol=0, atol=1e-6)
    assert answer.bound == pytest.approx(expected.bound, abs=1e-6)


def test_box_of_a_tensor_and_a_number(torch: Any) -> None:
    """A number is a bound for tensors too."""
    P = Box(torch.zeros(3), 1.0)
    np.testing.assert_array_equal(host(P.project(torch.tensor([-2.0, 0.5, 2.0]))), [0.0, 0.5, 1.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_radius_below_the_smallest_number_is_feasible(dtype: str) -> None:
    """The projection on a simplex of mass 1e-46 has no negative entries, whatever the precision."""
    p = Simplex(3, mass=1e-46).project(np.array([0.0, -5.0, 1.0], dtype=dtype))
    assert p.min() >= 0.0
    assert p.sum() <= 1e-45
