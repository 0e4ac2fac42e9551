"""Numbers as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def duration(seconds: float, *, never: str = "never") -> str:
    """Seconds with a fitting unit, two digits; `never` for what never came."""
    if not math.isfinite(seconds):
        return never
    if seconds < 0.0995:
        return f"{factor(1e3 * seconds)} ms"
    return f"{seconds:.2f} s" if seconds < 0.995 else f"{factor(seconds)} s"


def count(number: float) -> str:
    """A number of iterations; a dash for one that never came."""
    return f"{number:,.0f}" if math.isfinite(number) else "-"


def factor(ratio: float) -> str:
    """Two digits of a positive number, such as 0.45, 1.0, 7.4, 30 or 1,200."""
    if ratio >= 9.95:
        return f"{ratio:,.0f}"
    return f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2g}"


def power(value: float, digits: int = 0) -> str:
    """A number by its power of ten, such as 1e-8 or 1.6e-5, but 0.3."""
    if 0.1 <= value < 1.0:
        return f"{value:.{digits + 1}g}"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return mantissa if int(exponent) == 0 else f"{mantissa}e{int(exponent)}"


def takes(ratio: float) -> str:
    """How long something takes against another; 0 where the other never came, infinite where it did not itself."""
    if ratio == 0.0:
        return "is the only one to get there"
    return f"takes {factor(ratio)} times as long" if math.isfinite(ratio) else "does not get there within its limits"


def span(values: Iterable[float]) -> str:
    """From the least to the largest factor, such as "1.3 to 25"."""
    several = sorted(values)
    least, most = factor(several[0]), factor(several[-1])
    return least if least == most else f"{least} to {most}"


def share(part: float) -> str:
    """A ridge in units of the samples m, such as "m/50"."""
    return f"{part:g} m" if part >= 1.0 else f"m/{1.0 / part:.4g}"


def listed(words: Sequence[str]) -> str:
    """Words joined by commas and an "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


def ending(status: str) -> str:
    """How a run ended, such as "time limit"."""
    return status.lower().replace("_", " ")


def told(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
