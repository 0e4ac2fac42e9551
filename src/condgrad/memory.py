"""How much memory a new array may take: the one place that asks the system.

Three limits count, and the smallest of them holds: what the machine can give without swapping
(pages that cache files can be dropped, so they count as available), what the control groups of this
process leave (a container, a batch job), and for tensors on a GPU what is free there.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from condgrad.arrays import Array, is_torch

ROOT = Path("/")
NUMBER, GIGABYTE = 8, 2**30
"""Bytes of a number in float64, and of a gigabyte in messages."""


def free_memory(x: Array = None) -> float:
    """Bytes that are free where x lives, or for None where NumPy arrays do; infinite where nobody
    can tell.
    """
    if is_torch(x) and x.device.type == "cuda":
        import torch

        # what torch has set aside and does not use
        spare = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        return float(torch.cuda.mem_get_info(x.device)[0] + spare)
    return free_host_memory()


def free_host_memory(root: Path = ROOT) -> float:
    """Bytes that this process may still take; `root` is where the system's files hang."""
    free = _available(root)
    for hierarchy, folder in _control_groups(root):
        left = _left_by(hierarchy, folder)
        if left < free:  # else it does not matter how much of its usage are cached files
            free = min(free, left + _cached_files(folder / "memory.stat", hierarchy.cached_files))
    return max(0.0, free)


def _available(root: Path) -> float:
    """What the machine can give: by psutil where it is installed, else as the kernel tells."""
    psutil = _psutil() if root == ROOT else None
    if psutil is not None:
        return float(psutil.virtual_memory().available)
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        return 1024.0 * int(
            next(line for line in lines if line.startswith("MemAvailable:")).split()[1]
        )
    with suppress(AttributeError, OSError, ValueError):  # not Linux: all there is, used or not
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


@cache
def _psutil() -> Any:
    """The optional library, looked for once: a search that fails takes longer than all the rest
    here.
    """
    try:
        return importlib.import_module("psutil")
    except ImportError:
        return None


@dataclass(frozen=True)
class Hierarchy:
    """Where a version of control groups keeps its folders, and what its files are called."""

    base: str
    limit: str
    usage: str
    cached_files: str
    """The entry of memory.stat for cached files that the kernel drops when it needs their room."""


SECOND = Hierarchy("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
FIRST = Hierarchy(
    "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)


def _left_by(hierarchy: Hierarchy, folder: Path) -> float:
    """The limit of a group less what it uses; a missing file is no limit, nor is the word "max"."""
    with suppress(OSError, ValueError):
        return float(
            int((folder / hierarchy.limit).read_text())
            - int((folder / hierarchy.usage).read_text())
        )
    return math.inf


def _control_groups(root: Path) -> Iterator[tuple[Hierarchy, Path]]:
    """The groups of this process and those around them, whose limits hold too."""
    # inside a container the paths may be those of the host, and what can be seen is the group
    # itself
    yield SECOND, root / SECOND.base
    yield FIRST, root / FIRST.base
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                hierarchy = FIRST if controllers else SECOND
                parts = [part for part in path.split("/") if part]
                for depth in range(1, len(parts) + 1):
                    yield hierarchy, (root / hierarchy.base).joinpath(*parts[:depth])


def _cached_files(statistics: Path, name: str) -> float:
    with suppress(OSError, ValueError):
        return float(
            dict(line.split() for line in statistics.read_text().splitlines()).get(name, 0)
        )
    return 0.0
