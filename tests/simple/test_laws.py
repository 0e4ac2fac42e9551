"""Laws of the simple parts: oracles with their bounds, gradients, restrictions, strong convexity; CVXPY as judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from condgrad import MissingAbility
from condgrad.problem import Answer, Simple
from condgrad.sets import Box, L1Ball, L2Ball, NuclearBall, Simplex, Transport
from condgrad.simple import Entropy, L1Norm, NuclearNorm, Oracle, Ridge, Zero
from tests import host
from tests.sets.test_laws import (
    CASES,
    ENTROPIC,
    WEIGHTS,
    Case,
    _box,
    _marginal_error,
    _plan,
    points,
)

Points = np.ndarray
LAW = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)

AROUND_ZERO = _box(np.array([-1.0, 0.0, -3.0, -0.5]), np.array([2.0, 1.0, 0.0, 0.5]))
PLANS = Case(
    lambda t: Transport(t * WEIGHTS["uneven"][0], t * WEIGHTS["uneven"][1]),
    (3, 4),
    lambda rng: _plan(*WEIGHTS["uneven"], rng),
    lambda x: _marginal_error(x, *WEIGHTS["uneven"]),
    lambda _: float("nan"),
)


@dataclass(frozen=True)
class Judged:
    """A g on t * P with its value written anew."""

    make: Callable[[float, Any], Simple]
    """From a weight and a set."""
    where: Case
    value: Callable[[Points], float]
    """g(x) / weight."""
    smooth: bool = True
    accuracy: float = 1e-12
    """How exact the oracle is, against the size of its terms."""


def _nothing(_: Points) -> float:
    return 0.0


def _square(x: Points) -> float:
    return float((x**2).sum())


def _entropy(x: Points) -> float:
    return float(xlogy(x, x).sum())


def _sizes(x: Points) -> float:
    return float(abs(x).sum())


def _singular(x: Points) -> float:
    return float(scipy.linalg.svdvals(x).sum())


def _shrink(x: Points, radius: float) -> Points:
    """The projection on the l2 ball."""
    return x / max(1.0, float(np.linalg.norm(x)) / radius)


def _own_ridge(weight: float, on: L2Ball) -> Oracle:
    """A user's ridge on the l2 ball, by its closed form, with a gradient."""
    return Oracle(
        lambda x: weight * float((x**2).sum()),
        lambda c: _shrink(-c / (2.0 * weight), on.radius),
        on=on,
        gradient=lambda x: 2.0 * weight * x,
    )


def _own_norm(weight: float, on: L2Ball) -> Oracle:
    """A user's weight |x|_2 on the l2 ball, with a bound of its own and no gradient."""

    def argmin(c: Points) -> Answer:
        gain = float(np.linalg.norm(c)) - weight
        if gain <= 0.0:
            return Answer(np.zeros_like(c), 0.0)
        return Answer(-on.radius * c / np.linalg.norm(c), -on.radius * gain, on.radius * weight)

    return Oracle(lambda x: weight * float(np.linalg.norm(x)), argmin, on=on)


def _zero(_: float, on: Any) -> Zero:
    return Zero(on=on)


def _cases(*names: str) -> dict[str, Case]:
    return {name: CASES[name] for name in names}


FAMILIES: list[
    tuple[str, Callable[[float, Any], Simple], Callable[[Points], float], bool, dict[str, Case]]
] = [
    ("ridge", Ridge, _square, True, _cases("l1", "l1-matrix", "l2", "simplex", "box", "nuclear")),
    (
        "zero",
        _zero,
        _nothing,
        True,
        _cases("l1", "l2", "simplex", "box", "nuclear") | {"transport": PLANS},
    ),
    ("entropy", Entropy, _entropy, True, ENTROPIC),
    (
        "l1",
        L1Norm,
        _sizes,
        False,
        _cases("l1", "l1-one", "l2", "l2-matrix") | {"box-around-0": AROUND_ZERO},
    ),
    (
        "nuclear",
        NuclearNorm,
        _singular,
        False,
        _cases("nuclear", "nuclear-tall", "nuclear-row", "l2-matrix"),
    ),
    ("oracle", _own_ridge, _square, True, _cases("l2")),
    ("oracle-norm", _own_norm, lambda x: float(np.linalg.norm(x)), False, _cases("l2")),
]
JUDGED = {
    f"{family}-on-{name}": Judged(make, case, value, smooth)
    for family, make, value, smooth, cases in FAMILIES
    for name, case in cases.items()
}
# HiGHS stops at a tolerance of its own
JUDGED["zero-on-transport"] = replace(JUDGED["zero-on-transport"], accuracy=1e-8)
every_g = pytest.mark.parametrize("judged", JUDGED.values(), ids=JUDGED.keys())
smooth_g = pytest.mark.parametrize(
    "judged",
    [j for j in JUDGED.values() if j.smooth],
    ids=[k for k, j in JUDGED.items() if j.smooth],
)
count_directions = pytest.mark.parametrize("k", [1, 3])


