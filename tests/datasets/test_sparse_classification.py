"""The toy problem follows the laws of section 3.2, and scaling uses the training part alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from condgrad.datasets import (
    REGIMES,
    make_sparse_classification,
    sparse_classification,
    standardize,
)

LARGE = {"n_samples": 50_000, "n_features": 9, "n_relevant": 4}
NOISE = 6.0 / np.sqrt(0.8 * LARGE["n_samples"] / 2)


@given(
    n_samples=st.integers(4, 60),
    n_features=st.integers(1, 40),
    share=st.floats(0.2, 0.5),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_sizes_labels_and_scaling(
    n_samples: int, n_features: int, share: float, seed: int, data: Any
) -> None:
    n_relevant = data.draw(st.integers(1, n_features))
    drawn = make_sparse_classification(
        n_samples=n_samples,
        n_features=n_features,
        n_relevant=n_relevant,
        test_size=share,
        seed=seed,
    )
    n_test = round(share * n_samples)
    assert drawn.X_test.shape == (n_test, n_features)
    assert drawn.X_train.shape == (n_samples - n_test, n_features)
    for y, count in ((drawn.y_train, n_samples - n_test), (drawn.y_test, n_test)):
        assert y.shape == (count,)
        assert set(y) <= {-1.0, 1.0}
        assert abs(y.sum()) <= 1.0
    assert drawn.relevant.shape == (n_relevant,)
    assert (np.diff(drawn.relevant) > 0).all()
    assert drawn.relevant[0] >= 0
    assert drawn.relevant[-1] < n_features
    assert set(drawn.mean) <= {-1.0, 1.0}
    np.testing.assert_allclose(drawn.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(drawn.X_train.var(axis=0), 1.0, rtol=1e-9)


def test_a_seed_decides_everything() -> None:
    first, again, other = (make_sparse_classification(seed=seed) for seed in (5, 5, 6))
    for field in fields(first):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
    assert not np.array_equal(first.X_train, other.X_train)
    assert not np.array_equal(first.relevant, other.relevant)


def test_the_training_part_scales_both_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = make_sparse_classification(n_samples=20, seed=2)
    monkeypatch.setattr(sparse_classification, "standardize", lambda X, **_: X)
    raw = make_sparse_classification(n_samples=20, seed=2)
    judge = StandardScaler().fit(raw.X_train)
    np.testing.assert_allclose(scaled.X_train, judge.transform(raw.X_train), atol=1e-12)
    np.testing.assert_allclose(scaled.X_test, judge.transform(raw.X_test), atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_class_laws_on_large_samples(seed: int) -> None:
    """Scaled by s with s_i^2 = 1 + mean of the class variances, class c has mean c mu/s and covariance S_c/(s s')."""
    drawn = make_sparse_classification(**LARGE, seed=seed)
    scale = np.sqrt(1.0 + np.mean([np.diag(S) for S in drawn.covariances], axis=0))
    for X, y in ((drawn.X_train, drawn.y_train), (drawn.X_test, drawn.y_test)):
        # the test part is a quarter of the training part
        noise = NOISE if X is drawn.X_train else 2.0 * NOISE
        for label, covariance in zip((-1.0, 1.0), drawn.covariances, strict=True):
            part = X[y == label]
            np.testing.assert_allclose(
                part[:, drawn.relevant].mean(axis=0), label * drawn.mean / scale, atol=noise
            )
            expected = covariance / np.outer(scale, scale)
            np.testing.assert_allclose(
                np.cov(part[:, drawn.relevant].T), expected, atol=2.0 * noise
            )
    assert np.abs(drawn.covariances[0] - drawn.covariances[1]).max() > 20.0 * NOISE


def test_other_variables_are_standard_normal_in_both_classes() -> None:
    drawn = make_sparse_classification(**LARGE, seed=1)
    noise = np.setdiff1d(np.arange(LARGE["n_features"]), drawn.relevant)
    for label in (-1.0, 1.0):
        part = drawn.X_train[drawn.y_train == label]
        np.testing.assert_allclose(part[:, noise].mean(axis=0), 0.0, atol=NOISE)
        correlation = np.corrcoef(part.T)
        np.fill_diagonal(correlation, 0.0)
        assert np.abs(correlation[noise]).max() < NOISE
        for column in noise:
            assert stats.kstest(part[:, column], "norm").pvalue > 1e-3


@pytest.mark.parametrize("freedom", [None, 7])
def test_covariances_are_wishart(freedom: int | None) -> None:
    """The trace of a Wishart matrix of size T with k degrees of freedom is chi-square with kT; its mean is kI."""
    size, k = 3, freedom or 3
    draws = [
        make_sparse_classification(
            n_samples=4,
            n_features=3,
            n_relevant=size,
            test_size=0.25,
            degrees_of_freedom=freedom,
            seed=seed,
        ).covariances
        for seed in range(500)
    ]
    matrices = np.concatenate(draws)
    assert (
        stats.kstest(np.trace(matrices, axis1=1, axis2=2), stats.chi2(k * size).cdf).pvalue > 1e-3
    )
    np.testing.assert_allclose(
        matrices.mean(axis=0), k * np.eye(size), atol=6.0 * np.sqrt(2.0 * k / len(matrices))
    )


def test_signs_and_positions_are_fair() -> None:
    draws = [
        make_sparse_classification(n_samples=5, n_features=10, n_relevant=2, seed=seed)
        for seed in range(600)
    ]
    signs = np.concatenate([drawn.mean for drawn in draws])
    assert stats.binomtest(int((signs > 0).sum()), len(signs)).pvalue > 1e-3
    positions = np.bincount(np.concatenate([drawn.relevant for drawn in draws]), minlength=10)
    assert stats.chisquare(positions).pvalue > 1e-3


@pytest.mark.parametrize(
    ("regime", "shape"),
    [("very sparse", (80, 2000)), ("sparse", (200, 1000)), ("easy", (1000, 500))],
)
def test_regimes_can_be_learned(regime: str, shape: tuple[int, int]) -> None:
    """The linear rule on the true variables beats chance by far, on data it has not seen."""
    right = []
    for seed in range(10):
        drawn = make_sparse_classification(**REGIMES[regime], seed=seed)
        assert drawn.X_train.shape == shape
        assert len(drawn.X_test) * 4 == shape[0]
        judge = LogisticRegression().fit(drawn.X_train[:, drawn.relevant], drawn.y_train)
        right.append(judge.score(drawn.X_test[:, drawn.relevant], drawn.y_test))
    assert np.mean(right) > 0.8


def test_regimes_and_answers_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        REGIMES["sparse"]["n_samples"] = 3  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        make_sparse_classification().relevant = None  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_samples": 2}, "n_samples must be >= 3, got 2"),
        ({"n_samples": 10.0}, "n_samples must be a whole number, got 10.0"),
        ({"n_features": 0}, "n_features must be >= 1, got 0"),
        ({"n_relevant": 0}, "n_relevant must be >= 1, got 0"),
        ({"n_features": 5, "n_relevant": 6}, "n_relevant must be <= n_features = 5, got 6"),
        ({"degrees_of_freedom": 19}, "degrees_of_freedom must be >= 20, got 19"),
        ({"test_size": 0.0}, "test_size must be finite and > 0, got 0.0"),
        (
            {"test_size": 1.5},
            "test_size must leave at least 1 test and 2 training samples of n_samples = 250, got 1.5",
        ),
        (
            {"n_samples": 3, "test_size": 0.1},
            "test_size must leave at least 1 test and 2 training samples",
        ),
    ],
)
def test_bad_options_get_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        make_sparse_classification(**options)
    assert sentence in str(caught.value)


