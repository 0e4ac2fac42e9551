"""Numbers as a reader wants them, and the templates that use these as filters."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import jinja2


def duration(seconds: float, never: str = "never") -> str:
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
    return " to ".join(dict.fromkeys([factor(several[0]), factor(several[-1])]))


def of_samples(ridge: float) -> str:
    """A ridge in units of the samples m, such as "m/50"."""
    return f"{ridge:g} m" if ridge >= 1.0 else f"m/{1.0 / ridge:.4g}"


def ending(status: str) -> str:
    """How a run ended, such as "time limit"."""
    return status.lower().replace("_", " ")


def error_sentence(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


@functools.cache
def environment() -> jinja2.Environment:
    """The templates beside this file; the page escapes what it shows, so prose need not."""
    loader = jinja2.PackageLoader("experiments.paper", ".")
    escape = jinja2.select_autoescape(["html"], default_for_string=False)
    found = jinja2.Environment(loader=loader, autoescape=escape, undefined=jinja2.StrictUndefined)
    filters = (duration, count, factor, power, takes, span, of_samples, ending)
    found.filters |= {function.__name__: function for function in filters}
    return found


def sentence(template: str, values: dict[str, Any]) -> str:
    """A template in a string, filled in, as one line."""
    return " ".join(environment().from_string(template).render(values).split())


def prose(file: str, block: str, /, **values: Any) -> str:
    """One block of a file of prose, filled in, as one line."""
    template = environment().get_template(file)
    return " ".join("".join(template.blocks[block](template.new_context(values))).split())
