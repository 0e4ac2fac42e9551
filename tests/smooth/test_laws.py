"""Laws of the smooth parts: values by direct formulas, derivatives by differences, restrictions by evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit

from condgrad import NotFiniteError
from condgrad.problem import Smooth
from condgrad.smooth import Function, LeastSquares, Linear, Logistic, Poisson, SquaredHinge
from tests import host

Points = np.ndarray
Loss = Callable[[Points, Points], Points]
LAW = settings(max_examples=8)
seeds = st.integers(0, 2**32 - 1)

SAMPLES, FEATURES = 9, 5
LOSSES: dict[type[Smooth], Loss] = {
    LeastSquares: lambda z, y: 0.5 * (z - y) ** 2,
    Logistic: lambda z, y: -log_expit(y * z),
    SquaredHinge: lambda z, y: np.maximum(0.0, 1.0 - y * z) ** 2,
}
FORMATS: dict[str, Callable[[Points], Any]] = {
    "dense": lambda Z: Z,
    "fortran": np.asfortranarray,
    "strided": lambda Z: np.repeat(np.repeat(Z, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda Z: Z[::-1, ::-1].copy()[::-1, ::-1],
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "float32": lambda Z: Z.astype(np.float32),
    "csr-float32": lambda Z: scipy.sparse.csr_array(Z.astype(np.float32)),
}


def _data(seed: int = 0) -> tuple[Points, Points, Points]:
    """A data matrix with some zeros, labels of both kinds, positive weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((SAMPLES, FEATURES)) * (rng.random((SAMPLES, FEATURES)) < 0.7)
    y = np.where(np.arange(SAMPLES) % 3 == 0, 1.0, -1.0)
    return Z, y, rng.random(SAMPLES) + 0.1


@dataclass(frozen=True)
class Judged:
    """An f with its value written anew."""

    f: Smooth
    direct: Callable[[Points], float]
    shape: tuple[int, ...] = (FEATURES,)
    single: bool = False
    """Whether the data, and so the gradient, are in float32."""
    bends: bool = True
    """Whether f knows its curvature."""


def _loss(kind: type[Smooth], form: str, *, weighted: bool) -> Judged:
    Z, y, weights = _data()
    data, loss = FORMATS[form](Z), LOSSES[kind]
    exact = np.asarray(data.todense() if scipy.sparse.issparse(data) else data, dtype=np.float64)
    f = kind(data, y, sample_weight=weights if weighted else None)  # type: ignore[call-arg]
    scale = weights if weighted else np.ones(SAMPLES)
    return Judged(f, lambda x: math.fsum(scale * loss(exact @ x, y)), single="float32" in form)


def _own(x: Points) -> tuple[float, Points]:
    """log sum exp, as a user would write it."""
    top = float(x.max())
    parts = np.exp(x - top)
    return top + math.log(float(parts.sum())), parts / parts.sum()


def _judged() -> dict[str, Judged]:
    found = {
        f"{kind.__name__}-{form}{'-weighted' * weighted}": _loss(kind, form, weighted=weighted)
        for kind in LOSSES
        for form in FORMATS
        for weighted in (False, True)
        if form in ("dense", "csr") or not weighted
    }
    C = np.arange(6.0).reshape(2, 3) - 2.5
    found["Linear"] = Judged(Linear(C[0]), lambda x: float(C[0] @ x), shape=(3,))
    found["Linear-matrix"] = Judged(Linear(C), lambda x: float((C * x).sum()), shape=(2, 3))
    found["Function"] = Judged(
        Function(_own, smoothness=1.0),
        lambda x: float(np.log(np.exp(x).sum())),
        shape=(4,),
        bends=False,
    )
    squares, logistic = found["LeastSquares-dense"], found["Logistic-csr"]
    slope = np.linspace(-1.0, 1.0, FEATURES)
    found["multiple"] = Judged(2.5 * logistic.f, lambda x: 2.5 * logistic.direct(x))
    found["sum"] = Judged(
        squares.f + logistic.f * 0.5, lambda x: squares.direct(x) + 0.5 * logistic.direct(x)
    )
    found["sum-quadratic"] = Judged(
        sum([0.25 * squares.f, Linear(slope)]),
        lambda x: 0.25 * squares.direct(x) + float(slope @ x),
    )
    found["sum-nested"] = Judged(
        3.0 * (squares.f + 2.0 * (logistic.f + Function(_own, smoothness=1.0))),
        lambda x: (
            3.0 * squares.direct(x)
            + 6.0 * logistic.direct(x)
            + 6.0 * float(np.log(np.exp(x).sum()))
        ),
        bends=False,
    )
    return found


