"""The limits that a new engine must keep against an old one, row by row and on average."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from experiments.gates.jobs import Proof

SHORT = 5e-3
"""Seconds of an old fit, below which a difference in seconds counts and no ratio."""
FIT_RATIO = 1.3
SHORT_EXCESS = 3e-3
"""Seconds by which a short fit may become slower."""
SERIES_RATIO = 1.6
"""For paths and searches."""
MEAN_RATIO = 1.25
ROUNDING = {"float64": 1e-8, "float32": 1e-4}
"""What a value and a bound may be off by, as a share of the value."""


class Kind(StrEnum):
    """What a row is, and so how much slower it may become."""

    FIT = "fit"
    SERIES = "series"


@dataclass(frozen=True)
class Measured:
    """What one side did with a row."""

    seconds: float | None = None
    """Least CPU time of a run; None where there was none."""
    proof: Proof | None = None
    error: str = ""

    @property
    def converged(self) -> bool:
        return self.proof is not None and self.proof.converged


def failure(
    kind: Kind,
    old: Measured,
    new: Measured,
    *,
    precision: str = "float64",
    rival: float | None = None,
) -> str:
    """Why a row fails, in a few words; empty where it passes.

    The rival's time is that of a solver which new has to be ahead of.
    """
    if new.proof is None or new.seconds is None:
        return f"{'both fail' if old.error else 'new fails'}: {new.error}"
    if old.proof is not None and contradict(old.proof, new.proof, ROUNDING[precision]):
        return "the proofs of old and new contradict each other"
    if not new.converged:
        return "old is certified and new is not" if old.converged else ""
    if rival is not None and new.seconds > rival:
        return f"behind skglm, {new.seconds / rival:.2f} times its time"
    if old.seconds is None or not old.converged:
        return ""  # old did not do the same work, so that its time is no measure
    return slowness(kind, old.seconds, new.seconds)


def slowness(kind: Kind, old: float, new: float) -> str:
    """How a time is above its limit, or nothing."""
    if kind is Kind.FIT and old < SHORT:
        excess = new - old
        return f"slower by {1e3 * excess:.1f} ms" if excess > SHORT_EXCESS else ""
    limit = FIT_RATIO if kind is Kind.FIT else SERIES_RATIO
    return f"{new / old:.2f} times as slow, more than {limit:g}" if new > limit * old else ""


def contradict(one: Proof, other: Proof, rounding: float) -> bool:
    """Whether some minimum would have to lie above a value that is reached."""
    known = values_by_problem(one)
    for problem, (value, gap) in values_by_problem(other).items():
        if problem not in known:
            continue
        its_value, its_gap = known[problem]
        slack = rounding * max(abs(value), abs(its_value))
        if value - gap > its_value + slack or its_value - its_gap > value + slack:
            return True
    return False


def values_by_problem(proof: Proof) -> Mapping[tuple[int, float], tuple[float, float]]:
    """Values and gaps, by the place and the radius of their problems."""
    entries = zip(proof.radii, proof.values, proof.gaps, strict=True)
    return {(place, radius): (value, gap) for place, (radius, value, gap) in enumerate(entries)}


def ratio(old: Measured, new: Measured) -> float | None:
    """New over old, where both did the same work."""
    if old.seconds is None or new.seconds is None or not (old.converged and new.converged):
        return None
    return new.seconds / old.seconds


def geometric_mean(ratios: Iterable[float]) -> float:
    """Not a number of nothing."""
    logarithms = [math.log(each) for each in ratios]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def as_measured(answer: Mapping[str, Any]) -> Measured:
    """What a worker answered."""
    if "error" in answer:
        return Measured(error=str(answer["error"]))
    return Measured(float(answer["seconds"]), Proof(**answer["proof"]))
