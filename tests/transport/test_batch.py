"""Many small problems at once: each answer is certified, and is what other solvers find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import ot
import pytest
from scipy.special import xlogy

import condgrad as cg
from condgrad.transport import BatchResult, solve_batch
from tests import host


def costs(k: int, n: int, m: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X, Y = rng.random((k, n, 2)), rng.random((k, m, 2))
    return ((X[:, :, None] - Y[:, None]) ** 2).sum(-1)


def check(result: BatchResult, C: Any, a: Any, b: Any, entropy: Any, tol: float = 1e-6) -> None:
    """Marginals, value and certificate of all problems."""
    plan, value = host(result.plan), host(result.value)
    mass = np.broadcast_to(a, plan.shape[:2]).sum(1)
    assert plan.min() >= 0.0
    assert abs(plan.sum(2) - a).max() <= 1e-14 * mass.max()
    assert abs(plan.sum(1) - b).max() <= 1e-14 * mass.max()
    expected = (C * plan).sum((1, 2)) + entropy * xlogy(plan, plan).sum((1, 2))
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12 * abs(C).max() * mass.max())
    assert (host(result.lower_bound) <= value).all()
    assert result.success
    assert (host(result.relative_gap) <= tol).all()


@pytest.mark.parametrize("shape", [(12, 30, 20), (12, 20, 30), (3, 1, 1), (2, 1, 5)])
@pytest.mark.parametrize("entropy", [1e-1, 1e-3, 1e-5])
def test_each_plan_has_its_marginals_and_its_certificate(
    shape: tuple[int, int, int], entropy: float
) -> None:
    C = costs(*shape)
    check(solve_batch(C, entropy=entropy), C, 1.0 / shape[1], 1.0 / shape[2], entropy)


@pytest.mark.slow
def test_values_are_those_of_problems_solved_one_by_one() -> None:
    C, entropy = costs(6, 25, 20), 1e-2
    result = solve_batch(C, entropy=entropy, tol=1e-9)
    a, b = np.full(25, 1 / 25), np.full(20, 1 / 20)
    for j in range(6):
        alone = cg.transport.solve(C[j], entropy=entropy, tol=1e-9)
        assert result.lower_bound[j] <= alone.value
        assert alone.lower_bound <= result.value[j]
        pot = ot.bregman.sinkhorn(
            a, b, C[j], entropy, method="sinkhorn_log", stopThr=1e-13, numItermax=20_000
        )
        np.testing.assert_allclose(result.plan[j], pot, atol=1e-6)


def test_each_problem_has_its_own_entropy_and_weights() -> None:
    rng, C = np.random.default_rng(0), costs(5, 12, 18)
    a, b = rng.random((5, 12)), rng.random((5, 18))
    b *= (a.sum(1) / b.sum(1))[:, None]
    entropy = np.array([1.0, 0.1, 1e-2, 1e-3, 1e-4])
    result = solve_batch(C, a, b, entropy=entropy)
    check(result, C, a, b, entropy)
    for j in range(5):
        alone = cg.transport.solve(C[j], a[j], b[j], entropy=entropy[j])
        assert abs(result.value[j] - alone.value) <= max(result.gap[j], alone.gap)


def test_points_without_weight_get_nothing() -> None:
    C = costs(4, 12, 10)
    a, b = np.ones(12), np.ones(10)
    a[::3], b[::4] = 0.0, 0.0
    a, b = a / a.sum(), b / b.sum()
    result = solve_batch(C, a, b, entropy=1e-3)
    check(result, C, a, b, 1e-3)
    assert (result.plan[:, ::3] == 0.0).all()
    assert (result.u[:, ::3] == -np.inf).all()
    assert (result.v[:, ::4] == -np.inf).all()
    live = result.plan[:, a > 0.0][:, :, b > 0.0]
    exponents = (result.u[:, :, None] + result.v[:, None, :] - C)[:, a > 0.0][:, :, b > 0.0] / 1e-3
    np.testing.assert_allclose(np.exp(exponents), live, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_change_nothing(unit: float) -> None:
    C = costs(4, 15, 15)
    result, same = solve_batch(unit * C + unit, entropy=unit * 1e-3), solve_batch(C, entropy=1e-3)
    np.testing.assert_allclose(result.plan, same.plan, atol=1e-6)


def test_hard_problems_converge() -> None:
    rng = np.random.default_rng(0)
    C = rng.random((10, 40, 40))
    check(solve_batch(C, entropy=1e-6), C, 1 / 40, 1 / 40, 1e-6)
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)
    C = ((grid[:, None] - grid[None] - 0.5) ** 2).sum(-1)[None]
    check(solve_batch(C, entropy=1e-6), C, 1 / 36, 1 / 36, 1e-6)


def test_problems_that_are_done_early_keep_their_answers() -> None:
    C = costs(8, 15, 15)
    entropy = np.array([1.0] * 4 + [1e-5] * 4)
    result = solve_batch(C, entropy=entropy)
    check(result, C, 1 / 15, 1 / 15, entropy)
    easy = solve_batch(C[:4], entropy=entropy[:4])
    np.testing.assert_array_equal(result.iterations[:4], easy.iterations)
    assert result.iterations[:4].max() < result.iterations[4:].min()
    limited = solve_batch(C, entropy=entropy, max_iter=int(easy.iterations.max()) + 2)
    assert list(limited.status) == [cg.Status.CONVERGED] * 4 + [cg.Status.ITERATION_LIMIT] * 4


def test_tensors_stay_tensors(torch: Any) -> None:
    C = costs(5, 10, 12)
    result = solve_batch(torch.asarray(C, dtype=torch.float32), entropy=1e-2)
    assert isinstance(result.plan, torch.Tensor)
    assert result.plan.dtype == torch.float64
    check(result, np.float64(np.float32(C)), 1 / 10, 1 / 12, 1e-2)


def test_groups_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are more entries than are solved together."""
    C = costs(23, 110, 110)
    monkeypatch.setattr("condgrad.kernels.streamed_numba.threads", lambda: 3)
    together = solve_batch(C, entropy=1e-2)
    for part in (slice(2), slice(11, 13), slice(21, 23)):
        apart = solve_batch(C[part], entropy=1e-2)
        np.testing.assert_allclose(together.plan[part], apart.plan, atol=1e-12)
        np.testing.assert_array_equal(together.iterations[part], apart.iterations)


