"""Newton on the certificate: its law, its derivatives, its answers against other methods, and a grid of hard cases."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condgrad as cg
from condgrad.newton.ascent import STEEP, AscentProgress
from condgrad.newton.conjugate_gradients import conjugate_gradients
from condgrad.newton.laplacian import dual, plans
from condgrad.newton.laplacian import dual as duals
from condgrad.newton.laplacian import preconditioner as preconditioners
from condgrad.newton.laplacian.dual import STIFF, EntropicLaplacian
from condgrad.newton.laplacian.hessian import Hessian
from condgrad.newton.laplacian.moments import DualVector
from condgrad.newton.laplacian.preconditioner import (
    FactoredBlock,
    Inverses,
    LeadingModes,
    ShiftedBlocks,
    by_block,
    schur_solve,
    solved,
    whole_blocks,
)
from condgrad.newton.laplacian.whole import WholeHessian
from condgrad.structure import structure


def squared_distances(Xs: Any, Xt: Any) -> Any:
    return ((Xs[:, None] - Xt[None]) ** 2).sum(-1)


def problem(
    n: int,
    m: int,
    *,
    seed: int = 0,
    entropy: float = 0.05,
    weight: float = 10.0,
    normalized: bool = True,
    d: int = 2,
) -> tuple[Any, Any]:
    """Points, uneven weights, and both Laplacian terms."""
    rng = np.random.default_rng(seed)
    Xs, Xt = rng.random((n, d)), rng.random((m, d)) + 0.3
    a, b = rng.dirichlet(np.full(n, 5.0)), rng.dirichlet(np.full(m, 5.0))
    f = cg.smooth.Linear(squared_distances(Xs, Xt))
    if weight > 0:
        f = (
            f
            + cg.transport.Laplacian(
                Xs, Xt, weight=weight, neighbors=3, normalized=normalized
            ).smooth_part()
        )
    return f, cg.simple.Entropy(entropy, on=cg.sets.Transport(a, b))


def model_of(f: Any, g: Any) -> EntropicLaplacian:
    model = dual.model_of(structure(f, g))
    assert isinstance(model, EntropicLaplacian)
    return model


def random_point(model: EntropicLaplacian, seed: int, size: float) -> DualVector:
    rng = np.random.default_rng(seed)
    (n, m), d = model.cost.shape, model.Xs.shape[1]
    return DualVector(
        size * rng.standard_normal(m),
        size * rng.standard_normal((n, d)) / n,
        size * rng.standard_normal((m, d)) / m,
    )


F, G = problem(12, 9)
BEST = cg.minimize(F, G, memory=5, tol=1e-11)
"""The judge: another method, certified by its own bound."""


@given(seed=st.integers(0, 10**6), size=st.floats(1e-3, 10.0))
def test_every_dual_point_is_a_lower_bound(seed: int, size: float) -> None:
    model = model_of(F, G)
    assert model.evaluate(random_point(model, seed, size), 1.0).dual <= BEST.value + 1e-12


@pytest.mark.parametrize("d", [2, 7])
@given(seed=st.integers(0, 10**6), t=st.sampled_from([1.0, 3.0, 20.0]))
def test_gradient_and_hessian_against_differences(d: int, seed: int, t: float) -> None:
    """The residuals are the gradient (in the metric of the Laplacians) and the product its derivative."""
    model = model_of(*problem(12, 9, d=d))
    z, x = random_point(model, seed, 0.1), random_point(model, seed + 1, 0.1)
    x = x._replace(v=x.v - (model.b @ x.v) / model.b.sum())
    h = 1e-5
    hessian = Hessian(model, model.evaluate(z, t))
    there, back = (model.evaluate(model.moved(z, x, s), t) for s in (h, -h))
    slope = hessian.inner(hessian.residual, x)
    assert slope == pytest.approx((there.dual - back.dual) / (2 * h), rel=1e-5, abs=1e-8)
    ahead, behind = Hessian(model, there).residual, Hessian(model, back).residual
    lift = hessian.columns * ((hessian.columns @ x.v) / (model.polytope.mass * hessian.entropy))
    product = hessian.product(x)
    np.testing.assert_allclose(
        product.v - lift, -(ahead.v - behind.v) / (2 * h), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(product.P, -(ahead.P - behind.P) / (2 * h), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(product.Q, -(ahead.Q - behind.Q) / (2 * h), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 4])
@given(seed=st.integers(0, 10**6))
def test_both_ways_to_a_product_agree_and_are_self_adjoint(d: int, seed: int) -> None:
    """By thin products, which few dimensions allow, and from W itself."""
    model = model_of(*problem(12, 9, d=d, weight=1.0))
    hessian = Hessian(model, model.evaluate(random_point(model, seed, 0.01), 1.0))
    x, y = random_point(model, seed + 1, 1.0), random_point(model, seed + 2, 1.0)
    dU, dV = model.gradient_in_P(x.P), model.gradient_in_Q(x.Q)
    for thin, whole in zip(
        hessian._thin_sums(x.v, dU, dV), hessian._centred_sums(x.v, dU, dV), strict=True
    ):
        np.testing.assert_allclose(thin, whole, rtol=1e-9, atol=1e-10 * np.abs(whole).max())
    assert hessian.inner(hessian.product(x), y) == pytest.approx(
        hessian.inner(x, hessian.product(y)), rel=1e-8
    )
    assert hessian.inner(hessian.product(x), x) > 0.0


@pytest.mark.parametrize(
    ("d", "weight", "normalized"), [(2, 10.0, True), (2, 10.0, False), (9, 10.0, True)]
)
def test_centred_coordinates_are_the_same_problem(d: int, weight: float, normalized: bool) -> None:
    """At the optimum the dual of centred and rotated coordinates is F* of those that were given."""
    f, g = problem(12, 9, d=d, weight=weight, normalized=normalized)
    best = cg.minimize(f, g, memory=5, tol=1e-10, max_iter=50_000)
    newton = cg.minimize(f, g, method="newton", tol=1e-10)
    assert newton.success
    assert newton.lower_bound <= best.value
    assert best.lower_bound <= newton.value
    model = model_of(f, g)
    assert np.abs(model.a @ model.Xs).max() <= 1e-14
    assert model.evaluate(model.start(newton.x), 1.0).dual == pytest.approx(
        best.value, abs=1e-6 * best.scale
    )


@pytest.mark.parametrize(
    ("sources", "targets"),
    [((14, 2), (11, 3)), ((14, 8), (11, 3)), ((11, 8), (14, 9)), ((3, 20), (9, 20))],
)
def test_clouds_in_different_spaces(sources: tuple[int, int], targets: tuple[int, int]) -> None:
    """P has the coordinates of targets and Q those of sources; fewer points than dimensions span a part of them."""
    rng = np.random.default_rng(0)
    Xs, Xt = rng.random(sources), rng.random(targets)
    (n, _), (m, _) = sources, targets
    part = cg.transport.Laplacian(Xs, Xt, weight=10.0, neighbors=2)
    f = cg.smooth.Linear(rng.random((n, m))) + part.smooth_part()
    g = cg.simple.Entropy(0.05, on=cg.sets.Transport(np.full(n, 1.0 / n), np.full(m, 1.0 / m)))
    newton, other = (
        cg.minimize(f, g, method="newton", tol=1e-9),
        cg.minimize(f, g, memory=3, tol=1e-7),
    )
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("d", [5, 30, 150])
def test_many_dimensions(d: int, normalized: bool) -> None:
    f, g = problem(40, 30, d=d, entropy=0.05 * d, weight=50.0, normalized=normalized)
    newton = cg.minimize(f, g, method="newton", tol=1e-8)
    other = cg.minimize(f, g, memory=3, tol=1e-6, max_iter=2000)
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value


def test_auto_asks_for_more_stiffness_in_more_dimensions() -> None:
    """Newton's products cost in proportion to the dimension, and more are needed; CGS takes hardly longer."""
    few, more = (dual.model_of(structure(*problem(80, 70, d=d, weight=40.0 / d))) for d in (2, 64))
    assert isinstance(few, EntropicLaplacian)
    assert isinstance(more, EntropicLaplacian)
    assert few.stiffness > STIFF
    assert more.stiffness > STIFF
    assert few.affordable
    assert not more.affordable


