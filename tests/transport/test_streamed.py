"""Plans that are only multiplied with: against the same problem with an array, POT's Sinkhorn, and the certificate."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

import condgrad as cg
from condgrad import passes
from condgrad.kernels.streamed import Score
from condgrad.newton.laplacian.dual import EntropicLaplacian
from condgrad.newton.laplacian.hessian import Hessian
from condgrad.newton.laplacian.moments import DualVector
from condgrad.newton.laplacian.plans import DensePlan, StreamedDualPlan
from condgrad.sets.streamed_transport import StreamedTransport
from condgrad.streamed_plan import Blocks, StreamedMatrix, StreamedPlan, UnformedCost
from condgrad.transport import (
    BlockCost,
    GroupLasso,
    Laplacian,
    LowRank,
    SquaredEuclidean,
    cosine,
    solve,
    starts,
)
from tests.transport import cloud, marginal_error

Array = Any


def euclidean(x: Array, y: Array) -> Array:
    return cdist(x, y)


def laplacian(Xs: Array, Xt: Array, weight: float = 10.0, **options: Any) -> list[Laplacian]:
    return [Laplacian(Xs, Xt, weight, neighbors=3, **options)]


def with_zeros(weights: Array) -> Array:
    weights = weights.copy()
    weights[[0, 3]] = 0.0
    return weights / weights.sum()


RNG = np.random.default_rng(7)
SMALL = cloud(40, 33)
DEEP = RNG.random((30, 9)), RNG.random((25, 9)) + 0.2
TWICE = np.repeat(SMALL.Xs[:10], 4, axis=0), np.repeat(SMALL.Xt[:11], 3, axis=0)
FAR = SMALL.Xs + 1e6, SMALL.Xt + 1e6

PROBLEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "entropy alone": (
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        {"a": SMALL.a, "b": SMALL.b, "entropy": 0.02},
    ),
    "normalised": (
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        {
            "a": SMALL.a,
            "b": SMALL.b,
            "entropy": 0.02,
            "regularizers": laplacian(SMALL.Xs, SMALL.Xt),
        },
    ),
    "raw": (
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        {"entropy": 0.02, "regularizers": laplacian(SMALL.Xs, SMALL.Xt, normalized=False)},
    ),
    "more targets": (
        SquaredEuclidean(SMALL.Xt, SMALL.Xs),
        {
            "a": SMALL.b,
            "b": SMALL.a,
            "entropy": 0.02,
            "regularizers": laplacian(SMALL.Xt, SMALL.Xs),
        },
    ),
    "weights of zero": (
        SquaredEuclidean(SMALL.Xt, SMALL.Xs),
        {
            "a": with_zeros(SMALL.b),
            "b": with_zeros(SMALL.a),
            "entropy": 0.02,
            "regularizers": laplacian(SMALL.Xt, SMALL.Xs),
        },
    ),
    "far from the origin": (SquaredEuclidean(*FAR), {"entropy": 0.02}),
    "duplicates": (SquaredEuclidean(*TWICE), {"entropy": 0.02, "regularizers": laplacian(*TWICE)}),
    "one point": (
        SquaredEuclidean(SMALL.Xs[:1], SMALL.Xt),
        {"entropy": 0.02, "regularizers": laplacian(SMALL.Xs[:1], SMALL.Xt)},
    ),
    "small entropy": (SquaredEuclidean(SMALL.Xs, SMALL.Xt), {"entropy": 2e-6}),
    "small entropy, stiff": (
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        {"entropy": 2e-4, "regularizers": laplacian(SMALL.Xs, SMALL.Xt, 100.0)},
    ),
    "nine dimensions": (
        SquaredEuclidean(*DEEP),
        {"entropy": 0.1, "regularizers": laplacian(*DEEP)},
    ),
    "other coordinates": (
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        {"entropy": 0.02, "regularizers": laplacian(SMALL.Xs @ [[1.0, 2.0], [0.0, 1.0]], SMALL.Xt)},
    ),
    "low rank": (
        LowRank(RNG.standard_normal((30, 3)), RNG.standard_normal((40, 3))),
        {"entropy": 0.05},
    ),
    "cosine": (cosine(SMALL.Xs, SMALL.Xt), {"entropy": 0.05}),
    "Euclidean": (
        BlockCost(euclidean, SMALL.Xs, SMALL.Xt),
        {
            "a": SMALL.a,
            "b": with_zeros(SMALL.b),
            "entropy": 0.05,
            "regularizers": laplacian(SMALL.Xs, SMALL.Xt),
        },
    ),
}


@functools.cache
def best_of(name: str) -> Any:
    """The judge: a long run with an array."""
    cost, rest = PROBLEMS[name]
    return solve(cost, method="newton", plan="dense", tol=1e-12, **rest)


@pytest.mark.parametrize("name", PROBLEMS)
def test_streamed_and_dense_plans_agree(name: str) -> None:
    cost, rest = PROBLEMS[name]
    best = best_of(name)
    t = solve(cost, method="newton", plan="streamed", tol=1e-9, **rest)
    assert t.success
    assert t.streamed
    score = t.result.x.matrix.largest_score
    rounding = 1e-16 * (100.0 + score) * best.scale
    assert t.lower_bound <= best.value + rounding
    assert best.lower_bound <= t.value + rounding
    plan, on = t.dense(), t.problem[1].on
    assert marginal_error(plan, on.a, on.b) <= 1e-16 * (100.0 + score)
    # F at the plan, by another way
    f, g = best.problem
    here = f.at(plan)
    assert t.value == pytest.approx(
        here.value + g.value(plan), abs=1e-15 * (1e3 + score) * best.scale
    )
    assert t.cost == pytest.approx(
        float(np.vdot(cost.dense(), plan)), abs=1e-15 * (1e3 + score) * max(1.0, best.scale)
    )
    np.testing.assert_allclose(
        t.rows([2 % len(plan), 0]), plan[[2 % len(plan), 0]], rtol=1e-12, atol=1e-18
    )


@pytest.mark.parametrize("name", ["weights of zero", "normalised", "Euclidean", "nine dimensions"])
def test_products_are_those_of_the_dense_plan(name: str) -> None:
    cost, rest = PROBLEMS[name]
    t = solve(cost, method="newton", plan="streamed", tol=1e-6, **rest)
    plan = t.dense()
    Y, Z = RNG.standard_normal((plan.shape[1], 5)), RNG.standard_normal((plan.shape[0], 3))
    np.testing.assert_allclose(t.apply(Y), plan @ Y, atol=1e-14)
    np.testing.assert_allclose(t.apply(Y[:, 0]), plan @ Y[:, 0], atol=1e-14)
    np.testing.assert_allclose(t.apply_transpose(Z), plan.T @ Z, atol=1e-14)
    mass = plan.sum(1)
    loaded = mass > 0
    np.testing.assert_allclose(
        t.barycenters(Y)[loaded], (plan @ Y)[loaded] / mass[loaded, None], rtol=1e-10
    )
    assert np.isnan(t.barycenters(Y)[~loaded]).all()
    # the transposed plan is a plan of its own
    turned = t.result.x.T
    np.testing.assert_allclose(turned.dense(), plan.T, rtol=1e-12, atol=1e-18)
    assert turned.negentropy == pytest.approx(t.result.x.negentropy, rel=1e-12)


@pytest.mark.parametrize(
    ("weight", "method", "turned"),
    [
        (1e6, "newton", False),
        (1e9, "newton", True),
        pytest.param(1e12, "newton", False, marks=pytest.mark.slow),
        (1e6, "cgs", True),
        pytest.param(1e12, "cgs", False, marks=pytest.mark.slow),
    ],
)
def test_a_stiff_laplacian_costs_the_marginals_no_digits(
    weight: float, method: str, turned: bool
) -> None:
    """Scores whose terms are millions and cancel: all answers are of one plan, of sums a and b."""
    n = len(SMALL.a)
    a, b, Xs, Xt = with_zeros(SMALL.a), SMALL.b, SMALL.Xs, SMALL.Xt
    if turned:
        a, b, Xs, Xt = b, a, Xt, Xs
    options: dict[str, Any] = {"entropy": 0.02, "regularizers": laplacian(Xs, Xt, weight)}
    cost = SquaredEuclidean(Xs, Xt)
    t = solve(cost, a, b, plan="streamed", method=method, max_iter=3, **options)
    dense = t.dense()
    # sums without rounding, as far as an entry goes
    np.testing.assert_allclose([math.fsum(row) for row in dense], a, rtol=1e-14)
    np.testing.assert_allclose([math.fsum(column) for column in dense.T], b, rtol=1e-14)
    same = {"rtol": 1e-14, "atol": 1e-18 / n}
    np.testing.assert_allclose(t.apply(np.eye(len(b))), dense, **same)
    np.testing.assert_allclose(t.apply_transpose(np.eye(len(a))), dense.T, **same)
    np.testing.assert_allclose(t.rows(np.array([7, 2])), dense[[7, 2]], **same)
    np.testing.assert_allclose(t.apply(np.ones(len(b))), a, rtol=1e-14)
    np.testing.assert_allclose(t.apply_transpose(np.ones(len(a))), b, rtol=1e-14)
    judge = solve(cost, a, b, plan="dense", method="newton", max_iter=200, **options)
    assert t.lower_bound <= judge.value
    assert judge.lower_bound <= t.value


def test_potentials_are_those_of_the_plan() -> None:
    """plan = exp((u + v - M)/entropy), M being the cost linearised at the plan."""
    cost, rest = PROBLEMS["weights of zero"]
    t = solve(cost, method="newton", plan="streamed", tol=1e-12, **rest)
    u, v = t.potentials
    plan = t.dense()
    M = best_of("weights of zero").problem[0].at(plan).gradient
    loaded = plan > 0
    expected = np.exp((u[:, None] + v[None, :] - M) / rest["entropy"])
    np.testing.assert_allclose(plan[loaded], expected[loaded], rtol=1e-3, atol=1e-12)
    assert np.isneginf(u[0])
    assert np.isneginf(v[0])


def test_against_pot() -> None:
    t = solve(
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        SMALL.a,
        SMALL.b,
        entropy=0.05,
        plan="streamed",
        tol=1e-12,
    )
    theirs = ot.sinkhorn(
        SMALL.a, SMALL.b, SMALL.C, 0.05, method="sinkhorn_log", stopThr=1e-14, numItermax=10_000
    )
    np.testing.assert_allclose(t.dense(), theirs, atol=1e-9)


@pytest.mark.parametrize("step", ["exact", "open-loop"])
@pytest.mark.parametrize("name", ["entropy alone", "normalised", "weights of zero", "Euclidean"])
def test_cgs_on_moments(name: str, step: str) -> None:
    """Its answer is the oracle's point, certified by f alone."""
    cost, rest = PROBLEMS[name]
    if "regularizers" in rest:
        rest = {**rest, "regularizers": [replace(rest["regularizers"][0], weight=0.5)]}
    best = solve(cost, method="newton", plan="dense", tol=1e-11, **rest)
    t = solve(cost, method="cgs", step=step, plan="streamed", tol=1e-5, max_iter=200, **rest)
    assert t.success
    assert t.method == "cgs"
    assert t.lower_bound <= best.value + 1e-13
    assert best.lower_bound <= t.value + 1e-13
    on = t.problem[1].on
    assert marginal_error(t.dense(), on.a, on.b) <= 1e-14