JUDGED = _judged()
every_f = pytest.mark.parametrize("judged", JUDGED.values(), ids=JUDGED.keys())
CORE = [
    name
    for name in JUDGED
    if "-" not in name or name.endswith(("dense", "csr-weighted")) or "sum" in name
]
core_f = pytest.mark.parametrize("judged", [JUDGED[name] for name in CORE], ids=CORE)
every_loss = pytest.mark.parametrize("kind", LOSSES)


def _central(function: Callable[[Points], float], a: Points, h: float) -> Points:
    """Central differences of a scalar function of a vector."""
    return np.array([(function(a + e) - function(a - e)) / (2.0 * h) for e in h * np.eye(len(a))])


def _pair(judged: Judged, seed: int, size: float = 1.0) -> tuple[Points, Points]:
    rng = np.random.default_rng(seed)
    return size * rng.standard_normal(judged.shape), size * rng.standard_normal(judged.shape)


# --- values and gradients ---


@every_f
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 30.0])
def test_value_is_its_formula(judged: Judged, size: float) -> None:
    """Direct summation; data in float32 lose nothing more, since products are wide."""
    x, _ = _pair(judged, 1, size)
    value, _ = judged.f.value_and_gradient(x)
    assert isinstance(value, float)
    assert value == pytest.approx(judged.direct(x), rel=1e-12, abs=1e-13)
    assert judged.f.at(x).value == value


@every_f
@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_the_slope_of_the_value(judged: Judged, seed: int) -> None:
    """Central differences of the formula."""
    x, _ = _pair(judged, seed)
    gradient = judged.f.at(x).gradient
    slopes = _central(lambda v: judged.direct(v.reshape(x.shape)), x.ravel(), 1e-5)
    assert gradient.shape == x.shape
    np.testing.assert_allclose(
        gradient.ravel(),
        slopes,
        rtol=1e-5 if judged.single else 1e-7,
        atol=1e-5 if judged.single else 1e-7,
    )


