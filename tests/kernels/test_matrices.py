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
from condgrad.ball.compiled import ldl
from condgrad.kernels import matrix, sparse_gram
from condgrad.newton.working_set import chosen_columns
from condgrad.smooth.folding import FoldedLoss

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
        ldl.solve(self.L, self.D, self.a, x)
        return x


@settings(max_examples=60)
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
    np.testing.assert_allclose(
        ldl.solve_by_arrays(factors.H, rows, factors.H[np.ix_(rows, rows)] @ x) * scale, scale * x, atol=1e-12 / ridge
    )


@given(seed=seeds, k=st.integers(1, 20))
def test_a_square_is_added_and_taken_off_again(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((k, k))
    H, v = B @ B.T + np.eye(k), rng.standard_normal(k)
    factors = Factors(H)
    for j in range(k):
        factors.add(j)
    b = rng.standard_normal(k)
    assert ldl.add_square(factors.L, factors.D, 2.0, v)
    np.testing.assert_allclose(factors.solved(b), np.linalg.solve(H + 2.0 * np.outer(v, v), b), atol=1e-9)
    assert ldl.add_square(factors.L, factors.D, -2.0, v) or 2.0 * v @ np.linalg.solve(H, v) > 100.0
    if 2.0 * v @ np.linalg.solve(H, v) <= 100.0:
        np.testing.assert_allclose(factors.solved(b), np.linalg.solve(H, b), atol=1e-8)


def test_a_square_too_large_to_take_off_is_refused() -> None:
    assert not ldl.add_square(np.eye(2), np.ones(2), -1.0, np.array([1.0, 0.0]))


@given(seed=seeds, density=st.floats(0.0, 1.0), precision=st.sampled_from([np.float64, np.float32]))
def test_columns_and_gram_of_sparse_data(seed: int, density: float, precision: Any) -> None:
    rng = np.random.default_rng(seed)
    K = scipy.sparse.random(17, 11, density=density, random_state=rng, format="csr").astype(precision)
    chosen, w = rng.permutation(11)[:6], rng.random(17) * (rng.random(17) < 0.8)
    place = np.full(11, -1, K.indices.dtype)
    place[chosen] = np.arange(6)
    indptr, indices, data = sparse_gram.columns(K.indptr, K.indices, K.data, place)
    part = scipy.sparse.csr_array((data, indices, indptr), shape=(17, 6))
    assert part.dtype == np.float64
    dense = K.toarray().astype(np.float64)[:, chosen]
    np.testing.assert_array_equal(part.toarray(), dense)
    G, pull = sparse_gram.weighted_gram(part.indptr, part.indices, part.data, w, 6)
    expected, expected_pull = sparse_gram.weighted_gram_by_arrays(dense, w)
    np.testing.assert_allclose(G, expected, atol=1e-14)
    np.testing.assert_allclose(pull, expected_pull, atol=1e-14)
    np.testing.assert_array_equal(G, G.T)


@given(seed=seeds, density=st.floats(0.0, 1.0), form=st.sampled_from(["dense", "csc"]), centred=st.booleans())
def test_products_columns_and_gram_of_a_compiled_matrix(seed: int, density: float, form: str, centred: bool) -> None:
    rng = np.random.default_rng(seed)
    K = scipy.sparse.random(17, 11, density=density, random_state=rng, format="csc")
    dense, x, theta = K.toarray(), rng.standard_normal(11) * (rng.random(11) < 0.5), rng.standard_normal(17)
    stored = matrix.of_sparse(K) if form == "csc" else matrix.of_dense(np.ascontiguousarray(dense.T))
    np.testing.assert_allclose(matrix.image(stored, x), dense @ x, atol=1e-13)
    np.testing.assert_allclose(matrix.pulled_back(stored, theta), dense.T @ theta, atol=1e-13)
    assert matrix.square_of_column(stored, 3) == pytest.approx(dense[:, 3] @ dense[:, 3], rel=1e-13)
    chosen, w = np.sort(rng.permutation(11)[:6]), rng.random(17) * (rng.random(17) < 0.8)
    np.testing.assert_array_equal(matrix.dense_columns(stored, chosen), dense[:, chosen].T)
    np.testing.assert_array_equal(matrix.dense_columns(stored, np.arange(11)), dense.T)
    part, means = matrix.some_columns(stored, chosen, centred)
    expected = dense[:, chosen] - means
    stored_share = np.count_nonzero(dense[:, chosen], axis=0) / 17
    is_dense = form == "dense" or stored_share.mean() > matrix.MOSTLY_STORED
    assert part.columns.size == (6 * 17 if is_dense else 0)
    is_centred = centred & (is_dense | (stored_share > matrix.NEARLY_FULL))
    np.testing.assert_allclose(expected[:, is_centred].sum(axis=0), 0.0, atol=1e-13)
    assert not means[~is_centred].any()
    np.testing.assert_allclose(matrix.image(part, x[:6]), expected @ x[:6], atol=1e-13)
    np.testing.assert_allclose(matrix.pulled_back(part, theta), expected.T @ theta, atol=1e-13)
    gram = np.empty((6, 6))
    pull = matrix.set_weighted_gram(part, w, gram)
    np.testing.assert_allclose(gram, expected.T @ (w[:, None] * expected), atol=1e-13)
    np.testing.assert_allclose(pull, expected.T @ w, atol=1e-13)
    matrix.set_centred_gram(part, w, gram)
    deviations = expected - (w @ expected) / (w.sum() or 1.0)
    np.testing.assert_allclose(gram, deviations.T @ (w[:, None] * deviations), atol=1e-13)
    per_row = np.full(17, 6) if is_dense else np.count_nonzero(expected, axis=1)
    assert matrix.operations_of_gram(part) == (per_row**2).sum()
    # as columns are handed over that Python has chosen
    by_row = matrix.of_sparse(scipy.sparse.csr_array(dense[:, chosen]))
    np.testing.assert_allclose(matrix.image(by_row, x[:6]), dense[:, chosen] @ x[:6], atol=1e-13)
    np.testing.assert_allclose(matrix.pulled_back(by_row, theta), dense[:, chosen].T @ theta, atol=1e-13)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_a_full_column_among_sparse_ones_is_centred(kind: str) -> None:
    """Compiled code and Python take off the same, and leave the others as they are."""
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((30, 9)) < 0.1, rng.standard_normal((30, 9)), 0.0)
    dense[:, 4] = 1e3 + rng.standard_normal(30)
    dense[5, 4] = 0.0
    chosen, loss = (
        np.array([0, 2, 4, 7]),
        cg.smooth.LeastSquares(scipy.sparse.csr_array(dense).asformat(kind), dense[:, 0], intercept=True),
    )
    compiled, expected_means = matrix.some_columns(matrix.of_sparse(scipy.sparse.csc_array(dense)), chosen, True)
    part, means = chosen_columns(FoldedLoss.of(loss), chosen)
    np.testing.assert_allclose(expected_means, [0.0, 0.0, dense[:, 4].mean(), 0.0], rtol=1e-14)
    assert means is not None
    np.testing.assert_allclose(means, expected_means, rtol=1e-14)
    np.testing.assert_allclose(part.toarray(), dense[:, chosen] - means, atol=1e-11)
    assert matrix.of_sparse(part) is not None
    x = rng.standard_normal(4)
    np.testing.assert_allclose(matrix.image(compiled, x), part @ x, atol=1e-11)
    np.testing.assert_allclose(matrix.image(compiled._replace(by_row=matrix.NO_LINES), x), part @ x, atol=1e-11)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_a_centred_gram_matrix_of_large_columns_has_its_digits(offset: float) -> None:
    """The samples that count all have the offset, which the mean of all samples does not show."""
    rng = np.random.default_rng(4)
    columns, w = rng.standard_normal((5, 20)), rng.random(20) * (np.arange(20) < 12)
    shifted = columns + offset * (np.arange(20) < 12)
    gram = np.empty((5, 5))
    matrix.set_centred_gram(matrix.of_dense(shifted), w, gram)
    deviations = columns - (columns @ w / w.sum())[:, None]
    np.testing.assert_allclose(gram, (deviations * w) @ deviations.T, atol=1e-14 * offset)


def test_sparse_data_with_indices_of_two_sizes() -> None:
    rng = np.random.default_rng(0)
    K, y, g = rng.standard_normal((4, 9)), rng.standard_normal(4), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(0.3))
    mixed = scipy.sparse.csc_array(K)
    mixed.indptr = mixed.indptr.astype(np.int64)
    found, expected = (cg.minimize(cg.smooth.LeastSquares(each, y), g, method="newton") for each in (mixed, K))
    assert found.value == pytest.approx(expected.value, rel=1e-6)


def test_slow_imports_are_left_to_what_needs_them() -> None:
    """numba to the first solve, the solvers of scipy.sparse to transport, folds and scores to cross-validation."""
    script = """
import sys, condgrad as cg
assert not {"numba", "sklearn", "scipy.sparse.csgraph"} & set(sys.modules)
f = cg.smooth.LeastSquares([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
cg.minimize(f, cg.simple.Ridge(1.0, on=cg.sets.L1Ball(1.0)), method="newton")
assert "numba" in sys.modules
cg.linear_model.ConstrainedElasticNet(1.0).fit([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0])
assert not {"rich", "sklearn.metrics", "sklearn.model_selection"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
