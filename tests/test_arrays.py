"""The operations of the one file that knows of backends: NumPy and torch, float32 and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from condgrad import arrays
from condgrad.arrays import inputs

Kind = Callable[[Any], Any]


@pytest.fixture(params=["numpy-float32", "numpy-float64", "torch-float32", "torch-float64"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """A maker of arrays of one library and precision."""
    library, dtype = request.param.split("-")
    if library == "numpy":
        return lambda values: np.array(values, dtype=dtype)
    torch = request.getfixturevalue("torch")
    return lambda values: torch.tensor(np.asarray(values).tolist(), dtype=getattr(torch, dtype))


def _numbers(*shape: int) -> np.ndarray:
    """Numbers that float32 holds exactly, and whose products it does too."""
    return np.random.default_rng(0).integers(-8, 9, shape) / 4.0


# --- sums that decide something ---


def _running_sum(products: np.ndarray) -> float:
    """What adding up one by one in float32 gives."""
    return float(np.cumsum(products, dtype=np.float32)[-1])


@pytest.fixture
def long_vector() -> np.ndarray:
    """A million tenths in float32: adding them one by one loses the second digit."""
    return np.full(1_000_000, 0.1, dtype=np.float32)


def _exact_square(x: np.ndarray) -> float:
    return float(len(x) * float(x[0]) ** 2)


def test_naive_sums_are_off(long_vector: np.ndarray) -> None:
    """The case is hard: more than 1e-4 is lost, so the tests below say something."""
    naive = _running_sum(long_vector * long_vector)
    assert abs(naive / _exact_square(long_vector) - 1.0) > 1e-4


def test_sums_accumulate_in_double(library: Any, long_vector: np.ndarray) -> None:
    """dot and total of float32 data carry float64 rounding only."""
    x = library.asarray(long_vector)
    exact = _exact_square(long_vector)
    assert arrays.total(x) == pytest.approx(1e6 * float(long_vector[0]), rel=1e-10)
    assert arrays.dot(x, x) == pytest.approx(exact, rel=1e-10)


def test_slopes_and_curvatures_accumulate_in_double(library: Any, long_vector: np.ndarray) -> None:
    """`dots` and `gram` are slopes and curvatures of a restriction: they decide the step."""
    x = library.asarray(long_vector)
    exact = _exact_square(long_vector)
    assert arrays.dots(x[None], x) == pytest.approx([exact], rel=1e-9)
    assert arrays.gram(x[None]) == pytest.approx(np.array([[exact]]), rel=1e-9)


def test_cancelling_products_keep_their_difference(kind: Kind) -> None:
    """4096^2 + 1 - 4096^2, where float32 cannot hold the first sum."""
    x, y = kind([4096.0, 1.0, 4096.0]), kind([4096.0, 1.0, -4096.0])
    assert arrays.dot(x, y) == 1.0
    assert arrays.total(kind([16777216.0, 1.0, -16777216.0])) == 1.0


def test_dot_and_total_over_all_entries(kind: Kind) -> None:
    """Arrays of any shape, as Python floats; two precisions may meet."""
    X, Y = _numbers(3, 4), _numbers(4, 3).T
    for found, exact in (
        (arrays.dot(kind(X), kind(Y)), (X * Y).sum()),
        (arrays.dot(kind(X), arrays.double(kind(Y))), (X * Y).sum()),
        (arrays.dot(kind(X).T, kind(Y).T), (X * Y).sum()),
        (arrays.total(kind(X)), X.sum()),
        (arrays.total(kind(X)[:, ::2]), X[:, ::2].sum()),
    ):
        assert type(found) is float
        assert found == exact


# --- small algebra ---


def test_dots_and_gram_are_on_the_host(kind: Kind) -> None:
    """Inner products with the rows, of any shape, as float64 NumPy arrays."""
    rows, x, weights = _numbers(3, 2, 4), _numbers(2, 4), abs(_numbers(2, 4))
    flat = rows.reshape(3, -1)
    for found, exact in (
        (arrays.dots(kind(rows), kind(x)), flat @ x.ravel()),
        (arrays.gram(kind(rows)), flat @ flat.T),
        (arrays.gram(kind(rows), kind(weights)), (flat * weights.ravel()) @ flat.T),
    ):
        assert type(found) is np.ndarray
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, exact)


def test_combine_and_stack_stay_in_kind(kind: Kind) -> None:
    """Weighted sums of one and of several rows, in the library and precision of the rows."""
    rows = _numbers(3, 2, 4)
    for k in (1, 3):
        stacked = arrays.stack([kind(row) for row in rows[:k]])
        np.testing.assert_array_equal(arrays.host(stacked), rows[:k])
        a = np.array([0.5, -2.0, 0.25])[:k]
        mixed = arrays.combine(a, stacked)
        assert type(mixed) is type(stacked)
        assert mixed.dtype == stacked.dtype
        np.testing.assert_array_equal(arrays.host(mixed), np.tensordot(a, rows[:k], axes=1))


def test_at_least_is_a_maximum(kind: Kind) -> None:
    """Entry by entry, in kind, the argument left alone, NaN kept."""
    x = kind([-1.0, 0.0, 2.0, float("nan")])
    clipped = arrays.at_least(0.5, x)
    assert clipped.dtype == x.dtype
    np.testing.assert_array_equal(arrays.host(clipped), [0.5, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(arrays.host(x), [-1.0, 0.0, 2.0, np.nan])


def test_log_or_least_never_meets_zero(kind: Kind) -> None:
    """log x, and at 0 the log of the smallest normal number, so that 0 log 0 = 0 without a warning."""
    x = kind([0.0, 1.0, 4.0])
    found = arrays.log_or_least(x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(
        arrays.host(found), np.log([arrays.smallest(x), 1.0, 4.0]), rtol=1e-6
    )


def test_matrix_like_multiplies(kind: Kind) -> None:
    """Dense or sparse, whatever its precision, a matrix becomes one that multiplies arrays of the kind of x."""
    K, x = _numbers(4, 3), kind(_numbers(3, 2))
    for matrix in (K, K.astype(np.float32), scipy.sparse.csr_array(K), scipy.sparse.csc_array(K)):
        found = arrays.matrix_like(matrix, x) @ x
        assert type(found) is type(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(arrays.host(found), K @ _numbers(3, 2))


def test_double_host_and_like(kind: Kind) -> None:
    """There and back: float64 on the host, and the kind of another array."""
    x = kind(_numbers(2, 3))
    assert arrays.double(x).dtype == arrays.namespace(x).float64
    assert type(arrays.double(x)) is type(x)
    back = arrays.like(arrays.host(x), x)
    assert type(back) is type(x)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(arrays.host(back), _numbers(2, 3))


def test_double_and_host_do_not_copy_what_is_right() -> None:
    """A float64 NumPy array is handed through."""
    x = np.ones(3)
    assert arrays.double(x) is x
    assert arrays.host(x) is x


def test_host_takes_tensors_with_gradients(torch: Any) -> None:
    """A tensor that is part of a graph comes back as plain numbers."""
    np.testing.assert_array_equal(arrays.host(torch.ones(2, requires_grad=True)), [1.0, 1.0])


def test_precision_and_smallest(kind: Kind) -> None:
    """The numbers of the dtype, by NumPy's account."""
    x = kind([1.0])
    info = np.finfo(np.float32 if "float32" in str(x.dtype) else np.float64)
    assert arrays.precision(x) == float(info.eps)
    assert arrays.smallest(x) == float(info.smallest_normal)