def test_auto_takes_cgs_from_a_measure_to_itself_under_a_soft_laplacian() -> None:
    """Sinkhorn's iteration is never slow there, however small the entropy; between other points it is."""
    X = cg.datasets.make_clusters(30).Xs
    even = np.full(30, 1.0 / 30.0)

    def affordable(Xt: Any, weight: float) -> bool:
        part = cg.transport.Laplacian(X, Xt, weight=weight).smooth_part()
        f = cg.smooth.Linear(squared_distances(X, Xt)) + part
        return model_of(f, cg.simple.Entropy(1e-4, on=cg.sets.Transport(even, even))).affordable

    assert not affordable(X, 0.01)
    assert affordable(X, 1e4)
    assert affordable(X + 0.1, 0.01)


def test_auto_weighs_the_dimension() -> None:
    """Along very many axes CGS is ahead of Newton for soft Laplacians that keep constants; few points span few axes."""
    few, many, raw, spanned = (
        dual.model_of(structure(*problem(n, n, d=d, weight=weight * n, normalized=normalized)))
        for n, d, normalized, weight in (
            (12, 9, True, 0.8),
            (120, 150, True, 0.08),
            (120, 150, False, 0.08),
            (12, 150, True, 0.8),
        )
    )
    assert few is not None
    assert few.affordable
    assert many is not None
    assert not many.affordable
    assert raw is not None
    assert raw.affordable
    assert spanned is not None
    assert spanned.affordable


