"""The paper's claims about transport (sections 2 and 3.1), each judged by the curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condgrad.paper.chapters import Claim, Verdict
from condgrad.paper.pieces import Curve
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.transport_reading import Measured, Size
from condgrad.paper.transport_runs import MISSING, TOO_SLOW
from condgrad.paper.words import count, duration, factor, power, span

PAPER_CGS = ("cgs-exact", "cgs-armijo", "cgs-open-loop")
CG = ("cg-emd", "cg-highs", "cg-cvxopt", "cg-mosek")
LEVELS = tuple(10.0 ** (-0.5 * np.arange(1, 17)))
ABOUT_TEN = 10.0**0.5
"""Half an order of magnitude: from here on a factor is nearer to ten than to one."""
PAPER_SIZE = 500


def transport_claims(sizes: Sequence[Size]) -> list[Claim]:
    """All claims, in the paper's order."""
    return [
        certificate_claim(sizes),
        classical_gap_claim(sizes),
        time_claim(sizes),
        objective_claim(sizes),
        growth_claim(sizes),
        mosek_claim(sizes),
        cvxopt_claim(sizes),
    ]


@dataclass(frozen=True)
class Duel:
    """CGS against CG on one problem, by the time of each to every level that CG reached."""

    n: int
    cgs: Measured
    cg: Measured

    @property
    def ratios(self) -> list[tuple[float, float]]:
        """(level, time of CG / time of CGS); 0 where CGS never came."""
        deepest = float(self.cg.levels[-1])
        levels = [*(level for level in LEVELS if level > deepest), deepest]
        return [(level, self.cg.iterate_time_to(level) / self.cgs.iterate_time_to(level)) for level in levels]

    @property
    def gain(self) -> float:
        """How many times faster CGS is to the best that CG reached."""
        return self.ratios[-1][1]

    @property
    def always_ahead(self) -> bool:
        return all(ratio > 1.0 for _, ratio in self.ratios)

    @property
    def better_value(self) -> bool:
        return float(self.cgs.values.min()) < float(self.cg.values.min())

    @property
    def name(self) -> str:
        return f"{self.cgs.label} against {self.cg.label}, n = {self.n}"


def duels(sizes: Sequence[Size], cgs: Sequence[str] = PAPER_CGS, cg: Sequence[str] = CG) -> list[Duel]:
    return [Duel(size.n, mine, its) for size in sizes for its in size.among(cg) for mine in size.among(cgs)]


def time_claim(sizes: Sequence[Size]) -> Claim:
    claim = "CGS outperforms CG in all cases in computation time (3.1)."
    fights = duels(sizes)
    if not fights:
        return _untested(claim)
    won = [duel for duel in fights if duel.gain > 1.0]
    exceptions = [duel for duel in fights if not duel.always_ahead]
    came = [duel.gain for duel in fights if duel.gain > 0.0]
    speeds = f"is {span(came)} times as fast over" if len(came) == len(fights) else f"gets there in {len(came)} of"
    measured = (
        f"To the best value that CG reached, CGS {speeds} {len(fights)} pairs (step rule, LP engine, size); it "
        f"wins {len(won)} of them there, and {len(fights) - len(exceptions)} of them at every accuracy on the way."
    )
    if exceptions:
        shown = "; ".join(f"{duel.name} ({_worst(duel)})" for duel in exceptions[:3])
        measured += f" Not always ahead: {shown}{' and others' if len(exceptions) > 3 else ''}."
    verdict = Verdict.of(len(fights) - len(exceptions), len(fights), in_part=len(won))
    missing = _missing_engines(sizes)
    if missing:
        measured += f" Not all cases were tested: {missing}"
        verdict = Verdict.IN_PART if verdict is Verdict.HOLDS else verdict
    why = (
        "A linear program answers with a vertex, a plan without entropy, so CG needs a vertex for each entry that "
        "should not be zero; Sinkhorn answers with a full plan. The first steps of CG are cheap: it may lead there."
    )
    if verdict is Verdict.FAILS:
        why = "The steps of CG are cheap at these sizes, and to the accuracy that it reached it is the faster one."
    return Claim(claim, measured, verdict, why)


