"""A claim of the paper as one row: its sentence, the numbers it reads, the predicate, the words for each verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from experiments.paper.wording import sentence

ROUNDING = 1e-12
"""A bound may be above F* by so much, for F itself is computed in floats."""
TOO_FEW = 0.25
"""A claim that at most this share of its cases bears out fails."""
RULE = (
    "A claim holds where all of its cases (draws, runs, pairs of solvers) bear it out, fails where at most a quarter "
    "of them do, and holds in part between. A quick run has few cases: where they disagree, or are smaller than those "
    "of the paper, it is too short to judge."
)
MISSING = "Nothing: the runs that it needs are missing."


class Verdict(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "fails"
    TOO_SHORT = "too short to judge"
    UNTESTED = "not tested"


class Cases(NamedTuple):
    """How many of the cases bear a claim out; `in_part` counts those that bear out a weaker reading, if it has one."""

    borne_out: int
    total: int
    in_part: int | None = None

    @property
    def verdict(self) -> Verdict:
        if self.total == 0:
            return Verdict.UNTESTED
        if self.borne_out == self.total:
            return Verdict.HOLDS
        weaker = self.borne_out if self.in_part is None else self.in_part
        return Verdict.IN_PART if weaker > TOO_FEW * self.total else Verdict.FAILS


@dataclass(frozen=True)
class JudgedClaim:
    """A sentence of the paper, what was measured, the verdict, and why it came out so."""

    claim: str
    measured: str
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Claim:
    """A row of the table of claims.

    Attributes
    ----------
    sentence : str
        What the paper says.
    numbers : callable
        From the evidence of a chapter to the numbers that the claim reads; where its runs are missing, nothing, or a
        sentence that says why.
    predicate : callable
        From the numbers to cases or to a verdict.
    measured, why : str
        Templates of the numbers; `why` has an own one for a verdict that `unless` names.
    draws : bool
        Whether the cases are a sample (draws, times): a quick run then has too few of them where they disagree. Its
        draws are among those of a full run, so that what is unanimous here cannot be the opposite there.
    when_quick : str
        Why a quick run is too short to judge this at all, where it is.
    """

    sentence: str
    numbers: Callable[[Any], Mapping[str, Any] | str | None]
    predicate: Callable[[Mapping[str, Any]], Cases | Verdict]
    measured: str
    why: str
    unless: Mapping[Verdict, str] | None = None
    draws: bool = True
    when_quick: str = ""

    def judged(self, evidence: Any, *, quick: bool = False, missing: str = "") -> JudgedClaim:
        """The claim with its verdict; `missing` is what to do where its runs are not there."""
        found = self.numbers(evidence)
        if not found or isinstance(found, str):
            verdict = Verdict.TOO_SHORT if quick and self.when_quick else Verdict.UNTESTED
            why = self.when_quick if verdict is Verdict.TOO_SHORT else str(found or missing)
            return JudgedClaim(self.sentence, MISSING, verdict, why)
        answer = self.predicate(found)
        verdict = answer.verdict if isinstance(answer, Cases) else answer
        why = (self.unless or {}).get(verdict, self.why)
        disagree = self.draws and isinstance(answer, Cases) and 0 < answer.borne_out < answer.total
        if quick and verdict is not Verdict.UNTESTED and (self.when_quick or disagree):
            verdict = Verdict.TOO_SHORT
            why = self.when_quick or f"The cases of a quick run are few, and they disagree. {why}"
        words = {**found, "verdict": verdict.value}
        return JudgedClaim(self.sentence, sentence(self.measured, words), verdict, sentence(why, words))


def certificate_claim(sentence: str, bounds_above: Callable[[Any], Sequence[float]], why: str) -> Claim:
    """The claim that no bound is above F*; `bounds_above` reads by how much each is."""

    def numbers(evidence: Any) -> Mapping[str, Any] | None:
        above = bounds_above(evidence)
        return {"bounds": f"{len(above):,}", "highest": max(above)} if len(above) else None

    return Claim(
        sentence,
        numbers,
        lambda numbers: Verdict.HOLDS if numbers["highest"] <= ROUNDING else Verdict.FAILS,
        "{{ bounds }} bounds proved, the highest {{ highest | abs | power }} {{ 'above' if highest > 0 else 'below' }} "
        "the best value known.",
        why,
        unless={Verdict.FAILS: "A bound above F* is an error of this library: please report it."},
    )
