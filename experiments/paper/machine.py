"""Where a run took place: versions, processor, threads, memory."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from threadpoolctl import threadpool_info

SOLVERS = (
    "condgrad",
    "numpy",
    "scipy",
    "scikit-learn",
    "array-api-compat",
    "numba",
    "POT",
    "cvxopt",
    "highspy",
    "mosek",
)
DISTRIBUTIONS = (*SOLVERS, "torch", "pandas", "matplotlib", "plotly")


def this_machine() -> dict[str, Any]:
    """The computer: what timings depend on; of threads BLAS's alone, for it is always loaded."""
    process = psutil.Process()
    return {
        "cpu": _cpu_name(),
        "cores": len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else psutil.cpu_count() or 1,
        "blas_threads": max(
            (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=0
        ),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }


def versions() -> dict[str, str]:
    """Python's version and those of the packages that are installed, without importing them."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _cpu_name() -> str:
    """The processor as its maker calls it, where the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"
