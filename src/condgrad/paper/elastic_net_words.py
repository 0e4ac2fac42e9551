"""Numbers as a reader wants them."""

from __future__ import annotations

import math


def duration(seconds: float, *, limit: float | None = None) -> str:
    """Seconds with a fitting unit; what never came took longer than the limit."""
    if not math.isfinite(seconds):
        return "never" if limit is None else f"> {duration(limit)}"
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def count(number: float) -> str:
    """A number of iterations; a dash for one that never came."""
    return f"{number:,.0f}" if math.isfinite(number) else "-"


def times(ratio: float) -> str:
    """A ratio, such as "2.3 times"."""
    return f"{ratio:.2g} times"


def takes(ratio: float) -> str:
    """How long something takes against another that got there."""
    return f"takes {times(ratio)} as long" if math.isfinite(ratio) else "does not get there within its limits"


def share(part: float) -> str:
    """A ridge in units of the samples m, such as "m/50"."""
    return f"{part:g} m" if part >= 1.0 else f"m/{1.0 / part:.4g}"


def listed(words: list[str]) -> str:
    """Words joined by commas and an "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"
