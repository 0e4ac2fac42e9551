"""How POT 0.9.7 fails, each as a test that this library does not; and `compat.pot.gcg`, POT's signature."""

from __future__ import annotations

import inspect
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ot
import pytest
from scipy.sparse import diags_array
from sklearn.base import clone

import condgrad as cg
from condgrad.compat.pot import gcg
from condgrad.datasets import make_clusters
from condgrad.transport import GroupLasso, LaplaceTransport, Laplacian, solve
from tests.transport import (
    Array,
    cloud,
    entropic_value,
    judge,
    marginal_error,
    mended,
    negentropy,
    squared_distances,
    within,
)

N = 30
XS, XT, YS, _ = make_clusters(N)
C = squared_distances(XS, XT)
UNIFORM = np.full(N, 1.0 / N)


@contextmanager
def quiet_pot() -> Iterator[list[Any]]:
    """POT's own warnings, kept apart from ours."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


def nothing(_: Array) -> float:
    return 0.0


def no_slope(G: Array) -> Array:
    return np.zeros_like(G)


def half_square(G: Array) -> float:
    return 0.5 * float(np.sum(G**2))


def itself(G: Array) -> Array:
    return G


# --- the line search ---


def test_a_start_at_the_linear_program_is_left() -> None:
    """From G0 = emd plan with reg2=0 POT returns G0, far off; the answer is Sinkhorn's plan."""
    G0, best = ot.emd(UNIFORM, UNIFORM, C), judge(C, UNIFORM, UNIFORM, 0.1)
    with quiet_pot() as heard:
        theirs = ot.optim.gcg(UNIFORM, UNIFORM, C, 0.1, 0.0, nothing, no_slope, G0=G0)
    np.testing.assert_array_equal(theirs, G0)
    assert not heard
    assert entropic_value(theirs, C, 0.1) > best.upper + 0.2
    ours = gcg(UNIFORM, UNIFORM, C, 0.1, 0.0, nothing, no_slope, G0=G0)
    assert entropic_value(ours, C, 0.1) == pytest.approx(best.upper, abs=1e-8)
    solved = solve(C, entropy=0.1, start=G0, tol=1e-9)
    assert solved.value == pytest.approx(best.upper, abs=2e-9)


def group_objective(G: Array, entropy: float, weight: float) -> float:
    groups = sum(np.linalg.norm(G[k == YS], axis=0).sum() for k in range(4))
    return entropic_value(G, C, entropy) + weight * groups


@pytest.mark.parametrize(("entropy", "weight"), [(0.02, 1.0), (0.05, 1.0)])
def test_group_lasso_comes_with_a_proof(entropy: float, weight: float) -> None:
    """`sinkhorn_l1l2_gl` stops 1e-3 and more off the optimum; ours is proved to 1e-8."""
    with quiet_pot():
        theirs = mended(
            ot.da.sinkhorn_l1l2_gl(UNIFORM, YS, UNIFORM, C, entropy, eta=weight), UNIFORM, UNIFORM
        )
    ours = solve(C, entropy=entropy, regularizers=[GroupLasso(YS, weight)], tol=1e-8)
    assert ours.success
    assert ours.value == pytest.approx(group_objective(ours.plan, entropy, weight), rel=1e-12)
    assert ours.gap <= 1e-8
    assert group_objective(theirs, entropy, weight) >= ours.lower_bound + 1e-3


def test_the_entropy_counts_once() -> None:
    """POT 0.9.0 to 0.9.6 counted it twice (issue 758 of POT): the reported loss is the objective at the plan."""
    data = cloud(8, 7, seed=3)
    plan, log = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself, numItermax=200, log=True)
    F = entropic_value(plan, data.C, 0.1) + half_square(plan)
    assert log["loss"][-1] == pytest.approx(F, abs=1e-8)
    assert log["lower_bound"] <= F <= log["lower_bound"] + log["gap"] + 1e-12


# --- marginals and mass ---


def test_marginals_are_exact_by_default() -> None:
    """POT's defaults leave them off by 1e-4 and more."""
    with quiet_pot():
        theirs = ot.optim.gcg(UNIFORM, UNIFORM, C, 1.7e-2, 0.0, nothing, no_slope)
    assert marginal_error(theirs, UNIFORM, UNIFORM) > 1e-4
    for ours in (
        gcg(UNIFORM, UNIFORM, C, 1.7e-2, 0.0, nothing, no_slope),
        solve(C, entropy=1.7e-2, regularizers=[Laplacian(XS, XT, 1e3)], max_iter=5).plan,
    ):
        assert marginal_error(ours, UNIFORM, UNIFORM) <= 1e-12