def _interior(case: Case, rng: np.random.Generator) -> Points:
    """A point away from the faces where one can be: the entropy bends without bound at zero."""
    return np.mean([case.sample(rng) for _ in range(40)], axis=0)


def _neighbourhood(judged: Judged, seed: int, k: int) -> tuple[Points, Points, np.ndarray]:
    """A point, k directions towards points of the set, and fractions of them."""
    rng = np.random.default_rng(seed)
    x = _interior(judged.where, rng)
    directions = np.stack([judged.where.sample(rng) - x for _ in range(k)])
    return x, directions, rng.uniform(0.05, 0.2, k)


def _central(function: Callable[[np.ndarray], float], a: np.ndarray, h: float) -> np.ndarray:
    """Central differences of a scalar function of a vector."""
    steps = h * np.eye(len(a))
    return np.array([(function(a + e) - function(a - e)) / (2.0 * h) for e in steps])


# --- the oracle ---


@every_g
@LAW
@given(data=st.data(), seed=seeds)
def test_argmin_is_feasible_tight_and_a_lower_bound(
    judged: Judged, data: st.DataObject, seed: int
) -> None:
    """The point is in P, its value meets the bound, and no other point of P goes below."""
    case = judged.where
    c = data.draw(points(case.shape)) * data.draw(st.sampled_from([1e-3, 1.0, 1e9]))
    t, weight = (
        data.draw(st.sampled_from([1e-3, 1.0, 1e3])),
        data.draw(st.sampled_from([1e-3, 0.7, 1e3])),
    )
    before = c.copy()
    g = judged.make(weight, case.make(t))
    answer = g.argmin(c)
    np.testing.assert_array_equal(c, before)
    assert answer.point.shape == case.shape
    assert case.excess(answer.point / t) <= 1e-12 * case.size
    own = weight * judged.value(answer.point)
    terms = t * case.size * (float(np.linalg.norm(c)) + weight * (t * case.size + 20.0))
    assert answer.value is None or answer.value == pytest.approx(own, rel=1e-11, abs=1e-13 * terms)
    assert (
        -1e-12 * terms <= np.vdot(c, answer.point) + own - answer.bound <= judged.accuracy * terms
    )
    rng = np.random.default_rng(seed)
    for _ in range(15):
        y = t * case.sample(rng)
        assert answer.bound <= np.vdot(c, y) + weight * judged.value(y) + 1e-12 * terms


@every_g
@LAW
@given(data=st.data(), power=st.integers(-20, 20))
def test_argmin_scales_with_direction_and_weight(
    judged: Judged, data: st.DataObject, power: int
) -> None:
    """t c and t g have t times the minimum."""
    c, factor = data.draw(points(judged.where.shape)), 2.0**power
    P = judged.where.make(1.0)
    once, scaled = judged.make(0.7, P).argmin(c), judged.make(factor * 0.7, P).argmin(factor * c)
    tolerance = judged.accuracy * 20 * judged.where.size**2 * (1.0 + float(np.linalg.norm(c)))
    assert scaled.bound / factor == pytest.approx(once.bound, rel=0, abs=tolerance)


@every_g
def test_argmin_without_direction(judged: Judged) -> None:
    """c = 0: the minimum of g itself."""
    P, case = judged.where.make(2.0), judged.where
    answer = judged.make(0.5, P).argmin(np.zeros(case.shape))
    rng = np.random.default_rng(0)
    assert case.excess(answer.point / 2.0) <= 1e-12 * case.size
    assert answer.bound == pytest.approx(0.5 * judged.value(answer.point), rel=1e-12, abs=1e-13)
    assert all(
        answer.bound <= 0.5 * judged.value(2.0 * case.sample(rng)) + 1e-12 for _ in range(50)
    )