@every_f
@LAW
@given(seed=seeds, size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_offset_is_the_tangent_plane_at_the_origin(judged: Judged, seed: int, size: float) -> None:
    """offset = value - <gradient, x>."""
    x, _ = _pair(judged, seed, size)
    here = judged.f.at(x)
    inner = float(np.vdot(here.gradient.astype(np.float64), x))
    rounding = (1e-6 if judged.single else 1e-13) * float(np.vdot(abs(here.gradient), abs(x)))
    assert here.offset == pytest.approx(here.value - inner, rel=1e-12, abs=1e-12 + 10 * rounding)


@core_f
@LAW
@given(seed=seeds, size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_magnitude_bounds_the_products_with_the_gradient(
    judged: Judged, seed: int, size: float
) -> None:
    """Terms before they cancel are no smaller than what is left of them."""
    x, y = _pair(judged, seed, size)
    here = judged.f.at(x)
    assert abs(np.vdot(here.gradient, y)) <= here.magnitude(judged.f.at(y)) * (1 + 1e-12) + 1e-13


# --- restrictions and moves ---


@every_f
@pytest.mark.parametrize("k", [1, 3])
def test_restriction_is_f_along_the_directions(judged: Judged, k: int) -> None:
    """Values by direct evaluation, slopes and curvature by differences."""
    rng = np.random.default_rng(k)
    x, ends = rng.standard_normal(judged.shape), rng.standard_normal((k, *judged.shape))
    directions = ends - x
    line = judged.f.at(x).along([judged.f.at(end) for end in ends], directions)

    def direct(a: Points) -> float:
        return judged.direct(x + np.tensordot(a, directions, axes=1))

    for a in (np.zeros(k), rng.random(k) / k, rng.standard_normal(k)):
        here = line.local(a)
        assert line.value(a) == pytest.approx(direct(a), rel=1e-11, abs=1e-12)
        assert here.value == pytest.approx(direct(a), rel=1e-11, abs=1e-12)
        np.testing.assert_allclose(here.slope, _central(direct, a, 1e-5), rtol=1e-6, atol=1e-6)
        assert (here.curvature is not None) == judged.bends
        if judged.bends:
            bend = [
                _central(lambda b, i=i: float(line.local(b).slope[i]), a, 1e-6) for i in range(k)
            ]
            np.testing.assert_allclose(here.curvature, np.array(bend), rtol=1e-5, atol=1e-6)


@core_f
@LAW
@given(seed=seeds, k=st.integers(1, 3))
def test_moved_is_f_at_the_mixed_point(judged: Judged, seed: int, k: int) -> None:
    """Mixing what is known at the ends equals evaluating in between, again and again."""
    rng = np.random.default_rng(seed)
    x, ends = rng.standard_normal(judged.shape), rng.standard_normal((k, *judged.shape))
    here, others = judged.f.at(x), [judged.f.at(end) for end in ends]
    for _ in range(3):
        a = rng.dirichlet(np.ones(k + 1))[:k]
        x = x + np.tensordot(a, ends - x, axes=1)
        here = here.moved(x, others, a)
        fresh = judged.f.at(x)
        assert here.value == pytest.approx(fresh.value, rel=1e-12, abs=1e-13)
        assert here.offset == pytest.approx(fresh.offset, rel=1e-11, abs=1e-11)
        np.testing.assert_allclose(here.gradient, fresh.gradient, rtol=1e-11, atol=1e-11)


# --- convexity and smoothness ---


@core_f
@LAW
@given(seed=seeds, size=st.sampled_from([0.1, 1.0, 10.0]))
def test_f_lies_between_its_tangent_and_its_parabola(
    judged: Judged, seed: int, size: float
) -> None:
    """0 <= f(y) - f(x) - <grad f(x), y - x> <= L/2 |y - x|^2, and the gradient is L-Lipschitz."""
    x, y = _pair(judged, seed, size)
    here, there, L = judged.f.at(x), judged.f.at(y), judged.f.smoothness
    assert L is not None
    bregman = there.value - here.value - np.vdot(here.gradient, y - x)
    apart = float(np.linalg.norm(x - y))
    tolerance = 1e-11 * (1.0 + abs(here.value) + abs(there.value))
    assert -tolerance <= bregman <= 0.5 * L * apart**2 + tolerance
    assert np.linalg.norm(there.gradient - here.gradient) <= L * apart * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("form", ["dense", "csr", "csc", "float32", "fortran"])
@pytest.mark.parametrize("tall", [True, False])
@pytest.mark.parametrize(
    ("kind", "steepest"), [(LeastSquares, 1.0), (Logistic, 0.25), (SquaredHinge, 2.0)]
)
def test_smoothness_is_the_spectral_norm(kind: Any, steepest: float, tall: bool, form: str) -> None:
    """steepest curvature * |Z|_2^2, for tall and wide data; a sum adds up."""
    Z = np.random.default_rng(3).standard_normal((7, 4) if tall else (4, 7))
    y = np.where(np.arange(len(Z)) % 2, 1.0, -1.0)
    f, expected = kind(FORMATS[form](Z), y), steepest * np.linalg.norm(Z, 2) ** 2
    assert f.smoothness == pytest.approx(expected, rel=1e-5 if form == "float32" else 1e-12)
    assert (f + 3.0 * f).smoothness == pytest.approx(4.0 * f.smoothness, rel=1e-14)
    heavy = kind(FORMATS[form](Z), y, sample_weight=np.linspace(0.0, 5.0, len(Z)))
    assert (
        heavy.smoothness
        >= steepest * np.linalg.norm(np.sqrt(np.linspace(0.0, 5.0, len(Z)))[:, None] * Z, 2) ** 2
    )


def test_smoothness_is_unknown_where_a_term_does_not_know() -> None:
    """One silent term silences a sum."""
    assert Function(_own).smoothness is None
    assert (Linear(np.ones(3)) + Function(_own)).smoothness is None
    assert Linear(np.ones(3)).smoothness == 0.0


# --- extreme and special data ---


@pytest.mark.parametrize("margin", [1e4, 1e8, 1e150])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logistic_at_extreme_margins(margin: float, dtype: str) -> None:
    """Far on the right side the loss is 0, far on the wrong side it is the margin; nothing overflows."""
    f = Logistic(np.array([[1.0], [-1.0], [0.0]], dtype=dtype), np.ones(3))
    here = f.at(np.array([margin]))
    assert here.value == pytest.approx(margin + math.log(2.0), rel=1e-14)
    np.testing.assert_array_equal(here.theta, [0.0, -1.0, -0.5])
    np.testing.assert_allclose(here.gradient, [1.0], rtol=1e-7)
    local = here.along([f.at(np.zeros(1))], np.array([[-margin]])).local(np.array([0.5]))
    assert all(np.isfinite(part).all() for part in local)
    assert math.isfinite(here.offset)


@every_loss
@pytest.mark.parametrize("margin", [-1e4, 1e4])
def test_losses_stay_finite_at_extreme_margins(kind: Any, margin: float) -> None:
    """Value, gradient and restriction, against the formula."""
    f = kind(np.array([[1.0, 0.5], [-1.0, 2.0]]), np.array([1.0, -1.0]))
    x, end = np.array([margin, 0.0]), np.array([-margin, 1.0])
    here = f.at(x)
    z, y = np.array([margin, -margin]), np.array([1.0, -1.0])
    assert here.value == pytest.approx(float(LOSSES[kind](z, y).sum()), rel=1e-12)
    assert np.isfinite(here.gradient).all()
    for a in (0.0, 0.3, 1.0):
        assert all(
            np.isfinite(part).all()
            for part in here.along([f.at(end)], (end - x)[None]).local(np.array([a]))
        )


def test_logistic_keeps_small_slopes() -> None:
    """The gradient far on the right side is exp(-margin) to full precision, not 0."""
    for margin in (1e-3, 1.0, 36.0, 40.0, 700.0):
        gradient = Logistic(np.ones((1, 1)), np.ones(1)).at(np.array([margin])).gradient
        assert gradient[0] == pytest.approx(-expit(-margin), rel=1e-12)


@every_loss
@LAW
@given(seed=seeds)
def test_a_duplicated_sample_weighs_twice(kind: Any, seed: int) -> None:
    """Rows may be repeated, weighted 2, or left out by weight 0."""
    Z, y, _ = _data(seed)
    x = np.random.default_rng(seed).standard_normal(FEATURES)
    twice, weights = np.r_[np.arange(SAMPLES), [1, 4]], np.ones(SAMPLES)
    weights[[1, 4]] = 2.0
    repeated, weighted = kind(Z[twice], y[twice]).at(x), kind(Z, y, sample_weight=weights).at(x)
    assert weighted.value == pytest.approx(repeated.value, rel=1e-13)
    np.testing.assert_allclose(weighted.gradient, repeated.gradient, rtol=1e-12, atol=1e-12)
    kept, weights = np.arange(SAMPLES) != 2, np.ones(SAMPLES)
    weights[2] = 0.0
    assert kind(Z, y, sample_weight=weights).at(x).value == pytest.approx(
        kind(Z[kept], y[kept]).at(x).value, rel=1e-13
    )


@LAW
@given(seed=seeds, t=st.floats(0.01, 100.0))
def test_scaling_laws(seed: int, t: float) -> None:
    """Scaling data is scaling x, and for least squares scaling A and y is scaling f by the square."""
    Z, y, _ = _data(seed)
    x = np.random.default_rng(seed).standard_normal(FEATURES)
    for kind in (Logistic, SquaredHinge):
        assert kind(t * Z, y).at(x).value == pytest.approx(kind(Z, y).at(t * x).value, rel=1e-11)
    assert LeastSquares(t * Z, t * y).at(x).value == pytest.approx(
        t**2 * LeastSquares(Z, y).at(x).value, rel=1e-12
    )
    f = LeastSquares(Z, y) + Logistic(Z, y)
    np.testing.assert_allclose((t * f).at(x).gradient, t * f.at(x).gradient, rtol=1e-12, atol=1e-12)
    assert (f * t).at(x).value == pytest.approx(t * f.at(x).value, rel=1e-13)


@pytest.mark.parametrize("kind", [Logistic, SquaredHinge])
@pytest.mark.parametrize("labels", [(-1, 1), (0, 1), (3.0, 7.5), (False, True)])
def test_any_two_labels_mean_minus_and_plus_one(kind: Any, labels: tuple[Any, Any]) -> None:
    """The larger label counts as +1."""
    Z, y, _ = _data()
    x = np.linspace(-1.0, 1.0, FEATURES)
    renamed = np.where(y > 0, labels[1], labels[0])
    assert kind(Z, renamed).at(x).value == pytest.approx(
        float(LOSSES[kind](Z @ x, y).sum()), rel=1e-13
    )


@every_loss
@pytest.mark.parametrize("form", ["dense", "strided", "csr", "csc", "float32"])
def test_inputs_are_never_modified(kind: Any, form: str) -> None:
    """Data, targets, weights, points and directions are as they were."""
    Z, y, weights = _data()
    data = FORMATS[form](Z)
    given_arrays = [
        y,
        weights,
        np.linspace(-1.0, 1.0, FEATURES),
        np.linspace(2.0, 0.0, FEATURES),
        np.array([0.3]),
    ]
    given_arrays += (
        [data.data, data.indices, data.indptr] if scipy.sparse.issparse(data) else [data]
    )
    before = [part.copy() for part in given_arrays]
    f = 2.0 * kind(data, y, sample_weight=weights) + Linear(given_arrays[2])
    x, end, a = given_arrays[2:5]
    here, there = f.at(x), f.at(end)
    here.along([there], (end - x)[None]).local(a)
    moved = here.moved(x + 0.3 * (end - x), [there], a)
    assert math.isfinite(moved.value + moved.offset + float(moved.gradient.sum()) + f.smoothness)
    for part, copy in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(part, copy)


@every_loss
def test_points_in_any_memory_layout(kind: Any) -> None:
    """A strided or reversed x is the same x."""
    Z, y, _ = _data()
    f, x = kind(Z, y), np.linspace(-1.0, 1.0, FEATURES)
    for same in (np.repeat(x, 2)[::2], x[::-1].copy()[::-1]):
        assert f.at(same).value == pytest.approx(f.at(x).value, rel=1e-14)
        np.testing.assert_allclose(f.at(same).gradient, f.at(x).gradient, rtol=1e-13, atol=1e-13)
    C = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert Linear(C).at(np.ascontiguousarray(C)).value == 55.0
    assert Linear(C).at(np.asfortranarray(C)).value == 55.0


# --- functions of the user ---


def test_function_refuses_what_it_cannot_use() -> None:
    """A wrong shape, a bare number, NaN: each has its sentence."""
    x = np.ones(3)
    with pytest.raises(ValueError, match="shape of x"):
        Function(lambda x: (1.0, x[:2])).at(x).gradient  # noqa: B018
    with pytest.raises(TypeError, match="must return"):
        Function(lambda x: float(x.sum())).at(x).value  # noqa: B018
    with pytest.raises(NotFiniteError):
        Function(lambda x: (float("nan"), x)).at(x).value  # noqa: B018
    with pytest.raises(TypeError, match="callable"):
        Function(3.0)  # type: ignore[arg-type]


def test_function_is_called_once_a_point() -> None:
    """Value, gradient and offset share one call, made when first asked."""
    calls: list[Points] = []

    def counted(x: Points) -> tuple[float, Points]:
        calls.append(x)
        return _own(x)

    here = Function(counted).at(np.arange(3.0))
    assert not calls
    assert here.value - here.gradient @ np.arange(3.0) == pytest.approx(here.offset)
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 2])
def test_function_by_autograd(dtype: str, k: int, torch: Any) -> None:
    """A torch scalar is differentiated; value, gradient, restriction and move agree with NumPy's."""
    rng = np.random.default_rng(k)
    x, ends, a = rng.standard_normal(4), rng.standard_normal((k, 4)), np.full(k, 0.4)

    def tensor(z: Points) -> Any:
        return torch.asarray(z).to(getattr(torch, dtype))

    auto, plain = Function(lambda z: torch.logsumexp(z, 0)), Function(_own)
    given_x = tensor(x)
    here, close = (
        auto.at(given_x),
        {"rtol": 1e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-13},
    )
    np.testing.assert_allclose(here.value, _own(x)[0], **close)
    assert here.gradient.dtype == given_x.dtype
    assert not here.gradient.requires_grad
    assert not given_x.requires_grad
    np.testing.assert_allclose(host(here.gradient), _own(x)[1], **close)
    line = here.along([auto.at(tensor(end)) for end in ends], tensor(ends - x)).local(a)
    expected = plain.at(x).along([plain.at(end) for end in ends], ends - x).local(a)
    np.testing.assert_allclose(line.value, expected.value, **close)
    np.testing.assert_allclose(line.slope, expected.slope, **close)
    mixed = x + a @ (ends - x)
    assert here.moved(tensor(mixed), [], a).value == pytest.approx(_own(mixed)[0], rel=1e-5)


