"""The library and the device that an array belongs to: NumPy, torch on a CPU or a GPU."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
import scipy  # loads its linalg when that is first asked for
import scipy.sparse

Array: TypeAlias = Any
"""A NumPy array or a torch tensor."""
Tensor: TypeAlias = Any
"""A torch tensor."""

FLOAT64 = np.dtype(np.float64)
"""float64 as a dtype. Comparing with it takes a tenth of the time of comparing with the type."""


Matrix: TypeAlias = Any
"""A two-dimensional array, or a SciPy sparse matrix."""


Vector: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
"""A small float64 vector on the host: weights of a few points."""


def namespace(x: Array) -> Any:
    """The array API namespace of x."""
    if type(x) is np.ndarray:
        return numpy_namespace
    return array_api_compat.array_namespace(x)


def zeros(like: Array, *shape: int) -> Array:
    """Zeros in float64, of the library and on the device of another array."""
    xp = namespace(like)
    return xp.zeros(shape, dtype=xp.float64, device=array_api_compat.device(like))


def is_torch(x: object) -> bool:
    return type(x) is not np.ndarray and array_api_compat.is_torch_array(x)


def is_dask(x: object) -> bool:
    """Whether it is a Dask collection; asked without loading Dask, which whoever has one did."""
    loaded = sys.modules.get("dask")
    return loaded is not None and loaded.is_dask_collection(x)


def is_formed(x: object) -> bool:
    """Whether x has entries to look at: a plan that is only multiplied with says that it has none."""
    return getattr(x, "is_formed", True)


def on_device(x: Array) -> bool:
    """Whether x lives on an accelerator."""
    return is_torch(x) and x.device.type != "cpu"


@dataclass(frozen=True, slots=True)
class Space:
    """What the variable looks like: its shape, precision, library and device."""

    shape: tuple[int, ...]
    xp: Any
    dtype: Any
    device: Any

    @classmethod
    def of(cls, x: Array, shape: tuple[int, ...] | None = None) -> Space:
        """The space of x, or of arrays of another shape made of the same stuff."""
        if scipy.sparse.issparse(x):
            return cls(shape or x.shape, numpy_namespace, x.dtype, "cpu")
        if type(x) is np.ndarray:
            return cls(x.shape if shape is None else shape, numpy_namespace, x.dtype, "cpu")
        return cls(
            tuple(x.shape) if shape is None else shape,
            namespace(x),
            x.dtype,
            array_api_compat.device(x),
        )

    def __reduce__(self) -> Any:  # a module cannot be pickled, its name can
        return _space_again, (self.shape, self.xp.__name__, self.dtype, self.device)

    @property
    def unit(self) -> float:
        """The rounding unit of its precision."""
        return (
            sys.float_info.epsilon
            if self.dtype == FLOAT64
            else float(self.xp.finfo(self.dtype).eps)
        )

    @property
    def smallest(self) -> float:
        """The smallest positive normal number of its precision."""
        return float(self.xp.finfo(self.dtype).smallest_normal)

    @property
    def library(self) -> str:
        return "torch" if "torch" in self.xp.__name__ else "NumPy"

    def full(self, fill: float) -> Array:
        if self.xp is numpy_namespace:  # zeros come without a pass over them
            return (
                np.zeros(self.shape, self.dtype)
                if fill == 0.0
                else np.full(self.shape, fill, self.dtype)
            )
        return self.xp.full(self.shape, fill, dtype=self.dtype, device=self.device)

    def hold(self, x: Array) -> Array:
        """x in this space's precision; an error if it is of another library, shape or device."""
        if namespace(x) is not self.xp:
            raise TypeError(f"a {Space.of(x).library} array where {self.library} is needed")
        if tuple(x.shape) != self.shape:
            raise ValueError(f"shape {tuple(x.shape)} where {self.shape} is needed")
        if array_api_compat.device(x) != self.device:
            raise ValueError(
                f"an array on {array_api_compat.device(x)} where {self.device} is needed"
            )
        return x if x.dtype == self.dtype else self.xp.astype(x, self.dtype)


def _space_again(shape: tuple[int, ...], library: str, dtype: Any, device: Any) -> Space:
    return Space(shape, importlib.import_module(library), dtype, device)


def double(x: Array) -> Array:
    """x in float64."""
    if type(x) is np.ndarray:
        return x if x.dtype == FLOAT64 else x.astype(np.float64)
    xp = namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def for_kernels(x: Array) -> Array:
    """x with its rows one after the other and writable: for arrays of another kind, kernels would
    be compiled again.
    """
    return x if x.flags.carray else np.require(x, requirements=("C", "W"))


def host(x: Array) -> Any:
    """x as a float64 NumPy array."""
    if type(x) is np.ndarray:
        return x if x.dtype == FLOAT64 else x.astype(np.float64)
    return np.asarray(to_numpy(x), dtype=np.float64)


def to_numpy(x: Array) -> Any:
    """x as a NumPy array of its own precision."""
    return x.detach().cpu().numpy() if is_torch(x) else np.asarray(x)


def double_like(values: Array, x: Array) -> Array:
    """Values in float64, in the library and on the device of x."""
    xp = namespace(x)
    return xp.asarray(values, dtype=xp.float64, device=array_api_compat.device(x))


def standard_normal(shape: tuple[int, ...], like_this: Array, *, seed: int) -> Array:
    """Normal numbers in float64, the same each time, made on the device of another array."""
    if not on_device(like_this):
        return double_like(np.random.default_rng(seed).standard_normal(shape), like_this)
    import torch

    generator = torch.Generator(like_this.device).manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, device=like_this.device, generator=generator)


def detached(x: Array) -> Array:
    """x without autograd's history."""
    return x.detach() if is_torch(x) else x


def copied(x: Array) -> Array:
    return namespace(x).asarray(x, copy=True)


def like(values: Array, x: Array) -> Array:
    """Host values as an array of the kind of x."""
    if type(x) is np.ndarray:
        return np.asarray(values, x.dtype)
    return namespace(x).asarray(values, dtype=x.dtype, device=array_api_compat.device(x))


def precision(x: Array) -> float:
    """The rounding unit of x's dtype."""
    return sys.float_info.epsilon if x.dtype == FLOAT64 else float(namespace(x).finfo(x.dtype).eps)


def smallest(x: Array) -> float:
    """The smallest positive normal number of x's dtype: what log may be taken of."""
    if x.dtype == FLOAT64:
        return sys.float_info.min
    return float(namespace(x).finfo(x.dtype).smallest_normal)
