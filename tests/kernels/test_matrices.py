"""Factors that gain and lose rows, and Gram matrices of sparse columns, against NumPy and SciPy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.ball.columns import chosen_columns
from condgrad.ball.compiled import ldl
from condgrad.ball.models import gram_by_blocks
from condgrad.kernels import sparse_gram
from condgrad.smooth.intercept import weighted_basis

pytestmark = pytest.mark.slow  # functions inside kernels are compiled for these tests alone

seeds = st.integers(0, 2**32 - 1)


class Factors:
    """The factors of some rows of H, and these rows."""

    def __init__(self, H: np.ndarray) -> None:
        k = len(H)
        self.H, self.L, self.D, self.A, self.a = H, np.eye(k), np.ones(k), np.empty(k, np.int64), 0

    def add(self, j: int) -> None:
        self.A[self.a] = j
        ldl.append(self.L, self.D, self.a, self.H, self.A)
        self.a += 1

    def drop(self, p: int) -> None:
        ldl.remove(self.L, self.D, self.a, self.A, p)
        self.a -= 1

    def solved(self, b: np.ndarray) -> np.ndarray:
        x = b.copy()
        ldl.solve_factored(self.L, self.D, self.a, x)
        return x


@settings(max_examples=30)
@given(seed=seeds, k=st.integers(1, 30), ridge=st.sampled_from([1.0, 1e-3, 1e-6]))
def test_factors_after_any_changes_are_those_of_the_rows(seed: int, k: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((k, k + 3)) * 10.0 ** rng.uniform(-3.0, 3.0, (k, 1))
    factors = Factors(B @ B.T + ridge * np.diag((B * B).sum(1)))
    left = list(rng.permutation(k))
    for _ in range(3 * k):
        if left and (factors.a == 0 or rng.random() < 0.6):
            factors.add(left.pop())
        else:
            p = int(rng.integers(factors.a))
            left.insert(0, int(factors.A[p]))
            factors.drop(p)
    rows = factors.A[: factors.a]
    assert sorted([*rows, *left]) == list(range(k))
    x = rng.standard_normal(factors.a) / np.sqrt(np.diag(factors.H)[rows])
    found = factors.solved(factors.H[np.ix_(rows, rows)] @ x)
    scale = np.sqrt(np.diag(factors.H)[rows])
    np.testing.assert_allclose(
        scale * found, scale * x, atol=1e-13 / ridge * max(1.0, np.abs(scale * x).max(initial=0))
    )


@given(seed=seeds, density=st.floats(0.0, 1.0))
def test_the_weighted_gram_matrix_of_sparse_data(seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    K = scipy.sparse.random(17, 6, density=density, random_state=rng, format="csr")
    w = rng.random(17) * (rng.random(17) < 0.8)
    G, sums = sparse_gram.weighted_gram(K.indptr, K.indices, K.data, w, 6)
    dense = K.toarray()
    np.testing.assert_allclose(G, dense.T @ (w[:, None] * dense), atol=1e-14)
    np.testing.assert_allclose(sums, dense.T @ w, atol=1e-14)
    np.testing.assert_array_equal(G, G.T)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_a_full_column_among_sparse_ones_is_centred(kind: str) -> None:
    """The others stay as they are."""
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((30, 9)) < 0.1, rng.standard_normal((30, 9)), 0.0)
    dense[:, 4] = 1e3 + rng.standard_normal(30)
    dense[5, 4] = 0.0
    chosen = np.array([0, 2, 4, 7])
    K = scipy.sparse.csr_array(dense).asformat(kind)
    loss = cg.smooth.LeastSquares(K, dense[:, 0], intercept=True)
    part, means = chosen_columns(loss, chosen)
    assert means is not None
    np.testing.assert_allclose(means, [0.0, 0.0, dense[:, 4].mean(), 0.0], rtol=1e-14)
    np.testing.assert_allclose(part.toarray(), dense[:, chosen] - means, atol=1e-11)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_a_centred_gram_matrix_of_large_columns_has_its_digits(offset: float) -> None:
    """The samples that count all have the offset, which the mean of all samples does not show."""
    rng = np.random.default_rng(4)
    columns, w = rng.standard_normal((20, 5)), rng.random(20) * (np.arange(20) < 12)
    shifted = columns + offset * (np.arange(20) < 12)[:, None]
    A = weighted_basis(np.ones((1, 1)), w)
    gram: Any = gram_by_blocks(shifted, w, A, (w[:, None] * A).T @ shifted)
    deviations = columns - columns.T @ w / w.sum()
    np.testing.assert_allclose(gram, deviations.T @ (w[:, None] * deviations), atol=1e-14 * offset)


def test_sparse_data_with_indices_of_two_sizes() -> None:
    rng = np.random.default_rng(0)
    K, y, g = (
        rng.standard_normal((4, 9)),
        rng.standard_normal(4),
        cg.simple.Ridge(1.0, on=cg.sets.L1Ball(0.3)),
    )
    mixed = scipy.sparse.csc_array(K)
    mixed.indptr = mixed.indptr.astype(np.int64)
    found, expected = (
        cg.minimize(cg.smooth.LeastSquares(each, y), g, method="newton") for each in (mixed, K)
    )
    assert found.value == pytest.approx(expected.value, rel=1e-6)


def test_slow_imports_are_left_to_what_needs_them() -> None:
    """numba to the first solve, the solvers of scipy.sparse to transport, folds and scores to cross-validation."""
    script = """
import sys, condgrad as cg
assert not {"numba", "sklearn", "scipy.sparse.csgraph", "scipy.linalg", "scipy.optimize"} & set(sys.modules)
f = cg.smooth.LeastSquares([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="newton")
assert "numba" in sys.modules
cg.linear_model.ConstrainedElasticNet(1.0).fit([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
assert not {"rich", "sklearn.metrics", "sklearn.model_selection"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
