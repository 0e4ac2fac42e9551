"""Weights without units, weights of samples, tensors, labels, and what scikit-learn expects of a transformer."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condgrad.datasets import make_clusters
from condgrad.smooth import GroupLasso
from condgrad.transport import EntropicTransport, GroupTransport, LaplaceTransport
from condgrad.transport.estimators import ENTROPY, GROUPS, LAPLACIAN
from condgrad.transport.graphs import graph_laplacian, neighbor_graph

RNG = np.random.default_rng(0)
XS, XT, YS, YT = make_clusters(30, seed=1)
XT, YT = XT[:24], YT[:24]
KINDS = [EntropicTransport, LaplaceTransport, GroupTransport]
every_kind = pytest.mark.parametrize("kind", KINDS)


def fitted(
    kind: type,
    Xs: Any = XS,
    ys: Any = YS,
    Xt: Any = XT,
    *,
    fit: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    return kind(**{"tol": 1e-9, **options}).fit(Xs, ys, Xt, **(fit or {}))


# --- the automatic weights, by their definitions ---


@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock"])
def test_the_entropy_follows_the_spread_of_the_cost(metric: str) -> None:
    """The standard deviation of the doubly centred cost, here by brute force."""
    C = cdist(XS, XT, metric)
    centred = C - C.mean(axis=0) - C.mean(axis=1)[:, None] + C.mean()
    assert fitted(EntropicTransport, metric=metric).entropy_ == pytest.approx(
        ENTROPY * centred.std(), rel=1e-10
    )


def test_many_features_or_few_have_one_rule() -> None:
    """By covariances or by inner products, whichever are fewer."""
    Xs, Xt = RNG.standard_normal((6, 40)), RNG.standard_normal((5, 40))
    wide = EntropicTransport().fit(Xs, Xt=Xt).entropy_
    scale = 2.0 * np.sqrt(np.sum(np.cov(Xs.T, bias=True) * np.cov(Xt.T, bias=True)))
    assert wide == pytest.approx(ENTROPY * scale, rel=1e-10)


def test_the_weight_of_the_laplacian() -> None:
    """Each term of a map of neighbours onto neighbours, in the unit of the other domain, is LAPLACIAN of the spread."""
    estimator = fitted(LaplaceTransport, source=2.0)
    spread = np.sqrt(XS.var(axis=0).sum() * XT.var(axis=0).sum())
    for X, factor, unit in (
        (XS, estimator.source_ / 2.0, XT.var(axis=0).sum() / XS.var(axis=0).sum()),
        (XT, estimator.target_, XS.var(axis=0).sum() / XT.var(axis=0).sum()),
    ):
        moments = (X - X.mean(axis=0)) * np.sqrt(unit) / len(X)
        L = graph_laplacian(neighbor_graph(X, 10), normalized=True)
        term = estimator.weight_ * factor * np.sum(moments * (L @ moments))
        assert term == pytest.approx(LAPLACIAN * spread, rel=1e-10)


def test_the_weight_of_the_groups() -> None:
    """The regulariser of the independent plan, which is its least value over all plans."""
    estimator = fitted(GroupTransport)
    groups = GroupLasso(YS)
    least = groups.at(np.full((30, 24), 1.0 / (30 * 24))).value
    assert estimator.weight_ * least == pytest.approx(
        GROUPS * estimator.entropy_ / ENTROPY, rel=1e-10
    )
    for plan in (estimator.plan_, fitted(EntropicTransport).plan_):
        assert groups.at(plan).value >= least - 1e-12


@every_kind
def test_numbers_stay_as_given(kind: type) -> None:
    weight: dict[str, Any] = {} if kind is EntropicTransport else {"weight": 0.7}
    estimator = fitted(kind, entropy=0.3, **weight)
    assert estimator.entropy_ == 0.3
    assert getattr(estimator, "weight_", 0.7) == 0.7


@pytest.mark.parametrize("kind", [LaplaceTransport, GroupTransport])
def test_reported_weights_give_the_same_plan(kind: type) -> None:
    estimator = fitted(kind)
    options = (
        {"source": estimator.source_, "target": estimator.target_}
        if kind is LaplaceTransport
        else {}
    )
    again = fitted(kind, entropy=estimator.entropy_, weight=estimator.weight_, **options)
    np.testing.assert_allclose(again.plan_, estimator.plan_, atol=1e-9)


@every_kind
@pytest.mark.parametrize("c", [1e-6, 1.0, 1e9])
def test_where_all_plans_cost_the_same(kind: type, c: float) -> None:
    """One source, or one target, or both: the plan is the only one there is, in any unit, without a warning."""
    for n, m in ((1, 5), (5, 1), (1, 1)):
        estimator = kind().fit(c * XS[:n], YS[:n], c * XT[:m])
        np.testing.assert_allclose(estimator.plan_, np.full((n, m), 1.0 / (n * m)), atol=1e-12)


# --- the laws: no unit, no shift, no number of copies ---


@every_kind
@pytest.mark.parametrize("c", [1e-9, 3.0, 2.0**30])
def test_no_unit_changes_a_plan(kind: type, c: float) -> None:
    plain, scaled = fitted(kind), fitted(kind, c * XS, YS, c * XT)
    np.testing.assert_allclose(scaled.plan_, plain.plan_, atol=1e-6)
    np.testing.assert_allclose(scaled.transform(c * XS) / c, plain.transform(XS), atol=1e-4)
    assert scaled.entropy_ == pytest.approx(c * c * plain.entropy_)


@every_kind
def test_each_domain_may_have_its_own_unit_and_origin(kind: type) -> None:
    plain, other = fitted(kind), fitted(kind, 5.0 * XS + 3.0, YS, XT - 8.0)
    np.testing.assert_allclose(other.plan_, plain.plan_, atol=3e-5)


@every_kind
@pytest.mark.parametrize("which", ["all", "sources", "targets", "some"])
def test_copies_change_nothing(kind: type, which: str) -> None:
    """Twice the points are the same measure; a few points twice are those points with twice the weight."""
    rows = (
        np.arange(30)
        if which == "targets"
        else np.r_[0:30, 0:4]
        if which == "some"
        else np.r_[0:30, 0:30]
    )
    columns = np.arange(24) if which in ("sources", "some") else np.r_[0:24, 0:24]
    weights = np.bincount(rows)
    plain = fitted(kind, fit={"sample_weight": weights})
    copied = fitted(kind, XS[rows], YS[rows], XT[columns])
    assert copied.plan_.shape == (len(rows), len(columns))
    folded = np.zeros((30, 24))
    np.add.at(folded, (rows[:, None], columns[None, :]), copied.plan_)
    np.testing.assert_allclose(folded, plain.plan_, atol=1e-9)
    np.testing.assert_allclose(copied.plan_.sum(axis=1), 1.0 / len(rows), atol=1e-12)
    np.testing.assert_allclose(copied.transform(XS), plain.transform(XS), atol=1e-7)
    np.testing.assert_allclose(copied.inverse_transform(XT), plain.inverse_transform(XT), atol=1e-7)
    np.testing.assert_allclose(
        copied.transform_labels(YS[rows])[:24], plain.transform_labels(YS), atol=1e-7
    )
    assert copied.entropy_ == pytest.approx(plain.entropy_)


def test_the_default_helps_on_moons_in_any_unit() -> None:
    """Turned moons, where the weight of a Laplacian decides."""
    from sklearn.datasets import make_moons

    Xs, ys = make_moons(150, noise=0.05, random_state=0)
    Xt, yt = make_moons(150, noise=0.05, random_state=1)
    turn = np.array([[np.cos(0.9), -np.sin(0.9)], [np.sin(0.9), np.cos(0.9)]])
    Xs, Xt = Xs - Xs.mean(axis=0), (Xt - Xt.mean(axis=0)) @ turn.T

    def accuracy(estimator: Any, c: float) -> float:
        moved = estimator.fit(c * Xs, ys, c * Xt).transform(c * Xs)
        return float(KNeighborsClassifier(1).fit(moved, ys).score(c * Xt, yt))

    entropic, laplace = accuracy(EntropicTransport(), 1.0), accuracy(LaplaceTransport(), 1.0)
    assert laplace > entropic + 0.02
    assert accuracy(LaplaceTransport(), 1e3) == pytest.approx(laplace, abs=0.01)


# --- weights of samples ---


@every_kind
@pytest.mark.parametrize("normalized", [True, False])
def test_weights_are_copies_and_their_unit_does_not_matter(kind: type, normalized: bool) -> None:
    options: dict[str, Any] = {"normalized": normalized} if kind is LaplaceTransport else {}
    counts_s, counts_t = RNG.integers(1, 4, 30), RNG.integers(1, 3, 24)
    rows, columns = np.repeat(np.arange(30), counts_s), np.repeat(np.arange(24), counts_t)
    copied = fitted(kind, XS[rows], YS[rows], XT[columns], **options)
    weighted = fitted(
        kind, fit={"sample_weight": 7.0 * counts_s, "target_weight": counts_t / 9.0}, **options
    )
    np.testing.assert_allclose(weighted.plan_.sum(axis=1), counts_s / counts_s.sum(), atol=1e-12)
    np.testing.assert_allclose(weighted.transform(XS), copied.transform(XS), atol=1e-7)


@every_kind
def test_samples_without_weight_are_none(kind: type) -> None:
    weights = np.where(np.arange(30) < 20, 1.0, 0.0)
    without, zero = fitted(kind, XS[:20], YS[:20]), fitted(kind, fit={"sample_weight": weights})
    np.testing.assert_allclose(zero.plan_[:20], without.plan_, atol=1e-9)
    assert (zero.plan_[20:] == 0.0).all()
    np.testing.assert_allclose(zero.transform(XS), without.transform(XS), atol=1e-7)
    assert (zero.inverse_transform_labels(YT)[20:] == 0.0).all()


# --- norms ---


@every_kind
def test_a_norm_is_a_unit_of_the_cost(kind: type) -> None:
    C = cdist(XS, XT, "sqeuclidean")
    for norm, size in (("max", C.max()), ("median", np.median(C))):
        normed, plain = fitted(kind, norm=norm), fitted(kind)
        np.testing.assert_allclose(normed.plan_, plain.plan_, atol=1e-6)
        assert normed.entropy_ == pytest.approx(plain.entropy_ / size)
        by_number = fitted(EntropicTransport, entropy=0.1, norm=norm)
        np.testing.assert_allclose(
            by_number.plan_, fitted(EntropicTransport, entropy=0.1 * size).plan_, atol=1e-6
        )
    euclidean = fitted(EntropicTransport, entropy=0.1, norm="max", metric="euclidean")
    other = fitted(EntropicTransport, entropy=0.1 * cdist(XS, XT).max(), metric="euclidean")
    np.testing.assert_allclose(euclidean.plan_, other.plan_, atol=1e-6)


# --- labels ---


@every_kind
def test_labels_move_with_the_mass(kind: type) -> None:
    """By the plan, class by class; unknown ones have no column."""
    estimator = fitted(kind)
    names = np.array(["ant", "bee", "cat", "dog"])
    plan = estimator.plan_
    expected = (
        np.stack([plan[c == YS].sum(axis=0) for c in range(4)], axis=1) / plan.sum(axis=0)[:, None]
    )
    np.testing.assert_allclose(estimator.transform_labels(names[YS]), expected, atol=1e-12)
    back = (
        np.stack([plan[:, c == YT].sum(axis=1) for c in range(4)], axis=1)
        / plan.sum(axis=1)[:, None]
    )
    np.testing.assert_allclose(estimator.inverse_transform_labels(YT), back, atol=1e-12)
    unknown = estimator.transform_labels(np.where(YS == 3, -1, YS))
    np.testing.assert_allclose(unknown, expected[:, :3], atol=1e-12)
    with pytest.raises(ValueError, match="ys must have one label for each of the 30 samples"):
        estimator.transform_labels(YS[:5])


# --- scikit-learn ---


@every_kind
def test_arguments_by_name(kind: type) -> None:
    """As POT spells them."""
    moved = kind().fit_transform(Xs=XS, ys=YS, Xt=XT)
    estimator = kind().fit(Xs=XS, ys=YS, Xt=XT)
    np.testing.assert_array_equal(estimator.transform(Xs=XS), moved)
    assert estimator.inverse_transform(Xt=XT).shape == XT.shape


@every_kind
def test_set_output(kind: type) -> None:
    frame = pd.DataFrame(XS, columns=["width", "height"], index=np.arange(100, 130))
    estimator = kind().set_output(transform="pandas")
    moved = estimator.fit(frame, YS, pd.DataFrame(XT, columns=["width", "height"])).transform(frame)
    assert list(moved.columns) == ["width", "height"]
    assert (moved.index == frame.index).all()
    np.testing.assert_allclose(moved.to_numpy(), kind().fit_transform(XS, YS, XT))
    assert list(estimator.get_feature_names_out()) == ["width", "height"]


@every_kind
def test_metadata_routing(kind: type) -> None:
    """Targets find their way through a pipeline without long names; weights where they are asked for."""
    scaled, weights = StandardScaler().fit(XS).transform(XT), 1.0 + np.arange(30)
    with sklearn.config_context(enable_metadata_routing=True):
        step = kind().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, step, KNeighborsClassifier(1))
        pipeline.fit(XS, YS, Xt=scaled, sample_weight=weights)
    direct = kind().fit(StandardScaler().fit_transform(XS), YS, scaled, sample_weight=weights)
    np.testing.assert_allclose(pipeline[1].plan_, direct.plan_, atol=1e-12)


@every_kind
def test_a_plan_is_formed_when_asked_for(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving points and labels needs products alone."""
    from condgrad.transport import TransportResult

    estimator = fitted(kind)
    monkeypatch.setattr(TransportResult, "dense", lambda _: pytest.fail("the plan was formed"))
    estimator.transform(XS), estimator.inverse_transform(XT), estimator.transform_labels(YS)
    assert "plan_" not in vars(estimator)
    assert "coupling_" not in vars(estimator)


