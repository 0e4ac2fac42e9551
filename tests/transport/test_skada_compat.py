"""skada's mappings on our solvers: skada itself is the judge."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import skada
import sklearn
from ot import da
from sklearn.base import clone

import condgrad as cg
import condgrad.compat.skada as cg_skada
from condgrad.compat import pot
from tests.test_coming_from import rows

pytestmark = pytest.mark.tools
ROWS = rows("skada")
NAMES = ("OTMapping", "EntropicOTMapping", "ClassRegularizerOTMapping")


@pytest.fixture(autouse=True)
def routing() -> Iterator[None]:
    """What skada turns on for everybody when it is imported."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def shifted() -> dict[str, Any]:
    """Two domains; the classes of the targets are masked as skada masks them."""
    d = cg.datasets.make_clusters(60)
    return {
        "X": np.vstack([d.Xs, d.Xt]),
        "y": np.concatenate([d.ys, np.full(60, -1)]),
        "sample_domain": np.repeat([1, -2], 60),
    }


def objective(theirs: Any, plan: Any) -> float:
    """What `SinkhornL1l2Transport` minimises."""
    C = theirs.cost_
    norms = sum(
        np.linalg.norm(plan[theirs.labels == c], axis=0).sum() for c in np.unique(theirs.labels)
    )
    positive = plan[plan > 0.0]
    entropy = float((positive * np.log(positive)).sum())
    return float((C * plan).sum()) + theirs.reg_e * entropy + theirs.reg_cl * float(norms)


@pytest.mark.parametrize(("theirs", "ours"), ROWS)
def test_each_row_moves_the_sources_as_skada_does(
    theirs: str, ours: str, shifted: dict[str, Any]
) -> None:
    names = {"skada": skada, "cg_skada": cg_skada, "reg": 0.5, "eta": 0.1}
    pipelines = [eval(code, names).fit(**shifted) for code in (theirs, ours)]
    adapters = [pipeline[0].base_estimator_ for pipeline in pipelines]
    assert isinstance(adapters[1], type(adapters[0]))
    plans = [adapter.ot_transport_.coupling_ for adapter in adapters]
    assert np.allclose(plans[1].sum(axis=0), 1 / 60, atol=1e-12)
    if "l1l2" in theirs:  # POT's steps stop short of the minimum
        judge = adapters[0].ot_transport_
        judge.labels = shifted["y"][:60]
        assert isinstance(judge, da.SinkhornL1l2Transport)
        assert objective(judge, plans[1]) <= objective(judge, plans[0]) + 1e-9
    else:
        assert np.allclose(plans[0], plans[1], atol=1e-6 / 60)
    X = shifted["X"][60:]
    assert np.array_equal(pipelines[0].predict(X), pipelines[1].predict(X))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_skada(name: str) -> None:
    theirs, ours = (inspect.signature(getattr(m, name)).parameters for m in (skada, cg_skada))
    assert list(ours) == list(theirs)
    for parameter in list(ours)[1:]:  # the first is an estimator
        assert ours[parameter].default == theirs[parameter].default
    adapters = [getattr(m, f"{name}Adapter")() for m in (skada, cg_skada)]
    assert adapters[0].get_params() == adapters[1].get_params()


def test_the_laplacian_mapping_is_our_estimator_in_a_pipeline(shifted: dict[str, Any]) -> None:
    adapter = cg_skada.LaplaceOTMappingAdapter(reg_e=0.05, reg_lap=10.0, neighbors=5)
    moved = clone(adapter).fit_transform(**shifted)
    Xs, Xt = shifted["X"][:60], shifted["X"][60:]
    expected = cg.transport.LaplaceTransport(0.05, 10.0, neighbors=5).fit(Xs, Xt=Xt)
    assert np.allclose(moved[:60], expected.transform(Xs), atol=1e-3)
    assert np.array_equal(moved[60:], Xt)
    classifier = cg_skada.LaplaceOTMapping().fit(**shifted)
    assert classifier.score(Xt, cg.datasets.make_clusters(60).yt) == 1.0


def test_masked_values_of_a_regression_are_unknown(shifted: dict[str, Any]) -> None:
    y = np.concatenate([shifted["X"][:60, 0], np.full(60, np.nan)])
    adapter = cg_skada.EntropicOTMappingAdapter(reg_e=0.1).fit(**(shifted | {"y": y}))
    plain = pot.SinkhornTransport(0.1).fit(Xs=shifted["X"][:60], Xt=shifted["X"][60:])
    assert np.allclose(adapter.ot_transport_.coupling_, plain.coupling_, atol=1e-8)


def test_an_unknown_norm_is_named(shifted: dict[str, Any]) -> None:
    adapter = cg_skada.ClassRegularizerOTMappingAdapter(norm="l2")
    with pytest.raises(ValueError, match="norm must be 'lpl1' or 'l1l2', got 'l2'"):
        adapter.fit(**shifted)
