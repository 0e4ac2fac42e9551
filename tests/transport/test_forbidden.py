"""+inf in a cost is a pair that may not be matched: plans are 0 there, and certified; where there is
no plan, that is proved.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cvxpy
import numpy as np
import pytest
from scipy.linalg import qr
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from scipy.special import xlogy

import condgrad as cg
from condgrad.transport.forbidden import usable_pairs

INF = np.inf


def constraints(allowed: Any) -> Any:
    """The matrix of row and column sums over the allowed cells."""
    n, m = allowed.shape
    rows, columns = np.nonzero(allowed)
    A = np.zeros((n + m, len(rows)))
    A[rows, np.arange(len(rows))] = 1.0
    A[n + columns, np.arange(len(rows))] = 1.0
    return A


def least_cost(C: Any, a: Any, b: Any) -> float | None:
    """The least cost of a plan on finite cells, by HiGHS; None where there is no plan."""
    allowed = np.isfinite(C)
    if not allowed.any():
        return None
    found = linprog(C[allowed], A_eq=constraints(allowed), b_eq=np.r_[a, b])
    return found.fun if found.status == 0 else None


def cells_with_mass(allowed: Any, a: Any, b: Any) -> Any:
    """The cells that have mass in some plan, by a linear program each."""
    A = constraints(allowed)
    most = [-linprog(-row, A_eq=A, b_eq=np.r_[a, b]).fun for row in np.eye(int(allowed.sum()))]
    usable = np.zeros(allowed.shape, dtype=bool)
    usable[allowed] = np.array(most) > 1e-9
    return usable


def least_entropic(C: Any, usable: Any, a: Any, b: Any, entropy: float) -> float:
    """The minimum by CVXPY, whose solver needs an interior, and no equation twice: cells that are 0
    in every plan are left out, and sums that follow from others.
    """
    A = constraints(usable)
    _, R, order = qr(A.T, mode="economic", pivoting=True)
    independent = order[: int((abs(np.diag(R)) > 1e-9).sum())]
    x = cvxpy.Variable(A.shape[1])
    objective = C[usable] @ x - entropy * cvxpy.sum(cvxpy.entr(x))
    sums = A[independent] @ x == np.r_[a, b][independent]
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [sums])
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    found = np.maximum(x.value, 0.0)  # the entropy of -1e-12 is infinite to CVXPY
    return float(C[usable] @ found + entropy * xlogy(found, found).sum())


def random_mask(rng: Any) -> tuple[Any, Any, Any]:
    """A cost with forbidden pairs; as often as not with equal weights, which leave no choice more
    often.
    """
    n, m = rng.integers(2, 7, 2)
    if rng.random() < 0.5:
        m = n
        a, b = np.full(n, 1 / n), np.full(m, 1 / m)
    else:
        a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    C = rng.random((n, m))
    C[rng.random((n, m)) < rng.choice([0.2, 0.4, 0.6])] = INF
    return C, a, b


def judged(count: int, seed: int) -> None:
    """Ours against HiGHS and CVXPY on so many masks, a third of which leave no plan."""
    rng = np.random.default_rng(seed)
    feasible = infeasible = forced = 0
    while feasible + infeasible < count:
        C, a, b = random_mask(rng)
        least = least_cost(C, a, b)
        if least is None:
            if infeasible < count // 3:
                infeasible += 1
                check_proof(C, a, b)
            continue
        if feasible >= count - count // 3:
            continue
        feasible += 1
        usable = cells_with_mass(np.isfinite(C), a, b)
        forced += int((usable != np.isfinite(C)).any())
        np.testing.assert_array_equal(usable_pairs(np.isfinite(C), a, b).cells(), usable)
        for entropy in (0.0, 0.002, 0.1, 2.0):
            t = cg.transport.solve(C, a, b, entropy=entropy)
            check_plan(t, C, a, b)
            minimum = least
            if entropy > 0.0:
                minimum = least_entropic(C, usable, a, b, entropy)
            assert t.lower_bound - 1e-6 <= minimum <= t.value + 1e-6
    assert infeasible == count // 3
    assert forced > count // 20


def check_proof(C: Any, a: Any, b: Any) -> None:
    """The cut, in rational numbers."""
    with pytest.raises(cg.InfeasibleError, match="no plan avoids") as caught:
        cg.transport.solve(C, a, b, entropy=0.1)
    cut = caught.value
    elsewhere = np.setdiff1d(np.arange(len(b)), cut.targets)
    assert not np.isfinite(C[np.ix_(cut.sources, elsewhere)]).any()
    supply = sum(map(Fraction, a[cut.sources]))
    room = sum(map(Fraction, b[cut.targets]))
    assert supply > room


def check_plan(t: Any, C: Any, a: Any, b: Any) -> None:
    plan = t.dense()
    assert t.success, t.message
    assert (plan[~np.isfinite(C)] == 0.0).all()
    assert plan.min() >= 0.0
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(plan.sum(axis=0), b, rtol=1e-10, atol=1e-14)
    assert t.lower_bound <= t.value


@pytest.mark.slow
def test_random_masks_have_the_answers_of_highs_and_cvxpy() -> None:
    judged(24, seed=0)


@pytest.mark.slow
def test_two_hundred_random_masks() -> None:
    judged(200, seed=1)


def test_a_pair_that_no_plan_uses_is_removed_before_sinkhorn_crawls() -> None:
    # source 0 needs all of target 0, so that source 1 can send nothing there, though it may
    C = np.array([[1.0, INF], [1.0, 2.0]])
    t = cg.transport.solve(C, entropy=0.1)
    np.testing.assert_array_equal(t.plan, [[0.5, 0.0], [0.0, 0.5]])
    assert t.value == pytest.approx(1.5 + 0.1 * np.log(0.5), rel=1e-14)
    assert t.relative_gap <= 1e-12


def points(n: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Points of two clouds and their classes, as many of each class in both."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n)
    return rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + 0.5, classes, rng.permutation(classes)


def between_classes(Xs: Any, Xt: Any) -> Any:
    """Squared distances; the last coordinate is a class, and other classes may not be matched."""
    cost = cdist(Xs[:, :-1], Xt[:, :-1], "sqeuclidean")
    cost[Xs[:, -1][:, None] != Xt[:, -1][None, :]] = INF
    return cost


@pytest.mark.parametrize("regularized", [False, True])
def test_masked_plans_with_laplacians_are_certified_by_every_method(regularized: bool) -> None:
    n = 40
    Xs, Xt, of_source, of_target = points(n)
    regularizers = [cg.transport.Laplacian(Xs, Xt, weight=5.0)] if regularized else []
    cost = cg.transport.BlockCost(between_classes, np.c_[Xs, of_source], np.c_[Xt, of_target])
    C = cost.dense()
    options = {"entropy": 0.05, "regularizers": regularizers}
    a = np.full(n, 1 / n)
    newton = cg.transport.solve(C, **options)
    assert "newton" in newton.method
    for other in (
        cg.transport.solve(C, **options, method="cgs", tol=1e-4),
        cg.transport.solve(cost, **options, plan="streamed"),
        cg.transport.solve(cost, **options, plan="dense"),
    ):
        check_plan(other, C, a, a)
        assert other.lower_bound <= newton.value
        assert newton.lower_bound <= other.value
    assert cg.transport.solve(cost, **options, plan="streamed").streamed


def test_a_laplacian_without_entropy_avoids_the_pairs() -> None:
    Xs, Xt, of_source, of_target = points(15)
    C = between_classes(np.c_[Xs, of_source], np.c_[Xt, of_target])
    laplacian = cg.transport.Laplacian(Xs, Xt, weight=1.0, neighbors=3)
    t = cg.transport.solve(C, entropy=0.0, regularizers=[laplacian], tol=1e-2)
    check_plan(t, C, np.full(15, 1 / 15), np.full(15, 1 / 15))


def test_a_streamed_cost_with_pairs_of_no_pattern() -> None:
    Xs, Xt, _, _ = points(30)
    forbidden = np.random.default_rng(0).random((30, 30)) < 0.5

    def cost(x: Any, y: Any) -> Any:
        result = cdist(x[:, :2], y[:, :2], "sqeuclidean")
        result[forbidden[x[:, 2].astype(int)][:, y[:, 2].astype(int)]] = INF
        return result

    blocks = cg.transport.BlockCost(cost, np.c_[Xs, np.arange(30)], np.c_[Xt, np.arange(30)])
    t = cg.transport.solve(blocks, entropy=0.05, plan="streamed")
    check_plan(t, blocks.dense(), np.full(30, 1 / 30), np.full(30, 1 / 30))
    Y = np.random.default_rng(1).normal(size=(30, 3))
    np.testing.assert_allclose(t.apply(Y), t.dense() @ Y, atol=1e-14)
    np.testing.assert_allclose(t.apply_transpose(Y), t.dense().T @ Y, atol=1e-14)


@pytest.mark.parametrize("limit", [{"max_iter": 0}, {"max_iter": 2}, {"time_limit": 0.0}])
def test_a_run_that_ends_early_has_an_exact_plan_too(limit: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    C = np.where(rng.random((30, 30)) < 0.6, INF, rng.random((30, 30)))
    t = cg.transport.solve(C, entropy=1e-3, **limit)
    assert not t.success
    assert (t.plan[C == INF] == 0.0).all()
    np.testing.assert_allclose(t.plan.sum(axis=0), 1 / 30, rtol=1e-10)
    best = cg.transport.solve(C, entropy=1e-3)
    assert t.lower_bound <= best.value <= t.value + 1e-6


def test_points_without_weight_need_no_partner() -> None:
    C = np.array([[INF, INF], [1.0, INF], [INF, 2.0]])
    t = cg.transport.solve(C, [0.0, 0.5, 0.5], [0.5, 0.5], entropy=0.1)
    np.testing.assert_array_equal(t.plan, [[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]])


def test_weights_of_float32_are_no_proof() -> None:
    a = (np.ones(6) / 6).astype(np.float32)
    C = np.kron(np.eye(2), np.ones((3, 3))).astype(np.float32)
    C[C == 0.0] = INF
    t = cg.transport.solve(C, a, entropy=0.1, tol=1e-4)
    assert t.success
    assert (t.plan[C == INF] == 0.0).all()


def test_who_cannot_be_matched_is_named() -> None:
    C = np.array([[1.0, INF, INF], [2.0, INF, INF], [1.0, 1.0, 1.0]])
    with pytest.raises(
        cg.InfeasibleError,
        match=r"sources 0, 1 .* 0\.666667 may only go to target 0, which can take 0\.333333",
    ):
        cg.transport.solve(C, entropy=0.0)
    C[0] = INF
    with pytest.raises(cg.InfeasibleError, match=r"source 0 .* may go to no target at all"):
        cg.transport.solve(C, entropy=1.0)
    for wrong in (-INF, np.nan):
        C[0] = wrong
        with pytest.raises(ValueError, match=r"cost must be finite, or \+inf for pairs"):
            cg.transport.solve(C, entropy=1.0)
        blocks = cg.transport.BlockCost(lambda *_, C=C: C, np.zeros((3, 1)), np.zeros((3, 1)))
        with pytest.raises(ValueError, match=r"cost must be finite, or \+inf for pairs"):
            cg.transport.solve(blocks, entropy=1.0)