@pytest.mark.parametrize(
    ("limit", "status"),
    [({"max_iter": 3}, cg.Status.ITERATION_LIMIT), ({"time_limit": 0.0}, cg.Status.TIME_LIMIT)],
)
def test_limits_leave_certified_answers(
    limit: dict[str, Any], status: cg.Status, monkeypatch: Any
) -> None:
    monkeypatch.setattr("condgrad.kernels.streamed_numba.threads", lambda: 2)
    C = costs(5, 240, 240)  # more entries than are solved together
    result, best = solve_batch(C, entropy=1e-3, **limit), solve_batch(C, entropy=1e-3)
    assert set(result.status) == {status}
    assert not result.success
    assert (result.lower_bound <= best.value).all()
    assert (best.lower_bound <= result.value).all()
    assert abs(result.plan.sum(1) - 1 / 240).max() < 1e-14


def test_what_no_float_can_prove_ends_soon() -> None:
    C = costs(4, 15, 15)
    result = solve_batch(C, entropy=1e-2, tol=0.0)
    assert set(result.status) == {cg.Status.STALLED}
    assert (result.relative_gap < 1e-12).all()
    assert result.iterations.max() < 40


@pytest.mark.parametrize("shape", [(3, 6, 4), (3, 4, 6)])
@pytest.mark.parametrize(
    ("cost", "entropy", "mass"),
    [
        (1.7e308, 0.1, 1.0),
        (1.7e308, 1.7e308, 1.0),
        (1.0, 1.7e308, 1.0),
        (1e205, 0.1, 1e104),
        (1e205, 1e204, 1e104),
    ],
)
def test_a_problem_out_of_range_is_named_and_the_others_are_answered(
    shape: tuple[int, int, int], cost: float, entropy: float, mass: float
) -> None:
    """POT judges the others, and no warning is given, which would be an error."""
    k, n, m = shape
    C, a, b = costs(*shape), np.full((k, n), 1.0 / n), np.full((k, m), 1.0 / m)
    C[1] *= cost / C[1].max()
    a[1] *= mass
    b[1] *= mass
    with pytest.raises(cg.NotFiniteError, match="problem 1 of 3 is out of the range") as caught:
        solve_batch(C, a, b, entropy=[0.1, entropy, 0.1], tol=1e-9)
    assert caught.value.problems == (1,)
    others = caught.value.others
    assert len(others) == 2
    check(others, C[[0, 2]], a[[0, 2]], b[[0, 2]], 0.1, tol=1e-9)
    for plan, j in zip(others.plan, (0, 2), strict=True):
        judged = ot.sinkhorn(a[j], b[j], C[j], 0.1, stopThr=1e-12)
        np.testing.assert_allclose(plan, judged, atol=1e-5)