@pytest.mark.parametrize("method", ["cgs", "newton"])
def test_the_unit_of_the_coordinates_of_a_laplacian_is_of_no_consequence(method: str) -> None:
    """The factors of cost and Laplacian lie side by side: large coordinates of one are no noise of the other."""
    runs = []
    for unit in (1.0, 1e6):
        terms = laplacian(unit * SMALL.Xs, unit * SMALL.Xt, 0.5 / unit**2)
        cost = cosine(SMALL.Xs, SMALL.Xt)
        runs.append(
            solve(cost, entropy=0.05, regularizers=terms, plan="streamed", method=method, tol=1e-7)
        )
    assert all(t.success for t in runs)
    assert runs[1].result.certificate.noise <= 100.0 * runs[0].result.certificate.noise


def test_the_oracle_tries_harder_where_the_start_is_the_optimum() -> None:
    """One source has one plan: no step is left, but the first bound was asked for with little accuracy."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        b = rng.random(12) * (rng.random(12) > 0.3)
        cost = cosine(rng.standard_normal((1, 2)), rng.standard_normal((12, 2)))
        t = solve(cost, [b.sum()], b, entropy=0.005, plan="streamed", method="cgs", tol=1e-9)
        assert t.success


@pytest.mark.parametrize(
    ("entropy", "weight", "method"),
    [(1.0, 0.0, "cgs"), (1e-3, 0.0, "newton"), (1.0, 1e4, "newton")],
)
def test_auto_takes_sinkhorn_or_newton(entropy: float, weight: float, method: str) -> None:
    """Newton where Sinkhorn's iteration would be slow, or a Laplacian is stiff."""
    terms = laplacian(SMALL.Xs, SMALL.Xt, weight) if weight > 0.0 else []
    t = solve(
        SquaredEuclidean(SMALL.Xs, SMALL.Xt), entropy=entropy, regularizers=terms, plan="streamed"
    )
    assert t.success
    assert t.method == method


