"""Data of Dask: the same fits as in memory, on a cluster of two processes, whatever happens to one of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import Client, LocalCluster

import condgrad as cg
from condgrad.linear_model import ConstrainedElasticNetCV, ConstrainedLinearSVC, ConstrainedLogisticRegression, path
from condgrad.smooth.blockwise import BlockwiseEvaluation, BlockwiseLoss
from tests.linear_model import SINGLE, Array, drawn

every_kind = pytest.mark.parametrize("kind", SINGLE)
X, Y = drawn(0, samples=600, features=12)
TOL = 1e-12


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def threads() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def blocks(X: Array, rows: int = 90) -> Any:
    """A Dask array whose blocks are cut across columns too, as a file may have them."""
    return da.from_array(X, chunks=(rows, 5))


def sparse_blocks(X: Array) -> Any:
    return da.from_array(X, chunks=(100, -1)).map_blocks(scipy.sparse.csr_matrix)


def same(model: Any, judged: Any) -> None:
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, judged.intercept_, atol=1e-8)
    np.testing.assert_allclose(model.objective_, judged.objective_, rtol=1e-10)
    np.testing.assert_allclose(model.multiplier_, judged.multiplier_, rtol=1e-6)


@every_kind
def test_the_fit_is_that_in_memory(kind: type, client: Client) -> None:
    assert len(client.scheduler_info()["workers"]) == 2
    model = kind(0.3, tol=TOL).fit(blocks(X, 200), da.from_array(Y, chunks=77))
    same(model, kind(0.3, tol=TOL).fit(X, Y))


@every_kind
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("radius", [0.3, 100.0])
@pytest.mark.usefixtures("threads")
def test_other_problems(kind: type, radius: float, ridge: float, intercept: bool) -> None:
    options: dict[str, Any] = {"ridge": ridge, "fit_intercept": intercept, "tol": 1e-9}
    model, judged = kind(radius, **options).fit(blocks(X), Y), kind(radius, **options).fit(X, Y)
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-4)
    np.testing.assert_allclose(model.objective_, judged.objective_, rtol=2e-9)


def test_a_worker_that_is_killed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask computes anew what it had; the fit ends as if nothing had happened."""
    taken, killed = BlockwiseEvaluation.newton_system, []

    def during(self: BlockwiseEvaluation, active: Any) -> Any:
        if not killed:
            killed.extend(list(client.run(os.getpid).values())[:1])
            os.kill(killed[0], signal.SIGKILL)
        return taken(self, active)

    monkeypatch.setattr(BlockwiseEvaluation, "newton_system", during)
    model = ConstrainedLogisticRegression(0.5, tol=TOL).fit(blocks(X, 200), Y)
    assert killed
    same(model, ConstrainedLogisticRegression(0.5, tol=TOL).fit(X, Y))


def test_a_block_with_a_hole_is_named(client: Client) -> None:
    broken = X.copy()
    broken[333, 4] = np.nan
    assert client.status == "running"
    with pytest.raises(ValueError, match=r"X holds NaN or infinity in block 3 \(rows 270 to 359\)"):
        ConstrainedLogisticRegression().fit(blocks(broken), Y)


@every_kind
@pytest.mark.usefixtures("threads")
def test_frames_weights_and_units(kind: type) -> None:
    weights = np.linspace(0.0, 2.0, 600)
    frame = pd.DataFrame(X, columns=list("abcdefghijkl"))
    options: dict[str, Any] = {"standardize": True, "penalty_factors": np.linspace(1.0, 2.0, 12), "tol": TOL}
    distributed = dd.from_pandas(frame.assign(w=weights, y=Y), npartitions=4)
    model = kind(0.5, **options).fit(distributed[list(frame)], distributed["y"], sample_weight=distributed["w"])
    judged = kind(0.5, **options).fit(frame, Y, sample_weight=weights)
    same(model, judged)
    assert list(model.feature_names_in_) == list(frame)
    np.testing.assert_allclose(model.predict(frame), judged.predict(frame), atol=1e-7)


@pytest.mark.parametrize("kind", [ConstrainedLogisticRegression, ConstrainedLinearSVC])
@pytest.mark.usefixtures("threads")
def test_labels_of_any_kind_and_their_weights(kind: type) -> None:
    three = np.array(["ape", "bee", "cow"])[np.digitize(X[:, 0], [-0.5, 1.0])]
    options: dict[str, Any] = {"class_weight": "balanced", "tol": 1e-11}
    model = kind(0.5, **options).fit(blocks(X), da.from_array(three.astype(object), chunks=100))
    judged = kind(0.5, **options).fit(X, three)
    assert list(model.classes_) == ["ape", "bee", "cow"]
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-6)
    weighted = kind(0.5, class_weight={-1.0: 1.0, 1.0: 3.0}, tol=TOL).fit(blocks(X), Y)
    same(weighted, kind(0.5, class_weight={-1.0: 1.0, 1.0: 3.0}, tol=TOL).fit(X, Y))


@every_kind
@pytest.mark.usefixtures("threads")
def test_sparse_blocks(kind: type) -> None:
    S = np.where(np.abs(X) > 0.8, X, 0.0)
    model = kind(0.5, tol=TOL).fit(sparse_blocks(S), Y)
    same(model, kind(0.5, tol=TOL).fit(S, Y))


@pytest.mark.usefixtures("threads")
def test_single_precision_and_paths() -> None:
    found = path(blocks(X), Y, n_radii=5, tol=1e-10)
    plain = path(X, Y, radii=found.radii, tol=1e-10)
    np.testing.assert_allclose(found.coefs, plain.coefs, atol=1e-6)
    single = ConstrainedLogisticRegression(0.5).fit(blocks(X.astype(np.float32)), Y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, ConstrainedLogisticRegression(0.5).fit(X, Y).coef_, atol=2e-2)


@pytest.mark.parametrize("loss", [cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge])
@pytest.mark.parametrize("method", ["cgs", "spg"])
@pytest.mark.usefixtures("threads")
def test_other_methods_run_on_blocks(loss: Any, method: str) -> None:
    f, same_f = BlockwiseLoss(loss, blocks(X, 300), Y, intercept=True), loss(X, Y, intercept=True)
    g = cg.simple.Ridge(100.0, on=cg.sets.L1Ball(0.5))
    found, judged = cg.minimize(f, g, method=method, tol=1e-4), cg.minimize(same_f, g, method="newton", tol=1e-9)
    assert found.success
    assert found.lower_bound <= judged.value
    assert judged.lower_bound <= found.value
    assert repr(f) == f"Blockwise{loss.__name__}(600 samples, 12 features, intercept)"


@pytest.mark.usefixtures("threads")
def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="cross-validation needs data in memory"):
        ConstrainedElasticNetCV().fit(blocks(X), Y)
    with pytest.raises(ValueError, match="multi_class='ovr' for those of Dask"):
        ConstrainedLogisticRegression(multi_class="multinomial").fit(blocks(X), np.arange(600) % 3)
    with pytest.raises(TypeError, match="standardize=True is for dense blocks"):
        ConstrainedLogisticRegression(standardize=True).fit(sparse_blocks(X), Y)
    with pytest.raises(ValueError, match="y must have one entry for each of the 600 rows"):
        ConstrainedLogisticRegression().fit(blocks(X), Y[:-1])
    with pytest.raises(ValueError, match=r"sample_weight must be >= 0, got -1 in block 0"):
        ConstrainedLogisticRegression().fit(blocks(X), Y, sample_weight=-np.ones(600))
    with pytest.raises(ValueError, match="got one class"):
        ConstrainedLogisticRegression().fit(blocks(X), np.ones(600))
