"""Data of Dask: the same fits as in memory, on a cluster of two processes, whatever happens to one of them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.special
from distributed import Client, LocalCluster

import condgrad as cg
from condgrad import MissingAbility, MissingExtra
from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedElasticNetCV,
    ConstrainedLinearSVC,
    ConstrainedLinearSVCCV,
    ConstrainedLogisticRegression,
    ConstrainedLogisticRegressionCV,
    path,
)
from condgrad.smooth import BlockwiseLoss, row_blocks
from condgrad.smooth.row_blocks import RowBlocks
from tests.linear_model import SINGLE, Array, drawn

LOSSES = [cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge]
every_kind = pytest.mark.parametrize("kind", SINGLE)
X, Y = drawn(0, samples=600, features=12)
WEIGHTS = np.linspace(0.0, 2.0, 600)
THREE = np.array(["ape", "bee", "cow"])[np.digitize(X[:, 0], [-0.5, 1.0])]
S = np.where(np.abs(X) > 0.8, X, 0.0)
TOL = 1e-12


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options: dict[str, Any] = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
    }
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
@pytest.mark.parametrize("data", [blocks(X, 200), sparse_blocks(S)], ids=["dense", "sparse"])
def test_the_fit_is_that_in_memory(kind: type, data: Any, client: Client) -> None:
    assert len(client.scheduler_info()["workers"]) == 2
    model = kind(0.3, tol=TOL).fit(data, da.from_array(Y, chunks=77), sample_weight=WEIGHTS)
    in_memory = X if isinstance(data._meta, np.ndarray) else S
    same(model, kind(0.3, tol=TOL).fit(in_memory, Y, sample_weight=WEIGHTS))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "on",
    [
        cg.sets.L1Ball(0.5),
        cg.sets.Simplex(12, mass=0.5),
        cg.sets.SolidSimplex(0.3),
        cg.sets.Box(-0.1, 0.1),
    ],
)
@pytest.mark.usefixtures("threads")
def test_losses_take_data_of_dask(loss: Any, on: Any) -> None:
    labels = np.where(Y > 0.0, 7.0, 3.0)
    f = loss(
        dd.from_pandas(pd.DataFrame(X), npartitions=3),
        labels,
        sample_weight=WEIGHTS,
        intercept=True,
    )
    same_f = loss(X, labels, sample_weight=WEIGHTS, intercept=True)
    assert repr(f) == f"Blockwise{loss.__name__}(600 samples, 12 features, intercept)"
    g = cg.simple.Ridge(0.5, on=on)
    found, judged = (cg.minimize(each, g, method="auto", tol=1e-12) for each in (f, same_f))
    assert found.success
    assert found.method == "newton"
    np.testing.assert_allclose(found.x, judged.x, atol=1e-8)
    assert found.lower_bound <= judged.value
    assert judged.lower_bound <= found.value
    assert f.intercept_at(found.x) == pytest.approx(same_f.intercept_at(judged.x), abs=1e-7)


def wide() -> tuple[Array, Array]:
    """More columns than a working set begins with, of which a few matter."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((300, 900))
    return Z, np.sign(Z[:, :4].sum(axis=1) + rng.standard_normal(300))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("on", [cg.sets.L1Ball(2.0), cg.sets.SolidSimplex(2.0)])
def test_many_columns_take_working_sets(on: Any) -> None:
    Z, y = wide()
    g = cg.simple.Zero(on=on)
    f = cg.smooth.Logistic(blocks(Z), y)
    found, judged = (
        cg.minimize(f, g, method="newton", tol=1e-8),
        cg.minimize(cg.smooth.Logistic(Z, y), g, method="auto"),
    )
    assert found.success
    assert abs(found.value - judged.value) <= found.gap + judged.gap
    assert f.data.passes[0] < 40


@pytest.mark.usefixtures("threads")
def test_newton_on_blocks_names_what_it_lacks() -> None:
    f = cg.smooth.Logistic(blocks(X), Y)
    for g in (
        cg.simple.L1Norm(1.0, on=cg.sets.Box(-1.0, 1.0)),
        cg.simple.Ridge(1.0, on=cg.sets.L2Ball(1.0)),
    ):
        with pytest.raises(MissingAbility, match=r"not quadratic|no faces"):
            cg.minimize(f, g, method="newton")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("bytes_free", [1e4, 1e9])
