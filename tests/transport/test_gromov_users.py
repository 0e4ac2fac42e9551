"""Gromov-Wasserstein where users are: POT's functions, an estimator, a differentiable loss."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

import condgrad as cg
from condgrad.compat import pot

NAMES = [
    f"{entropic}{fused}gromov_wasserstein{square}"
    for entropic in ("", "entropic_")
    for fused in ("", "fused_")
    for square in ("", "2")
]


def theirs(name: str) -> Any:
    return getattr(ot.gromov, name)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9, 2)), rng.standard_normal((11, 2))
    weights = {"p": rng.dirichlet(np.full(9, 4.0)), "q": rng.dirichlet(np.full(11, 4.0))}
    return {"C1": cdist(X, X), "C2": cdist(Y, Y), "M": cdist(X, Y), **weights}


def arguments(name: str, data: dict[str, Any]) -> dict[str, Any]:
    chosen = {key: data[key] for key in ("C1", "C2", "p", "q")}
    if "fused" in name:
        chosen |= {"M": data["M"], "alpha": 0.3}
    return chosen | ({"epsilon": 1.0} if "entropic" in name else {})


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_pots_but_for_options_of_inner_solvers(name: str) -> None:
    ours = inspect.signature(getattr(pot, name)).parameters
    expected = inspect.signature(theirs(name)).parameters
    assert list(ours) == [each for each in expected if each != "kwargs"]
    for each, parameter in ours.items():
        assert parameter.default == expected[each].default


@pytest.mark.parametrize("loss", ["square_loss", "kl_loss"])
@pytest.mark.parametrize("name", NAMES)
def test_plans_and_logs_are_pots_or_better(name: str, loss: str, data: dict[str, Any]) -> None:
    chosen = arguments(name, data) | {"loss_fun": loss, "log": True}
    if loss == "kl_loss":
        chosen |= {"C1": 0.1 + chosen["C1"], "C2": 0.1 + chosen["C2"]}
    expected, their_log = theirs(name)(**chosen)
    found, log = getattr(pot, name)(**chosen)
    distance = "fgw_dist" if "fused" in name else "gw_dist"
    of_inner_solvers = {"err", "warning", "cost", "result_code"}
    assert set(their_log) - of_inner_solvers <= set(log)
    alpha, entropy = chosen.get("alpha", 1.0), chosen.get("epsilon", 0.0)
    plan, their_plan = (log["T"], their_log["T"]) if name.endswith("2") else (found, expected)
    if name.endswith("2"):
        assert found == log[distance]
    assert abs(plan.sum(1) - data["p"]).max() <= 1e-15
    assert abs(plan.sum(0) - data["q"]).max() <= 1e-15
    # POT's objective at both plans
    unit = alpha**0.5 if loss == "square_loss" else alpha
    problem = {
        "C1": unit * chosen["C1"],
        "C2": unit * chosen["C2"],
        "a": data["p"],
        "b": data["q"],
        "fused": (data["M"], 1.0 - alpha),
        "entropy": entropy,
        "loss": loss.removesuffix("_loss"),
    }
    ours, other = (cg.transport.gromov_gap(each, **problem) for each in (plan, their_plan))
    assert ours.value <= other.value + 1e-7 * ours.scale
    assert ours.value - entropy * np.sum(
        plan * np.log(np.where(plan > 0.0, plan, 1.0))
    ) == pytest.approx(log[distance])
    assert log["gap"] <= 1e-9 * ours.scale
    assert log["lower_bound"] <= ours.value + 1e-12
    assert their_log[distance] == pytest.approx(
        other.value
        - entropy * np.sum(other.plan * np.log(np.where(other.plan > 0.0, other.plan, 1.0))),
        rel=1e-5,
    )


def test_pots_start_and_limits_count(data: dict[str, Any]) -> None:
    chosen = arguments("gromov_wasserstein", data)
    start = ot.emd(data["p"], data["q"], data["M"])
    plan, log = pot.gromov_wasserstein(**chosen, G0=start, log=True)
    assert log["loss"][0] == pytest.approx(cg.transport.gromov_gap(start, *chosen.values()).value)
    assert plan.shape == (9, 11)
    with pytest.warns(UserWarning, match="ended after 0 iterations with a stationarity gap of"):
        pot.gromov_wasserstein(**chosen, max_iter=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda C: pot.entropic_gromov_wasserstein(C, C, solver="PPA"), "solver must be 'PGD'"),
        (
            lambda C: pot.gromov_wasserstein(C, C, loss_fun="square"),
            "loss_fun must be one of 'square_loss'",
        ),
        (lambda C: pot.fused_gromov_wasserstein(C, C, C, alpha=2.0), "alpha must be from 0 to 1"),
        (lambda C: pot.entropic_gromov_wasserstein(C, C, epsilon=0.0), "epsilon"),
    ],
)
def test_bad_arguments_are_named(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(np.ones((3, 3)))


class TestEstimator:
    def test_matches_a_turned_cloud_in_another_dimension(self) -> None:
        X = np.random.default_rng(1).standard_normal((25, 2)) * [2.0, 1.0]
        Y = np.column_stack([X[:, 1], -X[:, 0], np.zeros(25)])
        mover = clone(cg.transport.GromovTransport(metric="euclidean")).fit(X, Xt=Y)
        assert np.allclose(mover.transform(X), Y)
        assert np.allclose(mover.fit_transform(X, Xt=Y), Y)
        assert mover.coupling_.shape == mover.plan_.shape == (25, 25)
        assert mover.stationarity_ <= 1e-6 * mover.result_.scale
        assert mover.lower_bound_ <= mover.result_.value

    def test_says_what_is_missing_and_warns_of_runs_that_fall_short(self) -> None:
        X = np.random.default_rng(2).standard_normal((12, 2))
        with pytest.raises(ValueError, match="Xt must hold the target points"):
            cg.transport.GromovTransport().fit(X)
        with pytest.warns(UserWarning, match="Raise max_iter"):
            cg.transport.GromovTransport(max_iter=0, starts=1).fit(X, Xt=X[::-1] ** 3)


@pytest.mark.torch
class TestLoss:
    @pytest.mark.parametrize("entropy", [0.0, 0.3])
    @pytest.mark.parametrize("loss", ["square", "kl"])
    def test_gradients_are_differences_of_the_branch(self, loss: str, entropy: float) -> None:
        import torch

        rng = np.random.default_rng(3)
        X, Y = rng.standard_normal((7, 2)), rng.standard_normal((6, 2))
        C1, C2 = (torch.as_tensor(0.1 + cdist(Z, Z)).requires_grad_() for Z in (X, Y))
        M = torch.as_tensor(cdist(X, Y)).requires_grad_()
        first = cg.transport.gromov(
            C1.detach(), C2.detach(), entropy=entropy, fused=(M.detach(), 0.5), loss=loss
        )
        options = {"entropy": entropy, "loss": loss, "start": first.plan, "starts": 1, "tol": 1e-11}
        value = cg.transport.gromov_loss(C1, C2, fused=(M, 0.5), **options)
        value.backward()
        assert value.item() == pytest.approx(first.value, rel=1e-5)
        for which, tensor in enumerate((C1, C2, M)):
            move = torch.as_tensor(rng.standard_normal(tensor.shape))
            values = []
            for h in (1e-5, -1e-5):
                moved = [each.detach() for each in (C1, C2, M)]
                moved[which] = moved[which] + h * move
                values.append(
                    cg.transport.gromov_loss(
                        moved[0], moved[1], fused=(moved[2], 0.5), **options
                    ).item()
                )
            slope = (values[0] - values[1]) / 2e-5
            assert slope == pytest.approx(float((tensor.grad * move).sum()), rel=1e-4, abs=1e-7)

    def test_weights_have_no_gradient_here(self) -> None:
        import torch

        C = torch.ones((2, 2), dtype=torch.float64)
        a = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
        with pytest.raises(cg.MissingAbility, match="a requires a gradient"):
            cg.transport.gromov_loss(C, C, a)
        with pytest.raises(TypeError, match="C1 must be a torch tensor"):
            cg.transport.gromov_loss(np.ones((2, 2)), C)