def test_all_finite(kind: Kind) -> None:
    """NaN and both infinities are noticed, in dense and in sparse data."""
    assert arrays.all_finite(kind([1.0, -2.0]))
    for bad in (float("nan"), float("inf"), -float("inf")):
        assert not arrays.all_finite(kind([1.0, bad]))
        assert not arrays.all_finite(scipy.sparse.csr_array([[0.0, bad]]))
    assert arrays.all_finite(scipy.sparse.csc_array([[0.0, 1.0]]))


# --- products ---


@pytest.mark.parametrize("matrix", ["numpy", "torch", "csr", "csc"])
@pytest.mark.parametrize("narrow", ["matrix", "vector", "neither"])
def test_product_is_in_the_wider_precision(
    matrix: str, narrow: str, request: pytest.FixtureRequest
) -> None:
    """K @ x and its dtype, for every pair of precisions."""
    K = _numbers(4, 3).astype(np.float32 if narrow == "matrix" else np.float64)
    x = _numbers(3).astype(np.float32 if narrow == "vector" else np.float64)
    library = request.getfixturevalue("torch") if matrix == "torch" else np
    sparse = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}
    found = arrays.product(sparse.get(matrix, library.asarray)(K), library.asarray(x))
    np.testing.assert_array_equal(arrays.host(found), _numbers(4, 3) @ _numbers(3))
    assert str(found.dtype).endswith("float64")


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 4), (4, 1), (1, 1)])
def test_spectral_norm(kind: Kind, shape: tuple[int, int]) -> None:
    """The largest singular value, tall or wide, dense or sparse."""
    K = _numbers(*shape)
    largest = np.linalg.svd(K, compute_uv=False)[0]
    found = arrays.spectral_norm(kind(K))
    assert type(found) is float
    assert found == pytest.approx(largest, rel=1e-6)
    assert arrays.spectral_norm(K) == pytest.approx(largest, rel=1e-13)
    assert arrays.spectral_norm(scipy.sparse.csr_array(K)) == pytest.approx(largest, rel=1e-13)


def test_spectral_norm_of_nothing() -> None:
    """No rows, no columns, or only zeros."""
    for shape in ((0, 3), (3, 0), (2, 3)):
        assert arrays.spectral_norm(np.zeros(shape)) == 0.0


# --- spaces ---


