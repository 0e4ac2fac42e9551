"""POT's names and arguments over our solvers, beside the installed POT: its documentation says what each minimises."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import kneighbors_graph

from condgrad.compat import pot
from condgrad.datasets import make_clusters
from tests.transport import Array, entropic_value, mended

XS, XT, YS, YT = make_clusters(28, seed=2)
XT, YT = XT[:20], YT[:20]
A, B = np.full(28, 1 / 28), np.full(20, 1 / 20)
C = cdist(XS, XT, "sqeuclidean")
CLASSES = [
    "SinkhornTransport",
    "EMDTransport",
    "SinkhornLpl1Transport",
    "SinkhornL1l2Transport",
    "EMDLaplaceTransport",
]
every_class = pytest.mark.parametrize("name", CLASSES)
FUNCTIONS = {"sinkhorn_l1l2_gl": ot.da, "sinkhorn_lpl1_mm": ot.da, "emd_laplace": ot.da}
quietly = pytest.mark.filterwarnings(
    "ignore:emd_laplace ended", "ignore::sklearn.exceptions.ConvergenceWarning"
)


def group_norms(G: Array, labels: Array) -> float:
    return sum(float(np.linalg.norm(G[labels == c], axis=0).sum()) for c in np.unique(labels))


def similarity(X: Array, sim: str, parameter: float | None) -> Array:
    if sim == "knn":
        W = kneighbors_graph(X, int(parameter or 3)).toarray()
        return 0.5 * (W + W.T)
    sigma = parameter or 1.0 / (2.0 * cdist(XS, XS, "sqeuclidean").mean() ** 2)
    return np.exp(-cdist(X, X, "sqeuclidean") / (2.0 * sigma**2))


def laplace_value(
    G: Array, eta: float, alpha: float, sim: str, parameter: float | None, reg: str
) -> float:
    """POT's objective, term by term: sums over pairs of similar points of the squared distance of where they go."""
    value = float(np.sum(C * G))
    for weight, X, moved in ((alpha, XS, G @ XT), (1.0 - alpha, XT, G.T @ XS)):
        S = similarity(X, sim, parameter)
        T = moved - X / len(X) if reg == "disp" else moved
        energy = 0.5 * float(np.sum(S * cdist(T, T, "sqeuclidean")))
        if reg == "disp":
            energy -= 0.5 * float(np.sum(S * cdist(X, X, "sqeuclidean"))) / len(X) ** 2
        value += eta * weight * energy
    return value


@every_class
def test_the_arguments_of_classes_are_theirs(name: str) -> None:
    ours, theirs = (
        inspect.signature(getattr(module, name).__init__).parameters for module in (pot, ot.da)
    )
    assert list(ours) == list(theirs)
    for argument, parameter in theirs.items():
        if argument != "distribution_estimation":
            assert ours[argument].default == parameter.default


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_of_functions_are_theirs(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (pot, ot.da))
    assert {k: p.default for k, p in ours.items()} == {k: p.default for k, p in theirs.items()}
    assert list(ours) == list(theirs)


# --- functions ---


