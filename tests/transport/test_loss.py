"""transport.loss and barycentric_map: derivatives against differences, closed forms and autograd through Sinkhorn."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import condgrad as cg
from condgrad import MissingAbility, MissingExtra
from condgrad.transport import GroupLasso, Laplacian, barycentric_map, certified_loss, loss, solve
from tests.transport import cloud, squared_distances

ENTROPY = 0.05
N, M = 6, 5
TOL = 1e-13


def ring(n: int) -> Any:
    """The normalised Laplacian of a ring."""
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[(i + 1) % n, i] = 1.0
    return np.eye(n) - 0.5 * W


def tensors(torch: ModuleType, seed: int = 0, n: int = N, m: int = M) -> tuple[Any, ...]:
    """Points, and logits of weights: what gradients are asked of."""
    data, rng = cloud(n, m, seed=seed), np.random.default_rng(seed)
    values = data.Xs, data.Xt, rng.standard_normal(n), rng.standard_normal(m)
    return tuple(torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values)


def laplacian(Xs: Any, Xt: Any) -> Laplacian:
    return Laplacian(Xs.detach(), Xt.detach(), 2.0, Ls=ring(len(Xs)), Lt=ring(len(Xt)), target=0.5)


PROBLEMS = {
    "entropy": lambda *_: (),
    "laplacian": lambda Xs, Xt: (laplacian(Xs, Xt),),
    "groups": lambda Xs, _: (GroupLasso(np.arange(len(Xs)) % 3, 0.1),),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_are_those_of_differences(name: str, torch: ModuleType) -> None:
    points = tensors(torch, n=4, m=3)
    regularizers = PROBLEMS[name](*points[:2])

    def value(Xs: Any, Xt: Any, to_a: Any, to_b: Any) -> Any:
        a, b = to_a.softmax(0), to_b.softmax(0)
        return loss(Xs, Xt, a, b, entropy=ENTROPY, regularizers=regularizers, tol=TOL)

    assert torch.autograd.gradcheck(value, points, eps=1e-4, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["entropy", "laplacian"])
def test_second_derivatives_are_those_of_differences(name: str, torch: ModuleType) -> None:
    points = tensors(torch, seed=1, n=4, m=3)
    regularizers = PROBLEMS[name](*points[:2])

    def value(Xs: Any, Xt: Any, to_a: Any, to_b: Any) -> Any:
        a, b = to_a.softmax(0), to_b.softmax(0)
        return loss(Xs, Xt, a, b, entropy=ENTROPY, regularizers=regularizers, tol=TOL)

    assert torch.autograd.gradgradcheck(
        value, points, eps=1e-4, atol=1e-4, rtol=1e-3, fast_mode=True
    )


@pytest.mark.parametrize("name", ["entropy", "laplacian"])
def test_derivatives_of_the_map_are_those_of_differences(name: str, torch: ModuleType) -> None:
    points = tensors(torch, seed=2, n=4, m=5)
    regularizers = PROBLEMS[name](*points[:2])

    def moved(Xs: Any, Xt: Any, to_a: Any, to_b: Any) -> Any:
        a, b = to_a.softmax(0), to_b.softmax(0)
        return barycentric_map(Xs, Xt, a, b, entropy=ENTROPY, regularizers=regularizers, tol=TOL)

    assert torch.autograd.gradcheck(moved, points, eps=1e-4, atol=1e-4, rtol=1e-3, fast_mode=True)


def unrolled_plan(torch: ModuleType, C: Any, a: Any, b: Any, passes: int = 400) -> Any:
    """Sinkhorn's iteration in the log domain, for autograd to go through."""
    v = torch.zeros_like(b)
    for _ in range(passes):
        u = ENTROPY * (a.log() - ((v[None, :] - C) / ENTROPY).logsumexp(1))
        v = ENTROPY * (b.log() - ((u[:, None] - C) / ENTROPY).logsumexp(0))
    return ((u[:, None] + v[None, :] - C) / ENTROPY).exp()