@pytest.mark.parametrize("regularized", [False, True])
def test_torch_in_torch_out(regularized: bool, torch: Any) -> None:
    Xs, Xt = torch.as_tensor(SMALL.Xs), torch.as_tensor(SMALL.Xt)
    options = {"entropy": 0.02, "method": "newton", "plan": "streamed", "tol": 1e-10}
    t = solve(
        SquaredEuclidean(Xs, Xt), regularizers=laplacian(Xs, Xt) if regularized else [], **options
    )
    plain = solve(
        SquaredEuclidean(SMALL.Xs, SMALL.Xt),
        regularizers=laplacian(SMALL.Xs, SMALL.Xt) if regularized else [],
        **options,
    )
    assert isinstance(t.apply(Xt), torch.Tensor)
    assert t.value == pytest.approx(plain.value, abs=1e-9)
    assert isinstance(t.potentials.u, torch.Tensor)


class TestPlans:
    """The questions that Newton asks, answered by an array and by streaming, at any dual point."""

    @pytest.fixture(params=[2, 9])
    def models(self, request: pytest.FixtureRequest) -> tuple[EntropicLaplacian, EntropicLaplacian]:
        d = request.param
        rng = np.random.default_rng(d)
        Xs, Xt = rng.random((21, d)), rng.random((17, d)) + 0.1
        a, b = rng.dirichlet(np.full(21, 3.0)), rng.dirichlet(np.full(17, 3.0))
        cost = SquaredEuclidean(Xs, Xt)
        term = laplacian(Xs, Xt)[0].smooth_part()
        models = [EntropicLaplacian(C, a, b, 0.1, term) for C in (cost.dense(), cost.unformed())]
        return models[0], models[1]

    def points(self, models: Any) -> tuple[Any, Any]:
        dense, streamed = models
        rng = np.random.default_rng(0)
        z = DualVector(
            0.1 * rng.standard_normal(17),
            0.01 * rng.standard_normal(dense.Xs.shape),
            0.01 * rng.standard_normal(dense.Xt.shape),
        )
        # the potential of a streamed plan is less the numbers of its columns
        return dense.evaluate(z, 2.0), streamed.evaluate(
            z._replace(v=z.v - streamed.column_cost), 2.0
        )

    def test_who_answers(self, models: Any) -> None:
        one, two = self.points(models)
        assert isinstance(one.plan, DensePlan)
        assert isinstance(two.plan, StreamedDualPlan)

    def test_the_dual_function_and_the_stage_gap(self, models: Any) -> None:
        one, two = self.points(models)
        assert one.dual == pytest.approx(two.dual, abs=1e-12)
        gaps = [model.rounded_gap(point) for model, point in zip(models, (one, two), strict=True)]
        assert gaps[0] == pytest.approx(gaps[1], abs=1e-12)
        spreads = [model.spread(point.z) for model, point in zip(models, (one, two), strict=True)]
        assert spreads[1] == pytest.approx(spreads[0], rel=0.1)

    def test_products(self, models: Any) -> None:
        one, two = self.points(models)
        R, T = RNG.standard_normal((17, 3)), RNG.standard_normal((21, 40))
        np.testing.assert_allclose(one.plan.times(R), two.plan.times(R), atol=1e-13)
        np.testing.assert_allclose(
            one.plan.transposed_times(T), two.plan.transposed_times(T), atol=1e-13
        )
        np.testing.assert_allclose(
            one.plan.lifted_overlap(one.columns, 1.0),
            two.plan.lifted_overlap(two.columns, 1.0),
            atol=1e-13,
        )

    def test_the_hessian(self, models: Any) -> None:
        one, two = self.points(models)
        x = DualVector(*(RNG.standard_normal(part.shape) for part in one.z[:3]))
        images = [
            Hessian(model, point).product(x)
            for model, point in zip(models, (one, two), strict=True)
        ]
        for mine, its in zip(*images, strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-11 * abs(mine).max())