@quietly
@pytest.mark.parametrize("reg", ["pos", pytest.param("disp", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("sim", "parameter"),
    [
        ("knn", None),
        pytest.param("knn", 5, marks=pytest.mark.slow),
        pytest.param("gauss", 0.3, marks=pytest.mark.slow),
    ],
)
def test_emd_laplace(reg: str, sim: str, parameter: float | None) -> None:
    """Our plan is no worse than POT's by its own objective, and our bound is below both."""
    asked: dict[str, Any] = {
        "sim": sim,
        "sim_param": parameter,
        "reg": reg,
        "eta": 20.0,
        "alpha": 0.3,
    }
    theirs = ot.da.emd_laplace(A, B, XS, XT, C, **asked)
    plan, log = pot.emd_laplace(A, B, XS, XT, C, **asked, log=True)
    mine, other = (laplace_value(G, 20.0, 0.3, sim, parameter, reg) for G in (plan, theirs))
    assert mine <= other + 1e-3 * abs(other)
    assert mine == pytest.approx(log["loss"][-1], rel=1e-2)
    assert log["lower_bound"] <= min(mine, other) + 1e-12
    assert mine - log["lower_bound"] <= log["gap"] + 1e-9
    np.testing.assert_allclose(plan.sum(axis=0), B, atol=1e-12)
    assert log["u"].shape == (28,)
    assert log["v"].shape == (20,)


def test_emd_laplace_without_weight_is_emd() -> None:
    plan = pot.emd_laplace(A, B, XS, XT, C, eta=0.0)
    assert np.sum(C * plan) == pytest.approx(ot.emd2(A, B, C), rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sim": "cosine"}, "sim must be 'knn' or 'gauss', got 'cosine'"),
        ({"reg": "position"}, "reg must be 'pos' or 'disp', got 'position'"),
        ({"alpha": 2.0}, "alpha must be from 0 to 1, got 2.0"),
        ({"eta": -1.0}, "eta must be finite and >= 0"),
    ],
)
def test_bad_arguments_of_emd_laplace(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pot.emd_laplace(A, B, XS, XT, C, **asked)


@pytest.mark.parametrize("eta", [0.01, 0.3])
def test_sinkhorn_l1l2_gl(eta: float) -> None:
    """Never above POT's plan (with its marginals mended), and proved."""
    theirs = mended(ot.da.sinkhorn_l1l2_gl(A, YS, B, C, 0.1, eta, numItermax=50), A, B)
    plan, log = pot.sinkhorn_l1l2_gl(A, YS, B, C, 0.1, eta, log=True)
    mine, other = (entropic_value(G, C, 0.1) + eta * group_norms(G, YS) for G in (plan, theirs))
    assert mine <= other + 1e-9
    assert log["lower_bound"] <= mine <= log["lower_bound"] + 1e-8
    assert mine == pytest.approx(log["loss"][-1], abs=1e-8)


def test_sinkhorn_lpl1_mm() -> None:
    """The same sequence of entropic problems as POT's, each solved."""
    theirs = ot.da.sinkhorn_lpl1_mm(
        A, YS, B, C, 0.1, 0.02, numItermax=4, numInnerItermax=20_000, stopInnerThr=1e-13
    )
    plan, log = pot.sinkhorn_lpl1_mm(
        A, YS, B, C, 0.1, 0.02, numItermax=4, stopInnerThr=1e-12, log=True
    )
    np.testing.assert_allclose(plan, theirs, atol=1e-7)
    assert log["gap"] <= 1e-9


def test_tensors(torch: Any) -> None:
    a, b, M, xs, xt = (torch.asarray(x) for x in (A, B, C, XS, XT))
    for ours, expected in (
        (
            pot.sinkhorn_l1l2_gl(a, torch.asarray(YS), b, M, 0.1),
            pot.sinkhorn_l1l2_gl(A, YS, B, C, 0.1),
        ),
        (
            pot.sinkhorn_lpl1_mm(a, torch.asarray(YS), b, M, 0.1),
            pot.sinkhorn_lpl1_mm(A, YS, B, C, 0.1),
        ),
        (pot.emd_laplace(a, b, xs, xt, M, eta=0.0), pot.emd_laplace(A, B, XS, XT, C, eta=0.0)),
    ):
        assert isinstance(ours, torch.Tensor)
        np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


def test_the_log_of_gcg_has_scalings() -> None:
    """POT's keys; and the plan is what the scalings make of the kernel of the linearised cost."""
    asked = (A, B, C, 0.1, 0.5, lambda G: 0.5 * np.sum(G**2), lambda G: G)
    plan, log = pot.gcg(*asked, numItermax=200, stopThr=1e-12, log=True)
    _, theirs = ot.optim.gcg(*asked, numItermax=200, log=True)
    assert set(theirs) - {"warning"} <= set(log)
    again = log["u"][:, None] * np.exp(-(C + 0.5 * plan) / 0.1) * log["v"][None, :]
    np.testing.assert_allclose(again, plan, atol=1e-7)
    np.testing.assert_allclose(log["u"], np.exp(log["log_u"]))
    assert log["err"][-1] == pytest.approx(np.linalg.norm(again.sum(axis=0) - B), abs=1e-12)
    assert log["err"][-1] <= 1e-6


def test_scalings_that_overflow_have_logarithms() -> None:
    _, log = pot.gcg(A, B, C + 500.0, 0.1, 0.0, lambda _: 0.0, lambda G: 0.0 * G, log=True)
    assert np.isfinite(log["log_u"]).all()
    assert np.isfinite(log["log_v"]).all()


# --- classes ---


def fitted(module: Any, name: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return getattr(module, name)(**options).fit(Xs=XS, ys=YS, Xt=XT)


VALUES: dict[str, Callable[[Array], float]] = {
    "SinkhornTransport": lambda G: entropic_value(G, C, 1.0),
    "EMDTransport": lambda G: float(np.sum(C * G)),
    "SinkhornL1l2Transport": lambda G: entropic_value(G, C, 1.0) + 0.1 * group_norms(G, YS),
    "EMDLaplaceTransport": lambda G: laplace_value(G, 1.0, 1.0, "knn", None, "pos"),
}


@pytest.mark.parametrize("name", VALUES)
def test_defaults_minimise_what_theirs_do(name: str) -> None:
    ours, theirs = fitted(pot, name), fitted(ot.da, name)
    value = VALUES[name]
    best = value(mended(theirs.coupling_, A, B))
    assert value(ours.coupling_) <= best + 1e-4 * abs(best)
    assert ours.result_.lower_bound <= best + 1e-9


def test_majorised_groups_have_their_plan() -> None:
    np.testing.assert_allclose(
        fitted(pot, "SinkhornLpl1Transport").coupling_,
        fitted(ot.da, "SinkhornLpl1Transport").coupling_,
        atol=1e-5,
    )


@every_class
def test_points_and_labels_move_as_theirs_do(name: str) -> None:
    """With our plan put into POT's estimator: fitted points, new points, both ways, and labels."""
    ours, theirs = fitted(pot, name), fitted(ot.da, "EMDTransport")
    theirs.coupling_ = ours.coupling_
    ours.out_of_sample_map = "ferradans"
    new_s, new_t = XS[:6] + 0.01, XT[:7] - 0.02
    for X in (XS, new_s):
        np.testing.assert_allclose(ours.transform(Xs=X), theirs.transform(Xs=X), atol=1e-10)
    for X in (XT, new_t):
        np.testing.assert_allclose(
            ours.inverse_transform(Xt=X), theirs.inverse_transform(Xt=X), atol=1e-10
        )
    np.testing.assert_allclose(ours.transform_labels(YS), theirs.transform_labels(YS), atol=1e-10)
    np.testing.assert_allclose(
        ours.inverse_transform_labels(YT), theirs.inverse_transform_labels(YT), atol=1e-10
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        np.testing.assert_allclose(
            getattr(pot, name)().fit_transform(Xs=XS, ys=YS, Xt=XT), ours.transform(XS)
        )


@every_class
def test_clones_keep_every_parameter(name: str) -> None:
    estimator = getattr(pot, name)(metric="cityblock", norm="max", max_iter=7)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.get_params()["norm"] == "max"


@pytest.mark.parametrize("norm", ["max", "median"])
def test_norms(norm: str) -> None:
    ours, theirs = (fitted(m, "SinkhornTransport", norm=norm, reg_e=0.1) for m in (pot, ot.da))
    np.testing.assert_allclose(ours.coupling_, theirs.coupling_, atol=1e-5)


def test_estimated_distributions() -> None:
    def increasing(X: Array) -> Array:
        return (1.0 + np.arange(len(X))) / np.sum(1.0 + np.arange(len(X)))

    ours, theirs = (
        fitted(m, "EMDTransport", distribution_estimation=increasing) for m in (pot, ot.da)
    )
    np.testing.assert_allclose(ours.coupling_.sum(axis=1), increasing(XS), atol=1e-12)
    assert np.sum(C * ours.coupling_) == pytest.approx(np.sum(C * theirs.coupling_), rel=1e-9)


def test_known_classes_stay_together() -> None:
    ours = pot.SinkhornTransport(reg_e=0.05, limit_max=10).fit(Xs=XS, ys=YS, Xt=XT, yt=YT)
    theirs = ot.da.SinkhornTransport(reg_e=0.05, limit_max=10).fit(Xs=XS, ys=YS, Xt=XT, yt=YT)
    np.testing.assert_allclose(ours.coupling_, theirs.coupling_, atol=1e-5)


@pytest.mark.parametrize("name", ["SinkhornLpl1Transport", "SinkhornL1l2Transport"])
def test_classes_are_needed(name: str) -> None:
    with pytest.raises(ValueError, match=f"ys is needed: {name}"):
        getattr(pot, name)().fit(Xs=XS, Xt=XT)


def uneven() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(6)), rng.random((8, 6))


@pytest.mark.parametrize("reg_type", ["KL", "entropy"])
@pytest.mark.parametrize("reg", [None, 0.1])
def test_solve_has_the_fields_of_pot_and_its_numbers(reg: float | None, reg_type: str) -> None:
    a, b, M = uneven()
    ours = pot.solve(M, a, b, reg, reg_type=reg_type, tol=1e-12)
    theirs = ot.solve(M, a, b, reg, reg_type=reg_type, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(ours.plan, theirs.plan, atol=1e-8)
    assert ours.value == pytest.approx(theirs.value, abs=1e-6)
    assert ours.value_linear == pytest.approx(theirs.value_linear, abs=1e-6)
    np.testing.assert_allclose(ours.marginal_a, a, rtol=1e-12)
    np.testing.assert_allclose(ours.marginals[1], b, rtol=1e-12)
    assert ours.potential_a.shape == (8,)
    assert ours.potential_b.shape == (6,)
    assert 0.0 <= ours.gap < 1e-9


def test_unbalanced_solve_is_pots() -> None:
    a, b, M = uneven()
    ours = pot.solve(M, a, b, 0.1, unbalanced=1.0, tol=1e-10)
    theirs = ot.solve(M, a, b, 0.1, unbalanced=1.0, tol=1e-12, max_iter=100_000)
    # the entropy is strongly convex: reg |error|^2 / 2 is no more than the gap
    far = np.sqrt(2.0 * ours.gap / 0.1)
    np.testing.assert_allclose(ours.plan, theirs.plan, atol=far + 1e-9)
    with pytest.raises(ValueError, match="unbalanced needs a reg > 0"):
        pot.solve(M, a, b, unbalanced=1.0)


def test_sinkhorn_and_emd_are_pots() -> None:
    a, b, M = uneven()
    ours, log = pot.sinkhorn(a, b, M, 0.1, stopThr=1e-13, log=True)
    np.testing.assert_allclose(ours, ot.sinkhorn(a, b, M, 0.1, stopThr=1e-13), atol=1e-8)
    np.testing.assert_allclose(log["u"][:, None] * np.exp(-M / 0.1) * log["v"], ours, atol=1e-8)
    assert log["gap"] < 1e-9
    assert pot.sinkhorn2(a, b, M, 0.1) == pytest.approx(ot.sinkhorn2(a, b, M, 0.1), abs=1e-5)
    np.testing.assert_allclose(pot.emd(a, b, M), ot.emd(a, b, M), atol=1e-12)
    assert pot.emd2(a, b, M) == pytest.approx(ot.emd2(a, b, M), abs=1e-12)
    value, log = pot.emd2(a, b, M, return_matrix=True)
    assert value == pytest.approx(float((M * log["G"]).sum()))
    assert pot.emd([], [], M, log=True)[1]["cost"] == pytest.approx(ot.emd2([], [], M))


def test_distances_weights_and_samples_are_pots() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    for metric in ("sqeuclidean", "euclidean", "cityblock"):
        np.testing.assert_allclose(pot.dist(X, Y, metric), ot.dist(X, Y, metric), rtol=1e-9)
    np.testing.assert_allclose(pot.dist(X), ot.dist(X, X), atol=1e-12)
    np.testing.assert_array_equal(pot.unif(7), ot.unif(7))
    ours, theirs = (each.solve_sample(X, Y, metric="euclidean") for each in (pot, ot))
    assert ours.value == pytest.approx(theirs.value)


def test_what_solve_does_not_have_is_said() -> None:
    a, b, M = uneven()
    for wrong in ({"c": M}, {"reg_type": "l2"}, {"unbalanced_type": "TV"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be "):
            pot.solve(M, a, b, 0.1, **wrong)


def test_gradients_of_costs_are_plans(torch: Any) -> None:
    a, b, M = uneven()
    cost = torch.tensor(M, requires_grad=True)
    pot.emd2(a, b, cost).backward()
    np.testing.assert_allclose(cost.grad.numpy(), ot.emd(a, b, M), atol=1e-12)


def moved_domains() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 2)), rng.normal(size=(15, 2)) + 1.0, rng.normal(size=(7, 2))


@pytest.mark.parametrize("norm", [None, "max", "median", "log", "loglog"])
def test_the_continuous_map_and_the_norms_are_pots(norm: str | None) -> None:
    Xs, Xt, new = moved_domains()
    ours = pot.SinkhornTransport(0.5, norm=norm, tol=1e-12).fit(Xs=Xs, Xt=Xt)
    theirs = ot.da.SinkhornTransport(0.5, norm=norm, tol=1e-12, max_iter=100_000).fit(Xs=Xs, Xt=Xt)
    np.testing.assert_allclose(ours.cost_, theirs.cost_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.coupling_, theirs.coupling_, atol=1e-8)
    np.testing.assert_allclose(ours.transform(Xs=new), theirs.transform(Xs=new), atol=1e-6)
    back = ours.inverse_transform(Xt=new), theirs.inverse_transform(Xt=new)
    np.testing.assert_allclose(*back, atol=1e-6)


def test_the_unbalanced_estimator_is_pots() -> None:
    Xs, Xt, new = moved_domains()
    ours = pot.UnbalancedSinkhornTransport(0.5, 1.0, max_iter=100).fit(Xs=Xs, Xt=Xt)
    theirs = ot.da.UnbalancedSinkhornTransport(0.5, 1.0, max_iter=100_000, tol=1e-13)
    theirs.fit(Xs=Xs, Xt=Xt)
    np.testing.assert_allclose(ours.coupling_, theirs.coupling_, atol=1e-7)
    np.testing.assert_allclose(ours.transform(Xs=new), theirs.transform(Xs=new), atol=1e-5)
    back = ours.inverse_transform(Xt=new), theirs.inverse_transform(Xt=new)
    np.testing.assert_allclose(*back, atol=1e-5)


def test_classes_that_are_not_a_number_are_unknown() -> None:
    Xs, Xt, _ = moved_domains()
    ys = np.arange(20.0) % 2
    plain = pot.SinkhornTransport(0.5).fit(Xs=Xs, Xt=Xt).coupling_
    unknown = np.full(15, np.nan)
    with_nan = pot.SinkhornTransport(0.5).fit(Xs=Xs, ys=ys, Xt=Xt, yt=unknown).coupling_
    np.testing.assert_allclose(with_nan, plain, atol=1e-7)


def test_wrong_options_are_value_errors() -> None:
    Xs, Xt, _ = moved_domains()
    with pytest.raises(ValueError, match="out_of_sample_map must be"):
        pot.SinkhornTransport(out_of_sample_map="unknown")
    with pytest.raises(ValueError, match="sim_param must be a number"):
        pot.emd_laplace([], [], Xs, Xt, pot.dist(Xs, Xt), sim_param=["3"])
    with pytest.raises(ValueError, match="norm must be one of"):
        pot.SinkhornTransport(norm="none").fit(Xs=Xs, Xt=Xt)