def test_derivatives_agree_with_autograd_through_sinkhorn(torch: ModuleType) -> None:
    points = tensors(torch, seed=3)
    Xs, Xt, to_a, to_b = points
    a, b = to_a.softmax(0), to_b.softmax(0)
    plan = unrolled_plan(torch, ((Xs[:, None] - Xt[None]) ** 2).sum(2), a, b)
    C = ((Xs[:, None] - Xt[None]) ** 2).sum(2)
    theirs = (C * plan).sum() + ENTROPY * (plan * plan.log()).sum()
    ours = loss(Xs, Xt, a, b, entropy=ENTROPY, tol=TOL)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-10)
    for mine, judge in zip(
        *(torch.autograd.grad(x, points, retain_graph=True) for x in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, judge, atol=1e-7, rtol=1e-6)
    direction = torch.tensor(np.random.default_rng(0).standard_normal((N, 2)))
    moved = barycentric_map(Xs, Xt, a, b, entropy=ENTROPY, tol=TOL)
    theirs = (direction * ((plan @ Xt) / a[:, None])).sum()
    for mine, judge in zip(
        *(
            torch.autograd.grad(x, points, retain_graph=True)
            for x in ((direction * moved).sum(), theirs)
        ),
        strict=True,
    ):
        torch.testing.assert_close(mine, judge, atol=1e-5, rtol=1e-5)


def test_one_source_has_a_closed_form(torch: ModuleType) -> None:
    """The plan is b itself: F* = <b, |x - y|^2> + entropy <b, log b>, of slope 2 (x - mean of y)."""
    x, Y, _, to_b = tensors(torch, n=1)
    b = to_b.softmax(0).detach()
    value = loss(x, Y, None, b, entropy=0.3)
    (in_x,) = torch.autograd.grad(value, x)
    assert value.item() == pytest.approx(
        ((b * ((x - Y) ** 2).sum(1)).sum() + 0.3 * (b * b.log()).sum()).item()
    )
    torch.testing.assert_close(in_x, 2.0 * (x - b @ Y).detach())


def test_weights_have_the_stated_constant_and_the_right_slope_under_scaling(
    torch: ModuleType,
) -> None:
    Xs, Xt, to_a, to_b = tensors(torch)
    a, b = (logits.softmax(0).detach().requires_grad_() for logits in (to_a, to_b))
    in_a, in_b = torch.autograd.grad(loss(Xs, Xt, a, b, entropy=ENTROPY, tol=TOL), (a, b))
    assert (a @ in_a).item() == pytest.approx((b @ in_b).item(), abs=1e-9)
    step = 1e-5
    up, down = (
        loss(Xs, Xt, t * a.detach(), t * b.detach(), entropy=ENTROPY, tol=TOL).item()
        for t in (1 + step, 1 - step)
    )
    assert (a @ in_a + b @ in_b).item() == pytest.approx((up - down) / (2 * step), abs=1e-7)
    # and each of them, by differences within what counts as equal masses
    assert torch.autograd.gradcheck(
        lambda a, b: loss(Xs.detach(), Xt.detach(), a, b, entropy=ENTROPY, tol=TOL),
        (a, b),
        eps=4e-7,
        atol=1e-6,
    )


@given(
    seed=st.integers(0, 10_000),
    tol=st.sampled_from([1e-2, 1e-3, 1e-5]),
    name=st.sampled_from(sorted(PROBLEMS)),
)
@settings(max_examples=10)
def test_error_of_the_gradient_is_within_its_bound(
    torch: ModuleType, seed: int, tol: float, name: str
) -> None:
    Xs, Xt, to_a, to_b = tensors(torch, seed=seed)
    a, b, regularizers = to_a.softmax(0), to_b.softmax(0), PROBLEMS[name](Xs, Xt)
    rough, exact = (
        certified_loss(
            Xs,
            Xt,
            a.detach(),
            b.detach(),
            entropy=ENTROPY,
            regularizers=regularizers,
            method="cgs",
            tol=accuracy,
        )
        for accuracy in (tol, 1e-9)
    )
    for k in range(2):
        at_tol, at_best = (
            torch.autograd.grad(x.loss, (Xs, Xt), retain_graph=True)[k] for x in (rough, exact)
        )
        error = (at_tol - at_best).norm().item()
        assert error <= rough.gradient_error[k] + exact.gradient_error[k]
        assert rough.gradient_error[k] < math.inf
    assert rough.gradient_error[0] > 0.0


@given(seed=st.integers(0, 10_000), unit=st.sampled_from([1e-4, 30.0, 1e5]))
@settings(max_examples=10)
def test_units(torch: ModuleType, seed: int, unit: float) -> None:
    """Points times c and entropy times c^2: the value is c^2 times as large up to a constant, the gradient c times."""
    Xs, Xt, _, _ = tensors(torch, seed=seed)
    (here,) = torch.autograd.grad(loss(Xs, Xt, entropy=ENTROPY, tol=1e-11), Xs)
    there = loss(unit * Xs + unit, unit * Xt + unit, entropy=ENTROPY * unit**2, tol=1e-11)
    (scaled,) = torch.autograd.grad(there, Xs)
    torch.testing.assert_close(scaled / unit**2, here, atol=1e-4, rtol=1e-4)
    assert there.item() / unit**2 == pytest.approx(
        loss(Xs, Xt, entropy=ENTROPY, tol=1e-11).item(), abs=1e-8
    )


def test_value_and_plan_are_those_of_solve(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch)
    regularizers = [laplacian(Xs, Xt)]
    ours = certified_loss(Xs, Xt, entropy=ENTROPY, regularizers=regularizers, tol=1e-10)
    C = squared_distances(Xs.detach().numpy(), Xt.detach().numpy())
    plain = solve(
        C,
        entropy=ENTROPY,
        regularizers=[
            Laplacian(
                Xs.detach().numpy(), Xt.detach().numpy(), 2.0, Ls=ring(N), Lt=ring(M), target=0.5
            )
        ],
        tol=1e-10,
    )
    assert ours.loss.item() == pytest.approx(plain.value, abs=1e-9)
    assert ours.result.lower_bound <= plain.value
    np.testing.assert_allclose(ours.result.plan.numpy(), plain.plan, atol=1e-6)
    assert ours.loss.requires_grad
    assert not ours.result.plan.requires_grad
    moved = barycentric_map(Xs, Xt, entropy=ENTROPY, regularizers=regularizers)
    np.testing.assert_allclose(
        moved.detach().numpy(), plain.barycenters(Xt.detach().numpy()), atol=1e-5
    )


def test_laplacians_follow_the_points_and_keep_their_graphs(torch: ModuleType) -> None:
    """A Laplacian made elsewhere serves these points."""
    Xs, Xt, _, _ = tensors(torch, n=9, m=9)
    made = Laplacian(Xs.detach(), Xt.detach(), 5.0, neighbors=3)
    part = made.smooth_part()
    moved = 3.0 * Xs + Xt
    follows = loss(moved, Xt, entropy=ENTROPY, regularizers=[made], tol=1e-10)
    explicit = Laplacian(
        moved.detach(), Xt.detach(), 5.0, Ls=part.Ls.to_dense(), Lt=part.Lt.to_dense()
    )
    assert follows.item() == pytest.approx(
        loss(moved, Xt, entropy=ENTROPY, regularizers=[explicit], tol=1e-10).item(), abs=1e-8
    )
    assert follows.item() == pytest.approx(
        loss(moved, Xt, entropy=ENTROPY, regularizers=[part], tol=1e-10).item()
    )


def test_float32_points_give_float32_gradients_of_float64_accuracy(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch)
    single = Xs.detach().float().requires_grad_()
    value = loss(single, Xt.detach().float(), entropy=ENTROPY)
    (gradient,) = torch.autograd.grad(value, single)
    assert value.dtype == gradient.dtype == torch.float32
    exact = loss(Xs, Xt, entropy=ENTROPY, tol=1e-12)
    torch.testing.assert_close(
        gradient.double(), torch.autograd.grad(exact, Xs)[0], atol=2e-5, rtol=1e-4
    )


def test_without_entropy_the_gradient_is_that_of_an_optimal_plan(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch, n=5, m=5)
    value = loss(Xs, Xt, entropy=0.0)
    (gradient,) = torch.autograd.grad(value, Xs)
    step = 1e-6
    nudge = torch.zeros_like(Xs)
    nudge[1, 0] = step
    up, down = (loss(Xs + s * nudge, Xt, entropy=0.0).item() for s in (1, -1))
    assert gradient[1, 0].item() == pytest.approx((up - down) / (2 * step), abs=1e-6)
    assert certified_loss(Xs, Xt, entropy=0.0).gradient_error == (math.inf, math.inf)


def test_a_run_cut_short_warns(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch, n=30, m=30)
    with pytest.warns(ConvergenceWarning, match="certified to"):
        loss(Xs, Xt, entropy=1e-3, method="cgs", max_iter=0)


def test_a_start_is_used(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch)
    first = certified_loss(Xs, Xt, entropy=ENTROPY, regularizers=[laplacian(Xs, Xt)])
    again = certified_loss(
        Xs, Xt, entropy=ENTROPY, regularizers=[laplacian(Xs, Xt)], start=first.result.plan
    )
    assert again.result.iterations < first.result.iterations


def test_what_has_no_derivative_is_refused(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch)
    groups = PROBLEMS["groups"](Xs, Xt)
    value = loss(Xs, Xt, entropy=ENTROPY, regularizers=groups)
    (gradient,) = torch.autograd.grad(value, Xs, create_graph=True)
    with pytest.raises(MissingAbility, match="entropy alone or with Laplacians"):
        gradient.sum().backward()
    with pytest.raises(MissingAbility, match="entropy alone or with Laplacians"):
        barycentric_map(Xs, Xt, entropy=ENTROPY, regularizers=groups)
    (gradient,) = torch.autograd.grad(loss(Xs, Xt, entropy=0.0), Xs, create_graph=True)
    with pytest.raises(MissingAbility, match="entropy > 0"):
        gradient.sum().backward()


def test_points_without_weight_take_no_part(torch: ModuleType) -> None:
    Xs, Xt, _, _ = tensors(torch)
    a = torch.tensor([0.0, *[0.2] * 5], dtype=torch.float64)
    (with_it,) = torch.autograd.grad(loss(Xs, Xt, a, entropy=ENTROPY, tol=1e-11), Xs)
    (without,) = torch.autograd.grad(loss(Xs[1:], Xt, entropy=ENTROPY, tol=1e-11), Xs)
    torch.testing.assert_close(with_it, without, atol=1e-6, rtol=1e-5)


def test_without_torch_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"transport\.loss needs torch, which is not installed"):
        cg.transport.loss(np.zeros((2, 2)), np.zeros((2, 2)), entropy=1.0)


