"""How much memory there is, and a sentence before it runs out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from condgrad.cli.outcome import BadInput

PLANS_AT_ONCE = 6
"""Arrays as large as the plan that a solver holds at its peak: cost, plan, direction and what they pass through."""


def require_memory(needed: float, what: str, remedy: str) -> None:
    """A sentence with both numbers where `what` needs more bytes than there are."""
    free = free_memory()
    if free is not None and needed > free:
        raise BadInput(f"{what} would need about {_bytes(needed)} of memory, and {_bytes(free)} are free: {remedy}")


def require_memory_for_plan(n: int, m: int, remedy: str) -> None:
    require_memory(8.0 * PLANS_AT_ONCE * n * m, f"a plan of {n:,} x {m:,}", remedy)


def free_memory() -> int | None:
    """Bytes that a new array may take, within the limits of a container too; None where the system does not say."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    if not found and hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found)) if found else None


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000.0:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:,.0f} PB"