@pytest.mark.parametrize("unit", [1e300, 1e-300, np.ldexp(1.0, -1050)])
def test_costs_near_the_ends_of_the_floats(unit: float) -> None:
    """Bounds on the same minimum as in unit 1, up to what costs of few digits leave of it."""
    C = costs(3, 5, 4)
    result, same = solve_batch(unit * C, entropy=unit * 0.1), solve_batch(C, entropy=0.1)
    left = 1e-6 if unit < 1e-310 else 0.0
    assert (result.lower_bound / unit <= same.value + left).all()
    assert (same.lower_bound <= result.value / unit + left).all()


def test_a_gap_of_mere_rounding_is_none_where_f_has_no_terms() -> None:
    """A mass of 1 in one entry of cost 0 is the only plan, and F = 1 log 1 = 0 there."""
    C = np.zeros((2, 1, 2))
    C[1] = 1.0
    result = solve_batch(C, [1.0], [1.0, 0.0], entropy=[117.0, 117.0], tol=0.0, max_iter=1)
    assert result.value[0] == result.scale[0] == 0.0
    assert result.lower_bound[0] <= 0.0
    assert result.status[0] is cg.Status.CONVERGED
    assert result.relative_gap[0] == 0.0
    # the other has terms, and its gap is still measured by them
    assert result.relative_gap[1] == result.gap[1] / result.scale[1]
    not_converged = replace(result, status=np.full(2, cg.Status.ITERATION_LIMIT, dtype=object))
    assert not_converged.relative_gap[0] == np.inf


def test_no_problems_have_no_answers() -> None:
    assert len(solve_batch(np.ones((0, 3, 4)), entropy=1.0)) == 0


def test_problems_of_different_sizes_have_the_answers_of_each_alone() -> None:
    rng = np.random.default_rng(0)
    sizes = [(1, 1), (3, 9), (9, 3), (20, 31), (30, 20), (4, 4), (4, 4)]
    C = [rng.random(size) for size in sizes]
    a = [rng.random(n) + 0.1 for n, _ in sizes]
    b = [rng.random(m) + 0.1 for _, m in sizes]
    b = [each * (of_a.sum() / each.sum()) for each, of_a in zip(b, a, strict=True)]
    C[4][:10, :5] = np.inf
    entropies = np.linspace(0.01, 0.1, len(sizes))
    found = solve_batch(C, a, b, entropy=entropies)
    assert found.success, found.status
    assert len(found) == len(sizes)
    assert "1 x 1 to 30 x 20" in repr(found)
    for j, (n, m) in enumerate(sizes):
        alone = cg.transport.solve(C[j], a[j], b[j], entropy=entropies[j])
        assert found.plan[j].shape == (n, m)
        assert found.u[j].shape == (n,)
        assert found.v[j].shape == (m,)
        np.testing.assert_allclose(found.plan[j].sum(axis=1), a[j], rtol=1e-12)
        np.testing.assert_allclose(found.plan[j].sum(axis=0), b[j], rtol=1e-12)
        assert found.lower_bound[j] <= alone.value
        assert alone.lower_bound <= found.value[j]
        assert (found.plan[j][~np.isfinite(C[j])] == 0.0).all()


def test_lists_of_problems_keep_the_answers_of_the_others() -> None:
    with pytest.raises(cg.NotFiniteError, match="problem 1 of 2") as caught:
        solve_batch([np.ones((2, 3)), np.diag([1e308, -1e308])], entropy=1.0)
    assert caught.value.problems == (1,)
    assert [plan.shape for plan in caught.value.others.plan] == [(2, 3)]


def test_masks_in_a_batch_are_those_of_solve() -> None:
    rng = np.random.default_rng(0)
    C = rng.random((8, 6, 5))
    C[rng.random(C.shape) < 0.3] = np.inf
    C[:, :, 0] = 1.0
    C[:, 0, :] = 1.0
    C[3] = rng.random((6, 5))
    entropy = 0.02
    try:
        found = solve_batch(C, entropy=entropy)
    except cg.InfeasibleError as error:
        pytest.fail(str(error))
    assert found.success
    for j in range(8):
        alone = cg.transport.solve(C[j], entropy=entropy)
        assert (found.plan[j][C[j] == np.inf] == 0.0).all()
        np.testing.assert_allclose(found.plan[j].sum(axis=0), 0.2, rtol=1e-12)
        assert found.lower_bound[j] <= alone.value
        assert alone.lower_bound <= found.value[j]