@pytest.mark.parametrize("name", ["entropy", "laplacian"])
def test_streamed_plans_give_the_same_derivatives(name: str, torch: ModuleType) -> None:
    points = tensors(torch, seed=5)
    regularizers = PROBLEMS[name](*points[:2])

    def value(plan: str) -> Any:
        a, b = points[2].softmax(0), points[3].softmax(0)
        found = certified_loss(
            *points[:2], a, b, entropy=ENTROPY, regularizers=regularizers, tol=1e-12, plan=plan
        )
        assert found.result.streamed == (plan == "streamed")
        return found.loss

    dense, streamed = value("dense"), value("streamed")
    assert streamed.item() == pytest.approx(dense.item(), abs=1e-10)
    here, there = (torch.autograd.grad(x, points, create_graph=True) for x in (dense, streamed))
    for mine, judge in zip(there, here, strict=True):
        torch.testing.assert_close(mine, judge, atol=1e-5, rtol=1e-5)
    second = (
        torch.autograd.grad(sum((g**2).sum() for g in x), points[0])[0] for x in (here, there)
    )
    torch.testing.assert_close(*second, atol=1e-3, rtol=1e-3)


def random_cost(torch: ModuleType, n: int = 5, m: int = 4) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    weights = [torch.tensor(rng.dirichlet(np.ones(size)), requires_grad=True) for size in (n, m)]
    return torch.tensor(rng.random((n, m)), requires_grad=True), *weights


