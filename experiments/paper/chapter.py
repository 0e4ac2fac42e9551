"""A part of the paper: its tasks, its claims, and the chapter of figures, tables and verdicts written from its curves.

The words of a chapter are blocks of a template: `title`, `formula` (LaTeX), `summary`, `notes` (paragraphs),
`settings` (paragraphs "name: value"), `absent` (paragraphs on data that are not there), `missing` (why a claim was not
tested) and `when_quick` (why a quick run cannot). A claim with the key K has the blocks `K`, the
sentence of the paper, `K_measured`, and `K_why`, which knows the `verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.paper.figures import Figure
from experiments.paper.tasks import Curve, Scale, Task
from experiments.paper.wording import paragraphs, prose

ROUNDING = 1e-12
"""A bound may be above F* by so much, for F itself is computed in floats."""
TOO_FEW = 0.25
"""A claim that at most this share of its cases bears out fails."""


class Verdict(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "fails"
    TOO_SHORT = "too short to judge"
    UNTESTED = "not tested"


class CaseCount(NamedTuple):
    """In how many of the cases (draws, runs, pairs of solvers) something was seen."""

    seen: int
    total: int

    @classmethod
    def of(cls, cases: Any) -> CaseCount:
        return cls(int(np.sum(cases)), len(cases))

    def __str__(self) -> str:
        return f"{self.seen} of {self.total}"

    @property
    def enough(self) -> bool:
        return self.seen > TOO_FEW * self.total


class Source(Enum):
    """Who says what a claim says; only those of the paper that are new count."""

    PAPER = "of the paper"
    REPEATED = "said above, on other runs"
    OURS = "beyond the paper"


@dataclass(frozen=True)
class JudgedClaim:
    """A sentence of the paper, what was measured, the verdict, why it came out so, and the figure that shows it."""

    claim: str
    measured: str
    verdict: Verdict
    why: str
    figure: str = ""
    source: Source = Source.PAPER


@dataclass(frozen=True)
class Claim:
    """A row of the table of claims.

    Attributes
    ----------
    key : str
        Names its sentence and the words for each verdict in the template of its chapter.
    numbers : callable
        From the evidence of a chapter to the numbers that the claim reads; where its runs are missing, nothing, or a
        sentence that says why.
    cases : sequence of str
        The predicate: which of the numbers are tallies that, taken together, bear the claim out.
    weaker : str
        The tally of a weaker reading, with which the claim holds in part, if it has one.
    draws : bool
        Whether the cases are a sample (draws, times): a quick run then has too few of them where they disagree. Its
        draws are among those of a full run, so that what is unanimous here cannot be the opposite there.
    needs_full_run : bool
        Whether a quick run, with its smaller problems, is too short to judge this at all.
    """

    key: str
    numbers: Callable[[Any], Mapping[str, Any] | str | None]
    cases: Sequence[str]
    figure: str
    weaker: str = ""
    draws: bool = True
    needs_full_run: bool = False
    source: Source = Source.PAPER

    def judged(
        self, evidence: Any, template: str, words: Mapping[str, Any], *, quick: bool = False
    ) -> JudgedClaim:
        """The claim with its verdict; `words` are those of the chapter."""
        text = partial(prose, template)
        judged = partial(JudgedClaim, text(self.key), figure=self.figure, source=self.source)
        found = self.numbers(evidence)
        too_small = text("when_quick") if quick and self.needs_full_run else ""
        if not found or isinstance(found, str):
            verdict = Verdict.TOO_SHORT if too_small else Verdict.UNTESTED
            why = too_small or str(found or text("missing", **words))
            return judged("Nothing: the runs that it needs are missing.", verdict, why)
        seen, total = map(sum, zip(*(found[name] for name in self.cases), strict=True))
        verdict = self._verdict(found, CaseCount(seen, total))
        why = text(f"{self.key}_why", **found, verdict=verdict.value)
        disagree = self.draws and 0 < seen < total
        if quick and verdict is not Verdict.UNTESTED and (too_small or disagree):
            verdict = Verdict.TOO_SHORT
            why = too_small or f"The cases of a quick run are few, and they disagree. {why}"
        return judged(text(f"{self.key}_measured", **found), verdict, why)

    def _verdict(self, found: Mapping[str, Any], cases: CaseCount) -> Verdict:
        if any(found[name].total == 0 for name in self.cases):
            return Verdict.UNTESTED
        if cases.seen == cases.total:
            return Verdict.HOLDS
        weaker = found[self.weaker] if self.weaker else cases
        return Verdict.IN_PART if weaker.enough else Verdict.FAILS


def bound_numbers(above: Sequence[float]) -> dict[str, Any] | None:
    """Whether no bound is above F*, from by how much each is: a single one that is would be an error."""
    if not len(above):
        return None
    highest = max(above)
    return {
        "proved": CaseCount(int(highest <= ROUNDING), 1),
        "bounds": f"{len(above):,}",
        "highest": highest,
    }


class TextTable(NamedTuple):
    """Rows of text; numbers arrive formatted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Chapter:
    """A part of the page; the summary has the main numbers, `absent` says which data are not there and where to go."""

    name: str
    title: str
    summary: str
    figures: Sequence[Figure] = ()
    tables: Sequence[TextTable] = ()
    claims: Sequence[JudgedClaim] = ()
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    formula: str = ""
    absent: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A part of the paper, and how its chapter is written from its curves; some may be missing where a task failed."""

    name: str
    template: str
    tasks: Callable[[Scale], list[Task]]
    evidence: Callable[[Sequence[Curve]], Any]
    """What the curves say, as claims, figures, tables and the template read it."""
    figures: Callable[[Any], list[Figure]]
    tables: Callable[[Any], list[TextTable]]
    claims: Sequence[Claim]
    words: Callable[[Any], dict[str, Any]]
    """What the blocks of the chapter are filled in with."""

    def chapter(self, curves: Sequence[Curve], *, quick: bool = False) -> Chapter:
        evidence = self.evidence(curves)
        words = self.words(evidence)
        settings = paragraphs(self.template, "settings", **words)
        return Chapter(
            name=self.name,
            title=prose(self.template, "title", **words),
            summary=prose(self.template, "summary", **words),
            figures=self.figures(evidence),
            tables=self.tables(evidence),
            claims=[
                claim.judged(evidence, self.template, words, quick=quick) for claim in self.claims
            ],
            notes=paragraphs(self.template, "notes", **words),
            settings=dict(setting.partition(":")[::2] for setting in settings),
            formula=prose(self.template, "formula"),
            absent=paragraphs(self.template, "absent", **words),
        )
