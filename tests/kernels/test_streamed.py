"""Products with a matrix that is never formed, against the dense matrix in float64."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from scipy.special import logsumexp, xlogy

from condgrad.arrays import host
from condgrad.kernels import streamed, streamed_numba, streamed_tiles
from condgrad.kernels.streamed import Score

SHAPES = [(1, 1), (3, 200), (0, 3), (5, 0), (130, 70), (129, 4099)]
Convert = Callable[[Any], Any]


@dataclass
class Dense:
    """A score in NumPy, formed."""

    left: Any
    right: Any
    row: Any
    column: Any

    @property
    def matrix(self) -> Any:
        return self.left @ self.right.T + self.column[None, :] + self.row[:, None]

    def score(self, convert: Convert) -> Score:
        return Score(*(convert(part) for part in (self.left, self.right, self.row, self.column)))


def dense_score(n: int, m: int, rank: int, *, size: float = 1.0, seed: int = 0) -> Dense:
    """A plan: row sums are 1, `size` is about the largest score; every tenth row and column has no weight."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((n, rank)) * size / max(1, rank) ** 0.5
    right, column = rng.standard_normal((m, rank)), size * rng.standard_normal(m)
    column[9::10] = -np.inf
    row = -logsumexp(left @ right.T + column, axis=1) if m else np.zeros(n)
    row[9::10] = -np.inf
    return Dense(left, right, row, column)


def tolerance(dense: Dense) -> float:
    """What rounding may do to exp(score) for scores made of numbers this large."""
    parts = [abs(dense.left) @ abs(dense.right).T, abs(dense.column), abs(dense.row)]
    return 1e-14 * max(100.0, *(float(part[np.isfinite(part)].max(initial=0.0)) for part in parts))


@pytest.fixture(params=["numpy", "torch"])
def convert(request: Any) -> Convert:
    """From NumPy to the library under test."""
    if request.param == "numpy":
        return np.asarray
    return request.getfixturevalue("torch").asarray


@pytest.fixture(params=[streamed_tiles, streamed_numba], ids=["tiles", "numba"])
def backend(request: Any) -> ModuleType:
    """The plain reference, and the compiled kernels."""
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [0, 1, 4, 70])
def test_all_products_are_those_of_the_dense_matrix(
    shape: tuple[int, int], rank: int, convert: Convert, backend: ModuleType
) -> None:
    n, m = shape
    dense, rng = dense_score(n, m, rank), np.random.default_rng(1)
    score, plan, tol = dense.score(convert), np.exp(dense.matrix), tolerance(dense)
    R = rng.standard_normal((m, 5))
    np.testing.assert_allclose(
        host(backend.log_row_sums(score)), logsumexp(dense.matrix, axis=1), rtol=tol, atol=tol
    )
    np.testing.assert_allclose(
        host(backend.times(score, convert(R))),
        plan @ R,
        rtol=tol,
        atol=tol * abs(R).max(initial=0.0),
    )
    delta_left, delta_right = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    weighted = plan * (delta_left @ delta_right.T)
    np.testing.assert_allclose(
        host(backend.weighted_times(score, convert(delta_left), convert(delta_right), convert(R))),
        weighted @ R,
        rtol=tol,
        atol=tol * (abs(weighted) @ abs(R)).max(initial=0.0),
    )
    kept, row_rest, column_rest = (
        rng.random(m),
        0.1 * rng.random(n),
        rng.random(m) * (rng.random(m) < 0.5),
    )
    rounded = plan * kept + row_rest[:, None] * column_rest
    found = backend.entropy_row_sums(score, convert(kept), convert(row_rest), convert(column_rest))
    entropies = xlogy(rounded, rounded)
    np.testing.assert_allclose(
        host(found), entropies.sum(1), rtol=tol, atol=tol * abs(entropies).sum(1).max(initial=0.0)
    )


@pytest.mark.parametrize("columns", [1, 16, 17, 100])
def test_any_number_of_columns(columns: int, convert: Convert, backend: ModuleType) -> None:
    dense = dense_score(90, 85, 4)
    R = np.random.default_rng(2).standard_normal((85, columns))
    found = host(backend.times(dense.score(convert), convert(R)))
    np.testing.assert_allclose(
        found, np.exp(dense.matrix) @ R, rtol=tolerance(dense), atol=tolerance(dense)
    )


