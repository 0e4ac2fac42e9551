"""Paths: each point is the solution that a single fit finds."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from condgrad.linear_model import (
    ConstrainedElasticNet,
    ConstrainedLinearSVC,
    ConstrainedLogisticRegression,
    path,
)
from tests.linear_model import drawn

LOSSES = {
    "logistic": ConstrainedLogisticRegression,
    "least-squares": ConstrainedElasticNet,
    "squared-hinge": ConstrainedLinearSVC,
}
every_loss = pytest.mark.parametrize("loss", LOSSES)
X, Y = drawn(0, samples=30, features=12)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_each_point_is_a_single_fit(loss: str, intercept: bool) -> None:
    weights = np.linspace(0.0, 2.0, 30)
    radii = [0.0, 0.2, 0.8, 3.0, 40.0]
    found = path(
        X,
        Y,
        loss=loss,
        radii=radii,
        ridge=0.4,
        fit_intercept=intercept,
        sample_weight=weights,
        tol=1e-9,
    )
    for k, radius in enumerate(radii):
        model = LOSSES[loss](radius, ridge=0.4, fit_intercept=intercept, tol=1e-9).fit(
            X, Y, sample_weight=weights
        )
        gap, value = float(np.ravel(model.dual_gap_)[0]), float(np.ravel(model.objective_)[0])
        assert found.values[k] - found.gaps[k] <= value
        assert value - gap <= found.values[k]
        reach = np.sqrt(found.gaps[k] / 0.4) + np.sqrt(gap / 0.4)
        assert np.linalg.norm(found.coefs[k] - np.ravel(model.coef_)) <= 1.1 * reach + 1e-12
        assert found.multipliers[k] == pytest.approx(
            float(np.ravel(model.multiplier_)[0]), rel=1e-3, abs=1e-3
        )
        assert found.intercepts[k] == pytest.approx(float(np.ravel(model.intercept_)[0]), abs=2e-3)
    assert found.multipliers[-1] == 0.0


@every_loss
def test_the_default_grid_ends_where_the_constraint_falls_idle(loss: str) -> None:
    found = path(X, Y, loss=loss, n_radii=12, ridge=0.4)
    assert found.coefs.shape == (12, 12)
    assert (
        found.radii.shape == found.gaps.shape == found.values.shape == found.n_iters.shape == (12,)
    )
    np.testing.assert_allclose(found.radii[1:] / found.radii[:-1], 1e3 ** (1 / 11))
    assert (found.gaps >= 0.0).all()
    null = path(X, Y, loss=loss, radii=[0.0], ridge=0.4).values[0]
    assert (found.gaps <= 1e-6 * null).all()
    free = path(X, Y, loss=loss, radii=[1e3], ridge=0.4)
    assert free.multipliers[0] == 0.0
    assert found.radii[-1] == pytest.approx(np.abs(free.coefs[0]).sum(), rel=0.05)
    assert found.multipliers[-1] <= 0.02 * found.multipliers[0]


@every_loss
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_default_grid_follows_the_units(loss: str, scale: float) -> None:
    """X * s with ridge * s^2: the same solutions, in radii / s."""
    once, scaled = (
        path(X, Y, loss=loss, n_radii=3),
        path(scale * X, Y, loss=loss, n_radii=3, ridge=0.5 * scale**2),
    )
    np.testing.assert_allclose(scale * scaled.radii, once.radii, rtol=0.02)


def test_the_default_grid_of_a_feature_far_from_0_follows_the_weights() -> None:
    far = np.array([[495998.506008896], [495998.2044084877]])
    options: Any = {"loss": "squared-hinge", "n_radii": 4, "ridge": 0.0}
    one, other = (
        path(far, np.array([-1.0, 1.0]), sample_weight=np.full(2, c), **options).radii
        for c in (1.0, 2.0**-20)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9)
    # the margins are -1 and 1, or nearly so: the ridge takes next to nothing of what the two need
    assert one[-1] == pytest.approx(2.0 / float(np.ptp(far)), rel=0.1)


def test_small_targets_have_a_grid_too() -> None:
    once = path(X, Y, loss="least-squares", n_radii=3)
    small = path(X, 1e-5 * Y, loss="least-squares", n_radii=3)
    np.testing.assert_allclose(1e5 * small.radii, once.radii, rtol=0.02)


def test_radii_in_any_order() -> None:
    found = path(X, Y, radii=[2.0, 0.5, 2.0, 1.0])
    np.testing.assert_array_equal(found.radii, [0.5, 1.0, 2.0])
    assert (np.diff(found.values) < 0.0).all()


def test_sparse_and_single_precision() -> None:
    dense = path(X, Y, radii=[0.5, 1.0])
    sparse = path(scipy.sparse.csr_array(X), Y, radii=[0.5, 1.0])
    np.testing.assert_allclose(sparse.coefs, dense.coefs, atol=1e-3)
    single = path(X.astype(np.float32), Y, radii=[0.5, 1.0])
    assert single.coefs.dtype == np.float32
    np.testing.assert_allclose(single.coefs, dense.coefs, atol=2e-2)


@every_loss
def test_frames_and_labels_as_the_estimators_take_them(loss: str) -> None:
    plain = path(X, Y, loss=loss, radii=[0.5, 1.0])
    frame, weights = pd.DataFrame(X, columns=list("abcdefghijkl")), pd.Series(np.ones(30))
    labels = pd.Series(Y) if loss == "least-squares" else pd.Series(np.where(Y > 0, "yes", "no"))
    same = path(frame, labels, loss=loss, radii=[0.5, 1.0], sample_weight=weights)
    np.testing.assert_allclose(same.coefs, plain.coefs, atol=1e-6)
    lists = path(X.tolist(), labels.tolist(), loss=loss, radii=[0.5, 1.0])
    np.testing.assert_array_equal(lists.coefs, plain.coefs)


def test_one_class_against_the_rest() -> None:
    three = np.array(["ape", "bee", "cow"])[np.arange(30) % 3]
    found = path(X, three == "bee", radii=[0.5])
    model = ConstrainedLogisticRegression(0.5).fit(X, three == "bee")
    np.testing.assert_allclose(found.coefs, model.coef_, atol=1e-3)


def test_tensors(torch: ModuleType) -> None:
    dense = path(X, Y, n_radii=3, tol=1e-9)
    same = path(torch.as_tensor(X), torch.as_tensor(Y), n_radii=3, tol=1e-9)
    assert isinstance(same.coefs, torch.Tensor)
    np.testing.assert_allclose(same.radii, dense.radii, rtol=1e-6)
    np.testing.assert_allclose(same.coefs.numpy(), dense.coefs, atol=1e-4)


def test_data_of_zeros_have_a_grid() -> None:
    found = path(np.zeros((4, 2)), [1.0, -1.0, 1.0, 1.0], n_radii=2)
    np.testing.assert_allclose(found.radii, [1e-3, 1.0])
    np.testing.assert_array_equal(found.coefs, np.zeros((2, 2)))
    one = path(np.zeros((4, 2)), np.zeros(4), loss="least-squares", n_radii=1)
    np.testing.assert_array_equal(one.radii, [1.0])


def test_a_path_is_frozen() -> None:
    found = path(X, Y, radii=[0.5])
    with pytest.raises(FrozenInstanceError):
        found.radii = np.zeros(1)  # type: ignore[misc]


def test_fits_that_fell_short_are_counted_in_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="2 of 2 fits fell short"):
        path(X, Y, radii=[0.5, 1.0], max_iter=1, tol=1e-12, method="cgs")


def test_a_sparse_column_of_zeros_has_no_part_in_a_lasso() -> None:
    """Nor does it warn of a division by 0."""
    rng = np.random.default_rng(0)
    K = rng.standard_normal((20, 2000))
    K[:, 7] = 0.0
    y = K[:, :3].sum(axis=1) + rng.standard_normal(20)
    found = path(scipy.sparse.csr_array(K), y, loss="least-squares", ridge=0.0, n_radii=20)
    assert not found.coefs[:, 7].any()


@every_loss
@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_a_sparse_matrix_without_entries_has_a_path(loss: str, form: type) -> None:
    found = path(form((30, 50)), Y, loss=loss, radii=[0.5, 1.0, 2.0])
    assert not found.coefs.any()
    assert (found.gaps <= 1e-6 * found.values).all()


@pytest.mark.parametrize("unit", [1e-35, 1e35])
@pytest.mark.parametrize("radii", [None, [0.1, 1.0]])
def test_a_path_beyond_float32_is_told_and_not_certified(
    unit: float, radii: list[float] | None
) -> None:
    with pytest.raises(ValueError, match="float32 data are only precise from"):
        path(X.astype(np.float32), unit * X[:, 0], loss="least-squares", radii=radii)
