"""Continue where an earlier run ended: a digest (checksum) of the problem, and checkpoints.

A lower bound is a proof about one problem. So a run uses the bound, the memory and the trace of an
earlier run only if both solve the same problem. This is so if their digests agree: a digest covers
f, g, the set and all their data. Otherwise the earlier point is a good start and nothing more.
Functions of the user's own have no digest, because nobody can see what they compute.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse

from condgrad.arrays import Array, Space, is_sparse_tensor, is_torch, to_numpy
from condgrad.problem import Simple, Smooth
from condgrad.result import Result, load

FREE_BYTES = 200_000
"""Up to this size, data always get a digest, since it takes no time."""
BYTES_PER_SECOND = 5e7
"""A run that took s seconds gets a digest if its data have at most s times this many bytes. Then
the digest takes a few hundredths of the time of the run.
"""


class NoDigestError(Exception):
    """A part of the problem has no digest, because it cannot be told from other parts like it."""


def digest(f: Smooth, g: Simple) -> str | None:
    """A digest that tells a problem from all others. None if a part of the problem has none."""
    whole = hashlib.blake2b(digest_size=16)
    try:
        for leaf in _leaves((f, g)):
            if isinstance(leaf, bytes):
                whole.update(leaf)
            else:
                whole.update(np.ascontiguousarray(to_numpy(leaf)).reshape(-1).data)
    except NoDigestError:
        return None
    return whole.hexdigest()


def cheap_digest(f: Smooth, g: Simple, seconds: float) -> str | None:
    """The digest, if computing it takes only a small part of the seconds that a run took."""
    try:
        size = sum(
            len(leaf) if isinstance(leaf, bytes) else leaf.nbytes for leaf in _leaves((f, g))
        )
    except NoDigestError:
        return None
    return digest(f, g) if size <= max(FREE_BYTES, BYTES_PER_SECOND * seconds) else None


def _leaves(thing: Any) -> Iterator[Any]:
    """All that a problem is made of, as bytes and arrays, in a fixed order."""
    kind = type(thing)
    yield f"{kind.__module__}.{kind.__qualname__}:".encode()
    if is_sparse_tensor(thing):
        thing = thing.to_sparse_coo().coalesce()
        yield from _leaves((thing.indices(), thing.values(), tuple(thing.shape)))
    elif isinstance(thing, np.ndarray) or is_torch(thing):
        yield f"{thing.dtype}{tuple(thing.shape)}".encode()
        yield thing
    elif scipy.sparse.issparse(thing):
        yield from _leaves(
            (thing.shape, *(getattr(thing, part) for part in ("data", "indices", "indptr")))
        )
    elif thing is None or isinstance(thing, bool | int | float | complex | str | Enum | np.generic):
        yield repr(thing).encode()
    elif isinstance(thing, ModuleType | np.dtype) or kind.__module__ == "torch":
        yield str(thing).encode()
    elif isinstance(thing, tuple | list):
        for part in thing:
            yield from _leaves(part)
    elif isinstance(thing, dict):
        for key, part in sorted(thing.items()):
            yield from _leaves((key, part))
    elif kind.__module__.partition(".")[0] == "condgrad":
        yield from _leaves(_state(thing))
    else:
        raise NoDigestError


def _state(thing: Any) -> dict[str, Any]:
    """The attributes that make an object of ours what it is, without what it computed from them."""
    own = (
        {field.name: getattr(thing, field.name) for field in fields(thing)}
        if is_dataclass(thing)
        else {}
    )
    own |= getattr(thing, "__dict__", {})
    return {name: value for name, value in own.items() if not _is_computed(thing, name)}


def _is_computed(thing: Any, name: str) -> bool:
    return isinstance(getattr(type(thing), name, None), cached_property)


def in_space(x: Array, space: Space | None) -> Array:
    """A saved point in the library, on the device and in the precision of a problem."""
    return x if space is None else space.xp.asarray(x, dtype=space.dtype, device=space.device)


def result_in_space(result: Result, space: Space | None) -> Result:
    """A result with its point in the library, on the device and in the precision of a problem."""
    x = in_space(result.x, space)
    return replace(result, x=x, certificate=replace(result.certificate, x=x))


class Checkpoint:
    """A file to which a run writes its result from time to time. It is never half written."""

    def __init__(self, path: str | Path, every: float, digest: str | None) -> None:
        self.path = Path(path)
        self.every = every
        self.digest = digest
        self.last = time.perf_counter()
        folder = self.path.parent
        if not (
            folder.is_dir() and os.access(folder, os.W_OK)
        ):  # better now than when the run is over
            raise ValueError(
                f"checkpoint {path} needs a folder to write to, and {folder} does not exist or cannot be written to"
            )

    def earlier(self) -> Result | None:
        """The result of an earlier run of the same problem; None if there is no file yet."""
        if not self.path.exists():
            return None
        saved = load(self.path)
        if saved.digest != self.digest or self.digest is None:
            raise ValueError(
                f"checkpoint {self.path} belongs to another problem, or to one with functions of your own, which "
                "cannot be compared: delete it, name another file, or start from its point by "
                "x0=condgrad.load(path).x"
            )
        return saved

    def offer(self, result: Callable[[], Result]) -> None:
        """Write the result if the last one is old enough."""
        if time.perf_counter() - self.last >= self.every:
            replace(result(), digest=self.digest).save(self.path)
            self.last = time.perf_counter()