def test_argmin_closed_forms() -> None:
    """Answers known by hand, at and around the thresholds."""
    np.testing.assert_allclose(
        Ridge(0.5, on=L2Ball(9.0)).argmin(np.array([1.0, -2.0])).point, [-1.0, 2.0], rtol=1e-15
    )
    np.testing.assert_allclose(
        Ridge(0.5, on=L1Ball(1.0)).argmin(np.array([-1.0, 3.0])).point, [0.0, -1.0], atol=1e-15
    )
    for c, point, bound in (([0.5, -1.0], [0.0, 0.0], 0.0), ([0.5, -3.0], [0.0, 2.0], -4.0)):
        answer = L1Norm(1.0, on=L1Ball(2.0)).argmin(np.array(c))
        np.testing.assert_array_equal(answer.point, point)
        assert answer.bound == bound
    answer = L1Norm(1.0, on=Box(-2.0, 3.0)).argmin(np.array([4.0, -4.0, 1.0, 0.0, -1.0]))
    np.testing.assert_array_equal(answer.point, [-2.0, 3.0, 0.0, 0.0, 0.0])
    assert answer.bound == -15.0
    answer = NuclearNorm(1.0, on=NuclearBall(2.0)).argmin(np.diag([1.0, 4.0]))
    np.testing.assert_allclose(answer.point, np.diag([0.0, -2.0]), atol=1e-15)
    assert answer.bound == pytest.approx(-6.0, rel=1e-14)
    np.testing.assert_array_equal(
        NuclearNorm(4.0, on=NuclearBall(2.0)).argmin(np.diag([1.0, 4.0])).point, np.zeros((2, 2))
    )


# --- values, gradients and restrictions ---


@every_g
@LAW
@given(seed=seeds, weight=st.sampled_from([1e-3, 0.7, 1e3]))
def test_value_is_its_formula(judged: Judged, seed: int, weight: float) -> None:
    """On the faces of the set as well."""
    x = judged.where.sample(np.random.default_rng(seed))
    value = judged.make(weight, judged.where.make(1.0)).value(x)
    assert value == pytest.approx(weight * judged.value(x), rel=1e-12, abs=1e-13 * weight)


@smooth_g
@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_the_slope_of_the_value(judged: Judged, seed: int) -> None:
    """Central differences of the formula, entry by entry, away from zero."""
    x = _interior(judged.where, np.random.default_rng(seed)) + (judged.value is _entropy) * 0.2
    gradient = judged.make(0.7, judged.where.make(1.0)).gradient(x)
    assert gradient.shape == x.shape
    slopes = _central(lambda v: 0.7 * judged.value(v.reshape(x.shape)), x.ravel(), 1e-5)
    np.testing.assert_allclose(gradient.ravel(), slopes, rtol=1e-7, atol=1e-8)


@every_g
@count_directions
@pytest.mark.parametrize("seed", range(3))
def test_restriction_is_g_along_the_directions(judged: Judged, k: int, seed: int) -> None:
    """Values by direct evaluation; slopes and curvature, where known, by differences."""
    x, directions, a = _neighbourhood(judged, seed, k)
    line = judged.make(0.7, judged.where.make(1.0)).along(x, directions)

    def direct(b: np.ndarray) -> float:
        return 0.7 * judged.value(x + np.tensordot(b, directions, axes=1))

    for b in (np.zeros(k), a):
        here = line.local(b)
        assert line.value(b) == pytest.approx(direct(b), rel=1e-12, abs=1e-13)
        assert here.value == pytest.approx(direct(b), rel=1e-12, abs=1e-13)
        if here.slope is not None and judged.smooth:
            np.testing.assert_allclose(here.slope, _central(direct, b, 1e-6), rtol=1e-6, atol=1e-8)
        if here.curvature is not None:
            assert here.curvature.shape == (k, k)
            bend = [
                _central(lambda b, i=i: float(line.local(b).slope[i]), b, 1e-5) for i in range(k)
            ]
            np.testing.assert_allclose(here.curvature, np.array(bend), rtol=1e-5, atol=1e-7)


@every_g
@count_directions
@LAW
@given(seed=seeds)
def test_slopes_of_a_restriction_support_it(judged: Judged, k: int, seed: int) -> None:
    """value(b) >= value(a) + <slope(a), b - a>: kinks have subgradients."""
    x, directions, a = _neighbourhood(judged, seed, k)
    line = judged.make(0.7, judged.where.make(1.0)).along(x, directions)
    rng = np.random.default_rng(seed)
    for here, there in ((np.zeros(k), a), (a, np.zeros(k)), (a, rng.dirichlet(np.ones(k + 1))[:k])):
        local = line.local(here)
        if local.slope is not None:
            assert local.slope.shape == (k,)
            assert (
                line.value(there)
                >= local.value + local.slope @ (there - here) - 1e-12 * judged.where.size**2
            )