def test_space_holds_its_own(kind: Kind) -> None:
    """Shape, precision and library of x; other precisions are converted, other shapes refused."""
    x = kind(_numbers(2, 3))
    space = arrays.Space.of(x)
    assert space.shape == (2, 3)
    assert arrays.Space.of(x, shape=(4,)).full(2.5).shape == (4,)
    filled = space.full(2.5)
    assert type(filled) is type(x)
    assert filled.dtype == x.dtype
    np.testing.assert_array_equal(arrays.host(filled), np.full((2, 3), 2.5))
    assert space.hold(x) is x
    assert space.hold(arrays.double(x)).dtype == x.dtype
    with pytest.raises(ValueError, match=r"shape \(3,\) where \(2, 3\) is needed"):
        space.hold(kind([1.0, 2.0, 3.0]))


def test_space_refuses_the_other_library(torch: Any) -> None:
    """Arrays of two libraries never meet by accident."""
    with pytest.raises(TypeError, match="where NumPy is needed"):
        arrays.Space.of(np.ones(2)).hold(torch.ones(2))
    with pytest.raises(TypeError, match="where torch is needed"):
        arrays.Space.of(torch.ones(2)).hold(np.ones(2))


def test_space_of_sparse_data() -> None:
    """Sparse data have dense variables."""
    space = arrays.Space.of(scipy.sparse.csr_array(np.eye(3, dtype=np.float32)), shape=(3,))
    assert type(space.full(0.0)) is np.ndarray
    assert space.full(0.0).dtype == np.float32


# --- what a user passes ---


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([1, 2], "float64"),
        ((1.5, 2.5), "float64"),
        (np.array([1, 2]), "float64"),
        (np.array([True, False]), "float64"),
        (np.array([1.0, 2.0], dtype=np.float16), "float32"),
        (np.array([1.0, 2.0], dtype=np.longdouble), "float64"),
        (np.array([1.0, 2.0], dtype=np.float32), "float32"),
    ],
)
def test_floating_makes_arrays_of_numbers(given: Any, dtype: str) -> None:
    """Lists, whole numbers, truth values, odd precisions."""
    found = inputs.floating("x", given)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, np.asarray(given, dtype=np.float64))


def test_floating_takes_tensors(torch: Any) -> None:
    """Whole numbers and short floats become float64 and float32; graphs are left behind."""
    assert inputs.floating("x", torch.tensor([1, 2])).dtype == torch.float64
    assert inputs.floating("x", torch.tensor([1.0], dtype=torch.bfloat16)).dtype == torch.float32
    assert not inputs.floating("x", torch.ones(2, requires_grad=True)).requires_grad


def test_floating_does_not_copy(kind: Kind) -> None:
    """What is right already shares its memory."""
    x = kind([1.0, 2.0])
    found = inputs.floating("x", x)
    x[0] = 5.0
    assert float(found[0]) == 5.0


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ("abc", TypeError, "weights must be an array of numbers"),
        ([[1.0], [2.0, 3.0]], TypeError, "weights must be an array of numbers"),
        (np.array(["a", "b"]), TypeError, "weights must be an array of numbers"),
        (np.array([1j]), TypeError, "weights must be real"),
        ([1.0, float("nan")], ValueError, "weights must be finite"),
        ([[1.0, 2.0]], ValueError, r"weights must have 1 dimension\(s\), got shape \(1, 2\)"),
    ],
)
def test_floating_refuses_by_name(given: Any, error: Any, sentence: str) -> None:
    """The sentence names the argument and what is wrong with it."""
    with pytest.raises(error, match=sentence):
        inputs.floating("weights", given, ndim=1)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_data_matrix_takes_every_sparse_format(form: str) -> None:
    """Formats with fast products stay, others become CSR; whole numbers become float64."""
    whole = scipy.sparse.csr_array(np.array([[0, 2], [3, 0]])).asformat(form)
    found = inputs.data_matrix("A", whole)
    assert found.format == (form if form in ("csr", "csc") else "csr")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), [[0.0, 2.0], [3.0, 0.0]])
    assert inputs.data_matrix("A", whole.astype(np.float32)).dtype == np.float32


def test_data_matrix_refuses_by_name() -> None:
    """Vectors, and NaN in sparse data."""
    with pytest.raises(ValueError, match=r"A must have 2 dimension"):
        inputs.data_matrix("A", np.ones(3))
    with pytest.raises(ValueError, match="A must be finite"):
        inputs.data_matrix("A", scipy.sparse.csr_array([[float("nan"), 0.0]]))


@pytest.mark.parametrize("width", [1, 20, 1000])
@pytest.mark.parametrize("shape", [(3, 4), (2000, 900), (700, 40_000)])
def test_row_blocks_are_all_rows(shape: tuple[int, int], width: int) -> None:
    """Each once, in order; as many at a time as factors of this width are multiplied well with."""
    x = np.broadcast_to(0.0, shape)
    blocks = arrays.row_blocks(x, width=width)
    rows = np.arange(shape[0])
    np.testing.assert_array_equal(np.concatenate([rows[block] for block in blocks]), rows)
    assert len(rows[blocks[0]]) >= min(shape[0], width, 256)