def test_the_gradient_in_a_cost_is_the_plan_of_pot(torch: ModuleType) -> None:
    M, a, b = random_cost(torch)
    cg.transport.loss(cost=M, a=a, b=b, entropy=0.05, tol=1e-12).backward()
    pot = ot.sinkhorn(
        a.detach().numpy(), b.detach().numpy(), M.detach().numpy(), 0.05, stopThr=1e-14
    )
    np.testing.assert_allclose(M.grad.numpy(), pot, atol=1e-8)


@pytest.mark.parametrize("regularized", [False, True])
def test_derivatives_in_a_cost_and_its_weights_are_those_of_differences(
    torch: ModuleType, regularized: bool
) -> None:
    M, a, b = random_cost(torch)
    rng = np.random.default_rng(1)
    regularizers = []
    if regularized:
        points = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
        regularizers = [cg.transport.Laplacian(*points, weight=0.3, neighbors=2)]

    def value(M: Any, a: Any, b: Any) -> Any:
        weights = a / a.sum(), b / b.sum()
        return cg.transport.loss(
            None, None, *weights, cost=M, entropy=0.2, regularizers=regularizers, tol=1e-13
        )

    assert torch.autograd.gradcheck(value, (M, a, b), eps=1e-5, atol=1e-6)
    assert torch.autograd.gradgradcheck(value, (M, a, b), eps=1e-5, atol=1e-5)