class TestUnformed:
    """Costs and matrices against the arrays they stand for."""

    @pytest.fixture(params=["factors", "blocks"])
    def cost(self, request: pytest.FixtureRequest) -> UnformedCost:
        rng = np.random.default_rng(1)
        Xs, Xt = rng.random((13, 2)), rng.random((11, 2))
        blocks = Blocks(0.7, euclidean, Xs, Xt) if request.param == "blocks" else None
        return UnformedCost(
            rng.random((13, 3)), rng.random((11, 3)), rng.random(13), rng.random(11), blocks
        )

    def test_what_is_done_to_a_cost_is_done_to_its_array(self, cost: UnformedCost) -> None:
        C = cost.dense()
        rows, columns = np.array([4, 1, 7]), np.array([0, 10])
        a, b = RNG.random(13), RNG.random(11)
        np.testing.assert_allclose(cost.T.dense(), C.T)
        np.testing.assert_allclose((2.0 * cost).dense(), 2.0 * C)
        np.testing.assert_allclose((cost + UnformedCost.of(C, np.eye(11))).dense(), 2.0 * C)
        np.testing.assert_allclose(cost.at(rows, columns).dense(), C[np.ix_(rows, columns)])
        np.testing.assert_allclose(cost.centred(a, b).dense(), C)
        assert cost.between(a, b) == pytest.approx(a @ C @ b)
        low, high = replace(cost, row=0.0 * cost.row, column=0.0 * cost.column).bounds
        inner = C - cost.row[:, None] - cost.column[None, :]
        assert low <= inner.min()
        assert inner.max() <= high

    def test_products_of_exponentials(self, cost: UnformedCost) -> None:
        v = RNG.standard_normal(11)
        matrix = cost.score(v, 0.5)
        E = np.exp((v[None, :] - cost.dense() + cost.row[:, None]) / 0.5)
        R, left, right = (
            RNG.standard_normal((11, 4)),
            RNG.standard_normal((13, 2)),
            RNG.standard_normal((11, 2)),
        )
        np.testing.assert_allclose(matrix.log_row_sums(), np.log(E.sum(1)), rtol=1e-12)
        np.testing.assert_allclose(matrix.times(R), E @ R, rtol=1e-11)
        np.testing.assert_allclose(matrix.T.times(left), E.T @ left, rtol=1e-11)
        np.testing.assert_allclose(
            matrix.weighted_times(left, right, R), (E * (left @ right.T)) @ R, rtol=1e-10
        )
        kept, rest, spread = RNG.random(11), RNG.random(13), RNG.random(11)
        p = E * kept + rest[:, None] * spread
        np.testing.assert_allclose(
            matrix.entropy_row_sums(kept, rest, spread), (p * np.log(p)).sum(1), rtol=1e-10
        )
        np.testing.assert_allclose(matrix.rows(np.array([3, 3, 0])), E[[3, 3, 0]], rtol=1e-12)

    def test_rounding_as_arrays_are_rounded(self) -> None:
        rng = np.random.default_rng(2)
        a, b = rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(8))
        S = rng.random((9, 8))
        S *= (a / S.sum(1))[:, None]
        matrix = StreamedMatrix(Score(np.log(S), np.eye(8), np.zeros(9), np.zeros(8)))
        plan = StreamedPlan.rounded(matrix, a, b)
        np.testing.assert_allclose(plan.dense(), cg.sets.Transport(a, b).rounded(S), rtol=1e-12)

    def test_a_product_of_weights(self) -> None:
        on = StreamedTransport(SMALL.a, SMALL.b)
        plan = on.start(on.space)
        np.testing.assert_allclose(plan.dense(), np.outer(SMALL.a, SMALL.b))
        assert on.violation(plan) <= 1e-16
        assert on.violation(replace(plan, row_rest=1.1 * SMALL.a)) > 1e-3


