"""Newton on the certificate: its law, its derivatives, its answers against other methods, and a grid of hard cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condgrad as cg
from condgrad.transport import newton_system as systems
from condgrad.transport.moments import Moments
from condgrad.transport.newton import Embedded, EntropicLaplacian, recognise
from condgrad.transport.newton_system import FactoredSystem, NewtonSystem, NystromSystem


def squared_distances(Xs: Any, Xt: Any) -> Any:
    return ((Xs[:, None] - Xt[None]) ** 2).sum(-1)


def problem(
    n: int, m: int, *, seed: int = 0, entropy: float = 0.05, weight: float = 10.0, normalized: bool = True
) -> tuple[Any, Any]:
    """Points, uneven weights, and both Laplacian terms."""
    rng = np.random.default_rng(seed)
    Xs, Xt = rng.random((n, 2)), rng.random((m, 2)) + 0.3
    a, b = rng.dirichlet(np.full(n, 5.0)), rng.dirichlet(np.full(m, 5.0))
    f = cg.smooth.Linear(squared_distances(Xs, Xt))
    if weight > 0:
        f = f + cg.transport.Laplacian(Xs, Xt, weight=weight, neighbors=3, normalized=normalized).smooth_part()
    return f, cg.simple.Entropy(entropy, on=cg.sets.Transport(a, b))


def model_of(f: Any, g: Any) -> EntropicLaplacian:
    model = recognise(f, g)
    assert isinstance(model, EntropicLaplacian)
    return model


def random_point(model: EntropicLaplacian, seed: int, size: float) -> Moments:
    rng = np.random.default_rng(seed)
    n, m = model.C.shape
    return Moments(
        size * rng.standard_normal(m), size * rng.standard_normal((n, 2)) / n, size * rng.standard_normal((m, 2)) / m
    )


F, G = problem(12, 9)
BEST = cg.minimize(F, G, memory=5, tol=1e-11)
"""The judge: another method, certified by its own bound."""


@given(seed=st.integers(0, 10**6), size=st.floats(1e-3, 10.0))
def test_every_dual_point_is_a_lower_bound(seed: int, size: float) -> None:
    model = model_of(F, G)
    assert model.evaluate(random_point(model, seed, size), 1.0).dual <= BEST.value + 1e-12


@given(seed=st.integers(0, 10**6), t=st.sampled_from([1.0, 3.0, 20.0]))
def test_gradient_and_hessian_against_differences(seed: int, t: float) -> None:
    """The residuals are the gradient (in the metric of the Laplacians) and the products its derivative."""
    model = model_of(F, G)
    z, d = random_point(model, seed, 0.1), random_point(model, seed + 1, 0.1)
    h = 1e-5
    system = NewtonSystem(model, model.evaluate(z, t))
    r = system.residual
    slope = system.inner(r, d)
    there, back = (model.evaluate(model.moved(z, d, s), t) for s in (h, -h))
    assert slope == pytest.approx((there.dual - back.dual) / (2 * h), rel=1e-5, abs=1e-8)
    straight, potential = system.product(None, (d.P, d.Q)), system.product(d.v, None)
    ahead, behind = NewtonSystem(model, there).residual, NewtonSystem(model, back).residual
    whole = system.product(d.v, (d.P, d.Q))
    for part, alone, other in zip(whole, straight, potential, strict=True):
        np.testing.assert_allclose(part, alone + other, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.v, -(ahead.v - behind.v) / (2 * h), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(d.P + whole.P, -(ahead.P - behind.P) / (2 * h), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(d.Q + whole.Q, -(ahead.Q - behind.Q) / (2 * h), rtol=1e-4, atol=1e-6)
    pure = Moments(0.0 * d.v, d.P, d.Q)
    there, back = (NewtonSystem(model, model.evaluate(model.moved(z, pure, s), t)) for s in (h, -h))
    np.testing.assert_allclose(straight.v, -(there.residual.v - back.residual.v) / (2 * h), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 10.0, 1e3])
@pytest.mark.parametrize("shape", [(12, 9), (9, 12), (1, 5), (5, 1), (1, 1)])
def test_the_same_answer_as_cgs(shape: tuple[int, int], weight: float) -> None:
    f, g = problem(*shape, weight=weight)
    newton = cg.minimize(f, g, method="newton", tol=1e-11)
    other = cg.minimize(f, g, memory=5, tol=1e-9, max_iter=20_000)
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value
    assert g.on.violation(newton.x) <= 1e-12
    # the bound holds in every row, not only at the end of the path
    assert (newton.trace["lower_bound"] <= other.value + 1e-12).all()


def test_the_plan_is_the_same_too() -> None:
    newton = cg.minimize(F, G, method="newton", tol=1e-11)
    np.testing.assert_allclose(newton.x, BEST.x, atol=1e-5)
    assert newton.value == pytest.approx(BEST.value, abs=2e-11)


def test_points_without_weight_take_no_part() -> None:
    f, g = problem(12, 9)
    a, b = g.on.a.copy(), g.on.b.copy()
    a[[2, 7]], b[4] = 0.0, 0.0
    g = cg.simple.Entropy(0.05, on=cg.sets.Transport(a / a.sum(), b / b.sum()))
    newton, other = (cg.minimize(f, g, method=m, tol=1e-9, max_iter=20_000) for m in ("newton", "cgs"))
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value
    assert (newton.x[[2, 7]] == 0).all()
    assert (newton.x[:, 4] == 0).all()


@pytest.mark.parametrize("side", ["source", "target"])
def test_one_laplacian_term_alone(side: str) -> None:
    data = cg.datasets.make_clusters(20)
    options = {"source": 0.0, "target": 0.0} | {side: 1.0}
    part = cg.transport.Laplacian(data.Xs, data.Xt, weight=50.0, neighbors=4, **options)
    f = cg.smooth.Linear(squared_distances(data.Xs, data.Xt)) + part.smooth_part()
    g = cg.simple.Entropy(0.02, on=cg.sets.Transport(np.full(20, 0.05), np.full(20, 0.05)))
    newton, other = (cg.minimize(f, g, method=m, tol=1e-8, max_iter=20_000) for m in ("newton", "cgs"))
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value


GRID = [
    (entropy, weight, normalized, scale)
    for entropy in (1.0, 1e-2, 1e-4, 1e-6)
    for weight, normalized in ((0.0, True), (1e3, True), (1e3, False), (1e6, False))
    for scale in (1.0, 1e-3, 1e3)
]


@pytest.mark.parametrize(("entropy", "weight", "normalized", "scale"), GRID)
def test_a_grid_of_hard_cases(entropy: float, weight: float, normalized: bool, scale: float) -> None:
    """Entropy from the largest cost down to a millionth of it, stiff Laplacians, coordinates in any unit."""
    data = cg.datasets.make_clusters(30)
    Xs, Xt = scale * data.Xs, scale * data.Xt
    C = squared_distances(Xs, Xt)
    regularizers = [cg.transport.Laplacian(Xs, Xt, weight=weight, neighbors=5, normalized=normalized)] if weight else []
    result = cg.transport.solve(
        C, entropy=entropy * float(C.max()), regularizers=regularizers, method="newton", tol=1e-8, max_iter=500
    )
    assert result.lower_bound <= result.value
    # the stiffest (weight 1e10 times the entropy or more) are let off a digit and a half, with an honest status
    assert result.success or (entropy * 1e10 <= weight and result.relative_gap <= 5e-7), str(result)
    assert cg.sets.Transport(np.full(30, 1 / 30), np.full(30, 1 / 30)).violation(result.plan) <= 1e-12


@pytest.mark.parametrize(("weight", "normalized"), [(0.0, True), (1e3, True), (1e3, False), (1e6, False)])
@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4])
def test_units_do_not_matter(entropy: float, weight: float, normalized: bool) -> None:
    """The same problem in another unit of length takes the same iterations, but for what rounding does."""
    data = cg.datasets.make_clusters(30)
    counts = []
    for scale in (1.0, 1e-3, 1e3):
        Xs, Xt = scale * data.Xs, scale * data.Xt
        C = squared_distances(Xs, Xt)
        terms = [cg.transport.Laplacian(Xs, Xt, weight, neighbors=5, normalized=normalized)] if weight else []
        entropy_here = entropy * float(C.max())
        result = cg.transport.solve(C, entropy=entropy_here, regularizers=terms, method="newton", tol=1e-7)
        assert result.success
        counts.append(result.iterations)
    assert max(counts) - min(counts) <= 0.1 * max(counts)


def test_weights_over_six_decades() -> None:
    rng = np.random.default_rng(0)
    a, b = 10.0 ** rng.uniform(-6, 0, 25), 10.0 ** rng.uniform(-6, 0, 18)
    Xs, Xt = rng.random((25, 2)), rng.random((18, 2))
    result = cg.transport.solve(
        squared_distances(Xs, Xt),
        a / a.sum(),
        b / b.sum(),
        entropy=1e-3,
        regularizers=[cg.transport.Laplacian(Xs, Xt, weight=100.0, neighbors=4)],
        method="newton",
        tol=1e-8,
    )
    assert result.success


def test_a_good_start_enters_the_path_late() -> None:
    f, g = problem(12, 9, entropy=1e-3, weight=100.0)
    cold = cg.minimize(f, g, method="newton", tol=1e-6)
    warm = cg.minimize(f, g, cold.x, method="newton", tol=1e-6)
    assert warm.iterations < cold.iterations
    assert warm.iterations <= 1


def test_auto_takes_newton_where_it_can() -> None:
    auto, newton = (cg.minimize(F, G, method=m, tol=1e-10) for m in ("auto", "newton"))
    assert auto.iterations == newton.iterations
    A = np.eye(3)
    plain = cg.minimize(
        cg.smooth.LeastSquares(A, np.ones(3)), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="auto"
    )
    assert plain.success


def test_what_newton_cannot_do() -> None:
    f = cg.smooth.LeastSquares(np.eye(3), np.ones(3))
    with pytest.raises(cg.MissingAbility, match=r"newton.*LeastSquares.*L2Ball.*has no faces"):
        cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0)), method="newton")
    with pytest.raises(cg.MissingAbility, match=r"newton.*Linear.* is no h\(Kx\)"):
        cg.minimize(cg.smooth.Linear(np.ones(3)), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="newton")
    with pytest.raises(cg.MissingAbility, match=r"newton.*L1Norm.* is no quadratic"):
        cg.minimize(f, cg.simple.L1Norm(1.0, on=cg.sets.L1Ball(1.0)), method="newton")
    with pytest.raises(ValueError, match="chooses its own steps"):
        cg.minimize(F, G, method="newton", step="armijo")


def test_tensors(torch: Any) -> None:
    data = cg.datasets.make_clusters(25)
    kinds: list[Any] = [np.asarray, torch.as_tensor]
    results = [
        cg.transport.solve(
            kind(squared_distances(data.Xs, data.Xt)),
            entropy=0.02,
            regularizers=[cg.transport.Laplacian(kind(data.Xs), kind(data.Xt), weight=100.0)],
            method="newton",
            tol=1e-10,
        )
        for kind in kinds
    ]
    assert all(result.success for result in results)
    assert isinstance(results[1].plan, torch.Tensor)
    np.testing.assert_allclose(results[0].plan, results[1].plan.numpy(), atol=1e-8)


@pytest.mark.parametrize("shift", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("method", ["newton", "cgs"])
def test_far_off_coordinates_do_not_spoil_the_bound(method: str, shift: float) -> None:
    """Moving both clouds changes nothing for raw Laplacians and uniform weights, but for what rounding does."""
    data = cg.datasets.make_clusters(20)
    Xs, Xt = data.Xs + shift, data.Xt + shift
    C = squared_distances(data.Xs, data.Xt)

    def solved(Xs: Any, Xt: Any, **options: Any) -> Any:
        part = cg.transport.Laplacian(Xs, Xt, weight=1e3, neighbors=5, normalized=False)
        return cg.transport.solve(C, entropy=0.02, regularizers=[part], **options)

    best = solved(data.Xs, data.Xt, method="newton", tol=1e-11)
    result = solved(Xs, Xt, method=method, tol=1e-9, max_iter=300)
    assert result.lower_bound <= best.value + 1e-13


@given(seed=st.integers(0, 10**6), t=st.sampled_from([1.0, 5.0]), weight=st.sampled_from([0.0, 1.0, 10.0]))
def test_both_systems_find_the_same_direction(seed: int, t: float, weight: float) -> None:
    """One by a factor of the potential block, one by conjugate gradients that know its low rank."""
    f, g = problem(14, 11, weight=weight, seed=seed)
    model = model_of(f, g)
    near = cg.minimize(f, g, method="newton", tol=1e-3)
    point = model.evaluate(model.start(near.x), t)
    factored = FactoredSystem(model, point).solve(1e-9)
    sketched = NystromSystem(model, point, largest_rank=6).solve(1e-9)
    assert sketched.slope == pytest.approx(factored.slope, rel=1e-6)
    for one, other in zip(_centred(factored.direction), _centred(sketched.direction), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * (1e-3 + np.abs(one).max(initial=0.0)))


def _centred(direction: Moments) -> Moments:
    """A constant in v means nothing."""
    return direction._replace(v=direction.v - direction.v.mean())


def test_the_rank_follows_the_decay() -> None:
    """Small entropies make kernels of high rank."""

    def rank(entropy: float) -> int:
        data = cg.datasets.make_clusters(300)
        f = cg.smooth.Linear(squared_distances(data.Xs, data.Xt))
        weights = np.full(300, 1 / 300)
        g = cg.simple.Entropy(entropy, on=cg.sets.Transport(weights, weights))
        best = cg.minimize(f, g, method="newton", tol=1e-6)
        model = model_of(f, g)
        point = model.evaluate(model.start(best.x), 1.0)
        return len(NystromSystem(model, point, largest_rank=300).weights)

    assert rank(0.1) == systems.FIRST_RANK
    assert rank(1e-3) > systems.FIRST_RANK


@pytest.mark.parametrize("normalized", [True, False])
def test_where_no_factor_fits(normalized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory for a factor the answer is the same."""
    f, g = problem(60, 50, entropy=0.01, weight=1e2, normalized=normalized)
    factored = cg.minimize(f, g, method="newton", tol=1e-9)
    monkeypatch.setattr(systems, "free_memory", lambda _: 0.0)
    monkeypatch.setattr(systems.FactoredSystem, "solve", None)
    sketched = cg.minimize(f, g, method="newton", tol=1e-9)
    assert factored.success
    assert sketched.success
    assert sketched.lower_bound <= factored.value
    assert factored.lower_bound <= sketched.value


def test_large_kernels_of_high_rank_are_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A low-rank approximation that would be no approximation gives way to the factor."""
    monkeypatch.setattr(systems, "LEAST_SIZE", 1)
    f, g = problem(64, 60, entropy=1e-5, weight=0.0)
    model = model_of(f, g)
    best = cg.minimize(f, g, method="newton", tol=1e-8)
    assert best.success
    point = model.evaluate(model.start(best.x), 1.0)
    assert isinstance(systems.newton_system(model, point), FactoredSystem)


def test_wide_problems_are_turned() -> None:
    """A factor has the size of the smaller side, whichever that is."""
    f, g = problem(5, 40)
    wide = recognise(f, g)
    assert isinstance(wide, Embedded)
    assert wide.model.size == 5
    C, omega = f.terms
    turned = cg.smooth.Linear(C.C.T) + omega.turned()
    tall = cg.minimize(
        turned, cg.simple.Entropy(0.05, on=cg.sets.Transport(g.on.b, g.on.a)), method="newton", tol=1e-11
    )
    result = cg.minimize(f, g, method="newton", tol=1e-11)
    assert result.value == pytest.approx(tall.value, abs=1e-11)
    np.testing.assert_allclose(result.x, tall.x.T, atol=1e-7)