def test_what_a_restriction_knows() -> None:
    """Smooth parts know their curvature, norms only slopes, a bare oracle neither."""
    x, directions, a = np.array([0.2, 0.3]), np.array([[0.1, -0.1]]), np.zeros(1)
    for g in (Ridge(1.0, on=L1Ball(1.0)), Entropy(1.0, on=Simplex(2)), Zero(on=L1Ball(1.0))):
        assert g.along(x, directions).local(a).curvature is not None
    assert L1Norm(1.0, on=L1Ball(1.0)).along(x, directions).local(a).slope == pytest.approx([0.0])
    assert L1Norm(1.0, on=L1Ball(1.0)).along(x, directions).local(a).curvature is None
    bare = _own_norm(1.0, L2Ball(1.0)).along(x, directions).local(a)
    assert bare.slope is None
    assert bare.curvature is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mass", [1.0, 10.0, 1e3])
def test_entropy_along_a_way_out_of_a_corner(mass: float, dtype: str) -> None:
    """At a corner of the simplex the curvature is unbounded: no warning, no NaN, a falling slope."""
    x = np.array([mass, 0.0, 0.0], dtype=dtype)
    inward = np.array([[-mass, mass / 2, mass / 2]], dtype=dtype)
    here = Entropy(1.0, on=Simplex(3, mass=mass)).along(x, inward).local(np.zeros(1))
    assert here.value == pytest.approx(mass * np.log(mass), rel=1e-6)
    assert here.slope[0] < 0
    assert np.isfinite(here.curvature).all()
    assert here.curvature[0, 0] > 0


# --- strong convexity ---


@every_g
@LAW
@given(seed=seeds, t=st.sampled_from([0.1, 1.0, 10.0]))
def test_strong_convexity_holds_between_points(judged: Judged, seed: int, t: float) -> None:
    """g((x + y)/2) <= (g(x) + g(y))/2 - mu/8 |x - y|^2, and the tangent version where there is a gradient."""
    rng = np.random.default_rng(seed)
    g = judged.make(0.7, judged.where.make(t))
    mu = g.strong_convexity
    x, y = t * _interior(judged.where, rng), t * judged.where.sample(rng)
    apart = float(((x - y) ** 2).sum())
    gx, gy, middle = (0.7 * judged.value(z) for z in (x, y, 0.5 * (x + y)))
    tolerance = 1e-11 * (1.0 + abs(gx) + abs(gy))
    assert middle <= 0.5 * (gx + gy) - mu / 8.0 * apart + tolerance
    if judged.smooth:
        assert gy >= gx + np.vdot(g.gradient(x), y - x) + 0.5 * mu * apart - tolerance


def test_strong_convexity_is_what_it_can_be() -> None:
    """2 weight for the ridge, weight / largest entry for the entropy, nothing for the others."""
    assert Ridge(0.3, on=L1Ball(2.0)).strong_convexity == 0.6
    assert Entropy(0.5, on=Simplex(4, mass=2.0)).strong_convexity == 0.25
    assert Entropy(0.5, on=Box(0.0, np.array([1.0, 5.0]))).strong_convexity == 0.1
    assert np.isfinite(Entropy(0.5, on=Simplex(4, mass=0.0)).strong_convexity)
    for g in (Zero(on=L1Ball(1.0)), L1Norm(1.0, on=L1Ball(1.0)), NuclearNorm(1.0, on=L2Ball(1.0))):
        assert g.strong_convexity == 0.0


# --- other implementations ---


def _constraints(P: Any, x: cp.Variable) -> list[cp.Constraint]:
    """x in P, in CVXPY's words."""
    match P:
        case L1Ball():
            return [cp.norm1(cp.vec(x, order="C")) <= P.radius]
        case L2Ball():
            return [cp.norm2(cp.vec(x, order="C")) <= P.radius]
        case NuclearBall():
            return [cp.normNuc(x) <= P.radius]
        case Simplex():
            return [x >= 0, cp.sum(x) == P.mass]
        case Box():
            return [x >= P.lower, x <= P.upper]
        case Transport():
            return [x >= 0, cp.sum(x, axis=1) == P.a, cp.sum(x, axis=0) == P.b]
    raise TypeError(type(P).__name__)


