"""Where a run took place: versions, processor, threads, memory. Nothing here imports a large library."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

DISTRIBUTIONS = (
    "condgrad",
    "numpy",
    "scipy",
    "scikit-learn",
    "array-api-compat",
    "POT",
    "cvxopt",
    "highspy",
    "mosek",
    "numba",
    "torch",
    "pandas",
    "matplotlib",
    "plotly",
)


@dataclass(frozen=True)
class Machine:
    """The computer: what timings depend on."""

    cpu: str
    cores: int
    threads: Mapping[str, int]
    """How many threads each numerical library may use, by its name."""
    memory_gb: float | None
    system: str

    def fingerprint(self) -> dict[str, Any]:
        """What must be the same for timings to be compared.

        Of the threads only those of BLAS, which is always loaded: which other libraries are depends on what ran.
        """
        blas = [count for name, count in self.threads.items() if name.startswith("BLAS")]
        return {"cpu": self.cpu, "cores": self.cores, "blas_threads": max(blas, default=0)}

    def described(self) -> dict[str, str]:
        """In words, for a page or a terminal."""
        pools = ", ".join(f"{name} {count}" for name, count in self.threads.items())
        return {
            "processor": self.cpu,
            "cores": str(self.cores),
            "threads": pools or "unknown",
            "memory": "unknown" if self.memory_gb is None else f"{self.memory_gb:.1f} GB",
            "system": self.system,
        }


def this_machine() -> Machine:
    return Machine(
        cpu=cpu_name(),
        cores=usable_cores(),
        threads=thread_pools(),
        memory_gb=memory_gb(),
        system=f"{platform.system()} {platform.release()} ({platform.machine()})",
    )


def versions() -> dict[str, str]:
    """Python's version and those of the packages that are installed, without importing them."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        installed = distribution_version(name)
        if installed is not None:
            found[name] = installed
    return found


def distribution_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def cpu_name() -> str:
    """The processor as its maker calls it."""
    try:
        if platform.system() == "Linux":
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
            return names[0] if names else platform.machine()
        if platform.system() == "Darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return platform.processor() or platform.machine() or "unknown"


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_pools() -> dict[str, int]:
    """How many threads each numerical library loaded now may use."""
    # comes with scikit-learn, but nothing should end for want of it
    try:
        from threadpoolctl import threadpool_info

        pools = threadpool_info()
    except Exception:
        return {}
    counts: dict[str, int] = {}
    for pool in pools:
        name = "OpenMP" if pool["user_api"] == "openmp" else f"BLAS ({pool['internal_api']})"
        counts[name] = max(counts.get(name, 0), int(pool["num_threads"]))
    return counts


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """One BLAS thread, the same for all solvers: at these sizes several wait for each other most of the time."""
    from threadpoolctl import threadpool_limits

    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def memory_gb() -> float | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    # Windows has no sysconf
    except (AttributeError, ValueError, OSError):
        return None


def gpus(torch: Any) -> list[str]:
    """The accelerators that an imported torch can use."""
    found = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            found.append(f"{device.name} ({device.total_memory / 1e9:.0f} GB)")
    if torch.backends.mps.is_available():
        found.append("Apple GPU (mps)")
    return found
