"""The claims of section 3.2, judged by the curves.

The cases of a claim are draws: see `condgrad.paper.chapters.Verdict.of` for how many must bear it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import geometric_mean, median
from typing import NamedTuple

from condgrad.paper.chapters import LEGEND, Claim, Verdict
from condgrad.paper.elastic_net_curves import ROUGH, TOLERANCE, Draw, best_residual, draws, measured, reached
from condgrad.paper.pieces import Curve
from condgrad.paper.solvers import SOLVERS
from condgrad.paper.words import duration, factor, listed, power, share, takes

FAR = 2.0
"""How many times faster is "far more efficient"."""
PAR = 1.5
"""Up to how many times slower is "on par"."""
ENOUGH_RIDGE = 1.0 / 50.0
"""In units of the samples, a ridge from which on CGS is expected to keep up with SPG."""
FIRST_ITERATIONS = range(1, 11)
RIVALS = ("cgs-armijo", "cgs-open-loop", "spg", "pqn")
"""Whom the paper compares CG with."""
RULE = (
    f"{LEGEND} “Far” is {FAR:g} times or more, “on par” at most {PAR:g} times slower; a solver that never reached the "
    "level counts as slower than any that did."
)
NOT_MEASURED = "The curves that it needs were not measured."


class Tally(NamedTuple):
    """In how many of the draws something was seen."""

    seen: int
    total: int

    def __str__(self) -> str:
        return f"{self.seen} of {self.total} draws"


def verdict(*tallies: Tally) -> Verdict:
    """On all tallies together; untested where one of them is of nothing."""
    if any(tally.total == 0 for tally in tallies):
        return Verdict.UNTESTED
    return Verdict.of(sum(tally.seen for tally in tallies), sum(tally.total for tally in tallies))


def toy_claims(race: Sequence[Curve], sweep: Sequence[Curve]) -> list[Claim]:
    """What section 3.2 says of figure 2."""
    all_draws = list(draws(race).values())
    return [_cg(all_draws), _pqn(all_draws), _spg(all_draws, sweep), _open_loop(all_draws)]


def microarray_claims(race: Sequence[Curve]) -> list[Claim]:
    """What section 3.2 says of figure 3; a stand-in proves nothing of it."""
    real = [curve for curve in measured(race) if not curve.facts["stand_in"]]
    all_draws = list(draws(real).values())
    only_stand_in = bool(measured(race)) and not all_draws
    claims = [_real_rivals(all_draws), _rough(all_draws)]
    if not only_stand_in:
        return claims
    why = "Colon and lymphoma were not at hand, and the stand-in says nothing about them."
    return [Claim(claim.claim, why, Verdict.UNTESTED, "See the notes for how to get the data.") for claim in claims]


def ratios(all_draws: Sequence[Draw], first: str, second: str, level: float) -> list[float]:
    """How many times longer the first took to a level, in each draw where one of the two got there."""
    times_of = [
        (reached(draw[first], level).seconds, reached(draw[second], level).seconds)
        for draw in all_draws
        if first in draw and second in draw
    ]
    return [_ratio(a, b) for a, b in times_of if min(a, b) < math.inf]


def _ratio(a: float, b: float) -> float:
    if math.isinf(a) or math.isinf(b):
        return math.inf if math.isinf(a) else 0.0
    return a / max(b, 1e-9)


def _seen(values: Sequence[float], test: Callable[[float], bool]) -> Tally:
    return Tally(sum(map(test, values)), len(values))


def _cg(all_draws: Sequence[Draw]) -> Claim:
    complete = [draw for draw in all_draws if "cg" in draw and any(rival in draw for rival in RIVALS)]
    last = Tally(sum(_is_last(draw) for draw in complete), len(complete))
    text = NOT_MEASURED
    if complete:
        rough = Tally(sum(reached(draw["cg"], ROUGH).seconds < math.inf for draw in complete), len(complete))
        fine = Tally(sum(reached(draw["cg"], TOLERANCE).seconds < math.inf for draw in complete), len(complete))
        best = median(best_residual(draw["cg"]) for draw in complete)
        text = (
            f"CG is the last in {last}. It reached 1e-2 in {rough} and 1e-5 in {fine}; the median of its best "
            f"residuals is {power(best, 1)}."
        )
    found = verdict(last)
    beyond = " That is its worst case: on these draws others are slower still." if found is Verdict.FAILS else ""
    return Claim(
        "The conditional gradient algorithm performs very poorly, whatever the setting.",
        text,
        found,
        "It moves towards one vertex of the ball at a time, that is one coordinate, and gives up the strong convexity "
        f"of the ridge by linearising it, which leaves a rate of O(1/k) in general.{beyond}",
    )


def _is_last(draw: Draw) -> bool:
    """Whether every rival was earlier at 1e-5, or closer where neither got there."""
    place = {solver: (reached(curve, TOLERANCE).seconds, best_residual(curve)) for solver, curve in draw.items()}
    return all(place[rival] < place["cg"] for rival in RIVALS if rival in place)


def _pqn(all_draws: Sequence[Draw]) -> Claim:
    slower = ratios(all_draws, "pqn", "cgs-armijo", TOLERANCE)
    far, faster = _seen(slower, lambda r: r >= FAR), _seen(slower, lambda r: r > 1.0)
    return Claim(
        "CGS is far more efficient than projected quasi-Newton, and converges faster on all settings.",
        f"CGS is at 1e-5 at least {FAR:g} times earlier than PQN in {far}, earlier at all in {faster}; in the median "
        f"PQN {takes(median(slower))}."
        if slower
        else NOT_MEASURED,
        verdict(far, faster),
        _pqn_iterations(all_draws) + "Our PQN starts its matrix from a mean curvature, <s,y>/<s,s>; the usual start, "
        "<y,y>/<s,y>, takes several times as many iterations where features outnumber samples (see "
        "condgrad.methods.pqn), which may be what the paper saw.",
    )


def _pqn_iterations(all_draws: Sequence[Draw]) -> str:
    """A sentence on what an iteration of each is worth."""
    both = [draw for draw in all_draws if "pqn" in draw and "cgs-armijo" in draw]
    pairs = [(reached(draw["pqn"], TOLERANCE), reached(draw["cgs-armijo"], TOLERANCE)) for draw in both]
    done = [(pqn, cgs) for pqn, cgs in pairs if max(pqn.seconds, cgs.seconds) < math.inf]
    if not done:
        return ""
    return (
        f"Where both get there, PQN needs {median(pqn.iteration for pqn, _ in done):.0f} iterations and CGS "
        f"{median(cgs.iteration for _, cgs in done):.0f} (medians), but one of PQN projects many times. "
    )


def _spg(all_draws: Sequence[Draw], sweep: Sequence[Curve]) -> Claim:
    slower = ratios(all_draws, "cgs-armijo", "spg", TOLERANCE)
    par, faster = _seen(slower, lambda r: r <= PAR), _seen(slower, lambda r: r < 1.0)
    return Claim(
        "CGS is on par with SPG: sometimes faster, in other cases slower.",
        f"CGS takes at most {PAR:g} times as long as SPG to 1e-5 in {par} and is the faster one in {faster}; in the "
        f"median it {takes(median(slower))}."
        if slower
        else NOT_MEASURED,
        verdict(par),
        "Here CGS is projected gradient with the fixed length 1/(2 ridge), which a small ridge makes far too long; SPG "
        "takes its length from the curvature it meets. " + _by_ridge(all_draws) + parity(sweep),
    )


def _by_ridge(all_draws: Sequence[Draw]) -> str:
    """A sentence on draws with a large and with a small ridge."""
    sides = {True: "at least", False: "less than"}
    sentences = []
    for large, words in sides.items():
        some = [draw for draw in all_draws if _large_ridge(draw) is large]
        slower = ratios(some, "cgs-armijo", "spg", TOLERANCE)
        if slower:
            sentences.append(f"{takes(median(slower))} where the ridge is {words} {share(ENOUGH_RIDGE)}")
    return f"In the median CGS {listed(sentences)}, m being the training samples. " if sentences else ""


def _large_ridge(draw: Draw) -> bool:
    facts = next(iter(draw.values())).facts
    return bool(facts["ridge"] >= ENOUGH_RIDGE * facts["samples"])


def swept(sweep: Sequence[Curve]) -> list[tuple[float, float]]:
    """Ridges in units of the samples, rising, and how many times more iterations CGS takes there than SPG."""
    found: dict[float, list[float]] = {}
    for draw in draws(sweep).values():
        if "cgs-armijo" in draw and "spg" in draw:
            facts = draw["spg"].facts
            cgs, spg = (reached(draw[solver], TOLERANCE).iteration for solver in ("cgs-armijo", "spg"))
            if spg < math.inf:
                found.setdefault(facts["ridge"] / facts["samples"], []).append(cgs / max(spg, 1.0))
    return sorted((ridge, median(several)) for ridge, several in found.items())


def parity(sweep: Sequence[Curve]) -> str:
    """A sentence on where in the sweep CGS keeps up with SPG."""
    points = swept(sweep)
    there = [(ridge, ratio) for ridge, ratio in points if ratio < math.inf]
    if not there:
        return ""
    (least, worst), (largest, best) = there[0], there[-1]
    late = [share(ridge) for ridge, ratio in points if ratio == math.inf]
    ends = (
        f"In the sweep CGS {f'does not get there in time at ridge {listed(late)}, ' if late else ''}takes "
        f"{factor(worst)} times the iterations of SPG at ridge {share(least)} and {factor(best)} times at "
        f"{share(largest)}"
    )
    level = [ridge for i, (ridge, _) in enumerate(points) if all(ratio <= PAR for _, ratio in points[i:])]
    where = f"at most {PAR:g} times from {share(min(level))} on" if level else f"nowhere as few as {PAR:g} times"
    return f"{ends}, and {where}."


def _open_loop(all_draws: Sequence[Draw]) -> Claim:
    three = [draw for draw in all_draws if {"cgs-open-loop", "cgs-armijo", "spg"} <= set(draw)]
    later = Tally(sum(_later(draw) for draw in three), len(three))
    early = {rival: [_first_iterations(draw, rival) for draw in three] for rival in ("cgs-armijo", "spg")}
    better = {rival: _seen(values, lambda r: r < 1.0) for rival, values in early.items()}
    rough = _seen(ratios(three, "cgs-open-loop", "cgs-armijo", ROUGH), lambda r: r < 1.0)
    return Claim(
        "CGS with 2/(k+2) is globally less efficient than CGS with line search and SPG, but better in the first "
        "iterations.",
        f"It is behind both at 1e-5 in {later}. Over iterations 1 to {FIRST_ITERATIONS[-1]} its residual is below "
        f"that of CGS with Armijo in {better['cgs-armijo']} (median ratio {factor(median(early['cgs-armijo']))}) and "
        f"below that of SPG in {better['spg']} (median ratio {factor(median(early['spg']))}). It is at 1e-2 before "
        f"CGS with Armijo in {rough}, which is not part of the verdict."
        if three
        else NOT_MEASURED,
        verdict(later, *better.values()),
        "The first step goes all the way to the oracle's point and later ones shrink like 1/k, whatever F does. The "
        f"paper does not say how many iterations are the first; {len(FIRST_ITERATIONS)} is our reading.",
    )


def _later(draw: Draw) -> bool:
    place = {s: (reached(c, TOLERANCE).seconds, best_residual(c)) for s, c in draw.items()}
    return place["cgs-open-loop"] > max(place["cgs-armijo"], place["spg"])


def _first_iterations(draw: Draw, rival: str) -> float:
    """The ratio of residuals of 2/(k+2) to a rival's, as a geometric mean over the first iterations of both."""
    ours, its = (
        dict(zip(draw[solver].columns["iteration"], draw[solver].columns["residual"], strict=True))
        for solver in ("cgs-open-loop", rival)
    )
    common = [k for k in FIRST_ITERATIONS if ours.get(k, 0.0) > 0.0 and its.get(k, 0.0) > 0.0]
    return geometric_mean(ours[k] / its[k] for k in common) if common else math.inf