def test_data_that_would_fill_the_memory_are_not_kept(
    bytes_free: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def read(block: Array) -> Array:
        made.append(len(block))
        return block

    monkeypatch.setattr(row_blocks, "free_memory", lambda: bytes_free)
    f = cg.smooth.Logistic(blocks(X, 200).map_blocks(read, dtype=float, meta=X[:0]), Y)
    made.clear()
    f.value_and_gradient(np.ones(12))
    assert bool(made) == (bytes_free < X.nbytes)


@pytest.mark.slow
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
    taken, killed = RowBlocks.weighted_gram, []

    def during(self: RowBlocks, w: Array, chosen: Any) -> Any:
        if not killed:
            killed.extend(list(client.run(os.getpid).values())[:1])
            os.kill(killed[0], signal.SIGKILL)
        return taken(self, w, chosen)

    monkeypatch.setattr(RowBlocks, "weighted_gram", during)
    model = ConstrainedLogisticRegression(0.5, tol=TOL).fit(blocks(X, 200), Y)
    assert killed
    same(model, ConstrainedLogisticRegression(0.5, tol=TOL).fit(X, Y))


def test_a_block_with_a_hole_is_named(client: Client) -> None:
    assert client.status == "running"
    with pytest.raises(
        ValueError,
        match=r"X holds NaN or infinity in block 3 \(rows 270 to 359\): row 333, column 4;",
    ):
        ConstrainedLogisticRegression().fit(blocks(with_hole()), Y)


def with_hole() -> Array:
    broken = X.copy()
    broken[333, 4] = np.nan
    return broken


@pytest.mark.usefixtures("threads")
def test_holes_of_other_data_are_named() -> None:
    frame = dd.from_pandas(pd.DataFrame(with_hole(), columns=list("abcdefghijkl")), npartitions=2)
    with pytest.raises(ValueError, match=r"in block 1 \(rows 300 to 599\): row 333, column 'e'"):
        RowBlocks(frame)
    with pytest.raises(ValueError, match=r"in block 3 \(rows 300 to 399\): row 333, column 4"):
        RowBlocks(sparse_blocks(with_hole()))
    with pytest.raises(ValueError, match=r"y holds NaN or infinity in block 6 .*: row 599"):
        cg.smooth.LeastSquares(blocks(X), np.where(np.arange(600) == 599, np.inf, Y))


@every_kind
@pytest.mark.usefixtures("threads")
def test_frames_weights_and_units(kind: type) -> None:
    frame = pd.DataFrame(X, columns=list("abcdefghijkl"))
    options: dict[str, Any] = {
        "standardize": True,
        "penalty_factors": np.linspace(1.0, 2.0, 12),
        "tol": TOL,
    }
    distributed = dd.from_pandas(frame.assign(w=WEIGHTS, y=Y), npartitions=4)
    model = kind(0.5, **options).fit(
        distributed[list(frame)], distributed["y"], sample_weight=distributed["w"]
    )
    judged = kind(0.5, **options).fit(frame, Y, sample_weight=WEIGHTS)
    same(model, judged)
    assert list(model.feature_names_in_) == list(frame)
    np.testing.assert_allclose(model.predict(frame), judged.predict(frame), atol=1e-7)


@pytest.mark.parametrize("kind", [ConstrainedLogisticRegression, ConstrainedLinearSVC])
@pytest.mark.usefixtures("threads")
def test_labels_of_any_kind_and_their_weights(kind: type) -> None:
    options: dict[str, Any] = {"class_weight": "balanced", "tol": 1e-11}
    model = kind(0.5, **options).fit(blocks(X), da.from_array(THREE.astype(object), chunks=100))
    judged = kind(0.5, **options).fit(X, THREE)
    assert list(model.classes_) == ["ape", "bee", "cow"]
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-6)
    weighted = kind(0.5, class_weight={-1.0: 1.0, 1.0: 3.0}, tol=TOL).fit(blocks(X), Y)
    same(weighted, kind(0.5, class_weight={-1.0: 1.0, 1.0: 3.0}, tol=TOL).fit(X, Y))


