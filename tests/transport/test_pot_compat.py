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
@pytest.mark.parametrize("reg", ["pos", "disp"])
@pytest.mark.parametrize(("sim", "parameter"), [("knn", None), ("knn", 5), ("gauss", 0.3)])
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