def test_function_of_tensors_may_return_both(torch: Any) -> None:
    """A value and a gradient of the user's own are taken as they are; a bare number is refused in a sentence."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    here = Function(lambda z: ((z**2).sum(), 2 * z)).at(x)
    assert here.value == 5.0
    assert not here.gradient.requires_grad
    np.testing.assert_array_equal(host(here.gradient), [2.0, 4.0])
    with pytest.raises(TypeError, match="must return"):
        Function(lambda z: 3.0).at(x).value  # noqa: ARG005, B018


# --- torch data ---


@every_loss
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_on_torch_agree_with_numpy(
    kind: Any, dtype: str, weighted: bool, torch: Any
) -> None:
    """Value, gradient, offset, restriction, move and smoothness."""
    Z, y, weights = _data()
    own = getattr(torch, dtype)
    T = torch.asarray(Z).to(own)
    Z = host(T)
    f, g = (kind(data, y, sample_weight=weights if weighted else None) for data in (Z, T))
    rng = np.random.default_rng(1)
    x, ends, a = (
        rng.standard_normal(FEATURES),
        rng.standard_normal((3, FEATURES)),
        np.array([0.2, 0.3, 0.1]),
    )
    x, ends = (host(torch.asarray(z).to(own)) for z in (x, ends))
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}
    here, there = f.at(x), g.at(torch.asarray(x).to(own))
    others = [f.at(end) for end in ends], [g.at(torch.asarray(end).to(own)) for end in ends]
    assert there.gradient.dtype == own
    np.testing.assert_allclose(host(there.gradient), here.gradient, **close)
    lines = here.along(others[0], ends - x), there.along(others[1], torch.asarray(ends - x).to(own))
    for part, same in zip(lines[1].local(a), lines[0].local(a), strict=True):
        np.testing.assert_allclose(part, same, **close)
    mixed = x + a @ (ends - x)
    moves = here.moved(mixed, others[0], a), there.moved(torch.asarray(mixed).to(own), others[1], a)
    found = there.value, there.offset, moves[1].value, moves[1].offset, g.smoothness
    np.testing.assert_allclose(
        found, (here.value, here.offset, moves[0].value, moves[0].offset, f.smoothness), **close
    )


def test_targets_keep_double_precision_beside_single_data(torch: Any) -> None:
    """y and the weights are held in float64 whatever the data are, in torch as in NumPy."""
    Z, _, weights = _data()
    y = np.linspace(0.0, 1.0, SAMPLES) / 3.0
    Z = Z.astype(np.float32)
    expected = 0.5 * float(weights @ y**2)
    origin = np.zeros(FEATURES, dtype=np.float32)
    assert LeastSquares(Z, y, sample_weight=weights).at(origin).value == pytest.approx(
        expected, rel=1e-13
    )
    f = LeastSquares(torch.asarray(Z), torch.asarray(y), sample_weight=torch.asarray(weights))
    assert f.at(torch.asarray(origin)).value == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("wide", ["first", "second"])
def test_a_sum_of_two_precisions_on_torch(wide: str, torch: Any) -> None:
    """Terms of float32 and float64 data add up, as they do in NumPy."""
    Z, y, _ = _data()
    Z, slope = np.round(4 * Z) / 4, np.arange(FEATURES) / 4
    kinds = (torch.float64, torch.float32) if wide == "first" else (torch.float32, torch.float64)
    f = LeastSquares(torch.asarray(Z).to(kinds[0]), y) + Linear(torch.asarray(slope).to(kinds[1]))
    x, end = np.ones(FEATURES), np.arange(FEATURES) / 2
    here, there = (f.at(torch.asarray(point)) for point in (x, end))
    line = here.along([there], torch.asarray(end - x)[None])
    expected = 0.5 * float(((Z @ (x + 0.5 * (end - x)) - y) ** 2).sum()) + float(
        slope @ (x + 0.5 * (end - x))
    )
    assert line.value(np.array([0.5])) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(host(here.gradient), Z.T @ (Z @ x - y) + slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("margin", [-300.0, -40.0, -9.0, -0.1, 3.0])
def test_a_count_of_0_has_all_digits_of_its_mean(margin: float) -> None:
    value, gradient = Poisson(np.array([[margin]]), np.array([0.0])).value_and_gradient(np.ones(1))
    assert value == pytest.approx(math.exp(margin), rel=1e-15, abs=0.0)
    assert gradient[0] == pytest.approx(margin * math.exp(margin), rel=1e-15, abs=0.0)