@pytest.mark.usefixtures("threads")
def test_deviations_of_sparse_blocks() -> None:
    options: dict[str, Any] = {"standardize": True, "tol": TOL}
    model = ConstrainedLogisticRegression(0.5, **options).fit(
        sparse_blocks(S), Y, sample_weight=WEIGHTS
    )
    in_memory = ConstrainedLogisticRegression(0.5, **options)
    same(model, in_memory.fit(scipy.sparse.csr_matrix(S), Y, sample_weight=WEIGHTS))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.usefixtures("threads")
def test_one_softmax_for_all_classes(intercept: bool) -> None:
    options: dict[str, Any] = {
        "multi_class": "multinomial",
        "fit_intercept": intercept,
        "ridge": 5.0,
        "tol": 1e-9,
    }
    model = ConstrainedLogisticRegression(2.0, **options).fit(
        blocks(X, 200), THREE, sample_weight=WEIGHTS + 0.1
    )
    judged = ConstrainedLogisticRegression(2.0, **options).fit(
        X, THREE, sample_weight=WEIGHTS + 0.1
    )
    f = cg.smooth.Multinomial(
        blocks(X, 200), THREE, sample_weight=WEIGHTS + 0.1, intercept=intercept
    )
    same_f = cg.smooth.Multinomial(X, THREE, sample_weight=WEIGHTS + 0.1, intercept=intercept)
    assert repr(f) == f"Blockwise{same_f!r}"
    assert list(f.classes) == ["ape", "bee", "cow"]
    there = np.linspace(-1.0, 1.0, 36).reshape(12, 3)
    for found, expected in zip(
        f.value_and_gradient(there), same_f.value_and_gradient(there), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
    assert model.objective_ - model.dual_gap_ <= judged.objective_
    assert judged.objective_ - judged.dual_gap_ <= model.objective_
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, judged.intercept_, atol=1e-5)


@pytest.mark.parametrize(
    "loss",
    [cg.smooth.LeastSquares, cg.smooth.Logistic, cg.smooth.SquaredHinge, cg.smooth.Multinomial],
)
@pytest.mark.usefixtures("threads")
def test_a_loss_is_itself_wherever_its_data_are(loss: Any) -> None:
    """And it is no other loss; methods that need the data at hand leave it alone."""
    f = loss(blocks(X), Y)
    others = {
        cg.smooth.LeastSquares,
        cg.smooth.Logistic,
        cg.smooth.SquaredHinge,
        cg.smooth.Multinomial,
    } - {loss}
    assert isinstance(f, loss)
    assert not isinstance(f, tuple(others))
    assert isinstance(pickle.loads(pickle.dumps(f)), loss)
    if loss is not cg.smooth.Multinomial:
        assert isinstance(BlockwiseLoss(loss, blocks(X), Y), loss)
    assert not isinstance(loss(X, Y), cg.smooth.BlockwiseLoss | cg.smooth.BlockwiseMultinomial)
    g = cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0))
    found, same = (cg.minimize(each, g, method="auto", tol=1e-5) for each in (f, loss(X, Y)))
    assert found.lower_bound <= same.value
    assert same.lower_bound <= found.value


@pytest.mark.usefixtures("threads")
def test_intercepts_of_several_classes_take_offsets_up() -> None:
    """Columns far from 0 are the same problem as their deviations, in memory, and proved to as many digits."""
    g = cg.simple.Ridge(5.0, on=cg.sets.L1Ball(2.0))
    near = cg.minimize(cg.smooth.Multinomial(X, THREE, intercept=True), g, method="auto", tol=1e-7)
    f = cg.smooth.Multinomial(blocks(X + 1e5, 200), THREE, intercept=True)
    far = cg.minimize(f, g, near.x, method="auto", tol=1e-5)
    assert far.relative_gap <= 1e-5
    assert far.lower_bound <= near.value
    assert near.lower_bound <= far.value * (1.0 + 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 3e3])