def _real_rivals(all_draws: Sequence[Draw]) -> Claim:
    to_spg = ratios(all_draws, "cgs-armijo", "spg", TOLERANCE)
    to_pqn = ratios(all_draws, "cgs-armijo", "pqn", TOLERANCE)
    spg, pqn = _seen(to_spg, lambda r: r < 1.0), _seen(to_pqn, lambda r: r < 1.0)
    return Claim(
        "On colon and lymphoma CGS is slightly more efficient than SPG, and more efficient than projected "
        "quasi-Newton.",
        f"CGS is at 1e-5 before SPG in {spg} (in the median it {takes(median(to_spg))}) and before PQN in {pqn} "
        f"(in the median it {takes(median(to_pqn))})."
        if to_spg and to_pqn
        else NOT_MEASURED,
        verdict(spg, pqn),
        _by_ridge(all_draws) + _pqn_iterations(all_draws) + "The test sets are so small that many pairs of "
        "hyper-parameters do equally well, and the paper does not say which it took.",
    )


def _rough(all_draws: Sequence[Draw]) -> Claim:
    rivals = ("cgs-armijo", "cg", "spg", "pqn")
    complete = [draw for draw in all_draws if "cgs-open-loop" in draw and any(rival in draw for rival in rivals)]
    place = [{s: reached(c, ROUGH).seconds for s, c in draw.items()} for draw in complete]
    first = [p["cgs-open-loop"] < min(p[rival] for rival in rivals if rival in p) for p in place]
    tally = Tally(sum(first), len(first))
    text = NOT_MEASURED
    if complete:
        present = [solver for solver in ("cgs-open-loop", *rivals, "newton") if any(solver in p for p in place)]
        medians = {solver: median(p[solver] for p in place if solver in p) for solver in present}
        order = [f"{SOLVERS[s].label} {duration(medians[s])}" for s in sorted(present, key=medians.__getitem__)]
        text = (
            f"It is the first of the paper's algorithms at 1e-2 in {tally}. Median times to 1e-2: {'; '.join(order)}."
        )
    return Claim(
        "On colon and lymphoma the fixed step 2/(k+2) is the most efficient for rough optimality, about 1e-2.",
        text,
        verdict(tally),
        _price(complete) + "It searches for no step; what counts is whether that makes up for its iterations.",
    )


def _price(all_draws: Sequence[Draw]) -> str:
    """A sentence on iterations to the rough level and what one costs."""
    told = []
    for solver in ("cgs-open-loop", "cgs-armijo", "spg", "pqn"):
        points = [reached(draw[solver], ROUGH) for draw in all_draws if solver in draw]
        there = [point for point in points if 0.0 < point.iteration < math.inf]
        if there:
            each = duration(median(point.seconds / point.iteration for point in there))
            told.append(f"{SOLVERS[solver].label} {median(point.iteration for point in there):.0f} of {each}")
    return (
        f"Iterations to 1e-2 and the time of one (medians of those that got there): {'; '.join(told)}. " if told else ""
    )
