"""What users pass in, as arrays that the rest can rely on; errors name the argument and say what is
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse

from condgrad.arrays import Array, Matrix, all_finite, is_torch, namespace


def floating(
    name: str, value: Any, *, ndim: int | None = None, with_infinity: bool = False
) -> Array:
    """A finite floating-point array from what a user passed; never a copy where none is needed.

    `with_infinity` allows +inf, which is a cost of what may not be.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: fill or drop the masked entries")
    if not array_api_compat.is_array_api_obj(value):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be an array of numbers, got {type(value).__name__}"
            ) from error
    elif is_torch(value):
        value = value.detach()
        if "sparse" in str(value.layout):
            raise TypeError(
                f"{name} must be a dense tensor, got one of layout {value.layout}: pass {name}.to_dense(), or a SciPy "
                "sparse matrix where data may be sparse"
            )
    xp = namespace(value)
    if xp.isdtype(value.dtype, "complex floating"):
        raise TypeError(f"{name} must be real, got dtype {value.dtype}")
    if not xp.isdtype(value.dtype, "real floating"):
        if not is_torch(value) and value.dtype.kind not in "biuO":
            raise TypeError(f"{name} must be an array of numbers, got dtype {value.dtype}")
        try:
            value = xp.astype(value, xp.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be an array of numbers, got dtype {value.dtype}"
            ) from error
    if value.dtype not in (xp.float32, xp.float64):
        value = xp.astype(value, xp.float32 if xp.finfo(value.dtype).bits < 32 else xp.float64)
    _check(name, value, ndim, with_infinity)
    return value


def returned(name: str, value: Any, x: Array) -> Array:
    """What a user's callable returned, as an array of the shape and kind of x."""
    if is_torch(x) != is_torch(value):
        if is_torch(value):
            raise TypeError(f"{name} must be a NumPy array, as x is, got a torch tensor")
        raise TypeError(f"{name} must be a torch tensor, as x is, got {type(value).__name__}")
    if not is_torch(value):
        kind = type(value).__name__
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise TypeError(f"{name} must be an array of real numbers, got {kind}") from error
        if value.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} must be an array of real numbers, got {kind} of dtype {value.dtype}"
            )
    if tuple(value.shape) != tuple(x.shape):
        raise ValueError(
            f"{name} must have the shape of x, {tuple(x.shape)}, got {tuple(value.shape)}"
        )
    return value if value.dtype == x.dtype else namespace(x).astype(value, x.dtype)


def scalar(name: str, value: Any) -> float:
    """What a user's callable returned, as one number."""
    shape = tuple(getattr(value, "shape", ()))
    if math.prod(shape) != 1:
        raise ValueError(f"{name} must be one number, got an array of shape {shape}")
    try:
        return float(value.item() if shape else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be one real number, got {value!r}") from error


def call_with_autograd(call: Callable[[Array], Any], x: Array) -> Any:
    """What `call` returns, with the gradient added where it returned a differentiable scalar alone."""
    import torch

    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        result = call(leaf)
    if not is_torch(result):
        if isinstance(result, tuple | list):
            return tuple(part.detach() if is_torch(part) else part for part in result)
        return result
    if result.numel() != 1 or not result.requires_grad:
        raise TypeError(
            "a torch function must return one scalar that depends on x, "
            f"got shape {tuple(result.shape)} with requires_grad={result.requires_grad}"
        )
    (gradient,) = torch.autograd.grad(result.reshape(()), leaf)
    return result.detach(), gradient


def data_matrix(name: str, value: Any) -> Matrix:
    """A finite two-dimensional data matrix, dense, or SciPy sparse with each entry once."""
    if not scipy.sparse.issparse(value):
        return floating(name, value, ndim=2)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real, got dtype {value.dtype}")
    if value.dtype not in (np.float32, np.float64):
        value = value.astype(np.float64)
    if value.format not in ("csr", "csc"):
        value = value.tocsr()
    value = each_entry_once(value)
    _check(name, value, 2)
    return value


def each_entry_once(K: Matrix) -> Matrix:
    """K, with the parts of each entry added up where it is sparse and has entries in parts.

    Squares of the parts, as in norms, would miss what the square of their sum is.
    """
    if scipy.sparse.issparse(K) and not K.has_canonical_format:
        K = K.copy()
        K.sum_duplicates()
    return K


def _check(name: str, value: Matrix, ndim: int | None, with_infinity: bool = False) -> None:
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {tuple(value.shape)}")
    if all_finite(value):
        return
    if not with_infinity:
        raise ValueError(f"{name} must be finite, got NaN or infinite entries")
    xp = namespace(value)
    if bool(xp.any(xp.isnan(value) | (value == -math.inf))):
        raise ValueError(
            f"{name} must be finite, or +inf for pairs that may not be matched, got NaN or -inf"
        )