@given(seed=st.integers(0, 10**6), size=st.integers(1, 8))
def test_conjugate_gradients_solve(seed: int, size: int) -> None:
    """Against a factorisation, with and without a preconditioner, which may be inexact."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((size, size))
    A = A @ A.T + np.eye(size)
    b = rng.standard_normal(size)
    for precondition in (lambda r: r, lambda r: r / np.diag(A)):
        found = conjugate_gradients(
            lambda x: A @ x,
            b,
            inner=np.dot,
            accuracy=1e-13,
            max_iterations=200,
            precondition=precondition,
        )
        np.testing.assert_allclose(found.x, np.linalg.solve(A, b), rtol=1e-6, atol=1e-8)
        assert found.iterations <= 200
    assert (
        conjugate_gradients(
            lambda x: A @ x, 0.0 * b, inner=np.dot, accuracy=0.1, max_iterations=9
        ).iterations
        == 0
    )


@pytest.mark.parametrize("weight", [0.0, 10.0, 1e3])
@pytest.mark.parametrize("shape", [(12, 9), (9, 12), (1, 5), (5, 1), (1, 1)])
def test_the_same_answer_as_cgs(shape: tuple[int, int], weight: float) -> None:
    f, g = problem(*shape, weight=weight)
    newton = cg.minimize(f, g, method="newton", tol=1e-11)
    other = cg.minimize(f, g, memory=5, tol=1e-9, max_iter=60)
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value
    assert g.on.violation(newton.x) <= 1e-12
    # the bound holds in every row that has one, not only at the end of the path
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
    newton, other = (
        cg.minimize(f, g, method=m, tol=1e-9, max_iter=20_000) for m in ("newton", "cgs")
    )
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
    newton, other = (
        cg.minimize(f, g, method=m, tol=1e-8, max_iter=20_000) for m in ("newton", "cgs")
    )
    assert newton.success
    assert newton.lower_bound <= other.value
    assert other.lower_bound <= newton.value


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize(
    ("weight", "normalized"), [(0.0, True), (1e3, True), (1e3, False), (1e6, False)]
)
@pytest.mark.parametrize("entropy", [1e-6, 1e-4, 1e-2, 1.0])
def test_a_grid_of_hard_cases(
    entropy: float, weight: float, normalized: bool, scale: float
) -> None:
    """Entropy from the largest cost down to a millionth of it, stiff Laplacians, coordinates in any unit."""
    data = cg.datasets.make_clusters(30)
    Xs, Xt = scale * data.Xs, scale * data.Xt
    C = squared_distances(Xs, Xt)
    regularizers = (
        [cg.transport.Laplacian(Xs, Xt, weight=weight, neighbors=5, normalized=normalized)]
        if weight
        else []
    )
    result = cg.transport.solve(
        C,
        entropy=entropy * float(C.max()),
        regularizers=regularizers,
        method="newton",
        tol=1e-8,
        max_iter=500,
    )
    assert result.lower_bound <= result.value
    # the stiffest (weight 1e10 times the entropy or more) are let off some digits, with an honest status
    assert result.success or (entropy * 1e10 <= weight and result.relative_gap <= 5e-6), str(result)
    assert (
        cg.sets.Transport(np.full(30, 1 / 30), np.full(30, 1 / 30)).violation(result.plan) <= 1e-12
    )


@pytest.mark.parametrize(
    ("weight", "normalized"), [(0.0, True), (1e3, True), (1e3, False), (1e6, False)]
)
@pytest.mark.parametrize("entropy", [1.0, 1e-2, 1e-4])
def test_units_do_not_matter(entropy: float, weight: float, normalized: bool) -> None:
    """The same problem in another unit of length takes the same iterations, but for what rounding does."""
    data = cg.datasets.make_clusters(30)
    counts = []
    for scale in (1.0, 1e-3, 1e3):
        Xs, Xt = scale * data.Xs, scale * data.Xt
        C = squared_distances(Xs, Xt)
        terms = (
            [cg.transport.Laplacian(Xs, Xt, weight, neighbors=5, normalized=normalized)]
            if weight
            else []
        )
        entropy_here = entropy * float(C.max())
        result = cg.transport.solve(
            C, entropy=entropy_here, regularizers=terms, method="newton", tol=1e-7
        )
        assert result.success
        counts.append(result.iterations)
    assert max(counts) - min(counts) <= 0.2 * max(counts)


@pytest.mark.parametrize("entropy", [1e-2, 1e-6])
def test_clusters_far_apart_cost_no_digits(entropy: float) -> None:
    """F is a thousandth of the largest cost, and the moments of a part of the graph are large and alike."""
    rng = np.random.default_rng(0)
    apart = 50.0 * rng.standard_normal((4, 2))[np.arange(40) % 4]
    Xs, Xt = apart + rng.standard_normal((40, 2)), apart + 1.0 + rng.standard_normal((40, 2))
    C = squared_distances(Xs, Xt)
    stiff = cg.transport.Laplacian(Xs, Xt, 1e6 / C.max(), neighbors=5, normalized=False)
    result = cg.transport.solve(
        C / C.max(), entropy=entropy, regularizers=[stiff], method="newton", tol=1e-10, max_iter=500
    )
    assert result.success, str(result)


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
        cg.smooth.LeastSquares(A, np.ones(3)),
        cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)),
        method="auto",
    )
    assert plain.success


def test_what_newton_cannot_do() -> None:
    f = cg.smooth.LeastSquares(np.eye(3), np.ones(3))
    with pytest.raises(cg.MissingAbility, match=r"newton.*LeastSquares.*L2Ball.*has no faces"):
        cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0)), method="newton")
    with pytest.raises(cg.MissingAbility, match=r"newton.*Linear.* is not a loss h\(Kx\)"):
        cg.minimize(
            cg.smooth.Linear(np.ones(3)),
            cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)),
            method="newton",
        )
    with pytest.raises(cg.MissingAbility, match=r"newton.*L1Norm.* is not quadratic"):
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


def solved_far_off(shift: float, **options: Any) -> Any:
    """Two clouds that are moved together, under a raw Laplacian that does not see it."""
    data = cg.datasets.make_clusters(20)
    C = squared_distances(data.Xs, data.Xt)
    Xs, Xt = data.Xs + shift, data.Xt + shift
    part = cg.transport.Laplacian(Xs, Xt, weight=1e3, neighbors=5, normalized=False)
    return cg.transport.solve(C, entropy=0.02, regularizers=[part], **options)


@functools.cache
def least_value() -> float:
    return solved_far_off(0.0, method="newton", tol=1e-11, max_iter=300).value


@pytest.mark.parametrize("shift", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("method", ["newton", "cgs"])
def test_far_off_coordinates_do_not_spoil_the_bound(method: str, shift: float) -> None:
    """Moving both clouds changes nothing for raw Laplacians and uniform weights, but for what rounding does."""
    result = solved_far_off(shift, method=method, tol=1e-9, max_iter=60)
    assert result.lower_bound <= least_value() + 1e-13


@given(
    seed=st.integers(0, 10**6),
    t=st.sampled_from([1.0, 5.0]),
    weight=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_both_blocks_find_the_same_direction(seed: int, t: float, weight: float) -> None:
    """One by a factor of the potential block, one by its low rank: preconditioners change the way, not the end."""
    f, g = problem(14, 11, weight=weight, seed=seed)
    model = model_of(f, g)
    near = cg.minimize(f, g, method="newton", tol=1e-3)
    hessian = Hessian(model, model.evaluate(model.start(near.x), t))
    blocks = (FactoredBlock(hessian), LeadingModes(hessian, None, largest_rank=6))
    found = [by_block(block, hessian, 1e-10, 500).x for block in blocks]
    slopes = [hessian.inner(x, hessian.residual) for x in found]
    assert slopes == pytest.approx(slopes[:1] * 2, rel=1e-5)
    for one, two in zip(_centred(found[0]), _centred(found[1]), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4 * (1e-3 + np.abs(one).max(initial=0.0)))


@pytest.mark.parametrize(("d", "normalized"), [(1, True), (2, False), (3, True)])
def test_a_factor_of_the_whole_system_solves_it(d: int, normalized: bool) -> None:
    """Up to what no Laplacian sees, its product with the Hessian is the residual."""
    model = model_of(*problem(14, 11, d=d, weight=100.0, normalized=normalized))
    hessian = Hessian(model, model.evaluate(random_point(model, 1, 1e-3), 3.0))
    x = WholeHessian(hessian, *model.metric_roots).solve(hessian.residual, 0.0)
    left = hessian.product(x).moved(-1.0, hessian.residual)
    for seed in range(5):
        y = random_point(model, seed, 1.0)
        scale = hessian.inner(y, y) * hessian.inner(hessian.residual, hessian.residual)
        assert abs(hessian.inner(y, left)) <= 1e-7 * scale**0.5


def test_a_small_plan_that_is_hard_takes_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where conjugate gradients are not given the steps that they need, the factor of the whole system goes on."""
    f, g = problem(40, 30, entropy=1e-3, weight=1e3, normalized=False)
    monkeypatch.setattr(duals, "MOST_STEPS_BESIDE_WHOLE", 1)
    monkeypatch.setattr(duals, "MOST_ITERATIONS", 1)
    result = cg.minimize(f, g, method="newton", tol=1e-9)
    assert result.success
    assert result.trace["inner_iterations"][-1] <= 2 * result.iterations