def test_no_mass_is_lost_at_small_entropy() -> None:
    """Entropy 1e-2 on costs about 20: POT's plan has a mass of 1e-14."""
    costs = squared_distances(XS, XT + 3.0)
    assert 15.0 < costs.mean() < 25.0
    with quiet_pot():
        theirs = ot.optim.gcg(UNIFORM, UNIFORM, costs, 1e-2, 1.0, half_square, itself)
    assert theirs.sum() < 1e-6
    ours = gcg(UNIFORM, UNIFORM, costs, 1e-2, 1.0, half_square, itself)
    assert marginal_error(ours, UNIFORM, UNIFORM) <= 1e-12
    best = float(ot.emd2(UNIFORM, UNIFORM, costs))
    # no entropy of a plan of mass 1 is beyond log of its size
    assert best <= np.sum(costs * ours) <= best + 1e-2 * np.log(costs.size) + 0.5
    for entropy in (1e-1, 1e-2, 1e-3, 1e-4):
        result = solve(costs, entropy=entropy, regularizers=[Laplacian(XS, XT, 10.0)], max_iter=20)
        assert marginal_error(result.plan, UNIFORM, UNIFORM) <= 1e-12
        assert result.lower_bound <= result.value


# --- what a user misses ---


def test_every_answer_has_a_certificate_and_a_callback_sees_it_grow() -> None:
    seen: list[tuple[float, float]] = []
    result = solve(
        C,
        entropy=1.7e-2,
        regularizers=[Laplacian(XS, XT, 1e2)],
        tol=1e-7,
        callback=lambda now: seen.append((now.gap, now.lower_bound)),
    )
    gaps, bounds = np.array(seen).T
    assert len(gaps) == len(result.trace) > 1
    assert (np.diff(gaps) <= 1e-14).all()
    assert (np.diff(bounds) >= 0.0).all()
    assert gaps[-1] == pytest.approx(result.gap, abs=1e-14)


def test_the_laplace_estimator_survives_cloning() -> None:
    """clone(EMDLaplaceTransport(reg_type='disp')) forgets reg_type."""
    assert clone(ot.da.EMDLaplaceTransport(reg_type="disp")).get_params()["reg_type"] is None
    estimator = LaplaceTransport(
        0.3, 7.0, neighbors=4, normalized=False, source=0.5, target=2.0, tol=1e-3, max_iter=9
    )
    assert clone(estimator).get_params() == estimator.get_params()