@pytest.mark.usefixtures("threads")
def test_intercepts_of_several_classes_where_probabilities_are_0_and_1(
    offset: float, dtype: type
) -> None:
    """Newton's method sees no curvature there; the intercepts are those of memory, and give each class its weight."""
    Z = (X[:60, :4] + offset).astype(dtype)
    far = (100.0 * np.linspace(-1.0, 1.0, 12)[np.arange(12) * 5 % 12].reshape(4, 3)).astype(dtype)
    here = cg.smooth.Multinomial(blocks(Z, 25), THREE[:60], intercept=True).at(far)
    same_here = cg.smooth.Multinomial(Z, THREE[:60], intercept=True).at(far)
    assert here.value == pytest.approx(same_here.value, rel=1e-9)
    np.testing.assert_allclose(here.intercept, same_here.intercept, rtol=1e-9, atol=1e-6)
    scores = here.z + here.intercept
    counts = np.unique(THREE[:60], return_counts=True)[1]
    np.testing.assert_allclose(scipy.special.softmax(scores, axis=1).sum(axis=0), counts, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "y", "options"),
    [
        (ConstrainedElasticNetCV, Y, {"standardize": True}),
        (ConstrainedLogisticRegressionCV, Y, {"scoring": "roc_auc"}),
        (ConstrainedLogisticRegressionCV, THREE, {"ridges": [100.0]}),
        (ConstrainedLinearSVCCV, Y, {}),
    ],
)
@pytest.mark.usefixtures("threads")
def test_cross_validation(kind: type, y: Array, options: dict[str, Any]) -> None:
    """Folds are weights on the workers; the scores are those of rows that are left out."""
    common: dict[str, Any] = {
        "radii": [0.1, 20.0],
        "ridges": [1.0, 100.0],
        "cv": 2,
        "tol": 1e-9,
        **options,
    }
    weights = WEIGHTS + 0.1
    model, judged = kind(**common).fit(blocks(X, 300), y, sample_weight=weights), kind(**common)
    judged.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(
        model.scores_, judged.scores_, rtol=3e-3
    )  # fits of a search are rough
    assert (model.radius_, model.ridge_) == (judged.radius_, judged.ridge_)
    np.testing.assert_allclose(model.coef_, judged.coef_, atol=1e-6)


@pytest.mark.usefixtures("threads")
def test_a_fold_without_a_class_is_named() -> None:
    y = np.where(np.arange(600) < 300, 0, 1)
    halves = [(np.arange(300), np.arange(300, 600))]
    with pytest.raises(ValueError, match="in fold 0: with an intercept, y must have two classes"):
        ConstrainedLogisticRegressionCV(radii=[1.0], ridges=[1.0], cv=halves).fit(blocks(X), y)