def _missing_engines(sizes: Sequence[Size]) -> str:
    """Sentences on engines of CG whose package or licence is not there."""
    notes = {
        f"{SOLVERS[engine].label}: {curve.note}": None
        for size in sizes
        for engine, curve in size.skipped.items()
        if engine in CG and curve.facts.get("reason") == MISSING
    }
    return " ".join(note if note.endswith(".") else f"{note}." for note in notes)


def objective_claim(sizes: Sequence[Size]) -> Claim:
    claim = "CGS reaches better objective values than CG (3.1)."
    fights = duels(sizes)
    if not fights:
        return _untested(claim)
    better = [duel for duel in fights if duel.better_value]
    ends = ", ".join(
        f"CGS {power(min(float(m.levels[-1]) for m in size.among(PAPER_CGS)))} and "
        f"CG {power(min(float(m.levels[-1]) for m in size.among(CG)))} at n = {size.n}"
        for size in sizes
        if size.among(PAPER_CGS) and size.among(CG)
    )
    measured = (
        f"CGS ends lower in {len(better)} of {len(fights)} pairs, with no more time than CG had. "
        f"Best (F - F*)/(F_0 - F*) of the iterates: {ends}."
    )
    verdict = Verdict.of(len(better), len(fights))
    why = "CG is O(1/k) with a large constant here: the entropy bends without bound where an entry is zero."
    if verdict is Verdict.FAILS:
        why = "Both had time enough at these sizes; where CG ends lower, its steps were the cheaper ones."
    return Claim(claim, measured, verdict, why)


def growth_claim(sizes: Sequence[Size]) -> Claim:
    """The gain at the smallest and at the largest size, to an accuracy that CG reached at both."""
    claim = "The difference between CGS and CG is amplified when the problem grows (3.1)."
    if len(sizes) < 2:
        return _untested(claim)
    small, large = sizes[0], sizes[-1]
    found = [entry for engine in CG if (entry := _growth(small, large, engine)) is not None]
    if not found:
        return _untested(claim)
    grown = sum(more for more, _ in found)
    measured = (
        f"The gain grows with {grown} of {len(found)} engines. CGS with exact steps against "
        f"{'; against '.join(words for _, words in found)}."
    )
    verdict = Verdict.of(grown, len(found))
    why = (
        "A linear program over n x n plans grows faster than n^2, a pass of Sinkhorn like n^2; how many steps CGS "
        "needs depends on the graphs rather than on n."
    )
    if verdict is Verdict.FAILS:
        why = "Between these sizes the time of CGS grows more than that of CG: it needs more steps, or longer ones."
    return Claim(claim, measured, verdict, why)


def _growth(small: Size, large: Size, engine: str) -> tuple[bool, str] | None:
    first, label = _duel(small, engine), SOLVERS[engine].label
    if first is None:
        return None
    late = large.skipped.get(engine)
    if late is not None and late.facts.get("reason") == TOO_SLOW:
        return True, f"{label}: {_speed(first.gain)} at n = {small.n}, and CG takes no step at n = {large.n}"
    second = _duel(large, engine)
    if second is None:
        return None
    level = max(float(first.cg.levels[-1]), float(second.cg.levels[-1]))
    before, after = (d.cg.iterate_time_to(level) / d.cgs.iterate_time_to(level) for d in (first, second))
    speeds = f"{_speed(before)} at n = {small.n}, {_speed(after)} at n = {large.n}"
    return after > before, f"{label}: {speeds} (to {power(level)})"


def _duel(size: Size, engine: str) -> Duel | None:
    return next(iter(duels([size], cgs=("cgs-exact",), cg=(engine,))), None)


def mosek_claim(sizes: Sequence[Size]) -> Claim:
    claim = "The gain in time is about an order of magnitude over CG with MOSEK (3.1)."
    fights = duels(sizes, cgs=("cgs-exact",), cg=("cg-mosek",))
    others = duels(sizes, cgs=("cgs-exact",), cg=tuple(engine for engine in CG if engine != "cg-mosek"))
    beside = f"Against other engines: {_speeds(others)}." if others else "No other engine was measured."
    if not fights:
        missing = next((c.note for size in sizes for s, c in size.skipped.items() if s == "cg-mosek"), "")
        sentence = missing or "CG with MOSEK was not run."
        return Claim(claim, beside, Verdict.UNTESTED, sentence)
    gains = [duel.gain for duel in fights]
    strong = sum(gain >= ABOUT_TEN for gain in gains)
    measured = f"From {factor(ABOUT_TEN)} times on in {strong} of {len(gains)} sizes. {_speeds(fights)}. {beside}"
    why = "The factor is to the best value that CG reached in its time; it grows with the accuracy that is asked for."
    return Claim(claim, measured, Verdict.of(strong, len(gains), in_part=sum(gain > 1.0 for gain in gains)), why)


