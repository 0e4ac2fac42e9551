"""What a command says of a certified answer: facts for machines, sentences for people."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from condgrad.cli.outcome import BadInput, output
from condgrad.result import Result


def certificate_facts(result: Result) -> dict[str, Any]:
    """The certificate and how it was reached."""
    return {
        "status": result.status.name,
        "message": result.message,
        "value": _finite(result.value),
        "lower_bound": _finite(result.lower_bound),
        "gap": _finite(result.gap),
        "relative_gap": _finite(relative_gap(result)),
        "iterations": result.iterations,
        "seconds": float(result.seconds),
    }


def relative_gap(result: Result) -> float:
    """What the stopping rule compared with its tolerance at the end."""
    measures = result.trace["measure"]
    return float(measures[-1]) if len(measures) else float(result.certificate.relative_gap)


def _finite(number: float) -> float | None:
    """The number, or null where a run ended before there was one."""
    return float(number) if math.isfinite(number) else None


def versions() -> dict[str, str]:
    """Which programs gave the answer."""
    packages = {name: version(name) for name in ("condgrad", "numpy", "scipy", "scikit-learn")}
    return packages | {"python": platform.python_version()}


def verdict(result: Result, what: str) -> str:
    """The certificate in plain words."""
    distance = f"{what} is within {result.gap:.3g} of the best possible value (relative gap {relative_gap(result):.2g})"
    if result.success:
        return f"Certified: {distance}."
    return f"Not converged, {result.message}; still certified: {distance}."


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """A full disk or the like, as one sentence."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"--out {out} cannot be written: {error.strerror or error}") from error


def print_report(heading: str, facts: Mapping[str, str]) -> None:
    """A heading and a small table of facts."""
    width = max(map(len, facts))
    output.print(heading, markup=False, emoji=False)
    for name, text in facts.items():
        output.print(f"  {name:<{width}}  {text}", markup=False, emoji=False)