def test_what_a_laplacian_does_not_see_stays_out_of_directions() -> None:
    """A constant on a connected part of the graph changes nothing but the size of the moments."""
    data = cg.datasets.make_clusters(40)
    far = data.Xs + 100.0 * (np.arange(40) % 2)[:, None]
    part = cg.transport.Laplacian(far, far, weight=1e6, neighbors=5, normalized=False).smooth_part()
    f = cg.smooth.Linear(squared_distances(far, far) / 1e4) + part
    model = model_of(
        f, cg.simple.Entropy(1e-2, on=cg.sets.Transport(np.full(40, 1 / 40), np.full(40, 1 / 40)))
    )
    point = model.evaluate(model.start(np.full((40, 40), 1 / 1600)), 10.0)
    direction = model.ascent(point, AscentProgress(1.0)).direction
    assert model._kernels[0].shape == (40, np.sum(np.linalg.eigvalsh(part.Ls.toarray()) < 1e-9))
    np.testing.assert_allclose(model._kernels[0].T @ direction.P, 0.0, atol=1e-12)
    np.testing.assert_allclose(part.Ls @ model._kernels[0], 0.0, atol=1e-12)


@pytest.mark.parametrize("entropy", [1e-4, 1e-6])
def test_stiff_laplacians_of_small_entropies(entropy: float) -> None:
    """A Laplacian whose gradients, computed afresh from the moments, would be off by more than the entropy allows."""
    data = cg.datasets.make_clusters(60)
    C = squared_distances(data.Xs, data.Xt)
    part = cg.transport.Laplacian(data.Xs, data.Xt, weight=1e6 / C.max(), normalized=False)
    result = cg.transport.solve(
        C / C.max(), entropy=entropy, regularizers=[part], method="newton", tol=1e-8
    )
    assert result.success