def test_laplacian_products_stay_sparse() -> None:
    """POT's `emd_laplace` multiplies dense n x n matrices; ours needs no array of that size beyond the plan."""
    n = 1500
    path = diags_array(
        [-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1]
    ).tocsr()
    rng = np.random.default_rng(0)
    f = Laplacian(
        rng.random((n, 2)), rng.random((4, 2)), 1.0, Ls=path, Lt=np.zeros((4, 4))
    ).smooth_part()
    G = rng.random((n, 4))
    tracemalloc.start()
    assert f.at(G).gradient.shape == (n, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n


def test_a_warm_start_is_worth_something() -> None:
    """POT solves every inner problem from cold: ours needs fewer passes an iteration after the first."""
    result = solve(C, entropy=1.7e-2, regularizers=[Laplacian(XS, XT, 1e2)], method="cgs", tol=1e-4)
    passes = np.diff(result.trace["inner_iterations"], prepend=0)
    assert len(passes) > 5
    cold = solve(C, entropy=1.7e-2, method="cgs", tol=1e-8).trace["inner_iterations"][-1]
    assert np.median(passes[1:]) < cold


# --- POT's signature ---


def test_signature_is_that_of_pot() -> None:
    """The same names in the same order with the same defaults; POT's **kwargs aside."""
    theirs = [
        p
        for p in inspect.signature(ot.optim.gcg).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    ours = list(inspect.signature(gcg).parameters.values())
    assert [p.name for p in ours[: len(theirs)]] == [p.name for p in theirs]
    assert [p.default for p in ours[: len(theirs)]] == [p.default for p in theirs]


def optimum(a: Array, b: Array, costs: Array, reg1: float, reg2: float) -> cg.Result:
    """The same problem by the library's own parts, tightly."""
    P = cg.sets.Transport(a, b)
    square = cg.smooth.Function(lambda G: (reg2 * half_square(G), reg2 * G))
    f = cg.smooth.Linear(costs) + square
    return cg.minimize(f, cg.simple.Entropy(reg1, on=P), step="open-loop", tol=1e-8, max_iter=3000)


@pytest.mark.parametrize(("reg1", "reg2"), [(0.1, 1.0), (0.02, 5.0), (1.0, 0.1)])
def test_gcg_agrees_with_a_certified_optimum(reg1: float, reg2: float) -> None:
    data = cloud(9, 7, seed=4)
    with within(20):
        plan, log = gcg(
            data.a, data.b, data.C, reg1, reg2, half_square, itself, numItermax=500, log=True
        )
        best = optimum(data.a, data.b, data.C, reg1, reg2)
    F = entropic_value(plan, data.C, reg1) + reg2 * half_square(plan)
    assert best.lower_bound - 1e-12 <= F <= best.value + 1e-8
    assert marginal_error(plan, data.a, data.b) <= 1e-12
    assert log["status"] == "CONVERGED"
    sizes = [
        float(np.sum(data.C * G)) + reg2 * half_square(G) + reg1 * abs(negentropy(G))
        for G in (plan, np.outer(data.a, data.b))
    ]
    assert log["gap"] <= 1e-9 * max(1.0, *sizes) * (1 + 1e-9)


def test_gcg_goes_on_where_pot_freezes() -> None:
    """POT's own gcg stays 1e-3 above, however long it may run: its line search does not see the entropy."""
    data = cloud(9, 7, seed=5)
    with quiet_pot():
        theirs = ot.optim.gcg(
            data.a,
            data.b,
            data.C,
            0.1,
            1.0,
            half_square,
            itself,
            numItermax=2000,
            numInnerItermax=5000,
            stopThr=1e-14,
            stopThr2=1e-14,
        )
    ours = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself, numItermax=500)
    values = [
        entropic_value(G, data.C, 0.1) + half_square(G)
        for G in (ours, mended(theirs, data.a, data.b))
    ]
    assert values[0] <= values[1] - 1e-3


def test_gcg_return_values() -> None:
    """A plan, or a plan and a log."""
    data = cloud(6, 5, seed=6)
    plan = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself)
    assert isinstance(plan, np.ndarray)
    assert plan.shape == (6, 5)
    both = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself, log=True)
    assert isinstance(both, tuple)
    again, log = both
    np.testing.assert_array_equal(again, plan)
    assert {"loss", "gap", "lower_bound", "status"} <= set(log)
    assert isinstance(log["loss"], list)
    assert (np.diff(log["loss"]) <= 1e-14).all()


def test_gcg_empty_weights_are_uniform() -> None:
    data = cloud(6, 5, seed=7)
    uniform = gcg(np.full(6, 1 / 6), np.full(5, 1 / 5), data.C, 0.1, 1.0, half_square, itself)
    np.testing.assert_allclose(
        gcg([], [], data.C, 0.1, 1.0, half_square, itself), uniform, rtol=1e-12
    )


@pytest.mark.parametrize("G0", ["nothing", "ones", "heavy", "half a plan", "plan"])
def test_gcg_mends_an_infeasible_start(G0: str) -> None:
    data = cloud(6, 5, seed=8)
    start = {
        "nothing": np.zeros((6, 5)),
        "ones": np.ones((6, 5)),
        "heavy": 1e6 * np.random.default_rng(0).random((6, 5)),
        "half a plan": 0.5 * np.outer(data.a, data.b),
        "plan": np.outer(data.a, data.b),
    }[G0]
    before = start.copy()
    plan = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself, G0=start, numItermax=200)
    np.testing.assert_array_equal(start, before)
    assert marginal_error(plan, data.a, data.b) <= 1e-12
    best = optimum(data.a, data.b, data.C, 0.1, 1.0)
    assert entropic_value(plan, data.C, 0.1) + half_square(plan) == pytest.approx(
        best.value, abs=2e-8
    )


def test_gcg_keeps_its_iteration_limit() -> None:
    data = cloud(6, 5, seed=9)
    tight = {"numItermax": 2, "stopThr": 0, "stopThr2": 0, "alpha_min": 0.0}
    with pytest.warns(
        UserWarning,
        match=r"gcg ended after 2 iterations within .* of the minimum; increase numItermax",
    ):
        _, log = gcg(data.a, data.b, data.C, 0.02, 20.0, half_square, itself, log=True, **tight)
    assert log["status"] == "ITERATION_LIMIT"
    assert len(log["loss"]) == 3