WORDS: dict[Callable[[Points], float], Callable[[cp.Variable], Any]] = {
    _square: cp.sum_squares,
    _nothing: lambda _: 0.0,
    _entropy: lambda x: -cp.sum(cp.entr(x)),
    _sizes: lambda x: cp.sum(cp.abs(x)),
    _singular: cp.normNuc,
}
SPOKEN = {
    name: judged for name, judged in JUDGED.items() if judged.value in WORDS and "one" not in name
}


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("seed", range(2))
def test_argmin_agrees_with_cvxpy(name: str, seed: int) -> None:
    """The minimum of <c, s> + g(s) over P by an interior-point method."""
    judged = SPOKEN[name]
    c = 2.0 * np.random.default_rng(seed).standard_normal(judged.where.shape)
    P = judged.where.make(1.5)
    x = cp.Variable(judged.where.shape)
    problem = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(c, x)) + 0.4 * WORDS[judged.value](x)), _constraints(P, x)
    )
    expected = problem.solve(solver=cp.CLARABEL)
    answer = judged.make(0.4, P).argmin(c)
    assert answer.bound == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert np.vdot(c, answer.point) + 0.4 * judged.value(answer.point) == pytest.approx(
        expected, rel=1e-6, abs=1e-6
    )


LIBRARY = {
    name: judged
    for name, judged in JUDGED.items()
    if not name.startswith(("oracle", "zero-on-transport"))
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LIBRARY)
def test_torch_and_single_precision_agree_with_numpy(name: str, dtype: str, torch: Any) -> None:
    """Value, oracle and restriction give the same from torch and in float32."""
    judged = LIBRARY[name]
    g = judged.make(0.7, judged.where.make(1.0))
    x, directions, a = _neighbourhood(judged, 5, 3)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}
    expected = g.argmin(x), g.along(x, directions).local(a)
    for kind in (lambda z: z.astype(dtype), lambda z: torch.asarray(z).to(getattr(torch, dtype))):
        answer, local = g.argmin(kind(x)), g.along(kind(x), kind(directions)).local(a)
        assert type(answer.point) is type(kind(x))
        assert answer.point.dtype == kind(x).dtype
        np.testing.assert_allclose(host(answer.point), expected[0].point, **close)
        np.testing.assert_allclose(g.value(kind(x)), g.value(x), **close)
        for part, same in zip(
            (answer.bound, *local), (expected[0].bound, *expected[1]), strict=True
        ):
            assert (part is None) == (same is None)
            if part is not None:
                np.testing.assert_allclose(part, same, **close)


# --- refusals ---


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (lambda: Ridge(1.0, on=PLANS.make(1.0)), "project"),
        (lambda: Entropy(1.0, on=L1Ball(1.0)), "entropic_argmin"),
        (lambda: Entropy(1.0, on=Box(-1.0, 1.0)), "nonnegative"),
        (lambda: L1Norm(1.0, on=Simplex(3)), "larger"),
        (lambda: L1Norm(1.0, on=Box(0.5, 1.0)), "larger"),
        (lambda: NuclearNorm(1.0, on=L1Ball(1.0)), "singular values"),
    ],
)
def test_a_g_refuses_a_set_that_cannot_serve_it(make: Callable[[], Simple], missing: str) -> None:
    """The sentence names what is missing."""
    with pytest.raises(MissingAbility, match=missing):
        make()


def test_an_oracle_is_held_to_its_word() -> None:
    """A point of the wrong shape, a gradient nobody gave, a set nobody knows."""
    bare = Oracle(lambda _: 0.0, lambda _: np.zeros(2))
    with pytest.raises(ValueError, match=r"shape of x, \(3,\), got \(2,\)"):
        bare.argmin(np.zeros(3))
    with pytest.raises(MissingAbility, match="gradient="):
        bare.gradient(np.zeros(2))
    with pytest.raises(MissingAbility, match="x0"):
        bare.on.start(None)  # type: ignore[arg-type]
    for arguments in ((1.0, abs), (abs, None)):
        with pytest.raises(TypeError, match="callable"):
            Oracle(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [1e-310, 1e-200, 1e-100, 1e-40, 1e-20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("on", [L1Ball(0.3), L2Ball(0.3), Simplex(5), Box(-0.1, 0.2)], ids=repr)
def test_a_ridge_beyond_all_digits_is_none(on: Any, dtype: Any, weight: float) -> None:
    """c/weight overflows, or its square does: the point is that of no ridge, and the bound is that of its formula."""
    c = np.random.default_rng(0).standard_normal(5).astype(dtype)
    answer, linear = Ridge(weight, on=on).argmin(c), Zero(on=on).argmin(c)
    np.testing.assert_allclose(answer.point, linear.point, atol=1e-6)
    assert answer.bound <= linear.bound + weight + 1e-6 * abs(linear.bound)
    nothing = Ridge(weight, on=on).argmin(0.0 * c)
    np.testing.assert_allclose(nothing.point, on.project(np.zeros(5)), atol=1e-6)