class TestStarts:
    options: ClassVar[dict[str, Any]] = {"entropy": 0.02, "method": "newton", "tol": 1e-9}

    @pytest.mark.parametrize("plan", ["dense", "streamed"])
    @pytest.mark.parametrize("before", ["dense", "streamed"])
    def test_from_its_own_result(self, before: str, plan: str) -> None:
        cost, terms = SquaredEuclidean(SMALL.Xs, SMALL.Xt), laplacian(SMALL.Xs, SMALL.Xt)
        first = solve(cost, regularizers=terms, plan=before, **self.options)
        again = solve(cost, regularizers=terms, plan=plan, start=first, **self.options)
        assert again.iterations <= 3
        assert again.success

    @pytest.mark.parametrize("plan", ["dense", "streamed"])
    def test_from_potentials(self, plan: str) -> None:
        cost = SquaredEuclidean(SMALL.Xs, SMALL.Xt)
        first = solve(cost, plan="streamed", **self.options)
        again = solve(cost, plan=plan, start=first.potentials, **self.options)
        assert again.iterations <= 2
        with pytest.raises(ValueError, match="potentials of shapes"):
            solve(
                cost, plan=plan, start=(first.potentials.u[:3], first.potentials.v), **self.options
            )

    def test_from_a_plan(self) -> None:
        cost, terms = SquaredEuclidean(SMALL.Xs, SMALL.Xt), laplacian(SMALL.Xs, SMALL.Xt)
        first = solve(cost, regularizers=terms, plan="dense", **self.options)
        again = solve(cost, regularizers=terms, plan="streamed", start=first.plan, **self.options)
        assert again.iterations <= 3
        with pytest.raises(ValueError, match="its largest violation is"):
            solve(cost, regularizers=terms, plan="streamed", start=2.0 * first.plan, **self.options)
        with pytest.raises(ValueError, match="must have the shape of the cost"):
            solve(cost, regularizers=terms, plan="streamed", start=first.plan[:3], **self.options)

    @pytest.mark.parametrize("plan", ["dense", "streamed"])
    @pytest.mark.parametrize("regularized", [False, True])
    def test_from_other_points(self, plan: str, regularized: bool) -> None:
        """A result between other points is a start like any other: the answer is the same.

        Where all points have moved a little, it saves passes.
        """
        rng = np.random.default_rng(3)
        Xs, Xt = (X + 1e-4 * rng.standard_normal(X.shape) for X in (SMALL.Xs, SMALL.Xt))

        def run(Xs: Array, Xt: Array, start: Any = None) -> Any:
            terms = laplacian(Xs, Xt) if regularized else []
            return solve(
                SquaredEuclidean(Xs, Xt), regularizers=terms, plan=plan, start=start, **self.options
            )

        first = run(SMALL.Xs, SMALL.Xt)
        for targets in (Xt[:30], Xt):
            cold = run(Xs, targets)
            warm = run(Xs, targets, start=first)
            assert warm.success
            assert abs(warm.value - cold.value) <= warm.gap + cold.gap
        if not regularized:
            assert warm.passes < cold.passes

    def test_a_result_without_points(self) -> None:
        first = solve(SMALL.C, **self.options)
        with pytest.raises(ValueError, match="are not known"):
            solve(SquaredEuclidean(SMALL.Xs[:9], SMALL.Xt), start=first, **self.options)

    @pytest.mark.parametrize("regularized", [False, True])
    def test_levels(self, regularized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """A coarse level changes the start, not the answer; what it carries over is close to the truth."""
        data = cg.datasets.make_clusters(800)
        cost = SquaredEuclidean(data.Xs, data.Xt)
        terms = [Laplacian(data.Xs, data.Xt, 1e3)] if regularized else []
        options: dict[str, Any] = {
            "entropy": 0.017,
            "regularizers": terms,
            "method": "newton",
            "plan": "streamed",
        }
        cold = solve(cost, tol=1e-8, **options)
        carried = []

        def spy(*arguments: Any) -> Any:
            carried.append(starts.coarse_start(*arguments))
            return carried[-1]

        monkeypatch.setattr(starts, "LARGE", 500)
        monkeypatch.setattr(sys.modules["condgrad.transport.solve"], "coarse_start", spy)
        warm = solve(cost, tol=1e-8, **options)
        assert abs(warm.value - cold.value) <= warm.gap + cold.gap
        assert warm.success
        truth = cold.potentials.v
        assert np.std(carried[0].v - truth) < 0.6 * np.std(truth)
        if regularized:
            assert (
                np.abs(carried[0].P - cold.apply(data.Xt)).sum()
                < 0.1 * np.abs(cold.apply(data.Xt)).sum()
            )


def test_passes_are_counted() -> None:
    with passes.counting() as count:
        passes.note(1)
        passes.note(33)
        with passes.spent_on("steps"), passes.counting() as inner:
            passes.note(1)
    assert (count.passes, inner.passes) == (4, 1)
    assert count.by_purpose == {passes.OTHER: 3, "steps": 1}
    cost, rest = PROBLEMS["normalised"]
    runs = [solve(cost, method="newton", plan=plan, **rest) for plan in ("dense", "streamed")]
    assert runs[0].passes == pytest.approx(runs[1].passes, rel=0.3)


MEASURE = """
import json, resource
import numpy as np
import condgrad as cg
from condgrad.kernels import streamed
rng = np.random.default_rng(0)
def run(n):
    X, Y = rng.random((n, 2)), rng.random((n, 2))
    t = cg.transport.solve(cg.transport.SquaredEuclidean(X, Y), entropy=1.0, plan="streamed", tol=1e-3)
    assert t.success and t.apply(Y).shape == (n, 2)
run(50)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(6_000)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.slow
def test_memory_stays_far_below_a_plan() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    kilobytes = json.loads(done.stdout)
    assert kilobytes * 1024 < 0.05 * 8 * 6_000**2


class TestErrors:
    cost = SquaredEuclidean(SMALL.Xs, SMALL.Xt)

    def test_the_plan_of_a_streamed_result(self) -> None:
        t = solve(self.cost, entropy=0.1, plan="streamed")
        with pytest.raises(AttributeError, match=r"t\.rows\(indices\).*t\.dense\(\)"):
            _ = t.plan
        assert "streamed" in repr(t)

    def test_a_streamed_result_is_not_saved(self, tmp_path: Path) -> None:
        t = solve(self.cost, entropy=0.1, plan="streamed")
        with pytest.raises(TypeError, match="keep its potentials"):
            t.result.save(tmp_path / "plan.npz")
        assert not list(tmp_path.iterdir())

    def test_a_dense_result_has_rows_too(self) -> None:
        t = solve(self.cost, entropy=0.1, plan="dense")
        assert t.dense() is t.plan
        np.testing.assert_array_equal(t.rows([3, 1]), t.plan[[3, 1]])

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"regularizers": [GroupLasso(np.arange(40) % 3, 0.1)]}, "GroupLasso.*GB"),
            ({"entropy": 0.0}, "linear programs"),
            ({"method": "cgs", "step": "armijo"}, "Armijo"),
            ({"method": "cgs", "memory": 3}, "memory=3"),
            ({"regularizers": 2 * laplacian(SMALL.Xs, SMALL.Xt)}, "more than one Laplacian"),
        ],
    )
    def test_what_does_not_stream(self, options: dict[str, Any], match: str) -> None:
        with pytest.raises(ValueError, match=match):
            solve(self.cost, plan="streamed", **{"entropy": 0.1, **options})
        with pytest.raises(ValueError, match="method='cg'"):
            solve(self.cost, plan="streamed", entropy=0.1, method="cg")
        assert (
            solve(
                self.cost, plan="auto", tol=1e-2, **{"entropy": 0.1, "max_iter": 3, **options}
            ).plan
            is not None
        )

    def test_what_does_not_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            sys.modules["condgrad.transport.solve"], "free_memory", lambda _: 1000.0
        )
        assert solve(self.cost, entropy=0.1).streamed
        assert not solve(self.cost, entropy=0.1, plan="dense").streamed
        with pytest.raises(MemoryError, match=r"GroupLasso.*GB are free"):
            solve(self.cost, entropy=0.1, regularizers=[GroupLasso(np.arange(40) % 3, 0.1)])

    def test_arguments(self) -> None:
        with pytest.raises(ValueError, match="plan must be one of"):
            solve(self.cost, entropy=0.1, plan="sparse")
        with pytest.raises(ValueError, match="needs a cost between points"):
            solve(SMALL.C, entropy=0.1, plan="streamed")
        with pytest.raises(ValueError, match="have the same dimension, got 2 and 3"):
            SquaredEuclidean(SMALL.Xs, np.ones((4, 3)))
        with pytest.raises(ValueError, match="have the same rank"):
            LowRank(SMALL.Xs, np.ones((4, 3)))
        with pytest.raises(ValueError, match="must hold one or more points"):
            SquaredEuclidean(SMALL.Xs[:0], SMALL.Xt)
        with pytest.raises(ValueError, match="has no direction"):
            cosine(np.zeros((2, 2)), SMALL.Xt)
        with pytest.raises(TypeError, match="callable"):
            BlockCost(3, SMALL.Xs, SMALL.Xt)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must return an array of shape"):
            solve(BlockCost(lambda x, _: x[:, 0], SMALL.Xs, SMALL.Xt), entropy=0.1, plan="streamed")