@pytest.mark.parametrize("kind", [EntropicTransport, LaplaceTransport])
def test_large_plans_are_streamed(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = fitted(kind, tol=1e-7)
    monkeypatch.setattr(sys.modules["condgrad.transport.solve"], "free_memory", lambda _: 1000)
    streamed = fitted(kind, tol=1e-7)
    assert streamed.result_.streamed
    np.testing.assert_allclose(streamed.transform(XS), dense.transform(XS), atol=1e-3)
    np.testing.assert_allclose(
        streamed.inverse_transform(XT), dense.inverse_transform(XT), atol=1e-3
    )
    np.testing.assert_allclose(streamed.transform_labels(YS), dense.transform_labels(YS), atol=1e-3)
    np.testing.assert_allclose(streamed.coupling_, dense.coupling_, atol=1e-5)


# --- tensors ---


def tensor(torch: Any, values: Any, dtype: Any = None) -> Any:
    """On a GPU where there is one."""
    return torch.asarray(values, dtype=dtype, device="cuda" if torch.cuda.is_available() else "cpu")


@every_kind
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tensors_in_tensors_out(torch: Any, kind: type, precision: str) -> None:
    dtype = getattr(torch, precision)
    Xs, Xt = tensor(torch, XS, dtype), tensor(torch, XT, dtype)
    weights = 1.0 + np.arange(30)
    ours = fitted(
        kind, Xs, tensor(torch, YS), Xt, tol=1e-6, fit={"sample_weight": tensor(torch, weights)}
    )
    plain = fitted(kind, tol=1e-6, fit={"sample_weight": weights})
    tolerance = 1e-6 if precision == "float64" else 1e-4
    for name, argument, array in (
        ("transform", Xs, XS),
        ("inverse_transform", Xt, XT),
        ("transform_labels", tensor(torch, YS), YS),
        ("inverse_transform_labels", YT, YT),
    ):
        moved = getattr(ours, name)(argument)
        assert isinstance(moved, torch.Tensor)
        assert moved.device == Xs.device
        np.testing.assert_allclose(moved.cpu().numpy(), getattr(plain, name)(array), atol=tolerance)
    assert ours.transform(Xs).dtype == dtype
    assert isinstance(ours.coupling_, torch.Tensor)
    assert ours.n_features_in_ == 2
    new = 0.1 * RNG.standard_normal((7, 2)) + XS[:7]
    np.testing.assert_allclose(
        ours.transform(tensor(torch, new)).cpu().numpy(), plain.transform(new), atol=tolerance
    )
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        ours.transform(torch.ones((4, 3)))


def test_metrics_of_tensors(torch: Any) -> None:
    for metric in ("euclidean", "cityblock", "chebyshev"):
        ours = EntropicTransport(metric=metric, tol=1e-8).fit(
            tensor(torch, XS), Xt=tensor(torch, XT)
        )
        np.testing.assert_allclose(
            ours.plan_.cpu().numpy(),
            fitted(EntropicTransport, metric=metric, tol=1e-8).plan_,
            atol=1e-6,
        )
    with pytest.raises(
        ValueError, match=r"for tensors metric must be one of 'sqeuclidean'.*, got 'cosine'"
    ):
        EntropicTransport(metric="cosine").fit(tensor(torch, XS), Xt=tensor(torch, XT))


def test_known_classes_of_tensors(torch: Any) -> None:
    ours = EntropicTransport(0.05).fit(
        tensor(torch, XS), tensor(torch, YS), tensor(torch, XT), tensor(torch, YT)
    )
    plain = EntropicTransport(0.05).fit(XS, YS, XT, YT)
    np.testing.assert_allclose(ours.plan_.cpu().numpy(), plain.plan_, atol=1e-6)