@pytest.mark.parametrize("plan", ["dense", "streamed"])
def test_columns_far_below_the_smallest_float(plan: str) -> None:
    """A source of hardly any weight, whose column loses more mass than a float can tell."""
    rng = np.random.default_rng(0)
    Xs, Xt = rng.standard_normal((2, 2)) + 100.0, rng.standard_normal((20, 2)) + 100.0
    part = cg.transport.Laplacian(Xs, Xt, weight=1e5, neighbors=1, normalized=False)
    cost, a = cg.transport.SquaredEuclidean(Xs, Xt), np.array([1.0 - 1e-9, 1e-9])
    result, judge = (
        cg.transport.solve(
            cost, a, entropy=0.01, regularizers=[part], plan=plan, method=method, max_iter=100
        )
        for method in ("newton", "cgs")
    )
    assert result.success
    assert judge.success
    assert result.lower_bound <= judge.value
    assert judge.lower_bound <= result.value


@pytest.mark.parametrize("streamed", [False, True])
def test_logarithms_of_columns(streamed: bool) -> None:
    """Where sums have all digits these are their logarithms."""
    rng = np.random.default_rng(1)
    Xs, Xt, a = rng.random((7, 2)), rng.random((5, 2)), np.full(7, 1.0 / 7.0)
    unformed = cg.transport.SquaredEuclidean(Xs, Xt).unformed()
    cost = plans.StreamedCost(unformed) if streamed else plans.DenseCost(squared_distances(Xs, Xt))
    left, right, v = rng.random((7, 2)), rng.random((5, 2)), rng.random(5)
    plan = cost.plan(left, right, v, a, 0.1, right)
    sums = plan.transposed_times(np.ones((7, 1)))[:, 0]
    np.testing.assert_allclose(
        cost.log_columns(left, right, v, plan.u, 0.1), np.log(sums), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(plan.S_R, plan.times(right), rtol=1e-12)


def _centred(direction: DualVector) -> DualVector:
    """A constant in v means nothing."""
    return direction._replace(v=direction.v - direction.v.mean())


@pytest.mark.parametrize("d", [2, 7])
@given(seed=st.integers(0, 10**6))
def test_the_preconditioner_is_positive_and_self_adjoint(d: int, seed: int) -> None:
    """In the metric of the Hessian, as conjugate gradients ask, if its inner equations are solved."""
    model = model_of(*problem(12, 9, d=d, weight=1.0))
    hessian = Hessian(model, model.evaluate(random_point(model, seed, 0.01), 1.0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preconditioners, "SCHUR_ACCURACY", 1e-13)
        inverse = ShiftedBlocks(hessian, FactoredBlock(hessian))
        x, y = random_point(model, seed + 1, 1.0), random_point(model, seed + 2, 1.0)
        assert hessian.inner(inverse(x), y) == pytest.approx(hessian.inner(x, inverse(y)), rel=1e-6)
        assert hessian.inner(inverse(x), x) > 0.0


@given(seed=st.integers(0, 10**6), d=st.sampled_from([1, 3, 6]), stiff=st.floats(-3.0, 7.0))
def test_the_moment_blocks_are_solved(seed: int, d: int, stiff: float) -> None:
    """Against a factorisation, in the metric in which errors count, whatever the stiffness."""
    rng = np.random.default_rng(seed)
    n = 12
    roots = rng.standard_normal((n, d, d)) * rng.random((n, 1, 1)) ** 3
    C = roots @ roots.transpose(0, 2, 1)
    graph = rng.random((n, n)) * (rng.random((n, n)) < 0.3)
    graph = graph + graph.T
    L = 10.0**stiff * (np.diag(graph.sum(axis=1)) - graph)
    r = rng.standard_normal((n, d))
    x = schur_solve(whole_blocks(C, np.diagonal(L)), lambda P: L @ P, r)
    coupled = np.einsum("ikl,ij->ikjl", C, L).reshape(n * d, n * d)
    error = x - np.linalg.solve(np.eye(n * d) + coupled, r.ravel()).reshape(n, d)
    rounding = 1e-9 * np.vdot(r, L @ r)
    assert np.vdot(error, L @ error) <= 0.1**2 * np.vdot(x, L @ r) + rounding


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_steps_between_outlying_points_are_whole(seed: int) -> None:
    """No stage is left while a single row is off, nor begun where one is far off."""
    rng = np.random.default_rng(seed)
    Xs, Xt = rng.standard_t(3, (200, 12)), rng.standard_t(3, (200, 12))
    mean = squared_distances(Xs, Xt).mean()
    found = cg.transport.solve(
        cg.transport.SquaredEuclidean(Xs, Xt),
        entropy=0.01 * mean,
        regularizers=[cg.transport.Laplacian(Xs, Xt, weight=400.0)],
        method="newton",
        tol=1e-6,
    )
    assert found.success
    steps = np.asarray(found.result.trace["step"])  # 0 where a stage begins
    assert ((steps > 0.0) & (steps < 1.0)).sum() <= 1


def test_strain_is_the_gap_of_the_worst_row_in_entropies_of_its_mass() -> None:
    """The parts of rows and columns sum up to the gap of the moments, which is what D lacks."""
    model = model_of(*problem(12, 9, d=3, weight=10.0))
    point = model.evaluate(random_point(model, 5, 0.1), 2.0)
    off_P, off_Q = point.S_Xt - point.z.P, point.S_Xs - point.z.Q
    in_rows = 0.5 * (off_P * model.gradient_in_P(off_P)).sum(1)
    in_columns = 0.5 * (off_Q * model.gradient_in_Q(off_Q)).sum(1)
    assert in_rows.sum() + in_columns.sum() == pytest.approx(model.quadratic(off_P, off_Q))
    worst = max((in_rows / model.a).max(), (in_columns / model.b).max())
    assert model.strain(point) == pytest.approx(worst / point.entropy)


def test_a_model_keeps_nothing_of_a_run() -> None:
    """The same point has the same dual and the same direction, whatever was asked before."""
    f, g = problem(60, 50, entropy=0.01, weight=100.0)
    model = model_of(f, g)
    z = model.start(np.outer(g.on.a, g.on.b))
    first = model.evaluate(z, 3.0)
    direction = model.ascent(first, AscentProgress(1.0)).direction
    cg.minimize(f, g, method="newton", tol=1e-9)
    there = model.evaluate(model.moved(z, direction, 0.5), 1.0)
    model.ascent(there, AscentProgress(1e-3, 0.01))
    again = model.evaluate(z, 3.0)
    assert again.dual == first.dual
    for one, two in zip(
        model.ascent(again, AscentProgress(1.0)).direction[:5], direction[:5], strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_large_eigenvalues_have_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them where the entropy is small."""
    monkeypatch.setattr(preconditioners, "LARGE_EIGENVALUE", 0.1)
    data, weights = cg.datasets.make_clusters(300), np.full(300, 1 / 300)
    f = cg.smooth.Linear(squared_distances(data.Xs, data.Xt))

    def rank(entropy: float) -> int:
        g = cg.simple.Entropy(entropy, on=cg.sets.Transport(weights, weights))
        model = model_of(f, g)
        point = model.evaluate(model.start(cg.minimize(f, g, method="newton", tol=1e-9).x), 1.0)
        return LeadingModes(Hessian(model, point), None, largest_rank=128).vectors.shape[1]

    assert rank(0.1) == preconditioners.FIRST_RANK < rank(1e-3)


def test_the_next_direction_starts_from_the_last_vectors() -> None:
    data = cg.datasets.make_clusters(200)
    weights = np.full(200, 1 / 200)
    f = cg.smooth.Linear(squared_distances(data.Xs, data.Xt))
    model = model_of(f, cg.simple.Entropy(0.01, on=cg.sets.Transport(weights, weights)))
    point = model.evaluate(model.start(np.full((200, 200), 1 / 200**2)), 1.0)
    first = LeadingModes(Hessian(model, point), None, largest_rank=100)
    again = LeadingModes(Hessian(model, point), first.vectors, largest_rank=100)
    # the leading eigenvectors of I - K are found to more digits the second time: K V = V diag(values)
    S, root = point.plan.S, first.root

    def error(block: LeadingModes) -> float:
        V = block.vectors[:, :5]
        image = S.T @ ((S @ (V / root[:, None])) / model.a[:, None]) / root[:, None]
        return float(np.abs(image - V @ (V.T @ image)).max())

    assert error(again) <= error(first)


@pytest.mark.parametrize("normalized", [True, False])
def test_where_no_factor_fits(normalized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory for a factor the answer is the same."""
    f, g = problem(60, 50, entropy=0.01, weight=1e2, normalized=normalized)
    factored = cg.minimize(f, g, method="newton", tol=1e-9)
    monkeypatch.setattr(plans, "free_memory", lambda _: 0.0)
    monkeypatch.setattr(preconditioners, "SMALL_PLAN", 1)
    monkeypatch.setattr(preconditioners.FactoredBlock, "__init__", None)
    sketched = cg.minimize(f, g, method="newton", tol=1e-9)
    assert factored.success
    assert sketched.success
    assert sketched.lower_bound <= factored.value
    assert factored.lower_bound <= sketched.value


def test_a_factor_serves_the_directions_of_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where vectors are not enough the block is factored, and the factor is used again near the plan it is of."""
    monkeypatch.setattr(preconditioners, "SMALL_PLAN", 1)
    f, g = problem(164, 160, entropy=1e-3, weight=0.0)
    model = model_of(f, g)
    best = cg.minimize(f, g, method="newton", tol=1e-8)
    assert best.success
    z = model.start(best.x)
    hessian = Hessian(model, model.evaluate(z, 1.0))
    known = solved(hessian, 1e-3, Inverses()).inverses
    assert known.factor is not None
    near = Hessian(model, model.evaluate(z._replace(v=z.v + 1e-5 * np.cos(np.arange(160))), 1.0))
    monkeypatch.setattr(preconditioners, "FactoredBlock", None)
    monkeypatch.setattr(preconditioners, "LeadingModes", None)
    again = solved(near, 1e-3, known)
    left = near.product(again.x).moved(-1.0, near.residual)
    assert near.inner(left, left) <= 1e-2 * near.inner(near.residual, near.residual)
    assert again.inverses is known


def test_few_products_on_the_paper_s_problem() -> None:
    """What the preconditioner is for: the paper's setting takes tens of products, where it took hundreds."""
    data = cg.datasets.make_clusters(300)
    C = squared_distances(data.Xs, data.Xt)
    for normalized in (True, False):
        part = cg.transport.Laplacian(data.Xs, data.Xt, weight=1e3, normalized=normalized)
        result = cg.transport.solve(
            C, entropy=1.7e-2, regularizers=[part], method="newton", tol=1e-6
        )
        assert result.success
        assert result.trace["inner_iterations"][-1] <= 150


def test_a_direction_ascends() -> None:
    model = model_of(F, G)
    z = model.moved(model.start(BEST.x), random_point(model, 3, 1e-3), 1.0)
    hessian = Hessian(model, model.evaluate(z, 1.0))
    x = solved(hessian, 1e-6, Inverses()).x
    slope = hessian.inner(x, hessian.residual)
    there = model.evaluate(model.moved(z, x, 1e-3), 1.0)
    rise = there.dual - model.evaluate(z, 1.0).dual
    assert 0.0 < rise <= 1e-3 * slope
    assert rise >= 0.9e-3 * slope
    assert model.slope_along(model.evaluate(z, 1.0), model.with_gradients(x)) == pytest.approx(
        slope, rel=1e-9
    )


def test_wide_problems_are_turned() -> None:
    """A factor has the size of the smaller side, whichever that is."""
    f, g = problem(5, 40)
    wide = dual.model_of(structure(f, g))
    assert isinstance(wide, EntropicLaplacian)
    assert wide.cost.shape == (40, 5)
    C, omega = f.terms
    turned = cg.smooth.Linear(C.C.T) + omega.turned()
    tall = cg.minimize(
        turned,
        cg.simple.Entropy(0.05, on=cg.sets.Transport(g.on.b, g.on.a)),
        method="newton",
        tol=1e-11,
    )
    result = cg.minimize(f, g, method="newton", tol=1e-11)
    assert result.value == pytest.approx(tall.value, abs=1e-11)
    np.testing.assert_allclose(result.x, tall.x.T, atol=1e-7)


def test_parts_of_a_plan_that_hardly_touch() -> None:
    """Their relative potential has next to no curvature: a Newton step of 1e9 entropies must be cut, not given up."""
    C = np.array(
        [[1.56, -0.16, 0.02, 0.71, 1.44, -0.37, 2.1], [0.11, -0.2, 0.31, -0.77, 1.07, -1.52, 0.19]]
    )
    C[:, 1:3] -= [[0.0, 0.0], [-2.0, -2.0]]
    a = np.array([0.5549, 0.4451])
    b = np.array([0.1144, 0.2574, 0.1878, 0.0878, 0.1056, 0.1754, 0.0716])
    b *= a.sum() / b.sum()
    t = cg.transport.solve(C, a, b, entropy=0.005, method="newton", tol=1e-8)
    assert t.success
    exact = cg.transport.solve(C, a, b, entropy=0.005, method="cgs", tol=1e-8)
    assert t.lower_bound <= exact.value
    assert exact.lower_bound <= t.value


def test_a_point_is_let_go_when_nobody_holds_it() -> None:
    """Its plan is as large as the problem: it must not wait for the collector of cycles."""
    model = model_of(*problem(12, 9))
    point = model.evaluate(random_point(model, 0, 0.01), 1.0)
    model.primal(point)
    gone = weakref.ref(point)
    gc.disable()
    try:
        del point
        assert gone() is None
    finally:
        gc.enable()


def weakly_tied(need: float) -> EntropicLaplacian:
    """Five sources and targets, of which the last pair exchanges exp(-30) of its mass with the others."""
    even = np.full(5, 0.2)
    C = 30.0 * (np.eye(5)[4] != np.eye(5)[4][:, None])
    return EntropicLaplacian(C, even + need * np.array([1, 1, 1, 1, -4]), even, 1.0, None)


def potentials(model: EntropicLaplacian, last: float) -> DualVector:
    """That of the last target, all others at 0."""
    return DualVector(last * np.eye(5)[4], model.Xs, model.Xt)


def best_of(model: EntropicLaplacian) -> float:
    """The dual at its best point, by bisection on the sum of the last column."""
    low, high = -100.0, 100.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        point = model.evaluate(potentials(model, middle), 1.0)
        low, high = (middle, high) if point.columns[4] < 0.2 else (low, middle)
    return point.dual


def test_a_step_that_overshoots_is_tempered() -> None:
    """Pairs that exchange next to nothing must exchange more: Newton's step goes 1e10 entropies too far."""
    model = weakly_tied(1e-3)
    point = model.evaluate(potentials(model, 0.0), 1.0)
    direction = solved(Hessian(model, point), 1e-9, Inverses()).x
    direction = model.with_gradients(direction)
    best = best_of(model)
    assert np.ptp(direction.v) > 1e6
    assert model.evaluate(model.moved(point.z, direction, 1.0), 1.0).dual < point.dual
    there = model.evaluate(model.moved(point.z, model.tempered(point, direction), 1.0), 1.0)
    assert best - there.dual < 0.5 * (best - point.dual)


def test_a_step_that_takes_off_a_factor_of_e_is_stretched() -> None:
    """Pairs that exchange far too much: Newton's step is one entropy, whatever they are off by."""
    model = weakly_tied(0.0)
    start = potentials(model, 8.0)
    point = model.evaluate(start, 1.0)
    direction = model.with_gradients(solved(Hessian(model, point), 1e-9, Inverses()).x)
    assert np.ptp(direction.v) == pytest.approx(1.0, rel=1e-2)
    whole, longer = (
        model.evaluate(model.moved(start, by, 1.0), 1.0)
        for by in (direction, model.stretched(point, direction, 8.0))
    )
    best = best_of(model)
    slope = model.slope_along(point, direction)
    assert model.slope_along(whole, direction) > STEEP * slope
    assert best - longer.dual < 0.1 * (best - whole.dual)
    short = direction._replace(v=0.01 * direction.v)
    assert np.ptp(model.stretched(point, short, 8.0).v) == pytest.approx(np.ptp(short.v), rel=1e-3)


def test_potentials_without_an_end_are_held_back() -> None:
    """Parts of a plan that exchange nothing: steps of their potentials are cut, and a linear program judges."""
    C = 1e6 * np.random.default_rng(1).exponential(3.0, (10, 4))
    a, b = np.full(10, 0.1), np.full(4, 0.25)
    g = cg.simple.Entropy(30.0, on=cg.sets.Transport(a, b))
    result = cg.minimize(cg.smooth.Linear(C), g, tol=1e-13, method="newton", max_iter=100)
    exact = cg.sets.Transport(a, b).linear_argmin(C).point
    assert result.relative_gap <= 1e-12
    assert result.lower_bound <= float((C * exact).sum()) + g.value(exact)
    entropies = 30.0 * np.log(40.0)  # sum G log G is between -log 40 and 0
    assert abs(result.value - float((C * exact).sum())) <= entropies
