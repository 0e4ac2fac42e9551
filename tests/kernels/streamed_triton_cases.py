"""The fused kernels against the dense matrix in float64, on a GPU or in Triton's interpreter on a CPU.

Not collected by itself: `test_streamed_triton.py` runs it in a process of its own, since Triton decides when it is
imported whether to interpret. On a machine with a GPU: python -m pytest tests/kernels/streamed_triton_cases.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, xlogy

from condgrad.arrays import host
from condgrad.kernels import streamed_triton
from condgrad.kernels.streamed import Score
from tests.kernels.test_streamed import Dense, dense_score, tolerance

# of two infinities, in the interpreter: the power of a score of -inf is 0, whatever its fraction
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in subtract")
ON_GPU = torch.cuda.is_available()
ACCURACY = {"float64": 0.0, "mixed": 1e-6}
SHAPES = [(1, 1), (0, 3), (5, 0), (67, 300), (130, 70)]
RANKS = [0, 1, 4, 7, 40]
# the interpreter takes a second for what the GPU does at once: there, every shape with one rank and every rank with one
SHAPES_AND_RANKS = [
    (shape, rank) for shape in SHAPES for rank in RANKS if ON_GPU or rank == 4 or shape == (130, 70)
]
COLUMNS = [1, 16, 17, 33, 64, 100] if ON_GPU else [1, 16, 33]
RANKS_OF_COLUMNS = [4, 7, 12] if ON_GPU else [4, 12]


def convert(values: Any) -> Any:
    return torch.asarray(values, device="cuda" if ON_GPU else "cpu")


@pytest.mark.parametrize(("shape", "rank"), SHAPES_AND_RANKS)
def test_row_sums_and_entropies_are_those_of_the_dense_matrix(
    shape: tuple[int, int], rank: int
) -> None:
    n, m = shape
    dense, rng = dense_score(n, m, rank), np.random.default_rng(1)
    score, plan, tol = dense.score(convert), np.exp(dense.matrix), tolerance(dense)
    found = host(streamed_triton.log_row_sums(score))
    np.testing.assert_allclose(found, logsumexp(dense.matrix, axis=1), rtol=tol, atol=tol)
    kept, row_rest, column_rest = (
        rng.random(m),
        0.1 * rng.random(n),
        rng.random(m) * (rng.random(m) < 0.5),
    )
    entropies = xlogy(rounded := plan * kept + row_rest[:, None] * column_rest, rounded)
    found = host(
        streamed_triton.entropy_row_sums(
            score, convert(kept), convert(row_rest), convert(column_rest)
        )
    )
    np.testing.assert_allclose(
        found, entropies.sum(1), atol=tol * abs(entropies).sum(1).max(initial=0.0)
    )


@pytest.mark.parametrize("precision", ACCURACY)
@pytest.mark.parametrize(("shape", "rank"), SHAPES_AND_RANKS)
def test_products_are_those_of_the_dense_matrix(
    shape: tuple[int, int], rank: int, precision: str
) -> None:
    n, m = shape
    dense, rng = dense_score(n, m, rank), np.random.default_rng(1)
    score, plan = dense.score(convert), np.exp(dense.matrix)
    tol = tolerance(dense) + ACCURACY[precision]
    R = rng.standard_normal((m, 5))
    found = host(streamed_triton.times(score, convert(R), precision))
    np.testing.assert_allclose(found, plan @ R, atol=tol * (plan @ abs(R)).max(initial=0.0))
    for delta_rank in (3, 20):
        delta_left, delta_right = (
            rng.standard_normal((n, delta_rank)),
            rng.standard_normal((m, delta_rank)),
        )
        found = host(
            streamed_triton.weighted_times(
                score, convert(delta_left), convert(delta_right), convert(R), precision
            )
        )
        weighted = plan * (delta_left @ delta_right.T)
        np.testing.assert_allclose(
            found, weighted @ R, atol=tol * (abs(weighted) @ abs(R)).max(initial=0.0)
        )


@pytest.mark.parametrize("precision", ACCURACY)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rank", RANKS_OF_COLUMNS)
def test_any_number_of_columns_of_any_size(columns: int, rank: int, precision: str) -> None:
    dense = dense_score(70, 85, rank)
    tol = tolerance(dense) + ACCURACY[precision]
    size = 10.0 ** np.linspace(-60, 60, columns)  # beyond the range of float32
    R = size * np.random.default_rng(2).standard_normal((85, columns))
    R[:, 0] = 0.0
    found = host(streamed_triton.times(dense.score(convert), convert(R), precision))
    np.testing.assert_allclose(found / size, (np.exp(dense.matrix) @ R) / size, atol=4.0 * tol)


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_huge_scores_neither_overflow_nor_lose_more_than_their_rounding(size: float) -> None:
    dense = dense_score(60, 140, 4, size=size)
    score, tol = dense.score(convert), tolerance(dense)
    R = np.random.default_rng(1).standard_normal((140, 3))
    unscaled = Dense(dense.left, dense.right, np.zeros(60), dense.column)
    sums = host(streamed_triton.log_row_sums(unscaled.score(convert)))
    np.testing.assert_allclose(sums, logsumexp(unscaled.matrix, axis=1), rtol=1e-14, atol=tol)
    np.testing.assert_allclose(
        host(streamed_triton.times(score, convert(R))), np.exp(dense.matrix) @ R, atol=10 * tol
    )


@pytest.mark.parametrize("precision", ACCURACY)
def test_a_constant_between_rows_and_columns_costs_no_digits(precision: str) -> None:
    dense = dense_score(60, 140, 4)
    R = np.random.default_rng(1).standard_normal((140, 3))
    expected = np.exp(dense.matrix) @ R
    dense.row += 1e5
    dense.column -= 1e5
    found = host(streamed_triton.times(dense.score(convert), convert(R), precision))
    np.testing.assert_allclose(found, expected, atol=4.0 * (1e-9 + ACCURACY[precision]))


@pytest.mark.parametrize("rank", [3, 12])
def test_large_scores_cost_no_digits_where_neighbouring_columns_are_alike(rank: int) -> None:
    """Columns in groups of 64 around middles far apart: terms of the score of 1e6, of which 0.1 is within a group."""
    rng = np.random.default_rng(3)
    middles = np.repeat(rng.standard_normal((3, rank)), 64, axis=0)
    left, right = (
        1e6 * rng.standard_normal((60, rank)),
        middles + 1e-7 * rng.standard_normal((192, rank)),
    )
    dense = Dense(left, right, np.zeros(60), 0.1 * rng.standard_normal(192))
    dense.row -= logsumexp(dense.matrix, axis=1)
    R = rng.standard_normal((192, 4))
    found = host(streamed_triton.times(dense.score(convert), convert(R), "mixed"))
    np.testing.assert_allclose(found, np.exp(dense.matrix) @ R, atol=4.0 * ACCURACY["mixed"])


def test_rows_and_columns_without_weight_have_no_mass() -> None:
    dense = dense_score(20, 300, 2)
    dense.column[:140] = -np.inf
    assert (host(streamed_triton.log_row_sums(dense.score(convert)))[9::10] == -np.inf).all()
    assert np.isfinite(host(streamed_triton.log_row_sums(dense.score(convert)))[:9]).all()
    found = host(streamed_triton.times(dense.score(convert).turned(), convert(np.ones((20, 2)))))
    assert (found[:140] == 0.0).all()
    nothing = Dense(dense.left, dense.right, np.zeros(20), np.full(300, -np.inf))
    assert (host(streamed_triton.log_row_sums(nothing.score(convert))) == -np.inf).all()


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")  # the interpreter says so
def test_what_is_not_a_number_is_not_hidden() -> None:
    dense = dense_score(20, 30, 2)
    dense.left[3, 1] = np.nan
    score, ones = dense.score(convert), convert(np.ones((30, 1)))
    for answer in (streamed_triton.log_row_sums(score), streamed_triton.times(score, ones)[:, 0]):
        np.testing.assert_array_equal(np.isnan(host(answer)), np.arange(20) == 3)


def test_arrays_need_not_lie_in_one_piece() -> None:
    dense = dense_score(20, 30, 2)
    score, R = dense.score(convert), np.random.default_rng(0).standard_normal((5, 30))
    apart = Score(score.left.T.contiguous().T, score.right.flip(0).flip(0), score.row, score.column)
    found = streamed_triton.times(apart, convert(R).T)
    np.testing.assert_allclose(host(found), np.exp(dense.matrix) @ R.T, atol=1e-12)


def test_the_same_arrays_give_the_same_answer() -> None:
    score, R = (
        dense_score(70, 300, 4).score(convert),
        convert(np.random.default_rng(0).standard_normal((300, 20))),
    )
    for precision in ACCURACY:
        first, again = (streamed_triton.times(score, R, precision) for _ in range(2))
        np.testing.assert_array_equal(host(first), host(again))