def test_long_inner_products(convert: Convert, backend: ModuleType) -> None:
    dense = dense_score(70, 300, 1600)
    R, tol = np.random.default_rng(2).standard_normal((300, 3)), tolerance(dense)
    found = host(backend.times(dense.score(convert), convert(R)))
    np.testing.assert_allclose(found, np.exp(dense.matrix) @ R, rtol=tol, atol=tol)


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_huge_scores_neither_overflow_nor_lose_more_than_their_rounding(
    size: float, convert: Convert, backend: ModuleType
) -> None:
    dense = dense_score(60, 110, 4, size=size)
    score, tol = dense.score(convert), tolerance(dense)
    R = np.random.default_rng(1).standard_normal((110, 3))
    unscaled = Dense(dense.left, dense.right, np.zeros(60), dense.column)
    sums = host(backend.log_row_sums(unscaled.score(convert)))
    np.testing.assert_allclose(sums, logsumexp(unscaled.matrix, axis=1), rtol=1e-14, atol=tol)
    np.testing.assert_allclose(
        host(backend.times(score, convert(R))), np.exp(dense.matrix) @ R, atol=10 * tol
    )


def test_rows_and_columns_without_weight_have_no_mass(
    convert: Convert, backend: ModuleType
) -> None:
    dense = dense_score(20, 30, 2)
    assert (host(backend.log_row_sums(dense.score(convert)))[9::10] == -np.inf).all()
    turned = dense.score(convert).turned()
    assert (host(backend.times(turned, convert(np.ones((20, 2)))))[9::10] == 0.0).all()
    nothing = Dense(dense.left, dense.right, np.zeros(20), np.full(30, -np.inf))
    assert (host(backend.log_row_sums(nothing.score(convert))) == -np.inf).all()


def test_what_is_not_a_number_is_not_hidden(convert: Convert, backend: ModuleType) -> None:
    dense = dense_score(20, 30, 2)
    dense.left[3, 1] = np.nan
    score = dense.score(convert)
    ones = convert(np.ones((30, 1)))
    found = [backend.log_row_sums(score), backend.times(score, ones)[:, 0]]
    found += [backend.weighted_times(score, convert(np.ones((20, 1))), ones, ones)[:, 0]]
    for answer in found:
        np.testing.assert_array_equal(np.isnan(host(answer)), np.arange(20) == 3)


def test_a_row_without_mass_so_far_takes_what_comes_later(
    convert: Convert, backend: ModuleType
) -> None:
    dense = dense_score(7, 5000, 2)
    dense.column[:4200] = -np.inf
    expected = logsumexp(dense.left @ dense.right.T + dense.column, axis=1) + dense.row
    np.testing.assert_allclose(
        host(backend.log_row_sums(dense.score(convert))), expected, rtol=1e-12, atol=1e-12
    )


def test_answers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = dense_score(1030, 530, 4)
    score, R = dense.score(np.asarray), np.random.default_rng(1).standard_normal((530, 7))
    alone = streamed_numba.times(score, R)
    used: list[int] = []
    pool = streamed_numba.ThreadPoolExecutor
    monkeypatch.setattr(
        streamed_numba, "ThreadPoolExecutor", lambda count: used.append(count) or pool(count)
    )
    monkeypatch.setattr(streamed_numba, "threads", lambda: 3)
    np.testing.assert_array_equal(streamed_numba.times(score, R), alone)
    assert used == [3]


@pytest.mark.parametrize(("setting", "most"), [("1", 1), ("1,2", 1), ("nonsense", 999), ("0", 999)])
def test_threads_are_as_many_as_the_environment_allows(
    setting: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert streamed_numba.threads() == min(most, numba.get_num_threads())


def test_turned_is_the_transposed_matrix(convert: Convert) -> None:
    dense = dense_score(31, 17, 3)
    R = np.random.default_rng(1).standard_normal((31, 4))
    found = host(streamed.times(dense.score(convert).turned(), convert(R)))
    np.testing.assert_allclose(found, np.exp(dense.matrix).T @ R, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 4, 7, 70])