def test_gcg_speaks_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    gcg([], [], C, 0.05, 0.0, lambda G: 0.0 * G[0, 0], lambda G: 0.0 * G, verbose=True)
    printed = capsys.readouterr()
    assert "gap" in printed.err
    assert printed.out == ""


def test_gcg_takes_lists_and_tensors(torch: Any) -> None:
    data = cloud(6, 5, seed=11)
    plan = gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, itself)
    lists = gcg(data.a.tolist(), data.b.tolist(), data.C.tolist(), 0.1, 1.0, half_square, itself)
    np.testing.assert_allclose(lists, plan, rtol=1e-12)
    a, b, M = (torch.asarray(x) for x in (data.a, data.b, data.C))
    tensor = gcg(a, b, M, 0.1, 1.0, lambda G: 0.5 * (G**2).sum(), itself)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), plan, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_gcg_gives_tensors_the_plan_of_arrays(torch: Any, seed: int) -> None:
    """POT's own test of `gcg`, 1e-12 between libraries, on its two Gaussians and on clouds."""
    if seed == 0:
        x = np.arange(100.0)
        a, b = (np.exp(-((x - m) ** 2) / (2.0 * s**2)) for m, s in ((20.0, 5.0), (60.0, 10.0)))
        a, b, costs = a / a.sum(), b / b.sum(), (x[:, None] - x[None, :]) ** 2 / 99.0**2
    else:
        data = cloud(30, 25, seed=seed)
        a, b, costs = data.a, data.b, data.C
    plan, log = gcg(a, b, costs, 1e-3, 1e-1, half_square, itself, log=True, numItermax=30)
    seen = []

    def gradient(G: Any) -> Any:
        seen.append(type(G))
        return G

    tensors = (torch.asarray(values) for values in (a, b, costs))
    same, log_same = gcg(
        *tensors, 1e-3, 1e-1, lambda G: 0.5 * torch.sum(G**2), gradient, log=True, numItermax=30
    )  # fmt: skip
    assert isinstance(same, torch.Tensor)
    assert set(seen) == {torch.Tensor}
    assert log_same["niter"] == log["niter"]
    np.testing.assert_allclose(same.numpy(), plan, rtol=0, atol=1e-12)


def test_gcg_is_interrupted_by_an_interrupt() -> None:
    data, calls = cloud(9, 7, seed=4), []

    def gradient(G: Array) -> Array:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return G

    with pytest.raises(KeyboardInterrupt):
        gcg(data.a, data.b, data.C, 0.1, 1.0, half_square, gradient)
    assert len(calls) <= 5  # the value of the last plan may be computed once more


BAD = {
    "masses differ": ({"a": 2.0 * UNIFORM}, r"same mass: a sums to 2, b to 1"),
    "no entropy": ({"reg1": 0.0}, r"^reg1 must be finite and > 0, got 0"),
    "negative numItermax": ({"numItermax": -1}, r"^numItermax must be >= 0, got -1"),
    "negative stopThr": ({"stopThr": -1.0}, r"^stopThr must be finite and >= 0, got -1"),
    "negative stopThr2": ({"stopThr2": -1.0}, r"^stopThr2 must be finite and >= 0, got -1"),
    "negative reg2": ({"reg2": -1.0}, r"reg2 must be finite and >= 0, got -1"),
    "a start of another shape": ({"G0": np.ones((3, 3))}, r"\(3, 3\).*\(30, 30\)"),
    "NaN cost": ({"M": C * np.nan}, r"M must be finite"),
}


@pytest.mark.parametrize(("options", "match"), BAD.values(), ids=BAD.keys())
def test_gcg_bad_input(options: dict[str, Any], match: str) -> None:
    call = {
        "a": UNIFORM,
        "b": UNIFORM,
        "M": C,
        "reg1": 0.1,
        "reg2": 1.0,
        "f": half_square,
        "df": itself,
        **options,
    }
    with pytest.raises(ValueError, match=match):
        gcg(**call)


def test_the_judges_entropy_is_ours() -> None:
    """sum G log G without POT's extra -sum G."""
    plan = np.outer(UNIFORM, UNIFORM)
    g = cg.simple.Entropy(0.3, on=cg.sets.Transport(UNIFORM, UNIFORM))
    assert g.value(plan) == pytest.approx(0.3 * negentropy(plan), rel=1e-13)