@given(seed=st.integers(0, 2**32 - 1), samples=st.integers(2, 20), others=st.integers(0, 5))
def test_standardize_agrees_with_scikit_learn(seed: int, samples: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    train, test = (rng.normal(3.0, 2.0, (count, 4)) for count in (samples, others))
    judge = StandardScaler().fit(train)
    np.testing.assert_allclose(standardize(train), judge.transform(train), atol=1e-9)
    if others:
        np.testing.assert_allclose(
            standardize(test, reference=train), judge.transform(test), atol=1e-9
        )
    else:
        assert standardize(test, reference=train).shape == (0, 4)


def test_standardize_sends_constant_features_to_zero() -> None:
    train = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    assert train[:, 0].std() != 0.0, "the case worth testing: rounding makes the deviation positive"
    assert (standardize(train)[:, 0] == 0.0).all()
    assert (standardize([[5.0, 1.0]], reference=train)[:, 0] == 0.0).all()


@pytest.mark.parametrize(
    ("X", "reference", "sentence"),
    [
        ([1.0, 2.0], None, "X must have shape (samples, features), got shape (2,)"),
        ([[np.nan]], None, "X must be finite"),
        ([[1.0]], [[np.inf]], "reference must be finite"),
        ([[1.0]], [[1.0, 2.0]], "the 1 features of X, got shape (1, 2)"),
        (np.empty((0, 2)), None, "at least one sample"),
    ],
)
def test_standardize_refuses_with_a_sentence(X: Any, reference: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        standardize(X, reference=reference)
    assert sentence in str(caught.value)