def test_forbidden_pairs_have_no_gradient(torch: ModuleType) -> None:
    M, _, _ = random_cost(torch)
    masked = torch.where(torch.eye(5, 4) > 0, torch.inf, M)
    found = cg.transport.certified_loss(cost=masked, entropy=0.1)
    found.loss.backward()
    assert (M.grad.diagonal() == 0.0).all()
    np.testing.assert_allclose(M.grad.sum(1).numpy(), 0.2, rtol=1e-10)
    assert found.plan_error < 1e-2
    assert np.isnan(found.gradient_error.Xs)


def test_points_or_a_cost_and_tensors_are_asked_for(torch: ModuleType) -> None:
    M, a, _ = random_cost(torch)
    for wrong in ({}, {"Xs": M, "Xt": M, "cost": M}, {"Xs": M}, {"Xs": M, "cost": M}):
        with pytest.raises(TypeError, match="takes points Xs and Xt, or a cost"):
            cg.transport.loss(**wrong, entropy=0.1)
    with pytest.raises(TypeError, match=r"cost must be a torch tensor, got ndarray"):
        cg.transport.loss(cost=M.detach().numpy(), entropy=0.1)
    with pytest.raises(ValueError, match=r"b must have 4 weights"):
        cg.transport.loss(cost=M, b=a, entropy=0.1)
    for name, asked in {"cost": (M, None), "a": (M.detach(), a)}.items():
        with pytest.warns(
            UserWarning, match=rf"{name} requires a gradient.*transport\.loss\(cost=cost"
        ):
            cg.transport.solve(*asked, entropy=0.1)