@pytest.mark.parametrize("shape", [(61, 47), (300, 270)])
def test_an_entry_is_the_same_in_every_product(rank: int, shape: tuple[int, int]) -> None:
    """Though the terms of its score are millions: in products, their transposes, rows."""
    rng, (n, m) = np.random.default_rng(0), shape
    left, right = 3e3 * rng.standard_normal((n, rank)), 3e3 * rng.standard_normal((m, rank))
    row = rng.standard_normal(n) - np.max(left @ right.T, axis=1)
    score = Score(left, right, row, rng.standard_normal(m))
    entries = streamed.rows(score, np.arange(n))
    assert entries.max() > 1e-3
    np.testing.assert_array_equal(streamed.rows(score, slice(5, 9)), entries[5:9])
    np.testing.assert_array_equal(streamed.times(score, np.eye(m)), entries)
    np.testing.assert_array_equal(streamed.times(score.turned(), np.eye(n)).T, entries)
    exact = np.exp(row[:, None] + score.column + left @ right.T)
    np.testing.assert_allclose(entries, exact, rtol=1e-6, atol=1e-300)


def test_rows_are_those_of_the_dense_matrix(convert: Convert) -> None:
    dense = dense_score(31, 17, 3)
    found = host(streamed.rows(dense.score(convert), convert(np.array([3, 30, 9]))))
    np.testing.assert_allclose(found, np.exp(dense.matrix)[[3, 30, 9]], rtol=1e-12)


def test_single_precision_input_is_computed_in_double(convert: Convert) -> None:
    dense = dense_score(20, 30, 2)
    R = np.ones((30, 1), dtype=np.float32)
    narrow = Score(
        *(convert(np.float32(p)) for p in (dense.left, dense.right, dense.row, dense.column))
    )
    wide = Score(
        *(
            convert(np.float64(host(p)))
            for p in (narrow.left, narrow.right, narrow.row, narrow.column)
        )
    )
    found, expected = (
        streamed.times(narrow, convert(R)),
        streamed.times(wide, convert(np.float64(R))),
    )
    np.testing.assert_array_equal(host(found), host(expected))
    assert str(found.dtype).endswith("float64")


def test_what_does_not_fit_is_named() -> None:
    dense = dense_score(20, 30, 2)
    score = dense.score(np.asarray)
    with pytest.raises(ValueError, match=r"left \(n, r\)"):
        Score(dense.left, dense.right[:, :1], dense.row, dense.column)
    with pytest.raises(ValueError, match=r"R must be a matrix of 30 rows, got shape \(20, 1\)"):
        streamed.times(score, np.ones((20, 1)))
    with pytest.raises(ValueError, match="precision must be one of float64, mixed, got 'half'"):
        streamed.times(score, np.ones((30, 1)), precision="half")
    with pytest.raises(ValueError, match="2 columns and must have as many as delta_right, 3"):
        streamed.weighted_times(score, np.ones((20, 2)), np.ones((30, 3)), np.ones((30, 1)))
    with pytest.raises(ValueError, match="kept must be a vector of 30 entries"):
        streamed.entropy_row_sums(score, np.ones(20), np.ones(20), np.ones(30))


def test_importing_the_interface_loads_no_compiler() -> None:
    check = "import sys, condgrad.kernels.streamed; print({'numba', 'triton', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("off", [0.0, 3.0, 200.0, 1e4])
def test_row_sums_from_numbers_near_them(off: float) -> None:
    """Whether the numbers are near or far off, the answer is the same."""
    rng = np.random.default_rng(0)
    score = Score(*(3.0 * rng.standard_normal(shape) for shape in ((40, 3), (30, 3), 40, 30)))
    expected = streamed.log_row_sums(score)
    near = expected + off * np.linspace(-1.0, 1.0, 40)
    np.testing.assert_allclose(
        streamed.log_row_sums(score, near=near), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("spread", [1.0, 1e3])
def test_one_column_of_many_tells_where_sums_are(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums and means are those of the dense matrix, also where the columns that were looked at mislead by far."""
    monkeypatch.setattr(streamed, "SAMPLED_FROM", 8)
    dense, R = dense_score(20, 40, 3), np.random.default_rng(2).standard_normal((40, 2))
    dense.row[:] = 0.0
    dense.column[1] += spread  # of 16 columns the first alone is looked at
    log_sums, means = streamed.row_means(dense.score(np.asarray), R)
    expected = logsumexp(dense.matrix, axis=1)
    np.testing.assert_allclose(log_sums, expected, rtol=1e-12)
    np.testing.assert_allclose(
        means, np.exp(dense.matrix - expected[:, None]) @ R, rtol=1e-10, atol=1e-12
    )