def cvxopt_claim(sizes: Sequence[Size]) -> Claim:
    claim = f"CG with CVXOPT takes too long at n = {PAPER_SIZE} (3.1)."
    size = next((size for size in sizes if size.n >= PAPER_SIZE), None)
    if size is None:
        return _untested(claim, f"n = {PAPER_SIZE} is not among the sizes of this run.")
    skipped, ran = size.skipped.get("cg-cvxopt"), size.measured.get("cg-cvxopt")
    if skipped is not None and skipped.facts.get("reason") == TOO_SLOW:
        why = "Its interior-point method knows nothing of the structure and factors matrices over all n^2 variables."
        return Claim(claim, skipped.note, Verdict.HOLDS, why)
    if ran is None:
        return _untested(claim, skipped.note) if skipped else _untested(claim)
    reached = (
        f"It came to {power(float(ran.levels[-1]))} of F_0 - F* in {duration(ran.seconds[-1])} and "
        f"{count(ran.iterations[-1])} steps."
    )
    verdict = Verdict.FAILS if ran.levels[-1] <= 1e-2 else Verdict.IN_PART
    return Claim(claim, reached, verdict, "Linear programs of this size are within its reach on this machine.")


def certificate_claim(sizes: Sequence[Size]) -> Claim:
    """Lemma 2 on every row of every certified curve: the bound stays below each value that anybody reached."""
    claim = "The gap is a certificate: F(x) - F* is never above it (Lemma 2)."
    above = [
        bound - size.reference.value
        for size in sizes
        for measured in size.measured.values()
        for bound in measured.curve.columns.get("lower_bound", ())
    ]
    if not above:
        return _untested(claim)
    why = (
        "Our bound takes what the oracle proves of its own minimum (the dual value of Sinkhorn's potentials). The "
        "lemma as it stands needs an exact oracle, which Sinkhorn is not."
    )
    return Claim.of_bounds(claim, bounds=len(above), excess=max(above), why=why)


def classical_gap_claim(sizes: Sequence[Size]) -> Claim:
    claim = (
        "The gap is at least as good as the classical surrogate gap, and strictly better for a strictly convex g (2.4)."
    )
    pairs = [(size, *gaps_of(size.gaps)) for size in sizes if size.gaps is not None and size.gaps.columns["value"]]
    if not pairs:
        return _untested(claim)
    ratios = np.concatenate([classical / ours for _, ours, classical in pairs])
    better = int((ratios > 1.0).sum())
    measured = (
        f"Better at {better} of {len(ratios)} iterates. The classical gap is {factor(float(ratios.min()))} to "
        f"{factor(float(ratios.max()))} times ours, {factor(float(ratios[-1]))} times at the last one."
    )
    why = (
        "Far from the optimum the two differ little. Near it ours shrinks like the error, the classical one like its "
        "square root: it pays for the curvature of g as well."
    )
    verdict = Verdict.of(better, len(ratios))
    if verdict is Verdict.FAILS:
        why = "Far from the optimum the two differ little, and rounding decides: these runs end there."
    return Claim(claim, measured, verdict, why)


def gaps_of(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Ours and the classical gap, each with the best of its bounds so far."""
    value = np.asarray(curve.columns["value"], dtype=float)
    bounds = (np.maximum.accumulate(curve.columns[name]) for name in ("lower_bound", "classical_lower_bound"))
    ours, classical = (np.maximum(value - bound, 1e-16) for bound in bounds)
    return ours, classical


def _untested(claim: str, why: str = "Run all of figure 1.") -> Claim:
    return Claim.untested(claim, why)


def _worst(duel: Duel) -> str:
    level, ratio = min(duel.ratios, key=lambda entry: entry[1])
    return f"{_speed(ratio)} to {power(level)}"


def _speeds(fights: Sequence[Duel]) -> str:
    return "; ".join(f"{duel.cg.label}, n = {duel.n}: {_speed(duel.gain)}" for duel in fights)


def _speed(ratio: float) -> str:
    return f"{factor(ratio)} times as fast" if ratio > 0.0 else "CGS never gets there"