def test_predictions_are_lazy() -> None:
    names = list("abcdefghijkl")
    frame = pd.DataFrame(X, columns=names)
    models: list[Any] = [
        ConstrainedElasticNet(0.5).fit(frame, Y),
        ConstrainedLinearSVC(0.5).fit(frame, THREE),
    ]
    models += [ConstrainedLogisticRegression(0.5).fit(X, labels) for labels in (Y, THREE)]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("nobody asked for numbers")

    for model in models:
        named = hasattr(model, "feature_names_in_")
        methods = ("predict", "decision_function", "predict_proba", "predict_log_proba")
        for method in filter(lambda name: hasattr(model, name), methods):
            with dask.config.set(scheduler=refuse):
                found = getattr(model, method)(
                    dd.from_pandas(frame, npartitions=3) if named else blocks(X)
                )
            assert isinstance(found, da.Array)
            with dask.config.set(scheduler="synchronous"):
                answers = found.compute()
            expected = getattr(model, method)(frame if named else X)
            assert found.dtype == expected.dtype
            assert found.ndim == expected.ndim
            if method == "predict" and answers.dtype.kind == "U":
                np.testing.assert_array_equal(answers, expected)
            else:
                np.testing.assert_allclose(answers, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="must have 12 features, as in the fit, got 11"):
        models[-1].predict(blocks(X[:, 1:]))
    with pytest.raises(ValueError, match="must have the columns of the fit"):
        models[0].predict(dd.from_pandas(frame[names[::-1]], npartitions=3))
    with dask.config.set(scheduler="synchronous"):
        sparse = models[-1].predict_proba(sparse_blocks(X)).compute()
    np.testing.assert_allclose(sparse, models[-1].predict_proba(X), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
def test_single_precision_and_paths() -> None:
    found = path(blocks(X), Y, n_radii=5, tol=1e-12)
    plain = path(X, Y, radii=found.radii, tol=1e-12)
    np.testing.assert_allclose(found.coefs, plain.coefs, atol=1e-5)
    single = ConstrainedLogisticRegression(0.5).fit(blocks(X.astype(np.float32)), Y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(
        single.coef_, ConstrainedLogisticRegression(0.5).fit(X, Y).coef_, atol=2e-2
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", ["cgs", "spg"])
@pytest.mark.usefixtures("threads")
def test_other_methods_run_on_blocks(loss: Any, method: str) -> None:
    f, same_f = BlockwiseLoss(loss, blocks(X, 300), Y, intercept=True), loss(X, Y, intercept=True)
    g = cg.simple.Ridge(100.0, on=cg.sets.L1Ball(0.5))
    found, judged = (
        cg.minimize(f, g, method=method, tol=1e-4),
        cg.minimize(same_f, g, method="newton", tol=1e-9),
    )
    assert found.success
    assert found.lower_bound <= judged.value
    assert judged.lower_bound <= found.value


@pytest.mark.usefixtures("threads")
def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="y must have one entry for each of the 600 rows"):
        ConstrainedLogisticRegression().fit(blocks(X), Y[:-1])
    with pytest.raises(ValueError, match=r"sample_weight must be >= 0, got -1 in block 0"):
        ConstrainedLogisticRegression().fit(blocks(X), Y, sample_weight=-np.ones(600))
    with pytest.raises(ValueError, match="sample_weight must have a positive entry"):
        ConstrainedLogisticRegression(fit_intercept=False).fit(
            blocks(X), Y, sample_weight=np.zeros(600)
        )
    with pytest.raises(ValueError, match="got one class"):
        ConstrainedLogisticRegression().fit(blocks(X), np.ones(600))
    with pytest.raises(ValueError, match=r"two classes.*got only \+1"):
        cg.smooth.Logistic(blocks(X), np.ones(600), intercept=True)
    with pytest.raises(ValueError, match=r"y must hold two classes .* got 3: 0, 1, 2"):
        cg.smooth.SquaredHinge(blocks(X), np.arange(600) % 3)
    with pytest.raises(ValueError, match=r"labels -1 and \+1, got 2"):
        BlockwiseLoss(cg.smooth.Logistic, blocks(X), np.full(600, 2.0))
    with pytest.raises(ValueError, match="at least two classes, got one"):
        cg.smooth.Multinomial(blocks(X), np.ones(600))
    with pytest.raises(ValueError, match="each class of y must have a positive sample_weight"):
        cg.smooth.Multinomial(
            blocks(X), THREE, sample_weight=1.0 * (THREE != "bee"), intercept=True
        )
    with pytest.raises(ValueError, match="X must have rows and columns"):
        cg.smooth.Logistic(blocks(X)[:, 0], Y)
    with pytest.raises(ValueError, match=r"X must hold numbers, and block [01] "):
        cg.smooth.Logistic(
            da.from_array(np.full((4, 2), "text", dtype=object), chunks=2), np.ones(4)
        )
    monkeypatch.setattr(
        row_blocks, "require_extra", lambda _, **extra: cg.errors.require_extra("nowhere", **extra)
    )
    with pytest.raises(MissingExtra, match=r"data of Dask needs nowhere.*\[dask\]"):
        ConstrainedLogisticRegression().fit(blocks(X), Y)


@pytest.mark.usefixtures("threads")
def test_blocks_without_rows_do_not_matter() -> None:
    names = list("abcdefghijkl")
    frame = dd.from_pandas(
        pd.DataFrame(X, columns=names).assign(y=Y, row=np.arange(600)), npartitions=4
    )
    some = frame[frame["row"] >= 250]  # the first partition has no rows left
    model = ConstrainedLogisticRegression(0.5, tol=TOL).fit(some[names], some["y"])
    same(model, ConstrainedLogisticRegression(0.5, tol=TOL).fit(X[250:], Y[250:]))


@pytest.mark.slow  # processes of their own
def test_without_a_cluster_threads_compute(tmp_path: Path) -> None:
    """Dask's own choice for bags is a pool of processes, which a script without a guard of its main module lacks."""
    script = tmp_path / "script.py"
    script.write_text(
        "import condgrad as cg, dask.array as da, numpy as np\n"
        "X = da.from_array(np.random.default_rng(0).standard_normal((60, 3)), chunks=(20, 3))\n"
        "cg.linear_model.ConstrainedLogisticRegression(1.0).fit(X, X[:, 0] > 0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
