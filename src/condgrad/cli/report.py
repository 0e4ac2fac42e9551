"""What a command says of a certified answer: facts for machines, sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from condgrad.cli.outcome import output
from condgrad.result import Result


def certificate_facts(result: Result) -> dict[str, Any]:
    """The certificate and how it was reached."""
    return {
        "status": result.status.name,
        "message": result.message,
        "value": float(result.value),
        "lower_bound": float(result.lower_bound),
        "gap": float(result.gap),
        "relative_gap": relative_gap(result),
        "iterations": result.iterations,
        "seconds": float(result.seconds),
    }


def relative_gap(result: Result) -> float:
    """What the stopping rule compared with its tolerance at the end."""
    measures = result.trace["measure"]
    return float(measures[-1]) if len(measures) else float(result.certificate.relative_gap)


def verdict(result: Result, what: str, tol: float) -> str:
    """The certificate in plain words."""
    within = f"{what} is within {result.gap:.3g} of the best possible value"
    if result.success:
        return f"Certified: {within} (relative gap {relative_gap(result):.2g})."
    ended = str(result.status).lower().replace("_", " ")
    return f"{not_converged(relative_gap(result), tol)} ({ended}): {within}."


def not_converged(reached: float, tol: float) -> str:
    """How far the proof goes where it does not go as far as was asked; the same words in all commands."""
    return f"Not converged: the relative gap is certified at {reached:.2g}, {tol:g} was asked for"


def print_report(heading: str, facts: Mapping[str, str]) -> None:
    """A heading and a small table of facts."""
    width = max(map(len, facts))
    output.print(heading, markup=False)
    for name, text in facts.items():
        output.print(f"  {name:<{width}}  {text}", markup=False)
